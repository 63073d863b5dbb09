//! `attache webhooks`: programs that are told what happens.
//!
//! Works beside a running engine, which sees the changes at its next poll.

use super::args::{LimitArg, instant};
use super::screen::Columns;
use super::{CommandContext, Exit, Failure, refuse, screen};
use crate::clock::{Clock, SystemClock};
use crate::config::Webhook;
use crate::domain::Timestamp;
use crate::store::{
    FEED_PAGE_MAX, FeedFilter, WebhookDelivery, WebhookDeliveryFilter, WebhookDeliveryState,
    WebhookStatus,
};
use crate::webhooks::{WebhookSender, delivery_of, test_webhook};
use clap::builder::PossibleValuesParser;
use serde::Serialize;
use serde_json::json;

/// List programs that are told what happens, try them, tell them again
#[derive(clap::Subcommand)]
pub enum WebhooksCommand {
    /// List the webhooks: how far each was told, what waits, which are off and why
    List,
    /// List what webhooks are told, the newest first
    Deliveries {
        /// Only this webhook's
        #[arg(long, value_name = "NAME")]
        webhook: Option<String>,
        /// Only those in this state
        #[arg(
            long,
            value_parser = PossibleValuesParser::new(WebhookDeliveryState::ALL.map(WebhookDeliveryState::as_str))
        )]
        state: Option<String>,
        #[command(flatten)]
        page: LimitArg,
    },
    /// Tell one event again now
    Retry {
        /// Its id as `deliveries` shows it, or the last characters of it
        id: String,
    },
    Replay(ReplayWebhook),
    /// Tell a webhook again that is off, first what waits and what has happened meanwhile
    Enable {
        /// Its name in configs/gateway.json
        name: String,
        /// Forget what waits and what has happened meanwhile
        #[arg(long)]
        from_now: bool,
    },
    /// Send a test event now and say what is answered; nothing is stored
    Test {
        /// Its name in configs/gateway.json
        name: String,
    },
}

impl WebhooksCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        match self {
            Self::List => list(context).await,
            Self::Deliveries {
                webhook,
                state,
                page,
            } => {
                let state = state.and_then(|state| WebhookDeliveryState::parse(&state));
                let filter = WebhookDeliveryFilter { webhook, state };
                deliveries(context, &filter, page.limit).await
            }
            Self::Retry { id } => retry(context, &id).await,
            Self::Replay(it) => it.run(context).await,
            Self::Enable { name, from_now } => enable(context, &name, from_now).await,
            Self::Test { name } => test(context, &name).await,
        }
    }
}

/// Returns the webhook that the arguments name.
fn named(context: &CommandContext, typed: &str) -> anyhow::Result<Webhook> {
    context.require_workspace()?;
    let config = context.config()?;
    let webhooks = &config.gateway.webhooks;
    let found = webhooks.iter().find(|webhook| webhook.name == typed);
    if let Some(webhook) = found {
        return Ok(webhook.clone());
    }
    let failure = Failure::new(Exit::NoInput, format!("no webhook `{typed}`"));
    let names: Vec<&str> = webhooks
        .iter()
        .map(|webhook| webhook.name.as_str())
        .collect();
    Err(failure
        .hint(match names.as_slice() {
            [] => "`webhooks` in configs/gateway.json names none".to_owned(),
            names => format!("there are: {}", names.join(", ")),
        })
        .into())
}

/// Errors: no engine has met the webhook, which a command beside it could do nothing for.
fn unmet(name: &str) -> Failure {
    let message = format!("no engine has met the webhook `{name}`");
    Failure::new(Exit::NoInput, message)
        .hint("a working engine reads it within seconds, `attache reload` at once; otherwise the next start does")
}

async fn retry(context: &CommandContext, id: &str) -> anyhow::Result<Exit> {
    let store = context.store_of_engine().await?;
    let delivery = store.retry_webhook_delivery(id).await?;
    match context.json() {
        true => context.screen.json(&delivery)?,
        false => screen::remark("queued for now; a running engine sends it"),
    }
    Ok(Exit::Ok)
}

async fn enable(context: &CommandContext, name: &str, from_now: bool) -> anyhow::Result<Exit> {
    let webhook = named(context, name)?;
    let store = context.store_of_engine().await?;
    if store.webhook(&webhook.name).await?.is_none() {
        return Err(unmet(&webhook.name).into());
    }
    store.enable_webhook(&webhook.name, from_now).await?;
    match context.json() {
        true => context.screen.json(&store.webhook(&webhook.name).await?)?,
        false => screen::remark("on; a running engine tells it at once"),
    }
    Ok(Exit::Ok)
}

async fn test(context: &CommandContext, name: &str) -> anyhow::Result<Exit> {
    let webhook = named(context, name)?;
    let answer = test_webhook(&webhook, &WebhookSender::default(), &SystemClock::new()).await;
    if context.json() {
        context.screen.json(&json!({
            "webhook": webhook.name,
            "status": answer.status,
            "error": answer.error,
        }))?;
    }
    let Some(error) = answer.error else {
        if !context.json() {
            let status = answer.status.unwrap_or_default();
            context
                .screen
                .line(format!("{}: it answered {status}", webhook.name))?;
        }
        return Ok(Exit::Ok);
    };
    refuse(
        Exit::Unavailable,
        format!("{}: {error}", webhook.name),
        "a receiver takes a `POST` whose signature it has checked, and answers 2xx",
    )
}

