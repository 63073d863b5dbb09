//! What an operator sees of webhooks and does with them.

use super::record::{NewWebhookDelivery, WebhookDelivery, WebhookDeliveryState};
use crate::store::db::Scope;
use crate::store::sql::to_json;
use crate::store::{Result, Store, StoreError};

/// Selection of deliveries; what is `None` does not select.
#[derive(Debug, Clone, Default)]
pub struct WebhookDeliveryFilter {
    pub webhook: Option<String>,
    pub state: Option<WebhookDeliveryState>,
}

const WEBHOOK_DELIVERIES: &str = "
    SELECT d.* FROM webhook_deliveries d
    WHERE ($1 IS NULL OR d.webhook = $1) AND ($2 IS NULL OR d.state = $2) ORDER BY d.n DESC LIMIT $3";
const WEBHOOK_DELIVERY: &str = "SELECT d.* FROM webhook_deliveries d WHERE d.id = $1";
const WEBHOOK_DELIVERIES_LIKE: &str =
    "SELECT id FROM webhook_deliveries WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3";
const WEBHOOK_DELIVERIES_ENDING: &str = "
    SELECT id FROM webhook_deliveries WHERE substr(id, length(id) - length($1) + 1) = $1 ORDER BY id DESC LIMIT $2";
const RETRY_WEBHOOK_DELIVERY: &str = "
    UPDATE webhook_deliveries SET state = 'queued', attempts = 0, next_attempt_at = $2, finished_at = NULL WHERE id = $1";
/// What was told before is told again under its old id, by which a receiver knows it.
const REPLAY: &str = "
    INSERT INTO webhook_deliveries (id, webhook, seq, event, persona_id, body, state, next_attempt_at, created_at)
    SELECT value ->> 'id', $1, CAST(value ->> 'seq' AS BIGINT), value ->> 'event', value ->> 'persona', value ->> 'body', 'queued', $3, $3
    FROM json_each($2) WHERE true
    ON CONFLICT (webhook, seq) DO UPDATE SET state = 'queued', attempts = 0, next_attempt_at = excluded.next_attempt_at,
      finished_at = NULL";
const ENABLE_WEBHOOK: &str = "
    UPDATE webhooks SET disabled_at = NULL, reason = NULL, rests_until = NULL, failures = 0 WHERE name = $1;
    UPDATE webhook_deliveries SET attempts = 0, next_attempt_at = $2 WHERE webhook = $1 AND state = 'queued'";
const FORGET_BACKLOG: &str = "
    DELETE FROM webhook_deliveries WHERE webhook = $1 AND state = 'queued';
    UPDATE webhooks SET through_seq = (SELECT coalesce(max(seq), 0) FROM feed) WHERE name = $1";

impl Store {
    /// Returns deliveries, the newest first.
    pub async fn webhook_deliveries(
        &self,
        filter: &WebhookDeliveryFilter,
        limit: u32,
    ) -> Result<Vec<WebhookDelivery>> {
        self.all(WEBHOOK_DELIVERIES, (&filter.webhook, filter.state, limit))
            .await
    }

    /// Finds the delivery whose id is `piece`, or the only one whose id begins or else ends with it, and queues it for now.
    ///
    /// Errors: [`StoreError::Missing`], [`StoreError::Ambiguous`].
    pub async fn retry_webhook_delivery(&self, piece: &str) -> Result<WebhookDelivery> {
        let kind = "delivery of a webhook";
        let like = (WEBHOOK_DELIVERIES_LIKE, WEBHOOK_DELIVERIES_ENDING);
        let id = self.find(kind, like, piece).await?;
        let (queued, now) = (id.clone(), self.clock().now().to_string());
        transact!(self, Scope::Engine, |conn| {
            conn.exec(RETRY_WEBHOOK_DELIVERY, (queued, now)).await?;
            Ok(())
        })
        .await?;
        let row = self.maybe(WEBHOOK_DELIVERY, &id).await?;
        row.ok_or(StoreError::Missing { kind, id })
    }

    /// Queues events for a webhook, also those that it was told before.
    pub async fn replay_webhook(
        &self,
        webhook: &str,
        deliveries: Vec<NewWebhookDelivery>,
    ) -> Result<()> {
        let (webhook, now) = (webhook.to_owned(), self.clock().now().to_string());
        transact!(self, Scope::Engine, |conn| {
            conn.exec(REPLAY, (webhook, to_json(&deliveries)?, now))
                .await?;
            Ok(())
        })
        .await
    }

    /// Asks a webhook again: first for what waits and for what has happened meanwhile, or only for what happens from now on.
    ///
    /// Errors: [`StoreError::Missing`].
    pub async fn enable_webhook(&self, name: &str, from_now: bool) -> Result<()> {
        let (name, now) = (name.to_owned(), self.clock().now().to_string());
        if self.webhook(&name).await?.is_none() {
            return Err(StoreError::missing("webhook", name));
        }
        transact!(self, Scope::Engine, |conn| {
            if from_now {
                conn.exec(FORGET_BACKLOG, &name).await?;
            }

            conn.exec(ENABLE_WEBHOOK, (&name, now)).await?;
            Ok(())
        })
        .await
    }
}
