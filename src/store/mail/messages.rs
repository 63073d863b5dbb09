//! Messages: received letters, synthetic prompts, and mails of a persona. The storing of letters is
//! in `arrivals`.

use crate::domain::{
    AttachmentId, MessageId, PersonaId, RawLetterId, RunId, ThreadId, Timestamp, Trust,
};
use crate::store::db::{self, Connection, Query, Scope};
use crate::store::sql::json_list;
use crate::store::{PersonaStore, Result, Store};
use serde::{Deserialize, Serialize};

/// The message columns that hold its visible content.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Content {
    /// RFC Message-ID without brackets.
    pub rfc_message_id: String,
    pub in_reply_to: Option<String>,
    pub references: Vec<String>,
    /// `Name <address>` as typed.
    pub sender: String,
    /// JSON object `{"to": […], "cc": […], "reply_to": […]}`.
    pub recipients_json: String,
    pub subject: String,
    pub text_body: String,
    /// Text without quoted history; `None` when it equals `text_body`.
    pub fresh_text: Option<String>,
    pub html_body: Option<String>,
    pub trust: Trust,
    pub metadata_json: String,
}

#[derive(Debug, Clone)]
pub struct NewAttachment {
    pub id: AttachmentId,
    pub filename: String,
    pub declared_name: String,
    pub content_type: String,
    pub content_id: Option<String>,
    pub sha256: String,
    pub bytes: Vec<u8>,
}

/// Inserts a message with its raw bytes, if it has any. A message that a run adds to its own thread
/// (`$2` is NULL) takes the thread from the run, and adds its Message-ID to the conversation and
/// its recipients to the thread.
pub(in crate::store) const INSERT_MESSAGE: &str = "
    INSERT INTO raw_letters (id, persona_id, sha256, envelope_json, bytes, trace)
      SELECT $16, $3, $22, $23, $24, $26 WHERE $24 IS NOT NULL;
    INSERT INTO message_links (persona_id, rfc_message_id, conversation_id)
      SELECT $3, $5, t.conversation_id FROM runs r JOIN threads t ON t.id = r.thread_id WHERE r.id = $17 AND $2 IS NULL ON CONFLICT DO NOTHING;
    INSERT INTO thread_participants (thread_id, address, joined_after)
      SELECT r.thread_id, j.value, CASE WHEN u.address IS NOT NULL THEN u.joined_after ELSE
          (SELECT CASE WHEN max(seq) < 0 THEN 0 ELSE max(seq) END FROM messages WHERE thread_id = r.thread_id) END
      FROM runs r CROSS JOIN jsonb_each($25) j
        LEFT JOIN thread_participants u ON u.thread_id = r.thread_id AND u.address = 'unverified:' || j.value
      WHERE r.id = $17 AND $2 IS NULL ON CONFLICT DO NOTHING;
    UPDATE threads SET updated_at = $14
      WHERE $2 IS NULL AND id = (SELECT thread_id FROM runs WHERE id = $17);
    INSERT INTO messages (id, thread_id, persona_id, direction, message_id, in_reply_to, references_json, sender,
      recipients_json, subject, text_body, fresh_text, html_body, received_at, trust, raw_id, run_id, dedup_key,
      ack_confirmed, disposition, metadata_json, hops)
    VALUES ($1, coalesce($2, (SELECT thread_id FROM runs WHERE id = $17)), $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
      $13, $14, $15, $16, $17, $18, $19, $20, $21, $27)";
pub(in crate::store) const INSERT_ATTACHMENT: &str = "
    INSERT INTO attachments (id, message_id, persona_id, filename, declared_name, content_type, size_bytes, sha256,
      content_id, bytes) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
pub(in crate::store) const CONFIRM_ACK: &str = "
    UPDATE messages SET ack_confirmed = 1 WHERE id IN (SELECT value FROM jsonb_each($1))";

impl Store {
    /// Records that the peer saw our acknowledgement of these messages.
    pub async fn confirm_ack(&self, messages: &[MessageId]) -> Result<()> {
        let ids = json_list(messages.iter().map(MessageId::as_str));
        self.write(Scope::Rows, move |conn| {
            Box::pin(async move {
                db::query(CONFIRM_ACK).bind(ids).execute(conn).await?;
                Ok(())
            })
        })
        .await
    }
}

