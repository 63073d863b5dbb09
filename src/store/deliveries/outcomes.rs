//! Outcomes of claimed deliveries: first the mark that the peer may have the mail, then the
//! verdicts. Mails that wait together are recorded together.

use crate::clock::Clock;
use crate::domain::{DeliveryId, Timestamp};
use crate::store::db::{Connection, Scope};
use crate::store::deliveries::delivery_state::{DeliveryState, RecipientState};
use crate::store::notices::events;
use crate::store::sql::json_list;
use crate::store::writes::batch::{BatchResult, Together};
use crate::store::{Result, Store, StoreError};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// Outcome of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryOutcome {
    pub id: DeliveryId,
    /// Recipients with a verdict; the others stay as they are.
    pub recipients: Vec<RecipientOutcome>,
    /// Instant of the next attempt for the recipients that stay open.
    pub next_attempt_at: Timestamp,
    /// `false`: the attempt is not counted, because the transport failed, not the mail.
    pub counts: bool,
    /// `true`: the peer may have the mail although it never confirmed it.
    pub possible_duplicate: bool,
    /// `true`: recipients that stay open wait for an operator, not for `next_attempt_at`.
    pub hold: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecipientOutcome {
    pub recipient: String,
    /// `Delivered`, `Deferred` or `Failed`.
    pub state: RecipientState,
    /// The peer's reply code.
    pub code: Option<u16>,
    pub reply: String,
}

const MARK_COMMITTING: &str = "
UPDATE deliveries SET state = 'committing'
WHERE id IN (SELECT value FROM jsonb_each($1)) AND epoch = $2 AND state = 'sending'
RETURNING id";

/// Stores the verdicts of some attempts, with the resulting states of their deliveries. `$1` is a
/// list of attempts; an attempt whose delivery does not belong to this engine changes nothing and
/// gives no row.
const RECORD: &str = "
UPDATE delivery_recipients SET
  state = v.value ->> 'state',
  attempts = delivery_recipients.attempts + CAST(o.value ->> 'counts' AS BIGINT),
  next_attempt_at = CASE WHEN v.value ->> 'state' = 'deferred' AND CAST(o.value ->> 'hold' AS BIGINT) = 0 THEN o.value ->> 'next' END,
  last_code = CAST(v.value ->> 'code' AS BIGINT),
  last_reply = v.value ->> 'reply'
FROM jsonb_each($1) AS o, json_each(o.value, '$.recipients') AS v
WHERE delivery_id = o.value ->> 'id' AND recipient = v.value ->> 'recipient'
  AND delivery_recipients.state IN ('queued', 'deferred')
  AND EXISTS (SELECT 1 FROM deliveries d WHERE d.id = delivery_id AND d.epoch = $2 AND d.state IN ('sending', 'committing'));
UPDATE deliveries SET
  state = CASE WHEN r.open > 0 THEN CASE WHEN r.hold = 1 THEN 'held' ELSE 'queued' END WHEN r.failed > 0 THEN 'failed' ELSE 'done' END,
  attempts = attempts - 1 + r.counts,
  next_attempt_at = CASE WHEN r.open > 0 AND r.hold = 0 THEN r.next END,
  finished_at = CASE WHEN r.open = 0 THEN $3 END, state_at = $3,
  possible_duplicate = max(deliveries.possible_duplicate, r.possible_duplicate)
FROM (
  SELECT o.value ->> 'id' AS delivery, CAST(o.value ->> 'counts' AS BIGINT) AS counts, o.value ->> 'next' AS next, CAST(o.value ->> 'hold' AS BIGINT) AS hold,
    CAST(o.value ->> 'possible_duplicate' AS BIGINT) AS possible_duplicate,
    (SELECT count(*) FROM delivery_recipients
     WHERE delivery_id = o.value ->> 'id' AND state IN ('queued', 'deferred')) AS open,
    (SELECT count(*) FROM delivery_recipients WHERE delivery_id = o.value ->> 'id' AND state = 'failed') AS failed
  FROM jsonb_each($1) AS o
) AS r
WHERE id = r.delivery AND epoch = $2 AND state IN ('sending', 'committing')
RETURNING id, state";

