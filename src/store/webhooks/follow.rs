//! From the feed to rows: the place that a webhook has read to moves in the commit that stores what it is to be told. So a crash
//! loses no event and tells none twice.

use super::record::{NewWebhookDelivery, WebhookStatus};
use crate::domain::Timestamp;
use crate::store::db::{Connection, Scope};
use crate::store::notices::emit::{NewNotice, emit};
use crate::store::sql::{json_list, to_json};
use crate::store::{Result, Store};

/// A page of the feed, as one webhook is to be told of it.
#[derive(Debug, Clone)]
pub struct WebhookPage {
    pub webhook: String,
    /// Number that it had read to.
    pub from_seq: i64,
    /// Number that it has read to now.
    pub through_seq: i64,
    pub deliveries: Vec<NewWebhookDelivery>,
    /// What the owner is told, where events are missing.
    pub notice: Option<NewNotice>,
}

/// What is not named any more is forgotten. What waits longer than any wait of ours was given its time by a clock that was
/// ahead.
const OPEN_WEBHOOKS: &str = "
    DELETE FROM webhook_deliveries WHERE webhook NOT IN (SELECT value FROM jsonb_each($1));
    DELETE FROM webhooks WHERE name NOT IN (SELECT value FROM jsonb_each($1));
    INSERT INTO webhooks (name, through_seq)
      SELECT value, (SELECT coalesce(max(seq), 0) FROM feed) FROM jsonb_each($1) WHERE true
      ON CONFLICT (name) DO NOTHING;
    UPDATE webhooks SET rests_until = NULL WHERE rests_until > $3;
    UPDATE webhook_deliveries SET next_attempt_at = $2 WHERE state = 'queued' AND next_attempt_at > $3";
const WEBHOOKS: &str = "
    SELECT w.*, (SELECT count(*) FROM webhook_deliveries d WHERE d.webhook = w.name AND d.state = 'queued') AS queued
    FROM webhooks w ORDER BY w.name";
const WEBHOOK: &str = "
    SELECT w.*, (SELECT count(*) FROM webhook_deliveries d WHERE d.webhook = w.name AND d.state = 'queued') AS queued
    FROM webhooks w WHERE w.name = $1";
const MOVE_WEBHOOK: &str = "
    UPDATE webhooks SET through_seq = $3 WHERE name = $1 AND through_seq = $2 AND disabled_at IS NULL";
const ADD_DELIVERIES: &str = "
    INSERT INTO webhook_deliveries (id, webhook, seq, event, persona_id, body, state, next_attempt_at, created_at)
    SELECT value ->> 'id', $1, CAST(value ->> 'seq' AS BIGINT), value ->> 'event', value ->> 'persona', value ->> 'body', 'queued', $3, $3
    FROM json_each($2) WHERE true ON CONFLICT (webhook, seq) DO NOTHING";

impl Store {
    /// Makes the webhooks those of the configuration: a new one begins with what happens from now on, one that is gone is
    /// forgotten.
    pub async fn open_webhooks(&self, names: &[String], latest_wait: Timestamp) -> Result<()> {
        let names = json_list(names.iter());
        let now = self.clock().now().to_string();
        transact!(self, Scope::Engine, |conn| {
            conn.exec(OPEN_WEBHOOKS, (names, now, latest_wait)).await?;
            Ok(())
        })
        .await
    }

    /// Returns all webhooks that an engine has met.
    pub async fn webhooks(&self) -> Result<Vec<WebhookStatus>> {
        self.all(WEBHOOKS, ()).await
    }

    /// Returns one webhook; `None`: no engine has met it.
    pub async fn webhook(&self, name: &str) -> Result<Option<WebhookStatus>> {
        self.maybe(WEBHOOK, name).await
    }

    /// Stores what a webhook is to be told of a page, and that it has read it, all or nothing; `false`: it has read on
    /// meanwhile, or is off, and nothing is stored.
    pub async fn take_webhook_page(&self, page: WebhookPage) -> Result<bool> {
        let now = self.clock().now();
        transact!(self, Scope::Rows, |conn| take(conn, &page, now).await).await
    }
}

async fn take(conn: &mut Connection, page: &WebhookPage, now: Timestamp) -> Result<bool> {
    let moved = conn
        .exec(
            MOVE_WEBHOOK,
            (&page.webhook, page.from_seq, page.through_seq),
        )
        .await?;
    if moved == 0 {
        return Ok(false);
    }
    if !page.deliveries.is_empty() {
        conn.exec(
            ADD_DELIVERIES,
            (&page.webhook, to_json(&page.deliveries)?, now),
        )
        .await?;
    }
    if let Some(notice) = &page.notice {
        emit(conn, notice, now).await?;
    }
    Ok(true)
}
