//! Listings of threads and runs: newest first, in pages, found by a piece of their id.
//!
//! Absent on purpose: the details of a run (`record.rs`), and changes (`run_control.rs`).

use crate::domain::{
    ConversationId, DeliveryId, ErrorClass, MessageId, PersonaId, RunId, RunState, StopReason,
    ThreadId, Timestamp, Trigger, Usage, Withheld,
};
use crate::store::mail::threads::json_list;
use crate::store::runs::history::{AttachmentInfo, StoredMessage, stored_message, timestamp};
use crate::store::runs::queue::persona_id;
use crate::store::{PersonaStore, Result, Store, StoreError};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use std::collections::HashMap;

/// Fewest characters, from the beginning or the end of an id, that identify a row.
pub const ID_PIECE_CHARS_MIN: usize = 6;
/// Ids that an ambiguous piece lists.
const CANDIDATES_MAX: u32 = 6;

/// Filter of a listing of threads.
#[derive(Debug, Clone, Default)]
pub struct ThreadFilter {
    pub persona: Option<PersonaId>,
    pub limit: u32,
    /// Number of newer threads to skip.
    pub offset: u32,
}

/// A thread in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadSummary {
    pub id: ThreadId,
    pub conversation: ConversationId,
    pub persona: PersonaId,
    pub subject: String,
    /// Addresses, lists as `list:<List-Id>`, and names that were not authenticated as
    /// `unverified:<address>`.
    pub participants: Vec<String>,
    pub messages: u32,
    pub runs: u32,
    /// Number of runs that are queued, running or waiting.
    pub open_runs: u32,
    /// Disposition of the newest message when a rule holds it: `filed:<rule>` or `withheld:<rule>`.
    pub held: Option<String>,
    pub created_at: Timestamp,
    /// Last activity.
    pub updated_at: Timestamp,
}

/// A message of a thread with its attachments.
#[derive(Debug, Clone)]
pub struct ThreadMessage {
    pub message: StoredMessage,
    pub attachments: Vec<AttachmentInfo>,
}

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSummary {
    pub id: RunId,
    pub persona: PersonaId,
    pub thread: ThreadId,
    pub trigger: Trigger,
    pub trigger_message: MessageId,
    /// Subject of the triggering message.
    pub subject: String,
    /// Sender of the triggering message, as typed.
    pub sender: String,
    pub profile: String,
    pub state: RunState,
    /// Number of times that it was claimed.
    pub attempt: u32,
    pub next_attempt_at: Option<Timestamp>,
    pub cancel_requested_at: Option<Timestamp>,
    pub provider: Option<String>,
    pub model: Option<String>,
    pub stop_reason: Option<StopReason>,
    pub error_class: Option<ErrorClass>,
    pub error_message: Option<String>,
    /// Sum over its turns.
    pub usage: Usage,
    /// The bounds on tokens and money that it began with.
    pub limits_json: Option<String>,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
}

pub(in crate::store) const LATEST_THREADS: &str = "
    SELECT id FROM threads ORDER BY updated_at DESC, id DESC LIMIT $1 OFFSET $2";
pub(in crate::store) const LATEST_THREADS_OF: &str = "
    SELECT id FROM threads WHERE persona_id = $3 ORDER BY updated_at DESC, id DESC LIMIT $1 OFFSET $2";
