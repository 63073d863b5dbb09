//! Inputs of a run from its thread: the triggering message, and the last exchanges with their tool
//! traces.
//!
//! Every query is bounded by a number of rows found through an index, so its work does not grow
//! with the thread.

use crate::domain::{Address, MessageId, RunId, ThreadId, Timestamp};
use crate::store::db::Sql;
use crate::store::sql::{from_json, json_list};
use crate::store::threads::opened::{MessageFile, is_pdf};
use crate::store::threads::past_rows::{
    PastMessage, PastMessageJson, PastStep, PastStepJson, past_message, past_step,
};
use crate::store::threads::reply_limits::{DAY, HOUR, Sent, since};
use crate::store::{PersonaStore, Result, StoreError};
use serde::{Deserialize, Serialize};

/// A message as a run reads it.
#[derive(Debug, Clone)]
pub struct StoredMessage {
    pub seq: i64,
    pub id: MessageId,
    pub thread: ThreadId,
    /// `inbound`, `outbound` or `synthetic`.
    pub direction: String,
    pub rfc_message_id: String,
    pub in_reply_to: Option<String>,
    pub references: Vec<String>,
    pub sender: String,
    pub recipients_json: String,
    pub subject: String,
    pub text_body: String,
    pub fresh_text: Option<String>,
    pub received_at: Timestamp,
    pub trust: String,
    /// The run that wrote an outbound message.
    pub run: Option<RunId>,
    pub disposition: String,
    /// Number of consecutive mails that personas wrote, this one included.
    pub hops: u32,
    pub metadata_json: String,
}

/// An attachment without its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachmentInfo {
    pub filename: String,
    pub content_type: String,
    pub size_bytes: u64,
}

from_row!(AttachmentInfo {
    filename,
    content_type,
    size_bytes
});

pub const MESSAGE: &str = "
    SELECT seq, id, thread_id, direction, message_id, in_reply_to, references_json, sender, recipients_json, subject,
      text_body, fresh_text, received_at, trust, run_id, disposition, hops, metadata_json
    FROM messages WHERE id = $1 AND persona_id = $2";
/// Of a thread, before a message of it, as far as all of `$4` may read it; a letter that a rule
/// held must not be answered.
const NEWEST_LETTER: &str = "
    SELECT seq, id, thread_id, direction, message_id, in_reply_to, references_json, sender, recipients_json, subject,
      text_body, fresh_text, received_at, trust, run_id, disposition, hops, metadata_json
    FROM messages m WHERE thread_id = $1 AND seq < $2 AND +persona_id = $3 AND direction = 'inbound' AND disposition = 'run'
      AND NOT EXISTS (SELECT 1 FROM jsonb_each($4) reader WHERE NOT EXISTS (SELECT 1 FROM readable
        WHERE readable.seq = m.seq AND readable.address = reader.value))
    ORDER BY seq DESC LIMIT 1";
