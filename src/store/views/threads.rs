//! Listings of threads and runs: newest first, in pages, found by a piece of their id.
//!
//! Absent on purpose: the details of a run (`record.rs`), and changes (`run_control.rs`).

use crate::domain::mail::filed;
use crate::domain::{ConversationId, PersonaId, ThreadId, Timestamp, Withheld};
use crate::store::db::{self};
use crate::store::sql::json_list;
use crate::store::threads::history::{AttachmentInfo, StoredMessage};
use crate::store::{PersonaStore, Result, Store, StoreError};
use serde::Serialize;
use std::collections::HashMap;

/// Filter of a listing of threads.
#[derive(Debug, Clone, Default)]
pub struct ThreadFilter {
    pub persona: Option<PersonaId>,
    pub limit: u32,
    /// Number of newer threads to skip.
    pub offset: u32,
}

/// A thread in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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

const LATEST_THREADS: &str = "
    SELECT id FROM threads ORDER BY updated_at DESC, id DESC LIMIT $1 OFFSET $2";
const LATEST_THREADS_OF: &str = "
    SELECT id FROM threads WHERE persona_id = $3 ORDER BY updated_at DESC, id DESC LIMIT $1 OFFSET $2";
const THREAD_SUMMARIES: &str = "
    SELECT t.id, t.conversation_id, t.persona_id, t.subject, t.created_at, t.updated_at,
      (SELECT json_group_array(p.address) FROM thread_participants p WHERE p.thread_id = t.id) AS people,
      (SELECT count(*) FROM messages m WHERE m.thread_id = t.id) AS messages,
      (SELECT count(*) FROM runs r WHERE r.thread_id = t.id) AS runs,
      (SELECT count(*) FROM runs r WHERE r.thread_id = t.id
        AND r.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')) AS open_runs,
      (SELECT m.disposition FROM messages m WHERE m.thread_id = t.id ORDER BY m.seq DESC LIMIT 1) AS disposition
    FROM threads t WHERE t.id IN (SELECT value FROM jsonb_each($1)) ORDER BY t.updated_at DESC, t.id DESC";
const MESSAGES_OF_THREAD: &str = "
    SELECT seq, id, thread_id, direction, message_id, in_reply_to, references_json, sender, recipients_json, subject,
      text_body, fresh_text, received_at, trust, run_id, disposition, hops, metadata_json
    FROM messages WHERE thread_id = $1 AND persona_id = $2 ORDER BY seq DESC LIMIT $3";
const ATTACHMENTS_OF: &str = "
    SELECT message_id, filename, content_type, size_bytes FROM attachments
    WHERE message_id IN (SELECT value FROM jsonb_each($1)) AND persona_id = $2 ORDER BY message_id, id";

const HAS_THREAD: &str = "SELECT EXISTS (SELECT 1 FROM threads WHERE id = $1 AND persona_id = $2)";
const KNOWS_PERSONA: &str = "SELECT EXISTS (SELECT 1 FROM threads WHERE persona_id = $1)";

impl Store {
    /// Returns threads by their last activity, the newest first.
    pub async fn list_threads(&self, filter: &ThreadFilter) -> Result<Vec<ThreadSummary>> {
        let sql = if filter.persona.is_some() {
            LATEST_THREADS_OF
        } else {
            LATEST_THREADS
        };
        let page = db::query(sql).bind((filter.limit, filter.offset));
        let page = match &filter.persona {
            Some(persona) => page.bind(persona),
            None => page,
        };
        let ids: Vec<String> = page.all(self.readers()).await?;
        self.thread_summaries(&ids).await
    }

    /// Returns one thread of the listing. Errors: [`StoreError::Missing`].
    pub async fn thread_summary(&self, id: &ThreadId) -> Result<ThreadSummary> {
        let found = self.thread_summaries(&[id.to_string()]).await?.pop();
        found.ok_or_else(|| StoreError::missing("thread", id))
    }

    async fn thread_summaries(&self, ids: &[String]) -> Result<Vec<ThreadSummary>> {
        let ids = json_list(ids.iter());
        self.all(THREAD_SUMMARIES, ids).await
    }

    /// Reports whether a row was ever stored for a persona.
    pub async fn knows_persona(&self, persona: &PersonaId) -> Result<bool> {
        self.one(KNOWS_PERSONA, persona).await
    }
}

impl PersonaStore {
    /// Reports whether the thread belongs to the persona.
    pub async fn has_thread(&self, thread: &ThreadId) -> Result<bool> {
        self.one(HAS_THREAD, (thread, &self.persona)).await
    }

    /// Returns the last `limit` messages of a thread, oldest first.
    pub async fn thread_messages(
        &self,
        thread: &ThreadId,
        limit: u32,
    ) -> Result<Vec<ThreadMessage>> {
        let mut messages: Vec<StoredMessage> = self
            .all(MESSAGES_OF_THREAD, (thread, &self.persona, limit))
            .await?;
        messages.reverse();
        let ids = json_list(messages.iter().map(|message| message.id.as_str()));
        let mut attachments: HashMap<String, Vec<AttachmentInfo>> = HashMap::new();
        for row in self.rows(ATTACHMENTS_OF, (ids, &self.persona)).await? {
            let of_message = attachments.entry(row.get("message_id")).or_default();
            of_message.push(row.to()?);
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
}

from_row!(|row| ThreadSummary {
    id,
    conversation: "conversation_id",
    persona: "persona_id",
    subject,
    participants: {
        let mut people: Vec<String> = row.json("people", "participants of a thread")?;
        people.sort();
        people
    },
    messages,
    runs,
    open_runs,
    held: {
        let disposition: Option<String> = row.get("disposition");
        disposition.filter(|disposition| is_held(disposition))
    },
    created_at,
    updated_at
});

/// Reports whether a rule holds a message against its sender's intent. A text beside a reply that
/// was sent does not count, nor does a command.
fn is_held(disposition: &str) -> bool {
    let by_design = [
        Withheld::AlreadyReplied,
        Withheld::ToolOnly,
        Withheld::StoreOnly,
    ];
    match disposition.split_once(':') {
        Some(("filed", rule)) => rule != filed::COMMAND_RULE,
        Some(("withheld", rule)) => {
            Withheld::parse(rule).is_none_or(|rule| !by_design.contains(&rule))
        }
        _ => false,
    }
}
