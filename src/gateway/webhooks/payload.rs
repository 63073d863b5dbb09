//! The body of an event: its kind, its instant and ids. Pure.

use crate::config::Webhook;
use crate::domain::{
    DeliveryId, FeedKind, MessageId, PersonaId, RunId, ThreadId, Timestamp, WebhookEvent,
};
use crate::store::{FeedEvent, NewWebhookDelivery};
use serde_json::{Map, Value, json};

/// Type of the event that only a command sends.
pub const TEST_EVENT: &str = "webhook.test";

/// Returns what a webhook is told of an event of the feed; `None`: it is not told of it.
pub fn delivery_of(webhook: &Webhook, event: &FeedEvent, id: String) -> Option<NewWebhookDelivery> {
    let of = WebhookEvent::from_kind(event.kind)?;
    let persona = event.persona.as_ref();
    webhook.concerns(of, persona).then(|| NewWebhookDelivery {
        id,
        seq: event.seq,
        event: of,
        persona: persona.cloned(),
        body: body(of.as_str(), event.at, data(event)),
    })
}

/// Returns the body of the event by which a receiver is tried.
pub fn test_body(at: Timestamp) -> String {
    body(TEST_EVENT, at, Map::new())
}

fn body(of: &str, at: Timestamp, data: Map<String, Value>) -> String {
    json!({ "type": of, "timestamp": at, "data": data }).to_string()
}

/// The ids of an event, as the API takes them, its number in the feed, and its new state.
fn data(event: &FeedEvent) -> Map<String, Value> {
    let mut data = Map::new();
    let mut put = |key: &str, value: Option<&str>| {
        data.extend(value.map(|value| (key.to_owned(), value.into())));
    };
    put("state", Some(event.kind.state()));
    put("persona", event.persona.as_ref().map(PersonaId::as_str));
    put("thread", event.thread.as_ref().map(ThreadId::as_str));
    put("run", event.run.as_ref().map(RunId::as_str));
    put("message", event.message.as_ref().map(MessageId::as_str));
    put("delivery", event.delivery.as_ref().map(DeliveryId::as_str));
    put("approval", event.approval.as_deref());
    let item = event.item.as_deref();
    match event.kind {
        FeedKind::NoticeOpened => put("notice", item),
        FeedKind::MemoryProposed => put("memory", item),
        FeedKind::SlotMissed => {
            let parts = item.and_then(|item| serde_json::from_str::<[String; 2]>(item).ok());
            if let Some([responsibility, slot]) = parts {
                put("responsibility", Some(&responsibility));
                put("slot", Some(&slot));
            }
        }
        _ => {}
    }
    data.insert("seq".to_owned(), event.seq.into());
    data
}