/// The trigger of a run in one row: the message's columns, its attachments, and whether its thread
/// has a past.
pub const TRIGGER: Sql = Sql::pair(
    "
    SELECT m.seq, m.id, m.thread_id, m.direction, m.message_id, m.in_reply_to, m.references_json, m.sender,
      m.recipients_json, m.subject, m.text_body, m.fresh_text, m.received_at, m.trust, m.run_id, m.disposition,
      m.hops, m.metadata_json,
      (SELECT coalesce(sum(mails), 0) FROM correspondence WHERE persona_id = $2 AND minute >= $3
         AND counterparty = coalesce(m.metadata_json ->> '$.counterparty', lower(m.metadata_json ->> '$.sender'))) AS in_hour,
      (SELECT coalesce(sum(mails), 0) FROM correspondence WHERE persona_id = $2 AND minute >= $4
         AND counterparty = coalesce(m.metadata_json ->> '$.counterparty', lower(m.metadata_json ->> '$.sender'))) AS in_day,
      (SELECT coalesce(sum(mails), 0) FROM correspondence WHERE persona_id = $2 AND minute >= $4
         AND counterparty = iif(m.trust = 'unauthenticated', 'unverified:thread:', 'thread:') || m.thread_id) AS in_thread,
      (SELECT json_group_array(json_object('filename', filename, 'content_type', content_type,
         'size_bytes', size_bytes) ORDER BY id) FROM attachments WHERE message_id = m.id) AS attachments,
      (SELECT json_group_array(address ORDER BY address) FROM readable WHERE readable.seq = m.seq
         AND address NOT IN (SELECT value FROM jsonb_each($5))) AS readers,
      EXISTS (SELECT 1 FROM messages p
        WHERE p.seq IN (
            SELECT seq FROM (SELECT seq FROM messages WHERE thread_id = m.thread_id AND seq < m.seq
              AND disposition NOT IN ('notice', 'filed:command') ORDER BY seq DESC LIMIT $6) AS newest
            UNION
            SELECT seq FROM (SELECT seq FROM messages WHERE thread_id = m.thread_id AND direction = 'outbound'
              AND disposition <> 'notice' ORDER BY seq DESC LIMIT $6) AS answers)
          AND (p.seq < m.seq OR (SELECT t.seq FROM runs r JOIN messages t ON t.id = r.trigger_message_id
            WHERE r.id = p.run_id AND t.thread_id = m.thread_id) <= m.seq)
          AND NOT EXISTS (SELECT 1 FROM thread_resets x WHERE x.thread_id = m.thread_id AND x.after_seq < m.seq
            AND x.after_seq >= coalesce((SELECT t.seq FROM runs r JOIN messages t ON t.id = r.trigger_message_id
              WHERE r.id = p.run_id), p.seq))
          AND NOT EXISTS (SELECT 1 FROM readable reader WHERE reader.seq = m.seq
            AND reader.address NOT IN (SELECT value FROM jsonb_each($5))
            AND NOT EXISTS (SELECT 1 FROM readable r WHERE r.seq = p.seq AND r.address = reader.address))) AS has_past
    FROM messages m WHERE m.id = $1 AND m.persona_id = $2",
    "
    SELECT m.seq, m.id, m.thread_id, m.direction, m.message_id, m.in_reply_to, m.references_json, m.sender,
      m.recipients_json, m.subject, m.text_body, m.fresh_text, m.received_at, m.trust, m.run_id, m.disposition,
      m.hops, m.metadata_json,
      (SELECT coalesce(sum(mails), 0) FROM correspondence WHERE persona_id = $2 AND minute >= $3
         AND counterparty = coalesce(m.metadata_json ->> '$.counterparty', lower(m.metadata_json ->> '$.sender'))) AS in_hour,
      (SELECT coalesce(sum(mails), 0) FROM correspondence WHERE persona_id = $2 AND minute >= $4
         AND counterparty = coalesce(m.metadata_json ->> '$.counterparty', lower(m.metadata_json ->> '$.sender'))) AS in_day,
      (SELECT coalesce(sum(mails), 0) FROM correspondence WHERE persona_id = $2 AND minute >= $4
         AND counterparty = iif(m.trust = 'unauthenticated', 'unverified:thread:', 'thread:') || m.thread_id) AS in_thread,
      (SELECT json_group_array(json_build_object('filename', filename, 'content_type', content_type,
         'size_bytes', size_bytes) ORDER BY id) FROM attachments WHERE message_id = m.id) AS attachments,
      (SELECT json_group_array(address ORDER BY address) FROM readable WHERE readable.seq = m.seq
         AND address NOT IN (SELECT value FROM jsonb_each($5))) AS readers,
      EXISTS (SELECT 1 FROM messages p
        WHERE p.seq IN (
            SELECT seq FROM (SELECT seq FROM messages WHERE thread_id = m.thread_id AND seq < m.seq
              AND disposition NOT IN ('notice', 'filed:command') ORDER BY seq DESC LIMIT $6) AS newest
            UNION
            SELECT seq FROM (SELECT seq FROM messages WHERE thread_id = m.thread_id AND direction = 'outbound'
              AND disposition <> 'notice' ORDER BY seq DESC LIMIT $6) AS answers)
          AND (p.seq < m.seq OR (SELECT t.seq FROM runs r JOIN messages t ON t.id = r.trigger_message_id
            WHERE r.id = p.run_id AND t.thread_id = m.thread_id) <= m.seq)
          AND NOT EXISTS (SELECT 1 FROM thread_resets x WHERE x.thread_id = m.thread_id AND x.after_seq < m.seq
            AND x.after_seq >= coalesce((SELECT t.seq FROM runs r JOIN messages t ON t.id = r.trigger_message_id
              WHERE r.id = p.run_id), p.seq))
          AND NOT EXISTS (SELECT 1 FROM readable reader WHERE reader.seq = m.seq
            AND reader.address NOT IN (SELECT value FROM jsonb_each($5))
            AND NOT EXISTS (SELECT 1 FROM readable r WHERE r.seq = p.seq AND r.address = reader.address))) AS has_past
    FROM messages m WHERE m.id = $1 AND m.persona_id = $2",
);
const ATTACHMENT_INFOS: Sql = Sql::pair(
    "
    SELECT json_group_array(json_object('filename', filename, 'content_type', content_type,
      'size_bytes', size_bytes) ORDER BY id) FROM attachments WHERE message_id = $1 AND persona_id = $2",
    "
    SELECT json_group_array(json_build_object('filename', filename, 'content_type', content_type,
      'size_bytes', size_bytes) ORDER BY id) FROM attachments WHERE message_id = $1 AND persona_id = $2",
);
/// The disposition of a draft is `draft:STATE:shown`, or `unshown` where its text stands in its call, or where not all who
/// read the thread may read it. That of a text that a rule keeps from being sent, or from being answered, is `kept:RULE`; older
/// records have `withheld:RULE` and `filed:RULE`, and are told as they were. An answer that is only stored was said where it
/// answers a question at the machine, and of the persona's own texts an imported one was sent. A run sees the letters before its own, and every answer to them, also an answer that was written
/// after its letter came in, as far as all of `$6` may read them and nobody reset the thread between: an answer stands
/// where its letter does. An answer to a later letter would stand without its question; one of an archive, whose number is below 0,
/// may answer a letter that came by itself. Commands of owners and mail of the engine are no part of a conversation. One row of
/// JSON, because each row costs a thread switch.
const PAST_MESSAGES: Sql = Sql::pair(
    "
    SELECT json_group_array(json_object('seq', seq, 'id', id, 'direction', direction, 'sender', sender,
      'subject', subject, 'text', text, 'received_at', received_at, 'trigger', trigger_message_id,
      'disposition', disposition, 'lost', json(lost), 'trust', trust, 'letters', letters,
      'left_out', left_out, 'files', json(files)))
    FROM (
      SELECT m.seq, m.id, m.direction, m.sender, m.subject, substr(coalesce(m.fresh_text, m.text_body), 1, $5) AS text,
        m.received_at, coalesce(r.trigger_message_id, CASE WHEN m.seq < 0 AND m.direction = 'outbound' THEN (SELECT q.id FROM messages q
          WHERE q.persona_id = $2 AND q.message_id = m.in_reply_to AND +q.thread_id = $1 AND q.seq > m.seq ORDER BY q.seq LIMIT 1)
          END) AS trigger_message_id, m.trust,
        CASE WHEN m.disposition = 'withheld:draft' THEN coalesce((SELECT 'draft:' || CASE
            WHEN a.state = 'approved' AND a.edits > 0 THEN 'sent_as_edited' ELSE a.state END || CASE
            WHEN a.kind = 'call' OR a.label_json ->> '$.readers' <> 'everyone' THEN ':unshown' ELSE ':shown' END
            FROM approvals a WHERE a.draft_id = m.id), 'kept:draft')
          WHEN m.disposition LIKE 'withheld:%' AND NOT (m.disposition = 'withheld:store_only' AND r.trigger IS NOT DISTINCT FROM 'chat')
            THEN 'kept:' || substr(m.disposition, 10)
          WHEN m.disposition LIKE 'filed:%' AND m.direction <> 'outbound' THEN 'kept:' || substr(m.disposition, 7)
          ELSE m.disposition END AS disposition,
        CASE WHEN CAST(m.metadata_json ->> '$.letters.count' AS BIGINT) > 0
          THEN coalesce(m.metadata_json ->> '$.letters.lowest_trust', 'unauthenticated') END AS letters,
        CASE WHEN m.direction = 'outbound' THEN (SELECT json_group_array(recipient) FROM delivery_recipients
          WHERE state IN ('failed', 'cancelled') AND delivery_id IN (SELECT id FROM deliveries WHERE message_id = m.id)) END AS lost,
        length(m.text_body) - length(replace(m.text_body, '\n', '')) - length(m.fresh_text)
          + length(replace(m.fresh_text, '\n', '')) AS left_out,
        (SELECT json_group_array(f.filename ORDER BY f.id) FROM attachments f WHERE f.message_id = m.id) AS files
      FROM messages m LEFT JOIN runs r ON r.id = m.run_id
      WHERE NOT EXISTS (SELECT 1 FROM jsonb_each($6) reader WHERE NOT EXISTS (SELECT 1 FROM readable
          WHERE readable.seq = m.seq AND readable.address = reader.value))
        AND NOT EXISTS (SELECT 1 FROM thread_resets x WHERE x.thread_id = $1 AND x.after_seq < $3
          AND x.after_seq >= coalesce((SELECT t.seq FROM messages t WHERE t.id = r.trigger_message_id), m.seq))
        AND +m.persona_id = $2 AND m.seq IN ( -- the plus keeps SQLite from walking all mail of the persona
        SELECT seq FROM (SELECT seq FROM messages WHERE thread_id = $1 AND seq < $3
          AND disposition NOT IN ('notice', 'filed:command') ORDER BY seq DESC LIMIT $4) AS newest
        UNION
        SELECT seq FROM (SELECT seq FROM messages WHERE thread_id = $1 AND direction = 'outbound' AND disposition <> 'notice'
          ORDER BY seq DESC LIMIT $4) AS answers)
        AND (m.seq < $3 OR (SELECT t.seq FROM messages t WHERE t.id = r.trigger_message_id AND t.thread_id = $1) <= $3)
        AND NOT (m.seq < 0 AND m.direction = 'outbound' AND EXISTS (SELECT 1 FROM messages q
          WHERE q.persona_id = $2 AND q.message_id = m.in_reply_to AND +q.thread_id = $1 AND q.seq >= $3))
      ORDER BY m.seq DESC LIMIT $4) AS past",
    "
    SELECT json_group_array(json_build_object('seq', seq, 'id', id, 'direction', direction, 'sender', sender,
      'subject', subject, 'text', text, 'received_at', received_at, 'trigger', trigger_message_id,
      'disposition', disposition, 'lost', lost::JSON, 'trust', trust, 'letters', letters,
      'left_out', left_out, 'files', files::JSON))
    FROM (
      SELECT m.seq, m.id, m.direction, m.sender, m.subject, substr(coalesce(m.fresh_text, m.text_body), 1, $5) AS text,
        m.received_at, coalesce(r.trigger_message_id, CASE WHEN m.seq < 0 AND m.direction = 'outbound' THEN (SELECT q.id FROM messages q
          WHERE q.persona_id = $2 AND q.message_id = m.in_reply_to AND +q.thread_id = $1 AND q.seq > m.seq ORDER BY q.seq LIMIT 1)
          END) AS trigger_message_id, m.trust,
        CASE WHEN m.disposition = 'withheld:draft' THEN coalesce((SELECT 'draft:' || CASE
            WHEN a.state = 'approved' AND a.edits > 0 THEN 'sent_as_edited' ELSE a.state END || CASE
            WHEN a.kind = 'call' OR a.label_json ->> '$.readers' <> 'everyone' THEN ':unshown' ELSE ':shown' END
            FROM approvals a WHERE a.draft_id = m.id), 'kept:draft')
          WHEN m.disposition LIKE 'withheld:%' AND NOT (m.disposition = 'withheld:store_only' AND r.trigger IS NOT DISTINCT FROM 'chat')
            THEN 'kept:' || substr(m.disposition, 10)
          WHEN m.disposition LIKE 'filed:%' AND m.direction <> 'outbound' THEN 'kept:' || substr(m.disposition, 7)
          ELSE m.disposition END AS disposition,
        CASE WHEN CAST(m.metadata_json ->> '$.letters.count' AS BIGINT) > 0
          THEN coalesce(m.metadata_json ->> '$.letters.lowest_trust', 'unauthenticated') END AS letters,
        CASE WHEN m.direction = 'outbound' THEN (SELECT json_group_array(recipient) FROM delivery_recipients
          WHERE state IN ('failed', 'cancelled') AND delivery_id IN (SELECT id FROM deliveries WHERE message_id = m.id)) END AS lost,
        length(m.text_body) - length(replace(m.text_body, '\n', '')) - length(m.fresh_text)
          + length(replace(m.fresh_text, '\n', '')) AS left_out,
        (SELECT json_group_array(f.filename ORDER BY f.id) FROM attachments f WHERE f.message_id = m.id) AS files
      FROM messages m LEFT JOIN runs r ON r.id = m.run_id
      WHERE NOT EXISTS (SELECT 1 FROM jsonb_each($6) reader WHERE NOT EXISTS (SELECT 1 FROM readable
          WHERE readable.seq = m.seq AND readable.address = reader.value))
        AND NOT EXISTS (SELECT 1 FROM thread_resets x WHERE x.thread_id = $1 AND x.after_seq < $3
          AND x.after_seq >= coalesce((SELECT t.seq FROM messages t WHERE t.id = r.trigger_message_id), m.seq))
        AND +m.persona_id = $2 AND m.seq IN ( -- the plus keeps SQLite from walking all mail of the persona
        SELECT seq FROM (SELECT seq FROM messages WHERE thread_id = $1 AND seq < $3
          AND disposition NOT IN ('notice', 'filed:command') ORDER BY seq DESC LIMIT $4) AS newest
        UNION
        SELECT seq FROM (SELECT seq FROM messages WHERE thread_id = $1 AND direction = 'outbound' AND disposition <> 'notice'
          ORDER BY seq DESC LIMIT $4) AS answers)
        AND (m.seq < $3 OR (SELECT t.seq FROM messages t WHERE t.id = r.trigger_message_id AND t.thread_id = $1) <= $3)
        AND NOT (m.seq < 0 AND m.direction = 'outbound' AND EXISTS (SELECT 1 FROM messages q
          WHERE q.persona_id = $2 AND q.message_id = m.in_reply_to AND +q.thread_id = $1 AND q.seq >= $3))
      ORDER BY m.seq DESC LIMIT $4) AS past",
);
const PAST_STEPS: Sql = Sql::pair(
    "
    SELECT json_group_array(json_object('message', parent_message_id, 'run', run_id, 'kind', event_type, 'executor', executor,
      'tool_name', tool_name, 'tool_call_id', tool_call_id, 'payload_json', substr(payload_json, 1, $3),
      'whole', CASE WHEN event_type = 'tool_result' AND tool_name = 'search_email' AND length(payload_json) > $3
        THEN payload_json END))
    FROM (SELECT e.* FROM jsonb_each($1) w JOIN runs r ON r.trigger_message_id = w.value
      JOIN thread_tool_events e ON e.run_id = r.id AND e.persona_id = $2
      ORDER BY e.parent_message_id, e.run_id, e.step_index) AS steps",
    "
    SELECT json_group_array(json_build_object('message', parent_message_id, 'run', run_id, 'kind', event_type, 'executor', executor,
      'tool_name', tool_name, 'tool_call_id', tool_call_id, 'payload_json', substr(payload_json, 1, $3),
      'whole', CASE WHEN event_type = 'tool_result' AND tool_name = 'search_email' AND length(payload_json) > $3
        THEN payload_json END))
    FROM (SELECT e.* FROM jsonb_each($1) w JOIN runs r ON r.trigger_message_id = w.value
      JOIN thread_tool_events e ON e.run_id = r.id AND e.persona_id = $2
      ORDER BY e.parent_message_id, e.run_id, e.step_index) AS steps",
);

