//! `replay fork`: a run goes on otherwise from one of its turns, and nobody but the budget account notices.

use super::{attache, play};
use crate::app::db;
use crate::app::{TestApp, proven_note as note};
use attache::clock::{Clock, SystemClock};
use attache::domain::RunId;
use attache::replay::diff::compare;
use attache::replay::{RunRecord, load_run};
use serde_json::{Value, json};
use std::time::Duration;

const PRICES: &str = r#"{ "version": "2026-11-20", "prices": [{ "provider": "scripted", "model": "*", "input": 1, "output": 10 }] }"#;

fn script(reply: &str) -> Value {
    json!({ "turns": [
        { "call": [{ "tool": "list_files", "args": { "path": "knowledge" } }],
          "usage": { "input_tokens": 100, "output_tokens": 10 } },
        { "say": reply, "usage": { "input_tokens": 200, "output_tokens": 20 } },
    ]})
}

/// A run that looked at its files and answered.
async fn answered() -> (TestApp, RunRecord) {
    let (app, record) =
        play(&json!({ "letter": "When is breakfast?", "script": script("At seven.") })).await;
    assert_eq!(app.sent().len(), 1);
    (app, record)
}

fn forked(app: &TestApp, args: &[&str]) -> RunRecord {
    let said = attache(
        app.workspace.path(),
        &[&["replay", "fork"], args, &["--json"]].concat(),
    );
    assert_eq!(said.0, 0, "{said:?}");
    let value: Value = serde_json::from_str(&said.1).expect("JSON");
    serde_json::from_value(value["fork"].clone()).expect("a record")
}

