//! An input that does not fit the model: made shorter once, in whole exchanges, and what was sent is what is kept.

use crate::app::turns;
use crate::app::{TestApp, Workspace, note};
use crate::fallback::tries;
use serde_json::{Value, json};
use std::time::Duration;

/// Longest request that the scripted model takes, in characters.
const FITS: usize = 12_000;

/// What is too long is refused as vendors do; everything else is answered.
fn narrow(window_tokens: Value, rest: Value) -> Value {
    let error = json!({ "class": "context_overflow", "message": "prompt is too long", "window_tokens": window_tokens });
    let mut rules =
        vec![json!({ "when": { "longer_than": FITS, "model": "test" }, "error": error })];
    rules.extend(rest.as_array().expect("rules").iter().cloned());
    json!({ "rules": rules })
}

fn house(script: &Value) -> Workspace {
    let workspace = Workspace::new(script).talkative();
    workspace.set("personas/ada/persona.json", "/tools", json!(["read_file"]));
    workspace.set("configs/inference.json", "/max_output_tokens", json!(1000));
    workspace.set("configs/inference.json", "/max_tool_turns", json!(8));
    workspace
}

/// Letters of one thread, each about 2,000 characters long, answered one after the other.
async fn correspond(app: &TestApp, letters: usize) {
    for n in 0..letters {
        let body = format!("Letter {n}. {}", "The weather is fine here. ".repeat(75));
        app.run_of(&letter(n, &body)).await;
        app.drain().await;
    }
}

fn letter(n: usize, body: &str) -> String {
    let more = match n {
        0 => String::new(),
        _ => "References: <0@guest.example>\nIn-Reply-To: <0@guest.example>\n".to_owned(),
    };
    note(&format!("{n}@guest.example"), &more, body)
}

/// The context of a run as it is kept, and its report.
async fn kept(app: &TestApp, run: &str) -> (Value, Value) {
    let turns = turns::of_run(&app.engine.store, &mut app.workspace.rows().await, run).await;
    let context = turns
        .iter()
        .rev()
        .find_map(|turn| turn.context_json.as_deref());
    let row = app.row("SELECT context_report_json FROM runs WHERE id = $1", run);
    let read = |json: Option<&str>| serde_json::from_str(json.expect("json")).expect("json");
    (read(context), read(row.await[0].as_deref()))
}

/// Every call of a request is followed by its result in the next message, and every result by nothing else's.
fn assert_paired(request: &Value) {
    let blocks = |message: &Value, kind: &str, key: &str| -> Vec<String> {
        let all = message["blocks"].as_array().expect("blocks").iter();
        let of_kind = all.filter(|block| block["type"] == kind);
        of_kind
            .map(|block| block[key].as_str().expect("an id").to_owned())
            .collect()
    };
    let messages = request["messages"].as_array().expect("messages");
    for (at, message) in messages.iter().enumerate() {
        let calls = blocks(message, "tool_call", "id");
        let results = messages
            .get(at + 1)
            .map(|next| blocks(next, "tool_result", "call_id"));
        assert_eq!(calls, results.unwrap_or_default(), "{request}");
    }
}

#[tokio::test]
async fn a_long_thread_is_shortened_once_in_whole_exchanges() {
    let reads = json!({ "when": { "contains": "letter 1", "after_error": null },
        "call": [{ "tool": "read_file", "args": { "path": "knowledge/house.md" } }] });
    let rest = json!([{ "when": { "after_tool": "read_file" }, "say": "Read." }, reads, { "say": "Fine." }]);
    let app = house(&narrow(json!(4000), rest)).start().await;
    correspond(&app, 8).await;
    // An earlier letter has shown the window; this one is to find it out anew.
    std::fs::remove_file(app.workspace.path().join("data/models.json")).expect("it is kept");
    let run = app
        .run_of(&letter(
            8,
            &format!("The last one. {}", "Rain. ".repeat(200)),
        ))
        .await;
    app.drain().await;
    assert_eq!(
        tries(&app, &run).await,
        [
            "0 scripted/test context_overflow",
            "0 scripted/test answered"
        ]
    );
    let prompts = app.prompts(&run).await;
    let (long, short) = (prompts[0].to_string(), prompts[1].to_string());
    assert!(
        long.contains("Letter 0.") && !short.contains("Letter 0."),
        "the oldest goes first"
    );
    for stays in ["The last one.", "Ada answers letters.", "Letter 7."] {
        assert!(short.contains(stays), "{stays}: {short}");
    }
    prompts.iter().for_each(assert_paired);
    let (context, report) = kept(&app, &run).await;
    assert_eq!(
        (&context["messages"], &context["system"]),
        (&prompts[1]["messages"], &prompts[1]["system"])
    );
    let note = report["note"].as_str().expect("a note");
    assert!(note.contains("prompt is too long"), "{note}");
    let history = report["entries"]
        .as_array()
        .expect("entries")
        .iter()
        .find(|e| e["resolver"] == "thread-history");
    assert_eq!(history.expect("the history")["outcome"], "trimmed");
    app.check().await;
}

