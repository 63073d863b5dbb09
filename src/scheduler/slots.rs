//! Which slots does a responsibility owe? Pure.

use super::duty::timing::Timing;
use crate::domain::Timestamp;
use crate::store::MissedSlots;
use std::time::Duration;

/// A slot older than this never fires.
pub const CATCH_UP_WINDOW: Duration = Duration::from_secs(7 * 24 * 3600);
/// Slots counted one by one after a long downtime; those between here and the window are left out of the count.
const COUNT_MAX: u64 = 50_000;

/// The slots after a cursor, up to an instant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Owed {
    /// The newest slot, when it is young enough to fire.
    pub newest: Option<Timestamp>,
    /// All older ones.
    pub missed: Option<MissedSlots>,
    /// The newest slot of all; `None` when nothing is owed.
    pub last: Option<Timestamp>,
    /// The first slot after that, in the future.
    pub next: Option<Timestamp>,
}

/// Adds up what is due in `(cursor, now]`: the newest slot fires, the rest is missed (catch up with the latest only).
pub fn owed(timing: &Timing, cursor: Timestamp, now: Timestamp) -> Owed {
    let too_old = now.minus(CATCH_UP_WINDOW);
    let mut owed = Owed::default();
    let mut at = cursor;
    let mut counted = 0;
    loop {
        let next = timing.next_after(at);
        let Some(slot) = next.filter(|slot| *slot <= now) else {
            owed.next = next;
            break;
        };
        if let Some(older) = owed.last.replace(slot) {
            count(&mut owed.missed, older);
            counted += 1;
        }
        at = if counted == COUNT_MAX { slot.max(too_old) } else { slot };
    }
    match owed.last {
        Some(last) if last > too_old => owed.newest = Some(last),
        Some(last) => count(&mut owed.missed, last),
        None => {}
    }
    owed
}

fn count(missed: &mut Option<MissedSlots>, slot: Timestamp) {
    match missed {
        Some(missed) => {
            missed.last = slot;
            missed.count += 1;
        }
        None => *missed = Some(MissedSlots { first: slot, last: slot, count: 1, note: None }),
    }
}
