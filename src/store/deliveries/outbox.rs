//! The outbox for operators: listings, one delivery in full, and changes by hand.

use crate::domain::{DeliveryId, MessageId, PersonaId, RunId, Timestamp};
use crate::store::db::{Connection, Scope};
use crate::store::deliveries::delivery_state::{DeliveryKind, DeliveryState, RecipientState};
use crate::store::list_page::known;
use crate::store::packing;
use crate::store::sql::json_list;
use crate::store::{PersonaStore, Result, Store, StoreError};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;

/// Filter of a listing of deliveries.
#[derive(Debug, Clone, Default)]
pub struct DeliveryFilter {
    /// Empty: every state.
    pub states: Vec<DeliveryState>,
    pub persona: Option<PersonaId>,
    /// Only mails older than this one.
    pub after: Option<DeliveryId>,
    /// Most deliveries to return, the newest first.
    pub limit: u32,
}

/// A delivery without its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Delivery {
    pub id: DeliveryId,
    pub persona: PersonaId,
    pub message_id: MessageId,
    pub run_id: Option<RunId>,
    pub kind: DeliveryKind,
    /// Envelope sender; empty: the null reverse-path.
    pub envelope_from: String,
    pub subject: String,
    pub size_bytes: u64,
    pub state: DeliveryState,
    pub attempts: u32,
    /// Instant of the next attempt; `None` unless queued.
    pub next_attempt_at: Option<Timestamp>,
    /// `true`: a recipient may have the mail twice.
    pub possible_duplicate: bool,
    /// Instant from which it may leave: when it was queued, or later by `undo` or a wish.
    pub created_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    pub recipients: Vec<DeliveryRecipient>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DeliveryRecipient {
    pub recipient: String,
    pub state: RecipientState,
    pub attempts: u32,
    pub next_attempt_at: Option<Timestamp>,
    pub last_code: Option<u16>,
    pub last_reply: Option<String>,
    /// Instant at which a report failed the recipient after the mail was handed over.
    pub bounced_at: Option<Timestamp>,
}

/// A delivery with the bytes that every attempt sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrozenDelivery {
    pub delivery: Delivery,
    pub bytes: Vec<u8>,
}

const LIST: &str = "
SELECT d.id, d.persona_id, d.message_id, d.run_id, d.kind, d.envelope_from, m.subject, d.size_bytes, d.state,
       d.attempts, d.next_attempt_at, d.possible_duplicate, d.created_at, d.finished_at
FROM deliveries AS d JOIN messages AS m ON m.id = d.message_id
WHERE ($1 IS NULL OR d.persona_id = $1)
  AND (json_array_length($2) = 0 OR d.state IN (SELECT value FROM jsonb_each($2)))
  AND d.seq < $4
ORDER BY d.seq DESC LIMIT $3";

const SEQ_OF: &str = "SELECT seq FROM deliveries WHERE id = $1";

const ONE: &str = "
SELECT d.id, d.persona_id, d.message_id, d.run_id, d.kind, d.envelope_from, m.subject, d.size_bytes, d.state,
       d.attempts, d.next_attempt_at, d.possible_duplicate, d.created_at, d.finished_at, d.bytes
FROM deliveries AS d JOIN messages AS m ON m.id = d.message_id
WHERE d.id = $1";

const OF_RUN: &str = "
SELECT d.id, d.persona_id, d.message_id, d.run_id, d.kind, d.envelope_from, m.subject, d.size_bytes, d.state,
       d.attempts, d.next_attempt_at, d.possible_duplicate, d.created_at, d.finished_at, d.bytes
FROM deliveries AS d JOIN messages AS m ON m.id = d.message_id
WHERE d.run_id = $1 AND d.persona_id = $2
ORDER BY d.seq";

const OF_MESSAGE: &str = "
SELECT d.id, d.persona_id, d.message_id, d.run_id, d.kind, d.envelope_from, m.subject, d.size_bytes, d.state,
       d.attempts, d.next_attempt_at, d.possible_duplicate, d.created_at, d.finished_at, d.bytes
FROM deliveries AS d JOIN messages AS m ON m.id = d.message_id
WHERE d.message_id = $1
ORDER BY d.seq DESC LIMIT 1";

