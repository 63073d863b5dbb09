//! A call of an agent that was cut off, of a tool that must not be run twice: its next agent may not make it again.

use super::client::Client;
use crate::app::db;
use crate::app::{TestApp, audit, note};
use crate::recovery::classes::{ONCE, REPEATABLE, Ring, rung};
use attache::domain::RunId;
use attache::mcp::{McpError, serve_over};
use attache::runs::deps::WorkerDeps;
use attache::store::Store;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::task::JoinHandle;

/// Claims the run, and serves its tools and one more, beside the engine as the program does.
async fn served(
    app: &TestApp,
    run: &str,
    tool: &'static Ring,
) -> (Client, JoinHandle<Result<(), McpError>>) {
    assert_eq!(
        app.engine
            .store
            .claim_runs(1, 1)
            .await
            .expect("a claim")
            .len(),
        1
    );
    let beside = Store::open_shared(app.workspace.path(), app.workspace.clock.clone())
        .await
        .expect("a store");
    let mut deps = WorkerDeps::without_providers(beside, app.engine.config.clone(), Arc::default())
        .expect("a desk");
    deps.tools = deps.tools.with(vec![Box::new(*tool)]).expect("a new name");
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let run = RunId::new(run);
    let serving =
        tokio::spawn(async move { serve_over(tokio::io::split(theirs), deps, &run).await });
    let (reading, writing) = tokio::io::split(ours);
    let mut agent = Client::over(reading, writing);
    agent.introduce().await;
    (agent, serving)
}

fn bell(name: &str) -> Value {
    json!({ "bell": name })
}

/// The engine and the server go while the bell rings; then another engine, another agent.
async fn cut_off(tool: &'static Ring) -> (TestApp, String, Client) {
    let app = TestApp::start(json!({ "turns": [{ "say": "I rang." }] })).await;
    let run = app
        .run_of(&note("q1@guest.example", "", "Please ring."))
        .await;
    let (mut agent, serving) = served(&app, &run, tool).await;
    let ringing = async {
        while rung(&app) == 0 {
            crate::app::glance().await;
        }
    };
    tokio::select! {
        _ = agent.call("ring", bell("endless")) => panic!("the call does not come back"),
        () = ringing => {}
    }
    serving.abort();
    assert_eq!(app.trace(&run).await, ["call ring"]);
    let app = app.restart().await;
    let (agent, _serving) = served(&app, &run, tool).await;
    (app, run, agent)
}

#[tokio::test]
async fn an_agent_cannot_ask_again_for_what_may_have_happened() {
    let (app, run, mut agent) = cut_off(&ONCE).await;
    let (failed, said) = agent.call("ring", bell("endless")).await;
    assert!(failed && said["error"]["code"] == "not_again", "{said}");
    let (failed, said) = agent.call("ring", bell("other")).await;
    assert!(!failed && said["result"]["rung"] == true, "{said}");
    assert_eq!(rung(&app), 2, "once the endless bell, once the other one");
    assert_eq!(
        app.trace(&run).await,
        [
            "call ring",
            "outcome_unknown ring",
            "call ring",
            "not_again ring",
            "call ring",
            "ok ring"
        ]
    );
    drop(agent);
    let put_back = app
        .engine
        .store
        .requeue_run(&RunId::new(run), std::time::Duration::ZERO)
        .await;
    put_back.expect("queued");
    app.drain().await;
    let notices = app.notices();
    assert_eq!(notices.len(), 1, "its owner is told, once: {notices:?}");
    assert!(
        notices[0].text.contains("`ring`") && notices[0].text.contains("may or may not"),
        "{}",
        notices[0].text
    );
    // Not `check`, which executes runs once more: nobody else has this tool.
    audit(&mut app.workspace.rows().await).await;
}

/// The control: of a tool that may be repeated the same call is made.
#[tokio::test]
async fn an_agent_may_ask_again_where_that_does_no_harm() {
    let (app, _, mut agent) = cut_off(&REPEATABLE).await;
    let again = async {
        while rung(&app) < 2 {
            crate::app::glance().await;
        }
    };
    tokio::select! {
        said = agent.call("ring", bell("endless")) => panic!("the call does not come back: {said:?}"),
        () = again => {}
    }
    assert_eq!(
        notices(&app).await,
        0,
        "there is nothing that its owner could do about it"
    );
}

async fn notices(app: &TestApp) -> i64 {
    let mut rows = app.workspace.rows().await;
    db::query_scalar("SELECT count(*) FROM notices")
        .fetch_one(&mut rows)
        .await
        .expect("a count")
}
