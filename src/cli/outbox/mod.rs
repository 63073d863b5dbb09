//! `attache outbox list|show|retry|cancel|hold|health|check|dkim`: outbound mail under way, the
//! operator's actions on it, the health of the transport, and the DNS records by which receivers
//! verify our signatures.
//!
//! Works beside a running engine, which sees the changes at its next poll.

pub(in crate::cli) mod check;
mod list;
mod show;

use super::{CommandContext, Exit, Failure, screen};
use crate::domain::{DeliveryId, Timestamp};
use crate::store::{Delivery, DeliveryState, Store, StoreError, TransportState};
use serde::Serialize;

/// List outbound mail, retry it, hold it back, cancel it
#[derive(clap::Subcommand)]
pub enum OutboxCommand {
    List(list::ListOutbox),
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
            Self::Check => return check::check(context).await,
            Self::Dkim => return dkim(context),
            _ => {}
        }
        let store = context.shared_store().await?;
        let find = async |id: String| store.find_delivery(&id).await.map_err(named_failure);
        let (id, changed, remark) = match self {
            Self::List(it) => return it.run(context, &store).await,
            Self::Show { id, raw } => {
                return show::show(context, &store, &find(id).await?, raw).await;
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