const RECIPIENTS: &str = "
SELECT delivery_id, recipient, state, attempts, next_attempt_at, last_code, last_reply, bounced_at
FROM delivery_recipients WHERE delivery_id IN (SELECT value FROM jsonb_each($1))
ORDER BY delivery_id, recipient";

const STATE: &str = "SELECT state FROM deliveries WHERE id = $1";

const RETRY: &str = "
UPDATE deliveries SET state = 'queued', next_attempt_at = $2, finished_at = NULL, state_at = $2
WHERE id = $1 AND state IN ('failed', 'held', 'queued') AND pruned_at IS NULL";

const RETRY_RECIPIENTS: &str = "
UPDATE delivery_recipients SET state = 'queued', next_attempt_at = $2, bounced_at = NULL
WHERE delivery_id = $1 AND state IN ('failed', 'deferred', 'queued')";

const RETRY_ALL: &str = "
UPDATE deliveries SET state = 'queued', next_attempt_at = $2, finished_at = NULL, state_at = $2
WHERE state = $1 AND pruned_at IS NULL RETURNING id";

const CANCEL: &str = "
UPDATE deliveries SET state = 'cancelled', next_attempt_at = NULL, finished_at = $2
WHERE id = $1 AND state IN ('queued', 'held')";

const CANCEL_RECIPIENTS: &str = "
UPDATE delivery_recipients SET state = 'cancelled', next_attempt_at = NULL
WHERE delivery_id = $1 AND state IN ('queued', 'deferred')";

const HOLD: &str = "
UPDATE deliveries SET state = 'held', next_attempt_at = NULL, state_at = $2 WHERE id = $1 AND state = 'queued'";

impl Store {
    /// Returns deliveries, the newest first.
    pub async fn list_deliveries(&self, filter: &DeliveryFilter) -> Result<Vec<Delivery>> {
        let states = json_list(filter.states.iter().map(|state| state.as_str()));
        let mut conn = self.readers().acquire().await?;
        let after = filter.after.as_ref().map(DeliveryId::as_str);
        let before: Option<i64> = conn.maybe(SEQ_OF, after).await?;
        let mut deliveries = conn
            .all(
                LIST,
                (
                    &filter.persona,
                    states,
                    filter.limit,
                    known(after, before)?.unwrap_or(i64::MAX),
                ),
            )
            .await?;
        fill_recipients(&mut conn, deliveries.iter_mut()).await?;
        Ok(deliveries)
    }

    /// Returns one delivery with its bytes. Errors: [`StoreError::Missing`].
    pub async fn delivery(&self, id: &DeliveryId) -> Result<FrozenDelivery> {
        let found = self.frozen(ONE, id.as_str()).await?;
        found.ok_or_else(|| missing(id))
    }

    /// Returns the newest delivery of a message; `None`: it is no mail that leaves.
    pub async fn delivery_of_message(&self, id: &MessageId) -> Result<Option<FrozenDelivery>> {
        self.frozen(OF_MESSAGE, id.as_str()).await
    }

    async fn frozen(&self, sql: &'static str, id: &str) -> Result<Option<FrozenDelivery>> {
        let mut conn = self.readers().acquire().await?;
        let row = conn.maybe_row(sql, id).await?;
        let Some(row) = row else {
            return Ok(None);
        };
        let mut frozen = FrozenDelivery {
            delivery: row.to()?,
            bytes: packing::bytes_of(&row, "bytes")?,
        };
        fill_recipients(&mut conn, [&mut frozen.delivery]).await?;
        Ok(Some(frozen))
    }

    /// Queues a failed or held delivery, or one that waits for its next attempt, for now.
    /// Recipients who have the mail do not get it again.
    ///
    /// Errors: [`StoreError::Missing`], [`StoreError::WrongState`].
    pub async fn retry_delivery(&self, id: &DeliveryId) -> Result<()> {
        self.change(
            id,
            RETRY,
            Some(RETRY_RECIPIENTS),
            "only queued, held and failed deliveries can be retried, and none whose bytes were pruned",
        )
        .await
    }

