//! Recovery of the runs of an engine that died: queued again, or quarantined when they kill
//! engines.
//!
//! A run that is running under an epoch that is gone was running when its engine died. It was
//! perhaps the cause, perhaps only present: a second crash in a row at the same step makes it a
//! poison run, and poison runs are tried alone (`poison_runs.rs`), so that the next crash is
//! evidence. A run that makes progress, ends, is parked or requeued is no poison run any more, and
//! neither is a run that waited while an engine died with other runs at work.

use crate::clock::Clock;
use crate::store::budgets::{embedding_calls, engine_parts, money};
use crate::store::db::{Connection, Row, Scope, Sql};
use crate::store::journal::step::INTERRUPTED;
use crate::store::journal::steps::close_open_calls;
use crate::store::mail::audit_log;
use crate::store::notices::events;
use crate::store::runs::poison_runs::POISON_CRASHES_MIN;
use crate::store::runs::queue::LINE_UP;
use crate::store::sql::persona_id;
use crate::store::{Result, Store};

/// Crashes in a row at the same step, the last one alone, after which a run is quarantined.
const GUILTY: i64 = 3;
/// Step number that no run has: a crash there is recorded (the run was not queued by a person), and
/// counts for nothing.
const NOWHERE: i64 = -1;

/// Progress of a run, as a number that grows with every answer and with every call and result of
/// our own loop. A repeated request does not count, and neither do an agent's repeated calls: they
/// are no progress.
const ORPHANS: Sql = Sql::pair(
    "
    SELECT id, persona_id, crashes, crashed_at, alone, epoch = (SELECT ended FROM engine WHERE id = 1) AS asked_to_end,
      (SELECT count(*) FROM run_turns t WHERE t.run_id = r.id AND t.state = 'answered')
        + (SELECT count(*) FROM thread_tool_events e WHERE e.run_id = r.id AND e.tool_call_id GLOB 'c[0-9]*') AS place,
      (SELECT json_array(t.turn_index, t.state, t.provider, t.model) FROM run_turns t WHERE t.run_id = r.id
       ORDER BY t.turn_index DESC, t.attempt DESC LIMIT 1) AS turn,
      (SELECT json_array(e.event_type, e.tool_name) FROM thread_tool_events e WHERE e.run_id = r.id
       ORDER BY e.step_index DESC LIMIT 1) AS step
    FROM runs r INDEXED BY runs_running WHERE state = 'running' AND epoch NOT IN (SELECT epoch FROM nodes) ORDER BY seq",
    "
    SELECT id, persona_id, crashes, crashed_at, alone, epoch = (SELECT ended FROM engine WHERE id = 1) AS asked_to_end,
      (SELECT count(*) FROM run_turns t WHERE t.run_id = r.id AND t.state = 'answered')
        + (SELECT count(*) FROM thread_tool_events e WHERE e.run_id = r.id AND e.tool_call_id ~ '^c[0-9]') AS place,
      (SELECT json_build_array(t.turn_index, t.state, t.provider, t.model) FROM run_turns t WHERE t.run_id = r.id
       ORDER BY t.turn_index DESC, t.attempt DESC LIMIT 1) AS turn,
      (SELECT json_build_array(e.event_type, e.tool_name) FROM thread_tool_events e WHERE e.run_id = r.id
       ORDER BY e.step_index DESC LIMIT 1) AS step
    FROM runs r WHERE state = 'running' AND epoch NOT IN (SELECT epoch FROM nodes) ORDER BY seq",
);
const REQUEUE_ORPHAN: &str = "
    UPDATE runs SET state = 'queued', crashes = $2, crashed_at = $3, state_at = $4 WHERE id = $1 AND state = 'running'";
const QUARANTINE: &str = "
    UPDATE runs SET state = 'failed', stop_reason = 'failed', error_class = 'crashed', crashes = $2, crashed_at = $3,
      error_message = $4, finished_at = $5
    WHERE id = $1 AND state = 'running'";
/// Poison runs that waited when an engine died of another cause.
const CLEAR_WAITING: &str = "
    UPDATE runs SET crashes = 1, crashed_at = -1
    WHERE crashes >= 2 AND state IN ('queued', 'running') AND state = 'queued'";
const NOTE_END: &str = "UPDATE engine SET ended = $1 WHERE id = 1";

/// Result of [`Store::recover_runs`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecoveredRuns {
    /// Runs queued again.
    pub queued: u64,
    /// Number of these that are poison runs, to be tried alone.
    pub poison_runs: u64,
    /// Runs quarantined, because they killed several engines in a row.
    pub quarantined: u64,
}

