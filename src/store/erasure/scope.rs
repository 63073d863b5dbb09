//! The rows of a person: letters, whole threads, runs, mails.

use crate::mime::Header;
use crate::store::db::{self, Row, Sql};
use crate::store::packing;
use crate::store::sql::json_list;
use crate::store::{Result, Store};
use crate::text::quotations::Quotations;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The addresses of the person of `$1`, itself among them.
const ADDRESSES_OF_PERSON: &str = "
    WITH person (address) AS (SELECT coalesce((SELECT person FROM contact_aliases WHERE address = $1), $1))
    SELECT address FROM person UNION SELECT $1
    UNION SELECT a.address FROM person p CROSS JOIN contact_aliases a WHERE a.person = p.address";
/// Held letters in whose envelope or beginning one of the addresses `$1` stands somewhere, also as a part of another.
/// Bytes need be no text, so PostgreSQL compares them as ASCII with escapes.
const HELD_WITH_ADDRESS: Sql = Sql::pair(
    "
    SELECT id, envelope_json ->> '$.mail_from' AS mail_from, substr(bytes, 1, 65536) AS beginning
    FROM held_letters WHERE EXISTS (SELECT 1 FROM jsonb_each($1) w
      WHERE instr(lower(held_letters.envelope_json), w.value) > 0
        OR instr(lower(CAST(substr(held_letters.bytes, 1, 65536) AS TEXT)), w.value) > 0)",
    "
    SELECT id, envelope_json ->> '$.mail_from' AS mail_from, substr(bytes, 1, 65536) AS beginning
    FROM held_letters WHERE EXISTS (SELECT 1 FROM jsonb_each($1) w
      WHERE instr(lower(held_letters.envelope_json), w.value) > 0
        OR instr(lower(encode(substr(held_letters.bytes, 1, 65536), 'escape')), encode(convert_to(w.value, 'UTF8'), 'escape')) > 0)",
);
/// `sender` is the field as a person reads it; the address in it stands in the metadata, or alone after an erasure.
const LETTERS_OF_PERSON: &str = "
    SELECT m.id, m.thread_id, m.subject, coalesce(m.fresh_text, m.text_body) AS words FROM messages m
    WHERE m.direction = 'inbound' AND EXISTS (SELECT 1 FROM jsonb_each($1) w
      WHERE lower(coalesce(m.metadata_json ->> '$.sender', m.sender)) = w.value
        OR instr(lower(m.sender), '<' || w.value || '>') > 0)
    ORDER BY m.seq";
/// Of the threads `$1` those in which no letter came but those of `$2`.
const THREADS_OF_PERSON: &str = "
    SELECT t.value AS id FROM jsonb_each($1) t WHERE NOT EXISTS (SELECT 1 FROM messages m
      WHERE m.thread_id = t.value AND m.direction = 'inbound' AND m.id NOT IN (SELECT value FROM jsonb_each($2)))";
/// Letters `$1`, everything in the threads `$2`, what runs answered to the letters, and the mails `$3`.
const MESSAGES_OF_SCOPE: &str = "
    SELECT m.id, m.persona_id, m.thread_id, m.message_id FROM jsonb_each($1) w CROSS JOIN messages m WHERE m.id = w.value
    UNION SELECT m.id, m.persona_id, m.thread_id, m.message_id FROM jsonb_each($2) w CROSS JOIN messages m WHERE m.thread_id = w.value
    UNION SELECT m.id, m.persona_id, m.thread_id, m.message_id FROM jsonb_each($1) w CROSS JOIN runs r
      CROSS JOIN messages m WHERE m.run_id = r.id AND r.trigger_message_id = w.value
    UNION SELECT m.id, m.persona_id, m.thread_id, m.message_id FROM jsonb_each($3) w CROSS JOIN messages m WHERE m.id = w.value";
/// Messages that went to nobody but the person.
const MAILS_TO_PERSON: &str = "
    SELECT DISTINCT d.message_id FROM delivery_recipients r CROSS JOIN deliveries d
    WHERE d.id = r.delivery_id AND r.recipient IN (SELECT value FROM jsonb_each($1)) AND NOT EXISTS (SELECT 1 FROM delivery_recipients o
      WHERE o.delivery_id = d.id AND o.recipient NOT IN (SELECT value FROM jsonb_each($1)))";
/// Runs in the threads `$1`, runs that the messages `$2` began or that wrote one of them.
const RUNS_OF_SCOPE: &str = "
    SELECT r.id FROM jsonb_each($1) w CROSS JOIN runs r WHERE r.thread_id = w.value
    UNION SELECT r.id FROM jsonb_each($2) w CROSS JOIN runs r WHERE r.trigger_message_id = w.value
    UNION SELECT m.run_id FROM jsonb_each($2) w CROSS JOIN messages m WHERE m.id = w.value AND m.run_id IS NOT NULL";
