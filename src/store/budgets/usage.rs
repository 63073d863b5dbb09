//! Reports of usage: of whole days from their sums, of any other span from the two ledgers.

use crate::domain::{PersonaId, ThreadId, Timestamp};
use crate::store::Result;
use crate::store::Store;
use crate::store::sql::persona_id;
use schemars::JsonSchema;
use serde::Serialize;

/// Grouping of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageBy {
    Day,
    Persona,
    Model,
    Provider,
    Thread,
    Run,
}

impl UsageBy {
    pub const ALL: &'static [UsageBy] = &[
        UsageBy::Day,
        UsageBy::Persona,
        UsageBy::Model,
        UsageBy::Provider,
        UsageBy::Thread,
        UsageBy::Run,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            UsageBy::Day => "day",
            UsageBy::Persona => "persona",
            UsageBy::Model => "model",
            UsageBy::Provider => "provider",
            UsageBy::Thread => "thread",
            UsageBy::Run => "run",
        }
    }

    /// Parses the text of [`Self::as_str`].
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|by| by.as_str() == text)
    }
}

/// A sum of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct UsageSum {
    /// A day, a name or an id, by the grouping.
    pub what: String,
    /// Number of calls, lost ones included.
    pub calls: i64,
    pub input_tokens: i64,
    pub cache_read_tokens: i64,
    pub cache_write_tokens: i64,
    pub output_tokens: i64,
    /// Part of `output_tokens`.
    pub reasoning_tokens: i64,
    /// Known cost in micro-dollars; `None` when no cost is known.
    pub cost_micros: Option<i64>,
    /// Sources of the known cost: `provider`, `price_table VERSION`.
    #[serde(rename = "cost_sources")]
    pub sources: Vec<String>,
    /// Number of answers whose cost is unknown.
    #[serde(rename = "calls_of_unknown_cost")]
    pub unknown_cost: i64,
    /// Number of calls that failed or never came back, and may be billed.
    #[serde(rename = "calls_lost")]
    pub lost: i64,
    /// Micro-dollars that the budget_accounts count as spent where the cost is unknown.
    pub held_micros: i64,
    /// Number of answers whose tokens are estimates.
    #[serde(rename = "calls_with_estimated_tokens")]
    pub estimated: i64,
}

/// Beginning of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UsageSince {
    /// A day in the zone of the budgets, `2026-11-20`: that day and all later ones.
    Day(String),
    Instant(Timestamp),
}

const WITHOUT_ANSWER: &str =
    "SELECT count(*) FROM runs WHERE stop_reason = 'no_answer' AND finished_at >= $1";

/// Of both ledgers. A call for vectors outside of runs is of no thread and no run.
const USAGE: &str = "
    WITH calls AS (
      SELECT run_id || turn_index || '/' || attempt AS call, run_id, day, persona_id, provider, model, state, input_tokens,
        cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens, estimated, cost_micros, cost_source,
        price_version, held_micros FROM usage_ledger WHERE created_at >= $1 AND day >= $4
      UNION ALL SELECT id, run_id, day, persona_id, provider, model, state, tokens, 0, 0, 0, 0, estimated, cost_micros,
        cost_source, price_version, held_micros FROM embedding_calls
        WHERE created_at >= $1 AND day >= $4 AND state <> 'open')
    SELECT * FROM (SELECT CASE $2 WHEN 'day' THEN l.day WHEN 'persona' THEN l.persona_id
        WHEN 'model' THEN l.provider || '/' || l.model WHEN 'provider' THEN l.provider
        WHEN 'thread' THEN coalesce(r.thread_id, 'none') WHEN 'run' THEN coalesce(l.run_id, 'none') ELSE 'total' END AS what,
      count(DISTINCT l.call) AS calls,
      sum(l.input_tokens) AS input_tokens, sum(l.cache_read_tokens) AS cache_read_tokens,
      sum(l.cache_write_tokens) AS cache_write_tokens, sum(l.output_tokens) AS output_tokens,
      sum(l.reasoning_tokens) AS reasoning_tokens, sum(l.cost_micros) AS cost_micros,
      group_concat(DISTINCT CASE l.cost_source WHEN 'unknown' THEN NULL
        ELSE l.cost_source || coalesce(' ' || l.price_version, '') END) AS sources,
      sum(l.cost_micros IS NULL AND l.state = 'answered') AS unknown_cost, sum(l.state = 'lost') AS lost,
      coalesce(sum(l.held_micros), 0) AS held_micros, sum(l.estimated) AS estimated
    FROM calls l LEFT JOIN runs r ON r.id = l.run_id
    GROUP BY what) AS sums
    ORDER BY CASE $2 WHEN 'day' THEN what END DESC, cost_micros DESC NULLS LAST, calls DESC, what LIMIT $3";
