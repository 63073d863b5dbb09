//! Letters as a tool opens them: one message whole, as far as given addresses may read it, and its attachments.

use crate::domain::{Address, MessageId, ThreadId, Timestamp};
use crate::store::db::{Row, Sql};
use crate::store::mail::attachment_bytes;
use crate::store::sql::{from_json, json_list};
use crate::store::{PersonaStore, Result};
use serde::Deserialize;
use std::fmt;
use std::sync::Arc;

/// Number of newest messages of a thread whose attachments are looked through.
const THREAD_MESSAGES_MAX: i64 = 200;
/// Most attachments of a thread that are listed.
const THREAD_ATTACHMENTS_MAX: i64 = 500;

/// A letter or an own mail, whole.
#[derive(Debug, Clone)]
pub struct OpenedMessage {
    pub id: MessageId,
    pub thread_id: ThreadId,
    /// `inbound` or `outbound`.
    pub direction: String,
    /// The From header in its display form.
    pub sender: String,
    /// `{"to": [..], "cc": [..], "reply_to": [..]}`
    pub recipients_json: String,
    pub subject: String,
    pub received_at: Timestamp,
    /// Disposition: `run`, `filed:<rule>`, `withheld:<rule>`, `sent`.
    pub disposition: String,
    /// A word of [`crate::domain::Trust`].
    pub trust: String,
    pub text_body: String,
    /// In their order in the letter.
    pub attachments: Vec<AttachmentRef>,
}

/// An attachment by its id, without its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AttachmentRef {
    pub id: String,
    pub filename: String,
    /// Media type as its sender declared it.
    pub content_type: String,
    pub size_bytes: u64,
    /// SHA-256 of the bytes in hexadecimal digits.
    pub sha256: String,
    /// 1: the bytes were pruned.
    pub is_pruned: u8,
}

/// An attachment of a message that a model may be shown as it is, with its bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct MessageFile {
    pub id: String,
    pub filename: String,
    /// Media type as its sender declared it.
    pub content_type: String,
    pub size_bytes: u64,
    /// SHA-256 of the bytes in hexadecimal digits.
    pub sha256: String,
    /// Empty: the file is larger than was asked for, or its bytes were pruned.
    pub bytes: Arc<[u8]>,
    /// Time when the bytes were pruned.
    pub pruned_at: Option<Timestamp>,
}

impl fmt::Debug for MessageFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MessageFile({}, {} bytes)", self.sha256, self.size_bytes)
    }
}

impl MessageFile {
    /// Reports whether its sender declared it as an image.
    pub fn is_image(&self) -> bool {
        self.content_type.starts_with("image/")
    }

    /// Reports whether its sender declared it as a PDF file, by its type or its name.
    pub fn is_pdf(&self) -> bool {
        is_pdf(&self.content_type, &self.filename)
    }
}

/// Reports whether a file is declared as PDF; many programs send one as `application/octet-stream`.
pub fn is_pdf(content_type: &str, filename: &str) -> bool {
    content_type == "application/pdf" || filename.to_ascii_lowercase().ends_with(".pdf")
}

/// Limits a reading to what given readers of a run's thread may see.
#[derive(Debug, Clone, Copy)]
pub struct ReadersRule<'a> {
    /// Message that the run answers.
    pub trigger: &'a MessageId,
    /// Addresses that must all be allowed to read a message; `None`: the run sees everything.
    pub visible_to: Option<&'a [Address]>,
}

impl ReadersRule<'_> {
    pub(in crate::store) fn readers_json(&self) -> Option<String> {
        let keys: Vec<String> = self.visible_to?.iter().map(Address::key).collect();
        Some(json_list(keys.iter()))
    }
}

