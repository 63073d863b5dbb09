//! Responsibilities as rows of their files. Every change names the version of the row that it was
//! computed from. The due times of slots are computed by the scheduler; slots become runs in
//! `firing.rs`.

use crate::domain::{ResponsibilityId, Timestamp};
use crate::store::db::Scope;
use crate::store::schedules::responsibility::{NextSlot, StoredResponsibility, Version};
use crate::store::{Result, Store};
use serde_json::{Value, json};

const RESPONSIBILITIES: &str = "
    SELECT r.*, (SELECT max(s.slot_at) FROM responsibility_slots s WHERE s.responsibility_id = r.id
      AND s.kind = 'scheduled' AND s.state = 'fired') AS last_fired_at,
      (SELECT s.slot_at FROM responsibility_slots s JOIN runs u ON u.id = s.run_id
      WHERE s.responsibility_id = r.id AND s.kind = 'scheduled' AND u.state = 'succeeded'
      ORDER BY s.slot_at DESC LIMIT 1) AS last_succeeded_at
    FROM responsibilities r ORDER BY r.persona_id, r.file";
/// Due responsibilities after a position in the order. A NULL `fire_at`: the next slot was not
/// searched for yet.
const DUE_RESPONSIBILITIES: &str = "
    SELECT r.*, (SELECT max(s.slot_at) FROM responsibility_slots s WHERE s.responsibility_id = r.id
      AND s.kind = 'scheduled' AND s.state = 'fired') AS last_fired_at,
      (SELECT s.slot_at FROM responsibility_slots s JOIN runs u ON u.id = s.run_id
      WHERE s.responsibility_id = r.id AND s.kind = 'scheduled' AND u.state = 'succeeded'
      ORDER BY s.slot_at DESC LIMIT 1) AS last_succeeded_at
    FROM responsibilities r
    WHERE r.enabled = 1 AND r.removed_at IS NULL AND r.error IS NULL AND r.is_done = 0
      AND coalesce(r.fire_at, '') <= $1 AND (coalesce(r.fire_at, ''), r.id) > ($2, $3)
    ORDER BY coalesce(r.fire_at, ''), r.id LIMIT $4";
const SET_MARKS: &str = "
    UPDATE responsibilities SET mark = m.value ->> 1 FROM jsonb_each($1) AS m
    WHERE responsibilities.id = m.value ->> 0";
pub const SET_NEXT_SLOT: &str = "
    UPDATE responsibilities SET next_slot_at = $4, fire_at = $5, is_done = $6 WHERE id = $1 AND revision = $2 AND cursor_at = $3";
impl Store {
    /// Returns every responsibility, removed ones included, by persona and file.
    pub async fn responsibilities(&self) -> Result<Vec<StoredResponsibility>> {
        self.all(RESPONSIBILITIES, ()).await
    }

    /// Returns up to `limit` active responsibilities that are due at `now`, the longest due first;
    /// `after` is the last one of the previous page.
    pub async fn due_responsibilities(
        &self,
        now: Timestamp,
        after: Option<&StoredResponsibility>,
        limit: usize,
    ) -> Result<Vec<StoredResponsibility>> {
        let fire_at = after
            .and_then(|row| row.next.fire_at)
            .map(|at| at.to_string())
            .unwrap_or_default();

        self.all(
            DUE_RESPONSIBILITIES,
            (now, fire_at, after.map_or("", |row| row.id.as_str()), limit),
        )
        .await
    }

    /// Records the marks of files whose rows are up to date.
    pub async fn mark_responsibilities(
        &self,
        marks: Vec<(ResponsibilityId, Option<String>)>,
    ) -> Result<()> {
        if marks.is_empty() {
            return Ok(());
        }
        let marks =
            Value::from_iter(marks.iter().map(|(id, mark)| json!([id.as_str(), mark]))).to_string();
        transact!(self, Scope::Rows, |conn| {
            conn.exec(SET_MARKS, marks).await?;
            Ok(())
        })
        .await
    }

    /// Stores a next slot that was computed anew (other zone data); a row whose version has changed
    /// stays as it is.
    pub async fn set_next_slot(
        &self,
        id: &ResponsibilityId,
        seen: Version,
        next: NextSlot,
    ) -> Result<()> {
        let id = id.as_str().to_owned();
        transact!(self, Scope::persona_of("responsibilities", &id), |conn| {
            conn.exec(
                SET_NEXT_SLOT,
                (
                    id,
                    seen.revision,
                    seen.cursor_at,
                    next.at,
                    next.fire_at,
                    next.is_done,
                ),
            )
            .await?;
            Ok(())
        })
        .await
    }
}