/// Largest file that is loaded for a model, in bytes: a PDF file of the size that all vendors take.
const FILE_BYTES_MAX: u64 = 10_000_000;
/// Most images and PDF files of a letter that are looked at.
const FILES_MAX: u32 = 20;

/// Number of messages that are examined for any that the readers may see.
const PAST_LOOK_MAX: u32 = 40;

/// The message that triggered a run, with its context.
#[derive(Debug, Clone)]
pub struct TriggerMessage {
    pub message: StoredMessage,
    pub attachments: Vec<AttachmentInfo>,
    /// Its images and PDF files, for models that see them.
    pub files: Vec<MessageFile>,
    /// Participants of the thread who may read the message, without the owners. The run sees only
    /// messages that all of them may read, because its answer may reach them.
    pub readers: Vec<String>,
    /// `true`: the thread has earlier messages that the run may see.
    pub has_past: bool,
    /// Recent automatic mails to the sender of the message, and in its thread.
    pub sent: Sent,
}

impl PersonaStore {
    /// Returns one message of this persona.
    pub async fn message(&self, id: &MessageId) -> Result<StoredMessage> {
        let message = self.maybe(MESSAGE, (id, &self.persona)).await?;
        message.ok_or_else(|| StoreError::missing("message", id))
    }

    /// Returns the newest letter of the message's thread that came before it, may be answered, and
    /// may be read by all of `readers`.
    pub async fn newest_letter(
        &self,
        before: &StoredMessage,
        readers: &[String],
    ) -> Result<Option<StoredMessage>> {
        let readers = json_of(readers);
        self.maybe(
            NEWEST_LETTER,
            (&before.thread, before.seq, &self.persona, readers),
        )
        .await
    }