pub(in crate::store) const THREAD_SUMMARIES: &str = "
    SELECT t.id, t.conversation_id, t.persona_id, t.subject, t.created_at, t.updated_at,
      (SELECT json_group_array(p.address) FROM thread_participants p WHERE p.thread_id = t.id) AS people,
      (SELECT count(*) FROM messages m WHERE m.thread_id = t.id) AS messages,
      (SELECT count(*) FROM runs r WHERE r.thread_id = t.id) AS runs,
      (SELECT count(*) FROM runs r WHERE r.thread_id = t.id
        AND r.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')) AS open_runs,
      (SELECT m.disposition FROM messages m WHERE m.thread_id = t.id ORDER BY m.seq DESC LIMIT 1) AS disposition
    FROM threads t WHERE t.id IN (SELECT value FROM json_each($1)) ORDER BY t.updated_at DESC, t.id DESC";
pub(in crate::store) const THREADS_LIKE: &str =
    "SELECT id FROM threads WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3";
pub(in crate::store) const THREADS_ENDING: &str =
    "SELECT id FROM threads WHERE substr(id, -length($1)) = $1 ORDER BY id DESC LIMIT $2";
pub(in crate::store) const DELIVERIES_ENDING: &str =
    "SELECT id FROM deliveries WHERE substr(id, -length($1)) = $1 ORDER BY id DESC LIMIT $2";
pub(in crate::store) const DELIVERIES_LIKE: &str =
    "SELECT id FROM deliveries WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3";
pub(in crate::store) const MESSAGES_OF_THREAD: &str = "
    SELECT seq, id, thread_id, direction, message_id, in_reply_to, references_json, sender, recipients_json, subject,
      text_body, fresh_text, received_at, trust, run_id, disposition, hops, metadata_json
    FROM messages WHERE thread_id = $1 AND persona_id = $2 ORDER BY seq DESC LIMIT $3";
pub(in crate::store) const ATTACHMENTS_OF: &str = "
    SELECT message_id, filename, content_type, size_bytes FROM attachments
    WHERE message_id IN (SELECT value FROM json_each($1)) AND persona_id = $2 ORDER BY message_id, id";
pub(in crate::store) const RUNS_OF_THREAD: &str = "
    SELECT id FROM runs WHERE thread_id = $1 AND persona_id = $2 ORDER BY seq DESC LIMIT $3";

pub(in crate::store) const LATEST_RUNS: &str = "
    SELECT id FROM runs WHERE (json_array_length($3) = 0 OR state IN (SELECT value FROM json_each($3)))
      AND created_at >= $4 AND ($5 = '' OR finished_at >= $5) ORDER BY seq DESC LIMIT $1 OFFSET $2";
pub(in crate::store) const LATEST_RUNS_OF: &str = "
    SELECT id FROM runs WHERE persona_id = $6
      AND (json_array_length($3) = 0 OR state IN (SELECT value FROM json_each($3)))
      AND created_at >= $4 AND ($5 = '' OR finished_at >= $5) ORDER BY seq DESC LIMIT $1 OFFSET $2";
pub(in crate::store) const RUN_SUMMARIES: &str = "
    SELECT r.id, r.persona_id, r.thread_id, r.trigger, r.trigger_message_id, m.subject, m.sender, r.profile, r.state,
      r.attempt, r.next_attempt_at, r.cancel_requested_at, r.provider, r.model, r.stop_reason, r.error_class,
      r.error_message, r.input_tokens, r.cache_read_tokens, r.cache_write_tokens, r.output_tokens,
      r.reasoning_tokens, r.cost_micros, r.limits_json, r.created_at, r.started_at, r.finished_at
    FROM runs r JOIN messages m ON m.id = r.trigger_message_id
    WHERE r.id IN (SELECT value FROM json_each($1)) ORDER BY r.seq DESC";
pub(in crate::store) const RUNS_LIKE: &str =
    "SELECT id FROM runs WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3";
pub(in crate::store) const RUNS_ENDING: &str =
    "SELECT id FROM runs WHERE substr(id, -length($1)) = $1 ORDER BY id DESC LIMIT $2";
pub(in crate::store) const RUNS_SINCE: &str = "SELECT count(*) FROM runs WHERE created_at >= $1";
pub(in crate::store) const RUNS_ENDED: &str =
    "SELECT state, count(*) FROM runs WHERE finished_at >= $1 GROUP BY state";
pub(in crate::store) const HAS_THREAD: &str =
    "SELECT EXISTS (SELECT 1 FROM threads WHERE id = $1 AND persona_id = $2)";
pub(in crate::store) const KNOWS_PERSONA: &str =
    "SELECT EXISTS (SELECT 1 FROM threads WHERE persona_id = $1)";
pub(in crate::store) const NEWEST_RUN: &str = "SELECT id FROM runs ORDER BY seq DESC LIMIT 1";

impl Store {
    /// Returns threads by their last activity, the newest first.
    pub async fn list_threads(&self, filter: &ThreadFilter) -> Result<Vec<ThreadSummary>> {
        let sql = if filter.persona.is_some() {
            LATEST_THREADS_OF
        } else {
            LATEST_THREADS
        };
        let page = sqlx::query_scalar(sql)
            .bind(filter.limit)
            .bind(filter.offset);
        let page = match &filter.persona {
            Some(persona) => page.bind(persona.as_str()),
            None => page,
        };
        let ids: Vec<String> = page.fetch_all(self.readers()).await?;
        self.thread_summaries(&ids).await
    }

    /// Returns one thread of the listing. Errors: [`StoreError::Missing`].
    pub async fn thread_summary(&self, id: &ThreadId) -> Result<ThreadSummary> {
        let found = self.thread_summaries(&[id.to_string()]).await?.pop();
        found.ok_or_else(|| StoreError::Missing {
            kind: "thread",
            id: id.to_string(),
        })
    }

    async fn thread_summaries(&self, ids: &[String]) -> Result<Vec<ThreadSummary>> {
        let ids = json_list(ids.iter().map(String::as_str));
        let rows = sqlx::query(THREAD_SUMMARIES)
            .bind(ids)
            .fetch_all(self.readers())
            .await?;
        rows.iter().map(thread_summary).collect()
    }

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
        let page = sqlx::query_scalar(sql)
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

    async fn run_summaries(&self, ids: &[RunId]) -> Result<Vec<RunSummary>> {
        let ids = json_list(ids.iter().map(RunId::as_str));
        let rows = sqlx::query(RUN_SUMMARIES)
            .bind(ids)
            .fetch_all(self.readers())
            .await?;
        rows.iter().map(run_summary).collect()
    }

    /// Finds the run whose id is `piece`, or the only run whose id begins or else ends with it.
    ///
    /// Errors: [`StoreError::Missing`], [`StoreError::Ambiguous`].
    pub async fn find_run(&self, piece: &str) -> Result<RunId> {
        self.find("run", (RUNS_LIKE, RUNS_ENDING), piece)
            .await
            .map(RunId::new)
    }

    /// Finds the thread whose id is `piece`, or the only thread whose id begins or else ends with
    /// it.
    ///
    /// Errors: [`StoreError::Missing`], [`StoreError::Ambiguous`].
    pub async fn find_thread(&self, piece: &str) -> Result<ThreadId> {
        self.find("thread", (THREADS_LIKE, THREADS_ENDING), piece)
            .await
            .map(ThreadId::new)
    }

    /// Finds the delivery whose id is `piece`, or the only delivery whose id begins or else ends
    /// with it.
    ///
    /// Errors: [`StoreError::Missing`], [`StoreError::Ambiguous`].
    pub async fn find_delivery(&self, piece: &str) -> Result<DeliveryId> {
        self.find("delivery", (DELIVERIES_LIKE, DELIVERIES_ENDING), piece)
            .await
            .map(DeliveryId::new)
    }

    /// Finds the id that begins with `piece`, or else ends with it, as lists show ids. A beginning
    /// is found by the index; for an end all ids are scanned, which takes half a second per
    /// million.
    pub(in crate::store) async fn find(
        &self,
        kind: &'static str,
        (beginning, ending): (&'static str, &'static str),
        piece: &str,
    ) -> Result<String> {
        let wanted = piece.to_ascii_lowercase();
        let missing = || StoreError::Missing {
            kind,
            id: piece.to_owned(),
        };
        let could_be_an_id = wanted.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        if !could_be_an_id || wanted.len() < ID_PIECE_CHARS_MIN {
            return Err(missing());
        }
        // `~` sorts after every character of an id.
        let (from, until) = (wanted.clone(), format!("{wanted}~"));
        let found = sqlx::query_scalar(beginning)
            .bind(from)
            .bind(until)
            .bind(CANDIDATES_MAX);
        let mut found: Vec<String> = found.fetch_all(self.readers()).await?;
        if found.is_empty() {
            let ends = sqlx::query_scalar(ending)
                .bind(&wanted)
                .bind(CANDIDATES_MAX);
            found = ends.fetch_all(self.readers()).await?;
        }
        match found.len() {
            0 => Err(missing()),
            // A whole id sorts before all ids that begin with it.
            _ if found[0] == wanted => Ok(found.swap_remove(0)),
            1 => Ok(found.swap_remove(0)),
            _ => Err(StoreError::Ambiguous {
                kind,
                piece: piece.to_owned(),
                found,
            }),
        }
    }

    /// Counts the runs that have ended since that instant, by state.
    pub async fn runs_ended_since(&self, since: Timestamp) -> Result<Vec<(RunState, u64)>> {
        let rows = sqlx::query(RUNS_ENDED)
            .bind(since.to_string())
            .fetch_all(self.readers())
            .await?;
        let count = |row: &SqliteRow| {
            let state = RunState::parse(row.get(0)).ok_or(StoreError::Unreadable {
                what: "state of a run",
            })?;
            Ok((state, row.get::<i64, _>(1).unsigned_abs()))
        };
        rows.iter().map(count).collect()
    }

    /// Counts the runs that were queued since that instant, or ever.
    pub async fn count_runs_since(&self, since: Option<Timestamp>) -> Result<u64> {
        let since = since.map_or_else(String::new, |since| since.to_string());
        let count: i64 = sqlx::query_scalar(RUNS_SINCE)
            .bind(since)
            .fetch_one(self.readers())
            .await?;
        Ok(count.unsigned_abs())
    }

    /// Reports whether a row was ever stored for a persona.
    pub async fn knows_persona(&self, persona: &PersonaId) -> Result<bool> {
        let knows = sqlx::query_scalar(KNOWS_PERSONA).bind(persona.as_str());
        Ok(knows.fetch_one(self.readers()).await?)
    }

    /// Returns the run that was queued last.
    pub async fn newest_run(&self) -> Result<Option<RunId>> {
        let id: Option<String> = sqlx::query_scalar(NEWEST_RUN)
            .fetch_optional(self.readers())
            .await?;
        Ok(id.map(RunId::new))
    }
}

impl PersonaStore {
    /// Reports whether the thread belongs to the persona.
    pub async fn has_thread(&self, thread: &ThreadId) -> Result<bool> {
        let has = sqlx::query_scalar(HAS_THREAD)
            .bind(thread.as_str())
            .bind(self.persona.as_str());
        Ok(has.fetch_one(self.store.readers()).await?)
    }

    /// Returns the last `limit` messages of a thread, oldest first.
    pub async fn thread_messages(
        &self,
        thread: &ThreadId,
        limit: u32,
    ) -> Result<Vec<ThreadMessage>> {
        let rows = sqlx::query(MESSAGES_OF_THREAD)
            .bind(thread.as_str())
            .bind(self.persona.as_str());
        let rows = rows.bind(limit).fetch_all(self.store.readers()).await?;
        let messages = rows
            .iter()
            .rev()
            .map(stored_message)
            .collect::<Result<Vec<_>>>()?;
        let ids = json_list(messages.iter().map(|message| message.id.as_str()));
        let mut attachments: HashMap<String, Vec<AttachmentInfo>> = HashMap::new();
        let rows = sqlx::query(ATTACHMENTS_OF)
            .bind(ids)
            .bind(self.persona.as_str());
        for row in rows.fetch_all(self.store.readers()).await? {
            attachments
                .entry(row.get("message_id"))
                .or_default()
                .push(AttachmentInfo {
                    filename: row.get("filename"),
                    content_type: row.get("content_type"),
                    size_bytes: row.get::<i64, _>("size_bytes").unsigned_abs(),
                });
        }
        let with_attachments = |message: StoredMessage| {
            let attachments = attachments.remove(message.id.as_str()).unwrap_or_default();
            ThreadMessage {
                message,
                attachments,
            }
        };
        Ok(messages.into_iter().map(with_attachments).collect())
    }

    /// Returns the last `limit` runs of a thread, oldest first.
    pub async fn thread_runs(&self, thread: &ThreadId, limit: u32) -> Result<Vec<RunSummary>> {
        let ids = sqlx::query_scalar(RUNS_OF_THREAD)
            .bind(thread.as_str())
            .bind(self.persona.as_str());
        let ids: Vec<String> = ids.bind(limit).fetch_all(self.store.readers()).await?;
        let ids: Vec<RunId> = ids.into_iter().map(RunId::new).collect();
        let mut runs = self.store.run_summaries(&ids).await?;
        runs.reverse();
        Ok(runs)
    }
}

fn thread_summary(row: &SqliteRow) -> Result<ThreadSummary> {
    let mut participants: Vec<String> =
        serde_json::from_str(row.get("people")).map_err(|_| StoreError::Unreadable {
            what: "participants of a thread",
        })?;
    participants.sort();
    Ok(ThreadSummary {
        id: ThreadId::new(row.get::<String, _>("id")),
        conversation: ConversationId::new(row.get::<String, _>("conversation_id")),
        persona: persona_id(row)?,
        subject: row.get("subject"),
        participants,
        messages: row.get("messages"),
        runs: row.get("runs"),
        open_runs: row.get("open_runs"),
        held: row
            .get::<Option<String>, _>("disposition")
            .filter(|disposition| is_held(disposition)),
        created_at: timestamp(row, "created_at")?,
        updated_at: timestamp(row, "updated_at")?,
    })
}

/// Reports whether a rule holds a message against its sender's intent. A text beside a reply that
/// was sent does not count.
fn is_held(disposition: &str) -> bool {
    let by_design = [
        Withheld::AlreadyReplied,
        Withheld::ToolOnly,
        Withheld::StoreOnly,
    ];
    match disposition.split_once(':') {
        Some(("filed", _)) => true,
        Some(("withheld", rule)) => {
            Withheld::parse(rule).is_none_or(|rule| !by_design.contains(&rule))
        }
        _ => false,
    }
}

fn run_summary(row: &SqliteRow) -> Result<RunSummary> {
    let unreadable = |what| move || StoreError::Unreadable { what };
    let word = |column: &str| row.get::<Option<String>, _>(column);
    Ok(RunSummary {
        id: RunId::new(row.get::<String, _>("id")),
        persona: persona_id(row)?,
        thread: ThreadId::new(row.get::<String, _>("thread_id")),
        trigger: Trigger::parse(row.get("trigger")).ok_or_else(unreadable("trigger of a run"))?,
        trigger_message: MessageId::new(row.get::<String, _>("trigger_message_id")),
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
        error_class: word("error_class").as_deref().and_then(ErrorClass::parse),
        error_message: row.get("error_message"),
        usage: usage(row),
        limits_json: row.get("limits_json"),
        created_at: timestamp(row, "created_at")?,
        started_at: optional_timestamp(row, "started_at")?,
        finished_at: optional_timestamp(row, "finished_at")?,
    })
}

/// Reads the usage columns of a run or of a turn.
pub(in crate::store) fn usage(row: &SqliteRow) -> Usage {
    let count = |column: &str| row.get::<i64, _>(column).unsigned_abs();
    Usage {
        input_tokens: count("input_tokens"),
        cache_read_tokens: count("cache_read_tokens"),
        cache_write_tokens: count("cache_write_tokens"),
        output_tokens: count("output_tokens"),
        reasoning_tokens: count("reasoning_tokens"),
        cost_micros: row.get("cost_micros"),
    }
}

pub(in crate::store) fn optional_timestamp(
    row: &SqliteRow,
    column: &str,
) -> Result<Option<Timestamp>> {
    match row.get::<Option<String>, _>(column) {
        None => Ok(None),
        Some(text) => Timestamp::parse(&text)
            .map(Some)
            .ok_or(StoreError::Unreadable { what: "time" }),
    }
}
