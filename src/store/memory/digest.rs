//! Digests of entries that wait: due, mailed, and answered by letters of owners.
//!
//! The address of an answer, its proof and its age are judged like those of an answer to a question (`approvals::answers`);
//! here stands what its lines do.

use super::change::{self, EntryVerdict};
use super::listing::SOURCES_OF_MEMORY;
use super::record::MemoryEntry;
use crate::domain::{MEMORY_TEXT_CHARS_MAX, MemoryStatus, MessageId, PersonaId, Timestamp};
use crate::store::approvals::mails::QuestionMail;
use crate::store::db::{self, Connection, Row, Scope};
use crate::store::notices::causes::insert_mail;
use crate::store::sql::persona_id;
use crate::store::{MemoryAct, Result, Store, StoreError};
use std::collections::BTreeMap;
use std::time::Duration;

/// Most entries of one digest.
const ENTRIES_MAX: i64 = 10;
/// Time after which a digest that nobody has answered makes room for the next.
const OPEN_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Digests that show an entry; one that nobody decides after that waits on the pages, and no mail comes because of it.
const SHOWN_MAX: i64 = 3;
/// Most explanations of one pass, and to one owner about one digest.
const PASS_MAX: i64 = 50;
const EXPLANATIONS_MAX: i64 = 3;

/// Personas with entries that have waited since before `$1` and some that fewer than `$3` digests have shown, whose last digest
/// is older, and none since `$2` is open with an entry that still waits.
const DIGESTS_DUE: &str = "
    SELECT m.persona_id FROM memory m WHERE m.status = 'proposed' GROUP BY m.persona_id
    HAVING min(m.created_at) <= $1
      AND min((SELECT count(*) FROM memory_digest_entries s WHERE s.memory_id = m.id)) < $3 AND NOT EXISTS (SELECT 1 FROM memory_digests d WHERE d.persona_id = m.persona_id
      AND (d.asked_at > $1 OR (d.closed_at IS NULL AND d.asked_at > $2 AND EXISTS (SELECT 1 FROM memory_digest_entries e
        JOIN memory w ON w.id = e.memory_id WHERE e.digest_id = d.id AND w.status = 'proposed'))))";
/// Those that no digest has shown come first, and of these what people wrote whom the owner knows.
const WAITING_MEMORY: &str = "
    SELECT m.*, (SELECT e.why FROM memory_events e WHERE e.memory_id = m.id ORDER BY e.seq LIMIT 1) AS why
    FROM memory m WHERE m.persona_id = $1 AND m.status = 'proposed'
    ORDER BY (SELECT count(*) FROM memory_digest_entries d WHERE d.memory_id = m.id),
      m.trust IN ('unknown', 'unauthenticated'), m.created_at LIMIT $2";
const REPLACED_MEMORY: &str = "
    SELECT m.* FROM memory_replaces r JOIN memory m ON m.id = r.replaced_id WHERE r.memory_id = $1 ORDER BY m.number";
const CLOSE_OPEN_DIGEST: &str =
    "UPDATE memory_digests SET closed_at = $2 WHERE persona_id = $1 AND closed_at IS NULL";
const CLOSE_EVERY_DIGEST: &str = "UPDATE memory_digests SET closed_at = $1 WHERE closed_at IS NULL";
/// Fenced: an engine that is gone asks nobody.
const INSERT_DIGEST: &str = "
    INSERT INTO memory_digests (id, persona_id, asked_at)
    SELECT $1, $2, $3 WHERE EXISTS (SELECT 1 FROM nodes WHERE epoch = $4)";
const INSERT_DIGEST_ENTRY: &str =
    "INSERT INTO memory_digest_entries (digest_id, place, memory_id) VALUES ($1, $2, $3)";
const INSERT_DIGEST_TOKEN: &str =
    "INSERT INTO answer_tokens (token, digest_id, owner, created_at) VALUES ($1, $2, $3, $4)";
const DIGEST_OF_TOKEN: &str = "
    SELECT t.digest_id, t.owner, d.closed_at IS NOT NULL AS is_closed
    FROM answer_tokens t JOIN memory_digests d ON d.id = t.digest_id WHERE t.token = $1";
const DIGEST_ENTRIES: &str = "
    SELECT e.place, m.id, m.status FROM memory_digest_entries e JOIN memory m ON m.id = e.memory_id
    WHERE e.digest_id = $1 ORDER BY e.place";
const CLOSE_DECIDED_DIGEST: &str = "
    UPDATE memory_digests SET closed_at = $2 WHERE id = $1 AND closed_at IS NULL AND NOT EXISTS (SELECT 1
      FROM memory_digest_entries e JOIN memory m ON m.id = e.memory_id WHERE e.digest_id = $1 AND m.status = 'proposed')";
