//! Outbound mail in delivery: tables `deliveries` and `delivery_recipients`, as the outbound worker
//! claims them. The outcomes of attempts are in `outcomes`.
//!
//! A row in `sending` or `committing` belongs to the engine whose epoch it carries; every change of
//! such a row is fenced by that epoch. Operators' changes of deliveries are in `outbox`.

use crate::clock::Clock;
use crate::domain::{Address, DeliveryId, MessageId, PersonaId, RunId, Timestamp, bounce_token};
use crate::store::db::{ArgumentList, Connection, QueuedWork, Row, Scope};
use crate::store::deliveries::delivery_state::{DeliveryKind, DeliveryState};
use crate::store::notices::events;
use crate::store::packing::{self, LETTERS};
use crate::store::sql::{instant, json_list, persona_id, to_i64};
use crate::store::writes::piggyback::PiggybackClaim;
use crate::store::{Result, Store, StoreError};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::time::Duration;

/// Longest time ahead for which a mail may be queued.
pub const SEND_LATER_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// Bytes that one claim may load into memory; a single larger mail is claimed alone.
const CLAIM_BYTES_MAX: i64 = 32 * 1024 * 1024;

/// A mail to be sent, as it is stored by the transaction that queues it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewDelivery {
    pub id: DeliveryId,
    /// The outbound message of this mail.
    pub message_id: MessageId,
    pub run_id: Option<RunId>,
    pub kind: DeliveryKind,
    /// Envelope sender; empty: the null reverse-path. An address from
    /// [`crate::domain::bounce_address`] is found again by its token.
    pub envelope_from: String,
    /// Envelope recipients, at least one.
    pub recipients: Vec<String>,
    /// Time for which it waits to be called back, in milliseconds.
    #[serde(default)]
    pub undo_ms: u64,
    /// Instant before which it does not leave; `None`: at once.
    #[serde(default)]
    pub not_before: Option<Timestamp>,
    /// Composed mail, frozen: every attempt sends exactly these bytes. Kept apart from the other fields.
    #[serde(skip)]
    pub bytes: Vec<u8>,
}

impl NewDelivery {
    /// Returns the instant of the first attempt. Its age counts from there, and so does the time until it is given up.
    fn first_attempt_at(&self, now: Timestamp) -> Timestamp {
        let undone_until = now.plus(Duration::from_millis(self.undo_ms));
        self.not_before
            .map_or(undone_until, |wanted| wanted.max(undone_until))
    }
}

/// A delivery that this engine has to send now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedDelivery {
    pub id: DeliveryId,
    pub persona: PersonaId,
    pub message_id: MessageId,
    pub run_id: Option<RunId>,
    pub kind: DeliveryKind,
    pub envelope_from: String,
    /// Recipients without a final verdict; never recipients that have the mail.
    pub recipients: Vec<String>,
    pub bytes: Vec<u8>,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// `true`: the peer may have the mail from an earlier attempt.
    pub possible_duplicate: bool,
    pub created_at: Timestamp,
}

/// Result of [`Store::recover_deliveries`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecoveredDeliveries {
    /// Deliveries queued again as if the attempt had not been made.
    pub unsent: u64,
    /// Deliveries queued again, or held, although the peer may have them.
    pub possible_duplicates: u64,
}

/// The persona is the message's, so that a delivery can never belong to another persona.
pub const INSERT: &str = "
INSERT INTO deliveries (id, persona_id, message_id, run_id, envelope_from, bytes, state, next_attempt_at, created_at,
  kind, bounce_token, size_bytes)
SELECT $1, persona_id, id, $3, $4, $5, 'queued', $6, $6, $8, $9, $10 FROM messages WHERE id = $2;
INSERT INTO delivery_recipients (delivery_id, recipient, state, next_attempt_at)
SELECT DISTINCT $1, value, 'queued', $6 FROM jsonb_each($7) WHERE EXISTS (SELECT 1 FROM deliveries WHERE id = $1 AND message_id = $2);
SELECT EXISTS (SELECT 1 FROM deliveries WHERE id = $1 AND message_id = $2) AS is_queued";

/// Queues a mail inside another transaction of the store.
///
/// Errors: [`StoreError::Missing`] when there is no such message.
pub async fn insert(conn: &mut Connection, delivery: &NewDelivery, now: Timestamp) -> Result<()> {
    let inserted = conn.row(INSERT, delivery_values(delivery, now)).await?;
    is_queued(conn, &inserted, delivery)
}

