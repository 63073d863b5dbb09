//! What comes back: bounces read, matched with what was sent, believed or not, and never answered.

mod authenticated;
mod unauthenticated;
mod oracle;
mod shapes;

use crate::app::db;
use crate::app::{TestApp, Workspace, note};
use attache::domain::{Address, Arrival, DeliveryId, Envelope, Letter, Via};
use attache::gateway::intake_contract::{Accepted, CopyOutcome, Refusal};
use attache::store::{Delivery, RecipientState};
use serde_json::{Value, json};
use std::path::PathBuf;

/// A mail of Ada's that was handed over.
struct Sent {
    id: DeliveryId,
    envelope_from: String,
    rfc_message_id: String,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/bounces")
}

/// Every shape with what is to be read in it.
fn shapes() -> Vec<(String, Value)> {
    let text = std::fs::read_to_string(folder().join("expected.json")).expect("what is expected");
    let Value::Object(all) = serde_json::from_str(&text).expect("json") else {
        panic!("an object")
    };
    all.into_iter().collect()
}

/// A shape about a mail with this envelope sender and Message-ID.
fn shape(name: &str, to: &str, id: &str) -> String {
    let text = std::fs::read_to_string(folder().join(format!("{name}.eml"))).expect("a shape");
    text.replace("{{return}}", to).replace("{{id}}", id)
}

fn workspace() -> Workspace {
    Workspace::new(&json!({ "rules": [{ "say": "From seven to ten." }] })).talkative()
}

/// Lets Ada answer Bob, and gives the answer as it left.
async fn send(app: &TestApp, id: &str) -> Sent {
    let run = app.run_of(&note(id, "", "When is breakfast?")).await;
    app.drain().await;
    let sql =
        "SELECT d.id, d.envelope_from, m.message_id FROM deliveries d JOIN messages m ON m.id = d.message_id
        WHERE d.run_id = $1 AND d.state = 'done'";
    let row = app.row(sql, &run).await;
    let text = |i: usize| row[i].clone().expect("a column");
    Sent {
        id: DeliveryId::new(text(0)),
        envelope_from: text(1),
        rfc_message_id: text(2),
    }
}

/// A letter as it comes from a mail system, by default with the null sender.
async fn returns(app: &TestApp, to: &str, eml: &str) -> Result<Accepted, Refusal> {
    comes(app, None, to, eml).await
}

async fn comes(
    app: &TestApp,
    from: Option<&str>,
    to: &str,
    eml: &str,
) -> Result<Accepted, Refusal> {
    let address = |text: &str| Address::parse(text).expect("an address");
    let envelope = Envelope {
        mail_from: from.map(address),
        rcpt_to: vec![address(to)],
        helo: "relay.example".to_owned(),
        peer: None,
        via: Via::Smtp,
        arrival: Arrival::default(),
    };
    let bytes = eml.replace('\n', "\r\n").into_bytes();
    app.engine.intake().accept(Letter { envelope, bytes }).await
}

/// The rule that held a letter that was taken.
fn rule(taken: Result<Accepted, Refusal>) -> String {
    match &taken.expect("the letter is taken").copies[0].outcome {
        CopyOutcome::Filed(rule) => rule.clone(),
        other => panic!("not filed but {other:?}"),
    }
}

async fn delivery(app: &TestApp, sent: &Sent) -> Delivery {
    app.engine
        .store
        .delivery(&sent.id)
        .await
        .expect("the delivery")
        .delivery
}

async fn state(app: &TestApp, sent: &Sent) -> RecipientState {
    delivery(app, sent).await.recipients[0].state
}

/// Facts for the owner of one kind.
async fn notices(app: &TestApp, kind: &str) -> usize {
    let mut rows = app.workspace.rows().await;
    let sql = "SELECT summary FROM notices WHERE kind = $1";
    db::query_scalar::<String>(sql)
        .bind(kind)
        .fetch_all(&mut rows)
        .await
        .expect("notices")
        .len()
}
