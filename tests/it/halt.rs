//! The kill switch: what it stops, what it leaves alone, and that nothing is lost by it.

use crate::app::db;
use crate::app::{TestApp, Workspace, note};
use crate::fallback::{says, workspace};
use crate::providers::server::{Reply, Server, Then};
use attache::domain::{NoticeId, NoticeKind, NoticeSubject, PersonaId};
use attache::store::NewNotice;
use serde_json::{Value, json};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(20);

fn persona(id: &str) -> PersonaId {
    PersonaId::parse(id).expect("an id")
}

/// A letter to a persona.
fn letter_to(who: &str, id: &str) -> String {
    note(&format!("{id}@guest.example"), "", "When is breakfast?")
        .replace("ada@engine.test", &format!("{who}@engine.test"))
}

async fn house() -> TestApp {
    let workspace = Workspace::new(&json!({ "rules": [{ "say": "From seven to ten." }] }));
    workspace.persona("bea", "Bea");
    workspace.start().await
}

async fn attache(workspace: &Workspace, args: &[&str]) -> Value {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_attache"));
    let output = command
        .current_dir(workspace.path())
        .args(args)
        .arg("--json")
        .output()
        .await
        .expect("the binary runs");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// What `runs list` says that a run waits for.
async fn waits_for(workspace: &Workspace, run: &str) -> Value {
    let runs = attache(workspace, &["runs", "list"]).await;
    let found = runs
        .as_array()
        .and_then(|runs| runs.iter().find(|row| row["id"] == run));
    found.expect("the run")["waits_for"].clone()
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_halted_persona_takes_letters_and_answers_them_when_it_is_resumed() {
    let app = house().await;
    let halted = attache(
        &app.workspace,
        &["halt", "--persona", "ada", "--reason", "it wrote nonsense"],
    )
    .await;
    assert_eq!(
        (&halted[0]["persona"], &halted[0]["reason"]),
        (&json!("ada"), &json!("it wrote nonsense"))
    );
    let waiting = app.run_of(&letter_to("ada", "a")).await;
    let other = app.run_of(&letter_to("bea", "b")).await;
    assert_eq!(app.drain().await.runs, 1);
    assert_eq!(app.outcome(&waiting).await.0, "queued");
    assert_eq!(waits_for(&app.workspace, &waiting).await, json!("halted"));
    assert_eq!(waits_for(&app.workspace, &other).await, Value::Null);
    assert_eq!(app.outcome(&other).await.0, "succeeded");
    assert_eq!(app.sent().len(), 1);

    // The first reason is kept, and a halt of all is another halt.
    let again = attache(
        &app.workspace,
        &["halt", "--persona", "ada", "--reason", "x"],
    )
    .await;
    assert_eq!(again[0]["reason"], "it wrote nonsense");
    let left = attache(&app.workspace, &["resume"]).await;
    assert_eq!(left.as_array().map(Vec::len), Some(1));
    assert_eq!(app.drain().await.runs, 0);

    let left = attache(&app.workspace, &["resume", "--persona", "ada"]).await;
    assert_eq!(left, json!([]));
    assert_eq!(app.drain().await.runs, 1);
    assert_eq!(app.outcome(&waiting).await.0, "succeeded");
    assert_eq!(app.sent().len(), 2);
    app.check().await;
}

#[tokio::test]
async fn a_run_says_that_it_waits_for_an_earlier_one_of_its_thread() {
    let app = house().await;
    let first = app.run_of(&letter_to("ada", "a")).await;
    let second = note(
        "b@guest.example",
        "References: <a@guest.example>\n",
        "And lunch?",
    );
    let second = app.run_of(&second).await;
    assert_eq!(waits_for(&app.workspace, &first).await, Value::Null);
    assert_eq!(waits_for(&app.workspace, &second).await, "earlier_run");
    app.drain().await;
    assert_eq!(waits_for(&app.workspace, &second).await, Value::Null);
    app.check().await;
}

#[tokio::test]
async fn a_halt_of_all_outlives_a_restart() {
    let app = house().await;
    app.engine.store.halt(None, "").await.expect("halted");
    for who in ["ada", "bea"] {
        app.run_of(&letter_to(who, who)).await;
    }
    assert_eq!(app.drain().await.runs, 0);
    let app = app.restart().await;
    assert_eq!((app.drain().await.runs, app.sent().len()), (0, 0));
    assert!(app.engine.store.lift_halt(None).await.expect("lifted"));
    assert_eq!((app.drain().await.runs, app.sent().len()), (2, 2));
    assert!(!app.engine.store.lift_halt(None).await.expect("nothing"));
    app.check().await;
}

#[tokio::test]
async fn mail_of_a_halted_persona_waits_and_notices_go() {
    let app = house().await;
    let folder = json!({ "kind": "folder", "path": "data/outbox" });
    let nobody = json!({ "kind": "smarthost", "host": "127.0.0.1", "port": 1, "tls": "none" });
    let outbound = |workspace: &Workspace, way: &Value| {
        workspace.set("configs/gateway.json", "/outbound", way.clone());
    };
    // Nobody listens there, so the mail of the run stays queued.
    outbound(&app.workspace, &nobody);
    let app = app.restart().await;
    app.run_of(&letter_to("ada", "a")).await;
    assert_eq!(app.drain().await.runs, 1);
    app.engine
        .store
        .halt(Some(&persona("ada")), "")
        .await
        .expect("halted");
    outbound(&app.workspace, &folder);
    let app = app.restart().await;
    let notice = NewNotice {
        id: NoticeId::new("n1"),
        persona: Some(persona("ada")),
        kind: NoticeKind::PersonaOutOfService,
        detail: String::new(),
        subject: NoticeSubject::Persona,
        subject_id: "ada".to_owned(),
        occurrence: String::new(),
        summary: "something is to be known".to_owned(),
        hint: "look".to_owned(),
    };
    let emitted = app.engine.store.emit_notice(notice).await;
    emitted.expect("emitted");
    app.workspace.clock.advance(Duration::from_secs(3600));
    app.run_of(&letter_to("bea", "b")).await;
    app.drain().await;
    assert_eq!(app.sent().len(), 1, "only the other persona's");
    assert_eq!(app.sent()[0].from[0].name, "Bea");
    assert_eq!(app.notices().len(), 1, "and what its owner must know");
    app.engine
        .store
        .lift_halt(Some(&persona("ada")))
        .await
        .expect("lifted");
    app.workspace.clock.advance(Duration::from_secs(3600));
    app.drain().await;
    assert_eq!(app.sent().len(), 2);
    app.check().await;
}

/// Serves with a run that waits for its model, halts `who`, and tells whether the run was put back.
async fn is_stopped(who: &str) -> (bool, TestApp, String) {
    let begun = r#"data: {"choices":[{"index":0,"delta":{"content":"Sev"}}]}"#;
    let server = Server::answering(move |_, before| match before {
        0 => Reply::chunked(&format!("{begun}\n\n"), Then::Hold),
        _ => says("Seven."),
    })
    .await;
    let workspace = workspace(&server, None);
    workspace.persona("bea", "Bea");
    workspace.set("configs/gateway.json", "/limits/drain_max", json!("50ms"));
    let app = workspace.start().await;
    let run = app.run_of(&letter_to("ada", "a")).await;
    let TestApp { workspace, engine } = app;
    let store = engine.store.clone();
    let stop = CancellationToken::new();
    let serving = tokio::spawn(engine.serve(Vec::new(), stop.clone()));
    let asked = async {
        while server.seen().is_empty() {
            crate::app::glance().await;
        }
    };
    tokio::time::timeout(PATIENCE, asked)
        .await
        .expect("the model is asked");
    store.halt(Some(&persona(who)), "").await.expect("halted");
    // Three looks of the worker: the control needs an end, too.
    let put_back = async {
        let mut rows = workspace.rows().await;
        let state = "SELECT state FROM runs WHERE id = $1";
        loop {
            let state: String = db::query_scalar(state)
                .bind(&run)
                .fetch_one(&mut rows)
                .await
                .expect("a run");
            if state == "queued" {
                break;
            }
            crate::app::glance().await;
        }
    };
    let is_put_back = tokio::time::timeout(Duration::from_secs(3), put_back)
        .await
        .is_ok();
    stop.cancel();
    serving.await.expect("no panic").expect("a clean stop");
    drop(store);
    (is_put_back, workspace.start().await, run)
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_run_at_work_is_stopped_and_goes_on_after_the_halt() {
    let (is_put_back, app, run) = is_stopped("ada").await;
    assert!(is_put_back);
    assert_eq!((app.drain().await.runs, app.sent().len()), (0, 0));
    app.engine
        .store
        .lift_halt(Some(&persona("ada")))
        .await
        .expect("lifted");
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    assert_eq!(app.sent().len(), 1);
    app.check().await;
}

/// The control: the halt of another persona leaves the run at work.
#[tokio::test]
#[ignore = "second tier"]
async fn the_halt_of_another_persona_stops_nothing() {
    let (is_put_back, app, run) = is_stopped("bea").await;
    assert!(!is_put_back);
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    app.check().await;
}
