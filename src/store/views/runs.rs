//! Listings of runs: newest first, in pages.
//!
//! Absent on purpose: the details of a run (`record.rs`), and changes (`runs/run_control.rs`).

use crate::domain::{
    ErrorClass, MessageId, PersonaId, RunId, RunState, RunWait, StopReason, ThreadId, Timestamp,
    TokenUsage, Trigger,
};
use crate::store::db::{self, Row};
use crate::store::packing;
use crate::store::sql::json_list;
use crate::store::{PersonaStore, Result, Store, StoreError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// Filter of a listing of runs.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    /// Empty: every state.
    pub states: Vec<RunState>,
    pub persona: Option<PersonaId>,
    /// Queued at or after this instant.
    pub since: Option<Timestamp>,
    /// Ended at or after this instant.
    pub ended_since: Option<Timestamp>,
    pub limit: u32,
    /// Number of newer runs to skip.
    pub offset: u32,
}

/// A run without its turns and steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunSummary {
    pub id: RunId,
    pub persona: PersonaId,
    pub thread: ThreadId,
    pub trigger: Trigger,
    #[serde(skip)]
    pub trigger_message: MessageId,
    /// Subject of the triggering message.
    pub subject: String,
    /// Sender of the triggering message, as typed.
    pub sender: String,
    #[serde(skip)]
    pub profile: String,
    pub state: RunState,
    /// Number of times that it was claimed.
    pub attempt: u32,
    pub next_attempt_at: Option<Timestamp>,
    pub cancel_requested_at: Option<Timestamp>,
    pub provider: Option<String>,
    pub model: Option<String>,
    pub stop_reason: Option<StopReason>,
    pub waits_for: Option<RunWait>,
    pub error_class: Option<ErrorClass>,
    pub error_message: Option<String>,
    /// Sum over its turns.
    #[serde(serialize_with = "usage_sum")]
    #[schemars(with = "UsageRecord")]
    pub usage: TokenUsage,
    /// The bounds on tokens and money that it began with.
    #[serde(skip)]
    pub limits_json: Option<String>,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    /// Run that answers its letter in its place.
    pub answered_by: Option<RunId>,
}

/// Tokens, and micro-dollars when the price is known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UsageRecord {
    pub input_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    pub output_tokens: u64,
    pub reasoning_tokens: u64,
    pub cost_micros: Option<i64>,
}

impl From<TokenUsage> for UsageRecord {
    fn from(usage: TokenUsage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            cache_read_tokens: usage.cache_read_tokens,
            cache_write_tokens: usage.cache_write_tokens,
            output_tokens: usage.output_tokens,
            reasoning_tokens: usage.reasoning_tokens,
            cost_micros: usage.cost_micros,
        }
    }
}

/// Serializes the usage of a run: a cost that is unknown is `null`.
fn usage_sum<S: Serializer>(
    usage: &TokenUsage,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    UsageRecord::from(*usage).serialize(serializer)
}

/// The plus keeps `runs_by_persona` away, which has the order and reads all runs of the persona.
const RUNS_OF_THREAD: &str = "
    SELECT id FROM runs WHERE thread_id = $1 AND +persona_id = $2 ORDER BY seq DESC LIMIT $3";

const LATEST_RUNS: &str = "
    SELECT id FROM runs WHERE (json_array_length($3) = 0 OR state IN (SELECT value FROM jsonb_each($3)))
      AND created_at >= $4 AND ($5 = '' OR finished_at >= $5) ORDER BY seq DESC LIMIT $1 OFFSET $2";
const LATEST_RUNS_OF: &str = "
    SELECT id FROM runs WHERE persona_id = $6
      AND (json_array_length($3) = 0 OR state IN (SELECT value FROM jsonb_each($3)))
      AND created_at >= $4 AND ($5 = '' OR finished_at >= $5) ORDER BY seq DESC LIMIT $1 OFFSET $2";
const RUN_SUMMARIES: &str = "
    SELECT r.id, r.persona_id, r.thread_id, r.trigger, r.trigger_message_id, m.subject, m.sender, r.profile, r.state,
      r.attempt, r.next_attempt_at, r.cancel_requested_at, r.provider, r.model, r.stop_reason, r.error_class,
      r.error_message, r.input_tokens, r.cache_read_tokens, r.cache_write_tokens, r.output_tokens,
      r.reasoning_tokens, r.cost_micros, r.limits_json, r.created_at, r.started_at, r.finished_at,
      r.answered_by,
      CASE WHEN r.state NOT IN ('queued', 'waiting_retry') THEN NULL
        WHEN EXISTS (SELECT 1 FROM halts h WHERE h.persona_id IN ('', r.persona_id)) THEN 'halted'
        WHEN r.behind = 1 THEN 'earlier_run' END AS waits_for
    FROM runs r JOIN messages m ON m.id = r.trigger_message_id
    WHERE r.id IN (SELECT value FROM jsonb_each($1)) ORDER BY r.seq DESC";
