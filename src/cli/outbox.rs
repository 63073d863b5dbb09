//! `attache outbox list|show|retry|cancel|hold|health|check|dkim`: outbound mail under way, the
//! operator's actions on it, the health of the transport, and the DNS records by which receivers
//! verify our signatures.
//!
//! Works beside a running engine, which sees the changes at its next poll.

mod check;

use super::table::Columns;
use super::threads::persona_of;
use super::{Command, Context, Exit, Failure, output};
use crate::domain::{DeliveryId, ReportAction, Timestamp};
use crate::store::{
    Delivery, DeliveryFilter, DeliveryRecipient, DeliveryReport, DeliveryState, FrozenDelivery,
    Store, StoreError, TransportState,
};
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde_json::json;
use std::borrow::Cow;

pub struct OutboxCommand;

const LIMIT_DEFAULT: &str = "50";
const LIMIT_MAX: i64 = 10_000;
/// Default states of `list`: mail that may need an operator.
const UNFINISHED: [DeliveryState; 5] = [
    DeliveryState::Queued,
    DeliveryState::Sending,
    DeliveryState::Committing,
    DeliveryState::Held,
    DeliveryState::Failed,
];

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
            .subcommand(list_command())
            .subcommand(with_id("show", "Show one delivery: recipients, states, last replies").arg(raw))
            .subcommand(retry_command())
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
        context: &'a Context,
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
                    retry_many(context, &store, args).await
                }
                "list" => list(context, &store, args).await,
                "show" => show(context, &store, args).await,
                command => change(context, &store, command, args).await,
            }
        })
    }
}

fn retry_command() -> clap::Command {
    let every = |name: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .action(ArgAction::SetTrue)
            .help(help)
    };
    clap::Command::new("retry")
        .about("Send a failed, held or deferred delivery now")
        .arg(
            Arg::new("id")
                .value_name("ID")
                .conflicts_with_all(["all-failed", "held"])
                .help("Id of a delivery, as `list` shows it"),
        )
        .arg(every(
            "all-failed",
            "Every failed delivery; recipients who have the mail do not get it again",
        ))
        .arg(every("held", "Every held delivery"))
        .group(
            clap::ArgGroup::new("which")
                .args(["id", "all-failed", "held"])
                .multiple(true)
                .required(true),
        )
}

fn list_command() -> clap::Command {
    let states = PossibleValuesParser::new(DeliveryState::ALL.map(DeliveryState::as_str));
    clap::Command::new("list")
        .about(
            "List deliveries, newest first; without options those that are not done or cancelled",
        )
        .arg(
            Arg::new("state")
                .long("state")
                .value_name("STATE")
                .value_parser(states)
                .action(ArgAction::Append)
                .help("Only deliveries in this state; may be given more than once"),
        )
        .arg(
            Arg::new("all")
                .long("all")
                .action(ArgAction::SetTrue)
                .conflicts_with("state")
                .help("Every state"),
        )
        .arg(
            Arg::new("persona")
                .long("persona")
                .value_name("ID")
                .help("Only this persona's"),
        )
        .arg(
            Arg::new("limit")
                .long("limit")
                .value_name("N")
                .value_parser(value_parser!(i64).range(1..=LIMIT_MAX))
                .default_value(LIMIT_DEFAULT)
                .help("Show so many at most"),
        )
}

