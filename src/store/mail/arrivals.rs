//! Storing of incoming letters. Letters that wait together are stored by the same few statements
//! (decision D-41): one query about all of them, one statement that stores all letters that are
//! independent of each other, and then the others one by one.
//!
//! The order of arrival holds within every thread: a letter that shares a Message-ID, a
//! conversation or a key with an earlier letter waits for that letter. The failure of one letter
//! leaves the others unaffected.

use crate::domain::{MessageId, Timestamp, Withheld};
use crate::store::mail::audit_log::audit;
use crate::store::mail::bulk::{Bulk, ROWS_MAX};
use crate::store::mail::filed;
use crate::store::mail::held;
use crate::store::mail::inbound::{NewInbound, StoredInbound};
use crate::store::mail::messages::insert_attachment;
use crate::store::mail::reports;
use crate::store::mailboxes::cursors as mailboxes;
use crate::store::runs::queue::NewRun;
use crate::store::sql::json_list;
use crate::store::sqlite::job::{Job, JobOutcome};
use crate::store::sqlite::refusal::{CommitRefusal, is_broken};
use crate::store::threads::placement::{self, FoundThread, Placing, placing};
use crate::store::threads::reply_limits::{Account, DAY, HOUR, Sent, since};
use crate::store::{Result, Store, StoreError};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;
use sqlx::{Row, SqliteConnection};
use std::any::Any;
use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, LazyLock};
use tokio::sync::oneshot;

/// Raw bytes that are stored in one batch; a larger letter is stored by itself.
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// Facts of letters before they are stored: the duplicate, the recent mails to their sender, the
/// linked conversations, and in the oldest of these the thread that they join, with its answers.
/// The plus keeps SQLite from scanning all mail of the window.
pub(in crate::store) const ARRIVALS: &str = "
    WITH letters AS MATERIALIZED (SELECT key AS place, value ->> 0 AS persona, value -> 1 AS ids, value -> 2 AS known_as,
        value ->> 3 AS duplicates_since, value ->> 4 AS has_own_id, value ->> 5 AS counterparty,
        value ->> 6 AS joins_as, value ->> 7 AS nearest, value ->> 8 AS all_of, value ->> 9 AS none_but,
        value ->> 10 AS thread_prefix FROM json_each($1)),
      linked AS MATERIALIZED (SELECT *, (SELECT json_group_array(DISTINCT conversation_id) FROM message_links
          WHERE persona_id = persona AND rfc_message_id IN (SELECT value FROM json_each(ids))) AS conversations,
        (SELECT min(conversation_id) FROM message_links
          WHERE persona_id = persona AND rfc_message_id IN (SELECT value FROM json_each(ids))) AS oldest FROM letters)
    SELECT
      (SELECT id FROM messages WHERE persona_id = l.persona AND dedup_key IN (SELECT value FROM json_each(l.known_as))
         AND +received_at >= l.duplicates_since AND (ack_confirmed = 0 OR l.has_own_id) ORDER BY seq DESC LIMIT 1),
      (SELECT coalesce(sum(mails), 0) FROM correspondence
         WHERE persona_id = l.persona AND counterparty = l.counterparty AND minute >= $2),
      (SELECT coalesce(sum(mails), 0) FROM correspondence
         WHERE persona_id = l.persona AND counterparty = l.counterparty AND minute >= $3),
      l.conversations,
      (SELECT json_array(t.id, (SELECT coalesce(sum(mails), 0) FROM correspondence
           WHERE persona_id = l.persona AND counterparty = l.thread_prefix || t.id AND minute >= $3))
         FROM threads t JOIN thread_participants p ON p.thread_id = t.id
         LEFT JOIN messages m ON m.persona_id = l.persona AND m.message_id = l.nearest AND m.thread_id = t.id
         WHERE t.conversation_id = l.oldest AND p.address = l.joins_as
           AND (l.all_of IS NULL OR (
             NOT EXISTS (SELECT 1 FROM thread_participants o WHERE o.thread_id = t.id
               AND o.address NOT IN (SELECT value FROM json_each(l.none_but)))
             AND NOT EXISTS (SELECT 1 FROM json_each(l.all_of) wanted WHERE NOT EXISTS (
               SELECT 1 FROM thread_participants o WHERE o.thread_id = t.id AND o.address = wanted.value))))
         ORDER BY m.seq IS NULL, t.updated_at DESC, t.id DESC LIMIT 1)
    FROM linked l ORDER BY l.place";
