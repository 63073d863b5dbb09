//! What became of slots, for people.

use super::runs::{persona_id, to_i64};
use super::schedules::{UNREADABLE_TIME, time};
use super::{Result, Store};
use crate::domain::{PersonaId, ResponsibilityId, RunId, Timestamp};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

/// One row of a responsibility's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSlot {
    pub persona: PersonaId,
    pub responsibility: String,
    pub slot_at: Timestamp,
    /// `scheduled` or `manual`.
    pub kind: String,
    /// `waiting`, `fired`, `skipped_overlap`, `missed` or `paused`.
    pub state: String,
    /// Found after a downtime.
    pub is_late: bool,
    pub missed_count: i64,
    pub missed_until: Option<Timestamp>,
    pub note: Option<String>,
    pub run: Option<RunId>,
    pub run_state: Option<String>,
}

pub(super) const SLOTS: &str = "
    SELECT s.*, d.name, r.state AS run_state FROM responsibility_slots s
    JOIN responsibilities d ON d.id = s.responsibility_id LEFT JOIN runs r ON r.id = s.run_id
    WHERE $1 IS NULL OR s.responsibility_id = $1
    ORDER BY s.slot_at DESC, s.responsibility_id LIMIT $2";

impl Store {
    /// The newest slots first; of one responsibility, or of all.
    pub async fn responsibility_slots(
        &self,
        responsibility: Option<&ResponsibilityId>,
        limit: usize,
    ) -> Result<Vec<StoredSlot>> {
        let slots = sqlx::query(SLOTS).bind(responsibility.map(ResponsibilityId::as_str)).bind(to_i64(limit));
        slots.fetch_all(self.readers()).await?.iter().map(stored_slot).collect()
    }
}

fn stored_slot(row: &SqliteRow) -> Result<StoredSlot> {
    Ok(StoredSlot {
        persona: persona_id(row)?,
        responsibility: row.get("name"),
        slot_at: time(row, "slot_at")?.ok_or(UNREADABLE_TIME)?,
        kind: row.get("kind"),
        state: row.get("state"),
        is_late: row.get("is_late"),
        missed_count: row.get("missed_count"),
        missed_until: time(row, "missed_until")?,
        note: row.get("note"),
        run: row.get::<Option<String>, _>("run_id").map(RunId::new),
        run_state: row.get("run_state"),
    })
}
