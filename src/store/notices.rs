//! What the owner is to be told: facts are raised where they happen, and told in mails that fold those of one cause.
//!
//! A fact is raised in the transaction that makes it true ([`raise`], or [`super::facts`] for what the store itself
//! sees), so that no crash can part the two. Telling is one transaction as well: message, delivery and the mark on the
//! facts that it tells. What a mail looks like is the affair of `gateway::notices`.

use super::deliveries::{self, NewDelivery, instant};
use super::messages::{self, Content, MessageRow, Place};
use super::runs::to_i64;
use super::{Result, Store, StoreError};
use crate::domain::{DeliveryId, MessageId, NoticeId, NoticeKind, NoticeSubject, PersonaId, Timestamp};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};
use std::time::Duration;

/// Characters of a summary or of a hint that are kept.
const TEXT_CHARS_MAX: usize = 2000;
/// Characters of somebody else's words that [`quoted`] lets through.
const QUOTE_CHARS_MAX: usize = 120;
/// Causes told in one look; the others wait for the next.
const CAUSES_MAX: i64 = 50;

/// A fact that the owner should know.
///
/// The same (kind, subject, occurrence) raised again is the same fact and is not stored twice. Facts of one kind, detail
/// and persona are one cause: they share a mail, and a cause has at most one mail an hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewNotice {
    pub id: NoticeId,
    /// Whose affair it is; `None`: the engine's own.
    pub persona: Option<PersonaId>,
    pub kind: NoticeKind,
    /// What tells causes of one kind apart, such as an error class or a host; may be empty.
    pub detail: String,
    pub subject: NoticeSubject,
    /// Its id: a run's, a delivery's, the name of a host or mailbox.
    pub subject_id: String,
    /// Tells two facts about one subject apart, such as the instant since when it is so; empty when there is only one.
    pub occurrence: String,
    /// What happened, as a sentence without full stop, with the ids. Nothing of a letter but its subject, and all foreign
    /// words through [`quoted`].
    pub summary: String,
    /// What the owner can do, with the exact commands; the same for all facts of a cause where possible.
    pub hint: String,
}

impl NewNotice {
    /// What is folded together: kind, detail and persona.
    pub fn cause(&self) -> String {
        let persona = self.persona.as_ref().map_or("", PersonaId::as_str);
        let parts = [self.kind.as_str(), &self.detail, persona];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(":")
    }
}

/// Somebody else's words, fit to stand in a notice: one line, bounded, and in backticks, between which neither Markdown
/// nor a terminal finds anything to interpret.
pub fn quoted(words: &str) -> String {
    let clean = words.replace('`', "'");
    let clean: String = clean.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let mut line = clean.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = line.char_indices().nth(QUOTE_CHARS_MAX) {
        line.truncate(end);
        line.push('…');
    }
    format!("`{line}`")
}

/// A stored fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub id: NoticeId,
    pub persona: Option<PersonaId>,
    pub kind: NoticeKind,
    pub cause: String,
    pub subject: NoticeSubject,
    pub subject_id: String,
    pub summary: String,
    pub hint: String,
    pub raised_at: Timestamp,
    pub told: Option<Told>,
}

impl Notice {
    /// What tells its cause apart from others of its kind, see [`NewNotice::detail`].
    pub fn detail(&self) -> &str {
        let tail = self.cause.strip_prefix(self.kind.as_str()).unwrap_or(&self.cause);
        let tail = match &self.persona {
            Some(persona) => tail.strip_suffix(persona.as_str()).unwrap_or(tail),
            None => tail,
        };
        tail.trim_matches(':')
    }
}

/// How a fact was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// When its mail was queued.
    pub at: Timestamp,
    pub delivery: DeliveryId,
}

/// What there is to tell of one cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untold {
    pub cause: String,
    /// The newest few, the newest first; never empty.
    pub newest: Vec<Notice>,
    /// All of them.
    pub count: u64,
    /// When the oldest was raised.
    pub since: Timestamp,
    /// The mail that told of this cause before.
    pub before: Option<EarlierMail>,
    through_seq: i64,
}