/// Everything of the road: what a fork must not change.
async fn road(app: &TestApp) -> Vec<i64> {
    let mut rows = app.workspace.rows().await;
    let row = db::query(
        "SELECT (SELECT count(*) FROM messages), (SELECT count(*) FROM deliveries), (SELECT count(*) FROM runs),
           (SELECT count(*) FROM run_turns), (SELECT count(*) FROM thread_tool_events),
           (SELECT count(*) FROM notices), (SELECT sum(length(packed)) FROM run_turns),
           (SELECT sum(input_tokens) FROM runs), (SELECT count(*) FROM knowledge_files),
           (SELECT count(*) FROM correspondence), (SELECT count(*) FROM budget_reservations)",
    );
    let row = row.fetch_one(&mut rows).await.expect("a row");
    (0..row.len())
        .map(|column| row.get::<Option<i64>>(column).unwrap_or(0))
        .collect()
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_fork_without_any_change_equals_its_run() {
    let (app, record) = answered().await;
    let before = road(&app).await;
    for turn in ["0", "1"] {
        let fork = forked(&app, &[&record.run.id, "--at-turn", turn]);
        let comparison = compare(&record, &fork, false);
        assert!(comparison.same, "at turn {turn}: {:#?}", comparison.first);
        let same = attache(
            app.workspace.path(),
            &["replay", "diff", &record.run.id, &fork.run.id],
        );
        assert_eq!(same.0, 0, "{same:?}");
        assert_eq!(fork.mails[0].message.disposition, "draft");
        let shown = attache(
            app.workspace.path(),
            &["replay", "show", &fork.run.id[..20]],
        );
        assert!(shown.0 == 0 && shown.1.contains("At seven."), "{shown:?}");
    }
    assert_eq!(road(&app).await, before);
    let listed = attache(app.workspace.path(), &["replay", "forks", "--json"]);
    let listed: Value = serde_json::from_str(&listed.1).expect("JSON");
    assert_eq!(listed.as_array().map(Vec::len), Some(2));
    app.check().await;
}

#[tokio::test]
async fn another_script_gives_another_reply_and_nobody_notices() {
    let (app, record) = answered().await;
    let before = road(&app).await;
    let memory = app.workspace.path().join("personas/ada/active.md");
    let remembered = std::fs::read_to_string(&memory).expect("a memory");
    app.workspace.write_json("configs/script.json", &json!({ "turns": [
        { "say": "never asked" },
        { "call": [
            { "tool": "update_memory", "args": { "content": "Bob asks about breakfast." } },
            { "tool": "send_email", "args": { "to": ["bob@guest.example"], "subject": "Also", "body": "A draft." } },
        ]},
        { "say": "At eight." },
    ]}));
    let fork = forked(&app, &[&record.run.id, "--at-turn", "1"]);
    let results: Vec<bool> = fork
        .calls
        .iter()
        .map(attache::replay::CallRecord::succeeded)
        .collect();
    assert_eq!(results, [true, true, true], "{:#?}", fork.calls);
    let drafts: Vec<&str> = fork
        .mails
        .iter()
        .map(|mail| mail.message.text.trim())
        .collect();
    assert!(drafts.contains(&"A draft."), "{drafts:?}");
    assert_eq!(
        std::fs::read_to_string(&memory).expect("a memory"),
        remembered
    );
    let copy = app
        .workspace
        .path()
        .join(format!("data/forks/{}/persona/active.md", fork.run.id));
    assert!(
        std::fs::read_to_string(copy)
            .expect("a copy")
            .contains("Bob asks"),
        "the fork remembers for itself"
    );
    assert_eq!(road(&app).await, before);
    app.drain().await;
    assert_eq!(app.sent().len(), 1, "nothing more was mailed");
    let comparison = compare(&record, &fork, false);
    let first = comparison.first.expect("a difference");
    assert_eq!(first.pair, "turn 1 answer");

    app.workspace
        .write_json("configs/script.json", &script("At seven."));
    let answer = app.sent().remove(0).message_id.expect("an id");
    let next = app
        .run_of(&note(
            "q2@guest.example",
            &format!("In-Reply-To: <{answer}>\n"),
            "And dinner?",
        ))
        .await;
    app.drain().await;
    let next = load_run(&app.engine.store, &RunId::new(next))
        .await
        .expect("a run");
    let asked = next.turns[0].request.to_string();
    assert!(
        asked.contains("At seven.") && !asked.contains("A draft.") && !asked.contains("At eight."),
        "{asked}"
    );
}

/// An answered run, and a script that tells by what the model was told.
async fn scripted() -> (TestApp, RunRecord) {
    let (app, record) = answered().await;
    app.workspace.write_json(
        "configs/script.json",
        &json!({ "rules": [
            { "when": { "system_contains": "grumpy" }, "say": "Hmpf." },
            { "when": { "after_tool": "list_files" }, "say": "Seen: {{result:/result/files/0}}" },
        ]}),
    );
    (app, record)
}

#[tokio::test]
async fn an_edited_result_reaches_the_model() {
    let (app, record) = scripted().await;
    app.workspace
        .write("edited.json", r#"{ "files": ["a-pirate-map.md"] }"#);
    let file = app.workspace.path().join("edited.json");
    let fork = forked(
        &app,
        &[
            &record.run.id,
            "--edit-result",
            "c0_0",
            file.to_str().expect("a path"),
        ],
    );
    assert_eq!(
        fork.calls[0].result,
        Some(json!({ "ok": true, "result": { "files": ["a-pirate-map.md"] } }))
    );
    assert!(
        fork.mails[0].message.text.contains("a-pirate-map.md"),
        "{}",
        fork.mails[0].message.text
    );
    let first = compare(&record, &fork, false).first.expect("a difference");
    assert_eq!(first.pair, "turn 0 result c0_0");
}

#[tokio::test]
async fn another_persona_text_reaches_the_model() {
    let (app, record) = scripted().await;
    app.workspace.write("grumpy.md", "Ada is grumpy today.\n");
    let file = app.workspace.path().join("grumpy.md");
    let fork = forked(
        &app,
        &[
            &record.run.id,
            "--persona-file",
            file.to_str().expect("a path"),
        ],
    );
    assert_eq!(fork.mails[0].message.text.trim(), "Hmpf.");
    let asked = fork.turns[0].request.to_string();
    assert!(
        asked.contains("Ada is grumpy today.") && !asked.contains("Ada answers letters."),
        "{asked}"
    );
    assert!(
        asked.contains("You are Ada."),
        "the rest is as it was assembled then: {asked}"
    );
    let (then, now) = (
        record.context.clone().expect("a context"),
        fork.context.clone().expect("a context"),
    );
    let of = |entries: &[attache::replay::ContextEntry]| {
        entries
            .iter()
            .find(|entry| entry.resolver == "persona")
            .cloned()
            .expect("an entry")
    };
    let (entry_then, entry_now) = (of(&then.entries), of(&now.entries));
    assert_eq!(entry_now.bytes, "Ada is grumpy today.".len() as u64);
    assert_eq!(
        entry_now.sha256,
        Some(attache::domain::sha256_hex(&[b"Ada is grumpy today."]))
    );
    assert_eq!(
        now.used_tokens + entry_then.tokens,
        then.used_tokens + entry_now.tokens
    );
    let first = compare(&record, &fork, false).first.expect("a difference");
    assert_eq!(
        (first.pair.as_str(), first.place.as_str()),
        ("context", "persona")
    );
    let named = attache(app.workspace.path(), &["replay", "forks"]);
    assert!(
        named.1.contains("another persona text") && !named.1.contains("persona_text"),
        "{}",
        named.1
    );
}

#[tokio::test]
async fn a_fork_costs_what_it_asks_and_stops_at_an_empty_purse() {
    let (app, record) = answered().await;
    app.workspace.write("configs/prices.json", PRICES);
    let spent = || async {
        let row = app
            .row(
                "SELECT CAST(spent_micros AS TEXT), CAST(reserved_micros AS TEXT) FROM budget_accounts
             WHERE scope = 'persona' AND owner = $1 AND length(period) = 10 ORDER BY period DESC",
                "ada",
            )
            .await;
        (
            row[0].clone().expect("spent"),
            row[1].clone().expect("reserved"),
        )
    };
    let (before, _) = spent().await;
    let fork = forked(&app, &[&record.run.id, "--at-turn", "1"]);
    let cost = fork.run.usage.cost_micros.expect("a price");
    assert_eq!(cost, 400, "200 tokens in and 20 out");
    let total = app
        .row(
            "SELECT CAST(sum(cost_micros) AS TEXT) FROM usage_ledger WHERE fork_id = $1",
            &fork.run.id,
        )
        .await;
    assert_eq!(total[0], Some(cost.to_string()));
    // The engine's clock stands in 2026-11-20; the command's is the real one, and so is its day.
    let (after, reserved) = spent().await;
    assert_ne!((before, "0".to_owned()), (after.clone(), reserved.clone()));
    assert_eq!((after, reserved), (cost.to_string(), "0".to_owned()));

    app.workspace.set(
        "configs/inference.json",
        "/budget",
        json!({ "day_usd_max": 0.0005 }),
    );
    let said = attache(
        app.workspace.path(),
        &["replay", "fork", &record.run.id, "--at-turn", "1"],
    );
    assert_eq!(said.0, 1, "{said:?}");
    assert!(said.1.contains("budget"), "{}", said.1);
    let asked = app
        .row(
            "SELECT CAST(count(*) AS TEXT) FROM usage_ledger WHERE fork_id IS NOT NULL AND $1 = ''",
            "",
        )
        .await;
    assert_eq!(asked[0].as_deref(), Some("1"), "nothing was asked");
}

#[tokio::test]
async fn a_reply_of_a_fork_is_mailed_only_when_it_is_asked_for_twice() {
    let (app, record) = answered().await;
    app.workspace
        .write_json("configs/script.json", &script("At nine, I was wrong."));
    let args = ["replay", "fork", &record.run.id, "--at-turn", "1", "--send"];
    assert_eq!(
        attache(app.workspace.path(), &args).0,
        2,
        "--send alone does nothing"
    );
    forked(&app, &[&record.run.id, "--at-turn", "1", "--send", "--yes"]);
    // The command's clock is the real one, and what it queued is due by that.
    app.workspace
        .clock
        .set(Clock::now(&SystemClock::new()).plus(Duration::from_secs(1)));
    app.drain().await;
    let sent = app.sent();
    assert_eq!(sent.len(), 2);
    assert!(
        sent.iter()
            .any(|mail| mail.text.contains("At nine, I was wrong."))
    );
    let run = load_run(&app.engine.store, &RunId::new(&record.run.id))
        .await
        .expect("the run");
    assert!(
        run.mails.iter().all(|mail| mail.delivery.is_some()),
        "its run shows what became of it"
    );
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn what_cannot_be_forked_says_why() {
    let (app, record) = answered().await;
    let run = record.run.id.as_str();
    let persona = app.workspace.path().join("personas/ada/PERSONA.md");
    let persona = persona.to_str().expect("a path");
    for (args, code, expected) in [
        (&[run, "--at-turn", "7"][..], 66, "did not come to turn 7"),
        (&[run, "--at-turn", "2"], 66, "did not come to turn 2"),
        (
            &[run, "--edit-result", "c9_9", persona],
            66,
            "hint: there are: c0_0",
        ),
        (
            &[run, "--at-turn", "0", "--edit-result", "c0_0", persona],
            2,
            "leave --at-turn out, or write --at-turn 1",
        ),
        (
            &[run, "--at-turn", "1", "--persona-file", persona],
            2,
            "from its beginning",
        ),
        (
            &[run, "--at-turn", "1", "--provider", "nobody"],
            66,
            "hint: there are: anthropic, ",
        ),
        (
            &[run, "--at-turn", "1", "--provider", "openai"],
            65,
            "set `OPENAI_API_KEY`",
        ),
        (&[run], 2, "--at-turn"),
        (&["0199aabbccdd", "--at-turn", "0"], 66, "no run"),
    ] {
        let said = attache(app.workspace.path(), &[&["replay", "fork"], args].concat());
        assert_eq!(said.0, code, "{args:?}: {said:?}");
        assert!(said.2.contains(expected), "{args:?}: {}", said.2);
        let (error, rest) = said.2.split_once('\n').expect("a line");
        assert!(
            !rest.contains(error.trim_start_matches("error: ")),
            "said twice: {}",
            said.2
        );
    }
    let fork = forked(&app, &[run, "--at-turn", "1"]).run.id;
    for args in [
        &["fork", &fork, "--at-turn", "0"][..],
        &["verify", &fork],
        &["export", &fork, "/nowhere/x"],
    ] {
        let said = attache(app.workspace.path(), &[&["replay"], args].concat());
        assert!(
            said.0 == 2 && said.2.contains("is a fork") && said.2.contains(run),
            "{args:?}: {said:?}"
        );
    }
    let open = app
        .run_of(&note("q2@guest.example", "", "And dinner?"))
        .await;
    let said = attache(
        app.workspace.path(),
        &["replay", "fork", &open, "--at-turn", "0"],
    );
    assert!(said.0 == 2 && said.2.contains("has not ended"), "{said:?}");
    app.drain().await;
}

#[tokio::test]
async fn a_provider_that_is_named_is_all_that_a_fork_needs_of_today() {
    let (app, record) = answered().await;
    // Whoever answers by default cannot: its key is not here.
    app.workspace
        .set("configs/inference.json", "/provider", json!("openai"));
    let run = record.run.id.as_str();
    let said = attache(
        app.workspace.path(),
        &["replay", "fork", run, "--at-turn", "1"],
    );
    assert_eq!(said.0, 65, "the control: {said:?}");
    forked(&app, &[run, "--at-turn", "1", "--provider", "scripted"]);
}

#[tokio::test]
async fn of_a_run_that_was_thrown_away_everything_says_so() {
    let (app, record) = answered().await;
    let run = record.run.id.as_str();
    let gc = attache(
        app.workspace.path(),
        &[
            "gc",
            "--older-than",
            "2026-11-21T00:00:00Z",
            "--kind",
            "turns",
        ],
    );
    assert_eq!(gc.0, 0, "{gc:?}");
    for args in [
        &["fork", run, "--at-turn", "1"][..],
        &["fork", run, "--edit-result", "c0_0", "/dev/null"],
        &["show", run, "--raw", "request", "--turn", "1"],
        &["show", run, "--raw", "response", "--turn", "0", "--exact"],
    ] {
        let said = attache(app.workspace.path(), &[&["replay"], args].concat());
        assert!(said.0 == 66 && said.1.is_empty(), "{args:?}: {said:?}");
        assert!(
            said.2.contains("pruned on") && said.2.contains("hint:"),
            "{args:?}: {}",
            said.2
        );
    }
    let change = [
        "replay",
        "sweep",
        "--since",
        "2026-01-01",
        "--change",
        "personas/ada/PERSONA.md",
    ];
    let swept = attache(app.workspace.path(), &change);
    assert!(swept.1.contains("was pruned on"), "{swept:?}");
}
