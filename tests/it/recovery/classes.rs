//! Calls that were cut off, by the class of their tool: run again, looked at, or never made twice.

use crate::app::{TestApp, Workspace, audit, proven_note as note};
use attache::runs::deps::WorkerDeps;
use attache::runs::worker::Worker;
use attache::store::PowerCut;
use attache::tools::{
    Effects, ResultWords, Tool, ToolCall, ToolCapabilities, ToolClass, ToolDeclaration, ToolError,
    ToolOutcome,
};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::future::pending;
use std::io::Write;
use std::sync::Arc;

/// Writes a line into the persona's folder and never comes back, as a command would that is killed in the middle.
#[derive(Clone, Copy)]
pub struct Ring(ToolClass);

impl Tool for Ring {
    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration {
            name: "ring".to_owned(),
            description: "Rings a bell.".to_owned(),
            input_schema: json!({ "type": "object", "properties": { "bell": { "type": "string" } },
                "required": ["bell"], "additionalProperties": false })
            .into(),
            class: self.0,
            effects: Effects::NONE,
            result_words: ResultWords::Engine,
            capabilities: ToolCapabilities {
                files: true,
                ..ToolCapabilities::NONE
            },
        }
    }
    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<ToolOutcome, ToolError>> {
        Box::pin(async move {
            let mut open = cap_std::fs_utf8::OpenOptions::new();
            let mut file = call
                .env
                .files()?
                .open_with("rung.txt", open.create(true).append(true))
                .expect("a file");
            writeln!(file, "{}", call.args["bell"]).expect("a line");
            match call.args["bell"].as_str() {
                Some("endless") => pending().await,
                _ => Ok(ToolOutcome {
                    result: json!({ "rung": true }),
                    ..ToolOutcome::default()
                }),
            }
        })
    }
}

pub static ONCE: Ring = Ring(ToolClass::Once);
pub static REPEATABLE: Ring = Ring(ToolClass::Repeatable);

pub fn rung(app: &TestApp) -> usize {
    let file = app.workspace.path().join("personas/ada/rung.txt");
    std::fs::read_to_string(file)
        .unwrap_or_default()
        .lines()
        .count()
}

/// A worker of this engine that has the tool too.
fn worker(app: &TestApp, tool: &'static Ring) -> Worker {
    let deps = WorkerDeps::set_up(
        app.engine.store.clone(),
        app.engine.config.clone(),
        Arc::default(),
    );
    let mut deps = deps.expect("a desk");
    deps.tools = deps.tools.with(vec![Box::new(*tool)]).expect("a new name");
    Worker::new(Arc::new(deps))
}

/// Rings the endless bell, asks for it a second time, rings another one, and answers. The engine dies in the first
/// call.
async fn cut_off(tool: &'static Ring) -> (TestApp, String) {
    let call = |bell: &str| json!({ "call": [{ "tool": "ring", "args": { "bell": bell } }] });
    let script =
        json!({ "turns": [call("endless"), call("endless"), call("other"), { "say": "I rang." }] });
    let app = Workspace::new(&script).start().await;
    let run = app
        .run_of(&note("q1@guest.example", "", "Please ring."))
        .await;
    let mut engine = worker(&app, tool);
    let died = async {
        while rung(&app) == 0 {
            crate::app::glance().await;
        }
    };
    tokio::select! {
        _ = engine.drain() => panic!("the call does not come back"),
        () = died => {}
    }
    drop(engine);
    (app.restart().await, run)
}

#[tokio::test]
async fn recovery_and_model_repeat_no_call_that_must_be_made_once() {
    let (app, run) = cut_off(&ONCE).await;
    worker(&app, &ONCE).drain().await.expect("drained");
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
    assert_eq!(rung(&app), 2, "once the endless bell, once the other one");
    let payload =
        "SELECT payload_json FROM thread_tool_events WHERE run_id = $1 AND step_index = 1";
    let payload = app.row(payload, &run).await[0].clone().unwrap_or_default();
    assert!(payload.contains("begun at 2026-11-20T09:00"), "{payload}");
    app.drain().await;
    app.drain().await;
    assert_eq!(
        (app.outcome(&run).await.0.as_str(), app.sent().len()),
        ("succeeded", 1)
    );
    let told: Vec<String> = app.notices().into_iter().map(|mail| mail.subject).collect();
    assert_eq!(
        told,
        ["[attache] a call of ada of `ring` may or may not have happened"]
    );
    // Not `check`, which executes runs once more: nobody else has this tool.
    audit(&mut app.workspace.rows().await).await;
}