/// Returns the values of [`INSERT`].
pub fn delivery_values(delivery: &NewDelivery, now: Timestamp) -> impl ArgumentList {
    (
        &delivery.id,
        &delivery.message_id,
        &delivery.run_id,
        &delivery.envelope_from,
        LETTERS.pack(&delivery.bytes).into_owned(),
        delivery.first_attempt_at(now),
        json_list(delivery.recipients.iter()),
        &delivery.kind,
        Address::parse(&delivery.envelope_from)
            .ok()
            .as_ref()
            .and_then(bounce_token),
        i64::try_from(delivery.bytes.len()).unwrap_or(i64::MAX),
    )
}

/// Reads the result of [`INSERT`].
pub fn is_queued(conn: &mut Connection, inserted: &Row, delivery: &NewDelivery) -> Result<()> {
    conn.note_queued(QueuedWork::Mail);
    if inserted.try_get("is_queued")? {
        return Ok(());
    }
    Err(StoreError::missing("message", &delivery.message_id))
}

/// `state IN (…)` repeats the condition of the index `deliveries_open`, which SQLite uses only
/// then.
const CLAIM: &str = "
UPDATE deliveries SET state = 'sending', epoch = $1, attempts = attempts + 1
WHERE seq IN (
  SELECT seq FROM (
    SELECT seq, row_number() OVER due AS place, sum(size) OVER due AS total FROM (
      SELECT seq, next_attempt_at, size_bytes AS size FROM deliveries
      WHERE state IN ('queued', 'sending', 'committing') AND state = 'queued' AND next_attempt_at <= $2
        AND (kind = 'notice' OR NOT EXISTS (SELECT 1 FROM halts h WHERE h.persona_id IN ('', deliveries.persona_id)))
      ORDER BY next_attempt_at, seq LIMIT $3
    ) AS waiting WINDOW due AS (ORDER BY next_attempt_at, seq)
  ) AS placed WHERE place = 1 OR total <= $4
) AND state = 'queued'
RETURNING seq, id, persona_id, message_id, run_id, kind, envelope_from, bytes, attempts, possible_duplicate, created_at";

const OPEN_RECIPIENTS: &str = "
SELECT delivery_id, recipient FROM delivery_recipients
WHERE delivery_id IN (SELECT value FROM jsonb_each($1)) AND state IN ('queued', 'deferred')
ORDER BY delivery_id, recipient";

const RECOVER_SENDING: &str = "
UPDATE deliveries SET state = 'queued', next_attempt_at = $1, attempts = attempts - 1, state_at = $1
WHERE state IN ('queued', 'sending', 'committing') AND state = 'sending' AND epoch NOT IN (SELECT epoch FROM nodes)";

/// A mail that was in doubt before is held, whatever `$2` says.
const RECOVER_COMMITTING: &str = "
UPDATE deliveries SET state = CASE WHEN $2 = 1 OR possible_duplicate = 1 THEN 'held' ELSE 'queued' END,
  next_attempt_at = CASE WHEN $2 = 0 AND possible_duplicate = 0 THEN $1 END, possible_duplicate = 1, state_at = $1
WHERE state IN ('queued', 'sending', 'committing') AND state = 'committing' AND epoch NOT IN (SELECT epoch FROM nodes)
RETURNING id, state";

const NEXT_DUE: &str = "
SELECT next_attempt_at FROM deliveries
WHERE state IN ('queued', 'sending', 'committing') AND state = 'queued'
ORDER BY next_attempt_at, seq LIMIT 1";

/// Mails that expire in one transaction, each with an event for the owner.
const EXPIRED_AT_ONCE: u64 = 256;

const EXPIRE_RECIPIENTS: &str = "
UPDATE delivery_recipients SET state = 'failed', next_attempt_at = NULL,
  last_reply = substr('gave up: ' || coalesce(last_reply, 'the transport was not available'), 1, 500)
WHERE state IN ('queued', 'deferred') AND delivery_id IN (SELECT value FROM jsonb_each($1))";

const EXPIRE: &str = "
UPDATE deliveries SET state = 'failed', next_attempt_at = NULL, finished_at = $2
WHERE id IN (
  SELECT id FROM deliveries
  WHERE state IN ('queued', 'sending', 'committing') AND state = 'queued' AND created_at <= $1 LIMIT $3)
RETURNING id";

/// Queues deliveries of nodes that are gone; those that a peer may have are flagged, and wait for an operator with `hold`, and
/// when it is for the second time.
pub async fn requeue_deliveries(
    conn: &mut Connection,
    hold: bool,
    clock: &dyn Clock,
) -> Result<RecoveredDeliveries> {
    let now = clock.now().to_string();
    let unsent = conn.exec(RECOVER_SENDING, &now).await?;
    let doubtful = conn.rows(RECOVER_COMMITTING, (&now, hold)).await?;
    let is_held = |row: &&Row| row.get::<&str>("state") == DeliveryState::Held.as_str();
    for row in doubtful.iter().filter(is_held) {
        events::delivery_held(conn, row.get("id"), clock).await?;
    }
    Ok(RecoveredDeliveries {
        unsent,
        possible_duplicates: doubtful.len() as u64,
    })
}

