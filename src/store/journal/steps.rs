//! Steps of a run: the calls of tools and their results, numbered by the transaction that writes
//! them.
//!
//! Two processes write the steps of one run: the engine, and the server of our tools that an agent
//! starts. So the position and, for calls that are not our model's, the id are assigned here; a
//! second result for a call is refused by an index.

use crate::clock::Clock;
use crate::domain::{RunId, ThreadId, Timestamp};
use crate::store::db::{Connection, Sql};
use crate::store::journal::step::{Executor, NewCall, Step, StepKind, Unanswered};
use crate::store::notices::events;
use crate::store::runs::fence::{Frame, fenced};
use crate::store::sql::persona_id;
use crate::store::{PersonaStore, Result, RunKey};
use std::collections::BTreeSet;

/// Most calls of a thread that are looked through.
const CALLS_MAX: u32 = 2_000;

/// The step's position follows the last one. The fence is the last statement: a step of another
/// engine's run is rolled back.
const INSERT_STEP: &str = "
    INSERT INTO thread_tool_events (id, thread_id, persona_id, parent_message_id, run_id, step_index, event_type,
      tool_name, tool_call_id, payload_json, created_at, executor)
    VALUES ($1, (SELECT thread_id FROM runs WHERE id = $4), $2, $3, $4,
      (SELECT coalesce(max(step_index) + 1, 0) FROM thread_tool_events WHERE run_id = $4), $5, $6, $7, $8, $9, $11);
    SELECT 1 FROM runs WHERE id = $4 AND epoch = $10 AND state = 'running' AND persona_id = $2";
/// Number of calls of a run whose ids the store assigned with this prefix.
const CALLS_NUMBERED: Sql = Sql::pair(
    "
    SELECT count(*) FROM thread_tool_events
    WHERE run_id = $1 AND event_type = 'tool_call' AND tool_call_id GLOB $2 || '[0-9]*'",
    "
    SELECT count(*) FROM thread_tool_events
    WHERE run_id = $1 AND event_type = 'tool_call' AND tool_call_id ~ ('^' || $2 || '[0-9]')",
);
/// Names of the tools that runs of a thread have called.
const TOOLS_USED: &str = "
    SELECT DISTINCT tool_name FROM (SELECT e.tool_name FROM runs r JOIN thread_tool_events e ON e.run_id = r.id
      WHERE r.thread_id = $1 AND e.persona_id = $2 AND e.event_type = 'tool_call' LIMIT $3) AS calls";
const CALLS_OF_RUN: &str = "SELECT count(*) FROM thread_tool_events WHERE run_id = $1 AND persona_id = $2 AND event_type = 'tool_call'";
/// Calls without a result that are in no answer of a model: the store assigned their ids.
const OPEN_CALLS: Sql = Sql::pair(
    "
    SELECT c.tool_call_id, c.tool_name, c.executor, c.payload_json FROM thread_tool_events c
    WHERE c.run_id = $1 AND c.event_type = 'tool_call' AND c.tool_call_id GLOB '[am][0-9]*'
      AND NOT EXISTS (SELECT 1 FROM thread_tool_events r WHERE r.run_id = c.run_id
        AND r.tool_call_id = c.tool_call_id AND r.event_type = 'tool_result')
    ORDER BY c.step_index",
    "
    SELECT c.tool_call_id, c.tool_name, c.executor, c.payload_json FROM thread_tool_events c
    WHERE c.run_id = $1 AND c.event_type = 'tool_call' AND c.tool_call_id ~ '^[am][0-9]'
      AND NOT EXISTS (SELECT 1 FROM thread_tool_events r WHERE r.run_id = c.run_id
        AND r.tool_call_id = c.tool_call_id AND r.event_type = 'tool_result')
    ORDER BY c.step_index",
);
pub const CLOSE_CALL: &str = "
    INSERT INTO thread_tool_events (id, thread_id, persona_id, parent_message_id, run_id, step_index, event_type,
      tool_name, tool_call_id, payload_json, created_at, executor)
    SELECT $1, thread_id, persona_id, parent_message_id, run_id,
      (SELECT max(step_index) + 1 FROM thread_tool_events WHERE run_id = $2), 'tool_result', tool_name, $3, $4, $5,
      executor
    FROM thread_tool_events WHERE run_id = $2 AND tool_call_id = $3 AND event_type = 'tool_call'";
const RUN_PERSONA: &str = "SELECT persona_id FROM runs WHERE id = $1 AND persona_id = $2 AND epoch = $3 AND state = 'running'";

