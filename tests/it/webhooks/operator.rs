//! `attache webhooks`: what an operator sees and does, by the real binary beside an engine.

use super::receiver::{Answer, Receiver};
use super::{KEY, TAKEN, asks, workspace};
use crate::app::TestApp;
use crate::app::db;
use crate::guest_house::attache;
use attache::clock::{Clock, SystemClock};
use serde_json::{Value, json};

/// Runs a command beside the engine; gives its exit code, its output and its complaints.
async fn run(app: &TestApp, args: &[&str]) -> (i32, String, String) {
    let (folder, args) = (app.workspace.path().to_owned(), args.to_vec());
    let args: Vec<String> = args.into_iter().map(str::to_owned).collect();
    let running = tokio::task::spawn_blocking(move || {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        attache(&folder, &args).output().expect("the binary runs")
    });
    let output = running.await.expect("no panic");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let code = output.status.code().expect("no signal");
    (code, text(output.stdout), text(output.stderr))
}

/// Lets the engine know the time at which a command of this machine has queued something.
fn catch_up(app: &TestApp) {
    app.workspace.clock.set(SystemClock::new().now());
}

async fn json_of(app: &TestApp, args: &[&str]) -> Value {
    let args = [&["--json", "webhooks"], args].concat();
    let (code, stdout, stderr) = run(app, &args).await;
    assert_eq!(code, 0, "{stderr}");
    serde_json::from_str(&stdout).expect("one JSON value")
}

#[tokio::test]
async fn an_operator_sees_what_failed_and_has_it_told_again() {
    let receiver = Receiver::start(&[Answer::Status(410, "")]).await;
    let more = json!({ "events": ["letter.stored"] });
    let app = workspace(&receiver, &more).start().await;
    asks(&app, "q1", "When is breakfast?").await;
    let listed = json_of(&app, &["list"]).await;
    assert_eq!(listed[0]["name"], "ops");
    let reason = listed[0]["status"]["reason"].as_str().expect("a reason");
    assert!(reason.contains("410"), "{reason}");
    let (_, shown, _) = run(&app, &["webhooks", "list"]).await;
    assert!(shown.contains("ops") && shown.contains("off:"), "{shown}");
    assert!(!shown.contains("whsec_"));
    let failed = json_of(&app, &["deliveries", "--state", "failed"]).await;
    let id = failed[0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(failed[0]["status"], 410);
    receiver.answer(TAKEN);
    json_of(&app, &["retry", &id]).await;
    json_of(&app, &["enable", "ops"]).await;
    catch_up(&app);
    app.drain().await;
    let ids: Vec<String> = receiver
        .received()
        .iter()
        .map(|request| request.header("webhook-id").to_owned())
        .collect();
    assert_eq!(ids, [id.clone(), id]);
    assert_eq!(
        json_of(&app, &["list"]).await[0]["status"]["reason"],
        Value::Null
    );
}

#[tokio::test]
async fn a_time_of_the_past_is_told_again_under_its_old_ids_and_nothing_else() {
    let receiver = Receiver::start(&[TAKEN]).await;
    let app = workspace(&receiver, &json!({ "events": ["letter.stored"] }))
        .start()
        .await;
    for (id, hours) in [("q1", 1), ("q2", 1), ("q3", 0)] {
        asks(&app, id, "When is breakfast?").await;
        let span = std::time::Duration::from_secs(hours * 3600);
        app.workspace.clock.advance(span);
    }
    let ids = |of: &Receiver| -> Vec<String> {
        let received = of.received();
        let ids = received
            .iter()
            .map(|one| one.header("webhook-id").to_owned());
        ids.collect()
    };
    let first = ids(&receiver);
    assert_eq!(first.len(), 3);
    let range = [
        "--since",
        "2026-11-20T09:30:00Z",
        "--until",
        "2026-11-20T10:30:00Z",
    ];
    let args = [&["replay", "ops"], range.as_slice()].concat();
    assert_eq!(json_of(&app, &args).await["queued"], 1);
    catch_up(&app);
    app.drain().await;
    assert_eq!(ids(&receiver)[3..], first[1..2]);
    // Events that it was never told have ids of their own.
    let gc = "DELETE FROM webhook_deliveries";
    let mut rows = app.workspace.rows().await;
    db::query(gc).execute(&mut rows).await.expect("pruned");
    let queued = json_of(&app, &["replay", "ops", "--since", "2026-11-20"]).await;
    assert_eq!(queued["queued"], 3);
    catch_up(&app);
    app.drain().await;
    assert_eq!(receiver.received().len(), 7);
    assert!(ids(&receiver)[4..].iter().all(|id| !first.contains(id)));
}

#[tokio::test]
async fn the_test_event_goes_out_at_once_and_a_name_that_is_none_is_refused() {
    let receiver = Receiver::start(&[TAKEN, Answer::Status(401, "")]).await;
    let app = workspace(&receiver, &json!({})).start().await;
    let answered = json_of(&app, &["test", "ops"]).await;
    assert_eq!(answered["status"], 200);
    assert_eq!(receiver.events(), ["webhook.test"]);
    assert!(receiver.received()[0].is_signed_by(KEY));
    let (code, _, stderr) = run(&app, &["webhooks", "test", "ops"]).await;
    assert_eq!(code, 69, "{stderr}");
    assert!(stderr.contains("401"), "{stderr}");
    for command in ["test", "enable"] {
        let (code, _, stderr) = run(&app, &["webhooks", command, "oops"]).await;
        assert_eq!(code, 66, "{stderr}");
        assert!(stderr.contains("there are: ops"), "{stderr}");
    }
    assert_eq!(super::deliveries(&app).await, []);
}

#[tokio::test]
async fn a_backlog_may_be_forgotten() {
    let receiver = Receiver::start(&[Answer::Status(410, "")]).await;
    let more = json!({ "events": ["letter.stored"] });
    let app = workspace(&receiver, &more).start().await;
    asks(&app, "q1", "When is breakfast?").await;
    asks(&app, "q2", "And lunch?").await;
    receiver.answer(TAKEN);
    json_of(&app, &["enable", "ops", "--from-now"]).await;
    catch_up(&app);
    app.drain().await;
    assert_eq!(receiver.received().len(), 1, "told of what was forgotten");
    asks(&app, "q3", "And supper?").await;
    assert_eq!(receiver.received().len(), 2);
}