/// A webhook of the configuration, with its row.
#[derive(Serialize)]
struct ListedWebhook {
    name: String,
    url: String,
    /// Number of the feed's newest event.
    newest_seq: i64,
    /// `null`: no engine has met it.
    status: Option<WebhookStatus>,
}

impl ListedWebhook {
    fn state(&self) -> String {
        match &self.status {
            None => "new".to_owned(),
            Some(status) => match (&status.reason, status.rests_until) {
                (Some(reason), _) => format!("off: {reason}"),
                (None, Some(until)) => format!("rests until {until}"),
                (None, None) => "on".to_owned(),
            },
        }
    }
}

async fn list(context: &CommandContext) -> anyhow::Result<Exit> {
    context.require_workspace()?;
    let config = context.config()?;
    let store = context.shared_store().await?;
    let newest_seq = store.feed_newest().await?;
    let statuses = store.webhooks().await?;
    let listed = config.gateway.webhooks.iter().map(|webhook| ListedWebhook {
        name: webhook.name.clone(),
        url: webhook.url.clone(),
        newest_seq,
        status: statuses
            .iter()
            .find(|status| status.name == webhook.name)
            .cloned(),
    });
    let listed: Vec<ListedWebhook> = listed.collect();
    let row = |webhook: &ListedWebhook| {
        let status = webhook.status.as_ref();
        let behind = status.map_or(0, |status| newest_seq - status.through_seq);
        let success = status.and_then(|status| status.success_at);
        vec![
            webhook.name.clone(),
            webhook.url.clone(),
            status.map_or(0, |status| status.queued).to_string(),
            behind.to_string(),
            success.map_or_else(|| "-".to_owned(), |at| at.to_string()),
            webhook.state(),
        ]
    };
    let columns = Columns::of(&["NAME", "URL", "WAITING", "BEHIND", "SUCCESS", "STATE"])
        .main("STATE")
        .optional(&["BEHIND", "SUCCESS"]);
    let nothing = "no webhook is configured; add one to `webhooks` in configs/gateway.json";
    context.list(&listed, columns, nothing, row)
}

async fn deliveries(
    context: &CommandContext,
    filter: &WebhookDeliveryFilter,
    limit: u32,
) -> anyhow::Result<Exit> {
    let store = context.shared_store().await?;
    let deliveries = store.webhook_deliveries(filter, limit).await?;
    let columns = Columns::of(&[
        "ID", "WEBHOOK", "EVENT", "STATE", "ATTEMPTS", "NEXT", "STATUS", "ERROR",
    ])
    .main("ERROR")
    .optional(&["NEXT", "WEBHOOK", "ATTEMPTS"]);
    context.list(&deliveries, columns, "there is no such delivery", cells)
}

fn cells(delivery: &WebhookDelivery) -> Vec<String> {
    let is_queued = delivery.state == WebhookDeliveryState::Queued;
    let next = is_queued.then(|| delivery.next_attempt_at.to_string());
    let status = delivery.status.map(|status| status.to_string());
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    vec![
        delivery.id.clone(),
        delivery.webhook.clone(),
        delivery.event.clone(),
        delivery.state.as_str().to_owned(),
        delivery.attempts.to_string(),
        or_dash(next),
        or_dash(status),
        delivery.error.clone().unwrap_or_default(),
    ]
}

/// Most events that one command queues.
const REPLAYED_MAX: usize = 10_000;

/// Tell a webhook what happened in a time of the past, also what it was told before
#[derive(clap::Args)]
#[command(
    after_help = "What it was told before has its old `webhook-id`, by which a receiver knows it. The feed has the newest 100000 events."
)]
pub struct ReplayWebhook {
    /// Its name in configs/gateway.json
    name: String,
    /// Begin at this time: a span such as 24h, a day, or an instant
    #[arg(long, value_name = "WHEN")]
    since: String,
    /// End before this time [default: now]
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
}

impl ReplayWebhook {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let webhook = named(context, &self.name)?;
        let now = crate::clock::SystemClock::new().now();
        let since = instant(&self.since)?;
        let until = match &self.until {
            Some(typed) => instant(typed)?,
            None => now,
        };
        let store = context.store_of_engine().await?;
        let Some(status) = store.webhook(&webhook.name).await? else {
            return Err(unmet(&webhook.name).into());
        };
        let mut seq = store.feed_before(since).await?;
        let mut queued = 0;
        // What comes after the place that it has read to, it is told anyway.
        while seq < status.through_seq {
            let page = store
                .feed_after(seq, &FeedFilter::default(), FEED_PAGE_MAX)
                .await?;
            let is_wanted = |at: Timestamp| at >= since && at < until;
            let deliveries: Vec<_> = page
                .events
                .iter()
                .filter(|event| event.seq <= status.through_seq && is_wanted(event.at))
                .filter_map(|event| delivery_of(&webhook, event, store.clock().new_id()))
                .collect();
            queued += deliveries.len();
            if queued > REPLAYED_MAX {
                return refuse(
                    Exit::Usage,
                    format!("there are more than {REPLAYED_MAX} events in that time"),
                    "what came first is queued; name a shorter time with --since and --until",
                );
            }
            store.replay_webhook(&webhook.name, deliveries).await?;
            if !page.has_more() {
                break;
            }
            seq = page.through;
        }
        context.report(
            &json!({
                "webhook": webhook.name,
                "queued": queued,
            }),
            |screen| {
                Ok(screen.line(format!(
                    "{} queued for {}",
                    crate::text::plural(queued as u64, "event"),
                    webhook.name
                ))?)
            },
        )
    }
}