/// Inserts a step inside the caller's transaction. Errors: the run is not this engine's.
pub async fn insert(conn: &mut Connection, frame: &Frame<'_>, step: &Step, id: &str) -> Result<()> {
    let is_ours = conn
        .maybe_row(
            INSERT_STEP,
            (
                id,
                frame.persona,
                &frame.key.trigger_message,
                &frame.key.run,
                &step.kind,
                &step.tool_name,
                &step.tool_call_id,
                &step.payload_json,
                frame.now,
                frame.epoch,
                &step.executor,
            ),
        )
        .await?
        .is_some();
    fenced(u64::from(is_ours), frame.key.run.as_str())
}

impl PersonaStore {
    /// Records a call that is in no answer of our model, and returns its id.
    ///
    /// Errors: [`crate::store::StoreError::WrongState`] when the run is no longer this engine's.
    pub async fn record_call(&self, key: &RunKey, call: NewCall) -> Result<String> {
        let (persona, key, epoch) = (self.persona.clone(), key.clone(), self.store.epoch());
        let (row, now) = (
            self.store.clock().new_id(),
            self.store.clock().now().to_string(),
        );
        transact!(self, |conn| {
            let letter = match call.executor {
                Executor::Engine => "m",
                Executor::Agent => "a",
            };
            let count: i64 = conn.one(CALLS_NUMBERED, (&key.run, letter)).await?;
            let step = Step {
                kind: StepKind::Call,
                executor: call.executor,
                tool_name: call.tool_name,
                tool_call_id: format!("{letter}{count}"),
                payload_json: call.payload_json,
            };
            let frame = Frame {
                key: &key,
                persona: persona.as_str(),
                epoch,
                now: &now,
            };
            insert(conn, &frame, &step, &row).await?;
            Ok(step.tool_call_id)
        })
        .await
    }

    /// Counts the tool calls of a run so far, of every executor.
    pub async fn calls_so_far(&self, run: &RunId) -> Result<u32> {
        self.one(CALLS_OF_RUN, (run, &self.persona)).await
    }

    /// Returns the names of the tools that runs of a thread have called.
    pub async fn tools_used(&self, thread: &ThreadId) -> Result<BTreeSet<String>> {
        let rows = self
            .rows(TOOLS_USED, (thread, &self.persona, CALLS_MAX))
            .await?;
        Ok(rows.iter().map(|row| row.get("tool_name")).collect())
    }

    /// Gives every open call of an agent, and every open call through our tool server, a result;
    /// returns their number.
    ///
    /// Errors: [`crate::store::StoreError::WrongState`] when the run is no longer this engine's.
    pub async fn close_calls(&self, run: &RunId, why: Unanswered) -> Result<usize> {
        let (persona, run, epoch) = (self.persona.clone(), run.clone(), self.store.epoch());
        let clock = self.store.clock().clone();
        transact!(self, |conn| {
            let own = conn.maybe_row(RUN_PERSONA, (&run, &persona, epoch)).await?;
            match own.map(|row| persona_id(&row)) {
                Some(_ours) => close_open_calls(conn, run.as_str(), why, clock.as_ref()).await,
                None => fenced(0, run.as_str()).map(|()| 0),
            }
        })
        .await
    }
}

/// A call of ours that may not simply be repeated was in flight when its process ended without
/// waiting for it.
const CUT_OFF: Unanswered = Unanswered {
    code: "outcome_unknown",
    message: "the agent ended while this call was running; it may or may not have taken effect",
};

/// Closes the open calls of a run inside the caller's transaction, which has checked the fence. The
/// owner is notified of calls that may have happened.
pub async fn close_open_calls(
    conn: &mut Connection,
    run: &str,
    why: Unanswered,
    clock: &dyn Clock,
) -> Result<usize> {
    let open = conn.rows(OPEN_CALLS, run).await?;
    let now: Timestamp = clock.now();
    for row in &open {
        let (call, tool): (&str, &str) = (row.get("tool_call_id"), row.get("tool_name"));
        let mut step = Step {
            kind: StepKind::Call,
            executor: Executor::of(row.get("executor")),
            tool_name: tool.to_owned(),
            tool_call_id: call.to_owned(),
            payload_json: row.get("payload_json"),
        };
        let is_ours = step.executor == Executor::Engine && step.begun().is_some();
        let why = if is_ours && why.code != CUT_OFF.code {
            CUT_OFF
        } else {
            why
        };
        let error = serde_json::json!({ "code": why.code, "message": why.message });
        let payload = serde_json::json!({ "ok": false, "tool": tool, "error": error }).to_string();

        conn.exec(CLOSE_CALL, (clock.new_id(), run, call, &payload, now))
            .await?;
        if is_ours {
            (step.kind, step.payload_json) = (StepKind::Result, payload);
            events::step_recorded(conn, &RunId::new(run), &step, clock).await?;
        }
    }
    Ok(open.len())
}
