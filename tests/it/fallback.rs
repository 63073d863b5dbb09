//! What becomes of a run whose provider fails: the next of the chain does its work, everybody can see it, and nothing is
//! done twice.

use crate::app::db;
use crate::app::{TestApp, Workspace, proven_note as note};
use crate::providers::server::{Reply, Server};
use serde_json::{Value, json};
use std::time::Duration;

/// An answer of an OpenAI-compatible server.
pub fn says(text: &str) -> Reply {
    let delta = json!({ "choices": [{ "index": 0, "delta": { "content": text }, "finish_reason": "stop" }] });
    chunks(&delta)
}

/// An answer that calls `read_file`.
fn reads(path: &str) -> Reply {
    let arguments = json!({ "path": path }).to_string();
    let function = json!({ "name": "read_file", "arguments": arguments });
    let call = json!({ "index": 0, "id": "call_1", "type": "function", "function": function });
    chunks(
        &json!({ "choices": [{ "index": 0, "delta": { "tool_calls": [call] }, "finish_reason": "tool_calls" }] }),
    )
}

fn chunks(delta: &Value) -> Reply {
    let usage =
        json!({ "choices": [], "usage": { "prompt_tokens": 100, "completion_tokens": 10 } });
    Reply::stream(&format!(
        "data: {delta}\n\ndata: {usage}\n\ndata: [DONE]\n\n"
    ))
}