pub const RUNS_SINCE: &str = "SELECT count(*) FROM runs WHERE created_at >= $1";
const RUNS_ENDED: &str =
    "SELECT state, count(*) AS runs FROM runs WHERE finished_at >= $1 GROUP BY state";

const NEWEST_RUN: &str = "SELECT id FROM runs ORDER BY seq DESC LIMIT 1";

from_row!(|row| RunSummary {
    id,
    persona: "persona_id",
    thread: "thread_id",
    trigger,
    trigger_message: "trigger_message_id",
    subject,
    sender,
    profile,
    state,
    attempt,
    next_attempt_at,
    cancel_requested_at,
    provider,
    model,
    stop_reason: { word(row, "stop_reason").and_then(StopReason::parse) },
    waits_for: { word(row, "waits_for").and_then(RunWait::parse) },
    error_class: { word(row, "error_class").and_then(ErrorClass::parse) },
    error_message,
    usage: { row.to()? },
    limits_json: { packing::text_of(row, "limits_json")? },
    created_at,
    started_at,
    finished_at,
    answered_by
});

fn word<'r>(row: &'r Row, column: &str) -> Option<&'r str> {
    row.get(column)
}

impl Store {
    /// Returns runs, the newest first. Errors: [`StoreError::Unreadable`] when one of them cannot
    /// be read.
    pub async fn list_runs(&self, filter: &RunFilter) -> Result<Vec<RunSummary>> {
        let ids = self.run_ids(filter).await?;
        self.run_summaries(&ids).await
    }

    /// Returns the ids of these runs alone, the newest first, for callers that must skip a run
    /// whose row cannot be read.
    pub async fn run_ids(&self, filter: &RunFilter) -> Result<Vec<RunId>> {
        let sql = if filter.persona.is_some() {
            LATEST_RUNS_OF
        } else {
            LATEST_RUNS
        };
        let states = json_list(filter.states.iter().map(|state| state.as_str()));
        let instant = |at: Option<Timestamp>| at.map(|at| at.to_string()).unwrap_or_default();
        let page = db::query(sql).bind((
            filter.limit,
            filter.offset,
            states,
            instant(filter.since),
            instant(filter.ended_since),
        ));
        let page = match &filter.persona {
            Some(persona) => page.bind(persona),
            None => page,
        };
        page.all(self.readers()).await
    }

    /// Returns one run of the listing. Errors: [`StoreError::Missing`].
    pub async fn run_summary(&self, id: &RunId) -> Result<RunSummary> {
        let found = self.run_summaries(std::slice::from_ref(id)).await?.pop();
        found.ok_or_else(|| StoreError::missing("run", id))
    }

    /// Returns these runs, the newest first.
    pub async fn run_summaries(&self, ids: &[RunId]) -> Result<Vec<RunSummary>> {
        let ids = json_list(ids.iter().map(RunId::as_str));
        self.all(RUN_SUMMARIES, ids).await
    }

    /// Counts the runs that have ended since that instant, by state.
    pub async fn runs_ended_since(&self, since: Timestamp) -> Result<Vec<(RunState, u64)>> {
        self.all(RUNS_ENDED, since).await
    }

    /// Counts the runs that were queued since that instant, or ever.
    pub async fn count_runs_since(&self, since: Option<Timestamp>) -> Result<u64> {
        let since = since.map_or_else(String::new, |since| since.to_string());
        let count: i64 = self.one(RUNS_SINCE, since).await?;
        Ok(count.unsigned_abs())
    }

    /// Returns the run that was queued last.
    pub async fn newest_run(&self) -> Result<Option<RunId>> {
        self.maybe(NEWEST_RUN, ()).await
    }
}

impl PersonaStore {
    /// Returns the last `limit` runs of a thread, oldest first.
    pub async fn thread_runs(&self, thread: &ThreadId, limit: u32) -> Result<Vec<RunSummary>> {
        let ids: Vec<String> = self
            .all(RUNS_OF_THREAD, (thread, &self.persona, limit))
            .await?;
        let ids: Vec<RunId> = ids.into_iter().map(RunId::new).collect();
        let mut runs = self.store.run_summaries(&ids).await?;
        runs.reverse();
        Ok(runs)
    }
}
