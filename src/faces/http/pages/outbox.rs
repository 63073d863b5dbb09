//! The outbox: mails on their way, what each server said last, and why nothing moves.

use crate::domain::DeliveryId;
use crate::http::call::Call;
use crate::http::failure::PageError;
use crate::http::words::{StateWords, delivery_state};
use crate::store::{Delivery, DeliveryFilter, DeliveryState, TransportState};
use axum::response::Response;
use serde::Serialize;
use serde_json::json;

/// Most mails that the page shows.
const ROWS_MAX: u32 = 100;

/// Choices of the filter, with the states of each.
const CHOICES: &[(&str, &[DeliveryState])] = &[
    ("waiting", &DeliveryState::UNDERWAY),
    ("held", &[DeliveryState::Held]),
    ("failed", &[DeliveryState::Failed]),
    ("delivered", &[DeliveryState::Done]),
    ("cancelled", &[DeliveryState::Cancelled]),
];

#[derive(Serialize)]
struct OutboxRow {
    #[serde(flatten)]
    delivery: Delivery,
    outcome: StateWords,
    may_retry: bool,
    may_hold: bool,
    may_cancel: bool,
}

pub(in crate::http) async fn show(call: Call) -> Result<Response, PageError> {
    let (store, state) = (&call.context.store, call.query("state"));
    let states = CHOICES.iter().find(|(name, _)| *name == state);
    let filter = DeliveryFilter {
        after: None,
        states: states
            .map(|(_, states)| states.to_vec())
            .unwrap_or_default(),
        persona: None,
        limit: ROWS_MAX,
    };
    let rows: Vec<_> = store
        .list_deliveries(&filter)
        .await?
        .into_iter()
        .map(row)
        .collect();
    let health = store.transport_health().await?;
    let health = health.filter(|health| health.state != TransportState::Well);
    let page = json!({
        "rows": rows,
        "choices": CHOICES.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        "state": state,
        "next_probe_at": health
            .as_ref()
            .and_then(|health| health.next_probe_at)
            .map(|at| at.to_string()),
        "stopped": health.map(|health| health.reason).unwrap_or_default(),
        "has_transport": call.context.config.gateway.outbound.is_some(),
    });
    call.page("outbox.html", &page).await
}

fn row(delivery: Delivery) -> OutboxRow {
    let state = delivery.state;
    OutboxRow {
        outcome: delivery_state(state.as_str(), delivery.possible_duplicate),
        may_retry: matches!(
            state,
            DeliveryState::Failed | DeliveryState::Held | DeliveryState::Queued
        ),
        may_hold: state == DeliveryState::Queued,
        may_cancel: matches!(state, DeliveryState::Queued | DeliveryState::Held),
        delivery,
    }
}

pub(in crate::http) async fn retry(call: Call) -> Result<Response, PageError> {
    let id = DeliveryId::new(call.param("id"));
    call.context.store.retry_delivery(&id).await?;
    done(&call, &id).await
}

pub(in crate::http) async fn hold(call: Call) -> Result<Response, PageError> {
    let id = DeliveryId::new(call.param("id"));
    call.context.store.hold_delivery(&id).await?;
    done(&call, &id).await
}

pub(in crate::http) async fn cancel(call: Call) -> Result<Response, PageError> {
    let id = DeliveryId::new(call.param("id"));
    call.context.store.cancel_delivery(&id).await?;
    done(&call, &id).await
}

async fn done(call: &Call, id: &DeliveryId) -> Result<Response, PageError> {
    call.context.wake();
    let changed = call.context.store.delivery(id).await?.delivery;
    call.done("/outbox", &changed)
}
