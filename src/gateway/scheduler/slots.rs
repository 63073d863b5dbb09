//! Computes the due slots of a responsibility and their outcome. Pure.

use crate::domain::{CatchUp, ResponsibilityId, SlotOptions, Timestamp, stable_seed};
use crate::schedule_file::timing::Timing;
use crate::store::{MissedSlots, NextSlot};
use std::collections::VecDeque;
use std::time::Duration;

/// Delay after its firing time from which on a slot counts as late, because no scheduler ticked.
pub const LATE_AFTER: Duration = Duration::from_secs(60);
/// Delay before an unsuccessful search for the next slot is repeated.
pub const SEARCH_AGAIN_AFTER: Duration = Duration::from_secs(3600);
/// Offsets from which an unsuccessful search is repeated: after a gap, after a century year without
/// a leap day.
const LATER_ORIGINS: [Duration; 3] = [days(2), days(60), days(366 * 8)];

const fn days(n: u64) -> Duration {
    Duration::from_secs(n * 24 * 3600)
}

/// A responsibility in force, from which slots are computed.
#[derive(Debug, Clone, Copy)]
pub struct ScheduleInForce<'a> {
    pub id: &'a ResponsibilityId,
    pub timing: &'a Timing,
    pub options: &'a SlotOptions,
}

/// The slots after a cursor whose firing time has come.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DueSlots {
    /// The newest slot, when it is not late: it fires now.
    pub on_time: Option<Timestamp>,
    /// Late slots to catch up with, oldest first; empty when the newest slot is on time, except
    /// with `catch_up: all`, where that slot comes last.
    pub late: Vec<Timestamp>,
    /// All other slots; they are older than those above.
    pub missed: Option<MissedSlots>,
    /// The newest slot of all; `None` when none is due.
    pub last: Option<Timestamp>,
    /// The slot after `last`.
    pub next: NextSlot,
}

impl DueSlots {
    /// All due slots as one row.
    pub fn all(&self) -> Option<MissedSlots> {
        let mut all = self.missed.clone();
        self.late
            .iter()
            .chain(&self.on_time)
            .for_each(|slot| count(&mut all, Some(*slot)));
        all
    }

    /// Reports whether no next slot was found although the timing has not ended.
    pub fn is_stuck(&self) -> bool {
        self.next.at.is_none() && !self.next.is_done
    }
}

impl ScheduleInForce<'_> {
    /// Sorts the slots in `(cursor, now]` by their outcome. A slot counts once its firing time has
    /// come.
    pub fn due(&self, cursor: Timestamp, now: Timestamp) -> DueSlots {
        let kept_max = match self.options.catch_up {
            CatchUp::All => SlotOptions::CAUGHT_UP_MAX,
            CatchUp::Latest | CatchUp::Skip => 1,
        };
        let too_old = now.minus(self.options.catch_up_window);
        let (mut due, mut kept, mut counted) = (DueSlots::default(), VecDeque::new(), 0);
        let mut at = cursor;
        loop {
            let next = self.next_after(at);
            let Some(slot) = next.filter(|slot| self.has_begun(*slot, now)) else {
                due.next = self.next_slot(next, now);
                break;
            };
            due.last = Some(slot);
            kept.push_back(slot);
            if kept.len() > kept_max {
                count(&mut due.missed, kept.pop_front());
                counted += 1;
            }
            at = if counted == MissedSlots::COUNTED_MAX {
                slot.max(too_old.minus(self.options.jitter))
            } else {
                slot
            };
        }
        while kept
            .front()
            .is_some_and(|slot| self.fire_at(*slot) <= too_old)
        {
            count(&mut due.missed, kept.pop_front());
        }
        let is_late = |slot: &Timestamp| now.since(self.fire_at(*slot)) > LATE_AFTER;
        match self.options.catch_up {
            _ if kept.len() == 1 && !kept.iter().any(is_late) => due.on_time = kept.pop_back(),
            CatchUp::Skip => count(&mut due.missed, kept.pop_front()),
            CatchUp::Latest | CatchUp::All => due.late = kept.into(),
        }
        due
    }

    /// Every slot in `(cursor, now]`, including those whose firing time is later.
    pub fn lapsed(&self, cursor: Timestamp, now: Timestamp) -> Option<MissedSlots> {
        let (mut missed, mut at, mut counted) = (None, cursor, 0);
        while let Some(slot) = self.next_after(at).filter(|slot| *slot <= now) {
            count(&mut missed, Some(slot));
            counted += 1;
            at = if counted == MissedSlots::COUNTED_MAX {
                slot.max(now.minus(self.options.catch_up_window))
            } else {
                slot
            };
        }
        missed
    }

    /// The slot after `after`, in the format of a row.
    pub fn next(&self, after: Timestamp, now: Timestamp) -> NextSlot {
        self.next_slot(self.next_after(after), now)
    }

    /// Firing time of a slot: later than the slot by a fixed share of the jitter.
    pub fn fire_at(&self, slot: Timestamp) -> Timestamp {
        let jitter_ms = self.options.jitter.as_millis();
        if jitter_ms == 0 {
            return slot;
        }
        let share = u128::from(stable_seed(&format!("{} {slot}", self.id))) % jitter_ms;
        slot.plus(Duration::from_millis(
            u64::try_from(share).unwrap_or_default(),
        ))
    }

    fn has_begun(&self, slot: Timestamp, now: Timestamp) -> bool {
        slot <= now && (slot.plus(self.options.jitter) <= now || self.fire_at(slot) <= now)
    }

    /// Finds the next slot. If the search fails although the timing does not end, it is repeated
    /// from later origins: croner gives up at gaps that it cannot cross (the row of Apia in
    /// `schedules.md`).
    fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let found = self.timing.next_after(after);
        if found.is_some() || self.timing.ends() {
            return found;
        }
        LATER_ORIGINS
            .iter()
            .find_map(|later| self.timing.next_after(after.plus(*later)))
    }

    fn next_slot(&self, at: Option<Timestamp>, now: Timestamp) -> NextSlot {
        let is_done = at.is_none() && self.timing.ends();
        let again_at = (!is_done).then(|| now.plus(SEARCH_AGAIN_AFTER));
        NextSlot {
            at,
            fire_at: at.map(|at| self.fire_at(at)).or(again_at),
            is_done,
        }
    }
}

fn count(missed: &mut Option<MissedSlots>, slot: Option<Timestamp>) {
    let Some(slot) = slot else { return };
    match missed {
        Some(missed) => {
            missed.last = slot;
            missed.count += 1;
        }
        None => {
            *missed = Some(MissedSlots {
                first: slot,
                last: slot,
                count: 1,
                note: None,
            });
        }
    }
}