/// What a further mail of a cause answers, so that mail readers show them together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlierMail {
    pub rfc_message_id: String,
    /// Oldest first.
    pub references: Vec<String>,
    /// Who may read its thread now, in [`crate::domain::Address::key`] form.
    pub readers: Vec<String>,
}

/// A mail that tells what is untold of a cause.
#[derive(Debug, Clone)]
pub struct NoticeMail {
    /// In whose name it is sent and under whom it is stored.
    pub persona: PersonaId,
    pub id: MessageId,
    pub place: Place,
    pub content: Content,
    pub delivery: NewDelivery,
}

/// Facts of one cause that one mail tells, or that none tells yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeFold {
    pub cause: String,
    pub count: u64,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
    /// The newest of them.
    pub newest: NoticeId,
    pub summary: String,
    pub told: Option<Told>,
    /// How the mail fares, as the delivery's state spells it.
    pub delivery_state: Option<String>,
}

pub(super) const RAISE: &str = "
    INSERT INTO notices (id, persona_id, kind, cause, subject_kind, subject_id, occurrence, summary, hint, raised_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (kind, subject_id, occurrence) DO NOTHING";
/// A cause is due when its last mail is old enough and no longer on its way: while the way out is blocked, one waiting
/// mail says enough.
pub(super) const DUE_CAUSES: &str = "
    SELECT c.cause FROM (
      SELECT u.cause, min(u.seq) AS first,
        (SELECT t.seq FROM notices t WHERE t.cause = u.cause AND t.told_at IS NOT NULL
         ORDER BY t.told_at DESC LIMIT 1) AS last
      FROM notices u WHERE u.told_at IS NULL GROUP BY u.cause) c
    LEFT JOIN notices t ON t.seq = c.last LEFT JOIN deliveries d ON d.id = t.delivery_id
    WHERE c.last IS NULL OR (t.told_at <= $1 AND d.state NOT IN ('queued', 'sending', 'committing'))
    ORDER BY c.first LIMIT $2";
pub(super) const UNTOLD: &str = "
    SELECT n.*, count(*) OVER () AS untold, min(raised_at) OVER () AS since
    FROM notices n WHERE cause = $1 AND told_at IS NULL ORDER BY seq DESC LIMIT $2";
pub(super) const EARLIER_MAIL: &str = "
    SELECT m.message_id, m.references_json,
      (SELECT json_group_array(address) FROM thread_participants WHERE thread_id = m.thread_id) AS readers
    FROM notices n JOIN deliveries d ON d.id = n.delivery_id
    JOIN messages m ON m.id = d.message_id
    WHERE n.cause = $1 AND n.told_at IS NOT NULL ORDER BY n.told_at DESC LIMIT 1";
/// Fenced: an engine that was replaced tells nobody anything.
pub(super) const MARK_TOLD: &str = "
    UPDATE notices SET told_at = $3, delivery_id = $4
    WHERE cause = $1 AND seq <= $2 AND told_at IS NULL AND (SELECT epoch FROM engine WHERE id = 1) = $5";
pub(super) const FOLDS: &str = "
    SELECT n.cause, n.told_at, n.delivery_id, d.state, count(*) AS facts, min(n.raised_at) AS first_at,
      max(n.raised_at) AS last_at, max(n.seq) AS newest, n.id, n.summary
    FROM notices n LEFT JOIN deliveries d ON d.id = n.delivery_id
    GROUP BY n.cause, n.delivery_id ORDER BY newest DESC LIMIT $1";
pub(super) const NOTICE: &str = "SELECT * FROM notices WHERE id = $1";
pub(super) const NOTICES_OF_CAUSE: &str = "SELECT * FROM notices WHERE cause = $1 ORDER BY seq DESC LIMIT $2";
pub(super) const NOTICES_LIKE: &str =
    "SELECT id FROM notices WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3";
pub(super) const NOTICES_ENDING: &str =
    "SELECT id FROM notices WHERE substr(id, -length($1)) = $1 ORDER BY id DESC LIMIT $2";

/// Notes a fact inside the transaction that makes it true; false when it was noted before.
pub(super) async fn raise(conn: &mut SqliteConnection, new: &NewNotice, now: Timestamp) -> Result<bool> {
    let insert = sqlx::query(RAISE)
        .bind(new.id.as_str())
        .bind(new.persona.as_ref().map(PersonaId::as_str))
        .bind(new.kind.as_str())
        .bind(new.cause())
        .bind(new.subject.as_str())
        .bind(&new.subject_id)
        .bind(&new.occurrence)
        .bind(bounded(&new.summary))
        .bind(bounded(&new.hint))
        .bind(now.to_string());
    Ok(insert.execute(conn).await?.rows_affected() > 0)
}

fn bounded(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

impl Store {
    /// Notes a fact that no other transaction makes true, such as a refused login; false when it was noted before.
    pub async fn raise_notice(&self, new: NewNotice) -> Result<bool> {
        let now = self.clock().now();
        self.write(move |conn| Box::pin(async move { raise(conn, &new, now).await })).await
    }

    /// Causes with something to tell whose last mail is `interval` old or older and has left the outbox, each with its
    /// newest `spelled_out` facts.
    pub async fn untold_notices(&self, interval: Duration, spelled_out: u32) -> Result<Vec<Untold>> {
        let told_before = self.clock().now().minus(interval).to_string();
        let mut conn = self.readers().acquire().await?;
        let causes = sqlx::query_scalar(DUE_CAUSES).bind(told_before).bind(CAUSES_MAX);
        let causes: Vec<String> = causes.fetch_all(&mut *conn).await?;
        let mut due = Vec::with_capacity(causes.len());
        for cause in causes {
            let rows =
                sqlx::query(UNTOLD).bind(&cause).bind(spelled_out.max(1)).fetch_all(&mut *conn).await?;
            // Somebody else told it meanwhile.
            let Some(newest) = rows.first() else { continue };
            let before = sqlx::query(EARLIER_MAIL).bind(&cause).fetch_optional(&mut *conn).await?;
            due.push(Untold {
                newest: rows.iter().map(notice).collect::<Result<_>>()?,
                count: newest.get::<i64, _>("untold").unsigned_abs(),
                since: instant(newest.get("since"))?,
                before: before.as_ref().map(earlier_mail).transpose()?,
                through_seq: newest.get("seq"),
                cause,
            });
        }
        Ok(due)
    }

    /// Stores the mail, queues it, and marks the facts that it tells, all or nothing.
    ///
    /// Errors: [`StoreError::WrongState`] when some of them are told already; nothing is stored then.
    pub async fn tell_notices(&self, untold: &Untold, mail: NoticeMail) -> Result<()> {
        let (epoch, now) = (self.epoch(), self.clock().now());
        let (cause, through, count) = (untold.cause.clone(), untold.through_seq, untold.count);
        self.write(move |conn| {
            Box::pin(async move {
                insert_mail(conn, &mail, now).await?;
                let mark = sqlx::query(MARK_TOLD).bind(&cause).bind(through).bind(now.to_string());
                let mark = mark.bind(mail.delivery.id.as_str()).bind(epoch);
                if mark.execute(conn).await?.rows_affected() == count {
                    return Ok(());
                }
                Err(StoreError::WrongState {
                    kind: "notice",
                    id: cause,
                    state: "told already".to_owned(),
                    hint: "another engine tells it",
                })
            })
        })
        .await
    }

    /// Facts as their mails fold them, the newest first.
    pub async fn list_notices(&self, limit: u32) -> Result<Vec<NoticeFold>> {
        let rows = sqlx::query(FOLDS).bind(limit).fetch_all(self.readers()).await?;
        rows.iter().map(fold).collect()
    }

    /// The newest facts of a cause; empty when there is no such cause.
    pub async fn notices_of_cause(&self, cause: &str, limit: usize) -> Result<Vec<Notice>> {
        let rows = sqlx::query(NOTICES_OF_CAUSE).bind(cause).bind(to_i64(limit));
        rows.fetch_all(self.readers()).await?.iter().map(notice).collect()
    }

    /// The notice whose id is `piece`, or the only one that begins or else ends with it.
    ///
    /// Errors: [`StoreError::Missing`], [`StoreError::Ambiguous`].
    pub async fn find_notice(&self, piece: &str) -> Result<Notice> {
        let id = self.find("notice", (NOTICES_LIKE, NOTICES_ENDING), piece).await?;
        let row = sqlx::query(NOTICE).bind(&id).fetch_optional(self.readers()).await?;
        notice(&row.ok_or(StoreError::Missing { kind: "notice", id })?)
    }
}

async fn insert_mail(conn: &mut SqliteConnection, mail: &NoticeMail, now: Timestamp) -> Result<()> {
    let thread = messages::place_message(conn, &mail.persona, &mail.place, &mail.content, now).await?;
    let row = MessageRow {
        id: &mail.id,
        thread: Some(&thread),
        persona: &mail.persona,
        direction: "outbound",
        content: &mail.content,
        raw: None,
        run: None,
        dedup_key: None,
        ack_confirmed: true,
        hops: 0,
        disposition: "notice",
        joining: &[],
    };
    messages::insert_message(conn, &row, now).await?;
    deliveries::insert(conn, &mail.delivery, now).await
}

fn notice(row: &SqliteRow) -> Result<Notice> {
    let unreadable = |what| move || StoreError::Unreadable { what };
    let persona = row.get::<Option<String>, _>("persona_id").map(|id| PersonaId::parse(&id)).transpose();
    Ok(Notice {
        id: NoticeId::new(row.get::<String, _>("id")),
        persona: persona.map_err(|_| StoreError::Unreadable { what: "persona id" })?,
        kind: NoticeKind::parse(row.get("kind")).ok_or_else(unreadable("kind of a notice"))?,
        cause: row.get("cause"),
        subject: NoticeSubject::parse(row.get("subject_kind"))
            .ok_or_else(unreadable("subject of a notice"))?,
        subject_id: row.get("subject_id"),
        summary: row.get("summary"),
        hint: row.get("hint"),
        raised_at: instant(row.get("raised_at"))?,
        told: told(row)?,
    })
}

fn told(row: &SqliteRow) -> Result<Option<Told>> {
    match (row.get::<Option<String>, _>("told_at"), row.get::<Option<String>, _>("delivery_id")) {
        (Some(at), Some(delivery)) => {
            Ok(Some(Told { at: instant(&at)?, delivery: DeliveryId::new(delivery) }))
        }
        _ => Ok(None),
    }
}

fn earlier_mail(row: &SqliteRow) -> Result<EarlierMail> {
    let list = |column| serde_json::from_str(row.get(column));
    Ok(EarlierMail {
        rfc_message_id: row.get("message_id"),
        references: list("references_json").map_err(|_| StoreError::Unreadable { what: "references" })?,
        readers: list("readers").map_err(|_| StoreError::Unreadable { what: "participants" })?,
    })
}

fn fold(row: &SqliteRow) -> Result<NoticeFold> {
    Ok(NoticeFold {
        cause: row.get("cause"),
        count: row.get::<i64, _>("facts").unsigned_abs(),
        first_at: instant(row.get("first_at"))?,
        last_at: instant(row.get("last_at"))?,
        newest: NoticeId::new(row.get::<String, _>("id")),
        summary: row.get("summary"),
        told: told(row)?,
        delivery_state: row.get("state"),
    })
}
