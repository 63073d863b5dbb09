//! Notes to the senders of letters whose run failed or takes long: who gets one, what it says, and that it is one.

use crate::app::db;
use crate::app::{PROVEN, TestApp, Workspace, note};
use serde_json::{Value, json};
use std::time::Duration;

/// A model that refuses every request: its runs fail for good.
fn broken() -> Value {
    json!({ "rules": [{ "error": { "class": "bad_request", "message": "bad key sk-secret" } }] })
}

fn workspace(script: &Value) -> Workspace {
    let workspace = Workspace::new(script);
    // As it is without a word about it.
    workspace.set("configs/gateway.json", "/sender_notes", json!({}));
    workspace.write_json(
        "configs/security.json",
        &json!({
            "access": { "allow": ["*"] },
            "authentication": { "trusted_relays": [{ "peers": ["127.0.0.1"], "authserv_id": "mx.engine.test" }] },
        }),
    );
    workspace
}

/// A letter of a contact, and one that nothing proves.
fn of_contact(id: &str) -> String {
    note(&format!("{id}@guest.example"), PROVEN, "When is breakfast?")
}

fn of_nobody(id: &str) -> String {
    note(&format!("{id}@guest.example"), "", "When is breakfast?")
}

/// What became of the notes: `kind rule-or-sent`.
async fn notes(app: &TestApp) -> Vec<String> {
    let mut rows = app.workspace.rows().await;
    let sql =
        "SELECT kind || ' ' || coalesce(withheld, iif(delivery_id IS NULL, '-', 'sent')) AS line
        FROM sender_notes ORDER BY created_at, run_id";
    let found = db::query(sql).fetch_all(&mut rows).await.expect("rows");
    found.iter().map(|row| row.get("line")).collect()
}

#[tokio::test]
async fn a_contact_is_told_once_that_the_run_failed_and_not_why() {
    let app = workspace(&broken()).start().await;
    let run = app.run_of(&of_contact("a")).await;
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "failed");
    let sent = app.sent();
    assert_eq!(sent.len(), 1);
    let mail = &sent[0];
    assert!(mail.text.contains("could not be answered"), "{}", mail.text);
    for secret in ["sk-secret", "scripted", "bad_request", "attache"] {
        assert!(!mail.text.contains(secret), "{secret} in {}", mail.text);
    }
    assert_eq!(mail.from[0].name, "Ada");
    assert_eq!(mail.to[0].spec, "bob@guest.example");
    assert_eq!(mail.in_reply_to, ["a@guest.example"]);
    assert_eq!(
        mail.automatic.auto_submitted.as_deref(),
        Some("auto-replied")
    );
    app.drain().await;
    let app = app.restart().await;
    app.drain().await;
    assert_eq!(app.sent().len(), 1);
    assert_eq!(notes(&app).await, ["failed sent"]);
    app.check().await;
}

#[tokio::test]
async fn the_unproven_are_told_only_where_the_configuration_says_so() {
    let app = workspace(&broken()).start().await;
    app.run_of(&of_nobody("a")).await;
    app.drain().await;
    assert!(app.sent().is_empty());
    assert_eq!(notes(&app).await, ["failed trust"]);
    app.workspace.set(
        "configs/gateway.json",
        "/sender_notes",
        json!({ "trust_min": "unauthenticated" }),
    );
    let app = app.restart().await;
    app.run_of(&of_nobody("b")).await;
    app.drain().await;
    assert_eq!(app.sent().len(), 1, "and not for the run of before");
    app.check().await;
}

#[tokio::test]
async fn nobody_is_told_where_notes_are_off() {
    let workspace = workspace(&broken());
    workspace.set(
        "configs/gateway.json",
        "/sender_notes",
        json!({ "failed": false, "slow_after": "0s" }),
    );
    let app = workspace.start().await;
    app.run_of(&of_contact("a")).await;
    app.drain().await;
    app.workspace.clock.advance(Duration::from_secs(7200));
    app.drain().await;
    assert!(app.sent().is_empty());
    assert!(notes(&app).await.is_empty());
    app.check().await;
}

#[tokio::test]
async fn a_letter_that_a_rule_had_filed_gets_no_note() {
    let app = workspace(&broken()).start().await;
    let vacation = note(
        "v@guest.example",
        &format!("{PROVEN}Auto-Submitted: auto-replied\n"),
        "I am away.",
    );
    let accepted = app.receive(&vacation).await.expect("taken");
    let message = accepted.copies[0].message.clone();
    let store = &app.engine.store;
    store.answer_message(&message).await.expect("a run");
    app.drain().await;
    assert!(app.sent().is_empty());
    assert_eq!(notes(&app).await, ["failed filed"]);
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn notes_count_as_answers_and_keep_within_their_limits() {
    let workspace = workspace(&broken());
    workspace.set(
        "configs/gateway.json",
        "/limits",
        json!({ "replies_per_hour_max": 2, "replies_per_day_max": 100 }),
    );
    let app = workspace.start().await;
    for id in ["a", "b", "c"] {
        let _run_or_filed = app.receive(&of_contact(id)).await.expect("taken");
        app.drain().await;
    }
    assert_eq!(app.sent().len(), 2);
    app.check().await;
}

#[tokio::test]
async fn a_run_that_takes_long_is_told_once_and_answered_all_the_same() {
    let script = json!({ "rules": [{ "say": "From seven to ten." }] });
    let app = workspace(&script).start().await;
    let ada = attache::domain::PersonaId::parse("ada").expect("an id");
    // The run waits for a model whose breaker is open: here, for a lease that the test holds.
    let run = app.run_of(&of_contact("a")).await;
    let mut rows = app.workspace.rows().await;
    db::query("UPDATE runs SET state = 'waiting_retry', next_attempt_at = '2026-11-21T00:00:00.000Z' WHERE id = $1")
        .bind(&run)
        .execute(&mut rows)
        .await
        .expect("parked");
    app.drain().await;
    assert!(app.sent().is_empty());
    app.workspace.clock.advance(Duration::from_secs(3601));
    // A halted persona tells nobody.
    app.engine.store.halt(Some(&ada), "").await.expect("halted");
    app.drain().await;
    assert!(notes(&app).await.is_empty());
    app.engine
        .store
        .lift_halt(Some(&ada))
        .await
        .expect("lifted");
    app.workspace.clock.advance(Duration::from_secs(16));
    app.drain().await;
    assert_eq!(notes(&app).await, ["slow sent"]);
    assert!(app.sent()[0].text.contains("takes longer"));
    app.workspace.clock.advance(Duration::from_secs(24 * 3600));
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    let sent = app.sent();
    assert_eq!(sent.len(), 2, "the note is not the answer");
    assert!(sent[1].text.contains("seven"));
    app.check().await;
}