const OPEN_OF_SCOPE: &str = "
    SELECT r.id FROM jsonb_each($1) w CROSS JOIN runs r
      WHERE r.id = w.value AND r.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')
    UNION SELECT d.id FROM jsonb_each($2) w CROSS JOIN deliveries d
      WHERE d.message_id = w.value AND d.state IN ('queued', 'sending', 'committing', 'held')
    UNION SELECT a.id FROM jsonb_each($1) w CROSS JOIN approvals a WHERE a.run_id = w.value AND a.state = 'open'";
/// Names by which a mail to an owner speaks of one of the runs `$1` or of the messages `$2`.
const NAMES_OF_SCOPE: &str = "
    SELECT value AS name FROM jsonb_each($1)
    UNION SELECT d.id FROM jsonb_each($2) w CROSS JOIN deliveries d WHERE d.message_id = w.value
    UNION SELECT a.id FROM jsonb_each($1) w CROSS JOIN approvals a WHERE a.run_id = w.value
    UNION SELECT t.token FROM jsonb_each($1) w CROSS JOIN approvals a
      CROSS JOIN answer_tokens t WHERE t.approval_id = a.id AND a.run_id = w.value";

/// Mails of the engine to owners, after the number `$1`.
const NOTICE_MAILS: &str = "
    SELECT m.seq, m.id, m.persona_id, m.thread_id, m.message_id, m.subject || '\n' || m.text_body AS words, d.bytes
    FROM messages m CROSS JOIN deliveries d
    WHERE d.message_id = m.id AND m.disposition = 'notice' AND m.seq > $1 ORDER BY m.seq LIMIT 200";

/// Of the messages `$1` those that have words yet, in themselves or in what belongs to them.
const MESSAGES_WITH_WORDS: &str = "
    SELECT m.id, m.thread_id FROM jsonb_each($1) w CROSS JOIN messages m
    WHERE m.id = w.value AND (m.subject <> '' OR m.text_body <> '' OR coalesce(m.html_body, '') <> '' OR coalesce(m.fresh_text, '') <> ''
      OR m.metadata_json <> '{}'
      OR EXISTS (SELECT 1 FROM raw_letters l WHERE l.id = m.raw_id AND length(l.bytes) > 0)
      OR EXISTS (SELECT 1 FROM attachments a WHERE a.message_id = m.id AND (length(a.bytes) > 0 OR a.encoding IS NOT NULL OR a.filename <> ''))
      OR EXISTS (SELECT 1 FROM deliveries d WHERE d.message_id = m.id AND (length(d.bytes) > 0
        OR EXISTS (SELECT 1 FROM delivery_reports p WHERE p.delivery_id = d.id AND p.diagnostic <> '')
        OR EXISTS (SELECT 1 FROM delivery_recipients r WHERE r.delivery_id = d.id AND r.last_reply NOT IN ('', 'erased')))))";
/// Of the runs `$1` those that have words yet. `attache memory forget` takes requests and leaves the report.
const RUNS_WITH_WORDS: Sql = Sql::pair(
    "
    SELECT r.id FROM jsonb_each($1) w CROSS JOIN runs r
    WHERE r.id = w.value AND (r.context_report_json IS NOT NULL OR coalesce(r.error_message, '') <> ''
      OR EXISTS (SELECT 1 FROM run_turns t WHERE t.run_id = r.id AND t.redacted_at IS NULL)
      OR EXISTS (SELECT 1 FROM approvals a WHERE a.run_id = r.id AND (a.view_text <> '' OR a.call_json <> '{}'))
      OR EXISTS (SELECT 1 FROM thread_tool_events e CROSS JOIN json_each(e.payload_json) p WHERE e.run_id = r.id
        AND p.key <> 'label' AND (p.type = 'text' OR p.type IN ('object', 'array') AND instr(p.value, '\"redacted\"') = 0)))",
    "
    SELECT r.id FROM jsonb_each($1) w CROSS JOIN runs r
    WHERE r.id = w.value AND (r.context_report_json IS NOT NULL OR coalesce(r.error_message, '') <> ''
      OR EXISTS (SELECT 1 FROM run_turns t WHERE t.run_id = r.id AND t.redacted_at IS NULL)
      OR EXISTS (SELECT 1 FROM approvals a WHERE a.run_id = r.id AND (a.view_text <> '' OR a.call_json <> '{}'))
      OR EXISTS (SELECT 1 FROM thread_tool_events e CROSS JOIN json_members(e.payload_json) p WHERE e.run_id = r.id
        AND p.key <> 'label' AND (p.type = 'text' OR p.type IN ('object', 'array') AND instr(p.value, '\"redacted\"') = 0)))",
);

