//! The worker: for each webhook, rows are made from the feed, and rows that are due are sent, one at a time.
//!
//! Webhooks do not wait for each other. What one is to be told beyond a thousand events stays in the feed until it has taken
//! some, so a receiver that is away for days fills no table.

use super::payload::{delivery_of, test_body};
use super::schedule::{WAIT_MAX, jitter, next_attempt_after, rest_after};
use super::sender::{WebhookAnswer, WebhookSender};
use crate::clock::Clock;
use crate::config::{Config, Webhook};
use crate::domain::{NoticeId, NoticeKind, NoticeSubject};
use crate::store::{
    FEED_PAGE_MAX, FeedFilter, NewNotice, Result, Store, WebhookDelivery, WebhookNext,
    WebhookOutcome, WebhookPage, WebhookStatus, next_commit, quoted,
};
use futures_util::future::join_all;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Shortest time between two polls of the feed.
const PAUSE: Duration = Duration::from_millis(500);
/// Longest time between two polls while nothing is committed: an attempt may be due again.
const POLL: Duration = Duration::from_secs(5);
/// Interval after the store has failed.
const POLL_AFTER_ERROR: Duration = Duration::from_secs(5);
/// Most events that wait for one webhook as rows.
const QUEUED_MAX: u32 = 1000;
/// Most events that are sent before the feed is looked at again.
const BATCH: u32 = 20;

/// Tells the webhooks of the configuration what happens.
pub struct Webhooks {
    store: Store,
    config: Arc<Config>,
    sender: WebhookSender,
}

impl Webhooks {
    /// Uses the store's clock.
    pub fn new(store: &Store, config: &Arc<Config>, sender: WebhookSender) -> Self {
        Self {
            store: store.clone(),
            config: config.clone(),
            sender,
        }
    }

    /// Makes the webhooks of the database those of the configuration.
    pub async fn open(&self) -> Result<()> {
        let webhooks = self.config.gateway.webhooks.iter();
        let names: Vec<String> = webhooks.map(|webhook| webhook.name.clone()).collect();
        let latest = self.store.clock().now().plus(WAIT_MAX);
        self.store.open_webhooks(&names, latest).await
    }

    /// Does everything that is due now; returns the number of events taken from the feed and of attempts.
    pub async fn work_once(&self) -> Result<usize> {
        let webhooks = &self.config.gateway.webhooks;
        let works = webhooks.iter().map(|webhook| self.work_for(webhook));
        join_all(works).await.into_iter().sum()
    }

    /// Works until `shutdown`. An attempt that is cut then is made again by the next engine, under its id.
    pub async fn run(&self, shutdown: CancellationToken) {
        let webhooks = &self.config.gateway.webhooks;
        let runs = webhooks.iter().map(|webhook| self.follow(webhook));
        tokio::select! {
            () = shutdown.cancelled() => {}
            _ = join_all(runs) => {}
        }
    }

    /// Works for one webhook, without an end.
    async fn follow(&self, webhook: &Webhook) {
        let mut commits = self.store.commits();
        loop {
            match self.work_for(webhook).await {
                Ok(0) => next_commit(&mut commits, PAUSE, POLL).await,
                Ok(_some) => {}
                Err(error) => {
                    tracing::error!(%error, webhook = webhook.name, "a webhook cannot be told; trying again");
                    tokio::time::sleep(POLL_AFTER_ERROR).await;
                }
            }
        }
    }

    async fn work_for(&self, webhook: &Webhook) -> Result<usize> {
        let Some(mut status) = self.store.webhook(&webhook.name).await? else {
            return Ok(0);
        };
        if status.disabled_at.is_some() {
            return Ok(0);
        }
        let taken = self.take(webhook, &status).await?;
        if !status.may_be_asked(self.store.clock().now()) {
            return Ok(taken);
        }
        let due = self
            .store
            .due_webhook_deliveries(&webhook.name, BATCH)
            .await?;
        let mut sent = 0;
        for delivery in due {
            sent += 1;
            if !self.attempt(webhook, &mut status, &delivery).await? {
                break;
            }
        }
        Ok(taken + sent)
    }

    /// Makes rows of what has happened since; returns how many.
    async fn take(&self, webhook: &Webhook, status: &WebhookStatus) -> Result<usize> {
        let from_seq = status.through_seq;
        let room = QUEUED_MAX.saturating_sub(status.queued).min(FEED_PAGE_MAX);
        if room == 0 || self.store.feed_glance().await? == from_seq {
            return Ok(0);
        }
        let page = self
            .store
            .feed_after(from_seq, &FeedFilter::default(), room)
            .await?;
        let clock = self.store.clock();
        let deliveries: Vec<_> = page
            .events
            .iter()
            .filter_map(|event| delivery_of(webhook, event, clock.new_id()))
            .collect();
        let taken = deliveries.len();
        let notice = page
            .has_gap
            .then(|| self.missed(webhook, from_seq, page.through));
        let page = WebhookPage {
            webhook: webhook.name.clone(),
            from_seq,
            through_seq: page.through,
            deliveries,
            notice,
        };
        Ok(match self.store.take_webhook_page(page).await? {
            true => taken,
            false => 0,
        })
    }

