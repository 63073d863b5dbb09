//! Rows of incoming letters: one statement text stores all letters of a batch, each with its
//! conversation, its thread and its run.

use crate::domain::{MessageId, PersonaId, RawLetterId, RunId, Timestamp, Trigger, Withheld};
use crate::mime::with_unknown;
use crate::store::Result;
use crate::store::calendar::write as calendar;
use crate::store::commands::record as commands;
use crate::store::db::{Connection, QueuedWork, Sql};
use crate::store::mail::audit_log::audit;
use crate::store::mail::filed;
use crate::store::mail::inbound::{NewInbound, StoredInbound};
use crate::store::mail::messages::insert_attachment;
use crate::store::mail::together;
use crate::store::runs::queue::NewRun;
use crate::store::sql::{json_list, to_json};
use crate::store::threads::placement::{FoundThread, Placing, placing};
use crate::store::threads::reply_limits::{DomainLimit, Sent};
use serde::Serialize;

/// Inserts letters, each with its conversation, links, thread, participants and run. `$1` has a
/// [`PlaceColumns`] for each letter, `$2` its [`LetterColumns`], `$3` bytes and long texts.
const STORE_LETTERS: Sql = Sql::pair(
    "
    INSERT INTO conversations (id, persona_id, subject, root_message_id, created_at)
      SELECT value ->> 'conversation', value ->> 'persona', value ->> 'subject', value ->> 'root', value ->> 'received_at'
      FROM jsonb_each($1) WHERE true ON CONFLICT (id) DO NOTHING;
    INSERT INTO message_links (persona_id, rfc_message_id, conversation_id)
      SELECT l.value ->> 'persona', j.value, l.value ->> 'conversation'
      FROM jsonb_each($1) l, json_each(l.value ->> 'linked_ids') j WHERE true ON CONFLICT DO NOTHING;
    INSERT INTO threads (id, conversation_id, persona_id, subject, created_at, updated_at)
      SELECT value ->> 'thread', value ->> 'conversation', value ->> 'persona', value ->> 'subject',
        value ->> 'received_at', value ->> 'received_at'
      FROM jsonb_each($1) WHERE true
      ON CONFLICT (id) DO UPDATE SET updated_at =
        CASE WHEN threads.updated_at < excluded.updated_at THEN excluded.updated_at ELSE threads.updated_at END;
    INSERT INTO thread_participants (thread_id, address, joined_after)
      SELECT l.value ->> 'thread', j.value, CASE WHEN u.address IS NOT NULL THEN u.joined_after ELSE
          (SELECT CASE WHEN max(seq) < 0 THEN 0 ELSE max(seq) END FROM messages WHERE thread_id = l.value ->> 'thread') END
      FROM jsonb_each($1) l CROSS JOIN json_each(l.value ->> 'joining') j
        LEFT JOIN thread_participants u ON u.thread_id = l.value ->> 'thread' AND u.address = 'unverified:' || j.value
      WHERE true ON CONFLICT DO NOTHING;
    DELETE FROM thread_participants WHERE (thread_id, address) IN (
      SELECT value ->> 'thread', value ->> 'leaving' FROM jsonb_each($1));
    DELETE FROM correspondence WHERE (persona_id, counterparty) IN (
      SELECT value ->> 'persona', value ->> 'counter' FROM jsonb_each($1)
      UNION ALL SELECT value ->> 'persona', 'unverified:' || (value ->> 'counter') FROM jsonb_each($1));
    INSERT INTO raw_letters (id, persona_id, sha256, envelope_json, bytes, trace, size_bytes)
      SELECT value ->> 'raw', value ->> 'persona', value ->> 'sha256', value ->> 'envelope_json',
        substr($3, CAST(value ->> '$.bytes[0]' AS BIGINT), CAST(value ->> '$.bytes[1]' AS BIGINT)), value ->> 'trace',
        CAST(value ->> 'size_bytes' AS BIGINT)
      FROM jsonb_each($2);
    INSERT INTO messages (id, thread_id, persona_id, direction, message_id, in_reply_to, references_json, sender,
        recipients_json, subject, text_body, fresh_text, html_body, received_at, trust, raw_id, dedup_key, ack_confirmed,
        disposition, metadata_json, hops, readers_json)
      SELECT value ->> 'id', value ->> 'thread', value ->> 'persona', 'inbound', value ->> 'rfc_message_id',
        value ->> 'in_reply_to', value ->> 'references_json', value ->> 'sender', value ->> 'recipients_json',
        value ->> 'subject',
        CAST(substr($3, CAST(value ->> '$.text_body[0]' AS BIGINT), CAST(value ->> '$.text_body[1]' AS BIGINT)) AS TEXT),
        CAST(substr($3, CAST(value ->> '$.fresh_text[0]' AS BIGINT), CAST(value ->> '$.fresh_text[1]' AS BIGINT)) AS TEXT),
        CAST(substr($3, CAST(value ->> '$.html_body[0]' AS BIGINT), CAST(value ->> '$.html_body[1]' AS BIGINT)) AS TEXT),
        value ->> 'received_at', value ->> 'trust', value ->> 'raw', value ->> 'dedup_key', CAST(value ->> 'ack_confirmed' AS BIGINT),
        value ->> 'disposition', value ->> 'metadata_json', CAST(value ->> 'hops' AS BIGINT), value ->> 'readers_json'
      FROM jsonb_each($2);
    INSERT INTO runs (id, persona_id, thread_id, trigger, trigger_message_id, profile, state, created_at, budget_micros,
        run_options_json, output_schema)
      SELECT value ->> 'run', value ->> 'persona', value ->> 'thread', value ->> 'trigger', value ->> 'message',
        value ->> 'profile', 'queued', value ->> 'queued_at', CAST(value ->> 'budget_micros' AS BIGINT), value ->> 'options', value ->> 'schema'
      FROM jsonb_each($1) WHERE value ->> 'run' IS NOT NULL",
    "
    INSERT INTO conversations (id, persona_id, subject, root_message_id, created_at)
      SELECT value ->> 'conversation', value ->> 'persona', value ->> 'subject', value ->> 'root', value ->> 'received_at'
      FROM jsonb_each($1) WHERE true ON CONFLICT (id) DO NOTHING;
    INSERT INTO message_links (persona_id, rfc_message_id, conversation_id)
      SELECT l.value ->> 'persona', j.value, l.value ->> 'conversation'
      FROM jsonb_each($1) l, json_each(l.value ->> 'linked_ids') j WHERE true ON CONFLICT DO NOTHING;
    INSERT INTO threads (id, conversation_id, persona_id, subject, created_at, updated_at)
      SELECT value ->> 'thread', min(value ->> 'conversation'), min(value ->> 'persona'), min(value ->> 'subject'),
        min(value ->> 'received_at'), max(value ->> 'received_at')
      FROM jsonb_each($1) GROUP BY value ->> 'thread' -- a row cannot be updated twice by one statement
      ON CONFLICT (id) DO UPDATE SET updated_at =
        CASE WHEN threads.updated_at < excluded.updated_at THEN excluded.updated_at ELSE threads.updated_at END;
    INSERT INTO thread_participants (thread_id, address, joined_after)
      SELECT l.value ->> 'thread', j.value, CASE WHEN u.address IS NOT NULL THEN u.joined_after ELSE
          (SELECT CASE WHEN max(seq) < 0 THEN 0 ELSE max(seq) END FROM messages WHERE thread_id = l.value ->> 'thread') END
      FROM jsonb_each($1) l CROSS JOIN json_each(l.value ->> 'joining') j
        LEFT JOIN thread_participants u ON u.thread_id = l.value ->> 'thread' AND u.address = 'unverified:' || j.value
      WHERE true ON CONFLICT DO NOTHING;
    DELETE FROM thread_participants WHERE (thread_id, address) IN (
      SELECT value ->> 'thread', value ->> 'leaving' FROM jsonb_each($1));
    DELETE FROM correspondence WHERE (persona_id, counterparty) IN (
      SELECT value ->> 'persona', value ->> 'counter' FROM jsonb_each($1)
      UNION ALL SELECT value ->> 'persona', 'unverified:' || (value ->> 'counter') FROM jsonb_each($1));
    INSERT INTO raw_letters (id, persona_id, sha256, envelope_json, bytes, trace, size_bytes)
      SELECT value ->> 'raw', value ->> 'persona', value ->> 'sha256', value ->> 'envelope_json',
        substr($3::BYTEA, CAST(value ->> '$.bytes[0]' AS BIGINT), CAST(value ->> '$.bytes[1]' AS BIGINT)), value ->> 'trace',
        CAST(value ->> 'size_bytes' AS BIGINT)
      FROM jsonb_each($2);
    INSERT INTO messages (id, thread_id, persona_id, direction, message_id, in_reply_to, references_json, sender,
        recipients_json, subject, text_body, fresh_text, html_body, received_at, trust, raw_id, dedup_key, ack_confirmed,
        disposition, metadata_json, hops, readers_json)
      SELECT value ->> 'id', value ->> 'thread', value ->> 'persona', 'inbound', value ->> 'rfc_message_id',
        value ->> 'in_reply_to', value ->> 'references_json', value ->> 'sender', value ->> 'recipients_json',
        value ->> 'subject',
        convert_from(substr($3::BYTEA, CAST(value ->> '$.text_body[0]' AS BIGINT), CAST(value ->> '$.text_body[1]' AS BIGINT)), 'UTF8'),
        convert_from(substr($3::BYTEA, CAST(value ->> '$.fresh_text[0]' AS BIGINT), CAST(value ->> '$.fresh_text[1]' AS BIGINT)), 'UTF8'),
        convert_from(substr($3::BYTEA, CAST(value ->> '$.html_body[0]' AS BIGINT), CAST(value ->> '$.html_body[1]' AS BIGINT)), 'UTF8'),
        value ->> 'received_at', value ->> 'trust', value ->> 'raw', value ->> 'dedup_key', CAST(value ->> 'ack_confirmed' AS BIGINT),
        value ->> 'disposition', value ->> 'metadata_json', CAST(value ->> 'hops' AS BIGINT), value ->> 'readers_json'
      FROM jsonb_each($2);
    INSERT INTO runs (id, persona_id, thread_id, trigger, trigger_message_id, profile, state, created_at, budget_micros,
        run_options_json, output_schema)
      SELECT value ->> 'run', value ->> 'persona', value ->> 'thread', value ->> 'trigger', value ->> 'message',
        value ->> 'profile', 'queued', value ->> 'queued_at', CAST(value ->> 'budget_micros' AS BIGINT), value ->> 'options', value ->> 'schema'
      FROM jsonb_each($1) WHERE value ->> 'run' IS NOT NULL",
);

