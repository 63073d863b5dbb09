//! Notices to the owner: events are emitted where they happen, and mailed together with others of
//! the same cause.
//!
//! An event is emitted in the transaction that makes it true ([`emit`], or [`super::events`] for
//! events that the store itself detects), so that no crash can separate the two. Notifying is one
//! transaction as well: message, delivery and the mark on the events. The text of a mail is written
//! by `gateway::notices`.

use crate::domain::{
    DeliveryId, MessageId, NoticeId, NoticeKind, NoticeSubject, PersonaId, Timestamp,
};
use crate::store::db::{self, Connection, Row, Scope};
use crate::store::deliveries::queue::{self as deliveries, NewDelivery};
use crate::store::list_page::known;
use crate::store::mail::audit_log::audit;
use crate::store::mail::messages::{self, Content, MessageRow};
use crate::store::notices::emit::{NewNotice, emit};
use crate::store::sql::instant;
use crate::store::threads::place::Place;
use crate::store::threads::placement;
use crate::store::{ListPage, Result, Store, StoreError};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::time::Duration;

/// Most causes that are notified in one pass; the others wait for the next.
const CAUSES_MAX: i64 = 50;

/// A stored event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Notice {
    pub id: NoticeId,
    pub cause: String,
    pub kind: NoticeKind,
    pub persona: Option<PersonaId>,
    pub subject: NoticeAbout,
    pub summary: String,
    pub hint: String,
    pub emitted_at: Timestamp,
    #[serde(flatten, serialize_with = "notified_columns")]
    #[schemars(with = "NotifiedColumns")]
    pub notified: Option<Notified>,
}

/// Subject of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NoticeAbout {
    pub kind: NoticeSubject,
    /// Id of a run, of a delivery, the name of a host or mailbox.
    pub id: String,
}

impl Notice {
    /// Returns the detail of its cause, see [`NewNotice::detail`].
    pub fn detail(&self) -> &str {
        let tail = self
            .cause
            .strip_prefix(self.kind.as_str())
            .unwrap_or(&self.cause);
        let tail = match &self.persona {
            Some(persona) => tail.strip_suffix(persona.as_str()).unwrap_or(tail),
            None => tail,
        };
        tail.trim_matches(':')
    }
}

/// Notification of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notified {
    /// Instant at which its mail was queued.
    pub at: Timestamp,
    pub delivery: DeliveryId,
}

/// Members of an event that say when it was notified, and by which mail; null while it is pending.
#[derive(Serialize, JsonSchema)]
struct NotifiedColumns {
    notified_at: Option<Timestamp>,
    delivery: Option<DeliveryId>,
}

fn notified_columns<S: Serializer>(
    notified: &Option<Notified>,
    to: S,
) -> std::result::Result<S::Ok, S::Error> {
    let notified = notified.as_ref();
    let columns = NotifiedColumns {
        notified_at: notified.map(|notified| notified.at),
        delivery: notified.map(|notified| notified.delivery.clone()),
    };
    columns.serialize(to)
}

/// Pending events of one cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingNotices {
    pub cause: String,
    /// The newest events, the newest first; never empty.
    pub newest: Vec<Notice>,
    /// Number of all pending events of the cause.
    pub count: u64,
    /// Instant at which the oldest pending event was emitted.
    pub since: Timestamp,
    /// The previous mail of this cause.
    pub before: Option<EarlierMail>,
    through_seq: i64,
}

/// The mail that a further mail of a cause replies to, so that mail readers show them together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlierMail {
    pub rfc_message_id: String,
    /// References of that mail, oldest first.
    pub references: Vec<String>,
    /// Addresses that may read its thread now, in [`crate::domain::Address::key`] form.
    pub readers: Vec<String>,
}

/// A mail that reports the pending events of a cause.
#[derive(Debug, Clone)]
pub struct NoticeMail {
    /// Persona that sends the mail and owns its rows.
    pub persona: PersonaId,
    pub id: MessageId,
    pub place: Place,
    pub content: Content,
    pub delivery: NewDelivery,
}

/// Events of one cause that one mail reports, or that are still pending.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NoticeFold {
    pub cause: String,
    pub count: u64,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
    #[serde(flatten, serialize_with = "notified_columns")]
    #[schemars(with = "NotifiedColumns")]
    pub notified: Option<Notified>,
    /// State of the mail's delivery, in its spelling.
    pub delivery_state: Option<String>,
    /// The newest of these events.
    pub newest: NoticeId,
    pub summary: String,
    /// When an owner dismissed the newest; a later event of the cause is shown again.
    pub dismissed_at: Option<Timestamp>,
}

