//! `attache outbox list|show|retry|cancel|hold|health|check|dkim`: outbound mail under way, the
//! operator's actions on it, the health of the transport, and the DNS records by which receivers
//! verify our signatures.
//!
//! Works beside a running engine, which sees the changes at its next poll.

use super::args::{LimitArg, persona_of};
use super::screen::Columns;
use super::{CommandContext, Exit, Failure, refuse, screen};
use crate::clock::{Clock, SystemClock};
use crate::config::{BounceAddress, Config, TransportSettings};
use crate::domain::{DeliveryId, ReportAction, Timestamp, bounce_address};
use crate::gateway::outbound;
use crate::gateway::outbound::{Checked, Obstacle, Setup, SetupError};
use crate::store::{
    Delivery, DeliveryFilter, DeliveryRecipient, DeliveryReport, DeliveryState, FrozenDelivery,
    Store, StoreError, TransportState,
};
use clap::builder::PossibleValuesParser;
use serde::Serialize;
use serde_json::json;
use std::borrow::Cow;
use std::sync::Arc;

/// List outbound mail, retry it, hold it back, cancel it
#[derive(clap::Subcommand)]
pub enum OutboxCommand {
    List(ListOutbox),
    /// Show one delivery: recipients, states, last replies
    Show {
        /// Id of a delivery, as `list` shows it
        id: String,
        /// Print the mail itself, exactly as every attempt sends it
        #[arg(long)]
        raw: bool,
    },
    Retry(RetryOutbox),
    /// Give up a queued or held delivery
    Cancel {
        /// Id of a delivery, as `list` shows it
        id: String,
    },
    /// Keep a queued delivery back until it is retried or cancelled
    Hold {
        /// Id of a delivery, as `list` shows it
        id: String,
    },
    /// Say whether mail can go out, and if not, why and until when
    Health,
    /// Connect to the mail server, log in and ask whether the personas may send, without sending anything
    Check,
    /// Print the DNS records of the keys that sign, for the domain's zone
    Dkim,
}

/// Send a failed, held or deferred delivery now
#[derive(clap::Args)]
#[group(required = true, multiple = true)]
pub struct RetryOutbox {
    /// Id of a delivery, as `list` shows it
    #[arg(conflicts_with_all = ["all_failed", "held"])]
    id: Option<String>,
    /// Every failed delivery; recipients who have the mail do not get it again
    #[arg(long)]
    all_failed: bool,
    /// Every held delivery
    #[arg(long)]
    held: bool,
}

impl OutboxCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        match self {
            Self::Check => return check(context).await,
            Self::Dkim => return dkim(context),
            _ => {}
        }
        let store = context.shared_store().await?;
        let find = async |id: String| store.find_delivery(&id).await.map_err(named_failure);
        let (id, changed, remark) = match self {
            Self::List(it) => return it.run(context, &store).await,
            Self::Show { id, raw } => {
                return show(context, &store, &find(id).await?, raw).await;
            }
            Self::Retry(RetryOutbox { id: Some(id), .. }) => {
                let id = find(id).await?;
                let changed = store.retry_delivery(&id).await;
                (id, changed, "queued for now; a running engine sends it")
            }
            Self::Retry(all) => return all.run(context, &store).await,
            Self::Cancel { id } => {
                let id = find(id).await?;
                let changed = store.cancel_delivery(&id).await;
                (id, changed, "cancelled")
            }
            Self::Hold { id } => {
                let id = find(id).await?;
                let changed = store.hold_delivery(&id).await;
                (id, changed, "held; `attache outbox retry` lets it go")
            }
            _ => return health(context, &store).await,
        };
        changed.map_err(named_failure)?;
        if context.json() {
            let delivery = store.delivery(&id).await.map_err(named_failure)?.delivery;
            context.screen.json(&delivery)?;
        } else {
            screen::remark(remark);
        }
        Ok(Exit::Ok)
    }
}