/// `$4`, the message that the run answers, is always its own to read.
const OPEN_MESSAGE: Sql = Sql::pair(
    "
    SELECT m.id, m.thread_id, m.direction, m.sender, m.recipients_json, m.subject, m.received_at, m.disposition, m.trust,
      m.text_body,
      (SELECT json_group_array(json_object('id', a.id, 'filename', a.filename, 'content_type', a.content_type,
         'size_bytes', a.size_bytes, 'sha256', a.sha256, 'is_pruned', CASE WHEN a.pruned_at IS NULL THEN 0 ELSE 1 END) ORDER BY a.id)
       FROM attachments a WHERE a.message_id = m.id) AS attachments
    FROM messages m
    WHERE m.id = $1 AND m.persona_id = $2 AND m.direction IN ('inbound', 'outbound') AND m.disposition <> 'notice'
      AND (m.id = $4 OR $3 IS NULL OR (m.disposition NOT LIKE 'withheld:%' AND NOT EXISTS (
        SELECT 1 FROM jsonb_each($3) reader WHERE NOT EXISTS (SELECT 1 FROM readable
          WHERE readable.seq = m.seq AND readable.address = reader.value))))",
    "
    SELECT m.id, m.thread_id, m.direction, m.sender, m.recipients_json, m.subject, m.received_at, m.disposition, m.trust,
      m.text_body,
      (SELECT json_group_array(json_build_object('id', a.id, 'filename', a.filename, 'content_type', a.content_type,
         'size_bytes', a.size_bytes, 'sha256', a.sha256, 'is_pruned', CASE WHEN a.pruned_at IS NULL THEN 0 ELSE 1 END) ORDER BY a.id)
       FROM attachments a WHERE a.message_id = m.id) AS attachments
    FROM messages m
    WHERE m.id = $1 AND m.persona_id = $2 AND m.direction IN ('inbound', 'outbound') AND m.disposition <> 'notice'
      AND (m.id = $4 OR $3 IS NULL OR (m.disposition NOT LIKE 'withheld:%' AND NOT EXISTS (
        SELECT 1 FROM jsonb_each($3) reader WHERE NOT EXISTS (SELECT 1 FROM readable
          WHERE readable.seq = m.seq AND readable.address = reader.value))))",
);
/// Messages of the run's thread with attachments, newest first, from its trigger back to where somebody reset the thread.
const THREAD_ATTACHMENTS: Sql = Sql::pair(
    "
    SELECT m.id AS message_id, json_object('id', a.id, 'filename', a.filename, 'content_type', a.content_type,
      'size_bytes', a.size_bytes, 'sha256', a.sha256, 'is_pruned', CASE WHEN a.pruned_at IS NULL THEN 0 ELSE 1 END) AS attachment
    FROM (SELECT m.seq, m.id, m.persona_id, m.disposition, m.thread_id, t.seq AS trigger_seq
        FROM messages t JOIN messages m ON m.thread_id = t.thread_id AND m.seq <= t.seq
        WHERE t.id = $1 AND t.persona_id = $2 ORDER BY m.seq DESC LIMIT $4) m
      JOIN attachments a ON a.message_id = m.id
    WHERE m.persona_id = $2 AND m.disposition <> 'notice'
      AND (m.id = $1 OR $3 IS NULL OR (m.disposition NOT LIKE 'withheld:%' AND NOT EXISTS (
        SELECT 1 FROM jsonb_each($3) reader WHERE NOT EXISTS (SELECT 1 FROM readable
          WHERE readable.seq = m.seq AND readable.address = reader.value))))
      AND NOT EXISTS (SELECT 1 FROM thread_resets x WHERE x.thread_id = m.thread_id
        AND x.after_seq < m.trigger_seq AND x.after_seq >= m.seq)
    ORDER BY m.seq DESC, a.id LIMIT $5",
    "
    SELECT m.id AS message_id, json_build_object('id', a.id, 'filename', a.filename, 'content_type', a.content_type,
      'size_bytes', a.size_bytes, 'sha256', a.sha256, 'is_pruned', CASE WHEN a.pruned_at IS NULL THEN 0 ELSE 1 END) AS attachment
    FROM (SELECT m.seq, m.id, m.persona_id, m.disposition, m.thread_id, t.seq AS trigger_seq
        FROM messages t JOIN messages m ON m.thread_id = t.thread_id AND m.seq <= t.seq
        WHERE t.id = $1 AND t.persona_id = $2 ORDER BY m.seq DESC LIMIT $4) m
      JOIN attachments a ON a.message_id = m.id
    WHERE m.persona_id = $2 AND m.disposition <> 'notice'
      AND (m.id = $1 OR $3 IS NULL OR (m.disposition NOT LIKE 'withheld:%' AND NOT EXISTS (
        SELECT 1 FROM jsonb_each($3) reader WHERE NOT EXISTS (SELECT 1 FROM readable
          WHERE readable.seq = m.seq AND readable.address = reader.value))))
      AND NOT EXISTS (SELECT 1 FROM thread_resets x WHERE x.thread_id = m.thread_id
        AND x.after_seq < m.trigger_seq AND x.after_seq >= m.seq)
    ORDER BY m.seq DESC, a.id LIMIT $5",
);
const ATTACHMENT_BYTES: &str = "
    SELECT a.bytes, CASE WHEN a.pruned_at IS NULL THEN a.encoding END AS encoding, a.range_start, a.range_len, CASE WHEN a.encoding IS NOT NULL THEN
      (SELECT l.bytes FROM messages m JOIN raw_letters l ON l.id = m.raw_id WHERE m.id = a.message_id) END AS letter
    FROM attachments a WHERE a.id = $1 AND a.persona_id = $2";
/// `$3`: the most bytes of one file, `$4`: the most files.
const MESSAGE_FILES: &str = "
    SELECT id, filename, content_type, size_bytes, sha256, pruned_at, CASE WHEN size_bytes <= $3 THEN bytes ELSE CAST('' AS BLOB) END AS bytes,
      CASE WHEN size_bytes <= $3 AND pruned_at IS NULL THEN encoding END AS encoding, range_start, range_len,
      CASE WHEN size_bytes <= $3 AND encoding IS NOT NULL
        THEN (SELECT l.bytes FROM messages m JOIN raw_letters l ON l.id = m.raw_id WHERE m.id = attachments.message_id) END AS letter
    FROM attachments WHERE message_id = $1 AND persona_id = $2
      AND (lower(content_type) LIKE 'image/%' OR lower(content_type) = 'application/pdf' OR lower(filename) LIKE '%.pdf')
    ORDER BY id LIMIT $4";
