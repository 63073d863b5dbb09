//! The road, end to end: a letter in, a run, an answer out, everything in rows.

use crate::app::{TestApp, Workspace, note};
use attache::gateway::intake_contract::CopyOutcome;
use serde_json::{Value, json};

#[tokio::test]
async fn a_letter_is_answered_into_its_thread() {
    let app = TestApp::start(json!({ "turns": [{ "say": "From **seven** to ten." }] })).await;
    let run = app
        .run_of(&note(
            "q1@guest.example",
            "References: <q0@guest.example>\n",
            "When is breakfast?",
        ))
        .await;
    assert_eq!(app.drain().await.runs, 1);
    assert_eq!(
        app.outcome(&run).await,
        ("succeeded".into(), Some("answered".into()), None)
    );
    let sent = app.sent();
    assert_eq!(sent.len(), 1);
    let reply = &sent[0];
    assert_eq!(reply.subject, "Re: Breakfast");
    assert_eq!(reply.in_reply_to, ["q1@guest.example"]);
    assert_eq!(reply.references, ["q0@guest.example", "q1@guest.example"]);
    assert_eq!(reply.to[0].spec, "bob@guest.example");
    assert_eq!(reply.from[0].spec, "ada@engine.test");
    assert_eq!(
        reply.automatic.auto_submitted.as_deref(),
        Some("auto-replied")
    );
    assert!(reply.text.contains("seven"), "{}", reply.text);
    assert!(
        reply
            .message_id
            .as_ref()
            .is_some_and(|id| id.ends_with("@engine.test"))
    );
    app.check().await;
}

#[tokio::test]
async fn the_second_letter_sees_the_first_exchange_and_its_trace() {
    let app = TestApp::start(json!({ "rules": [
        { "when": { "turn": 0, "contains": "coffee" }, "say": "With coffee." },
        { "when": { "turn": 0 }, "call": [{ "tool": "read_file", "args": { "path": "knowledge/house.md" } }] },
        { "when": { "turn": 1 }, "say": "From seven to ten." },
    ] }))
    .await;
    app.run_of(&note("q1@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    let answer = app.sent().remove(0).message_id.expect("an id");
    let second = app
        .run_of(&note(
            "q2@guest.example",
            &format!("In-Reply-To: <{answer}>\n"),
            "And coffee?",
        ))
        .await;
    app.drain().await;
    let prompt = app.prompts(&second).await[0].to_string();
    for shown in [
        "When is breakfast?",
        "read_file",
        "From seven to ten.",
        "And coffee?",
    ] {
        assert!(prompt.contains(shown), "{shown} is missing in {prompt}");
    }
    let threads = app
        .row(
            "SELECT CAST(count(DISTINCT thread_id) AS TEXT) FROM messages WHERE $1 = $1",
            "",
        )
        .await;
    assert_eq!(threads[0].as_deref(), Some("1"));
    app.check().await;
}

#[tokio::test]
async fn the_same_letter_twice_runs_once_and_another_body_runs_again() {
    let app = TestApp::start(json!({ "rules": [{ "say": "Yes." }] })).await;
    let first = note("q1@guest.example", "", "Is there parking?");
    app.run_of(&first).await;
    let again = app.receive(&first).await.expect("taken");
    assert_eq!(again.copies[0].outcome, CopyOutcome::Duplicate);
    let routed =
        format!("Received: from elsewhere by here; Fri, 20 Nov 2026 09:00:00 +0000\n{first}");
    assert_eq!(
        app.receive(&routed).await.expect("taken").copies[0].outcome,
        CopyOutcome::Duplicate
    );
    app.run_of(&note(
        "q1@guest.example",
        "",
        "Somebody else used this id first.",
    ))
    .await;
    assert_eq!(app.drain().await.runs, 2);
    assert_eq!(app.sent().len(), 2);
    app.check().await;
}

#[tokio::test]
async fn every_placeholder_of_a_pipeline_step_is_filled_in() {
    let workspace = Workspace::new(&json!({ "rules": [{ "say": "Yes." }] }));
    let steps = attache::config::PLACEHOLDERS
        .iter()
        .map(|name| json!(format!("load-file(notes/{{{name}}}.md)")));
    let steps: Vec<Value> = steps.chain([json!("current-input")]).collect();
    workspace.set("configs/context.json", "/thread", json!(steps));
    workspace.write("notes/ada.md", "For Ada only.");
    workspace.write("notes/email.md", "For letters only.");
    let app = workspace.start().await;
    let run = app
        .run_of(&note("q1@guest.example", "", "Is there parking?"))
        .await;
    app.drain().await;
    let prompt = app.prompts(&run).await[0].to_string();
    assert!(
        prompt.contains("For Ada only.") && prompt.contains("For letters only."),
        "{prompt}"
    );

    let row = app
        .row(
            "SELECT context_report_json, thread_id FROM runs WHERE id = $1",
            &run,
        )
        .await;
    let report: Value = serde_json::from_str(row[0].as_deref().expect("a report")).expect("json");
    let sources = report["entries"].as_array().expect("entries").iter();
    let mut sources: Vec<&str> = sources
        .filter_map(|entry| entry["source"].as_str())
        .collect();
    sources.retain(|source| source.starts_with("notes/"));
    let thread = format!("notes/{}.md", row[1].as_deref().expect("a thread"));
    assert_eq!(sources, ["notes/ada.md", &thread, "notes/email.md"]);
}