/// The beginnings of the newest texts of a thread, with what they quote.
const NEWEST_TEXTS: &str = "
    SELECT substr(text_body, 1, 32000) FROM messages WHERE thread_id = $1 AND +persona_id = $2 ORDER BY seq DESC LIMIT 16";

/// Place of a letter, and its run.
#[derive(Serialize)]
struct PlaceColumns<'a> {
    message: &'a MessageId,
    persona: &'a PersonaId,
    conversation: &'a str,
    thread: &'a str,
    subject: &'a str,
    /// Oldest known Message-ID of the conversation.
    root: &'a str,
    received_at: Timestamp,
    /// Message-IDs that the letter bears or mentions, as a JSON array.
    linked_ids: String,
    /// Addresses that join the thread, as a JSON array.
    joining: String,
    /// Participant that the sender replaces.
    leaving: Option<&'a str>,
    /// Counter of the thread, which an owner's letter clears.
    counter: Option<String>,
    run: Option<&'a RunId>,
    trigger: Option<Trigger>,
    profile: Option<&'a str>,
    queued_at: Timestamp,
    budget_micros: Option<i64>,
    /// Options of the run, and the schema of its answer, both as text.
    options: Option<String>,
    schema: Option<&'a str>,
}

/// Columns of `messages` and `raw_letters`.
#[derive(Serialize)]
struct LetterColumns<'a> {
    id: &'a MessageId,
    thread: &'a str,
    persona: &'a PersonaId,
    rfc_message_id: &'a str,
    in_reply_to: Option<&'a str>,
    references_json: String,
    sender: &'a str,
    recipients_json: &'a str,
    subject: &'a str,
    text_body: BlobSpan,
    fresh_text: Option<BlobSpan>,
    html_body: Option<BlobSpan>,
    received_at: Timestamp,
    trust: &'a str,
    dedup_key: &'a str,
    ack_confirmed: bool,
    disposition: &'a str,
    metadata_json: &'a str,
    hops: u32,
    readers_json: Option<String>,
    raw: &'a RawLetterId,
    sha256: &'a str,
    envelope_json: &'a str,
    trace: &'a str,
    bytes: BlobSpan,
    size_bytes: i64,
}

