//! Attempts to tell a webhook: what is due, and what became of it.

use super::record::WebhookDelivery;
use crate::domain::Timestamp;
use crate::store::db::{Connection, Scope};
use crate::store::notices::emit::{NewNotice, emit};
use crate::store::{Result, Store};
use crate::text::{one_line, truncated};

/// Most characters of an error that are kept.
const ERROR_CHARS_MAX: usize = 300;

/// What follows from an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookNext {
    Done,
    Retry {
        at: Timestamp,
        /// The webhook is asked for nothing until then.
        rests_until: Option<Timestamp>,
    },
    /// This event is given up.
    Failed,
    /// This event is given up, and the webhook is asked no more.
    Disabled {
        reason: String,
    },
}

/// Outcome of an attempt.
#[derive(Debug, Clone)]
pub struct WebhookOutcome {
    pub id: String,
    pub webhook: String,
    /// Status of HTTP.
    pub status: Option<u16>,
    pub error: Option<String>,
    pub next: WebhookNext,
    /// What the owner is told.
    pub notice: Option<NewNotice>,
}

const DUE_DELIVERIES: &str = "
    SELECT d.* FROM webhook_deliveries d
    WHERE d.webhook = $1 AND d.state = 'queued' AND d.next_attempt_at <= $2 ORDER BY d.next_attempt_at, d.n LIMIT $3";
const NOTE_ATTEMPT: &str = "
    UPDATE webhook_deliveries SET state = $2, attempts = attempts + 1, next_attempt_at = coalesce($3, next_attempt_at),
      status = $4, error = $5, finished_at = $6
    WHERE id = $1 AND state = 'queued'";
const NOTE_SUCCESS: &str =
    "UPDATE webhooks SET failures = 0, rests_until = NULL, success_at = $2 WHERE name = $1";
const NOTE_FAILURE: &str = "
    UPDATE webhooks SET failures = failures + 1, rests_until = coalesce($2, rests_until),
      disabled_at = coalesce(disabled_at, $3), reason = coalesce($4, reason)
    WHERE name = $1";

impl Store {
    /// Returns events that a webhook is to be told now, the first ones first.
    pub async fn due_webhook_deliveries(
        &self,
        webhook: &str,
        limit: u32,
    ) -> Result<Vec<WebhookDelivery>> {
        let now = self.clock().now().to_string();
        self.all(DUE_DELIVERIES, (webhook, now, limit)).await
    }

    /// Records an attempt, what follows from it for the webhook, and what the owner is told, all or nothing.
    pub async fn record_webhook_outcome(&self, outcome: WebhookOutcome) -> Result<()> {
        let now = self.clock().now();
        transact!(self, Scope::Rows, |conn| record(conn, &outcome, now).await).await
    }
}

async fn record(conn: &mut Connection, outcome: &WebhookOutcome, now: Timestamp) -> Result<()> {
    let (state, at, rests_until) = match &outcome.next {
        WebhookNext::Done => ("done", None, None),
        WebhookNext::Retry { at, rests_until } => ("queued", Some(at), rests_until.as_ref()),
        WebhookNext::Failed | WebhookNext::Disabled { .. } => ("failed", None, None),
    };
    let error = outcome.error.as_deref();

    conn.exec(
        NOTE_ATTEMPT,
        (
            &outcome.id,
            state,
            at,
            outcome.status,
            error.map(|error| truncated(&one_line(error), ERROR_CHARS_MAX)),
            (state != "queued").then_some(now),
        ),
    )
    .await?;
    let reason = match &outcome.next {
        WebhookNext::Disabled { reason } => Some(reason.as_str()),
        _ => None,
    };
    let webhook = &outcome.webhook;
    match outcome.next {
        WebhookNext::Done => conn.exec(NOTE_SUCCESS, (webhook, now)),
        _ => {
            let disabled = reason.is_some().then_some(now);
            conn.exec(NOTE_FAILURE, (webhook, rests_until, disabled, reason))
        }
    }
    .await?;
    if let Some(notice) = &outcome.notice {
        emit(conn, notice, now).await?;
    }
    Ok(())
}