impl Store {
    /// Claims up to `limit` queued deliveries that are due, oldest due first, and counts the
    /// attempt. The bytes of one claim are bounded, so fewer may be returned than are due.
    pub async fn claim_deliveries(
        &self,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<ClaimedDelivery>> {
        let (epoch, limit) = (self.epoch(), to_i64(limit));
        transact!(self, Scope::Claims, |conn| claim(conn, epoch, now, limit)
            .await)
        .await
    }

    /// Has deliveries claimed by the next transaction that queues one. `None` where each claim is a transaction of its own.
    pub fn claim_queued_deliveries(&self, limit: usize) -> Option<PiggybackClaim<ClaimedDelivery>> {
        let (epoch, limit, clock) = (self.epoch(), to_i64(limit), self.clock().clone());
        self.piggyback(QueuedWork::Mail, move |conn: &mut Connection| {
            Box::pin(async move { claim(conn, epoch, clock.now(), limit).await })
        })
    }

    /// Recovers the deliveries of an engine that is gone. Call once at start, before the first
    /// claim. With `hold`, a mail that a peer may have waits for an operator at the first doubt, else at the second.
    pub async fn recover_deliveries(&self, hold: bool) -> Result<RecoveredDeliveries> {
        let clock = self.clock().clone();
        transact!(self, Scope::Engine, |conn| requeue_deliveries(
            conn,
            hold,
            clock.as_ref()
        )
        .await)
        .await
    }

    /// Returns the instant at which the next queued delivery is due; `None` when none is queued.
    pub async fn next_delivery_due(&self) -> Result<Option<Timestamp>> {
        let due: Option<String> = self.maybe(NEXT_DUE, ()).await?;
        due.map(|text| instant(&text)).transpose()
    }

    /// Fails the queued deliveries that are at least `age` old, and returns their number. For the
    /// time in which no mail can be sent.
    ///
    /// The number per transaction is bounded, so that other writes wait for milliseconds;
    /// deliveries that failed before an error stay failed.
    pub async fn expire_deliveries(&self, age: Duration) -> Result<u64> {
        let oldest = self.clock().now().minus(age);
        let mut expired = 0;
        loop {
            let some = self.expire_some(oldest).await?;
            expired += some;
            if some < EXPIRED_AT_ONCE {
                return Ok(expired);
            }
        }
    }

    async fn expire_some(&self, oldest: Timestamp) -> Result<u64> {
        let clock = self.clock().clone();
        transact!(self, Scope::Engine, |conn| {
            let expired: Vec<String> = conn
                .all(EXPIRE, (oldest, clock.now(), EXPIRED_AT_ONCE.cast_signed()))
                .await?;
            let ids = json_list(expired.iter());
            conn.exec(EXPIRE_RECIPIENTS, ids).await?;
            for delivery in &expired {
                events::delivery_failed(conn, delivery, clock.as_ref()).await?;
            }
            Ok(expired.len() as u64)
        })
        .await
    }
}

async fn claim(
    conn: &mut Connection,
    epoch: i64,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<ClaimedDelivery>> {
    let rows = conn
        .rows(CLAIM, (epoch, now, limit, CLAIM_BYTES_MAX))
        .await?;
    let mut claimed = rows.iter().map(claimed).collect::<Result<Vec<_>>>()?;
    claimed.sort_by_key(|(seq, _)| *seq);
    let mut claimed: Vec<ClaimedDelivery> = claimed.into_iter().map(|(_, mail)| mail).collect();
    fill_recipients(conn, &mut claimed).await?;
    Ok(claimed)
}

pub fn kind(row: &Row) -> Result<DeliveryKind> {
    DeliveryKind::parse(row.try_get("kind")?).ok_or(StoreError::Unreadable {
        what: "delivery kind",
    })
}

fn claimed(row: &Row) -> Result<(i64, ClaimedDelivery)> {
    let created_at: String = row.try_get("created_at")?;
    let mail = ClaimedDelivery {
        id: DeliveryId::new(row.try_get::<String>("id")?),
        persona: persona_id(row)?,
        message_id: MessageId::new(row.try_get::<String>("message_id")?),
        run_id: row.try_get::<Option<String>>("run_id")?.map(RunId::new),
        kind: kind(row)?,
        envelope_from: row.try_get("envelope_from")?,
        recipients: Vec::new(),
        bytes: packing::bytes_of(row, "bytes")?,
        attempt: row.try_get("attempts")?,
        possible_duplicate: row.try_get("possible_duplicate")?,
        created_at: instant(&created_at)?,
    };
    Ok((row.try_get("seq")?, mail))
}

async fn fill_recipients(conn: &mut Connection, mails: &mut [ClaimedDelivery]) -> Result<()> {
    let ids: Vec<String> = mails.iter().map(|mail| mail.id.to_string()).collect();
    let rows = conn.rows(OPEN_RECIPIENTS, json_list(ids.iter())).await?;
    let mut open: HashMap<String, Vec<String>> = HashMap::new();
    for row in rows {
        open.entry(row.try_get("delivery_id")?)
            .or_default()
            .push(row.try_get("recipient")?);
    }
    for mail in mails {
        mail.recipients = open.remove(mail.id.as_str()).unwrap_or_default();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use std::sync::Arc;

    async fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::TempDir::new().expect("a folder");
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(0)));
        let store = Store::open(folder.path(), clock)
            .await
            .expect("the database opens");
        (folder, store)
    }

