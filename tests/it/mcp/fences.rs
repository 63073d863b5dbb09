//! The tools of a run are offered only while the engine that offers them works on it.

use super::client::{Client, catch_up, claimed, reply};
use crate::app::{TestApp, Workspace, proven_note as note};
use attache::domain::RunId;
use serde_json::json;

#[tokio::test]
async fn a_run_that_nobody_works_on_offers_nothing() {
    let app = TestApp::start(json!({ "turns": [{ "say": "Hello." }] })).await;
    let run = app.run_of(&note("q1@guest.example", "", "Hello?")).await;
    for (run, why) in [(run.as_str(), "queued"), ("nope", "no run `nope`")] {
        let (code, complaints) = Client::for_run(app.workspace.path(), run).end().await;
        assert_ne!(code, Some(0), "{complaints}");
        assert!(complaints.contains(why), "{complaints}");
    }
    app.drain().await;
    let (code, complaints) = Client::for_run(app.workspace.path(), &run).end().await;
    assert!(
        code != Some(0) && complaints.contains("succeeded"),
        "{complaints}"
    );
}

#[tokio::test]
async fn a_server_of_an_engine_that_is_gone_does_nothing_more() {
    let app = TestApp::start(json!({ "turns": [] })).await;
    let run = claimed(&app).await;
    let mut agent = Client::ready(app.workspace.path(), &run).await;
    assert!(!agent.call("list_files", json!({})).await.0);
    let app = app.restart().await;
    // Queued again, and then worked on by the new engine.
    for is_claimed in [false, true] {
        if is_claimed {
            assert_eq!(
                app.engine
                    .store
                    .claim_runs(1, 1)
                    .await
                    .expect("a claim")
                    .len(),
                1
            );
        }
        let (failed, said) = agent.call("send_email", reply("From the grave.")).await;
        assert!(failed && said["error"]["code"] == "not_done", "{said}");
    }
    assert_eq!(app.trace(&run).await, ["call list_files", "ok list_files"]);
    // The control: a server of the new engine's may.
    let mut heir = Client::ready(app.workspace.path(), &run).await;
    assert!(!heir.call("send_email", reply("Alive.")).await.0);
    let cancel = app
        .engine
        .store
        .requeue_run(&RunId::new(run), std::time::Duration::ZERO)
        .await;
    cancel.expect("put back");
    assert!(heir.call("send_email", reply("Too late.")).await.0);
    catch_up(&app);
    app.drain().await;
    assert_eq!(app.sent().len(), 1);
}

#[tokio::test]
async fn no_provider_key_is_needed_and_a_broken_configuration_is_said() {
    let workspace = Workspace::new(&json!({ "turns": [] }));
    let app = workspace.start().await;
    let run = claimed(&app).await;
    // The engine had the key in its environment; whoever the agent starts has not.
    app.workspace
        .set("configs/inference.json", "/provider", "anthropic".into());
    let mut agent = Client::ready(app.workspace.path(), &run).await;
    assert!(!agent.call("list_files", json!({})).await.0);
    agent.end().await;
    app.workspace
        .set("configs/inference.json", "/provider", "nobody".into());
    let (code, complaints) = Client::for_run(app.workspace.path(), &run).end().await;
    assert!(
        code != Some(0) && complaints.contains("no provider `nobody`"),
        "{complaints}"
    );
}
