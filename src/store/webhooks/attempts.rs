//! Attempts to tell a webhook: what is due, and what became of it.

use super::record::{WebhookDelivery, webhook_delivery};
use crate::domain::Timestamp;
use crate::store::db::{self, Connection, Scope};
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

pub(in crate::store) const DUE_DELIVERIES: &str = "
    SELECT d.* FROM webhook_deliveries d
    WHERE d.webhook = $1 AND d.state = 'queued' AND d.next_attempt_at <= $2 ORDER BY d.next_attempt_at, d.n LIMIT $3";
pub(in crate::store) const NOTE_ATTEMPT: &str = "
    UPDATE webhook_deliveries SET state = $2, attempts = attempts + 1, next_attempt_at = coalesce($3, next_attempt_at),
      status = $4, error = $5, finished_at = $6
    WHERE id = $1 AND state = 'queued'";
pub(in crate::store) const NOTE_SUCCESS: &str =
    "UPDATE webhooks SET failures = 0, rests_until = NULL, success_at = $2 WHERE name = $1";
pub(in crate::store) const NOTE_FAILURE: &str = "
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
        let due = db::query(DUE_DELIVERIES).bind(webhook).bind(now);
        let rows = due.bind(limit).fetch_all(self.readers()).await?;
        rows.iter().map(webhook_delivery).collect()
    }

    /// Records an attempt, what follows from it for the webhook, and what the owner is told, all or nothing.
    pub async fn record_webhook_outcome(&self, outcome: WebhookOutcome) -> Result<()> {
        let now = self.clock().now();
        self.write(Scope::Rows, move |conn| {
            Box::pin(async move { record(conn, &outcome, now).await })
        })
        .await
    }
}

async fn record(conn: &mut Connection, outcome: &WebhookOutcome, now: Timestamp) -> Result<()> {
    let now_text = now.to_string();
    let (state, at, rests_until) = match &outcome.next {
        WebhookNext::Done => ("done", None, None),
        WebhookNext::Retry { at, rests_until } => ("queued", Some(at), rests_until.as_ref()),
        WebhookNext::Failed | WebhookNext::Disabled { .. } => ("failed", None, None),
    };
    let error = outcome.error.as_deref();
    let note = db::query(NOTE_ATTEMPT)
        .bind(&outcome.id)
        .bind(state)
        .bind(at.map(Timestamp::to_string))
        .bind(outcome.status)
        .bind(error.map(|error| truncated(&one_line(error), ERROR_CHARS_MAX)))
        .bind((state != "queued").then_some(&now_text));
    note.execute(&mut *conn).await?;
    let reason = match &outcome.next {
        WebhookNext::Disabled { reason } => Some(reason.as_str()),
        _ => None,
    };
    let webhook = match outcome.next {
        WebhookNext::Done => db::query(NOTE_SUCCESS)
            .bind(&outcome.webhook)
            .bind(&now_text),
        _ => db::query(NOTE_FAILURE)
            .bind(&outcome.webhook)
            .bind(rests_until.map(Timestamp::to_string))
            .bind(reason.is_some().then_some(&now_text))
            .bind(reason),
    };
    webhook.execute(&mut *conn).await?;
    if let Some(notice) = &outcome.notice {
        emit(conn, notice, now).await?;
    }
    Ok(())
}
