//! Rows that wait for an instant of the wall clock, after that clock was wrong: when it is set
//! back, they would all wait that much longer.
//!
//! Absent on purpose: runs that wait for a budget account, since their day or month does end later.

use crate::domain::Timestamp;
use crate::store::db::{Connection, Scope};
use crate::store::{Result, Store};
use std::time::Duration;

/// Distance ahead of the clock above which a cursor is pulled back; the clock makes up for a
/// smaller one soon.
const AHEAD_MAX: Duration = Duration::from_secs(24 * 3600);
static CLOCK_WAS_WRONG: &str = "the clock was wrong when it came due";

/// A mail that waits on purpose, by `undo` or for a wanted instant, keeps it: it must not leave early.
const MOVE_DELIVERIES: &str = "
    UPDATE deliveries SET next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', next_attempt_at, $2)
    WHERE state IN ('queued', 'sending', 'committing') AND state = 'queued' AND next_attempt_at > $1
      AND (attempts > 0 OR NOT EXISTS (SELECT 1 FROM messages m WHERE m.id = deliveries.message_id AND m.received_at < deliveries.created_at))";
const MOVE_RECIPIENTS: &str = "
    UPDATE delivery_recipients SET next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', next_attempt_at, $2)
    WHERE next_attempt_at > $1 AND delivery_id IN (
      SELECT id FROM deliveries WHERE state IN ('queued', 'sending', 'committing') AND state = 'queued'
        AND (attempts > 0 OR NOT EXISTS (SELECT 1 FROM messages m WHERE m.id = deliveries.message_id AND m.received_at < deliveries.created_at)))";
const MOVE_RUNS: &str = "
    UPDATE runs SET next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', next_attempt_at, $2)
    WHERE state IN ('queued', 'running', 'waiting_approval', 'waiting_retry') AND state = 'waiting_retry'
      AND next_attempt_at > $1 AND error_class IS DISTINCT FROM 'budget'";
const MOVE_SLOTS: &str = "
    UPDATE responsibility_slots SET overdue_at = strftime('%Y-%m-%dT%H:%M:%fZ', overdue_at, $2)
    WHERE overdue_at IS NOT NULL AND overdue_at > $1";
const END_AHEAD: &str = "
    UPDATE responsibility_slots SET state = 'missed', missed_count = 1, missed_until = slot_at, note = $2, overdue_at = NULL,
      state_at = $3
    WHERE state = 'waiting' AND responsibility_id IN (
      SELECT id FROM responsibilities WHERE cursor_at > $1 AND removed_at IS NULL)";
/// A NULL `fire_at`: the next slot is looked up with the next tick. A slot that has a row from the
/// wrong time does not fire again.
const PULL_CURSORS: &str = "
    UPDATE responsibilities SET cursor_at = $2, updated_at = $2, next_slot_at = NULL, fire_at = NULL,
      revision = revision + 1
    WHERE cursor_at > $1 AND removed_at IS NULL";
const BOUND_DELIVERIES: &str = "
    UPDATE deliveries SET next_attempt_at = $1
    WHERE state IN ('queued', 'sending', 'committing') AND state = 'queued' AND next_attempt_at > $2
      AND (attempts > 0 OR NOT EXISTS (SELECT 1 FROM messages m WHERE m.id = deliveries.message_id AND m.received_at < deliveries.created_at))";

impl Store {
    /// Brings waiting rows forward by `back`, because the wall clock was set back by that much.
    /// Returns the number of mails and runs.
    pub async fn bring_forward(&self, back: Duration) -> Result<u64> {
        let clock_now = self.clock().now();
        let now = clock_now.to_string();
        let shift = format!("-{}.{:03} seconds", back.as_secs(), back.subsec_millis());
        transact!(self, Scope::Engine, |conn| {
            let mut moved = 0;
            // The recipients first: they are found by the old times of their deliveries.
            for sql in [MOVE_RECIPIENTS, MOVE_DELIVERIES, MOVE_RUNS, MOVE_SLOTS] {
                let changed = conn.exec(sql, (&now, &shift)).await?;
                moved += if sql == MOVE_RECIPIENTS || sql == MOVE_SLOTS {
                    0
                } else {
                    changed
                };
            }
            pull_cursors(conn, clock_now).await?;
            Ok(moved)
        })
        .await
    }

    /// Moves cursors back to the present that are far in the future because the clock was wrong for
    /// a time: their responsibilities would not fire until then. Returns their number.
    pub async fn pull_cursors_back(&self) -> Result<u64> {
        let now = self.clock().now();
        transact!(self, Scope::Engine, |conn| pull_cursors(conn, now).await).await
    }

    /// Makes mails due that wait longer than the longest possible wait: the clock was set back
    /// while no engine was running. Returns their number.
    pub async fn bound_delivery_waits(&self, wait_max: Duration) -> Result<u64> {
        let now = self.clock().now();
        let latest = now.plus(wait_max);
        transact!(self, Scope::Engine, |conn| {
            conn.exec(BOUND_DELIVERIES, (now, latest)).await
        })
        .await
    }
}

async fn pull_cursors(conn: &mut Connection, now: Timestamp) -> Result<u64> {
    let latest = now.plus(AHEAD_MAX).to_string();
    conn.exec(END_AHEAD, (&latest, CLOCK_WAS_WRONG, now))
        .await?;
    conn.exec(PULL_CURSORS, (&latest, now)).await
}
