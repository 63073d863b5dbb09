//! What goes through the server is judged, recorded and sent as in the engine's own loop.

use super::client::{Client, catch_up, claimed, reply};
use crate::app::{TestApp, Workspace};
use crate::supervisor::agent::{Act, House, calls, ends, result, starts};
use attache::domain::{ErrorClass, RunId};
use attache::store::RunFailure;
use futures_util::future::join_all;
use serde_json::json;

/// The engine gives the run up, so that the house's invariants can be asked.
async fn give_up(app: &TestApp, run: &str) {
    let (message, worked) = ("over".into(), std::time::Duration::ZERO);
    let failure = RunFailure {
        class: ErrorClass::Crashed,
        message,
        retry_at: None,
        worked,
    };
    app.engine
        .store
        .fail_run(&RunId::new(run), failure)
        .await
        .expect("failed");
}

#[tokio::test]
async fn exactly_the_tools_of_the_persona_are_offered_with_schemas() {
    let workspace = Workspace::new(&json!({ "turns": [] }));
    workspace.write_json(
        "personas/ada/persona.json",
        &json!({ "name": "Ada", "address": "ada", "tools": ["read_file", "send_email"] }),
    );
    let app = workspace.start().await;
    let run = claimed(&app).await;
    let mut agent = Client::for_run(app.workspace.path(), &run);
    let hello = agent.introduce().await;
    assert_eq!(hello["result"]["serverInfo"]["name"], "attache");
    let said = agent.request("tools/list", json!({})).await;
    let tools = said["result"]["tools"].as_array().expect("a list");
    let names: Vec<_> = tools
        .iter()
        .map(|tool| tool["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, ["send_email", "read_file"]);
    assert_eq!(tools[0]["inputSchema"]["additionalProperties"], false);
    assert_eq!(tools[1]["annotations"]["readOnlyHint"], true);
    let (failed, said) = agent.call("list_files", json!({})).await;
    assert!(failed && said["error"]["code"] == "unknown_tool", "{said}");
    assert_eq!(agent.end().await, (Some(0), String::new()));
    assert_eq!(
        app.trace(&run).await,
        ["call list_files", "unknown_tool list_files"]
    );
}

#[tokio::test]
async fn a_call_is_recorded_and_its_wrong_arguments_can_be_mended() {
    let app = TestApp::start(json!({ "turns": [] })).await;
    let run = claimed(&app).await;
    let mut agent = Client::ready(app.workspace.path(), &run).await;
    let (failed, said) = agent
        .call("read_file", json!({ "path": "knowledge/house.md" }))
        .await;
    assert!(
        !failed && said.to_string().contains("From seven to ten"),
        "{said}"
    );
    let (failed, said) = agent.call("read_file", json!({ "file": 7 })).await;
    assert!(
        failed && said["error"]["code"] == "invalid_arguments",
        "{said}"
    );
    let (failed, said) = agent
        .call("read_file", json!({ "path": "../../configs/gateway.json" }))
        .await;
    assert!(failed, "{said}");
    let trace = app.trace(&run).await;
    assert_eq!(
        trace[..4],
        [
            "call read_file",
            "ok read_file",
            "call read_file",
            "invalid_arguments read_file"
        ]
    );
    let ids = "SELECT group_concat(tool_call_id || executor, ' ') FROM thread_tool_events
        WHERE run_id = $1 AND event_type = 'tool_call'";
    assert_eq!(
        app.row(ids, &run).await,
        [Some("m0engine m1engine m2engine".to_owned())]
    );
    agent.end().await;
    give_up(&app, &run).await;
    app.check().await;
}

#[tokio::test]
async fn mail_goes_out_once_by_the_gate_and_to_nobody_else() {
    let app = TestApp::start(json!({ "turns": [] })).await;
    let run = claimed(&app).await;
    let mut agent = Client::ready(app.workspace.path(), &run).await;
    let stranger = json!({ "to": ["eve@elsewhere.example"], "subject": "x", "body": "secrets" });
    let (failed, said) = agent.call("send_email", stranger).await;
    assert!(
        !failed && said["result"]["waits_for_owner"] == true,
        "{said}"
    );
    let (failed, said) = agent.call("send_email", reply("From seven to ten.")).await;
    assert!(!failed && said["result"]["reply"] == true, "{said}");
    agent.end().await;
    give_up(&app, &run).await;
    catch_up(&app);
    app.drain().await;
    let sent = app.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].text.trim(), "From seven to ten.");
    app.check().await;
}

