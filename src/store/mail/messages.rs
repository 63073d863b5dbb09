//! Messages: received letters, synthetic prompts, and mails of a persona. The storing of letters is
//! in `arrivals`.

use crate::domain::{
    AttachmentId, ConversationId, MailboxUid, MessageId, PersonaId, RawLetterId, RunId, ThreadId,
    Timestamp,
};
use crate::store::mail::correspondence::{Account, ReplyLimits};
use crate::store::mail::reports::NewReport;
use crate::store::mail::threads::{self, Placing, json_list};
use crate::store::runs::queue::{self as runs, NewRun};
use crate::store::runs::turns::Statement;
use crate::store::{PersonaStore, Result, Store};
use sqlx::{Row, SqliteConnection};
use std::sync::Arc;

/// Content of the commit that stores a letter for one persona.
#[derive(Debug, Clone)]
pub struct NewInbound {
    pub persona: PersonaId,
    pub id: MessageId,
    pub raw_id: RawLetterId,
    pub sha256: String,
    pub envelope_json: String,
    /// Our `Received` field, as it would stand before the bytes; it ends with CRLF.
    pub trace: String,
    pub bytes: Arc<[u8]>,
    pub place: Place,
    /// Addresses that may read the letter, in [`crate::domain::Address::key`] form: its
    /// authenticated sender and recipients. `None`: every participant of its thread.
    pub readers: Option<Vec<String>>,
    pub content: Content,
    pub attachments: Vec<NewAttachment>,
    /// Key that is equal for two arrivals of the same letter.
    pub dedup_key: String,
    /// Further keys under which the same letter may be stored already.
    pub also_known_as: Vec<String>,
    /// `true`: the letter bears a Message-ID, and a second arrival is a duplicate for the whole
    /// window. A letter without one may be sent twice on purpose once its sender has seen the first
    /// acknowledgement.
    pub has_own_id: bool,
    /// Start of the window: earlier arrivals are other letters.
    pub duplicates_since: Timestamp,
    /// Instant of arrival at the engine, or at the mailbox that it was fetched from.
    pub received_at: Timestamp,
    /// Position in the mailbox that it was fetched from: its outcome there is recorded in the same
    /// commit.
    pub fetched_from: Option<MailboxUid>,
    /// `true`: the peer is known to have seen our acknowledgement (see
    /// [`crate::gateway::intake_contract::LetterIntake::confirm`]).
    pub ack_confirmed: bool,
    /// Report on a mail of ours; such a letter never has a run.
    pub report: Option<NewReport>,
    /// The queued run; `None` for filed mail.
    pub run: Option<NewRun>,
    /// `run` or `filed:<rule>`.
    pub disposition: String,
    /// Further policy decisions for `audit_log`, `verb:rule` each.
    pub decisions: Vec<String>,
    /// Number of consecutive mails that personas wrote, this one included.
    pub hops: u32,
    /// `true`: the sender is authenticated as an owner, and the thread's alternations count from
    /// here.
    pub from_owner: bool,
    /// Limits beyond which the letter is filed without a run; `None` is no limit.
    pub reply_limits: Option<ReplyLimits>,
}

impl NewInbound {
    /// Returns every key of the letter.
    pub(in crate::store) fn keys(&self) -> impl Iterator<Item = &str> {
        self.also_known_as
            .iter()
            .chain([&self.dedup_key])
            .map(String::as_str)
    }

    /// Returns every key of the letter, as a JSON array.
    pub(in crate::store) fn known_as(&self) -> String {
        json_list(self.keys())
    }

    /// Returns the approximate number of stored bytes.
    pub(in crate::store) fn size(&self) -> usize {
        self.bytes.len()
            + self
                .attachments
                .iter()
                .map(|attachment| attachment.bytes.len())
                .sum::<usize>()
    }
}

/// Inputs that decide the conversation and the thread of a message.
#[derive(Debug, Clone)]
pub struct Place {
    /// RFC Message-IDs mentioned, oldest first.
    pub mentioned: Vec<String>,
    /// Address that must already be in a thread for this message to join it; `None`: the message
    /// starts a thread.
    pub joins_as: Option<String>,
    /// `Some`: the message joins only a thread of exactly these addresses, because its sender is
    /// not known to have wanted it in another.
    pub joins_only: Option<Company>,
    /// All addresses of the message but the persona's.
    pub participants: Vec<String>,
    /// `true`: the sender is authenticated; only then may the message add participants to an
    /// existing thread.
    pub authenticated: bool,
    /// A participant that the sender replaces: the same address, not authenticated at the time.
    pub replaces: Option<String>,
    pub new_conversation: ConversationId,
    pub new_thread: ThreadId,
}

/// The participants of a thread that a message may join, in [`crate::domain::Address::key`] form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Company {
    /// Addresses that must all be in the thread.
    pub all_of: Vec<String>,
    /// Addresses outside of which no participant may be in the thread.
    pub none_but: Vec<String>,
}

/// The message columns that hold its visible content.
#[derive(Debug, Clone, Default)]
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
    pub trust: &'static str,
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

/// Outcome of storing one copy of a letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredInbound {
    New {
        message: MessageId,
        run: Option<RunId>,
        /// `run` or `filed:<rule>`.
        disposition: String,
    },
    /// The letter is a duplicate of this message.
    Duplicate { message: MessageId },
}