const ATTACHMENT_TEXT: &str = "
    SELECT t.document_json FROM attachments a JOIN attachment_texts t ON t.attachment_id = a.id
    WHERE a.id = $1 AND a.persona_id = $2 AND t.version = $3";
const KEEP_ATTACHMENT_TEXT: &str = "
    INSERT INTO attachment_texts (attachment_id, version, document_json, read_at)
    SELECT id, $3, $4, $5 FROM attachments WHERE id = $1 AND persona_id = $2 AND pruned_at IS NULL
    ON CONFLICT (attachment_id) DO UPDATE SET version = excluded.version, document_json = excluded.document_json,
      read_at = excluded.read_at";

impl PersonaStore {
    /// Returns a message that was received or sent; `None`: there is no such message, or not every reader may read it.
    pub async fn open_message(
        &self,
        id: &MessageId,
        rule: ReadersRule<'_>,
    ) -> Result<Option<OpenedMessage>> {
        self.maybe(
            OPEN_MESSAGE,
            (id, &self.persona, rule.readers_json(), &rule.trigger),
        )
        .await
    }

    /// Returns the attachments in the thread of the message that the run answers, of the newest message first.
    pub async fn thread_attachments(
        &self,
        rule: ReadersRule<'_>,
    ) -> Result<Vec<(MessageId, AttachmentRef)>> {
        let rows = self
            .rows(
                THREAD_ATTACHMENTS,
                (
                    &rule.trigger,
                    &self.persona,
                    rule.readers_json(),
                    THREAD_MESSAGES_MAX,
                    THREAD_ATTACHMENTS_MAX,
                ),
            )
            .await?;
        let found = |row: &Row| {
            let id = MessageId::new(row.try_get::<String>("message_id")?);
            let attachment: String = row.try_get("attachment")?;
            Ok((id, from_json(&attachment, "attachments")?))
        };
        rows.iter().map(found).collect()
    }

    /// Returns the bytes of an attachment; empty when they were pruned, `None` when there is no such attachment.
    pub async fn attachment_bytes(&self, id: &str) -> Result<Option<Vec<u8>>> {
        let row = self
            .maybe_row(ATTACHMENT_BYTES, (id, &self.persona))
            .await?;
        row.map(|row| attachment_bytes::read(&row)).transpose()
    }

    /// Returns what a message declares as images and PDF files, in its order: at most `count_max`, with bytes where these are at most
    /// `bytes_max`.
    pub async fn message_files(
        &self,
        message: &MessageId,
        bytes_max: u64,
        count_max: u32,
    ) -> Result<Vec<MessageFile>> {
        let rows = self
            .rows(
                MESSAGE_FILES,
                (
                    message,
                    &self.persona,
                    i64::try_from(bytes_max).unwrap_or(i64::MAX),
                    count_max,
                ),
            )
            .await?;
        let mut files = Vec::with_capacity(rows.len());
        for row in &rows {
            let size_bytes: i64 = row.try_get("size_bytes")?;
            files.push(MessageFile {
                id: row.try_get("id")?,
                filename: row.try_get("filename")?,
                content_type: row.try_get("content_type")?,
                size_bytes: size_bytes.unsigned_abs(),
                sha256: row.try_get("sha256")?,
                bytes: attachment_bytes::read(row)?.into(),
                pruned_at: row
                    .try_get::<Option<String>>("pruned_at")?
                    .and_then(|at| Timestamp::parse(&at)),
            });
        }
        Ok(files)
    }

    /// Returns the document that decoders of this version have read from an attachment, as JSON; `None`: none was kept.
    pub async fn attachment_text(&self, id: &str, version: u32) -> Result<Option<String>> {
        self.maybe(ATTACHMENT_TEXT, (id, &self.persona, version))
            .await
    }

    /// Keeps the document that was read from an attachment, in place of one of another version.
    pub async fn keep_attachment_text(
        &self,
        id: &str,
        version: u32,
        document_json: String,
    ) -> Result<()> {
        let (id, persona) = (id.to_owned(), self.persona.clone());
        let now = self.store.clock().now().to_string();
        transact!(self, |conn| {
            conn.exec(
                KEEP_ATTACHMENT_TEXT,
                (id, &persona, version, document_json, now),
            )
            .await?;
            Ok(())
        })
        .await
    }
}

from_row!(|row| OpenedMessage {
    id,
    thread_id,
    direction,
    sender,
    recipients_json,
    subject,
    received_at,
    disposition,
    trust,
    text_body,
    attachments: { row.json("attachments", "attachments")? }
});