#[tokio::test]
async fn the_bounds_of_a_run_hold_over_all_its_tool_servers() {
    let workspace = Workspace::new(&json!({ "turns": [] }));
    workspace.set(
        "configs/inference.json",
        "/budget",
        json!({ "mails_max": 1, "tool_calls_max": 3 }),
    );
    let app = workspace.start().await;
    let run = claimed(&app).await;
    let mut first = Client::ready(app.workspace.path(), &run).await;
    let mut second = Client::ready(app.workspace.path(), &run).await;
    assert!(!first.call("send_email", reply("One.")).await.0);
    let (failed, said) = second.call("send_email", reply("Two.")).await;
    assert!(
        failed && said["error"]["code"] != "limit",
        "one mail is all: {said}"
    );
    assert!(!first.call("list_files", json!({})).await.0);
    let (failed, said) = second.call("list_files", json!({})).await;
    assert!(failed && said["error"]["code"] == "limit", "{said}");
    give_up(&app, &run).await;
    catch_up(&app);
    app.drain().await;
    assert_eq!(app.sent().len(), 1);
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn of_many_servers_mailing_at_once_no_more_do_than_the_run_may() {
    let workspace = Workspace::new(&json!({ "turns": [] })).talkative();
    workspace.set(
        "configs/inference.json",
        "/budget",
        json!({ "mails_max": 2 }),
    );
    let app = workspace.start().await;
    let run = claimed(&app).await;
    let (path, run_id) = (app.workspace.path(), run.as_str());
    let agents = join_all((0..8).map(|_| Client::ready(path, run_id))).await;
    // All of them stand before the same transaction; whoever looked before it saw that no mail was sent.
    let mail = |mut agent: Client| async move { agent.call("send_email", reply("Mine.")).await };
    let said = join_all(agents.into_iter().map(mail)).await;
    let sent = said.iter().filter(|(failed, _)| !failed).count();
    let refused = said
        .iter()
        .filter(|(_, said)| said["error"]["code"] == "mail_limit_reached")
        .count();
    assert_eq!((sent, refused), (2, 6), "{said:?}");
    give_up(&app, &run).await;
    catch_up(&app);
    app.drain().await;
    assert_eq!(app.sent().len(), 2);
    app.check().await;
}

#[tokio::test]
async fn an_agent_that_answers_by_our_tool_is_not_answered_for_again() {
    let acts = vec![
        starts(),
        calls("x1", "Read"),
        result("x1", "a"),
        calls("x2", "mcp__attache__send_email"),
        Act::Mails("From seven to ten.".into()),
        result("x2", "ok"),
        ends("I have answered."),
    ];
    let house = House::new("read_only", vec![acts]).await;
    let run = house.letter("q1@guest.example", "").await;
    assert_eq!(house.app.outcome(&run).await.0, "succeeded");
    assert_eq!(
        house.app.trace(&run).await,
        ["call Read", "ok Read", "call send_email", "ok send_email"]
    );
    let sent = house.app.sent();
    assert_eq!((sent.len(), sent[0].text.trim()), (1, "From seven to ten."));
    let withheld = "SELECT group_concat(disposition) FROM messages WHERE run_id = $1 AND text_body = 'I have answered.'";
    assert_eq!(
        house.app.row(withheld, &run).await,
        [Some("withheld:already_replied".to_owned())]
    );
    house.app.check().await;
}

#[tokio::test]
async fn an_agent_that_failed_after_it_mailed_is_not_asked_again() {
    let acts = vec![
        starts(),
        Act::Mails("From seven to ten.".into()),
        Act::Fails(ErrorClass::Transient),
    ];
    let house = House::new("read_only", vec![acts, vec![starts(), ends("Again.")]]).await;
    let run = house.letter("q1@guest.example", "").await;
    assert_eq!(house.app.outcome(&run).await.0, "failed");
    assert_eq!(
        (house.app.sent().len(), house.pair.requests().len()),
        (1, 1)
    );
    house.app.check().await;
}
