//! `attache outbox list`: deliveries, newest first.

use super::{state, time};
use crate::cli::args::persona_of;
use crate::cli::screen::Columns;
use crate::cli::{CommandContext, Exit, screen};
use crate::store::{DeliveryFilter, DeliveryState, Store, StoreError, TransportState};
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, value_parser};

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

pub fn command() -> clap::Command {
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

pub async fn list(
    context: &CommandContext,
    store: &Store,
    args: &ArgMatches,
) -> anyhow::Result<Exit> {
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
            after: None,
            states,
            persona,
            limit,
        })
        .await?;
    if context.json() {
        context.screen.json(&deliveries)?;
        return Ok(Exit::Ok);
    }
    remark_health(store).await?;
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