async fn list(context: &Context, store: &Store, args: &ArgMatches) -> anyhow::Result<Exit> {
    let named = args.get_many::<String>("state").into_iter().flatten();
    let named: Vec<DeliveryState> = named
        .filter_map(|name| DeliveryState::parse(name))
        .collect();
    let states = match (args.get_flag("all"), named.is_empty()) {
        (true, _) => Vec::new(),
        (false, true) => UNFINISHED.to_vec(),
        (false, false) => named,
    };
    let persona = persona_of(context, store, args).await?;
    let limit = args
        .get_one::<i64>("limit")
        .and_then(|limit| u32::try_from(*limit).ok())
        .unwrap_or(u32::MAX);
    let deliveries = store
        .list_deliveries(&DeliveryFilter {
            states,
            persona,
            limit,
        })
        .await?;
    if context.json() {
        context.screen.json(&deliveries)?;
        return Ok(Exit::Ok);
    }
    if let Some(health) = store
        .transport_health()
        .await?
        .filter(|h| h.state != TransportState::Well)
    {
        let next = health
            .next_probe_at
            .map(|at| format!("; next try at {at}"))
            .unwrap_or_default();
        let (state, since, reason) = (
            health.state.as_str(),
            health.since,
            output::one_line(&health.reason),
        );
        let what = if next.is_empty() {
            "has failed"
        } else {
            "rests"
        };
        output::remark(&format!(
            "mail out {what} since {since} ({state}): {reason}{next}"
        ));
    }
    let lines = deliveries.iter().map(|delivery| {
        let to: Vec<&str> = delivery
            .recipients
            .iter()
            .map(|recipient| recipient.recipient.as_str())
            .collect();
        vec![
            delivery.id.to_string(),
            delivery.persona.to_string(),
            state(delivery),
            delivery.attempts.to_string(),
            time(delivery.next_attempt_at),
            to.join(", "),
            delivery.subject.clone(),
        ]
    });
    let columns = Columns::of(&["ID", "PERSONA", "STATE", "TRIES", "NEXT", "TO", "SUBJECT"])
        .optional(&["TRIES", "PERSONA"]);
    context
        .screen
        .listing(columns, &lines.collect::<Vec<_>>(), "nothing is queued")?;
    Ok(Exit::Ok)
}

async fn show(context: &Context, store: &Store, args: &ArgMatches) -> anyhow::Result<Exit> {
    let FrozenDelivery { delivery, bytes } = store
        .delivery(&id(store, args).await?)
        .await
        .map_err(named_failure)?;
    let raw = args.get_flag("raw");
    let reports = store.delivery_reports(&delivery.id).await?;
    if context.json() {
        context.screen.json(&DeliveryDetail {
            delivery: &delivery,
            reports: &reports,
            raw: raw.then(|| String::from_utf8_lossy(&bytes)),
        })?;
        return Ok(Exit::Ok);
    }
    if raw {
        context.screen.bytes(&bytes)?;
        return Ok(Exit::Ok);
    }
    let from = if delivery.envelope_from.is_empty() {
        "<>"
    } else {
        &delivery.envelope_from
    };
    context.screen.fields(&[
        ("Delivery", delivery.id.to_string()),
        ("Persona", delivery.persona.to_string()),
        ("Subject", delivery.subject.clone()),
        ("Sender", from.to_owned()),
        ("Size", format!("{} bytes", delivery.size_bytes)),
        ("State", state(&delivery)),
        ("Tries", delivery.attempts.to_string()),
        ("Next try", time(delivery.next_attempt_at)),
        ("Queued at", delivery.created_at.to_string()),
        ("Finished at", time(delivery.finished_at)),
        ("Message", delivery.message_id.to_string()),
        (
            "Run",
            delivery
                .run_id
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
        ),
    ])?;
    let lines: Vec<Vec<String>> = delivery.recipients.iter().map(recipient_line).collect();
    context.screen.line("")?;
    context.screen.table(
        &["RECIPIENT", "STATE", "TRIES", "NEXT", "LAST REPLY"],
        &lines,
    )?;
    if !reports.is_empty() {
        context.screen.line("")?;
        let lines: Vec<Vec<String>> = reports.iter().map(report_line).collect();
        context.screen.table(
            &["CAME BACK", "RECIPIENT", "SAYS", "REASON", "DIAGNOSTIC"],
            &lines,
        )?;
    }
    Ok(Exit::Ok)
}

async fn retry_many(context: &Context, store: &Store, args: &ArgMatches) -> anyhow::Result<Exit> {
    let mut queued = Vec::new();
    for (flag, state) in [
        ("all-failed", DeliveryState::Failed),
        ("held", DeliveryState::Held),
    ] {
        if args.get_flag(flag) {
            queued.extend(store.retry_deliveries(state).await?);
        }
    }
    if context.json() {
        context
            .screen
            .json(&queued.iter().map(DeliveryId::as_str).collect::<Vec<_>>())?;
        return Ok(Exit::Ok);
    }
    for id in &queued {
        context.screen.line(id.as_str())?;
    }
    output::remark(match queued.len() {
        0 => "there is none",
        _ => "queued for now; a running engine sends them",
    });
    Ok(Exit::Ok)
}