pub fn refuses(status: u16, headers: &[(&str, &str)]) -> Reply {
    Reply::new(status, headers, r#"{"error":{"message":"not today"}}"#)
}

/// A workspace whose runs ask `compat:one`, then `compat:two`, each once a turn.
pub fn workspace(one: &Server, two: Option<&Server>) -> Workspace {
    let workspace = Workspace::new(&json!({ "turns": [] })).talkative();
    let mut inference = json!({
        "provider": "compat:one", "model": "m1", "max_tool_turns": 6,
        "retry": { "call_attempts_max": 1 }, "concurrency": { "runs_max": 1 },
        "providers": { "compat:one": { "base_url": one.url } },
    });
    if let Some(two) = two {
        inference["providers"]["compat:two"] = json!({ "base_url": two.url });
        inference["fallback"] = json!([{ "provider": "compat:two", "model": "m2" }]);
    }
    workspace.write_json("configs/inference.json", &inference);
    workspace
}

/// Every try of a run: `TURN PROVIDER/MODEL STATE-OR-CLASS`.
pub async fn tries(app: &TestApp, run: &str) -> Vec<String> {
    let mut rows = app.workspace.rows().await;
    let sql = "SELECT turn_index || ' ' || provider || '/' || model || ' ' || coalesce(error_class, state)
        FROM run_turns WHERE run_id = $1 ORDER BY turn_index, attempt";
    db::query_scalar(sql)
        .bind(run)
        .fetch_all(&mut rows)
        .await
        .expect("tries")
}

async fn error_message(app: &TestApp, run: &str) -> String {
    app.row("SELECT error_message FROM runs WHERE id = $1", run)
        .await
        .remove(0)
        .unwrap_or_default()
}

/// Ways to fail that another provider may make good: the reply, its class, and what becomes of the run alone.
fn failures() -> Vec<(Reply, &'static str, &'static str)> {
    vec![
        (refuses(401, &[]), "auth", "failed"),
        (refuses(402, &[]), "billing", "failed"),
        (refuses(403, &[]), "permission", "failed"),
        (refuses(404, &[]), "model_not_found", "failed"),
        (
            refuses(429, &[("retry-after", "3600")]),
            "rate_limited",
            "waiting_retry",
        ),
        (refuses(500, &[]), "transient", "waiting_retry"),
        (refuses(503, &[]), "overloaded", "waiting_retry"),
        (refuses(504, &[]), "timeout", "waiting_retry"),
        (Reply::stream("data: [DONE]\n\n"), "protocol", "failed"),
    ]
}

#[tokio::test]
#[ignore = "second tier"]
async fn what_one_provider_cannot_do_the_next_does_and_all_can_see_it() {
    for (reply, class, alone) in failures() {
        let (one, two) = (
            Server::start(vec![reply]).await,
            Server::start(vec![says("Seven.")]).await,
        );
        let app = workspace(&one, Some(&two)).start().await;
        let run = app
            .run_of(&note("q@guest.example", "", "When is breakfast?"))
            .await;
        app.drain().await;
        assert_eq!(
            app.outcome(&run).await,
            ("succeeded".into(), Some("answered".into()), None),
            "{class}"
        );
        let expected = [
            format!("0 compat:one/m1 {class}"),
            "0 compat:two/m2 answered".to_owned(),
        ];
        assert_eq!(tries(&app, &run).await, expected);
        assert_eq!(
            (one.seen().len(), two.seen().len(), app.sent().len()),
            (1, 1, 1),
            "{class}"
        );
        let row = app
            .row(
                "SELECT provider || '/' || model FROM runs WHERE id = $1",
                &run,
            )
            .await;
        assert_eq!(row[0].as_deref(), Some("compat:two/m2"), "{class}");
        app.check().await;

        // The control: with nobody to fall back to, the same failure is the run's.
        let app = workspace(&one, None).start().await;
        let run = app
            .run_of(&note("q@guest.example", "", "When is breakfast?"))
            .await;
        app.drain().await;
        let (state, _, found) = app.outcome(&run).await;
        assert_eq!(
            (state.as_str(), found.as_deref(), app.sent().len()),
            (alone, Some(class), 0)
        );
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn what_we_asked_wrongly_and_what_was_refused_goes_nowhere_else() {
    let reasons = r#"{"error":{"message":"no","metadata":{"reasons":["violence"]}}}"#;
    for (reply, class) in [
        (refuses(400, &[]), "bad_request"),
        (Reply::new(403, &[], reasons), "content_filter"),
    ] {
        let (one, two) = (
            Server::start(vec![reply]).await,
            Server::start(vec![says("Seven.")]).await,
        );
        let app = workspace(&one, Some(&two)).start().await;
        let run = app
            .run_of(&note("q@guest.example", "", "When is breakfast?"))
            .await;
        app.drain().await;
        let (state, _, found) = app.outcome(&run).await;
        assert_eq!((state.as_str(), found.as_deref()), ("failed", Some(class)));
        assert_eq!((two.seen().len(), app.sent().len()), (0, 0), "{class}");
    }
    let one = Server::start(vec![Reply::new(403, &[], reasons)]).await;
    let two = Server::start(vec![says("Seven.")]).await;
    let willing = workspace(&one, Some(&two));
    willing.set(
        "configs/inference.json",
        "/fallback_on_refusal",
        json!(true),
    );
    let app = willing.start().await;
    let run = app
        .run_of(&note("q@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    assert_eq!(
        (app.outcome(&run).await.0.as_str(), app.sent().len()),
        ("succeeded", 1)
    );
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_model_that_refuses_is_followed_by_the_next_where_wanted() {
    let refusal = json!({ "choices": [{ "index": 0, "delta": { "refusal": "I cannot." }, "finish_reason": "content_filter" }] });
    for (wanted, state, asked) in [(true, "succeeded", 1), (false, "failed", 0)] {
        let (one, two) = (
            Server::start(vec![chunks(&refusal)]).await,
            Server::start(vec![says("Seven.")]).await,
        );
        let workspace = workspace(&one, Some(&two));
        workspace.set(
            "configs/inference.json",
            "/fallback_on_refusal",
            json!(wanted),
        );
        let app = workspace.start().await;
        let run = app
            .run_of(&note("q@guest.example", "", "When is breakfast?"))
            .await;
        app.drain().await;
        assert_eq!(
            (app.outcome(&run).await.0.as_str(), two.seen().len()),
            (state, asked)
        );
        // What the refusal used is in the books, although its answer is not.
        let sql = "SELECT CAST(sum(input_tokens) AS TEXT) FROM usage_ledger WHERE run_id = $1";
        let used = if wanted { "200" } else { "100" };
        assert_eq!(app.row(sql, &run).await[0].as_deref(), Some(used));
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_run_stays_with_its_fallback_and_no_tool_is_called_again() {
    let one = Server::start(vec![reads("knowledge/house.md"), refuses(404, &[])]).await;
    let two = Server::start(vec![reads("PERSONA.md"), says("From seven to ten.")]).await;
    let app = workspace(&one, Some(&two)).start().await;
    let run = app
        .run_of(&note("q@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    assert_eq!(
        tries(&app, &run).await,
        [
            "0 compat:one/m1 answered",
            "1 compat:one/m1 model_not_found",
            "1 compat:two/m2 answered",
            "2 compat:two/m2 answered"
        ]
    );
    assert_eq!(
        app.trace(&run).await,
        [
            "call read_file",
            "ok read_file",
            "call read_file",
            "ok read_file"
        ]
    );
    assert_eq!(
        (one.seen().len(), two.seen().len(), app.sent().len()),
        (2, 2, 1)
    );
    let handed_over: Value = serde_json::from_str(&two.seen()[0].body).expect("json");
    let said = handed_over["messages"].as_array().expect("messages");
    let last = said.last().expect("a message");
    assert_eq!(
        (&last["role"], &handed_over["model"]),
        (&json!("tool"), &json!("m2"))
    );
    assert!(
        last["content"]
            .as_str()
            .is_some_and(|text| text.contains("From seven to ten")),
        "{last}"
    );
    app.check().await;
}

#[tokio::test]
async fn with_no_answer_the_first_error_is_the_cause_others_are_named() {
    let (one, two) = (
        Server::start(vec![refuses(401, &[])]).await,
        Server::start(vec![refuses(403, &[])]).await,
    );
    let app = workspace(&one, Some(&two)).start().await;
    let run = app
        .run_of(&note("q@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    assert_eq!(
        app.outcome(&run).await,
        ("failed".into(), Some("failed".into()), Some("auth".into()))
    );
    let said = error_message(&app, &run).await;
    assert!(
        said.contains("HTTP 401") && said.contains("compat:two/m2: permission: HTTP 403"),
        "{said}"
    );
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_run_whose_chain_is_busy_comes_back_after_the_shortest_wait() {
    let busy = |seconds| refuses(429, &[("retry-after", seconds)]);
    let one = Server::start(vec![busy("7200"), says("Seven.")]).await;
    let two = Server::start(vec![busy("3600")]).await;
    let app = workspace(&one, Some(&two)).start().await;
    let run = app
        .run_of(&note("q@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    let (state, _, class) = app.outcome(&run).await;
    assert_eq!(
        (state.as_str(), class.as_deref()),
        ("waiting_retry", Some("rate_limited"))
    );
    assert!(
        error_message(&app, &run)
            .await
            .contains("compat:two/m2: rate_limited")
    );
    let at = app
        .row("SELECT next_attempt_at FROM runs WHERE id = $1", &run)
        .await
        .remove(0)
        .expect("a time");
    assert!(
        ("2026-11-20T10:00:00".."2026-11-20T10:00:15").contains(&at.as_str()),
        "{at}"
    );
    app.workspace.clock.advance(Duration::from_secs(3580));
    assert_eq!(app.drain().await.runs, 0, "it waits");
    app.workspace.clock.advance(Duration::from_secs(40));
    app.drain().await;
    assert_eq!(
        (app.outcome(&run).await.0.as_str(), app.sent().len()),
        ("succeeded", 1)
    );
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_run_that_was_interrupted_on_its_fallback_goes_on_there() {
    let one = Server::start(vec![refuses(404, &[])]).await;
    let busy = refuses(429, &[("retry-after", "600")]);
    let two = Server::start(vec![
        reads("knowledge/house.md"),
        busy,
        says("From seven to ten."),
    ])
    .await;
    let app = workspace(&one, Some(&two)).start().await;
    let run = app
        .run_of(&note("q@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "waiting_retry");
    let app = app.restart().await;
    app.workspace.clock.advance(Duration::from_secs(620));
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    assert_eq!(
        tries(&app, &run).await,
        [
            "0 compat:one/m1 model_not_found",
            "0 compat:two/m2 answered",
            "1 compat:two/m2 rate_limited",
            "1 compat:two/m2 answered"
        ]
    );
    assert_eq!((one.seen().len(), app.sent().len()), (1, 1));
    app.check().await;
}

#[tokio::test]
async fn a_persona_may_have_a_chain_of_its_own_or_none() {
    for (own, state) in [
        (
            json!([{ "provider": "compat:two", "model": "m2" }]),
            "succeeded",
        ),
        (json!([]), "failed"),
    ] {
        let (one, two) = (
            Server::start(vec![refuses(404, &[])]).await,
            Server::start(vec![says("Seven.")]).await,
        );
        let workspace = workspace(&one, Some(&two));
        let house = if state == "failed" {
            json!([{ "provider": "compat:two", "model": "m2" }])
        } else {
            json!([])
        };
        workspace.set("configs/inference.json", "/fallback", house);
        workspace.set("personas/ada/persona.json", "/fallback", own);
        let app = workspace.start().await;
        let run = app
            .run_of(&note("q@guest.example", "", "When is breakfast?"))
            .await;
        app.drain().await;
        assert_eq!(app.outcome(&run).await.0, state);
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_refused_parameter_is_left_out_once_and_not_asked_for_again() {
    let refused = json!({ "class": "bad_request", "refused": "temperature" });
    let app = TestApp::start(json!({ "rules": [
        { "when": { "without": "temperature" }, "say": "Seven." },
        { "error": refused },
    ] }))
    .await;
    let first = app
        .run_of(&note("q1@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    assert_eq!(
        tries(&app, &first).await,
        ["0 scripted/test bad_request", "0 scripted/test answered"]
    );
    assert!(app.prompts(&first).await[0].get("without").is_none());
    assert_eq!(
        app.prompts(&first).await[1]["without"],
        json!(["temperature"])
    );
    let second = app
        .run_of(&note("q2@guest.example", "", "And lunch?"))
        .await;
    app.drain().await;
    assert_eq!(tries(&app, &second).await, ["0 scripted/test answered"]);
}

#[tokio::test]
async fn a_parameter_refused_although_it_was_left_out_ends_the_run() {
    let app = TestApp::start(json!({ "rules": [
        { "error": { "class": "bad_request", "refused": "temperature" } },
    ] }))
    .await;
    let run = app
        .run_of(&note("q@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    assert_eq!(app.outcome(&run).await.2.as_deref(), Some("bad_request"));
    assert_eq!(tries(&app, &run).await.len(), 2);
}