/// A row of `messages`, in either direction.
pub(in crate::store) struct MessageRow<'a> {
    pub id: &'a MessageId,
    /// `None`: the thread of `run`.
    pub thread: Option<&'a ThreadId>,
    pub persona: &'a PersonaId,
    pub direction: &'static str,
    pub content: &'a Content,
    /// Raw bytes of the letter, stored with it.
    pub raw: Option<RawRow<'a>>,
    pub run: Option<&'a RunId>,
    pub dedup_key: Option<&'a str>,
    pub ack_confirmed: bool,
    pub disposition: &'a str,
    /// Number of consecutive mails that personas wrote, this one included.
    pub hops: u32,
    /// Addresses that join the run's thread by this message.
    pub joining: &'a [String],
}

/// A row of `raw_letters`.
pub(in crate::store) struct RawRow<'a> {
    pub id: &'a RawLetterId,
    pub sha256: &'a str,
    pub envelope_json: &'a str,
    /// Our `Received` field; `None` for our own mail.
    pub trace: Option<&'a str>,
    pub bytes: &'a [u8],
}

pub(in crate::store) async fn insert_message(
    conn: &mut Connection,
    row: &MessageRow<'_>,
    now: Timestamp,
) -> Result<()> {
    with_message(db::query(INSERT_MESSAGE), row, now)
        .execute(conn)
        .await?;
    Ok(())
}

/// Binds the parameters of [`INSERT_MESSAGE`].
pub(in crate::store) fn with_message(insert: Query, row: &MessageRow<'_>, now: Timestamp) -> Query {
    let content = row.content;
    insert
        .bind(row.id.as_str())
        .bind(row.thread.map(ThreadId::as_str))
        .bind(row.persona.as_str())
        .bind(row.direction)
        .bind(&content.rfc_message_id)
        .bind(content.in_reply_to.as_deref())
        .bind(json_list(content.references.iter().map(String::as_str)))
        .bind(&content.sender)
        .bind(&content.recipients_json)
        .bind(&content.subject)
        .bind(&content.text_body)
        .bind(content.fresh_text.as_deref())
        .bind(content.html_body.as_deref())
        .bind(now.to_string())
        .bind(content.trust.as_str())
        .bind(row.raw.as_ref().map(|raw| raw.id.as_str()))
        .bind(row.run.map(RunId::as_str))
        .bind(row.dedup_key)
        .bind(row.ack_confirmed)
        .bind(row.disposition)
        .bind(&content.metadata_json)
        .bind(row.raw.as_ref().map(|raw| raw.sha256))
        .bind(row.raw.as_ref().map(|raw| raw.envelope_json))
        .bind(row.raw.as_ref().map(|raw| raw.bytes))
        .bind(json_list(row.joining.iter().map(String::as_str)))
        .bind(row.raw.as_ref().and_then(|raw| raw.trace))
        .bind(row.hops)
}

pub(in crate::store) async fn insert_attachment(
    conn: &mut Connection,
    persona: &PersonaId,
    message: &MessageId,
    attachment: &NewAttachment,
) -> Result<()> {
    db::query(INSERT_ATTACHMENT)
        .bind(attachment.id.as_str())
        .bind(message.as_str())
        .bind(persona.as_str())
        .bind(&attachment.filename)
        .bind(&attachment.declared_name)
        .bind(&attachment.content_type)
        .bind(i64::try_from(attachment.bytes.len()).unwrap_or(i64::MAX))
        .bind(&attachment.sha256)
        .bind(attachment.content_id.as_deref())
        .bind(&attachment.bytes[..])
        .execute(conn)
        .await?;
    Ok(())
}

pub(in crate::store) const THREAD_PARTICIPANTS: &str = "
    SELECT p.address FROM thread_participants p JOIN threads t ON t.id = p.thread_id
    WHERE p.thread_id = $1 AND t.persona_id = $2 ORDER BY p.address";
pub(in crate::store) const READERS: &str = "
    SELECT r.address FROM readable r JOIN messages m ON m.seq = r.seq
    WHERE r.seq = $1 AND m.persona_id = $2 ORDER BY r.address";

impl PersonaStore {
    /// Returns all participants of a thread, in [`crate::domain::Address::key`] form; lists as
    /// `list:<List-Id>`.
    pub async fn thread_participants(&self, thread: &ThreadId) -> Result<Vec<String>> {
        let rows = db::query(THREAD_PARTICIPANTS)
            .bind(thread.as_str())
            .bind(self.persona.as_str());
        let rows = rows.fetch_all(self.store.readers()).await?;
        Ok(rows.iter().map(|row| row.get("address")).collect())
    }

    /// Returns the participants of its thread who may read the message with that number.
    pub async fn readers_of(&self, seq: i64) -> Result<Vec<String>> {
        let readers = db::query_scalar(READERS)
            .bind(seq)
            .bind(self.persona.as_str());
        Ok(readers.fetch_all(self.store.readers()).await?)
    }
}
