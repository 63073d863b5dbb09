//! Paused responsibilities, which fire no slot until an operator resumes them: paused by a person,
//! or because their runs failed one after another. Slots that come due meanwhile are counted in one
//! row, so that every slot is accounted for.

use crate::clock::Clock;
use crate::domain::{PausedBy, ResponsibilityId, Timestamp};
use crate::store::db::{self, Connection, Scope};
use crate::store::schedules::firing::move_cursor;
use crate::store::schedules::responsibility::{MissedSlots, NextSlot, Version};
use crate::store::schedules::slot::{FAILURES_MAX, Firing};
use crate::store::schedules::slot_events;
use crate::store::schedules::slot_rows::{SlotRow, insert_slot};
use crate::store::schedules::waiting::end_waiting;
use crate::store::{Result, Store};

/// Most responsibilities that are paused in one pass; the others are found by the next.
const FAILING_MAX: i64 = 256;

const PAUSE: &str = "
    UPDATE responsibilities SET paused_at = $2, paused_by = $3
    WHERE id = $1 AND paused_at IS NULL AND removed_at IS NULL AND failures >= $4";
/// The first condition is the one of the index `responsibilities_failing`.
const FAILING: &str = "
    SELECT id FROM responsibilities
    WHERE failures > 0 AND failures >= $1 AND paused_at IS NULL AND removed_at IS NULL LIMIT $2";
const RESUME: &str = "
    UPDATE responsibilities SET paused_at = NULL, paused_by = NULL, failures = 0, next_slot_at = $4, fire_at = $5,
      is_done = $6, revision = revision + 1, cursor_at = $7, updated_at = $7
    WHERE id = $1 AND revision = $2 AND cursor_at = $3 AND paused_at IS NOT NULL";
/// The newest scheduled slot.
const NEWEST_SLOT: &str = "
    SELECT slot_at, state FROM responsibility_slots WHERE responsibility_id = $1 AND kind = 'scheduled'
    ORDER BY slot_at DESC LIMIT 1";
const GROW_PAUSED: &str = "
    UPDATE responsibility_slots SET missed_count = missed_count + $3, missed_until = $4
    WHERE responsibility_id = $1 AND slot_at = $2 AND kind = 'scheduled'";

impl Store {
    /// Pauses a responsibility and ends its waiting slots. `false`: it was paused before, or its
    /// file is gone.
    pub async fn pause_responsibility(
        &self,
        id: &ResponsibilityId,
        by: PausedBy,
        now: Timestamp,
    ) -> Result<bool> {
        let (id, clock) = (id.clone(), self.clock().clone());
        transact!(self, Scope::of_responsibility(&id), |conn| {
            let paused = pause(conn, &id, by, now, clock.as_ref()).await?;
            crate::crash::crash_point!("SC6", paused);
            Ok(paused)
        })
        .await
    }

    /// Pauses responsibilities that failed [`FAILURES_MAX`] times in a row; returns their ids.
    pub async fn pause_failing(&self, now: Timestamp) -> Result<Vec<ResponsibilityId>> {
        let failing: Vec<String> = self.all(FAILING, (FAILURES_MAX, FAILING_MAX)).await?;
        let mut paused = Vec::new();
        for id in failing.into_iter().map(ResponsibilityId::new) {
            if self
                .pause_responsibility(&id, PausedBy::Failures, now)
                .await?
            {
                paused.push(id);
            }
        }
        Ok(paused)
    }

    /// Resumes a responsibility from now on; its failures are counted anew. `lapsed`: slots that
    /// came due since and were not accounted for. `false`: it is not paused, or its version has
    /// changed.
    pub async fn resume_responsibility(
        &self,
        id: &ResponsibilityId,
        seen: Version,
        lapsed: Option<MissedSlots>,
        next: NextSlot,
        now: Timestamp,
    ) -> Result<bool> {
        let id = id.clone();
        transact!(self, Scope::of_responsibility(&id), |conn| {
            if conn
                .exec(
                    RESUME,
                    (
                        &id,
                        seen.revision,
                        seen.cursor_at,
                        next.at,
                        next.fire_at,
                        next.is_done,
                        now,
                    ),
                )
                .await?
                == 0
            {
                return Ok(false);
            }
            if let Some(lapsed) = lapsed {
                count_paused(conn, &id, &lapsed, now).await?;
            }
            Ok(true)
        })
        .await
    }

    /// Accounts for slots that came due while their responsibility is paused: only `missed` of the
    /// firing is used. `false`: its version has changed.
    pub async fn pass_paused(&self, firing: Firing) -> Result<bool> {
        transact!(
            self,
            Scope::of_responsibility(&firing.responsibility),
            |conn| {
                if !move_cursor(conn, &firing, true).await? {
                    return Ok(false);
                }
                if let Some(missed) = &firing.missed {
                    count_paused(conn, &firing.responsibility, missed, firing.now).await?;
                }
                Ok(true)
            }
        )
        .await
    }
}

async fn pause(
    conn: &mut Connection,
    id: &ResponsibilityId,
    by: PausedBy,
    now: Timestamp,
    clock: &dyn Clock,
) -> Result<bool> {
    let failures_min = if by == PausedBy::Failures {
        FAILURES_MAX
    } else {
        0
    };
    let pause = db::query(PAUSE).bind((id, now, &by));
    if pause.bind(failures_min).exec(&mut *conn).await? == 0 {
        return Ok(false);
    }
    end_waiting(conn, id, "paused", now, None).await?;
    if by == PausedBy::Failures {
        slot_events::responsibility_paused(conn, id, now, clock).await?;
    }
    Ok(true)
}

/// Adds slots to the row of slots that came due while paused, which is the newest row, or creates
/// it.
async fn count_paused(
    conn: &mut Connection,
    id: &ResponsibilityId,
    passed: &MissedSlots,
    now: Timestamp,
) -> Result<()> {
    let newest = conn.maybe_row(NEWEST_SLOT, id).await?;
    let growing = newest.filter(|row| row.get::<&str>("state") == "paused");
    let Some(growing) = growing else {
        let row = SlotRow {
            missed: Some(passed),
            ..SlotRow::new("paused")
        };
        insert_slot(conn, id, passed.first, &row, now).await?;
        return Ok(());
    };

    conn.exec(
        GROW_PAUSED,
        (
            id,
            growing.get::<String>("slot_at"),
            i64::try_from(passed.count).unwrap_or(i64::MAX),
            passed.last,
        ),
    )
    .await?;
    Ok(())
}
