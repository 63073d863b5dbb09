//! Everything that a run is made of counts for the next run, and not for the one that has begun.

use super::{Caller, Serving, answering};
use crate::app::{TestApp, Workspace, note};
use serde_json::{Value, json};
use std::time::Duration;

/// Answers with one sentence, after a while.
fn saying(text: &str) -> Value {
    json!({ "rules": [{ "say": text }] })
}

/// How the search of mail is offered to a model.
const SEARCH: &str = r#""name":"search_email""#;

/// Lets the model have another script.
fn take_script(workspace: &Workspace, file: &str) {
    workspace.set(
        "configs/inference.json",
        "/providers/scripted/script",
        json!(file),
    );
}

#[tokio::test]
async fn rules_prices_providers_and_texts_count_for_the_next_run() {
    let app = TestApp::start(json!({ "rules": [
        { "say": "Seven.", "usage": { "input_tokens": 1_000_000 } },
    ] }))
    .await;
    let first = app.run_of(&note("a1@guest.example", "", "When?")).await;
    app.drain().await;
    let before = app.prompts(&first).await;
    assert!(before[0].to_string().contains(SEARCH), "{before:?}");
    app.workspace.write_json(
        "configs/policy.json",
        &json!({ "rules": [{ "id": "h", "effect": "hide", "tool": "search_email" }] }),
    );
    app.workspace.write_json(
        "configs/prices.json",
        &json!({ "version": "w1", "prices": [{ "provider": "scripted", "model": "*", "input": 3.0, "output": 0 }] }),
    );
    app.workspace.write(
        "configs/prompts/system.md",
        "You are {{ persona.name }} of the new house.",
    );
    app.workspace.write_json(
        "configs/script-b.json",
        &json!({ "rules": [{ "say": "Eight.", "usage": { "input_tokens": 1_000_000 } }] }),
    );
    take_script(&app.workspace, "configs/script-b.json");
    assert!(app.engine.reload().await.expect("good").is_new);
    let second = app.run_of(&note("a2@guest.example", "", "When?")).await;
    app.drain().await;
    let after = app.prompts(&second).await[0].to_string();
    assert!(!after.contains(SEARCH), "{after}");
    assert!(after.contains("of the new house"), "{after}");
    let cost = "SELECT CAST(cost_micros AS TEXT) FROM runs WHERE id = $1";
    let (old, new) = (app.row(cost, &first).await, app.row(cost, &second).await);
    assert_eq!(new[0].as_deref(), Some("3000000"), "{new:?}");
    assert_ne!(old[0], new[0]);
    let said: Vec<String> = app.sent().into_iter().map(|mail| mail.text).collect();
    assert!(
        said[0].starts_with("Seven.") && said[1].starts_with("Eight."),
        "{said:?}"
    );
    app.check().await;
}

#[tokio::test]
async fn knowledge_counts_without_a_reload() {
    let workspace = Workspace::new(&answering());
    workspace.set(
        "configs/context.json",
        "/thread",
        json!(["persona", "knowledge", "current-input"]),
    );
    let app = workspace.start().await;
    for hour in ["eight", "nine"] {
        app.workspace.clock.advance(Duration::from_secs(120));
        app.workspace.write(
            "personas/ada/knowledge/house.md",
            &format!("# Breakfast\n\nFrom {hour} to ten.\n"),
        );
        let letter = note(&format!("{hour}@guest.example"), "", "When is breakfast?");
        let run = app.run_of(&letter).await;
        app.drain().await;
        let told = app.prompts(&run).await[0].to_string();
        assert!(told.contains(&format!("From {hour}")), "{told}");
    }
    app.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn a_run_that_has_begun_goes_on_with_what_it_began_with() {
    let workspace = Workspace::new(&json!({ "rules": [
        { "when": { "turn": 0 }, "delay_ms": 1500, "call": [{ "tool": "list_files" }] },
        { "say": "By the old book." },
    ] }));
    workspace.write_json("configs/script-b.json", &saying("By the new book."));
    let house = Serving::start(workspace).await;
    let mut caller = Caller::of(house.mail).await;
    caller.bring("ada@engine.test", "o1").await;
    house
        .until("SELECT count(*) FROM runs WHERE state = 'running'", 1)
        .await;
    take_script(&house.workspace, "configs/script-b.json");
    house.workspace.write_json(
        "configs/policy.json",
        &json!({ "rules": [{ "id": "h", "effect": "hide", "tool": "list_files" }] }),
    );
    assert!(house.reload().await.refused.is_empty());
    let running = "SELECT count(*) FROM runs WHERE state = 'running'";
    house.until(running, 1).await;
    caller.bring("ada@engine.test", "o2").await;
    let done = "SELECT count(*) FROM runs WHERE state = 'succeeded'";
    house.until(done, 2).await;
    let sent = "SELECT count(*) FROM deliveries WHERE state = 'done'";
    house.until(sent, 2).await;
    let app = house.ended().await.start().await;
    for (letter, book) in [("o1", "By the old book."), ("o2", "By the new book.")] {
        let answer = "SELECT text_body FROM messages WHERE in_reply_to LIKE '%' || $1 || '%'";
        let said = app.row(answer, letter).await;
        assert_eq!(said[0].as_deref(), Some(book), "{letter}");
    }
    app.check().await;
}

pub fn write_secret(workspace: &Workspace, line: &str) {
    workspace.write(".secrets", line);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(workspace.path().join(".secrets"), mode).expect("a mode");
}

#[tokio::test]
#[ignore = "second tier"]
async fn what_is_known_of_a_provider_is_forgotten_only_with_its_settings() {
    let down = json!({ "rules": [{ "error": { "class": "overloaded" } }] });
    let workspace = Workspace::new(&down).talkative();
    workspace.write_json("configs/script-b.json", &saying("Well."));
    workspace.set("configs/inference.json", "/providers/openai", json!({}));
    write_secret(&workspace, "OPENAI_API_KEY=sk-invented-one\n");
    let app = workspace.start().await;
    for number in 0..8 {
        app.run_of(&note(&format!("d{number}@guest.example"), "", "When?"))
            .await;
    }
    app.drain().await;
    let asked = "SELECT CAST(count(*) AS TEXT) FROM run_turns WHERE provider = $1";
    let before = app.row(asked, "scripted").await;
    app.workspace.write(
        "configs/prices.json",
        r#"{ "version": "w2", "prices": [] }"#,
    );
    app.engine.reload().await.expect("good");
    let rests = app.run_of(&note("rests@guest.example", "", "When?")).await;
    app.drain().await;
    assert_eq!(app.row(asked, "scripted").await, before, "it still rests");
    // The secret of another provider.
    write_secret(&app.workspace, "OPENAI_API_KEY=sk-invented-two\n");
    assert!(app.engine.reload().await.expect("good").is_new);
    app.run_of(&note("rests2@guest.example", "", "When?")).await;
    app.drain().await;
    assert_eq!(app.row(asked, "scripted").await, before, "it rests still");
    take_script(&app.workspace, "configs/script-b.json");
    app.engine.reload().await.expect("good");
    let well = app.run_of(&note("well@guest.example", "", "When?")).await;
    app.drain().await;
    assert_eq!(
        app.outcome(&rests).await.0,
        "waiting_retry",
        "until its time has come"
    );
    assert_eq!(app.outcome(&well).await.0, "succeeded");
}