/// Bytes and long texts of some letters, bound as one value: in JSON, a text would be copied once
/// for each column that is read.
#[derive(Default)]
struct LetterBlob(Vec<u8>);

/// Position of the first byte, counted from 1, and number of bytes.
#[derive(Serialize)]
struct BlobSpan(usize, usize);

impl LetterBlob {
    fn add(&mut self, piece: &[u8]) -> BlobSpan {
        let first = self.0.len() + 1;
        self.0.extend_from_slice(piece);
        BlobSpan(first, piece.len())
    }
}

pub fn placing_of<'a>(copy: &'a NewInbound, times: (&'a str, &'a str)) -> Placing<'a> {
    placing(&copy.persona, &copy.place, &copy.content, times)
}

/// A copy to be stored, and its place.
pub struct NewRow<'a> {
    copy: &'a NewInbound,
    found: FoundThread,
    run: Option<&'a NewRun>,
    /// The limit by which the copy is filed.
    over: Option<Withheld>,
    /// `run` or `filed:<rule>`.
    disposition: String,
    /// What is new in the text, with what it quotes and the thread does not hold; `None`: all of it.
    fresh_text: Option<String>,
    now: Timestamp,
}

impl<'a> NewRow<'a> {
    /// Decides the disposition: a letter whose sender has reached a limit of answers is filed. `of_domain` counts the letters of
    /// the sender's organisation that were answered today.
    pub fn new(
        copy: &'a NewInbound,
        (sent, of_domain, found): (Sent, i64, FoundThread),
        fresh_text: Option<String>,
        now: Timestamp,
    ) -> Self {
        let answers = found
            .thread
            .as_ref()
            .filter(|_| !copy.from_owner)
            .map_or(0, |(_, answers)| *answers);
        let sent = Sent {
            in_thread: answers,
            ..sent
        };
        let over = copy.reply_limits.as_ref().and_then(|limits| {
            let of_domain = || limits.domain.as_ref()?.exceeded_by(of_domain);
            limits
                .bounds
                .exceeded_by(sent.one_more())
                .or_else(of_domain)
        });
        let disposition =
            over.map_or_else(|| copy.disposition.clone(), |rule| format!("filed:{rule}"));
        Self {
            copy,
            found,
            run: copy.run.as_ref().filter(|_| over.is_none()),
            over,
            disposition,
            fresh_text,
            now,
        }
    }