#[tokio::test]
async fn an_input_not_short_enough_fails_or_goes_to_a_larger_model() {
    let long = note("q@guest.example", "", &"Rain and wind. ".repeat(1000));
    for (fallback, state, calls) in [(false, "failed", 1), (true, "succeeded", 2)] {
        let workspace = house(&narrow(Value::Null, json!([{ "say": "Fine." }])));
        workspace.set("personas/ada/persona.json", "/tools", json!([]));
        if fallback {
            let larger = json!([{ "provider": "scripted", "model": "larger" }]);
            workspace.set("configs/inference.json", "/fallback", larger);
        }
        let app = workspace.start().await;
        let run = app.run_of(&long).await;
        app.drain().await;
        let (found, _, class) = app.outcome(&run).await;
        assert_eq!(
            (found.as_str(), class.as_deref()),
            (state, (!fallback).then_some("context_overflow"))
        );
        // Nothing could be left out, so the same request was not sent again.
        assert_eq!(tries(&app, &run).await.len(), calls);
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_window_that_is_known_is_kept_to_from_the_beginning() {
    let script = |window: Value| json!({ "window_tokens": window, "rules": [{ "say": "Fine." }] });
    for (window, is_whole) in [(json!(4000), false), (Value::Null, true)] {
        let app = house(&script(window)).start().await;
        correspond(&app, 6).await;
        let run = app.run_of(&letter(6, "The last one.")).await;
        app.drain().await;
        assert_eq!(tries(&app, &run).await, ["0 scripted/test answered"]);
        let prompt = app.prompts(&run).await[0].to_string();
        assert_eq!(prompt.contains("Letter 0."), is_whole, "{prompt}");
        assert!(prompt.contains("The last one."), "{prompt}");
        let (_, report) = kept(&app, &run).await;
        let used = report["used_tokens"].as_u64().expect("tokens");
        assert_eq!(used > 2600, is_whole, "{used} tokens");
    }
}

/// Reads three files of 5,000 characters, one after the other; each turn of it is longer.
fn reader(fourth: &Value) -> Value {
    let read = |turn: u32| json!({ "when": { "turn": turn }, "call": [{ "tool": "read_file", "args": { "path": format!("knowledge/{turn}.md") } }] });
    narrow(
        Value::Null,
        json!([read(0), read(1), read(2), fourth, { "say": "All read." }]),
    )
}

fn library(script: &Value) -> Workspace {
    let workspace = house(script);
    for n in 0..3 {
        workspace.write(&format!("knowledge/{n}.md"), "");
        workspace.write(
            &format!("personas/ada/knowledge/{n}.md"),
            &format!("File {n}. {}", "word ".repeat(1000)),
        );
    }
    workspace
}

#[tokio::test]
async fn results_of_earlier_turns_go_before_history_the_newest_stays() {
    let app = library(&reader(&json!({ "when": { "turn": 99 }, "say": "" })))
        .start()
        .await;
    let run = app
        .run_of(&note("q@guest.example", "", "Read everything."))
        .await;
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    let all = tries(&app, &run).await;
    assert_eq!(
        all.iter()
            .filter(|one| one.contains("context_overflow"))
            .count(),
        1,
        "{all:?}"
    );
    let prompts = app.prompts(&run).await;
    let last = prompts.last().expect("a prompt");
    let text = last.to_string();
    assert!(
        !text.contains("File 0.") && text.contains("left out for want of room"),
        "{text}"
    );
    assert!(
        text.contains("File 2.") && text.contains("Read everything."),
        "{text}"
    );
    assert_paired(last);
    let (context, report) = kept(&app, &run).await;
    assert!(
        report["note"]
            .as_str()
            .is_some_and(|note| note.contains("c0_0")),
        "{report}"
    );
    assert!(
        context["stubbed"]
            .as_array()
            .is_some_and(|ids| ids.contains(&json!("c0_0"))),
        "{context}"
    );
    // What happened is kept whole; only the model sees less of it.
    let sql =
        "SELECT payload_json FROM thread_tool_events WHERE run_id = $1 AND tool_call_id = 'c0_0'
        AND event_type = 'tool_result'";
    assert!(
        app.row(sql, &run).await[0]
            .as_deref()
            .is_some_and(|payload| payload.contains("File 0."))
    );
    app.check().await;
}

#[tokio::test]
async fn a_run_that_was_interrupted_goes_on_from_what_was_really_sent() {
    let busy = json!({ "class": "rate_limited", "retry_after_ms": 600_000, "times": 1 });
    let app = library(&reader(
        &json!({ "when": { "turn": 3 }, "say": "All read.", "error": busy }),
    ))
    .start()
    .await;
    let run = app
        .run_of(&note("q@guest.example", "", "Read everything."))
        .await;
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "waiting_retry");
    app.workspace.clock.advance(Duration::from_secs(700));
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    let all = tries(&app, &run).await;
    assert_eq!(
        all.iter()
            .filter(|one| one.contains("context_overflow"))
            .count(),
        1,
        "{all:?}"
    );
    let prompts = app.prompts(&run).await;
    let [.., before, after] = prompts.as_slice() else {
        panic!("{all:?}")
    };
    assert_eq!(before, after, "the same request as before the interruption");
    app.check().await;
}