impl Store {
    /// Records that the peer may have this mail from now on.
    ///
    /// Errors: [`StoreError::WrongState`] when it is not `sending` under this engine.
    pub async fn mark_committing(&self, id: &DeliveryId) -> Result<()> {
        self.write_together(CommittingMark {
            id: id.clone(),
            epoch: self.epoch(),
        })
        .await
    }

    /// Stores the outcome of an attempt; the delivery's own state follows from its recipients'.
    ///
    /// Errors: [`StoreError::WrongState`] when the delivery does not belong to this engine (any
    /// more).
    pub async fn record_outcome(&self, outcome: DeliveryOutcome) -> Result<DeliveryState> {
        self.write_together(OutcomeRecord {
            outcome,
            epoch: self.epoch(),
            clock: self.clock().clone(),
        })
        .await
    }
}

struct CommittingMark {
    id: DeliveryId,
    epoch: i64,
}

impl Together for CommittingMark {
    type Confirmed = ();

    fn scope(&self) -> Scope {
        Scope::Rows
    }

    fn store<'a>(conn: &'a mut Connection, marks: &'a [Self]) -> BoxFuture<'a, BatchResult<Self>> {
        Box::pin(async move {
            let ids = json_list(marks.iter().map(|mark| mark.id.as_str()));
            let marked: Vec<String> = conn
                .all(MARK_COMMITTING, (ids, marks.first().map(|mark| mark.epoch)))
                .await?;
            let is_marked = |id: &DeliveryId| marked.iter().any(|marked| marked == id.as_str());
            let answer = |mark: &CommittingMark| {
                if is_marked(&mark.id) {
                    Ok(())
                } else {
                    Err(not_ours(&mark.id))
                }
            };
            Ok(marks.iter().map(answer).collect())
        })
    }
}

struct OutcomeRecord {
    outcome: DeliveryOutcome,
    epoch: i64,
    clock: Arc<dyn Clock>,
}

impl Together for OutcomeRecord {
    type Confirmed = DeliveryState;

    fn scope(&self) -> Scope {
        Scope::persona_of("deliveries", self.outcome.id.as_str())
    }

    fn store<'a>(
        conn: &'a mut Connection,
        records: &'a [Self],
    ) -> BoxFuture<'a, BatchResult<Self>> {
        Box::pin(async move {
            let Some(OutcomeRecord { epoch, clock, .. }) = records.first() else {
                return Ok(Vec::new());
            };
            let outcomes =
                Value::from_iter(records.iter().map(|record| json_of(&record.outcome))).to_string();
            let states: Vec<(String, DeliveryState)> =
                conn.all(RECORD, (outcomes, epoch, clock.now())).await?;
            let states: HashMap<String, DeliveryState> = states.into_iter().collect();
            let mut answers = Vec::with_capacity(records.len());
            for OutcomeRecord {
                outcome: DeliveryOutcome { id, .. },
                ..
            } in records
            {
                let state = states.get(id.as_str()).copied();
                match state {
                    Some(DeliveryState::Failed) => {
                        events::delivery_failed(conn, id.as_str(), clock.as_ref()).await?;
                    }
                    Some(DeliveryState::Held) => {
                        events::delivery_held(conn, id.as_str(), clock.as_ref()).await?;
                    }
                    _ => {}
                }
                answers.push(state.ok_or_else(|| not_ours(id)));
            }
            Ok(answers)
        })
    }
}

fn json_of(outcome: &DeliveryOutcome) -> Value {
    let recipients = outcome.recipients.iter().map(
        |o| json!({ "recipient": o.recipient, "state": o.state.as_str(), "code": o.code, "reply": o.reply }),
    );
    json!({
        "id": outcome.id.as_str(), "recipients": Value::from_iter(recipients), "counts": u8::from(outcome.counts),
        "next": outcome.next_attempt_at.to_string(), "hold": u8::from(outcome.hold),
        "possible_duplicate": u8::from(outcome.possible_duplicate),
    })
}

fn not_ours(id: &DeliveryId) -> StoreError {
    StoreError::WrongState {
        kind: "delivery",
        id: id.to_string(),
        state: "not in this engine's hands".to_owned(),
        hint: "another engine or an operator took it over",
    }
}
