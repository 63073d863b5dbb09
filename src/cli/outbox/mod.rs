//! `attache outbox list|show|retry|cancel|hold|health|check|dkim`: outbound mail under way, the
//! operator's actions on it, the health of the transport, and the DNS records by which receivers
//! verify our signatures.
//!
//! Works beside a running engine, which sees the changes at its next poll.

mod change;
pub(in crate::cli) mod check;
mod list;
mod show;

use super::args::text;
use super::{Command, CommandContext, Exit, Failure, screen};
use crate::domain::{DeliveryId, Timestamp};
use crate::store::{Delivery, Store, StoreError, TransportState};
use clap::{Arg, ArgAction, ArgMatches};
use futures_util::future::BoxFuture;
use serde::Serialize;

pub struct OutboxCommand;

impl Command for OutboxCommand {
    fn clap(&self) -> clap::Command {
        let id = || {
            Arg::new("id")
                .value_name("ID")
                .required(true)
                .help("Id of a delivery, as `list` shows it")
        };
        let with_id = |name: &'static str, about: &'static str| {
            clap::Command::new(name).about(about).arg(id())
        };
        let raw = Arg::new("raw")
            .long("raw")
            .action(ArgAction::SetTrue)
            .help("Print the mail itself, exactly as every attempt sends it");
        clap::Command::new("outbox")
            .about("List outbound mail, retry it, hold it back, cancel it")
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommand(list::command())
            .subcommand(with_id("show", "Show one delivery: recipients, states, last replies").arg(raw))
            .subcommand(change::retry_command())
            .subcommand(with_id("cancel", "Give up a queued or held delivery"))
            .subcommand(with_id("hold", "Keep a queued delivery back until it is retried or cancelled"))
            .subcommand(
                clap::Command::new("health")
                    .about("Say whether mail can go out, and if not, why and until when"),
            )
            .subcommand(clap::Command::new("check").about(
                "Connect to the mail server, log in and ask whether the personas may send, without sending anything",
            ))
            .subcommand(
                clap::Command::new("dkim")
                    .about("Print the DNS records of the keys that sign, for the domain's zone"),
            )
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            let Some((command, args)) = args.subcommand() else {
                return Ok(Exit::Usage);
            };
            match command {
                "check" => return check::check(context).await,
                "dkim" => return dkim(context),
                _ => {}
            }
            let store = context.shared_store().await?;
            match command {
                "health" => health(context, &store).await,
                "retry" if args.get_flag("all-failed") || args.get_flag("held") => {
                    change::retry_many(context, &store, args).await
                }
                "list" => list::list(context, &store, args).await,
                "show" => show::show(context, &store, args).await,
                command => change::change(context, &store, command, args).await,
            }
        })
    }
}

async fn health(context: &CommandContext, store: &Store) -> anyhow::Result<Exit> {
    let health = store.transport_health().await?;
    let state = health
        .as_ref()
        .map_or(TransportState::Well, |health| health.state);
    let since = health.as_ref().map(|health| health.since);
    let probe = health.as_ref().and_then(|health| health.next_probe_at);
    let next = match (state, probe) {
        (TransportState::Well, probe) => probe,
        // Before its first pause the transport is tried with the next mail that is due.
        (_, None) => store.next_delivery_due().await?,
        (_, probe) => probe,
    };
    let reason = health.map(|health| health.reason).unwrap_or_default();
    if context.json() {
        context.screen.json(&TransportRecord {
            state: state.as_str(),
            since,
            reason: &reason,
            next_probe_at: next,
        })?;
        return Ok(Exit::Ok);
    }
    context.screen.fields(&[
        ("Transport", state.as_str().to_owned()),
        ("Since", time(since)),
        ("Reason", reason),
        ("Next try", time(next)),
    ])?;
    Ok(Exit::Ok)
}

fn dkim(context: &CommandContext) -> anyhow::Result<Exit> {
    context.require_workspace()?;
    let config = context.config()?;
    let signers = &config.gateway.signers;
    if context.json() {
        let records = signers.iter().map(|signer| {
            let record = signer.record();
            DnsRecord {
                name: record.name,
                kind: "TXT",
                text: record.text,
                algorithm: signer.algorithm(),
            }
        });
        context.screen.json(&records.collect::<Vec<_>>())?;
        return Ok(Exit::Ok);
    }
    for signer in signers.iter() {
        context.screen.line(signer.record().zone_line())?;
    }
    if signers.is_empty() {
        screen::remark("no key signs: name one in `outbound.dkim` of configs/gateway.json");
    }
    Ok(Exit::Ok)
}

/// Finds the delivery by its id or a prefix of it.
async fn id(store: &Store, args: &ArgMatches) -> anyhow::Result<DeliveryId> {
    store
        .find_delivery(text(args, "id"))
        .await
        .map_err(named_failure)
}

/// Gives errors of the user's input their exit code and hint.
fn named_failure(error: StoreError) -> anyhow::Error {
    match error {
        StoreError::Missing { .. } => Failure::new(Exit::NoInput, error.to_string())
            .hint("`attache outbox list --all` shows every delivery")
            .into(),
        StoreError::WrongState {
            kind,
            id,
            state,
            hint,
        } => Failure::new(Exit::Failed, format!("{kind} `{id}` is {state}"))
            .hint(hint)
            .into(),
        other => other.into(),
    }
}

fn time(at: Option<Timestamp>) -> String {
    at.map(|at| at.to_string()).unwrap_or_default()
}

fn state(delivery: &Delivery) -> String {
    let copy = if delivery.possible_duplicate {
        " (a copy may exist)"
    } else {
        ""
    };
    let back = delivery
        .recipients
        .iter()
        .any(|recipient| recipient.bounced_at.is_some());
    format!(
        "{}{}{copy}",
        delivery.state.as_str(),
        if back { " (came back)" } else { "" }
    )
}

/// Health of the outbound transport.
#[derive(Serialize)]
struct TransportRecord<'a> {
    state: &'static str,
    since: Option<Timestamp>,
    reason: &'a str,
    next_probe_at: Option<Timestamp>,
}

/// A DNS record of a DKIM key.
#[derive(Serialize)]
struct DnsRecord {
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    text: String,
    algorithm: &'static str,
}
