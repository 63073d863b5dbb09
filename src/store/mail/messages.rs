//! Messages: received letters, synthetic prompts, and mails of a persona. The storing of letters is
//! in `arrivals`.

use crate::domain::{
    AttachmentId, LetterRange, MessageId, PersonaId, RawLetterId, RunId, ThreadId, Timestamp, Trust,
};
use crate::store::db::{ArgumentList, Connection, Scope};
use crate::store::packing::PackedLetter;
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
    /// Range of its letter that gives the bytes; they are not stored again then.
    pub range: Option<LetterRange>,
}

/// Inserts a message with its raw bytes, if it has any. A message that a run adds to its own thread
/// (`$2` is NULL) takes the thread from the run, and adds its Message-ID to the conversation and
/// its recipients to the thread. Last words behind a mail of the run are read by nobody but the owner: they do not make the thread
/// a newer one, and no letter can name them.
pub const INSERT_MESSAGE: &str = "
    INSERT INTO raw_letters (id, persona_id, sha256, envelope_json, bytes, trace, size_bytes)
      SELECT $16, $3, $22, $23, $24, $26, $28 WHERE $24 IS NOT NULL;
    INSERT INTO message_links (persona_id, rfc_message_id, conversation_id)
      SELECT $3, $5, t.conversation_id FROM runs r JOIN threads t ON t.id = r.thread_id WHERE r.id = $17 AND $2 IS NULL
        AND $20 NOT IN ('withheld:already_replied', 'withheld:tool_only') ON CONFLICT DO NOTHING;
    INSERT INTO thread_participants (thread_id, address, joined_after)
      SELECT r.thread_id, j.value, CASE WHEN u.address IS NOT NULL THEN u.joined_after ELSE
          (SELECT CASE WHEN max(seq) < 0 THEN 0 ELSE max(seq) END FROM messages WHERE thread_id = r.thread_id) END
      FROM runs r CROSS JOIN jsonb_each($25) j
        LEFT JOIN thread_participants u ON u.thread_id = r.thread_id AND u.address = 'unverified:' || j.value
      WHERE r.id = $17 AND $2 IS NULL ON CONFLICT DO NOTHING;
    UPDATE threads SET updated_at = $14
      WHERE $2 IS NULL AND $20 NOT IN ('withheld:already_replied', 'withheld:tool_only')
        AND id = (SELECT thread_id FROM runs WHERE id = $17);
    INSERT INTO messages (id, thread_id, persona_id, direction, message_id, in_reply_to, references_json, sender,
      recipients_json, subject, text_body, fresh_text, html_body, received_at, trust, raw_id, run_id, dedup_key,
      ack_confirmed, disposition, metadata_json, hops)
    VALUES ($1, coalesce($2, (SELECT thread_id FROM runs WHERE id = $17)), $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
      $13, $14, $15, $16, $17, $18, $19, $20, $21, $27)";
const INSERT_ATTACHMENT: &str = "
    INSERT INTO attachments (id, message_id, persona_id, filename, declared_name, content_type, size_bytes, sha256,
      content_id, bytes, encoding, range_start, range_len)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";
const CONFIRM_ACK: &str = "
    UPDATE messages SET ack_confirmed = 1 WHERE id IN (SELECT value FROM jsonb_each($1))";

impl Store {
    /// Records that the peer saw our acknowledgement of these messages.
    pub async fn confirm_ack(&self, messages: &[MessageId]) -> Result<()> {
        let ids = json_list(messages.iter().map(MessageId::as_str));
        transact!(self, Scope::Rows, |conn| {
            conn.exec(CONFIRM_ACK, ids).await?;
            Ok(())
        })
        .await
    }
}

/// A row of `messages`, in either direction.
pub struct MessageRow<'a> {
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
pub struct RawRow<'a> {
    pub id: &'a RawLetterId,
    pub sha256: &'a str,
    pub envelope_json: &'a str,
    /// Our `Received` field; `None` for our own mail.
    pub trace: Option<&'a str>,
    pub bytes: &'a PackedLetter,
}

pub async fn insert_message(
    conn: &mut Connection,
    row: &MessageRow<'_>,
    now: Timestamp,
) -> Result<()> {
    conn.exec(INSERT_MESSAGE, message_values(row, now)).await?;
    Ok(())
}

/// Returns the values of [`INSERT_MESSAGE`].
pub fn message_values(row: &MessageRow<'_>, now: Timestamp) -> impl ArgumentList {
    let content = row.content;
    (
        (
            &row.id,
            row.thread,
            &row.persona,
            row.direction,
            &content.rfc_message_id,
            &content.in_reply_to,
            json_list(content.references.iter()),
            &content.sender,
            &content.recipients_json,
            &content.subject,
            &content.text_body,
            &content.fresh_text,
            &content.html_body,
            now,
            &content.trust,
            row.raw.as_ref().map(|raw| raw.id.as_str()),
        ),
        (
            row.run,
            row.dedup_key,
            row.ack_confirmed,
            row.disposition,
            &content.metadata_json,
            row.raw.as_ref().map(|raw| raw.sha256),
            row.raw.as_ref().map(|raw| raw.envelope_json),
            row.raw.as_ref().map(|raw| raw.bytes.bytes.as_slice()),
            json_list(row.joining.iter()),
            row.raw.as_ref().and_then(|raw| raw.trace),
            row.hops,
            row.raw.as_ref().map(|raw| raw.bytes.size_bytes()),
        ),
    )
}

pub async fn insert_attachment(
    conn: &mut Connection,
    persona: &PersonaId,
    message: &MessageId,
    attachment: &NewAttachment,
) -> Result<()> {
    conn.exec(
        INSERT_ATTACHMENT,
        (
            &attachment.id,
            message,
            persona,
            &attachment.filename,
            &attachment.declared_name,
            &attachment.content_type,
            i64::try_from(attachment.bytes.len()).unwrap_or(i64::MAX),
            &attachment.sha256,
            &attachment.content_id,
            match attachment.range {
                Some(_) => &[],
                None => &attachment.bytes[..],
            },
            attachment.range.map(|range| range.encoding.as_str()),
            attachment
                .range
                .and_then(|range| i64::try_from(range.start).ok()),
            attachment
                .range
                .and_then(|range| i64::try_from(range.len).ok()),
        ),
    )
    .await?;
    Ok(())
}

const THREAD_PARTICIPANTS: &str = "
    SELECT p.address FROM thread_participants p JOIN threads t ON t.id = p.thread_id
    WHERE p.thread_id = $1 AND t.persona_id = $2 ORDER BY p.address";
const READERS: &str = "
    SELECT r.address FROM readable r JOIN messages m ON m.seq = r.seq
    WHERE r.seq = $1 AND m.persona_id = $2 ORDER BY r.address";

impl PersonaStore {
    /// Returns all participants of a thread, in [`crate::domain::Address::key`] form; lists as
    /// `list:<List-Id>`.
    pub async fn thread_participants(&self, thread: &ThreadId) -> Result<Vec<String>> {
        let rows = self
            .rows(THREAD_PARTICIPANTS, (thread, &self.persona))
            .await?;
        Ok(rows.iter().map(|row| row.get("address")).collect())
    }

    /// Returns the participants of its thread who may read the message with that number.
    pub async fn readers_of(&self, seq: i64) -> Result<Vec<String>> {
        self.all(READERS, (seq, &self.persona)).await
    }
}