const DIGEST_ANSWERS_TO_EXPLAIN: &str = "
    SELECT x.message_id, x.owner, x.outcome, x.report, m.message_id AS rfc_message_id, m.references_json, m.subject, d.persona_id,
      (SELECT count(*) FROM approval_answers o WHERE o.digest_id = x.digest_id AND o.owner = x.owner
        AND o.explained_at IS NOT NULL) >= $2 AS is_enough
    FROM approval_answers x JOIN memory_digests d ON d.id = x.digest_id JOIN messages m ON m.id = x.message_id
    WHERE x.explain = 1 AND x.explained_at IS NULL ORDER BY x.created_at LIMIT $1";

/// Entries of a persona that its owners are to be shown.
#[derive(Debug, Clone)]
pub struct DueDigest {
    pub persona: PersonaId,
    /// In the order of their numbers, which begin with 1.
    pub entries: Vec<DigestEntry>,
}

/// An entry that waits, with what its owner needs to decide.
#[derive(Debug, Clone)]
pub struct DigestEntry {
    pub entry: MemoryEntry,
    /// Words on which it rests.
    pub quotes: Vec<String>,
    /// Entries that it would replace or end.
    pub replaces: Vec<MemoryEntry>,
    /// Reason that its proposal gives; empty for an entry that a run remembered.
    pub why: String,
}

/// An answer to a digest that did not do all that it says.
#[derive(Debug, Clone)]
pub struct DigestExplanation {
    /// The answer.
    pub message: MessageId,
    pub owner: String,
    /// `not_understood`, `not_dated`, `not_by_mail`, `digest_closed`, `no_such_number`, `partly`.
    pub outcome: String,
    /// What became of single entries, a line each.
    pub report: String,
    pub rfc_message_id: String,
    /// References of the answer, oldest first.
    pub references: Vec<String>,
    pub subject: String,
    pub persona: PersonaId,
    /// `true`: the owner has had enough explanations of this digest.
    pub is_enough: bool,
}

/// Digest to which an address belongs.
pub struct DigestAddress {
    pub digest: String,
    pub owner: String,
    pub is_closed: bool,
}

/// Returns the digest to whose address an answer with this token came; `None`: it is no digest's.
pub async fn of_token(conn: &mut Connection, token: &str) -> Result<Option<DigestAddress>> {
    let row = conn.maybe_row(DIGEST_OF_TOKEN, token).await?;
    Ok(row.map(|row| DigestAddress {
        digest: row.get("digest_id"),
        owner: row.get("owner"),
        is_closed: row.get("is_closed"),
    }))
}

/// Closes every digest, such as those of a restored backup: what they show may have been decided since.
pub async fn close_all(conn: &mut Connection, now: Timestamp) -> Result<()> {
    conn.exec(CLOSE_EVERY_DIGEST, now).await?;
    Ok(())
}

/// Outcome of an answer: a word, and a line for each entry that stays as it was.
pub struct DigestOutcome {
    pub word: &'static str,
    pub report: Vec<String>,
}

impl Store {
    /// Returns the digests that are due: entries wait since `gathers` at least, and no digest of the persona is open.
    pub async fn due_digests(&self, gathers: Duration) -> Result<Vec<DueDigest>> {
        let now = self.clock().now();
        let mut digests = Vec::new();
        for row in self
            .rows(
                DIGESTS_DUE,
                (now.minus(gathers), now.minus(OPEN_MAX), SHOWN_MAX),
            )
            .await?
        {
            let persona = persona_id(&row)?;
            let entries = self.waiting_entries(&persona).await?;
            digests.push(DueDigest { persona, entries });
        }
        Ok(digests)
    }

    async fn waiting_entries(&self, persona: &PersonaId) -> Result<Vec<DigestEntry>> {
        let mut entries = Vec::new();
        for row in self.rows(WAITING_MEMORY, (persona, ENTRIES_MAX)).await? {
            let found: MemoryEntry = row.to()?;
            let quotes = self.rows(SOURCES_OF_MEMORY, &found.id).await?;
            let replaces = self.rows(REPLACED_MEMORY, &found.id).await?;
            entries.push(DigestEntry {
                quotes: quotes.iter().map(|row| row.get("quote")).collect(),
                replaces: replaces.iter().map(Row::to).collect::<Result<_>>()?,
                why: row.get::<Option<String>>("why").unwrap_or_default(),
                entry: found,
            });
        }
        Ok(entries)
    }