    /// Returns the attachments of a message, without their bytes.
    pub async fn attachment_infos(&self, message: &MessageId) -> Result<Vec<AttachmentInfo>> {
        let infos: String = self.one(ATTACHMENT_INFOS, (message, &self.persona)).await?;
        from_json(&infos, "attachments")
    }

    /// Returns the message that triggered a run. `owners` may read every message, whenever they
    /// joined.
    pub async fn trigger_message(
        &self,
        id: &MessageId,
        owners: &[Address],
    ) -> Result<TriggerMessage> {
        let now = self.store.clock().now();
        let owners = json_of(&owners.iter().map(Address::key).collect::<Vec<_>>());
        let row = self
            .maybe_row(
                TRIGGER,
                (
                    id,
                    &self.persona,
                    since(now, HOUR),
                    since(now, DAY),
                    owners,
                    PAST_LOOK_MAX,
                ),
            )
            .await?;
        let row = row.ok_or_else(|| StoreError::missing("message", id))?;
        let message = row.to()?;
        let attachments: Vec<AttachmentInfo> = from_json(row.get("attachments"), "attachments")?;
        let files = self.files_among(id, &attachments).await?;
        Ok(TriggerMessage {
            message,
            attachments,
            files,
            readers: from_json(row.get("readers"), "readers of a message")?,
            has_past: row.get("has_past"),
            sent: Sent {
                in_hour: row.get("in_hour"),
                in_day: row.get("in_day"),
                in_thread: row.get("in_thread"),
                of_persona: 0,
            },
        })
    }

