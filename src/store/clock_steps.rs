//! What waits for an instant of the wall clock, when that clock was wrong: set back, everything would wait that much
//! longer.
//!
//! Absent on purpose: runs that wait for a purse, since their day or month does end later.

use super::{Result, Store};
use std::time::Duration;

pub(super) const MOVE_DELIVERIES: &str = "
    UPDATE deliveries SET next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', next_attempt_at, $2)
    WHERE state IN ('queued', 'sending', 'committing') AND state = 'queued' AND next_attempt_at > $1";
pub(super) const MOVE_RECIPIENTS: &str = "
    UPDATE delivery_recipients SET next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', next_attempt_at, $2)
    WHERE next_attempt_at > $1 AND delivery_id IN (
      SELECT id FROM deliveries WHERE state IN ('queued', 'sending', 'committing') AND state = 'queued')";
pub(super) const MOVE_RUNS: &str = "
    UPDATE runs SET next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', next_attempt_at, $2)
    WHERE state IN ('queued', 'running', 'waiting_approval', 'waiting_retry') AND state = 'waiting_retry'
      AND next_attempt_at > $1 AND error_class IS NOT 'budget'";
pub(super) const MOVE_SLOTS: &str = "
    UPDATE responsibility_slots SET overdue_at = strftime('%Y-%m-%dT%H:%M:%fZ', overdue_at, $2)
    WHERE overdue_at IS NOT NULL AND overdue_at > $1";
pub(super) const BOUND_DELIVERIES: &str = "
    UPDATE deliveries SET next_attempt_at = $1
    WHERE state IN ('queued', 'sending', 'committing') AND state = 'queued' AND next_attempt_at > $2";

impl Store {
    /// Brings forward by `back` what waits, because the wall clock was set back by that much; how many mails and runs.
    pub async fn bring_forward(&self, back: Duration) -> Result<u64> {
        let now = self.clock().now().to_string();
        let shift = format!("-{}.{:03} seconds", back.as_secs(), back.subsec_millis());
        self.write(move |conn| {
            Box::pin(async move {
                let mut moved = 0;
                // The recipients first: they are found by the deliveries as they were.
                for sql in [MOVE_RECIPIENTS, MOVE_DELIVERIES, MOVE_RUNS, MOVE_SLOTS] {
                    let update = sqlx::query(sql).bind(&now).bind(&shift);
                    let changed = update.execute(&mut *conn).await?.rows_affected();
                    moved += if sql == MOVE_RECIPIENTS || sql == MOVE_SLOTS { 0 } else { changed };
                }
                Ok(moved)
            })
        })
        .await
    }

    /// Makes mails due that wait longer than anything can be made to wait: the clock was set back while no engine
    /// served. How many.
    pub async fn bound_delivery_waits(&self, wait_max: Duration) -> Result<u64> {
        let now = self.clock().now();
        let latest = now.plus(wait_max);
        self.write(move |conn| {
            Box::pin(async move {
                let bound = sqlx::query(BOUND_DELIVERIES).bind(now.to_string()).bind(latest.to_string());
                Ok(bound.execute(conn).await?.rows_affected())
            })
        })
        .await
    }
}