impl RetryOutbox {
    async fn run(self, context: &CommandContext, store: &Store) -> anyhow::Result<Exit> {
        let mut queued = Vec::new();
        if self.all_failed {
            queued.extend(store.retry_deliveries(DeliveryState::Failed).await?);
        }
        if self.held {
            queued.extend(store.retry_deliveries(DeliveryState::Held).await?);
        }
        if context.json() {
            let queued = queued.iter().map(DeliveryId::as_str);
            context.screen.json(&queued.collect::<Vec<_>>())?;
            return Ok(Exit::Ok);
        }
        for id in &queued {
            context.screen.line(id.as_str())?;
        }
        screen::remark(match queued.len() {
            0 => "there is none",
            _ => "queued for now; a running engine sends them",
        });
        Ok(Exit::Ok)
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
    context.report(
        &json!({
            "state": state.as_str(),
            "since": since,
            "reason": reason,
            "next_probe_at": next,
        }),
        |screen| {
            Ok(screen.fields(&[
                ("Transport", state.as_str().to_owned()),
                ("Since", time(since)),
                ("Reason", reason.clone()),
                ("Next try", time(next)),
            ])?)
        },
    )
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

/// A DNS record of a DKIM key.
#[derive(Serialize)]
struct DnsRecord {
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    text: String,
    algorithm: &'static str,
}

/// Placeholder for the token of a delivery in an envelope sender, of equal length.
const TOKEN: &str = "000000000000000check";

async fn check(context: &CommandContext) -> anyhow::Result<Exit> {
    context.require_workspace()?;
    let checked = way_out(&context.config()?, Obstacle::remedy).await?;
    context.report(
        &json!({
            "to": checked.to,
            "ok": true,
            "seen": checked.seen,
        }),
        |screen| {
            Ok(screen.line(format!(
                "{}\tcan be used: {}",
                checked.to,
                checked.seen.join("; ")
            ))?)
        },
    )
}

/// Goes through every phase that is possible without sending mail.
///
/// Errors: no way out is configured, or the server's words with a `remedy`.
pub async fn way_out(
    config: &Config,
    remedy: fn(&Obstacle) -> &'static str,
) -> anyhow::Result<Checked> {
    let Some(transport) = &config.gateway.outbound else {
        return refuse(
            Exit::Workspace,
            "no way out is configured: answers are stored and not sent",
            "name one in `outbound` of configs/gateway.json",
        );
    };
    probe(config, transport).await?.map_err(|obstacle| {
        let message = format!("`{}` cannot be used: {}", obstacle.to, obstacle.reply);
        Failure::new(Exit::Unavailable, message)
            .hint(remedy(&obstacle))
            .into()
    })
}

/// Goes through all phases that are possible without sending mail. Errors: the transport cannot be built.
pub async fn probe(
    config: &Config,
    transport: &TransportSettings,
) -> Result<Result<Checked, Obstacle>, SetupError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let setup = Setup {
        transport,
        host_name: &config.gateway.host_name,
        clock: &clock,
    };
    let transport = outbound::transport(&setup)?;
    Ok(transport.check(&senders(config)).await)
}

/// The distinct envelope senders of the personas' mails.
fn senders(config: &Config) -> Vec<String> {
    let mut senders: Vec<String> = Vec::new();
    for persona in config.personas.iter() {
        let sender = match config.gateway.bounce_address {
            BounceAddress::Tagged => bounce_address(&persona.address, TOKEN).to_string(),
            BounceAddress::Plain => persona.address.to_string(),
        };
        if !senders.contains(&sender) {
            senders.push(sender);
        }
    }
    senders
}

/// Default states of `list`: mail that may need an operator.
const UNFINISHED: [DeliveryState; 5] = [
    DeliveryState::Queued,
    DeliveryState::Sending,
    DeliveryState::Committing,
    DeliveryState::Held,
    DeliveryState::Failed,
];

/// List deliveries, newest first; without options those that are not done or cancelled
#[derive(clap::Args)]
pub struct ListOutbox {
    /// Only deliveries in this state; may be given more than once
    #[arg(long, value_parser = PossibleValuesParser::new(DeliveryState::ALL.map(DeliveryState::as_str)))]
    state: Vec<String>,
    /// Every state
    #[arg(long, conflicts_with = "state")]
    all: bool,
    /// Only this persona's
    #[arg(long, value_name = "ID")]
    persona: Option<String>,
    #[command(flatten)]
    page: LimitArg,
}

impl ListOutbox {
    pub async fn run(self, context: &CommandContext, store: &Store) -> anyhow::Result<Exit> {
        let named = self.state.iter();
        let named: Vec<DeliveryState> = named
            .filter_map(|name| DeliveryState::parse(name))
            .collect();
        let states = match (self.all, named.is_empty()) {
            (true, _) => Vec::new(),
            (false, true) => UNFINISHED.to_vec(),
            (false, false) => named,
        };
        let filter = DeliveryFilter {
            after: None,
            states,
            persona: persona_of(context, store, self.persona).await?,
            limit: self.page.limit,
        };
        let deliveries = store.list_deliveries(&filter).await?;
        if !context.json() {
            remark_health(store).await?;
        }
        let row = |delivery: &Delivery| {
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
        };
        let columns = Columns::of(&["ID", "PERSONA", "STATE", "TRIES", "NEXT", "TO", "SUBJECT"])
            .optional(&["TRIES", "PERSONA"]);
        context.list(&deliveries, columns, "nothing is queued", row)
    }
}

/// Tells on stderr that no mail can go out.
async fn remark_health(store: &Store) -> Result<(), StoreError> {
    let health = store.transport_health().await?;
    let Some(health) = health.filter(|health| health.state != TransportState::Well) else {
        return Ok(());
    };
    let next = health
        .next_probe_at
        .map(|at| format!("; next try at {at}"))
        .unwrap_or_default();
    let (state, since, reason) = (
        health.state.as_str(),
        health.since,
        screen::one_line(&health.reason),
    );
    let what = if next.is_empty() {
        "has failed"
    } else {
        "rests"
    };
    screen::remark(&format!(
        "mail out {what} since {since} ({state}): {reason}{next}"
    ));
    Ok(())
}

pub async fn show(
    context: &CommandContext,
    store: &Store,
    id: &DeliveryId,
    raw: bool,
) -> anyhow::Result<Exit> {
    let FrozenDelivery { delivery, bytes } = store.delivery(id).await.map_err(named_failure)?;
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
        ("Queued for", delivery.created_at.to_string()),
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