    /// Returns the images and PDF files among the attachments of a message; nothing is read where none is declared as one.
    pub async fn files_among(
        &self,
        message: &MessageId,
        attachments: &[AttachmentInfo],
    ) -> Result<Vec<MessageFile>> {
        let is_shown = |found: &AttachmentInfo| {
            found.content_type.starts_with("image/") || is_pdf(&found.content_type, &found.filename)
        };
        match attachments.iter().any(is_shown) {
            true => self.message_files(message, FILE_BYTES_MAX, FILES_MAX).await,
            false => Ok(Vec::new()),
        }
    }

    /// Returns, of the last `limit` messages of a thread, those that a run on the message with
    /// `before_seq` and all of `readers` may see, oldest first, each text cut at `chars_max`
    /// characters.
    pub async fn past_messages(
        &self,
        thread: &ThreadId,
        (before_seq, limit): (i64, u32),
        chars_max: u32,
        readers: &[String],
    ) -> Result<Vec<PastMessage>> {
        let past: String = self
            .one(
                PAST_MESSAGES,
                (
                    thread,
                    &self.persona,
                    before_seq,
                    limit,
                    chars_max,
                    json_of(readers),
                ),
            )
            .await?;
        let past: Vec<PastMessageJson> = from_json(&past, "messages of a thread")?;
        past.into_iter().rev().map(past_message).collect()
    }

    /// Returns the tool traces of these messages, grouped by message, each payload cut at
    /// `chars_max` characters.
    pub async fn past_steps(
        &self,
        messages: &[&MessageId],
        chars_max: u32,
    ) -> Result<Vec<PastStep>> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let ids = json_list(messages.iter().map(|id| id.as_str()));
        let steps: String = self
            .one(PAST_STEPS, (ids, &self.persona, chars_max))
            .await?;
        let steps: Vec<PastStepJson> = from_json(&steps, "tool traces of a thread")?;
        Ok(steps.into_iter().map(past_step).collect())
    }
}

fn json_of(texts: &[String]) -> String {
    json_list(texts.iter())
}

from_row!(|row| StoredMessage {
    seq,
    id,
    thread: "thread_id",
    direction,
    rfc_message_id: "message_id",
    in_reply_to,
    references: {
        serde_json::from_str(row.get("references_json")).map_err(|_| StoreError::Unreadable {
            what: "references of a message",
        })?
    },
    sender,
    recipients_json,
    subject,
    text_body,
    fresh_text,
    received_at,
    trust,
    run: "run_id",
    disposition,
    hops,
    metadata_json
});
