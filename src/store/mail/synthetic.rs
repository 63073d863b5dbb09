//! Synthetic messages: prompts of schedules, of chat and of manual runs, stored with their run.

use crate::domain::{MessageId, PersonaId, RunId, ThreadId, Timestamp};
use crate::store::db::{Connection, Sql};
use crate::store::mail::messages::{
    Content, MessageRow, NewAttachment, insert_attachment, insert_message,
};
use crate::store::runs::queue::{self as runs, NewRun};
use crate::store::threads::place::Place;
use crate::store::threads::placement::{self, place_message};
use crate::store::{PersonaStore, Result};

/// A synthetic message with its run, for schedules, chat and manual runs.
#[derive(Debug, Clone)]
pub struct NewSynthetic {
    pub persona: PersonaId,
    pub id: MessageId,
    /// The thread of the message; `None` starts one among `participants`.
    pub thread: Option<ThreadId>,
    pub place: Place,
    pub content: Content,
    pub attachments: Vec<NewAttachment>,
    pub run: NewRun,
}

/// Every message of the thread but the persona's own is a question that was asked there.
/// The plus keeps `messages_by_time` away, which gives all letters of the persona.
const IS_ASKED_AT: &str = "
    SELECT EXISTS (SELECT 1 FROM messages m WHERE m.thread_id = $1 AND +m.persona_id = $2 AND m.direction = 'synthetic'
        AND m.metadata_json ->> '$.asked_at' = $3)
      AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.thread_id = $1 AND +m.persona_id = $2 AND m.direction <> 'outbound'
        AND coalesce(m.metadata_json ->> '$.asked_at', '') <> $3)";

/// The newest question whose conversation had this digest, if nothing was asked in its thread since. In the words of the index
/// `messages_said`.
const QUESTION_OF_DIGEST: Sql = Sql::pair(
    "
    SELECT m.thread_id, r.id AS run_id FROM messages m JOIN runs r ON r.trigger_message_id = m.id
    WHERE m.persona_id = $1 AND m.direction = 'synthetic' AND m.metadata_json ->> '$.said_sha256' = $2
      AND NOT EXISTS (SELECT 1 FROM messages l WHERE l.thread_id = m.thread_id AND l.seq > m.seq AND l.direction <> 'outbound')
    ORDER BY m.seq DESC LIMIT 1",
    "
    SELECT m.thread_id, r.id AS run_id FROM messages m JOIN runs r ON r.trigger_message_id = m.id
    WHERE m.persona_id = $1 AND m.direction = 'synthetic' AND CAST(m.metadata_json AS JSON) ->> 'said_sha256' = $2
      AND NOT EXISTS (SELECT 1 FROM messages l WHERE l.thread_id = m.thread_id AND l.seq > m.seq AND l.direction <> 'outbound')
    ORDER BY m.seq DESC LIMIT 1",
);

/// A question with nothing asked after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastQuestion {
    pub thread: ThreadId,
    pub run: RunId,
}

impl PersonaStore {
    /// Finds the last question of a thread by the digest of what its conversation held up to it.
    pub async fn question_of_digest(&self, said_sha256: &str) -> Result<Option<LastQuestion>> {
        let row = self
            .maybe_row(QUESTION_OF_DIGEST, (&self.persona, said_sha256))
            .await?;
        Ok(row.map(|row| LastQuestion {
            thread: row.get("thread_id"),
            run: row.get("run_id"),
        }))
    }

    /// Reports whether a thread holds nothing but questions that were asked there, and their answers.
    pub async fn is_asked_at(&self, thread: &ThreadId, asked_at: &str) -> Result<bool> {
        self.one(IS_ASKED_AT, (thread, &self.persona, asked_at))
            .await
    }

    /// Stores a question with its queued run; returns the thread.
    pub async fn ask(&self, question: NewSynthetic) -> Result<ThreadId> {
        let now = self.store.clock().now();
        transact!(self, |conn| insert_synthetic(conn, &question, now).await).await
    }
}

/// Inserts a synthetic message and its queued run inside the caller's transaction; returns the
/// thread.
pub async fn insert_synthetic(
    conn: &mut Connection,
    new: &NewSynthetic,
    now: Timestamp,
) -> Result<ThreadId> {
    let thread = match &new.thread {
        Some(thread) => {
            conn.exec(placement::TOUCH_THREAD, (&thread, now)).await?;
            thread.clone()
        }
        None => place_message(conn, &new.persona, &new.place, &new.content, now).await?,
    };
    let row = MessageRow {
        id: &new.id,
        thread: Some(&thread),
        persona: &new.persona,
        direction: "synthetic",
        content: &new.content,
        raw: None,
        run: None,
        dedup_key: None,
        ack_confirmed: true,
        disposition: "run",
        hops: 0,
        joining: &[],
    };
    insert_message(conn, &row, now).await?;
    for attachment in &new.attachments {
        insert_attachment(conn, &new.persona, &new.id, attachment).await?;
    }
    runs::insert(conn, &new.run, &new.persona, &thread, &new.id, now).await?;
    Ok(thread)
}