/// A cause is due when its last mail is old enough and no longer in the outbox: while outbound mail
/// is blocked, one waiting mail is enough.
const DUE_CAUSES: &str = "
    SELECT c.cause FROM (
      SELECT u.cause, min(u.seq) AS first,
        (SELECT t.seq FROM notices t WHERE t.cause = u.cause AND t.notified_at IS NOT NULL
         ORDER BY t.notified_at DESC LIMIT 1) AS last
      FROM notices u WHERE u.notified_at IS NULL GROUP BY u.cause) c
    LEFT JOIN notices t ON t.seq = c.last LEFT JOIN deliveries d ON d.id = t.delivery_id
    WHERE c.last IS NULL OR (t.notified_at <= $1 AND d.state NOT IN ('queued', 'sending', 'committing'))
    ORDER BY c.first LIMIT $2";
const PENDING: &str = "
    SELECT n.*, count(*) OVER () AS pending, min(emitted_at) OVER () AS since
    FROM notices n WHERE cause = $1 AND notified_at IS NULL ORDER BY seq DESC LIMIT $2";
const EARLIER_MAIL: &str = "
    SELECT m.message_id, m.references_json,
      (SELECT json_group_array(address) FROM thread_participants WHERE thread_id = m.thread_id) AS readers
    FROM notices n JOIN deliveries d ON d.id = n.delivery_id
    JOIN messages m ON m.id = d.message_id
    WHERE n.cause = $1 AND n.notified_at IS NOT NULL ORDER BY n.notified_at DESC LIMIT 1";
/// Fenced: an engine that is gone notifies no owner.
const MARK_NOTIFIED: &str = "
    UPDATE notices SET notified_at = $3, delivery_id = $4
    WHERE cause = $1 AND seq <= $2 AND notified_at IS NULL AND EXISTS (SELECT 1 FROM nodes WHERE epoch = $5)";
const FOLDS: &str = "
    SELECT g.cause, n.notified_at, g.delivery_id, d.state, g.facts, g.first_at, g.last_at, g.newest, n.id, n.summary, n.dismissed_at
    FROM (SELECT cause, delivery_id, count(*) AS facts, min(emitted_at) AS first_at, max(emitted_at) AS last_at,
        max(seq) AS newest FROM notices
      GROUP BY cause, delivery_id HAVING max(seq) < $2 ORDER BY newest DESC LIMIT $1) g
    JOIN notices n ON n.seq = g.newest LEFT JOIN deliveries d ON d.id = g.delivery_id ORDER BY g.newest DESC";
const DISMISS_CAUSE: &str =
    "UPDATE notices SET dismissed_at = $2 WHERE cause = $1 AND dismissed_at IS NULL";
const SEQ_OF_NOTICE: &str = "SELECT seq FROM notices WHERE id = $1";
const NOTICE: &str = "SELECT * FROM notices WHERE id = $1";
const NOTICES_OF_CAUSE: &str = "SELECT * FROM notices WHERE cause = $1 ORDER BY seq DESC LIMIT $2";
const NOTICES_LIKE: &str = "SELECT id FROM notices WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3";
const NOTICES_ENDING: &str = "SELECT id FROM notices WHERE substr(id, length(id) - length($1) + 1) = $1 ORDER BY id DESC LIMIT $2";

impl Store {
    /// Stores an event that no other transaction makes true, such as a refused login; `false` when
    /// it was stored before.
    pub async fn emit_notice(&self, new: NewNotice) -> Result<bool> {
        let now = self.clock().now();
        transact!(self, Scope::Engine, |conn| emit(conn, &new, now).await).await
    }

    /// Returns causes with pending events whose last mail is at least `interval` old and has left
    /// the outbox, each with its newest `spelled_out` events.
    pub async fn pending_notices(
        &self,
        interval: Duration,
        listed_max: u32,
    ) -> Result<Vec<PendingNotices>> {
        let notified_before = self.clock().now().minus(interval).to_string();
        let mut conn = self.readers().acquire().await?;
        let causes: Vec<String> = conn.all(DUE_CAUSES, (notified_before, CAUSES_MAX)).await?;
        let mut due = Vec::with_capacity(causes.len());
        for cause in causes {
            let rows = db::query(PENDING)
                .bind((&cause, listed_max.max(1)))
                .rows(&mut conn)
                .await?;
            // Another process notified the owner meanwhile.
            let Some(newest) = rows.first() else { continue };
            let before = conn.maybe_row(EARLIER_MAIL, &cause).await?;
            due.push(PendingNotices {
                newest: rows.iter().map(Row::to).collect::<Result<_>>()?,
                count: newest.get::<i64>("pending").unsigned_abs(),
                since: instant(newest.get("since"))?,
                before: before.as_ref().map(Row::to).transpose()?,
                through_seq: newest.get("seq"),
                cause,
            });
        }
        Ok(due)
    }