/// Inserts a letter with its conversation, links, thread, participants and run. Repeated by
/// [`Bulk`].
pub(in crate::store) const STORE_LETTER: &str = "
    INSERT INTO conversations (id, persona_id, subject, root_message_id, created_at)
      SELECT * FROM (VALUES ($25, $3, $9, $27, $13)) WHERE column1 IS NOT NULL ON CONFLICT (id) DO NOTHING;
    INSERT OR IGNORE INTO message_links (persona_id, rfc_message_id, conversation_id)
      SELECT v.column1, j.value, v.column3 FROM (VALUES ($3, $26, $25)) v, json_each(v.column2) j;
    INSERT INTO threads (id, conversation_id, persona_id, subject, created_at, updated_at)
      SELECT * FROM (VALUES ($2, $25, $3, $9, $13, $13)) WHERE column1 IS NOT NULL
      ON CONFLICT (id) DO UPDATE SET updated_at = max(updated_at, excluded.updated_at);
    INSERT OR IGNORE INTO thread_participants (thread_id, address, joined_after)
      SELECT v.column1, j.value, CASE WHEN u.address IS NOT NULL THEN u.joined_after ELSE
          (SELECT CASE WHEN max(seq) < 0 THEN 0 ELSE max(seq) END FROM messages WHERE thread_id = v.column1) END
      FROM (VALUES ($2, $28)) v, json_each(v.column2) j
        LEFT JOIN thread_participants u ON u.thread_id = v.column1 AND u.address = 'unverified:' || j.value;
    DELETE FROM thread_participants WHERE (thread_id, address) IN (VALUES ($2, $29));
    DELETE FROM correspondence WHERE (persona_id, counterparty) IN (VALUES ($3, $30));
    DELETE FROM correspondence WHERE (persona_id, counterparty) IN (
      SELECT column1, 'unverified:' || column2 FROM (VALUES ($3, $30)));
    INSERT INTO raw_letters (id, persona_id, sha256, envelope_json, bytes, trace)
      SELECT * FROM (VALUES ($15, $3, $21, $22, $23, $24)) WHERE column1 IS NOT NULL;
    INSERT INTO messages (id, thread_id, persona_id, direction, message_id, in_reply_to, references_json, sender,
        recipients_json, subject, text_body, fresh_text, html_body, received_at, trust, raw_id, dedup_key, ack_confirmed,
        disposition, metadata_json, hops, readers_json)
      SELECT column1, column2, column3, 'inbound', column4, column5, column6, column7, column8, column9, column10, column11,
        column12, column13, column14, column15, column16, column17, column18, column19, column20, column21
      FROM (VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $36))
      WHERE column1 IS NOT NULL;
    INSERT INTO runs (id, persona_id, thread_id, trigger, trigger_message_id, profile, state, created_at, budget_micros)
      SELECT column1, column2, column3, column4, column5, column6, 'queued', column7, column8
      FROM (VALUES ($31, $3, $2, $32, $1, $33, $34, $35)) WHERE column1 IS NOT NULL";

static STORE_LETTERS: LazyLock<Bulk> = LazyLock::new(|| Bulk::of(STORE_LETTER));

impl Store {
    /// Stores one letter for every addressed persona, each with its queued run, in one commit. A
    /// duplicate is left alone.
    pub async fn accept_letter(&self, copies: Vec<NewInbound>) -> Result<Vec<StoredInbound>> {
        self.store_letter(copies, None).await
    }

    /// Stores a held letter like [`Store::accept_letter`]; the hold ends in the same commit.
    pub async fn release_letter(
        &self,
        copies: Vec<NewInbound>,
        held: MessageId,
    ) -> Result<Vec<StoredInbound>> {
        self.store_letter(copies, Some(held)).await
    }