/// A letter or mail of somebody else that quotes a person.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct QuotingMessage {
    pub id: String,
    /// To or from which persona.
    pub persona: String,
}

/// What belongs to a person.
#[derive(Debug, Default)]
pub struct ErasureScope {
    /// All addresses of the person.
    pub addresses: BTreeSet<String>,
    /// Letters that the person wrote.
    pub letters: BTreeSet<String>,
    /// Letters that the person sent, and that are held because nobody could say so yet.
    pub held: BTreeSet<String>,
    /// Threads with such letters, and those of the other messages.
    pub threads: BTreeSet<String>,
    /// Threads in which nobody else wrote; they lose every message.
    pub whole_threads: BTreeSet<String>,
    /// Messages that lose their words, the letters among them.
    pub messages: BTreeSet<String>,
    /// Runs that lose their records.
    pub runs: BTreeSet<String>,
    /// Messages, runs and whole threads that an earlier erasure has emptied: in none of the other lists.
    pub past: BTreeSet<String>,
    /// Letters and mails of others that quote the person and keep their words.
    pub quoting: BTreeSet<QuotingMessage>,
    /// Held letters of others that quote or name the person; they stay.
    pub quoting_held: BTreeSet<QuotingMessage>,
    /// Ids and Message-IDs of the messages, by which a record or a file is known to speak of one.
    pub ids: BTreeSet<String>,
    /// Words of the person.
    pub quotations: Quotations,
    /// Runs, questions to an owner and mails that are still open.
    pub open: Vec<String>,
}

impl ErasureScope {
    /// Reports whether nothing was found that has words yet.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.runs.is_empty() && self.held.is_empty()
    }

    /// Reports whether a text quotes the person, or names one of the messages.
    pub fn is_in(&self, text: &str) -> bool {
        self.names_one(text) || self.quotations.are_in(text)
    }

    /// Reports whether an address of the person stands in a text by itself.
    pub fn is_addressed_in(&self, text: &str) -> bool {
        let mut pieces = pieces(text).map(|piece| piece.trim_matches('.'));
        pieces.any(|piece| self.addresses.contains(&piece.to_lowercase()))
    }

    fn names_one(&self, text: &str) -> bool {
        pieces(text).any(|piece| self.ids.contains(piece))
    }

    /// Returns how many of each there are.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let counts = [
            ("letters_of_the_person", self.letters.len()),
            ("messages", self.messages.len()),
            ("whole_threads", self.whole_threads.len()),
            ("runs", self.runs.len()),
            ("quoting_messages_that_stay", self.quoting.len()),
            ("quoting_held_letters_that_stay", self.quoting_held.len()),
        ];
        let counts = counts.map(|(kind, count)| (kind.to_owned(), count as u64));
        BTreeMap::from(counts)
    }
}

/// Splits a text where an address or an id ends.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || "\"'<>[](){},;:\\".contains(c))
}

/// Reports whether a text has one of the names, also inside an address.
fn is_named(names: &BTreeSet<String>, text: &str) -> bool {
    let is_between = |c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c));
    text.split(is_between).any(|piece| names.contains(piece))
}

/// Reports whether a held letter says that it comes from one of the addresses. One that only names it is another person's.
fn is_sent_by(addresses: &BTreeSet<String>, held: &Row) -> bool {
    let envelope: Option<String> = held.get("mail_from");
    // The header alone: a letter that is no good, or is cut here, has its author all the same.
    let authors = Header::read(held.get("beginning")).mailboxes("from");
    let authors = authors.into_iter();
    let mut senders = authors.map(|author| author.spec).chain(envelope);
    senders.any(|sender| addresses.contains(&sender.to_lowercase()))
}

pub fn list(ids: &BTreeSet<String>) -> String {
    json_list(ids.iter())
}

impl Store {
    /// Returns all addresses of the person who has this one.
    pub async fn addresses_of_person(&self, address: &str) -> Result<BTreeSet<String>> {
        Ok(self
            .all(ADDRESSES_OF_PERSON, address)
            .await?
            .into_iter()
            .collect())
    }

    /// Returns the letters that a person sent and that are held; they are of no thread.
    async fn held_of_person(&self, addresses: &BTreeSet<String>) -> Result<BTreeSet<String>> {
        let held = self.rows(HELD_WITH_ADDRESS, list(addresses)).await?;
        let own = held.iter().filter(|row| is_sent_by(addresses, row));
        Ok(own.map(|row| row.get("id")).collect())
    }