    pub fn stored(&self) -> StoredInbound {
        StoredInbound::New {
            message: self.copy.id.clone(),
            run: self.run.map(|run| run.id.clone()),
            disposition: self.disposition.clone(),
        }
    }

    /// Returns the limit of the sender's organisation in which its run counts.
    pub fn counted_domain(&self) -> Option<&'a DomainLimit> {
        let limits = self.copy.reply_limits.as_ref();
        limits?.domain.as_ref().filter(|_| self.run.is_some())
    }

    fn thread(&self) -> &str {
        let new_thread = self.copy.place.new_thread.as_str();
        self.found
            .thread
            .as_ref()
            .map_or(new_thread, |(thread, _)| thread)
    }

    fn place_columns(&self) -> PlaceColumns<'_> {
        let copy = self.copy;
        let placing = placing_of(copy, ("", ""));
        let thread = self.thread();
        let (options, schema) = self.run.map(NewRun::options_columns).unwrap_or_default();
        PlaceColumns {
            message: &copy.id,
            persona: &copy.persona,
            conversation: &self.found.conversation,
            thread,
            subject: &copy.content.subject,
            root: placing.root(),
            received_at: copy.received_at,
            linked_ids: placing.ids(),
            joining: placing.joining(self.found.thread.is_some()),
            leaving: copy.place.replaces.as_deref(),
            counter: copy.from_owner.then(|| format!("thread:{thread}")),
            run: self.run.map(|run| &run.id),
            trigger: self.run.map(|run| run.trigger),
            profile: self.run.map(|run| run.profile.as_str()),
            queued_at: self.now,
            budget_micros: self.run.and_then(|run| run.budget_micros),
            options,
            schema,
        }
    }

    fn letter_columns(&self, pieces: &mut LetterBlob) -> LetterColumns<'_> {
        let (copy, content) = (self.copy, &self.copy.content);
        // PostgreSQL has no text with NUL; the letter itself is kept as it came.
        let mut text = |text: &String| match text.contains('\0') {
            true => pieces.add(text.replace('\0', "\u{fffd}").as_bytes()),
            false => pieces.add(text.as_bytes()),
        };
        let readers = copy.readers.as_ref();
        LetterColumns {
            id: &copy.id,
            thread: self.thread(),
            persona: &copy.persona,
            rfc_message_id: &content.rfc_message_id,
            in_reply_to: content.in_reply_to.as_deref(),
            references_json: json_list(content.references.iter()),
            sender: &content.sender,
            recipients_json: &content.recipients_json,
            subject: &content.subject,
            text_body: text(&content.text_body),
            fresh_text: self.fresh_text.as_ref().map(&mut text),
            html_body: content.html_body.as_ref().map(&mut text),
            received_at: copy.received_at,
            trust: content.trust.as_str(),
            dedup_key: &copy.dedup_key,
            ack_confirmed: copy.ack_confirmed,
            disposition: &self.disposition,
            metadata_json: &content.metadata_json,
            hops: copy.hops,
            readers_json: readers.map(|readers| json_list(readers.iter())),
            raw: &copy.raw_id,
            sha256: &copy.sha256,
            envelope_json: &copy.envelope_json,
            trace: &copy.trace,
            bytes: pieces.add(&copy.bytes.bytes),
            size_bytes: copy.bytes.size_bytes(),
        }
    }
}