    fn new_delivery(message: &str) -> NewDelivery {
        NewDelivery {
            id: DeliveryId::new("d"),
            message_id: MessageId::new(message),
            run_id: Some(RunId::new("r")),
            kind: DeliveryKind::Mail,
            envelope_from: "ada@engine.test".to_owned(),
            recipients: ["a@b.test", "c@d.test", "a@b.test"]
                .map(str::to_owned)
                .to_vec(),
            undo_ms: 0,
            not_before: None,
            bytes: b"Subject: x\r\n\r\nhi\r\n".to_vec(),
        }
    }

    #[tokio::test]
    async fn a_delivery_belongs_to_its_messages_persona_and_is_due_now() {
        const ROWS: [&str; 3] = [
            "INSERT INTO conversations (id, persona_id, subject, created_at) VALUES ('c', 'ada', '', '')",
            "INSERT INTO threads (id, conversation_id, persona_id, subject, created_at, updated_at)
             VALUES ('t', 'c', 'ada', '', '', '')",
            "INSERT INTO messages (id, thread_id, persona_id, direction, message_id, sender, subject, text_body,
             received_at, trust) VALUES ('m', 't', 'ada', 'outbound', 'x', '', '', '', '', '')",
        ];
        let (_folder, store) = store().await;
        let now = Timestamp::from_millis(1000);
        let queued = transact!(store, Scope::Engine, |conn| {
            for row in ROWS {
                conn.exec(row, ()).await?;
            }
            insert(conn, &new_delivery("m"), now).await
        });
        queued.await.expect("the message is there");
        assert_eq!(store.next_delivery_due().await.expect("a read"), Some(now));
        let claimed = store.claim_deliveries(9, now).await.expect("a claim");
        assert_eq!(claimed.len(), 1);
        assert_eq!(
            (
                claimed[0].persona.as_str(),
                claimed[0].attempt,
                claimed[0].created_at
            ),
            ("ada", 1, now)
        );
        assert_eq!(claimed[0].recipients, ["a@b.test", "c@d.test"]);
        assert_eq!(claimed[0].bytes, new_delivery("m").bytes);

        let orphan = NewDelivery {
            id: DeliveryId::new("e"),
            ..new_delivery("n")
        };
        let orphan = transact!(store, Scope::Engine, |conn| insert(conn, &orphan, now)
            .await);
        assert!(matches!(
            orphan.await,
            Err(StoreError::Missing {
                kind: "message",
                ..
            })
        ));
    }

    #[tokio::test]
    async fn what_runs_every_second_uses_the_index_of_open_deliveries() {
        let (_folder, store) = store().await;
        for sql in [CLAIM, NEXT_DUE, RECOVER_SENDING, RECOVER_COMMITTING, EXPIRE] {
            let explain = crate::store::db::Sql::built(format!("EXPLAIN QUERY PLAN {sql}"));
            let plan = transact!(store, Scope::Rows, |conn| conn.rows(explain, ()).await);
            let plan: Vec<String> = plan
                .await
                .expect("a plan")
                .iter()
                .map(|row| row.get("detail"))
                .collect();
            assert!(
                plan.iter().any(|step| step.contains("deliveries_open")),
                "{sql}\n{plan:#?}"
            );
            let scans = plan
                .iter()
                .filter(|step| step.contains("SCAN deliveries") && !step.contains("USING"));
            assert_eq!(scans.count(), 0, "{sql}\n{plan:#?}");
        }
    }
}
