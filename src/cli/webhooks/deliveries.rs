//! `attache webhooks deliveries`: what webhooks are told, were told, or could not be told.

use super::super::args::{limit_arg, number};
use super::super::screen::Columns;
use super::super::{CommandContext, Exit};
use crate::store::{WebhookDelivery, WebhookDeliveryFilter, WebhookDeliveryState};
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches};

pub fn command() -> clap::Command {
    let states =
        PossibleValuesParser::new(WebhookDeliveryState::ALL.map(WebhookDeliveryState::as_str));
    clap::Command::new("deliveries")
        .about("List what webhooks are told, the newest first")
        .arg(
            Arg::new("webhook")
                .long("webhook")
                .value_name("NAME")
                .help("Only this webhook's"),
        )
        .arg(
            Arg::new("state")
                .long("state")
                .value_name("STATE")
                .value_parser(states)
                .help("Only those in this state"),
        )
        .arg(limit_arg())
}

pub async fn list(context: &CommandContext, args: &ArgMatches) -> anyhow::Result<Exit> {
    let store = context.shared_store().await?;
    let state = args.get_one::<String>("state");
    let filter = WebhookDeliveryFilter {
        webhook: args.get_one::<String>("webhook").cloned(),
        state: state.and_then(|state| WebhookDeliveryState::parse(state)),
    };
    let limit = number(args, "limit");
    let deliveries = store.webhook_deliveries(&filter, limit).await?;
    if context.json() {
        context.screen.json(&deliveries)?;
        return Ok(Exit::Ok);
    }
    let rows: Vec<Vec<String>> = deliveries.iter().map(cells).collect();
    let columns = Columns::of(&[
        "ID", "WEBHOOK", "EVENT", "STATE", "ATTEMPTS", "NEXT", "STATUS", "ERROR",
    ])
    .main("ERROR")
    .optional(&["NEXT", "WEBHOOK", "ATTEMPTS"]);
    context
        .screen
        .listing(columns, &rows, "there is no such delivery")?;
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
