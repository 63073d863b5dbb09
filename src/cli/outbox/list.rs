//! `attache outbox list`: deliveries, newest first.

use super::{state, time};
use crate::cli::args::{LimitArg, persona_of};
use crate::cli::screen::Columns;
use crate::cli::{CommandContext, Exit, screen};
use crate::store::{Delivery, DeliveryFilter, DeliveryState, Store, StoreError, TransportState};
use clap::builder::PossibleValuesParser;

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
        context
            .screen
            .list(&deliveries, columns, "nothing is queued", row)?;
        Ok(Exit::Ok)
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