/// The control: the same tool in a class that may be repeated is repeated.
#[tokio::test]
async fn a_call_that_may_be_made_twice_is_made_again_by_recovery() {
    let (app, run) = cut_off(&REPEATABLE).await;
    let mut engine = worker(&app, &REPEATABLE);
    let again = async {
        while rung(&app) < 2 {
            crate::app::glance().await;
        }
    };
    tokio::select! {
        _ = engine.drain() => panic!("the call does not come back"),
        () = again => {}
    }
    assert_eq!(app.trace(&run).await, ["call ring"]);
}

/// Memory is changed by a run whose engine dies between the file and the result; then `meanwhile` happens to the file.
async fn memory(
    args: Value,
    meanwhile: impl Fn(&str) -> Option<String>,
) -> (TestApp, Vec<String>, String, String) {
    let script = json!({ "turns": [{ "call": [{ "tool": "update_memory", "args": args }] }, { "say": "Noted." }] });
    let mut at = 1;
    let mut tries = 0;
    let (app, run, left) = loop {
        let app = Workspace::new(&script).start().await;
        let run = app.run_of(&note("q1@guest.example", "", "Note it.")).await;
        app.engine.store.cut_power(PowerCut::BeforeCommit(at));
        let _power = app.engine.drain().await;
        let left = std::fs::read_to_string(app.workspace.path().join("personas/ada/active.md"));
        let left = left.expect("memory");
        // Writes that wait together share a commit, so one number means an earlier step in one
        // engine than in another: the search goes on until the cut falls behind the file and
        // before the result.
        match app.trace(&run).await.as_slice() {
            [call] if call == "call update_memory" && left != "Nothing new." => {
                break (app, run, left);
            }
            [_, _, ..] => at -= 1,
            _ => at += 1,
        }
        tries += 1;
        assert!(tries < 60, "no cut falls between the file and the result");
    };
    let path = app.workspace.path().join("personas/ada/active.md");
    if let Some(changed) = meanwhile(&left) {
        std::fs::write(&path, changed).expect("written");
    }
    let app = app.restart().await;
    for _ in 0..3 {
        app.workspace
            .clock
            .advance(std::time::Duration::from_secs(600));
        app.drain().await;
    }
    let trace = app.trace(&run).await;
    let result = "SELECT payload_json FROM thread_tool_events WHERE run_id = $1 AND event_type = 'tool_result'";
    let result = app.row(result, &run).await[0].clone().unwrap_or_default();
    let memory = std::fs::read_to_string(&path).expect("memory");
    app.check().await;
    let mark = format!(" <!-- from bob@guest.example (contact), 2026-11-20, run {run} -->");
    (app, trace, result, memory.replace(&mark, " (marked)"))
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_memory_written_before_the_engine_died_is_not_written_again() {
    let (app, trace, result, memory) =
        memory(json!({ "append": "Bob wants tea." }), |_| None).await;
    assert_eq!(trace, ["call update_memory", "ok update_memory"]);
    assert!(result.contains("\"changed\":true"), "{result}");
    assert_eq!(memory, "Nothing new.\nBob wants tea. (marked)\n");
    assert!(app.notices().is_empty());
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_memory_that_is_as_before_is_written_after_all() {
    let back = |_: &str| Some("Nothing new.".to_owned());
    let (_, trace, result, memory) = memory(json!({ "append": "Bob wants tea." }), back).await;
    assert_eq!(trace, ["call update_memory", "ok update_memory"]);
    assert!(result.contains("\"changed\":true"), "{result}");
    assert_eq!(memory, "Nothing new.\nBob wants tea. (marked)\n");
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_memory_that_another_changed_is_left_and_the_owner_told() {
    let other = |left: &str| Some(format!("{left}Carl wants coffee.\n"));
    let (app, trace, _, memory) = memory(json!({ "append": "Bob wants tea." }), other).await;
    assert_eq!(
        trace,
        ["call update_memory", "outcome_unknown update_memory"]
    );
    assert_eq!(
        memory,
        "Nothing new.\nBob wants tea. (marked)\nCarl wants coffee.\n"
    );
    assert_eq!(app.notices().len(), 1);
}