    /// Finds what belongs to a person, without what quotes them elsewhere.
    pub(super) async fn own_scope(&self, addresses: BTreeSet<String>) -> Result<ErasureScope> {
        let mut scope = ErasureScope {
            addresses,
            ..ErasureScope::default()
        };
        for row in self.rows(LETTERS_OF_PERSON, list(&scope.addresses)).await? {
            scope.letters.insert(row.get("id"));
            scope.threads.insert(row.get("thread_id"));
            scope.quotations.add(row.get("subject"));
            scope.quotations.add(row.get("words"));
        }
        let whole: Vec<String> = self
            .all(
                THREADS_OF_PERSON,
                (list(&scope.threads), list(&scope.letters)),
            )
            .await?;
        scope.whole_threads.extend(whole);
        scope.held = self.held_of_person(&scope.addresses).await?;
        let mails: Vec<String> = self.all(MAILS_TO_PERSON, list(&scope.addresses)).await?;
        let messages = self
            .rows(
                MESSAGES_OF_SCOPE,
                (
                    list(&scope.letters),
                    list(&scope.whole_threads),
                    json_list(mails.iter()),
                ),
            )
            .await?;
        self.add_messages(&mut scope, &messages).await?;
        Ok(scope)
    }

    /// Adds messages that lose their words, and the runs that belong to them.
    pub(super) async fn add_messages(&self, scope: &mut ErasureScope, rows: &[Row]) -> Result<()> {
        // Of most pages nothing belongs to a person.
        if rows.is_empty() {
            return Ok(());
        }
        for row in rows {
            let id: String = row.get("id");
            scope.ids.extend([id.clone(), row.get("message_id")]);
            scope.messages.insert(id);
            scope.threads.insert(row.get("thread_id"));
        }
        let runs: Vec<String> = self
            .all(
                RUNS_OF_SCOPE,
                (list(&scope.whole_threads), list(&scope.messages)),
            )
            .await?;
        scope.runs.extend(runs);
        Ok(())
    }

    /// Adds the mails that told owners of it: questions, notices and digests.
    pub(super) async fn add_notice_mails(&self, scope: &mut ErasureScope) -> Result<()> {
        let mut names: BTreeSet<String> = self
            .all(NAMES_OF_SCOPE, (list(&scope.runs), list(&scope.messages)))
            .await?
            .into_iter()
            .collect();
        names.extend(self.memory_of_scope(scope).await?);
        let mut after: i64 = 0;
        loop {
            let page = db::query(NOTICE_MAILS).bind(after);
            let mut page = page.rows(self.readers()).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = last.get("seq");
            page.retain(|row| {
                // What nobody can unpack any more holds no text.
                let mail = packing::unpack(row.get("bytes")).unwrap_or_default();
                let mail = String::from_utf8_lossy(mail.as_ref());
                [row.get("words"), mail.as_ref()]
                    .into_iter()
                    .any(|text| is_named(&names, text) || scope.is_in(text))
            });
            scope.quoting.retain(|quoting| {
                let is_one = |row: &Row| row.get::<&str>("id") == quoting.id;
                !page.iter().any(is_one)
            });
            self.add_messages(scope, &page).await?;
        }
    }

    /// Finds what is still open of what would be erased.
    pub(super) async fn open_of(&self, scope: &ErasureScope) -> Result<Vec<String>> {
        self.all(OPEN_OF_SCOPE, (list(&scope.runs), list(&scope.messages)))
            .await
    }

    /// Leaves out what an earlier erasure has emptied. It belongs to the person, so threads and records are known by it, and it
    /// is not erased again.
    pub(super) async fn leave_out_erased(&self, scope: &mut ErasureScope) -> Result<()> {
        let messages = self
            .rows(MESSAGES_WITH_WORDS, list(&scope.messages))
            .await?;
        let ids: BTreeSet<String> = messages.iter().map(|row| row.get("id")).collect();
        let threads: BTreeSet<String> = messages.iter().map(|row| row.get("thread_id")).collect();
        let runs: Vec<String> = self.all(RUNS_WITH_WORDS, list(&scope.runs)).await?;
        let runs: BTreeSet<String> = runs.into_iter().collect();
        for (all, with_words) in [
            (&mut scope.messages, &ids),
            (&mut scope.runs, &runs),
            (&mut scope.whole_threads, &threads),
        ] {
            scope.past.extend(all.difference(with_words).cloned());
            all.retain(|id| with_words.contains(id));
        }
        scope.letters.retain(|id| ids.contains(id));
        Ok(())
    }
}
