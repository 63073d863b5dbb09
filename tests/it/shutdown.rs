//! How a run ends before its time, or at it: cancelled from another process, put back by a shutdown, out of time over all
//! its attempts, at the end of its patience with a model. What was open is closed.

use crate::app::db;
use crate::app::{TestApp, Workspace, note};
use crate::fallback::{refuses, says, tries, workspace};
use crate::providers::server::{Reply, Server, Then};
use attache::clock::ManualClock;
use serde_json::json;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(20);

/// A server that begins an answer and never ends it.
async fn holding() -> Server {
    let begun = r#"data: {"choices":[{"index":0,"delta":{"content":"Sev"}}]}"#;
    Server::start(vec![Reply::chunked(&format!("{begun}\n\n"), Then::Hold)]).await
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_so().await {
            crate::app::glance().await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting)
        .await
        .unwrap_or_else(|_| panic!("{what}"));
}

async fn state(workspace: &Workspace, run: &str) -> String {
    let mut rows = workspace.rows().await;
    let found = db::query_scalar("SELECT state FROM runs WHERE id = $1")
        .bind(run)
        .fetch_one(&mut rows);
    found.await.expect("a run")
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_run_cancelled_by_another_process_closes_its_connection() {
    let server = holding().await;
    let app = workspace(&server, None).start().await;
    let run = app
        .run_of(&note("q@guest.example", "", "When is breakfast?"))
        .await;
    let TestApp { workspace, engine } = app;
    let stop = CancellationToken::new();
    let serving = tokio::spawn(engine.serve(Vec::new(), stop.clone()));
    until("the model is asked", async || !server.seen().is_empty()).await;
    let mut cancel = tokio::process::Command::new(env!("CARGO_BIN_EXE_attache"));
    cancel
        .current_dir(workspace.path())
        .args(["runs", "cancel", &run]);
    let said = cancel.output().await.expect("the binary runs");
    assert!(said.status.success(), "{said:?}");
    tokio::time::timeout(PATIENCE, server.hung_up.notified())
        .await
        .expect("the connection is closed");
    until("the run is cancelled", async || {
        state(&workspace, &run).await == "cancelled"
    })
    .await;
    stop.cancel();
    serving.await.expect("no panic").expect("a clean stop");
    let app = workspace.start().await;
    assert_eq!(app.outcome(&run).await.1.as_deref(), Some("cancelled"));
    assert_eq!(tries(&app, &run).await, ["0 compat:one/m1 cancelled"]);
    assert_eq!(
        (
            app.drain().await.runs,
            app.sent().len(),
            server.seen().len()
        ),
        (0, 0, 1)
    );
    app.check().await;
}

#[tokio::test]
async fn a_shutdown_amid_a_call_closes_it_and_the_run_is_put_back() {
    let server = holding().await;
    let workspace = workspace(&server, None);
    workspace.set("configs/gateway.json", "/limits/drain_max", json!("50ms"));
    let app = workspace.start().await;
    let run = app
        .run_of(&note("q@guest.example", "", "When is breakfast?"))
        .await;
    let TestApp { workspace, engine } = app;
    let stop = CancellationToken::new();
    let serving = tokio::spawn(engine.serve(Vec::new(), stop.clone()));
    until("the model is asked", async || !server.seen().is_empty()).await;
    stop.cancel();
    tokio::time::timeout(PATIENCE, server.hung_up.notified())
        .await
        .expect("the connection is closed");
    serving.await.expect("no panic").expect("a clean stop");
    assert_eq!(state(&workspace, &run).await, "queued");
    let well = Server::start(vec![says("Seven.")]).await;
    workspace.set(
        "configs/inference.json",
        "/providers/compat:one/base_url",
        json!(well.url),
    );
    let app = workspace.start().await;
    app.drain().await;
    assert_eq!(
        (app.outcome(&run).await.0.as_str(), app.sent().len()),
        ("succeeded", 1)
    );
    app.check().await;
}

#[tokio::test]
async fn time_counts_over_all_attempts_of_a_run_not_while_it_waits() {
    let clock: Arc<OnceLock<Arc<ManualClock>>> = Arc::default();
    let of_server = clock.clone();
    let server = Server::answering(move |_, before| match of_server.get() {
        Some(clock) if before < 3 => {
            // The call takes four minutes.
            clock.advance(Duration::from_secs(240));
            refuses(503, &[])
        }
        _ => says("As far as I came."),
    });
    let app = workspace(&server.await, None).start().await;
    let clock = clock.get_or_init(|| app.workspace.clock.clone());
    let run = app
        .run_of(&note("q@guest.example", "", "When is breakfast?"))
        .await;
    let worked = "SELECT CAST(worked_ms AS TEXT) FROM runs WHERE id = $1";
    for attempt in 1..=3_u64 {
        app.engine.drain().await.expect("drained");
        let (state, _, class) = app.outcome(&run).await;
        assert_eq!(
            (state.as_str(), class.as_deref()),
            ("waiting_retry", Some("overloaded"))
        );
        let sum: u64 = app.row(worked, &run).await[0]
            .as_deref()
            .and_then(|ms| ms.parse().ok())
            .expect("ms");
        assert_eq!(sum, attempt * 240_000);
        clock.advance(Duration::from_secs(3700));
    }
    // Twelve minutes of ten are used up, so it says its last words instead of trying on.
    app.drain().await;
    let (state, stop, _) = app.outcome(&run).await;
    assert_eq!(
        (state.as_str(), stop.as_deref()),
        ("succeeded", Some("limit_time"))
    );
    assert_eq!(
        app.sent().pop().expect("a mail").text.trim(),
        "As far as I came."
    );
    app.check().await;
}

#[tokio::test]
async fn an_unreadable_call_is_corrected_once_and_a_second_one_ends_the_run() {
    let unreadable = || json!({ "say": "", "stop": "malformed_call" });
    let reads =
        json!({ "call": [{ "tool": "read_file", "args": { "path": "knowledge/house.md" } }] });
    let app = TestApp::start(
        json!({ "turns": [unreadable(), reads, unreadable(), { "say": "Seven." }] }),
    )
    .await;
    app.workspace
        .set("configs/inference.json", "/max_tool_turns", json!(8));
    let run = app
        .run_of(&note("q@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    assert_eq!(app.outcome(&run).await.1.as_deref(), Some("answered"));
    assert_eq!(app.trace(&run).await, ["call read_file", "ok read_file"]);
    assert!(
        app.prompts(&run).await[1]
            .to_string()
            .contains("could not be read")
    );

    let patient =
        json!({ "rules": [{ "when": { "tools": false }, "say": "I cannot." }, unreadable()] });
    let workspace = Workspace::new(&patient);
    workspace.set("configs/inference.json", "/max_tool_turns", json!(20));
    let app = workspace.start().await;
    let run = app
        .run_of(&note("q@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    assert_eq!(
        app.outcome(&run).await.1.as_deref(),
        Some("limit_tool_failures")
    );
    assert_eq!((app.prompts(&run).await.len(), app.sent().len()), (3, 1));
}

#[tokio::test]
async fn a_model_with_wrong_arguments_three_times_in_a_row_is_stopped() {
    let wrong = json!({ "call": [{ "tool": "read_file", "raw": "{\"path\": " }] });
    let workspace = Workspace::new(
        &json!({ "rules": [{ "when": { "tools": false }, "say": "I cannot." }, wrong] }),
    );
    workspace.set("configs/inference.json", "/max_tool_turns", json!(20));
    let app = workspace.start().await;
    let run = app
        .run_of(&note("q@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    assert_eq!(
        app.outcome(&run).await.1.as_deref(),
        Some("limit_tool_failures")
    );
    assert_eq!((app.trace(&run).await.len(), app.sent().len()), (6, 1));
    app.check().await;
}

#[tokio::test]
async fn an_answer_only_paused_is_sent_again_five_times_and_no_more() {
    let script = json!({ "rules": [
        { "when": { "tools": false }, "say": "As far as I came." }, { "say": "", "stop": "paused" } ] });
    let workspace = Workspace::new(&script);
    workspace.set("configs/inference.json", "/max_tool_turns", json!(50));
    let app = workspace.start().await;
    let run = app
        .run_of(&note("q@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    assert_eq!(app.outcome(&run).await.1.as_deref(), Some("limit_turns"));
    assert_eq!((app.prompts(&run).await.len(), app.sent().len()), (6, 1));
}

#[tokio::test]
async fn an_agent_that_failed_after_acting_is_not_asked_again() {
    let app = TestApp::start(json!({ "rules": [
        { "error": { "class": "overloaded", "acted": true, "retry_after_ms": 1 } } ] }))
    .await;
    let run = app
        .run_of(&note("q@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    assert_eq!(
        app.outcome(&run).await,
        (
            "failed".into(),
            Some("failed".into()),
            Some("overloaded".into())
        )
    );
    assert_eq!(tries(&app, &run).await.len(), 1);
}

#[tokio::test]
async fn a_call_may_take_no_longer_than_its_run_has_left() {
    let workspace = Workspace::new(&json!({ "rules": [{ "hang": true }] }));
    workspace.set(
        "configs/inference.json",
        "/budget",
        json!({ "duration_max": "1s" }),
    );
    workspace.set(
        "configs/inference.json",
        "/timeouts",
        json!({ "call": "3s", "idle": "3s" }),
    );
    workspace.set(
        "configs/inference.json",
        "/retry",
        json!({ "call_attempts_max": 1 }),
    );
    let app = workspace.start().await;
    let run = app
        .run_of(&note("q@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    let row = app
        .row(
            "SELECT error_message FROM run_turns WHERE run_id = $1 AND turn_index = 0",
            &run,
        )
        .await;
    assert_eq!(row[0].as_deref(), Some("no complete answer within 1000 ms"));
}

#[tokio::test]
#[ignore = "second tier"]
async fn an_answer_with_more_calls_than_any_run_may_make_is_no_answer() {
    let call = json!({ "tool": "read_file", "args": { "path": "knowledge/house.md" } });
    // The last is the control: as many as are taken, be they executed or not.
    for (calls, steps) in [(20_000, 0), (129, 0), (128, 256)] {
        let turns = json!([{ "call": vec![call.clone(); calls] }, { "say": "From seven." }]);
        let app = TestApp::start(json!({ "turns": turns })).await;
        let run = app
            .run_of(&note("q@guest.example", "", "When is breakfast?"))
            .await;
        app.drain().await;
        let mut rows = app.workspace.rows().await;
        let found = db::query_scalar("SELECT count(*) FROM thread_tool_events WHERE run_id = $1")
            .bind(&run);
        let found: i64 = found.fetch_one(&mut rows).await.expect("a count");
        assert_eq!(found, steps, "{calls} calls");
        let first = tries(&app, &run).await.remove(0);
        assert_eq!(first.ends_with(" protocol"), steps == 0, "{first}");
        let asked = app.prompts(&run).await;
        let longest = asked
            .iter()
            .map(|request| request.to_string().len())
            .max()
            .expect("a request");
        assert!(
            longest < 200_000,
            "{calls} calls: the next request has {longest} bytes"
        );
    }
}