    /// Queues the mails of a digest and opens it, in the place of an earlier one; all or nothing.
    ///
    /// Errors: [`StoreError::WrongState`] when another engine asks.
    pub async fn open_digest(&self, digest: &DueDigest, mails: Vec<QuestionMail>) -> Result<()> {
        let (epoch, now, id) = (self.epoch(), self.clock().now(), self.clock().new_id());
        let persona = digest.persona.clone();
        let entries = digest.entries.iter().map(|shown| shown.entry.id.clone());
        let entries: Vec<String> = entries.collect();
        transact!(self, Scope::persona(&digest.persona), |conn| {
            let stamp = now.to_string();

            conn.exec(CLOSE_OPEN_DIGEST, (&persona, &stamp)).await?;
            let insert = conn
                .exec(INSERT_DIGEST, (&id, &persona, &stamp, epoch))
                .await?;
            if insert == 0 {
                return Err(asked_elsewhere(&id));
            }
            for (place, memory) in (1_i64..).zip(&entries) {
                conn.exec(INSERT_DIGEST_ENTRY, (&id, place, memory)).await?;
            }
            for mail in &mails {
                insert_mail(conn, &mail.mail, now).await?;

                conn.exec(INSERT_DIGEST_TOKEN, (&mail.token, &id, &mail.owner, now))
                    .await?;
            }
            Ok(())
        })
        .await
    }

    /// Returns the answers to digests whose owners are to be told what was not done.
    pub async fn digest_explanations(&self) -> Result<Vec<DigestExplanation>> {
        self.all(DIGEST_ANSWERS_TO_EXPLAIN, (PASS_MAX, EXPLANATIONS_MAX))
            .await
    }
}

fn asked_elsewhere(id: &str) -> StoreError {
    StoreError::WrongState {
        kind: "digest",
        id: id.to_owned(),
        state: "asked already".to_owned(),
        hint: "another engine asks",
    }
}

from_row!(|row| DigestExplanation {
    message: "message_id",
    owner: { row.get::<Option<String>>("owner").unwrap_or_default() },
    outcome,
    report,
    rfc_message_id,
    references: { serde_json::from_str(row.get("references_json")).unwrap_or_default() },
    subject,
    persona: "persona_id",
    is_enough
});

/// Carries out the decisions of an answer inside the transaction that stores its letter. An entry that somebody has decided
/// on since the digest was mailed stays as it is. `by`: the owner.
pub async fn decide(
    conn: &mut Connection,
    digest: &str,
    (verdicts, by): (&[EntryVerdict], &str),
    now: Timestamp,
) -> Result<DigestOutcome> {
    let rows = conn.rows(DIGEST_ENTRIES, digest).await?;
    let shown: BTreeMap<u32, (String, MemoryStatus)> =
        rows.iter().map(shown_entry).collect::<Result<_>>()?;
    let named = verdicts.iter().flat_map(|verdict| &verdict.places);
    if let Some(place) = named.copied().find(|place| !shown.contains_key(place)) {
        return Ok(DigestOutcome {
            word: "no_such_number",
            report: vec![format!("{place}: the list has no such number")],
        });
    }
    let mut report = Vec::new();
    for verdict in verdicts {
        let is_all = verdict.places.is_empty();
        for (place, (id, status)) in &shown {
            if !is_all && !verdict.places.contains(place) {
                continue;
            }
            if *status != MemoryStatus::Proposed {
                if !is_all {
                    report.push(format!("{place}: it is {status} already"));
                }
                continue;
            }
            let done = act(conn, id, verdict, by, now).await?;
            report.extend(done.map(|why| format!("{place}: {why}")));
        }
    }

    conn.exec(CLOSE_DECIDED_DIGEST, (digest, now)).await?;
    Ok(DigestOutcome {
        word: if report.is_empty() {
            "decided"
        } else {
            "partly"
        },
        report,
    })
}

fn shown_entry(row: &Row) -> Result<(u32, (String, MemoryStatus))> {
    let status = MemoryStatus::parse(row.get("status"));
    let status = status.ok_or(StoreError::Unreadable { what: "memory" })?;
    Ok((row.get("place"), (row.get("id"), status)))
}

/// Carries out one decision; returns why it was not done. What fails is undone and leaves the others.
async fn act(
    conn: &mut Connection,
    id: &str,
    verdict: &EntryVerdict,
    by: &str,
    now: Timestamp,
) -> Result<Option<String>> {
    if let MemoryAct::Edit { text } = &verdict.act {
        let chars = text.chars().count();
        if !(1..=MEMORY_TEXT_CHARS_MAX).contains(&chars) {
            return Ok(Some(format!(
                "the text has {chars} characters, and an entry has 1 to {MEMORY_TEXT_CHARS_MAX}"
            )));
        }
    }
    db::raw_sql("SAVEPOINT entry").execute(&mut *conn).await?;
    let changed = change::carry_out(conn, (id, &verdict.act, &verdict.new_id), by, now).await;
    let why = match changed {
        Ok(_id) => None,
        Err(StoreError::WrongState { hint, .. }) => Some(hint.to_owned()),
        Err(StoreError::MemoryFull) => {
            Some("there are as many entries as there may be; reject others first".to_owned())
        }
        Err(error) => return Err(error),
    };
    let end = match why {
        None => "RELEASE entry",
        Some(_) => "ROLLBACK TO entry; RELEASE entry",
    };
    db::raw_sql(end).execute(conn).await?;
    Ok(why)
}