    async fn store_letter(
        &self,
        copies: Vec<NewInbound>,
        releases: Option<MessageId>,
    ) -> Result<Vec<StoredInbound>> {
        let (reply, answer) = oneshot::channel();
        let bytes = copies.iter().map(NewInbound::size).sum();
        let letter = Waiting {
            copies,
            releases,
            now: self.clock().now(),
            result: None,
            reply,
        };
        self.submit(
            Box::new(LetterBatch {
                letters: vec![letter],
                bytes,
            }),
            answer,
        )
        .await?
    }
}

/// Batch of letters that are stored together.
struct LetterBatch {
    letters: Vec<Waiting>,
    bytes: usize,
}

/// A letter, with the caller that waits for its result.
struct Waiting {
    copies: Vec<NewInbound>,
    /// Id of the held letter that this letter was; `None`: it was not held.
    releases: Option<MessageId>,
    now: Timestamp,
    result: Option<Stored>,
    reply: oneshot::Sender<Stored>,
}

type Stored = Result<Vec<StoredInbound>>;

impl Job for LetterBatch {
    fn run<'a>(&'a mut self, conn: &'a mut SqliteConnection) -> BoxFuture<'a, JobOutcome> {
        Box::pin(async move {
            if let Err(error) = store_letters(conn, &mut self.letters).await {
                // The transaction is lost, or cannot be undone in part.
                let lost = Arc::new(error);
                let not_stored = || Some(Err(StoreError::NotCommitted(lost.clone())));
                self.letters
                    .iter_mut()
                    .for_each(|letter| letter.result = not_stored());
            }
            crate::crash::crash_point!("I3");
            let mut results = self
                .letters
                .iter()
                .filter_map(|letter| letter.result.as_ref());
            if results
                .clone()
                .any(|result| result.as_ref().is_err_and(is_broken))
            {
                return JobOutcome::Broken;
            }
            if results.any(Result::is_ok) {
                JobOutcome::Keep
            } else {
                JobOutcome::RollBack
            }
        })
    }

    fn answer(self: Box<Self>, committed: std::result::Result<(), CommitRefusal>) {
        for letter in self.letters {
            let answer = match (letter.result, &committed) {
                (Some(Ok(stored)), Ok(())) => Ok(stored),
                (Some(Err(own)), _) => Err(own),
                (_, Err(group)) => Err(group.clone().into()),
                (None, Ok(())) => Err(StoreError::Closed),
            };
            // A caller that disconnected (a client hung up) does not undo a commit.
            let _gone = letter.reply.send(answer);
        }
    }

    fn absorb(&mut self, next: Box<dyn Job>) -> Option<Box<dyn Job>> {
        let is_letters = (&*next as &dyn Any).is::<LetterBatch>();
        if !is_letters || self.bytes >= BYTES_MAX || self.letters.len() >= ROWS_MAX {
            return Some(next);
        }
        if let Ok(next) = (next as Box<dyn Any>).downcast::<LetterBatch>() {
            self.bytes += next.bytes;
            self.letters.extend(next.letters);
        }
        None
    }

    fn is_absorbable(&self) -> bool {
        true
    }
}

/// Stores the letters and sets the result of each. A failure is undone for its letter alone.
async fn store_letters(
    conn: &mut SqliteConnection,
    letters: &mut [Waiting],
) -> std::result::Result<(), sqlx::Error> {
    if let [only] = letters {
        only.result = Some(guarded(store_alone(conn, only)).await);
        return Ok(());
    }
    sqlx::raw_sql("SAVEPOINT letters")
        .execute(&mut *conn)
        .await?;
    match guarded(store_together(conn, letters)).await {
        Ok(stored) => {
            for (letter, stored) in letters.iter_mut().zip(stored) {
                letter.result = stored.map(Ok);
            }
        }
        Err(error) => {
            tracing::warn!(%error, letters = letters.len(), "letters are stored one by one");
            sqlx::raw_sql("ROLLBACK TO letters")
                .execute(&mut *conn)
                .await?;
        }
    }
    for letter in letters.iter_mut().filter(|letter| letter.result.is_none()) {
        sqlx::raw_sql("SAVEPOINT letter")
            .execute(&mut *conn)
            .await?;
        let stored = guarded(store_alone(conn, letter)).await;
        let end = if stored.is_ok() {
            "RELEASE letter"
        } else {
            "ROLLBACK TO letter; RELEASE letter"
        };
        letter.result = Some(stored);
        sqlx::raw_sql(end).execute(&mut *conn).await?;
    }
    Ok(())
}

