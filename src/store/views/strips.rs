//! What each run of a thread did, in short: its turns, its calls, its mails. Without requests, answers and bytes.

use crate::domain::{DeliveryId, MessageId, RunId, ThreadId, Timestamp};
use crate::store::db::Row;
use crate::store::deliveries::delivery_state::DeliveryState;
use crate::store::sql::json_list;
use crate::store::views::runs::RunSummary;
use crate::store::{PersonaStore, Result, StoreError};
use serde::Serialize;

/// A run in short.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunStrip {
    pub run: RunSummary,
    /// Message that it answers.
    pub trigger_message: MessageId,
    /// Estimated tokens of its context, and the budget that they had.
    pub context_tokens: Option<u64>,
    pub context_budget_tokens: Option<u64>,
    pub turns: Vec<TurnStrip>,
    pub calls: Vec<CallStrip>,
    pub mails: Vec<MailStrip>,
}

/// A call of a provider in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TurnStrip {
    pub turn_index: u32,
    pub attempt: u32,
    /// `started`, `answered` or `failed`.
    pub state: String,
    pub model: String,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_micros: Option<i64>,
    pub error_class: Option<String>,
    pub started_at: Timestamp,
    pub finished_at: Option<Timestamp>,
}

/// A call of a tool in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallStrip {
    pub id: String,
    pub tool: String,
    /// `None`: no result was recorded.
    pub ok: Option<bool>,
    /// Code of its error.
    pub error: Option<String>,
    pub called_at: Timestamp,
    pub finished_at: Option<Timestamp>,
}

/// A mail of a run in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MailStrip {
    pub delivery: DeliveryId,
    pub message: MessageId,
    pub state: DeliveryState,
    /// Recipients, and those who have it.
    pub recipients: u32,
    pub delivered: u32,
    pub possible_duplicate: bool,
}

const CONTEXT_SIZES: &str = "
    SELECT id, context_tokens AS used, context_budget_tokens AS budget
    FROM runs WHERE id IN (SELECT value FROM jsonb_each($1)) AND context_tokens IS NOT NULL";
const TURN_STRIPS: &str = "
    SELECT t.run_id, t.turn_index, t.attempt, t.state, t.model, t.input_tokens, t.cache_read_tokens, t.cache_write_tokens,
      t.output_tokens, t.cost_micros, t.error_class, t.started_at, t.finished_at
    FROM run_turns t WHERE t.run_id IN (SELECT value FROM jsonb_each($1)) ORDER BY t.run_id, t.turn_index, t.attempt";
const CALL_STRIPS: &str = "
    SELECT c.run_id, c.tool_call_id, c.tool_name, c.created_at AS called_at, r.created_at AS finished_at,
      CAST(r.payload_json ->> '$.ok' AS BIGINT) AS ok, r.payload_json ->> '$.error.code' AS error
    FROM thread_tool_events c
    LEFT JOIN thread_tool_events r ON r.run_id = c.run_id AND r.tool_call_id = c.tool_call_id AND r.event_type = 'tool_result'
    WHERE c.run_id IN (SELECT value FROM jsonb_each($1)) AND c.event_type = 'tool_call' ORDER BY c.run_id, c.step_index";
const MAIL_STRIPS: &str = "
    SELECT d.run_id, d.id, d.message_id, d.state, d.possible_duplicate,
      (SELECT count(*) FROM delivery_recipients x WHERE x.delivery_id = d.id) AS recipients,
      (SELECT count(*) FROM delivery_recipients x WHERE x.delivery_id = d.id AND x.state = 'delivered') AS delivered
    FROM deliveries d WHERE d.run_id IN (SELECT value FROM jsonb_each($1)) ORDER BY d.seq";

impl PersonaStore {
    /// Returns the last `limit` runs of a thread in short, oldest first.
    pub async fn run_strips(&self, thread: &ThreadId, limit: u32) -> Result<Vec<RunStrip>> {
        self.strips(self.thread_runs(thread, limit).await?).await
    }

    /// Returns a run in short. Errors: [`StoreError::Missing`].
    pub async fn run_strip(&self, run: &RunId) -> Result<RunStrip> {
        let summary = self.store.run_summary(run).await?;
        let missing = || StoreError::missing("run", run);
        self.strips(vec![summary]).await?.pop().ok_or_else(missing)
    }

    async fn strips(&self, runs: Vec<RunSummary>) -> Result<Vec<RunStrip>> {
        let mut strips: Vec<RunStrip> = runs.into_iter().map(strip).collect();
        let ids = json_list(strips.iter().map(|strip| strip.run.id.as_str()));
        let readers = self.store.readers();
        let found = |strips: &mut Vec<RunStrip>, row: &Row, column: &str| {
            let run = RunId::new(row.get::<String>(column));
            strips.iter().position(|strip| strip.run.id == run)
        };
        for row in readers.rows(CONTEXT_SIZES, &ids).await? {
            if let Some(at) = found(&mut strips, &row, "id") {
                strips[at].context_tokens = tokens(&row, "used");
                strips[at].context_budget_tokens = tokens(&row, "budget");
            }
        }
        for row in readers.rows(TURN_STRIPS, &ids).await? {
            if let Some(at) = found(&mut strips, &row, "run_id") {
                strips[at].turns.push(row.to()?);
            }
        }
        for row in readers.rows(CALL_STRIPS, &ids).await? {
            if let Some(at) = found(&mut strips, &row, "run_id") {
                strips[at].calls.push(row.to()?);
            }
        }
        for row in readers.rows(MAIL_STRIPS, &ids).await? {
            if let Some(at) = found(&mut strips, &row, "run_id") {
                strips[at].mails.push(row.to()?);
            }
        }
        Ok(strips)
    }
}

fn strip(run: RunSummary) -> RunStrip {
    RunStrip {
        trigger_message: run.trigger_message.clone(),
        run,
        context_tokens: None,
        context_budget_tokens: None,
        turns: Vec::new(),
        calls: Vec::new(),
        mails: Vec::new(),
    }
}

fn tokens(row: &Row, column: &str) -> Option<u64> {
    row.get::<Option<i64>>(column)
        .and_then(|tokens| u64::try_from(tokens).ok())
}

from_row!(|row| TurnStrip {
    turn_index,
    attempt,
    state,
    model,
    input_tokens: {
        let number = |column: &str| row.get::<i64>(column).unsigned_abs();
        number("input_tokens") + number("cache_read_tokens") + number("cache_write_tokens")
    },
    output_tokens,
    cost_micros,
    error_class,
    started_at,
    finished_at
});

from_row!(CallStrip {
    id: "tool_call_id",
    tool: "tool_name",
    ok,
    error,
    called_at,
    finished_at
});

from_row!(MailStrip {
    delivery: "id",
    message: "message_id",
    state,
    recipients,
    delivered,
    possible_duplicate
});