/// Returns the fresh text of a letter in the thread that it joins. A quotation is history only where the thread holds the
/// letter that it quotes: the rest is put back.
pub async fn fresh_text(
    conn: &mut Connection,
    copy: &NewInbound,
    thread: Option<&str>,
) -> Result<Option<String>> {
    let (Some(fresh), Some(thread)) = (&copy.content.fresh_text, thread) else {
        return Ok(None);
    };
    if copy.quotations.is_empty() {
        return Ok(None);
    }
    let texts: Vec<String> = conn.all(NEWEST_TEXTS, (thread, &copy.persona)).await?;
    let fresh = with_unknown(fresh, &copy.content.text_body, &copy.quotations, &texts);
    Ok(fresh.filter(|fresh| *fresh != copy.content.text_body))
}

pub async fn insert(conn: &mut Connection, rows: &[NewRow<'_>]) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut pieces = LetterBlob::default();
    let places: Vec<_> = rows.iter().map(NewRow::place_columns).collect();
    let letters: Vec<_> = rows
        .iter()
        .map(|row| row.letter_columns(&mut pieces))
        .collect();
    conn.exec(
        STORE_LETTERS,
        (to_json(&places)?, to_json(&letters)?, pieces.0),
    )
    .await?;
    if rows.iter().any(|row| row.run.is_some()) {
        conn.note_queued(QueuedWork::Run);
    }
    for row in rows {
        let copy = row.copy;
        if let (Some(run), true) = (row.run, row.found.thread.is_some()) {
            together::answer(conn, &run.id, copy.letters_max, row.now).await?;
        }
        for attachment in &copy.attachments {
            insert_attachment(conn, &copy.persona, &copy.id, attachment).await?;
        }
        if let Some(part) = &copy.calendar {
            calendar::apply_letter(conn, &copy.persona, &copy.id, part, row.now).await?;
        }
        if let Some(command) = &copy.command {
            let letter = (
                &copy.persona,
                &copy.id,
                copy.content.rfc_message_id.as_str(),
            );
            commands::insert(conn, letter, command, copy.received_at).await?;
        }
        if let (Some(rule), Some(reply_limits)) = (row.over, &copy.reply_limits) {
            let who = match (rule, &reply_limits.domain) {
                (Withheld::DomainLimited, Some(limit)) => limit.domain.as_str(),
                _ => reply_limits.counterparty.as_str(),
            };
            let who = (who, rule);
            filed::limit_reached(conn, &copy.persona, who, &copy.id, row.now).await?;
        }
        let held = row.run.is_none().then_some(&row.disposition);
        for decision in held.into_iter().chain(&copy.decisions) {
            audit(
                conn,
                Some(&copy.persona),
                ("message", copy.id.as_str()),
                decision,
                row.now,
            )
            .await?;
        }
    }
    Ok(())
}
