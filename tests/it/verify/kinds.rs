//! A hundred runs of every kind in one workspace, those among them that a power cut went through.

use super::identical;
use crate::app::{TestApp, Workspace, proven_note as note};
use attache::replay::verify::Outcome;
use attache::store::PowerCut;
use serde_json::{Value, json};
use std::time::Duration;

/// What a letter asks for decides what its model does.
pub fn script() -> Value {
    let when = |word: &str, mut answer: Value, more: Value| {
        let mut when = json!({ "contains": word });
        when.as_object_mut()
            .expect("an object")
            .extend(more.as_object().expect("an object").clone());
        answer["when"] = when;
        answer
    };
    let house = json!([{ "tool": "read_file", "args": { "path": "knowledge/house.md" } }]);
    let mixed = json!([{ "tool": "list_files", "args": {} }, { "tool": "read_file", "args": { "path": "no.md" } },
        { "tool": "list_files", "args": {} }]);
    let mail = json!([{ "tool": "send_email", "args":
        { "to": ["bob@guest.example"], "subject": "x", "body": "From seven to ten." } }]);
    let memory =
        json!([{ "tool": "update_memory", "args": { "content": "Bob wrote {{subject}}" } }]);
    json!({ "rules": [
        when("kind-plain", json!({ "say": "Plainly so, {{sender}}." }), json!({})),
        when("kind-refused", json!({ "stop": "refused", "say": "No." }), json!({})),
        when("kind-endless", json!({ "call": house }), json!({ "tools": true })),
        when("kind-unknown", json!({ "call": [{ "tool": "fly", "args": {} }] }), json!({})),
        when("kind-broken", json!({ "error": { "class": "auth", "message": "bad key" } }), json!({})),
        when("kind-flaky", json!({ "error": { "class": "transient", "message": "try again", "retry_after_ms": 0, "times": 1 },
            "say": "At last." }), json!({})),
        when("kind-picky", json!({ "error": { "class": "bad_request", "message": "no temperature", "refused": "temperature",
            "times": 1 }, "say": "Cool." }), json!({})),
        when("kind-long", json!({ "say": "A first half", "stop": "max_tokens" }), json!({ "turn": 0 })),
        when("kind-silent", json!({ "say": "" }), json!({})),
        when("kind-tools", json!({ "call": house, "say": "Let me look." }), json!({ "turn": 0 })),
        when("kind-malformed", json!({ "call": [{ "tool": "read_file", "raw": "{\"path\": " }] }), json!({ "turn": 0 })),
        { "when": { "turn": 0 }, "call": house },
        { "when": { "turn": 1, "tools": true }, "call": mixed },
        { "when": { "turn": 2, "tools": true }, "call": memory },
        { "when": { "turn": 3, "tools": true }, "call": mail },
        { "when": {}, "say": "Done." },
    ] })
}

pub fn house() -> Workspace {
    let workspace = Workspace::new(&script()).talkative();
    workspace.set("configs/inference.json", "/max_tool_turns", json!(6));
    workspace.set("configs/inference.json", "/temperature", json!(0.5));
    workspace
}

pub const KINDS: &[&str] = &[
    "plain",
    "refused",
    "endless",
    "unknown",
    "broken",
    "flaky",
    "picky",
    "long",
    "silent",
    "tools",
    "malformed",
    "road",
];

/// A letter of that kind; some of them continue a thread.
pub fn letter(n: usize, kind: &str) -> String {
    let more = match n % 3 {
        0 => String::new(),
        _ => format!("In-Reply-To: <{}@guest.example>\n", n - n % 3),
    };
    note(
        &format!("{n}@guest.example"),
        &more,
        &format!("Please answer {n}, kind-{kind}."),
    )
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_hundred_runs_of_every_kind_go_the_same_way_again() {
    let mut app = house().start().await;
    for n in 0..72 {
        app.run_of(&letter(n, KINDS[n % KINDS.len()])).await;
        app.drain().await;
        // A provider that refuses the account rests for a minute.
        app.workspace.clock.advance(Duration::from_secs(61));
    }
    // The power goes at each commit of a run with tools, before it and after it.
    let mut struck = 0;
    for n in 0..36 {
        // A store counts its commits from its start; the first four are its own and the letter's.
        app = app.restart().await;
        let cut = if n % 2 == 0 {
            PowerCut::BeforeCommit
        } else {
            PowerCut::AfterCommit
        };
        app.run_of(&letter(1000 + n, if n % 4 < 2 { "road" } else { "tools" }))
            .await;
        app.engine.store.cut_power(cut(4 + (n / 2) as u64));
        app.workspace.clock.advance(Duration::from_millis(10));
        struck += usize::from(app.engine.drain().await.is_err());
        app = app.restart().await;
        for _ in 0..2 {
            app.workspace.clock.advance(Duration::from_secs(600));
            app.drain().await;
        }
    }
    let verified = app.workspace.verified().await;
    assert!(identical(&verified) >= 100, "{}", verified.len());
    let resumed = verified
        .iter()
        .filter(|run| matches!(run.outcome, Outcome::Identical { attempts: 2.., .. }));
    let resumed = resumed.count();
    assert!(
        struck >= 15 && resumed >= 8,
        "{struck} power cuts, {resumed} runs of several attempts"
    );
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn what_changed_since_changes_nothing_about_runs_of_before() {
    let app = house().start().await;
    for (n, kind) in KINDS.iter().enumerate() {
        app.run_of(&letter(n, kind)).await;
        app.drain().await;
        app.workspace.clock.advance(Duration::from_secs(61));
    }
    let TestApp {
        workspace: place,
        engine,
    } = app;
    drop(engine);
    place.write("personas/ada/active.md", "Everything is different now.");
    place.write("personas/ada/PERSONA.md", "Ada answers no more letters.");
    place.set("configs/inference.json", "/temperature", json!(0.9));
    place.set("configs/inference.json", "/max_tool_turns", json!(2));
    place.write("configs/prompts/system.md", "You are somebody else.");
    identical(&place.verified().await);
    // Nor is anything of today needed: not the script, of which all answers are known, nor any other file.
    for folder in ["configs", "personas"] {
        std::fs::remove_dir_all(place.path().join(folder)).expect("a folder");
    }
    identical(&place.verified().await);
}
