//! `attache outbox retry|cancel|hold`: the operator's actions on deliveries.

use super::{id, named_failure};
use crate::cli::{CommandContext, Exit, screen};
use crate::domain::DeliveryId;
use crate::store::{DeliveryState, Store};
use clap::{Arg, ArgAction, ArgMatches};

pub fn retry_command() -> clap::Command {
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

pub async fn retry_many(
    context: &CommandContext,
    store: &Store,
    args: &ArgMatches,
) -> anyhow::Result<Exit> {
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
    screen::remark(match queued.len() {
        0 => "there is none",
        _ => "queued for now; a running engine sends them",
    });
    Ok(Exit::Ok)
}

pub async fn change(
    context: &CommandContext,
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
        screen::remark(remark);
    }
    Ok(Exit::Ok)
}