    /// Makes one attempt and records what became of it; `false`: the webhook is to be asked for nothing more now.
    async fn attempt(
        &self,
        webhook: &Webhook,
        status: &mut WebhookStatus,
        delivery: &WebhookDelivery,
    ) -> Result<bool> {
        let content = (delivery.id.as_str(), delivery.body.as_str());
        let now = self.store.clock().now();
        let answer = self.sender.send(webhook, content, now).await;
        tracing::info!(
            webhook = webhook.name,
            id = delivery.id,
            event = delivery.event,
            status = answer.status,
            error = answer.error,
            "a webhook was told"
        );
        let next = self.next(status, delivery, &answer);
        let is_to_go_on = match &next {
            WebhookNext::Done => {
                (status.failures, status.success_at) = (0, Some(self.store.clock().now()));
                true
            }
            WebhookNext::Retry { rests_until, .. } => {
                status.failures += 1;
                rests_until.is_none()
            }
            WebhookNext::Failed => true,
            WebhookNext::Disabled { .. } => false,
        };
        let notice = self.notice(webhook, delivery, (&answer, &next));
        self.store
            .record_webhook_outcome(WebhookOutcome {
                id: delivery.id.clone(),
                webhook: webhook.name.clone(),
                status: answer.status,
                error: answer.error,
                next,
                notice,
            })
            .await?;
        Ok(is_to_go_on)
    }

    fn next(
        &self,
        status: &WebhookStatus,
        delivery: &WebhookDelivery,
        answer: &WebhookAnswer,
    ) -> WebhookNext {
        let Some(error) = &answer.error else {
            return WebhookNext::Done;
        };
        if answer.is_gone() {
            let reason = "its server wants no more events: it answered 410".to_owned();
            return WebhookNext::Disabled { reason };
        }
        let (now, attempt) = (self.store.clock().now(), delivery.attempts + 1);
        let chance = jitter(&delivery.id, attempt);
        let Some(wait) = next_attempt_after(attempt, chance) else {
            // A receiver that takes other events is alive, whatever it has against this one.
            let is_alive = status
                .success_at
                .is_some_and(|at| at >= delivery.created_at);
            return match is_alive {
                true => WebhookNext::Failed,
                false => WebhookNext::Disabled {
                    reason: format!(
                        "{attempt} attempts failed since {}: {error}",
                        delivery.created_at
                    ),
                },
            };
        };
        let rest = match answer.retry_after {
            Some(asked) => Some(asked),
            None => answer.is_busy().then(|| rest_after(status.failures)),
        };
        let rests_until = rest.map(|rest| now.plus(rest));
        let at = now.plus(wait);
        WebhookNext::Retry {
            at: rests_until.map_or(at, |until| at.max(until)),
            rests_until,
        }
    }

    /// Returns what the owner is told of an attempt.
    fn notice(
        &self,
        webhook: &Webhook,
        delivery: &WebhookDelivery,
        (answer, next): (&WebhookAnswer, &WebhookNext),
    ) -> Option<NewNotice> {
        let name = &webhook.name;
        let error = quoted(answer.error.as_deref().unwrap_or_default());
        match next {
            WebhookNext::Done | WebhookNext::Retry { .. } => None,
            WebhookNext::Failed => Some(self.notice_of(
                webhook,
                NoticeKind::WebhookFailed,
                delivery.id.clone(),
                format!(
                    "the event {} of {} did not reach the webhook `{name}`: {error}",
                    delivery.event, delivery.created_at
                ),
                format!(
                    "`attache webhooks deliveries --webhook {name} --state failed` lists such events, `attache webhooks retry ID` tells one again"
                ),
            )),
            WebhookNext::Disabled { .. } => Some(self.notice_of(
                webhook,
                NoticeKind::WebhookDisabled,
                delivery.id.clone(),
                format!("the webhook `{name}` is told nothing more: {error}"),
                format!(
                    "mend its server, try it with `attache webhooks test {name}`, then `attache webhooks enable {name}`: it is told what waits first; or remove it from configs/gateway.json"
                ),
            )),
        }
    }

    /// Returns what the owner is told of events that the feed has no more.
    fn missed(&self, webhook: &Webhook, from_seq: i64, through_seq: i64) -> NewNotice {
        let name = &webhook.name;
        self.notice_of(
            webhook,
            NoticeKind::WebhookFailed,
            format!("gap-{from_seq}-{through_seq}"),
            format!(
                "events after number {from_seq} were pruned before the webhook `{name}` was told"
            ),
            "its receiver has to look up what happened meanwhile".to_owned(),
        )
    }

    fn notice_of(
        &self,
        webhook: &Webhook,
        kind: NoticeKind,
        occurrence: String,
        summary: String,
        hint: String,
    ) -> NewNotice {
        NewNotice {
            id: NoticeId::new(self.store.clock().new_id()),
            persona: None,
            kind,
            detail: webhook.name.clone(),
            subject: NoticeSubject::Webhook,
            subject_id: webhook.name.clone(),
            occurrence,
            summary,
            hint,
        }
    }
}

/// Sends the test event at once, and stores nothing.
pub async fn test_webhook(
    webhook: &Webhook,
    sender: &WebhookSender,
    clock: &dyn Clock,
) -> WebhookAnswer {
    let (id, now) = (clock.new_id(), clock.now());
    let body = test_body(now);
    sender.send(webhook, (&id, &body), now).await
}
