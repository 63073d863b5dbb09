//! Threads for a list that people read: who wrote, what became of it, what it cost.
//!
//! Absent on purpose: messages and runs of a thread (`threads`, `strips`).

use crate::domain::{
    ConversationId, ErrorClass, MessageId, PersonaId, RunId, RunState, StopReason, ThreadId,
    ThreadOutcome, Timestamp, Trust,
};
use crate::store::db::{self, Row};
use crate::store::sql::{json_list, optional_timestamp, persona_id, timestamp};
use crate::store::{Result, Store, StoreError};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;

/// Most threads that are looked at for those with an outcome: some 10 ms. The next page goes on behind them.
const LOOKED_AT_MAX: u32 = 1_000;

/// Filter of the list.
#[derive(Debug, Clone, Default)]
pub struct OverviewFilter {
    pub persona: Option<PersonaId>,
    /// Empty: any.
    pub outcomes: Vec<ThreadOutcome>,
    /// `Some(true)`: only threads of nothing but mails of the engine to its owners, their answers and commands, and bounces;
    /// `Some(false)`: only others.
    pub of_engine: Option<bool>,
    /// Only threads behind this one in the list.
    pub after: Option<(Timestamp, ThreadId)>,
    pub limit: u32,
}

/// A page of the list.
#[derive(Debug, Clone, PartialEq)]
pub struct OverviewPage {
    pub threads: Vec<ThreadOverview>,
    /// Begin of the next page; `None`: this was the last.
    pub next: Option<(Timestamp, ThreadId)>,
}

/// A thread in the list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ThreadOverview {
    pub id: ThreadId,
    pub conversation: ConversationId,
    pub persona: PersonaId,
    pub subject: String,
    /// From header of its newest letter; `None`: none came, it began with a prompt of the engine.
    pub sender: Option<String>,
    /// Trust of that letter's sender.
    pub trust: Option<Trust>,
    /// Beginning of the new text of its newest letter, or of its newest message if no letter came.
    pub beginning: String,
    pub messages: u32,
    /// Disposition of the newest message: `run`, `sent`, `filed:<rule>`, `withheld:<rule>`.
    pub disposition: Option<String>,
    pub outcome: ThreadOutcome,
    /// Run that wrote its newest message; `None`: that message came, or the engine wrote it.
    pub written_by: Option<RunId>,
    pub run: Option<LastRun>,
    /// Sum over all runs whose price is known.
    pub cost_micros: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The last run of a thread.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LastRun {
    pub id: RunId,
    pub state: RunState,
    pub stop_reason: Option<StopReason>,
    pub error_class: Option<ErrorClass>,
    pub next_attempt_at: Option<Timestamp>,
}

const OVERVIEW_IDS: &str = "
    SELECT t.id, t.updated_at FROM threads t WHERE (t.updated_at, t.id) < ($1, $2)
      AND ($4 = 'all' OR ($4 = 'engine') <> EXISTS (SELECT 1 FROM messages m WHERE m.thread_id = t.id
        AND m.disposition NOT IN ('notice', 'filed:approval_answer', 'filed:command', 'filed:bounce')))
    ORDER BY t.updated_at DESC, t.id DESC LIMIT $3";
const OVERVIEW_IDS_OF: &str = "
    SELECT t.id, t.updated_at FROM threads t WHERE t.persona_id = $5 AND (t.updated_at, t.id) < ($1, $2)
      AND ($4 = 'all' OR ($4 = 'engine') <> EXISTS (SELECT 1 FROM messages m WHERE m.thread_id = t.id
        AND m.disposition NOT IN ('notice', 'filed:approval_answer', 'filed:command', 'filed:bounce')))
    ORDER BY t.updated_at DESC, t.id DESC LIMIT $3";
const OVERVIEWS: &str = "
    SELECT t.id, t.conversation_id, t.persona_id, t.subject, t.created_at, t.updated_at,
      (SELECT count(*) FROM messages m WHERE m.thread_id = t.id) AS messages,
      (SELECT coalesce(sum(r.cost_micros), 0) FROM runs r WHERE r.thread_id = t.id) AS cost_micros,
      i.sender, i.trust, n.disposition, n.run_id AS written_by, substr(coalesce(i.fresh_text, i.text_body, n.fresh_text, n.text_body), 1, 240) AS beginning,
      r.id AS run_id, r.state AS run_state, r.stop_reason, r.error_class, r.next_attempt_at
    FROM threads t
    LEFT JOIN messages n ON n.seq = (SELECT m.seq FROM messages m WHERE m.thread_id = t.id ORDER BY m.seq DESC LIMIT 1)
    LEFT JOIN messages i ON i.seq = (SELECT m.seq FROM messages m WHERE m.thread_id = t.id AND m.direction = 'inbound'
      ORDER BY m.seq DESC LIMIT 1)
    LEFT JOIN runs r ON r.seq = (SELECT q.seq FROM runs q WHERE q.thread_id = t.id AND q.trigger <> 'summary'
      ORDER BY q.seq DESC LIMIT 1)
    WHERE t.id IN (SELECT value FROM jsonb_each($1)) ORDER BY t.updated_at DESC, t.id DESC";

const SIBLING_THREADS: &str = "
    SELECT id FROM threads WHERE conversation_id = $1 ORDER BY updated_at DESC LIMIT $2";
const PLACE_OF_MESSAGE: &str = "SELECT persona_id, thread_id FROM messages WHERE id = $1";