impl Store {
    /// Queues runs of engines that are gone; quarantines runs that killed too many engines. Call
    /// once at start, before the first claim.
    pub async fn recover_runs(&self) -> Result<RecoveredRuns> {
        let clock = self.clock().clone();
        let recovered = transact!(self, Scope::Engine, |conn| requeue_runs(
            conn,
            clock.as_ref()
        )
        .await);
        let recovered = recovered.await?;
        // Poison runs that an earlier engine left in the queue count too.
        self.poison_runs().there_may_be_some();
        Ok(recovered)
    }

    /// Ends the wait of poison runs, because everything else is done. Reports whether there may be
    /// poison runs.
    pub fn try_poison_runs_now(&self) -> bool {
        self.poison_runs().end_wait()
    }

    /// Records that this engine was asked to end: a crash from here on counts against no run.
    pub async fn note_end(&self) -> Result<()> {
        let epoch = self.epoch();
        transact!(self, Scope::Engine, |conn| {
            conn.exec(NOTE_END, epoch).await?;
            Ok(())
        })
        .await
    }
}

/// Queues runs of nodes that are gone, or quarantines them, and books their open calls.
pub async fn requeue_runs(conn: &mut Connection, clock: &dyn Clock) -> Result<RecoveredRuns> {
    money::recover(conn, &clock.now().to_string()).await?;
    embedding_calls::recover(conn).await?;
    engine_parts::join(conn).await?;
    let orphans = conn.rows(ORPHANS, ()).await?;
    if orphans.iter().any(|orphan| !was_asked_to_end(orphan)) {
        conn.exec(CLEAR_WAITING, ()).await?;
    }
    let mut recovered = RecoveredRuns::default();
    for orphan in &orphans {
        recover(conn, orphan, &mut recovered, clock).await?;
    }
    conn.exec(LINE_UP, ()).await?;
    Ok(recovered)
}

fn was_asked_to_end(orphan: &Row) -> bool {
    orphan.get("asked_to_end")
}

async fn recover(
    conn: &mut Connection,
    orphan: &Row,
    recovered: &mut RecoveredRuns,
    clock: &dyn Clock,
) -> Result<()> {
    let (run, place): (&str, i64) = (orphan.get("id"), orphan.get("place"));
    let (before, at): (i64, i64) = (orphan.get("crashes"), orphan.get("crashed_at"));
    let (crashes, place) = match before {
        _ if was_asked_to_end(orphan) => (1, NOWHERE),
        1.. if at >= place => (before + 1, place),
        _ => (1, place),
    };
    // A crash while other runs are at work is no evidence, however often it happens.
    if crashes >= GUILTY && orphan.get("alone") {
        let message = format!(
            "the engine stopped {crashes} times in a row at the same step of this run: {}",
            last_step(orphan)
        );

        conn.exec(QUARANTINE, (run, crashes, place, message, clock.now()))
            .await?;
        events::run_failed(conn, run, clock).await?;
        let persona = persona_id(orphan)?;
        audit_log::audit(
            conn,
            Some(&persona),
            ("run", run),
            "quarantine:crashed",
            clock.now(),
        )
        .await?;
        recovered.quarantined += 1;
    } else {
        conn.exec(REQUEUE_ORPHAN, (run, crashes, place, clock.now()))
            .await?;
        recovered.queued += 1;
        recovered.poison_runs += u64::from(crashes >= POISON_CRASHES_MIN);
    }
    close_open_calls(conn, run, INTERRUPTED, clock)
        .await
        .map(|_closed| ())
}

/// Returns the last step of a run, for display.
fn last_step(orphan: &Row) -> String {
    let read = |column| {
        let json: Option<&str> = orphan.get(column);
        json.and_then(|json| serde_json::from_str::<Vec<serde_json::Value>>(json).ok())
    };
    let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    match (read("turn").as_deref(), read("step").as_deref()) {
        (Some([index, state, provider, model]), _) if state == "started" => {
            let turn = index.as_u64().unwrap_or_default() + 1;
            format!(
                "turn {turn}, while {} on {} was asked",
                word(model),
                word(provider)
            )
        }
        (Some(_), Some([kind, tool])) if kind == "tool_call" => {
            format!("the call of `{}`", word(tool))
        }
        (Some(_), Some([_, tool])) => format!("what follows the result of `{}`", word(tool)),
        (Some([index, ..]), _) => {
            format!(
                "what follows turn {}",
                index.as_u64().unwrap_or_default() + 1
            )
        }
        (_, _) => "its context, before anybody was asked".to_owned(),
    }
}