async fn health(context: &Context, store: &Store) -> anyhow::Result<Exit> {
    let health = store.transport_health().await?;
    let state = health
        .as_ref()
        .map_or(TransportState::Well, |health| health.state);
    let since = health.as_ref().map(|health| health.since);
    let next = health.as_ref().and_then(|health| health.next_probe_at);
    let reason = health.map(|health| health.reason).unwrap_or_default();
    if context.json() {
        let text = |at: Option<Timestamp>| at.map(|at| at.to_string());
        context.screen.json(&json!({
            "state": state.as_str(), "since": text(since), "reason": reason, "next_probe_at": text(next),
        }))?;
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

fn dkim(context: &Context) -> anyhow::Result<Exit> {
    context.require_workspace()?;
    let config = context.config()?;
    let signers = &config.gateway.signers;
    if context.json() {
        let records = signers.iter().map(|signer| {
            let record = signer.record();
            json!({ "name": record.name, "type": "TXT", "text": record.text, "algorithm": signer.algorithm() })
        });
        context.screen.json(&records.collect::<Vec<_>>())?;
        return Ok(Exit::Ok);
    }
    for signer in signers.iter() {
        context.screen.line(signer.record().zone_line())?;
    }
    if signers.is_empty() {
        output::remark("no key signs: name one in `outbound.dkim` of configs/gateway.json");
    }
    Ok(Exit::Ok)
}

async fn change(
    context: &Context,
    store: &Store,
    command: &str,
    args: &ArgMatches,
) -> anyhow::Result<Exit> {
    let id = id(store, args).await?;
    let (changed, remark) = match command {
        "retry" => (
            store.retry_delivery(&id).await,
            "queued for now; a running engine sends it",
        ),
        "cancel" => (store.cancel_delivery(&id).await, "cancelled"),
        _ => (
            store.hold_delivery(&id).await,
            "held; `attache outbox retry` lets it go",
        ),
    };
    changed.map_err(named_failure)?;
    if context.json() {
        let delivery = store.delivery(&id).await.map_err(named_failure)?.delivery;
        context.screen.json(&delivery)?;
    } else {
        output::remark(remark);
    }
    Ok(Exit::Ok)
}

/// Finds the delivery by its id or a prefix of it.
async fn id(store: &Store, args: &ArgMatches) -> anyhow::Result<DeliveryId> {
    let piece = args.get_one::<String>("id").map_or("", String::as_str);
    store.find_delivery(piece).await.map_err(named_failure)
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

/// Columns of a delivery report, with the evidence for its origin.
fn report_line(report: &DeliveryReport) -> Vec<String> {
    let status = report
        .status
        .as_deref()
        .map(|status| format!(" {status}"))
        .unwrap_or_default();
    let permanent = if report.is_hard { ", permanent" } else { "" };
    let doubt = if report.believed { "" } else { " (not proven)" };
    let says = if report.action == ReportAction::None {
        report.kind.as_str()
    } else {
        report.action.as_str()
    };
    vec![
        report.at.to_string(),
        report.recipient.clone(),
        format!("{says}{doubt}"),
        format!("{}{status}{permanent}", report.reason),
        report.diagnostic.clone(),
    ]
}

/// A delivery with the reports on it.
#[derive(Serialize)]
struct DeliveryDetail<'a> {
    #[serde(flatten)]
    delivery: &'a Delivery,
    reports: &'a [DeliveryReport],
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<Cow<'a, str>>,
}

fn time(at: Option<Timestamp>) -> String {
    at.map(|at| at.to_string()).unwrap_or_default()
}

fn recipient_line(recipient: &DeliveryRecipient) -> Vec<String> {
    let code = recipient
        .last_code
        .map(|code| format!("{code} "))
        .unwrap_or_default();
    vec![
        recipient.recipient.clone(),
        recipient.state.as_str().to_owned(),
        recipient.attempts.to_string(),
        time(recipient.next_attempt_at),
        format!(
            "{code}{}",
            recipient.last_reply.as_deref().unwrap_or_default()
        ),
    ]
}