/// Inserts a message with its raw bytes, if it has any. A message that a run adds to its own thread
/// (`$2` is NULL) takes the thread from the run, and adds its Message-ID to the conversation and
/// its recipients to the thread.
pub(in crate::store) const INSERT_MESSAGE: &str = "
    INSERT INTO raw_letters (id, persona_id, sha256, envelope_json, bytes, trace)
      SELECT $16, $3, $22, $23, $24, $26 WHERE $24 IS NOT NULL;
    INSERT OR IGNORE INTO message_links (persona_id, rfc_message_id, conversation_id)
      SELECT $3, $5, t.conversation_id FROM runs r JOIN threads t ON t.id = r.thread_id WHERE r.id = $17 AND $2 IS NULL;
    INSERT OR IGNORE INTO thread_participants (thread_id, address, joined_after)
      SELECT r.thread_id, j.value, CASE WHEN u.address IS NOT NULL THEN u.joined_after ELSE
          (SELECT CASE WHEN max(seq) < 0 THEN 0 ELSE max(seq) END FROM messages WHERE thread_id = r.thread_id) END
      FROM runs r, json_each($25) j
        LEFT JOIN thread_participants u ON u.thread_id = r.thread_id AND u.address = 'unverified:' || j.value
      WHERE r.id = $17 AND $2 IS NULL;
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
    UPDATE messages SET ack_confirmed = 1 WHERE id IN (SELECT value FROM json_each($1))";
pub(in crate::store) const AUDIT: &str = "
    INSERT INTO audit_log (persona_id, subject_kind, subject_id, decision, rule, detail, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7)";

impl Store {
    /// Records that the peer saw our acknowledgement of these messages.
    pub async fn confirm_ack(&self, messages: &[MessageId]) -> Result<()> {
        let ids = json_list(messages.iter().map(MessageId::as_str));
        self.write(move |conn| {
            Box::pin(async move {
                sqlx::query(CONFIRM_ACK).bind(ids).execute(conn).await?;
                Ok(())
            })
        })
        .await
    }
}

pub(in crate::store) fn placing<'a>(
    persona: &'a PersonaId,
    place: &'a Place,
    content: &'a Content,
    (now, answers_since): (&'a str, &'a str),
) -> Placing<'a> {
    Placing {
        persona: persona.as_str(),
        own_id: &content.rfc_message_id,
        mentioned: &place.mentioned,
        joins_as: place.joins_as.as_deref(),
        joins_only: place.joins_only.as_ref(),
        participants: &place.participants,
        authenticated: place.authenticated,
        replaces: place.replaces.as_deref(),
        subject: &content.subject,
        now,
        account: Account::of(content.trust),
        answers_since,
        new_conversation: place.new_conversation.clone(),
        new_thread: place.new_thread.clone(),
    }
}

/// Finds or creates the thread of a message.
pub(in crate::store) async fn place_message(
    conn: &mut SqliteConnection,
    persona: &PersonaId,
    place: &Place,
    content: &Content,
    now: Timestamp,
) -> Result<ThreadId> {
    let now = now.to_string();
    threads::place(conn, &placing(persona, place, content, (&now, &now))).await
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
    conn: &mut SqliteConnection,
    row: &MessageRow<'_>,
    now: Timestamp,
) -> Result<()> {
    with_message(sqlx::query(INSERT_MESSAGE), row, now)
        .execute(conn)
        .await?;
    Ok(())
}

/// Binds the parameters of [`INSERT_MESSAGE`].
pub(in crate::store) fn with_message<'q>(
    insert: Statement<'q>,
    row: &MessageRow<'q>,
    now: Timestamp,
) -> Statement<'q> {
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
        .bind(content.trust)
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
    conn: &mut SqliteConnection,
    persona: &PersonaId,
    message: &MessageId,
    attachment: &NewAttachment,
) -> Result<()> {
    sqlx::query(INSERT_ATTACHMENT)
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

/// Records a policy decision in `audit_log`. `decision` is `verb:rule` or a bare verb.
pub(in crate::store) async fn audit(
    conn: &mut SqliteConnection,
    persona: Option<&PersonaId>,
    subject: (&'static str, &str),
    decision: &str,
    now: Timestamp,
) -> Result<()> {
    let (verb, rule) = decision.split_once(':').unwrap_or((decision, ""));
    let insert = sqlx::query(AUDIT)
        .bind(persona.map(PersonaId::as_str))
        .bind(subject.0)
        .bind(subject.1);
    insert
        .bind(verb)
        .bind(rule)
        .bind("")
        .bind(now.to_string())
        .execute(conn)
        .await?;
    Ok(())
}

/// A synthetic message with its run, for schedules, chat and manual runs.
#[derive(Debug, Clone)]
pub struct NewSynthetic {
    pub persona: PersonaId,
    pub id: MessageId,
    /// The thread of the message; `None` starts one among `participants`.
    pub thread: Option<ThreadId>,
    pub place: Place,
    pub content: Content,
    pub run: NewRun,
}

/// Inserts a synthetic message and its queued run inside the caller's transaction; returns the
/// thread.
pub(in crate::store) async fn insert_synthetic(
    conn: &mut SqliteConnection,
    new: &NewSynthetic,
    now: Timestamp,
) -> Result<ThreadId> {
    let thread = match &new.thread {
        Some(thread) => {
            sqlx::query(threads::TOUCH_THREAD)
                .bind(thread.as_str())
                .bind(now.to_string())
                .execute(&mut *conn)
                .await?;
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
    runs::insert(conn, &new.run, &new.persona, &thread, &new.id, now).await?;
    Ok(thread)
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
        let rows = sqlx::query(THREAD_PARTICIPANTS)
            .bind(thread.as_str())
            .bind(self.persona.as_str());
        let rows = rows.fetch_all(self.store.readers()).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Returns the participants of its thread who may read the message with that number.
    pub async fn readers_of(&self, seq: i64) -> Result<Vec<String>> {
        let readers = sqlx::query_scalar(READERS)
            .bind(seq)
            .bind(self.persona.as_str());
        Ok(readers.fetch_all(self.store.readers()).await?)
    }
}
