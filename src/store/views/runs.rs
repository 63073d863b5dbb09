//! Listings of runs: newest first, in pages.
//!
//! Absent on purpose: the details of a run (`record.rs`), and changes (`runs/run_control.rs`).

use crate::domain::{
    ErrorClass, MessageId, PersonaId, RunId, RunState, RunWait, StopReason, ThreadId, Timestamp,
    TokenUsage, Trigger,
};
use crate::store::budgets::usage_row::usage;
use crate::store::db::{self, Row};
use crate::store::sql::{json_list, optional_timestamp, persona_id, timestamp};
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
pub(in crate::store) const RUNS_OF_THREAD: &str = "
    SELECT id FROM runs WHERE thread_id = $1 AND +persona_id = $2 ORDER BY seq DESC LIMIT $3";

pub(in crate::store) const LATEST_RUNS: &str = "
    SELECT id FROM runs WHERE (json_array_length($3) = 0 OR state IN (SELECT value FROM jsonb_each($3)))
      AND created_at >= $4 AND ($5 = '' OR finished_at >= $5) ORDER BY seq DESC LIMIT $1 OFFSET $2";
pub(in crate::store) const LATEST_RUNS_OF: &str = "
    SELECT id FROM runs WHERE persona_id = $6
      AND (json_array_length($3) = 0 OR state IN (SELECT value FROM jsonb_each($3)))
      AND created_at >= $4 AND ($5 = '' OR finished_at >= $5) ORDER BY seq DESC LIMIT $1 OFFSET $2";
pub(in crate::store) const RUN_SUMMARIES: &str = "
    SELECT r.id, r.persona_id, r.thread_id, r.trigger, r.trigger_message_id, m.subject, m.sender, r.profile, r.state,
      r.attempt, r.next_attempt_at, r.cancel_requested_at, r.provider, r.model, r.stop_reason, r.error_class,
      r.error_message, r.input_tokens, r.cache_read_tokens, r.cache_write_tokens, r.output_tokens,
      r.reasoning_tokens, r.cost_micros, r.limits_json, r.created_at, r.started_at, r.finished_at,
      CASE WHEN r.state NOT IN ('queued', 'waiting_retry') THEN NULL
        WHEN EXISTS (SELECT 1 FROM halts h WHERE h.persona_id IN ('', r.persona_id)) THEN 'halted'
        WHEN r.behind = 1 THEN 'earlier_run' END AS waits_for
    FROM runs r JOIN messages m ON m.id = r.trigger_message_id
    WHERE r.id IN (SELECT value FROM jsonb_each($1)) ORDER BY r.seq DESC";
pub(in crate::store) const RUNS_SINCE: &str = "SELECT count(*) FROM runs WHERE created_at >= $1";
pub(in crate::store) const RUNS_ENDED: &str =
    "SELECT state, count(*) AS runs FROM runs WHERE finished_at >= $1 GROUP BY state";

pub(in crate::store) const NEWEST_RUN: &str = "SELECT id FROM runs ORDER BY seq DESC LIMIT 1";