/// Catches a panic, so that a bug fails one letter and not the batch.
async fn guarded<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    AssertUnwindSafe(work)
        .catch_unwind()
        .await
        .unwrap_or_else(|_bug| {
            tracing::error!("storing a letter panicked and is undone");
            Err(StoreError::Closed)
        })
}

/// Stores the letters that are independent of each other; `None` for those to be stored alone.
async fn store_together(
    conn: &mut SqliteConnection,
    letters: &[Waiting],
) -> Result<Vec<Option<Vec<StoredInbound>>>> {
    let copies = letters
        .iter()
        .flat_map(|letter| letter.copies.iter().map(|copy| (copy, letter.now)));
    let asked = question(copies);
    let mut arrivals = arrivals(conn, asked).await?.into_iter();
    let mut taken = HashSet::new();
    let (mut rows, mut stored) = (Vec::new(), Vec::with_capacity(letters.len()));
    for letter in letters {
        let arrived: Vec<_> = letter.copies.iter().zip(arrivals.by_ref()).collect();
        let mut is_first = true;
        for (copy, arrival) in &arrived {
            for name in arrival.names(copy) {
                is_first &= taken.insert((&copy.persona, name));
            }
        }
        let is_plain = |(copy, arrival): &(&NewInbound, Arrival)| {
            copy.report.is_none() && copy.fetched_from.is_none() && arrival.linked.len() < 2
        };
        if !is_first || letter.releases.is_some() || !arrived.iter().all(is_plain) {
            stored.push(None);
            continue;
        }
        let arrived = arrived
            .into_iter()
            .map(|(copy, arrival)| match arrival.duplicate {
                Some(message) => StoredInbound::Duplicate { message },
                None => {
                    let found = arrival.found(copy);
                    rows.push(NewRow::new(copy, arrival.sent, found, letter.now));
                    rows[rows.len() - 1].stored()
                }
            });
        stored.push(Some(arrived.collect()));
    }
    insert(conn, &rows).await?;
    Ok(stored)
}

/// Stores the copies of one letter, one after the other.
async fn store_alone(conn: &mut SqliteConnection, letter: &Waiting) -> Stored {
    let mut stored = Vec::with_capacity(letter.copies.len());
    for copy in &letter.copies {
        let arrival = arrivals(conn, question([(copy, letter.now)].into_iter()))
            .await?
            .pop();
        let arrival = arrival.ok_or(StoreError::Unreadable {
            what: "arrival of a letter",
        })?;
        if let Some(message) = arrival.duplicate {
            stored.push(StoredInbound::Duplicate { message });
            continue;
        }
        let found = match arrival.linked.len() {
            0 | 1 => arrival.found(copy),
            _ => {
                let (stamp, today) = (copy.received_at.to_string(), since(letter.now, DAY));
                placement::find(conn, &placing_of(copy, (&stamp, &today)), &arrival.linked).await?
            }
        };
        let row = NewRow::new(copy, arrival.sent, found, letter.now);
        insert(conn, std::slice::from_ref(&row)).await?;
        if let Some(report) = &copy.report {
            reports::record(conn, &copy.persona, &copy.id, report, letter.now).await?;
        }
        stored.push(row.stored());
    }
    if let Some((copy, from)) = letter
        .copies
        .first()
        .and_then(|copy| Some((copy, copy.fetched_from.as_ref()?)))
    {
        mailboxes::note_taken(conn, from, &copy.sha256, letter.now).await?;
    }
    if let Some(held) = &letter.releases {
        held::release(conn, held).await?;
    }
    Ok(stored)
}

