//! An answer that is committed is never asked for again, and its calls are those that are executed: the model of this
//! test says something else each time that it is asked.

use super::engine::Engine;
use super::model::calling;
use super::{letters, state};
use crate::app::db;
use crate::app::{Workspace, behind_relay, dated_now, proven_note as note, without_marks};
use crate::outbound::server::{Script, Server as Sink};
use crate::providers::server::{Reply, Seen, Server};
use serde_json::{Value, json};
use std::time::Duration;

/// Notes the number of the request; after a result says the number of the request.
fn fickle(seen: &Seen, before: usize) -> Reply {
    let body: Value = serde_json::from_str(&seen.body).expect("a JSON body");
    let messages = body["messages"].as_array().expect("messages");
    match messages.iter().any(|message| message["role"] == "tool") {
        false => calling(&[(
            "update_memory",
            json!({ "content": format!("Request {before}.") }),
        )]),
        true => crate::fallback::says(&format!("This is request {before}.")),
    }
}

/// The first two requests' numbers, as what came of them shows: the memory and the mail.
async fn after_death_at(point: &str, hit: u32) -> (String, String, usize) {
    let model = Server::answering(fickle).await;
    let sink = Sink::start(Script::default()).await;
    let workspace = Workspace::new(&json!({ "turns": [] }));
    let smarthost = json!({ "kind": "smarthost", "host": "127.0.0.1", "port": sink.address.port(), "tls": "none" });
    workspace.write_json("configs/security.json", &behind_relay());
    workspace.set("configs/gateway.json", "/outbound", smarthost);
    let inference = json!({ "provider": "compat:model", "model": "m",
        "providers": { "compat:model": { "base_url": model.url } } });
    workspace.write_json("configs/inference.json", &inference);
    let mut engine = Engine::start(workspace.path(), Some(&format!("{point}:{hit}"))).await;
    let letter = dated_now(&note("q1@guest.example", "", "When is breakfast?"));
    letters::hand_in(engine.port.expect("it listens"), &letter)
        .await
        .expect("a yes");
    let dying = async {
        while engine.ended().is_none() {
            crate::app::glance().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), dying)
        .await
        .expect("it dies");
    let engine = Engine::start(workspace.path(), None).await;
    let answered = sink.until(|heard| !heard.accepted().is_empty());
    tokio::time::timeout(Duration::from_secs(30), answered)
        .await
        .expect("a mail");
    let memory =
        std::fs::read_to_string(workspace.path().join("personas/ada/active.md")).expect("a memory");
    let mail = sink.heard(|heard| crate::app::parse(&heard.mails[0].bytes()).text);
    let mut rows = state::open(workspace.path()).await;
    let committed = "SELECT payload_json ->> '$.args.content' FROM thread_tool_events WHERE event_type = 'tool_call'";
    let committed: Vec<String> = db::query_scalar(committed)
        .fetch_all(&mut rows)
        .await
        .expect("calls");
    engine.kill().await;
    let memory = without_marks(&memory);
    // The first line is the owner's, and no run for others replaces it.
    let memory = memory.trim_start_matches("Nothing new.\n").trim_end();
    assert_eq!(committed, [memory], "what was committed is what was done");
    (
        memory.to_owned(),
        mail.trim_end().to_owned(),
        model.seen().len(),
    )
}

fn result(memory: usize, mail: usize, requests: usize) -> (String, String, usize) {
    (
        format!("Request {memory}."),
        format!("This is request {mail}."),
        requests,
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn an_answer_that_was_committed_is_the_one_that_is_acted_on() {
    for point in ["R6", "R7", "R8"] {
        assert_eq!(after_death_at(point, 1).await, result(0, 1, 2), "{point}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_answer_goes_out_as_it_was_committed() {
    assert_eq!(after_death_at("R6", 2).await, result(0, 1, 2));
}

/// The control: before its commit, an answer is nobody's yet, and another one comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn an_answer_that_was_not_committed_is_asked_for_once_more() {
    assert_eq!(after_death_at("R5", 1).await, result(1, 2, 3));
    assert_eq!(after_death_at("R5", 2).await, result(0, 2, 3));
}
