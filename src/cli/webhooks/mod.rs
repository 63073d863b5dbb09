//! `attache webhooks`: programs that are told what happens.
//!
//! Works beside a running engine, which sees the changes at its next poll.

mod deliveries;
mod list;
mod replay;

use super::args::text;
use super::{Command, CommandContext, Exit, Failure, screen};
use crate::clock::SystemClock;
use crate::config::Webhook;
use crate::webhooks::{WebhookSender, test_webhook};
use clap::{Arg, ArgAction, ArgMatches};
use futures_util::future::BoxFuture;
use serde::Serialize;

pub struct WebhooksCommand;

impl Command for WebhooksCommand {
    fn clap(&self) -> clap::Command {
        clap::Command::new("webhooks")
            .about("List programs that are told what happens, try them, tell them again")
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommand(
                clap::Command::new("list")
                    .about("List the webhooks: how far each was told, what waits, which are off and why"),
            )
            .subcommand(deliveries::command())
            .subcommand(
                clap::Command::new("retry").about("Tell one event again now").arg(
                    Arg::new("id")
                        .value_name("ID")
                        .required(true)
                        .help("Its id as `deliveries` shows it, or the last characters of it"),
                ),
            )
            .subcommand(replay::command())
            .subcommand(
                clap::Command::new("enable")
                    .about("Tell a webhook again that is off, first what waits and what has happened meanwhile")
                    .arg(name_arg())
                    .arg(
                        Arg::new("from-now")
                            .long("from-now")
                            .action(ArgAction::SetTrue)
                            .help("Forget what waits and what has happened meanwhile"),
                    ),
            )
            .subcommand(
                clap::Command::new("test")
                    .about("Send a test event now and say what is answered; nothing is stored")
                    .arg(name_arg()),
            )
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            match args.subcommand() {
                Some(("list", _)) => list::list(context).await,
                Some(("deliveries", args)) => deliveries::list(context, args).await,
                Some(("retry", args)) => retry(context, args).await,
                Some(("replay", args)) => replay::replay(context, args).await,
                Some(("enable", args)) => enable(context, args).await,
                Some(("test", args)) => test(context, args).await,
                _ => Ok(Exit::Usage),
            }
        })
    }
}

fn name_arg() -> Arg {
    Arg::new("name")
        .value_name("NAME")
        .required(true)
        .help("Its name in configs/gateway.json")
}

/// Returns the webhook that the arguments name.
fn named(context: &CommandContext, args: &ArgMatches) -> anyhow::Result<Webhook> {
    context.require_workspace()?;
    let config = context.config()?;
    let (typed, webhooks) = (text(args, "name"), &config.gateway.webhooks);
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

async fn retry(context: &CommandContext, args: &ArgMatches) -> anyhow::Result<Exit> {
    let store = context.store_of_engine().await?;
    let delivery = store.retry_webhook_delivery(text(args, "id")).await?;
    match context.json() {
        true => context.screen.json(&delivery)?,
        false => screen::remark("queued for now; a running engine sends it"),
    }
    Ok(Exit::Ok)
}

async fn enable(context: &CommandContext, args: &ArgMatches) -> anyhow::Result<Exit> {
    let webhook = named(context, args)?;
    let store = context.store_of_engine().await?;
    if store.webhook(&webhook.name).await?.is_none() {
        return Err(unmet(&webhook.name).into());
    }
    store
        .enable_webhook(&webhook.name, args.get_flag("from-now"))
        .await?;
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

async fn test(context: &CommandContext, args: &ArgMatches) -> anyhow::Result<Exit> {
    let webhook = named(context, args)?;
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