/// Result of [`ARRIVALS`] for one copy.
struct Arrival {
    duplicate: Option<MessageId>,
    /// Recent mails, without the thread's answers.
    sent: Sent,
    /// Conversations, oldest first.
    linked: Vec<String>,
    /// Thread to join, in the oldest of the conversations, with its answers.
    thread: Option<(String, i64)>,
}

impl Arrival {
    /// Returns every name by which another letter may depend on this letter.
    fn names(&self, copy: &NewInbound) -> HashSet<String> {
        let ids = copy
            .place
            .mentioned
            .iter()
            .chain([&copy.content.rfc_message_id, &copy.dedup_key]);
        ids.chain(&copy.also_known_as)
            .chain(&self.linked)
            .cloned()
            .collect()
    }

    fn found(&self, copy: &NewInbound) -> FoundThread {
        let conversation = self
            .linked
            .first()
            .map_or_else(|| copy.place.new_conversation.as_str(), String::as_str);
        FoundThread {
            conversation: conversation.to_owned(),
            thread: self.thread.clone(),
        }
    }
}

/// Returns the parameters of [`ARRIVALS`] for some copies: the copies, an hour ago and a day ago.
fn question<'a>(copies: impl Iterator<Item = (&'a NewInbound, Timestamp)>) -> [String; 3] {
    let mut now = Timestamp::from_millis(0);
    let asked = copies.map(|(copy, at)| {
        now = now.max(at);
        json!([
            copy.persona.as_str(),
            copy.place
                .mentioned
                .iter()
                .chain([&copy.content.rfc_message_id])
                .collect::<Vec<_>>(),
            copy.keys().collect::<Vec<_>>(),
            copy.duplicates_since.to_string(),
            u8::from(copy.has_own_id),
            copy.reply_limits
                .as_ref()
                .map(|reply_limits| reply_limits.counterparty.as_str()),
            copy.place.joins_as,
            copy.place.mentioned.last(),
            copy.place.joins_only.as_ref().map(|only| &only.all_of),
            copy.place.joins_only.as_ref().map(|only| &only.none_but),
            Account::of(copy.content.trust).thread_prefix(),
        ])
    });
    let asked = serde_json::Value::from_iter(asked).to_string();
    [asked, since(now, HOUR), since(now, DAY)]
}

/// Queries the facts of all copies at once.
async fn arrivals(
    conn: &mut SqliteConnection,
    [asked, hour_ago, day_ago]: [String; 3],
) -> Result<Vec<Arrival>> {
    let arrivals = sqlx::query(ARRIVALS)
        .bind(asked)
        .bind(hour_ago)
        .bind(day_ago);
    let rows = arrivals.fetch_all(conn).await?;
    let arrival = |row: &sqlx::sqlite::SqliteRow| {
        let thread = row
            .get::<Option<&str>, _>(4)
            .map(serde_json::from_str::<(String, i64)>)
            .transpose();
        Ok(Arrival {
            duplicate: row.get::<Option<String>, _>(0).map(MessageId::new),
            sent: Sent {
                in_hour: row.get(1),
                in_day: row.get(2),
                in_thread: 0,
            },
            linked: placement::conversations(row.get(3))?,
            thread: thread.map_err(|_| StoreError::Unreadable {
                what: "thread of a letter",
            })?,
        })
    };
    rows.iter().map(arrival).collect()
}

fn placing_of<'a>(copy: &'a NewInbound, times: (&'a str, &'a str)) -> Placing<'a> {
    placing(&copy.persona, &copy.place, &copy.content, times)
}

/// A copy to be stored, and its place.
struct NewRow<'a> {
    copy: &'a NewInbound,
    found: FoundThread,
    run: Option<&'a NewRun>,
    /// The limit by which the copy is filed.
    over: Option<Withheld>,
    /// `run` or `filed:<rule>`.
    disposition: String,
    now: Timestamp,
}

