//! Questions that nobody answered in time, and questions of runs that a later letter of their thread overtook.

use super::decide::decide;
use super::record::{ApprovalVerdict, NewDecision};
use crate::clock::Clock;
use crate::domain::Timestamp;
use crate::store::db::{Connection, Scope};
use crate::store::journal::steps::CLOSE_CALL;
use crate::store::{Result, Store};
use serde_json::json;

/// Most questions that one pass ends.
const SWEEP_MAX: i64 = 100;

const EXPIRED_APPROVALS: &str = "SELECT id FROM approvals WHERE state = 'open' AND expires_at <= $1 ORDER BY expires_at LIMIT $2";
/// A letter that came later in the thread is answered by a run that reads both.
const OVERTAKEN_RUNS: &str = "
    SELECT r.id FROM runs r
    WHERE r.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry') AND r.state = 'waiting_approval'
      AND EXISTS (SELECT 1 FROM runs n WHERE n.thread_id = r.thread_id AND n.seq > r.seq AND n.trigger = 'email'
        AND n.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry') AND n.state = 'queued')
    ORDER BY r.seq LIMIT $1";
const END_OVERTAKEN: &str = "
    UPDATE runs SET state = 'cancelled', stop_reason = 'cancelled', error_class = 'cancelled',
      error_message = 'a later letter of the thread is answered in its place', finished_at = $2
    WHERE id = $1 AND state = 'waiting_approval'";
const OPEN_OF_RUN: &str =
    "SELECT id, call_id, tool, parks FROM approvals WHERE run_id = $1 AND state = 'open'";
const END_OPEN: &str = "
    UPDATE approvals SET state = $3, decided_at = $2, via = 'run' WHERE id = $1 AND state = 'open'";

/// Questions that a pass ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SweptApprovals {
    pub expired: usize,
    pub overtaken: usize,
}

impl Store {
    /// Ends the questions whose time is over, as a no, and the runs whose thread has had a later letter.
    pub async fn sweep_approvals(&self) -> Result<SweptApprovals> {
        let now = self.clock().now();
        let expired: Vec<String> = self.all(EXPIRED_APPROVALS, (now, SWEEP_MAX)).await?;
        let overtaken: Vec<String> = self.all(OVERTAKEN_RUNS, SWEEP_MAX).await?;
        if expired.is_empty() && overtaken.is_empty() {
            return Ok(SweptApprovals::default());
        }
        let clock = self.clock().clone();
        transact!(self, Scope::Engine, |conn| {
            for id in &expired {
                let step = clock.new_id();
                decide(conn, id, &end_of_time(), (now, &step)).await?;
            }
            for run in &overtaken {
                overtake(conn, run, clock.as_ref()).await?;
            }
            Ok(SweptApprovals {
                expired: expired.len(),
                overtaken: overtaken.len(),
            })
        })
        .await
    }
}

fn end_of_time() -> NewDecision {
    NewDecision {
        verdict: ApprovalVerdict::Expire,
        by: String::new(),
        via: "clock",
        words: String::new(),
        evidence_json: "{}".to_owned(),
        sha256: None,
    }
}

async fn overtake(conn: &mut Connection, run: &str, clock: &dyn Clock) -> Result<()> {
    if conn.exec(END_OVERTAKEN, (run, clock.now())).await? > 0 {
        end_open(conn, run, "superseded", clock).await?;
    }
    Ok(())
}

/// Ends the open questions of a run that does not go on, and gives their calls a result.
pub async fn end_open(
    conn: &mut Connection,
    run: &str,
    state: &'static str,
    clock: &dyn Clock,
) -> Result<()> {
    let now: Timestamp = clock.now();
    let open = conn.rows(OPEN_OF_RUN, run).await?;
    for row in &open {
        conn.exec(END_OPEN, (row.get::<&str>("id"), now, state))
            .await?;
        if !row.get::<bool>("parks") {
            continue;
        }
        let tool: &str = row.get("tool");
        let error = json!({ "code": format!("approval_{state}"), "message": "not done: its run ended before its owner had decided" });
        let payload = json!({ "ok": false, "tool": tool, "error": error }).to_string();

        conn.exec(
            CLOSE_CALL,
            (
                clock.new_id(),
                run,
                row.get::<&str>("call_id"),
                payload,
                now,
            ),
        )
        .await?;
    }
    Ok(())
}