impl Store {
    /// Returns the threads of a conversation, those with the newest activity first.
    pub async fn threads_of_conversation(
        &self,
        conversation: &ConversationId,
        limit: u32,
    ) -> Result<Vec<ThreadOverview>> {
        let ids: Vec<String> = self.all(SIBLING_THREADS, (conversation, limit)).await?;
        let ids: Vec<ThreadId> = ids.into_iter().map(ThreadId::new).collect();
        self.overviews_of(&ids).await
    }

    /// Returns the persona and the thread of a message. Errors: [`StoreError::Missing`].
    pub async fn place_of_message(&self, id: &MessageId) -> Result<(PersonaId, ThreadId)> {
        let row = self.maybe_row(PLACE_OF_MESSAGE, id).await?;
        let row = row.ok_or_else(|| StoreError::missing("message", id))?;
        Ok((
            persona_id(&row)?,
            ThreadId::new(row.get::<String>("thread_id")),
        ))
    }

    /// Returns a page of threads by their last activity, the newest first. With outcomes, as many threads are looked at as a
    /// page may cost, so it may hold fewer than `limit`, and the next page goes on behind those that were looked at.
    pub async fn thread_overviews(&self, filter: &OverviewFilter) -> Result<OverviewPage> {
        let (at, id) = match &filter.after {
            Some((at, id)) => (at.to_string(), id.to_string()),
            None => ("~".to_owned(), "~".to_owned()),
        };
        let looked_at = match filter.outcomes.is_empty() {
            true => filter.limit.saturating_add(1),
            false => LOOKED_AT_MAX,
        };
        let of_engine = match filter.of_engine {
            None => "all",
            Some(true) => "engine",
            Some(false) => "people",
        };
        let sql = match &filter.persona {
            None => OVERVIEW_IDS,
            Some(_) => OVERVIEW_IDS_OF,
        };
        let rows = db::query(sql).bind((at, id, looked_at, of_engine));
        let rows = match &filter.persona {
            None => rows,
            Some(persona) => rows.bind(persona),
        };
        let rows = rows.rows(self.readers()).await?;
        let key = |row: &Row| -> Result<(Timestamp, ThreadId)> {
            Ok((
                timestamp(row, "updated_at")?,
                ThreadId::new(row.get::<String>("id")),
            ))
        };
        let mut wanted = rows.iter().map(key).collect::<Result<Vec<_>>>()?;
        let ids: Vec<ThreadId> = wanted.iter().map(|(_, id)| id.clone()).collect();
        let outcomes = self.thread_outcomes(&ids).await?;
        if !filter.outcomes.is_empty() {
            let is_wanted = |outcome| filter.outcomes.contains(outcome);
            wanted.retain(|(_, id)| outcomes.get(id).is_some_and(is_wanted));
        }
        let limit = usize::try_from(filter.limit).unwrap_or(usize::MAX);
        let is_cut = rows.len() >= usize::try_from(looked_at).unwrap_or(usize::MAX);
        let next = match wanted.len() > limit {
            true => {
                wanted.truncate(limit);
                wanted.last().cloned()
            }
            false => rows.last().filter(|_| is_cut).map(key).transpose()?,
        };
        let ids: Vec<ThreadId> = wanted.into_iter().map(|(_, id)| id).collect();
        let threads = self.overviews(&ids, &outcomes).await?;
        Ok(OverviewPage { threads, next })
    }

    /// Returns these threads as the list shows them, the newest first.
    pub async fn overviews_of(&self, ids: &[ThreadId]) -> Result<Vec<ThreadOverview>> {
        let outcomes = self.thread_outcomes(ids).await?;
        self.overviews(ids, &outcomes).await
    }

    async fn overviews(
        &self,
        ids: &[ThreadId],
        outcomes: &HashMap<ThreadId, ThreadOutcome>,
    ) -> Result<Vec<ThreadOverview>> {
        let ids = json_list(ids.iter().map(ThreadId::as_str));
        let rows = self.rows(OVERVIEWS, ids).await?;
        let mut overviews = Vec::with_capacity(rows.len());
        for row in &rows {
            let id: ThreadId = row.get("id");
            // A thread that came between the two reads has no run yet.
            let outcome = outcomes.get(&id).copied();
            overviews.push(overview(row, id, outcome.unwrap_or(ThreadOutcome::Quiet))?);
        }
        Ok(overviews)
    }
}

fn overview(row: &Row, id: ThreadId, outcome: ThreadOutcome) -> Result<ThreadOverview> {
    let word = |column: &str| row.get::<Option<String>>(column);
    let run = match word("run_id") {
        None => None,
        Some(id) => Some(LastRun {
            id: RunId::new(id),
            state: word("run_state")
                .as_deref()
                .and_then(RunState::parse)
                .ok_or(StoreError::Unreadable {
                    what: "state of a run",
                })?,
            stop_reason: word("stop_reason").as_deref().and_then(StopReason::parse),
            error_class: word("error_class").as_deref().and_then(ErrorClass::parse),
            next_attempt_at: optional_timestamp(row, "next_attempt_at")?,
        }),
    };
    Ok(ThreadOverview {
        id,
        conversation: row.get("conversation_id"),
        persona: persona_id(row)?,
        subject: row.get("subject"),
        sender: word("sender"),
        trust: word("trust").as_deref().map(Trust::parse_stored),
        beginning: word("beginning").unwrap_or_default(),
        messages: row.get("messages"),
        disposition: word("disposition"),
        outcome,
        written_by: word("written_by").map(RunId::new),
        run,
        cost_micros: row.get("cost_micros"),
        created_at: timestamp(row, "created_at")?,
        updated_at: timestamp(row, "updated_at")?,
    })
}