    /// Stores the mail, queues it, and marks the events that it reports, all or nothing.
    ///
    /// Errors: [`StoreError::WrongState`] when some of them are notified already; nothing is stored
    /// then.
    pub async fn tell_notices(&self, pending: &PendingNotices, mail: NoticeMail) -> Result<()> {
        let (epoch, now) = (self.epoch(), self.clock().now());
        let (cause, through, count) = (pending.cause.clone(), pending.through_seq, pending.count);
        transact!(self, Scope::Engine, |conn| {
            insert_mail(conn, &mail, now).await?;
            if conn
                .exec(
                    MARK_NOTIFIED,
                    (&cause, through, now, &mail.delivery.id, epoch),
                )
                .await?
                == count
            {
                return Ok(());
            }
            Err(StoreError::WrongState {
                kind: "notice",
                id: cause,
                state: "told already".to_owned(),
                hint: "another engine tells it",
            })
        })
        .await
    }

    /// Returns events folded by mail, the newest first.
    pub async fn list_notices(&self, page: ListPage<'_>) -> Result<Vec<NoticeFold>> {
        let before: Option<i64> = self.maybe(SEQ_OF_NOTICE, page.after).await?;
        self.all(
            FOLDS,
            (page.limit, known(page.after, before)?.unwrap_or(i64::MAX)),
        )
        .await
    }

    /// Takes a cause off the owner's page until it happens again.
    pub async fn dismiss_notices(&self, newest: &Notice) -> Result<()> {
        let (cause, now) = (newest.cause.clone(), self.clock().now());
        let (persona, id) = (newest.persona.clone(), newest.id.clone());
        transact!(self, Scope::Engine, |conn| {
            conn.exec(DISMISS_CAUSE, (&cause, now)).await?;
            let subject = ("notice", id.as_str());
            audit(conn, persona.as_ref(), subject, "dismiss:operator", now).await
        })
        .await
    }

    /// Returns the newest events of a cause; empty when there is no such cause.
    pub async fn notices_of_cause(&self, cause: &str, limit: usize) -> Result<Vec<Notice>> {
        self.all(NOTICES_OF_CAUSE, (cause, limit)).await
    }

    /// Finds the notice whose id is `piece`, or the only notice whose id begins or else ends with
    /// it.
    ///
    /// Errors: [`StoreError::Missing`], [`StoreError::Ambiguous`].
    pub async fn find_notice(&self, piece: &str) -> Result<Notice> {
        let id = self
            .find("notice", (NOTICES_LIKE, NOTICES_ENDING), piece)
            .await?;
        let notice = self.maybe(NOTICE, &id).await?;
        notice.ok_or(StoreError::Missing { kind: "notice", id })
    }
}

/// Stores a mail to the owners and queues its delivery inside the caller's transaction.
pub async fn insert_mail(conn: &mut Connection, mail: &NoticeMail, now: Timestamp) -> Result<()> {
    let thread =
        placement::place_message(conn, &mail.persona, &mail.place, &mail.content, now).await?;
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

from_row!(|row| Notice {
    id,
    persona: "persona_id",
    kind,
    cause,
    subject: { row.to()? },
    summary,
    hint,
    emitted_at,
    notified: { notified(row)? }
});

from_row!(NoticeAbout {
    kind: "subject_kind",
    id: "subject_id"
});

fn notified(row: &Row) -> Result<Option<Notified>> {
    let at: Option<Timestamp> = row.try_get("notified_at")?;
    let delivery: Option<DeliveryId> = row.try_get("delivery_id")?;
    Ok(at
        .zip(delivery)
        .map(|(at, delivery)| Notified { at, delivery }))
}

from_row!(|row| EarlierMail {
    rfc_message_id: "message_id",
    references: { row.json("references_json", "references")? },
    readers: { row.json("readers", "participants")? }
});

from_row!(|row| NoticeFold {
    cause,
    count: "facts",
    first_at: { instant(row.get("first_at"))? },
    last_at: { instant(row.get("last_at"))? },
    newest: "id",
    summary,
    notified: { notified(row)? },
    delivery_state: "state",
    dismissed_at: {
        row.get::<Option<String>>("dismissed_at")
            .map(|at| instant(&at))
            .transpose()?
    }
});