    /// Queues every delivery in that state (failed or held) for now, and returns their ids, sorted.
    /// Recipients who have the mail do not get it again.
    pub async fn retry_deliveries(&self, state: DeliveryState) -> Result<Vec<DeliveryId>> {
        let now = self.clock().now().to_string();
        transact!(self, Scope::Engine, |conn| {
            let mut queued: Vec<String> = conn.all(RETRY_ALL, (&state, &now)).await?;
            queued.sort_unstable();
            for id in &queued {
                conn.exec(RETRY_RECIPIENTS, (id, &now)).await?;
            }
            Ok(queued.into_iter().map(DeliveryId::new).collect())
        })
        .await
    }

    /// Cancels a queued or held delivery. Recipients who have the mail keep it.
    ///
    /// Errors: [`StoreError::Missing`], [`StoreError::WrongState`].
    pub async fn cancel_delivery(&self, id: &DeliveryId) -> Result<()> {
        self.change(
            id,
            CANCEL,
            Some(CANCEL_RECIPIENTS),
            "only queued and held deliveries can be cancelled",
        )
        .await
    }

    /// Holds a queued delivery until it is retried or cancelled.
    ///
    /// Errors: [`StoreError::Missing`], [`StoreError::WrongState`].
    pub async fn hold_delivery(&self, id: &DeliveryId) -> Result<()> {
        self.change(id, HOLD, None, "only queued deliveries can be held")
            .await
    }

    async fn change(
        &self,
        id: &DeliveryId,
        of_delivery: &'static str,
        of_recipients: Option<&'static str>,
        hint: &'static str,
    ) -> Result<()> {
        let id = id.clone();
        let now = self.clock().now().to_string();
        transact!(self, Scope::persona_of("deliveries", id.as_str()), |conn| {
            let changed = conn.exec(of_delivery, (&id, &now)).await?;
            if changed == 0 {
                return Err(refused(conn, &id, hint).await?);
            }
            if let Some(of_recipients) = of_recipients {
                conn.exec(of_recipients, (id, &now)).await?;
            }
            Ok(())
        })
        .await
    }
}

impl PersonaStore {
    /// Returns every mail that a run sent, in order, with the bytes. For replay.
    pub async fn deliveries_of_run(&self, run: &RunId) -> Result<Vec<FrozenDelivery>> {
        let mut conn = self.store.readers().acquire().await?;
        let mut frozen = Vec::new();
        for row in conn.rows(OF_RUN, (run, &self.persona)).await? {
            frozen.push(FrozenDelivery {
                delivery: row.to()?,
                bytes: packing::bytes_of(&row, "bytes")?,
            });
        }
        fill_recipients(
            &mut conn,
            frozen.iter_mut().map(|frozen| &mut frozen.delivery),
        )
        .await?;
        Ok(frozen)
    }
}

fn missing(id: &DeliveryId) -> StoreError {
    StoreError::missing("delivery", id)
}

/// Returns the error for a change that touched no row.
async fn refused(conn: &mut Connection, id: &DeliveryId, hint: &'static str) -> Result<StoreError> {
    let state: Option<String> = conn.maybe(STATE, id).await?;
    Ok(match state {
        None => missing(id),
        Some(state) => StoreError::WrongState {
            kind: "delivery",
            id: id.to_string(),
            state,
            hint,
        },
    })
}

from_row!(|row| Delivery {
    id,
    persona: "persona_id",
    message_id,
    run_id,
    kind,
    envelope_from,
    subject,
    size_bytes,
    state,
    attempts,
    next_attempt_at,
    possible_duplicate,
    created_at,
    finished_at,
    recipients: { Vec::new() }
});

from_row!(DeliveryRecipient {
    recipient,
    state,
    attempts,
    next_attempt_at,
    last_code,
    last_reply,
    bounced_at
});

async fn fill_recipients<'d>(
    conn: &mut Connection,
    deliveries: impl IntoIterator<Item = &'d mut Delivery>,
) -> Result<()> {
    let mut deliveries: Vec<&mut Delivery> = deliveries.into_iter().collect();
    let ids = json_list(deliveries.iter().map(|delivery| delivery.id.as_str()));
    let mut found: HashMap<String, Vec<DeliveryRecipient>> = HashMap::new();
    for row in conn.rows(RECIPIENTS, ids).await? {
        found
            .entry(row.try_get("delivery_id")?)
            .or_default()
            .push(row.to()?);
    }
    for delivery in &mut deliveries {
        delivery.recipients = found.remove(delivery.id.as_str()).unwrap_or_default();
    }
    Ok(())
}
