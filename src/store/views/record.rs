//! The record of a run, row by row, for replay: its turns with the exact requests, its steps, its
//! mails.

use crate::domain::{RunId, Timestamp, TokenUsage};
use crate::store::db::Row;
use crate::store::journal::packed::{Bodies, Unpacker};
use crate::store::journal::step::{Executor, Step, StepKind};
use crate::store::packing;
use crate::store::sql::{optional_timestamp, timestamp};
use crate::store::threads::history::StoredMessage;
use crate::store::{PersonaStore, Result};

/// One provider call.
#[derive(Debug, Clone)]
pub struct StoredTurn {
    pub turn_index: u32,
    /// Attempt of this turn, from 1.
    pub attempt: u32,
    /// `started`, `answered` or `failed`.
    pub state: String,
    /// The exact body of the request.
    pub request_json: String,
    pub request_sha256: String,
    /// The normalised response.
    pub response_json: Option<String>,
    pub provider: String,
    pub model: String,
    pub usage: TokenUsage,
    pub error_class: Option<String>,
    pub error_message: Option<String>,
    pub started_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    /// The normalised first request, where the call was the first with that context.
    pub context_json: Option<String>,
    /// Note of what was read for it.
    pub sources_json: Option<String>,
    /// Begin and end of the call, as the run loop recorded them.
    pub begun_json: Option<String>,
    pub ended_json: Option<String>,
    /// Instant at which request and answer were pruned.
    pub pruned_at: Option<Timestamp>,
    /// Instant at which an owner erased a text that they held.
    pub redacted_at: Option<Timestamp>,
}

const TURNS_OF_RUN: &str = "
    SELECT t.turn_index, t.attempt, t.state, t.request_json, t.request_sha256, t.response_json, t.provider, t.model,
      t.input_tokens, t.cache_read_tokens, t.cache_write_tokens, t.output_tokens, t.reasoning_tokens, t.cost_micros,
      t.error_class, t.error_message, t.started_at, t.finished_at, t.context_json, t.sources_json, t.packed, c.bytes AS dictionary,
      t.begun_json, t.ended_json, t.pruned_at, t.redacted_at
    FROM run_turns t LEFT JOIN contents c ON c.sha256 = t.packed_with
    WHERE t.run_id = $1 AND t.persona_id = $2 ORDER BY t.turn_index, t.attempt";
const TIMED_STEPS: &str = "
    SELECT event_type, executor, tool_name, tool_call_id, payload_json, created_at FROM thread_tool_events
    WHERE run_id = $1 AND persona_id = $2 ORDER BY step_index";
const MAILS_OF_RUN: &str = "
    SELECT seq, id, thread_id, direction, message_id, in_reply_to, references_json, sender, recipients_json, subject,
      text_body, fresh_text, received_at, trust, run_id, disposition, hops, metadata_json
    FROM messages WHERE run_id = $1 AND persona_id = $2 ORDER BY seq";
const CONTEXT_REPORT: &str =
    "SELECT context_report_json FROM runs WHERE id = $1 AND persona_id = $2";

impl PersonaStore {
    /// Returns every provider call of a run, failed ones included, in order.
    pub async fn turns_of_run(&self, run: &RunId) -> Result<Vec<StoredTurn>> {
        let mut unpacker = Unpacker::default();
        let mut turns = Vec::new();
        for row in &self.rows(TURNS_OF_RUN, (run, &self.persona)).await? {
            let bodies = unpacker.read(row)?;
            turns.push(stored_turn(row, bodies)?);
        }
        Ok(turns)
    }

    /// Returns the steps of a run with the instants at which they were committed, in order.
    pub async fn timed_steps_of_run(&self, run: &RunId) -> Result<Vec<(Step, Timestamp)>> {
        let rows = self.rows(TIMED_STEPS, (run, &self.persona)).await?;
        let step = |row: &Row| {
            let step = Step {
                kind: StepKind::of(row.get("event_type")),
                executor: Executor::of(row.get("executor")),
                tool_name: row.get("tool_name"),
                tool_call_id: row.get("tool_call_id"),
                payload_json: row.get("payload_json"),
            };
            Ok((step, row.try_get("created_at")?))
        };
        rows.iter().map(step).collect()
    }

    /// Returns the messages that a run wrote, withheld ones included, in order.
    pub async fn mails_of_run(&self, run: &RunId) -> Result<Vec<StoredMessage>> {
        self.all(MAILS_OF_RUN, (run, &self.persona)).await
    }

    /// Returns the report of the run's resolvers, as JSON; `None` before its first turn.
    pub async fn context_report(&self, run: &RunId) -> Result<Option<String>> {
        let row = self.maybe_row(CONTEXT_REPORT, (run, &self.persona)).await?;
        row.map_or(Ok(None), |row| {
            packing::text_of(&row, "context_report_json")
        })
    }
}

fn stored_turn(row: &Row, bodies: Bodies) -> Result<StoredTurn> {
    Ok(StoredTurn {
        turn_index: row.get("turn_index"),
        attempt: row.get("attempt"),
        state: row.get("state"),
        request_json: bodies.request.as_ref().to_owned(),
        request_sha256: row.get("request_sha256"),
        response_json: row.get("response_json"),
        provider: row.get("provider"),
        model: row.get("model"),
        usage: row.to()?,
        error_class: row.get("error_class"),
        error_message: row.get("error_message"),
        started_at: timestamp(row, "started_at")?,
        finished_at: optional_timestamp(row, "finished_at")?,
        context_json: bodies.context,
        sources_json: bodies.sources,
        begun_json: row.get("begun_json"),
        ended_json: row.get("ended_json"),
        pruned_at: optional_timestamp(row, "pruned_at")?,
        redacted_at: optional_timestamp(row, "redacted_at")?,
    })
}