impl<'a> NewRow<'a> {
    /// Decides the disposition: a letter whose sender has reached a limit of answers is filed.
    fn new(copy: &'a NewInbound, sent: Sent, found: FoundThread, now: Timestamp) -> Self {
        let answers = found
            .thread
            .as_ref()
            .filter(|_| !copy.from_owner)
            .map_or(0, |(_, answers)| *answers);
        let sent = Sent {
            in_thread: answers,
            ..sent
        };
        let over = copy
            .reply_limits
            .as_ref()
            .and_then(|reply_limits| reply_limits.bounds.exceeded_by(sent.one_more()));
        let disposition =
            over.map_or_else(|| copy.disposition.clone(), |rule| format!("filed:{rule}"));
        Self {
            copy,
            found,
            run: copy.run.as_ref().filter(|_| over.is_none()),
            over,
            disposition,
            now,
        }
    }

    fn stored(&self) -> StoredInbound {
        StoredInbound::New {
            message: self.copy.id.clone(),
            run: self.run.map(|run| run.id.clone()),
            disposition: self.disposition.clone(),
        }
    }

    /// Binds all parameters of [`STORE_LETTER`], in order.
    fn bind<'q>(&'q self, query: Statement<'q>) -> Statement<'q> {
        let (copy, content) = (self.copy, &self.copy.content);
        let stamp = copy.received_at.to_string();
        let placing = placing_of(copy, ("", ""));
        let thread = self
            .found
            .thread
            .as_ref()
            .map_or(copy.place.new_thread.as_str(), |(thread, _)| thread);
        let query = query
            .bind(copy.id.as_str())
            .bind(thread.to_owned())
            .bind(copy.persona.as_str());
        let query = query
            .bind(&content.rfc_message_id)
            .bind(content.in_reply_to.as_deref());
        let query = query.bind(json_list(content.references.iter().map(String::as_str)));
        let query = query
            .bind(&content.sender)
            .bind(&content.recipients_json)
            .bind(&content.subject);
        let query = query
            .bind(&content.text_body)
            .bind(content.fresh_text.as_deref());
        let query = query
            .bind(content.html_body.as_deref())
            .bind(stamp)
            .bind(content.trust);
        let query = query
            .bind(copy.raw_id.as_str())
            .bind(&copy.dedup_key)
            .bind(copy.ack_confirmed);
        let query = query
            .bind(&self.disposition)
            .bind(&content.metadata_json)
            .bind(copy.hops);
        let query = query
            .bind(&copy.sha256)
            .bind(&copy.envelope_json)
            .bind(&copy.bytes[..])
            .bind(&copy.trace);
        let query = query
            .bind(&self.found.conversation)
            .bind(placing.ids())
            .bind(placing.root().to_owned());
        let query = query
            .bind(placing.joining(self.found.thread.is_some()))
            .bind(copy.place.replaces.as_deref());
        let query = query.bind(copy.from_owner.then(|| format!("thread:{thread}")));
        let query = query
            .bind(self.run.map(|run| run.id.as_str()))
            .bind(self.run.map(|run| run.trigger.as_str()));
        let query = query
            .bind(self.run.map(|run| run.profile.as_str()))
            .bind(self.now.to_string());
        let readers = copy.readers.as_ref();
        let readers = readers.map(|readers| json_list(readers.iter().map(String::as_str)));
        query
            .bind(self.run.and_then(|run| run.budget_micros))
            .bind(readers)
    }
}

type Statement<'q> = sqlx::query::Query<'q, sqlx::Sqlite, sqlx::sqlite::SqliteArguments>;

async fn insert(conn: &mut SqliteConnection, rows: &[NewRow<'_>]) -> Result<()> {
    for rows in rows.chunks(ROWS_MAX) {
        let insert = sqlx::query(STORE_LETTERS.text(rows.len()));
        rows.iter()
            .fold(insert, |insert, row| row.bind(insert))
            .execute(&mut *conn)
            .await?;
    }
    for row in rows {
        let copy = row.copy;
        for attachment in &copy.attachments {
            insert_attachment(conn, &copy.persona, &copy.id, attachment).await?;
        }
        if let (Some(rule), Some(reply_limits)) = (row.over, &copy.reply_limits) {
            let who = (reply_limits.counterparty.as_str(), rule);
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