/// The report of [`USAGE`] for whole days, except for threads and runs.
const USAGE_OF_DAYS: &str = "
    SELECT * FROM (SELECT CASE $2 WHEN 'day' THEN d.day WHEN 'persona' THEN d.persona_id WHEN 'model' THEN d.provider || '/' || d.model
        WHEN 'provider' THEN d.provider ELSE 'total' END AS what,
      sum(CASE $2 WHEN 'model' THEN d.lines ELSE d.calls END) AS calls,
      sum(d.input_tokens) AS input_tokens, sum(d.cache_read_tokens) AS cache_read_tokens,
      sum(d.cache_write_tokens) AS cache_write_tokens, sum(d.output_tokens) AS output_tokens,
      sum(d.reasoning_tokens) AS reasoning_tokens, sum(d.cost_micros) AS cost_micros,
      group_concat(DISTINCT nullif(d.source, 'unknown')) AS sources, sum(d.unknown_cost) AS unknown_cost,
      sum(d.lost) AS lost, sum(d.held_micros) AS held_micros, sum(d.estimated) AS estimated
    FROM usage_days d WHERE d.day >= $1
    GROUP BY what) AS sums
    ORDER BY CASE $2 WHEN 'day' THEN what END DESC, cost_micros DESC NULLS LAST, calls DESC, what LIMIT $3";
const THREADS_THAT_SPEND: &str = "
    SELECT t.id, t.persona_id FROM threads t WHERE t.id IN (
      SELECT thread_id FROM thread_budgets
      UNION SELECT owner FROM (SELECT owner FROM budget_accounts WHERE scope = 'thread' AND period = $1
        ORDER BY spent_micros + reserved_micros DESC, spent_tokens DESC LIMIT $2) AS most)
    ORDER BY t.id";
/// The first condition is the one of the index `runs_open`.
const WAITING_FOR_MONEY: &str = "
    SELECT count(*) FROM runs WHERE state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')
      AND state = 'waiting_retry' AND error_class = 'budget'";

impl Store {
    /// Returns the sums of calls since then, the dearest first (days: the newest); `None` is one
    /// sum of all.
    pub async fn usage_since(
        &self,
        since: &UsageSince,
        by: Option<UsageBy>,
        limit: usize,
    ) -> Result<Vec<UsageSum>> {
        let word = by.map_or("total", UsageBy::as_str);
        match since {
            UsageSince::Day(day) if !matches!(by, Some(UsageBy::Thread | UsageBy::Run)) => {
                self.all(USAGE_OF_DAYS, (day, word, limit)).await
            }
            since => {
                let (instant, day) = match since {
                    UsageSince::Day(day) => (String::new(), day.as_str()),
                    UsageSince::Instant(instant) => (instant.to_string(), ""),
                };
                self.all(USAGE, (instant, word, limit, day)).await
            }
        }
    }

    /// Returns one sum of all calls since then.
    pub async fn usage_total(&self, since: &UsageSince) -> Result<UsageSum> {
        let total = self.usage_since(since, None, 1).await?.pop();
        Ok(total.unwrap_or_default())
    }

    /// Returns threads with a budget of their own, and the threads that spent most in a period,
    /// with their personas.
    pub async fn threads_that_spend(
        &self,
        period: &str,
        limit: usize,
    ) -> Result<Vec<(ThreadId, PersonaId)>> {
        let rows = self.rows(THREADS_THAT_SPEND, (period, limit)).await?;
        rows.iter()
            .map(|row| Ok((ThreadId::new(row.get::<String>("id")), persona_id(row)?)))
            .collect()
    }

    /// Counts the runs that ended without an answer on purpose since then.
    pub async fn runs_without_answer(&self, since: Timestamp) -> Result<i64> {
        self.one(WITHOUT_ANSWER, since).await
    }

    /// Counts the runs that wait until a budget account can pay.
    pub async fn runs_waiting_for_money(&self) -> Result<i64> {
        self.one(WAITING_FOR_MONEY, ()).await
    }
}

from_row!(|row| UsageSum {
    what,
    calls,
    input_tokens,
    cache_read_tokens,
    cache_write_tokens,
    output_tokens,
    reasoning_tokens,
    cost_micros,
    sources: {
        let sources = row.get::<Option<&str>>("sources").into_iter();
        let mut sources: Vec<String> = sources
            .flat_map(|list| list.split(','))
            .map(str::to_owned)
            .collect();
        sources.sort();
        sources
    },
    unknown_cost,
    lost,
    held_micros,
    estimated
});