pub(in crate::store) fn run_summary(row: &Row) -> Result<RunSummary> {
    let unreadable = |what| move || StoreError::Unreadable { what };
    let word = |column: &str| row.get::<Option<String>>(column);
    Ok(RunSummary {
        id: RunId::new(row.get::<String>("id")),
        persona: persona_id(row)?,
        thread: ThreadId::new(row.get::<String>("thread_id")),
        trigger: Trigger::parse(row.get("trigger")).ok_or_else(unreadable("trigger of a run"))?,
        trigger_message: MessageId::new(row.get::<String>("trigger_message_id")),
        subject: row.get("subject"),
        sender: row.get("sender"),
        profile: row.get("profile"),
        state: RunState::parse(row.get("state")).ok_or_else(unreadable("state of a run"))?,
        attempt: row.get("attempt"),
        next_attempt_at: optional_timestamp(row, "next_attempt_at")?,
        cancel_requested_at: optional_timestamp(row, "cancel_requested_at")?,
        provider: row.get("provider"),
        model: row.get("model"),
        stop_reason: word("stop_reason").as_deref().and_then(StopReason::parse),
        waits_for: word("waits_for").as_deref().and_then(RunWait::parse),
        error_class: word("error_class").as_deref().and_then(ErrorClass::parse),
        error_message: row.get("error_message"),
        usage: usage(row),
        limits_json: row.get("limits_json"),
        created_at: timestamp(row, "created_at")?,
        started_at: optional_timestamp(row, "started_at")?,
        finished_at: optional_timestamp(row, "finished_at")?,
    })
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
        let page = db::query_scalar(sql)
            .bind(filter.limit)
            .bind(filter.offset)
            .bind(states);
        let page = page
            .bind(instant(filter.since))
            .bind(instant(filter.ended_since));
        let page = match &filter.persona {
            Some(persona) => page.bind(persona.as_str()),
            None => page,
        };
        let ids: Vec<String> = page.fetch_all(self.readers()).await?;
        Ok(ids.into_iter().map(RunId::new).collect())
    }

    /// Returns one run of the listing. Errors: [`StoreError::Missing`].
    pub async fn run_summary(&self, id: &RunId) -> Result<RunSummary> {
        let found = self.run_summaries(std::slice::from_ref(id)).await?.pop();
        found.ok_or_else(|| StoreError::Missing {
            kind: "run",
            id: id.to_string(),
        })
    }

    /// Returns these runs, the newest first.
    pub async fn run_summaries(&self, ids: &[RunId]) -> Result<Vec<RunSummary>> {
        let ids = json_list(ids.iter().map(RunId::as_str));
        let rows = db::query(RUN_SUMMARIES)
            .bind(ids)
            .fetch_all(self.readers())
            .await?;
        rows.iter().map(run_summary).collect()
    }

    /// Counts the runs that have ended since that instant, by state.
    pub async fn runs_ended_since(&self, since: Timestamp) -> Result<Vec<(RunState, u64)>> {
        let rows = db::query(RUNS_ENDED)
            .bind(since.to_string())
            .fetch_all(self.readers())
            .await?;
        let count = |row: &Row| {
            let state = RunState::parse(row.get("state")).ok_or(StoreError::Unreadable {
                what: "state of a run",
            })?;
            Ok((state, row.get::<i64>("runs").unsigned_abs()))
        };
        rows.iter().map(count).collect()
    }

    /// Counts the runs that were queued since that instant, or ever.
    pub async fn count_runs_since(&self, since: Option<Timestamp>) -> Result<u64> {
        let since = since.map_or_else(String::new, |since| since.to_string());
        let count: i64 = db::query_scalar(RUNS_SINCE)
            .bind(since)
            .fetch_one(self.readers())
            .await?;
        Ok(count.unsigned_abs())
    }

    /// Returns the run that was queued last.
    pub async fn newest_run(&self) -> Result<Option<RunId>> {
        let id: Option<String> = db::query_scalar(NEWEST_RUN)
            .fetch_optional(self.readers())
            .await?;
        Ok(id.map(RunId::new))
    }
}

impl PersonaStore {
    /// Returns the last `limit` runs of a thread, oldest first.
    pub async fn thread_runs(&self, thread: &ThreadId, limit: u32) -> Result<Vec<RunSummary>> {
        let ids = db::query_scalar(RUNS_OF_THREAD)
            .bind(thread.as_str())
            .bind(self.persona.as_str());
        let ids: Vec<String> = ids.bind(limit).fetch_all(self.store.readers()).await?;
        let ids: Vec<RunId> = ids.into_iter().map(RunId::new).collect();
        let mut runs = self.store.run_summaries(&ids).await?;
        runs.reverse();
        Ok(runs)
    }
}
