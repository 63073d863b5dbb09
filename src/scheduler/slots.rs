//! Which slots does a responsibility owe, and what becomes of them? Pure.

use super::duty::timing::Timing;
use crate::domain::{CatchUp, ResponsibilityId, SlotTerms, Timestamp, stable_seed};
use crate::store::{MissedSlots, NextSlot};
use std::collections::VecDeque;
use std::time::Duration;

/// A slot that is found later than this after it was to fire came due while nobody looked.
pub const LATE_AFTER: Duration = Duration::from_secs(60);
/// When a search for the next slot that found nothing is tried again.
pub const SEARCH_AGAIN_AFTER: Duration = Duration::from_secs(3600);
/// How much later a search begins anew that found nothing: past a gap, past a leap year that is none.
const LATER_ORIGINS: [Duration; 3] = [days(2), days(60), days(366 * 8)];

const fn days(n: u64) -> Duration {
    Duration::from_secs(n * 24 * 3600)
}

/// Of what slots are owed: a responsibility in force.
#[derive(Debug, Clone, Copy)]
pub struct Dues<'a> {
    pub id: &'a ResponsibilityId,
    pub timing: &'a Timing,
    pub terms: &'a SlotTerms,
}

/// The slots after a cursor that are to have begun at an instant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Owed {
    /// The newest slot, when it is found in time: it fires now.
    pub on_time: Option<Timestamp>,
    /// Slots to catch up with, the oldest first; none when one is in time, except with `catch_up: all`, where that one
    /// comes last.
    pub late: Vec<Timestamp>,
    /// All others; they are older than those above.
    pub missed: Option<MissedSlots>,
    /// The newest slot of all; `None` when nothing is owed.
    pub last: Option<Timestamp>,
    /// What comes after it.
    pub next: NextSlot,
}

impl Owed {
    /// All of them as one row.
    pub fn all(&self) -> Option<MissedSlots> {
        let mut all = self.missed.clone();
        self.late.iter().chain(&self.on_time).for_each(|slot| count(&mut all, Some(*slot)));
        all
    }

    /// Nothing was found where something must come.
    pub fn is_stuck(&self) -> bool {
        self.next.at.is_none() && !self.next.is_done
    }
}

impl Dues<'_> {
    /// Sorts what is due in `(cursor, now]` by what becomes of it. A slot belongs to it once it is to fire.
    pub fn owed(&self, cursor: Timestamp, now: Timestamp) -> Owed {
        let kept_max = match self.terms.catch_up {
            CatchUp::All => SlotTerms::CAUGHT_UP_MAX,
            CatchUp::Latest | CatchUp::Skip => 1,
        };
        let too_old = now.minus(self.terms.catch_up_window);
        let (mut owed, mut kept, mut counted) = (Owed::default(), VecDeque::new(), 0);
        let mut at = cursor;
        loop {
            let next = self.next_after(at);
            let Some(slot) = next.filter(|slot| self.has_begun(*slot, now)) else {
                owed.next = self.next_slot(next, now);
                break;
            };
            owed.last = Some(slot);
            kept.push_back(slot);
            if kept.len() > kept_max {
                count(&mut owed.missed, kept.pop_front());
                counted += 1;
            }
            at = if counted == MissedSlots::COUNTED_MAX {
                slot.max(too_old.minus(self.terms.jitter))
            } else {
                slot
            };
        }
        while kept.front().is_some_and(|slot| self.fire_at(*slot) <= too_old) {
            count(&mut owed.missed, kept.pop_front());
        }
        let is_late = |slot: &Timestamp| now.since(self.fire_at(*slot)) > LATE_AFTER;
        match self.terms.catch_up {
            _ if kept.len() == 1 && !kept.iter().any(is_late) => owed.on_time = kept.pop_back(),
            CatchUp::Skip => count(&mut owed.missed, kept.pop_front()),
            CatchUp::Latest | CatchUp::All => owed.late = kept.into(),
        }
        owed
    }

    /// Every slot in `(cursor, now]`, also those that are to fire later.
    pub fn lapsed(&self, cursor: Timestamp, now: Timestamp) -> Option<MissedSlots> {
        let (mut missed, mut at, mut counted) = (None, cursor, 0);
        while let Some(slot) = self.next_after(at).filter(|slot| *slot <= now) {
            count(&mut missed, Some(slot));
            counted += 1;
            at = if counted == MissedSlots::COUNTED_MAX {
                slot.max(now.minus(self.terms.catch_up_window))
            } else {
                slot
            };
        }
        missed
    }

    /// What comes after `after`, as a row keeps it.
    pub fn next(&self, after: Timestamp, now: Timestamp) -> NextSlot {
        self.next_slot(self.next_after(after), now)
    }

    /// When a slot fires: later than it is due by its own share of the jitter, always the same.
    pub fn fire_at(&self, slot: Timestamp) -> Timestamp {
        let jitter_ms = self.terms.jitter.as_millis();
        if jitter_ms == 0 {
            return slot;
        }
        let share = u128::from(stable_seed(&format!("{} {slot}", self.id))) % jitter_ms;
        slot.plus(Duration::from_millis(u64::try_from(share).unwrap_or_default()))
    }

    fn has_begun(&self, slot: Timestamp, now: Timestamp) -> bool {
        slot <= now && (slot.plus(self.terms.jitter) <= now || self.fire_at(slot) <= now)
    }

    /// A search that ends without an answer, though the timing does not, is made anew from later origins: croner gives up
    /// at gaps that it cannot cross (the row of Apia in `schedules.md`).
    fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let found = self.timing.next_after(after);
        if found.is_some() || self.timing.ends() {
            return found;
        }
        LATER_ORIGINS.iter().find_map(|later| self.timing.next_after(after.plus(*later)))
    }

    fn next_slot(&self, at: Option<Timestamp>, now: Timestamp) -> NextSlot {
        let is_done = at.is_none() && self.timing.ends();
        let again_at = (!is_done).then(|| now.plus(SEARCH_AGAIN_AFTER));
        NextSlot { at, fire_at: at.map(|at| self.fire_at(at)).or(again_at), is_done }
    }
}

fn count(missed: &mut Option<MissedSlots>, slot: Option<Timestamp>) {
    let Some(slot) = slot else { return };
    match missed {
        Some(missed) => {
            missed.last = slot;
            missed.count += 1;
        }
        None => *missed = Some(MissedSlots { first: slot, last: slot, count: 1, note: None }),
    }
}
