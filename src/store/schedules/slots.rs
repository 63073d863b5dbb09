//! History of slots, for display.

use crate::domain::{PersonaId, ResponsibilityId, RunId, Timestamp};
use crate::store::db::Row;
use crate::store::schedules::responsibility::{UNREADABLE_TIME, time};
use crate::store::{ListPage, Result, Store};
use schemars::JsonSchema;
use serde::Serialize;

/// One row of a responsibility's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StoredSlot {
    pub slot_at: Timestamp,
    pub persona: PersonaId,
    pub responsibility_id: ResponsibilityId,
    /// Name of its responsibility.
    #[serde(rename = "name")]
    pub responsibility: String,
    /// `scheduled` or `manual`.
    pub kind: String,
    /// `waiting`, `fired`, `skipped_overlap`, `missed` or `paused`.
    pub state: String,
    /// `true`: the slot was found after a downtime.
    #[serde(rename = "late")]
    pub is_late: bool,
    pub missed_count: i64,
    pub missed_until: Option<Timestamp>,
    pub note: Option<String>,
    #[serde(rename = "run_id")]
    pub run: Option<RunId>,
    pub run_state: Option<String>,
}

impl StoredSlot {
    /// Returns its key in the list of all slots.
    pub fn key(&self) -> String {
        format!("{},{},{}", self.slot_at, self.responsibility_id, self.kind)
    }
}

const SLOTS: &str = "
    SELECT s.*, d.name, r.state AS run_state FROM responsibility_slots s
    JOIN responsibilities d ON d.id = s.responsibility_id LEFT JOIN runs r ON r.id = s.run_id
    WHERE ($1 IS NULL OR s.responsibility_id = $1)
      AND ($3 IS NULL OR (s.slot_at, s.responsibility_id, s.kind) < ($3, $4, $5))
    ORDER BY s.slot_at DESC, s.responsibility_id DESC, s.kind DESC LIMIT $2";

/// Slots of one-shots that count for a file: of its path, of the same responsibility under another
/// path, or of a file with the same name or prompt at the same instant. A missed slot does not
/// count.
const SERVED: &str = "
    SELECT r.file, s.state = 'waiting' AS is_waiting FROM responsibilities r
    JOIN responsibility_slots s ON s.responsibility_id = r.id
    WHERE r.persona_id = $1 AND r.schedule LIKE 'at %' AND s.kind = 'scheduled' AND s.state <> 'missed'
      AND (s.slot_at >= $6 AND (r.file = $2 OR (r.name = $3 AND r.prompt_sha256 = $4))
        OR s.slot_at = $5 AND (r.name = $3 OR r.prompt_sha256 = $4))";

/// A file with a one-shot whose instant passed before it was read.
#[derive(Debug, Clone, Copy)]
pub struct Overslept<'a> {
    pub persona: &'a PersonaId,
    /// Path below the persona's folder.
    pub file: &'a str,
    pub name: &'a str,
    pub prompt_sha256: &'a str,
    pub instant: Timestamp,
    pub written_at: Timestamp,
}

/// A slot of the same one-shot, of any row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedBy {
    /// Path below the persona's folder; the file need not be there any more.
    pub file: String,
    /// `true`: the slot has not begun, and ends with its file.
    pub is_waiting: bool,
}

impl Store {
    /// Returns the slots of a one-shot, without missed ones, since its file was written: rows of
    /// removed files count.
    pub async fn served_one_shot(&self, of: Overslept<'_>) -> Result<Vec<ServedBy>> {
        let rows = self
            .rows(
                SERVED,
                (
                    &of.persona,
                    of.file,
                    of.name,
                    of.prompt_sha256,
                    of.instant,
                    of.written_at,
                ),
            )
            .await?;
        let by = |row: &Row| ServedBy {
            file: row.get("file"),
            is_waiting: row.get("is_waiting"),
        };
        Ok(rows.iter().map(by).collect())
    }

    /// Returns the newest slots first; of one responsibility, or of all. The key of a slot is [`StoredSlot::key`].
    pub async fn responsibility_slots(
        &self,
        responsibility: Option<&ResponsibilityId>,
        page: ListPage<'_>,
    ) -> Result<Vec<StoredSlot>> {
        let mut key = page.after.into_iter().flat_map(|key| key.split(','));

        self.all(
            SLOTS,
            (
                responsibility,
                page.limit,
                key.next(),
                key.next(),
                key.next(),
            ),
        )
        .await
    }
}

from_row!(|row| StoredSlot {
    persona: "persona_id",
    responsibility_id,
    responsibility: "name",
    slot_at: { time(row, "slot_at")?.ok_or(UNREADABLE_TIME)? },
    kind,
    state,
    is_late,
    missed_count,
    missed_until: { time(row, "missed_until")? },
    note,
    run: "run_id",
    run_state
});
