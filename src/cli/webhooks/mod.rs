//! `attache webhooks`: programs that are told what happens.
//!
//! Works beside a running engine, which sees the changes at its next poll.

mod replay;

use super::args::LimitArg;
use super::screen::Columns;
use super::{CommandContext, Exit, Failure, screen};
use crate::clock::SystemClock;
use crate::config::Webhook;
use crate::store::{WebhookDelivery, WebhookDeliveryFilter, WebhookDeliveryState, WebhookStatus};
use crate::webhooks::{WebhookSender, test_webhook};
use clap::builder::PossibleValuesParser;
use serde::Serialize;

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
    Replay(replay::ReplayWebhook),
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

/// What a webhook answered to the test event.
#[derive(Serialize)]
struct TestedWebhook<'a> {
    webhook: &'a str,
    status: Option<u16>,
    error: Option<&'a str>,
}

async fn test(context: &CommandContext, name: &str) -> anyhow::Result<Exit> {
    let webhook = named(context, name)?;
    let answer = test_webhook(&webhook, &WebhookSender::default(), &SystemClock::new()).await;
    if context.json() {
        context.screen.json(&TestedWebhook {
            webhook: &webhook.name,
            status: answer.status,
            error: answer.error.as_deref(),
        })?;
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
    Err(
        Failure::new(Exit::Unavailable, format!("{}: {error}", webhook.name))
            .hint("a receiver takes a `POST` whose signature it has checked, and answers 2xx")
            .into(),
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
    context.screen.list(&listed, columns, nothing, row)?;
    Ok(Exit::Ok)
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
    context
        .screen
        .list(&deliveries, columns, "there is no such delivery", cells)?;
    Ok(Exit::Ok)
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
