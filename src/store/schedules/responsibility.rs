//! A responsibility as a value: its row, the version that a change names, its next slot, and ranges
//! of missed slots.

use crate::domain::{
    PausedBy, PersonaId, ResponsibilityId, RunOptions, SlotOptions, ThreadId, Timestamp,
};
use crate::store::db::Row;
use crate::store::schedules::run_options::{run_options, slot_options};
use crate::store::{Result, StoreError};
use chrono_tz::Tz;

/// A responsibility as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResponsibility {
    pub id: ResponsibilityId,
    pub persona: PersonaId,
    /// Path below the persona's folder.
    pub file: String,
    pub name: String,
    /// Five-field cron expression; empty when the file was never usable.
    pub schedule: String,
    /// IANA time zone name.
    pub timezone: String,
    pub enabled: bool,
    /// Template of the prompt.
    pub prompt: String,
    /// Micro-dollars that each of its runs may cost.
    pub budget_micros: Option<i64>,
    /// JSON Schema of its answers.
    pub output_schema: Option<String>,
    pub slot_options: SlotOptions,
    pub run_options: RunOptions,
    pub version: Version,
    pub next: NextSlot,
    pub paused: Option<Paused>,
    /// Number of failed runs since the last success.
    pub failures: u32,
    /// Thread of its newest run; `None` before the first run.
    pub thread: Option<ThreadId>,
    /// Mark of the file's state when it was read, in the scheduler's format.
    pub mark: Option<String>,
    pub removed_at: Option<Timestamp>,
    /// Error because of which the file cannot be used now: it names file and line.
    pub error: Option<String>,
    /// The newest scheduled slot that became a run.
    pub last_fired_at: Option<Timestamp>,
    /// The newest scheduled slot whose run succeeded.
    pub last_succeeded_at: Option<Timestamp>,
}

impl StoredResponsibility {
    /// Returns its time zone; UTC where the file names none that is known.
    pub fn zone(&self) -> Tz {
        self.timezone.parse().unwrap_or(Tz::UTC)
    }
}

/// Begin and actor of a pause: no slot fires until an operator resumes the responsibility.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paused {
    pub at: Timestamp,
    pub by: PausedBy,
}

/// Version that a change was computed from; a change of another version is not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    pub revision: i64,
    /// No slot at or before this instant fires again.
    pub cursor_at: Timestamp,
}

/// Slots that will never fire, as one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissedSlots {
    pub first: Timestamp,
    pub last: Timestamp,
    pub count: u64,
    /// Reason, unless it is only that no engine ran.
    pub note: Option<String>,
}

impl MissedSlots {
    /// Most slots that are counted one by one after a long downtime; beyond that some are left out,
    /// so that a larger number is a lower bound.
    pub const COUNTED_MAX: u64 = 50_000;
}

/// The next slot of a responsibility.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NextSlot {
    pub at: Option<Timestamp>,
    /// Instant at which it fires.
    pub fire_at: Option<Timestamp>,
    /// `true`: no further slot will come.
    pub is_done: bool,
}

from_row!(|row| StoredResponsibility {
    id,
    persona: "persona_id",
    file,
    name,
    schedule,
    timezone,
    enabled,
    prompt,
    budget_micros,
    output_schema,
    version: {
        Version {
            revision: row.get("revision"),
            cursor_at: time(row, "cursor_at")?.ok_or(UNREADABLE_TIME)?,
        }
    },
    slot_options: { slot_options(row.get("slot_options_json"))? },
    run_options: { run_options(row.get("run_options_json"))? },
    next: {
        NextSlot {
            at: time(row, "next_slot_at")?,
            fire_at: time(row, "fire_at")?,
            is_done: row.get("is_done"),
        }
    },
    paused: {
        match (
            time(row, "paused_at")?,
            row.get::<Option<&str>>("paused_by")
                .and_then(PausedBy::parse),
        ) {
            (Some(at), Some(by)) => Some(Paused { at, by }),
            _ => None,
        }
    },
    failures,
    thread: "thread_id",
    mark,
    removed_at: { time(row, "removed_at")? },
    error,
    last_fired_at: { time(row, "last_fired_at")? },
    last_succeeded_at: { time(row, "last_succeeded_at")? }
});

pub const UNREADABLE_TIME: StoreError = StoreError::Unreadable {
    what: "time of a responsibility",
};

pub fn time(row: &Row, column: &str) -> Result<Option<Timestamp>> {
    let text: Option<&str> = row.get(column);
    text.map(|text| Timestamp::parse(text).ok_or(UNREADABLE_TIME))
        .transpose()
}

/// Merges two ranges of missed slots into one event.
pub fn merged(one: Option<MissedSlots>, other: Option<MissedSlots>) -> Option<MissedSlots> {
    match (one, other) {
        (Some(one), Some(other)) => Some(MissedSlots {
            first: one.first.min(other.first),
            last: one.last.max(other.last),
            count: one.count + other.count,
            note: one.note.or(other.note),
        }),
        (one, other) => one.or(other),
    }
}
