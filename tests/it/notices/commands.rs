//! `attache notices` and `attache runs retry --failed`, beside an engine.

use super::{HOUR, fail, failing_app, refused_login};
use crate::app::TestApp;
use serde_json::{Value, json};
use std::process::{Command, Output};

fn attache(app: &TestApp, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    for name in ["ATTACHE_WORKSPACE", "ATTACHE_LOG", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    command
        .arg("--workspace")
        .arg(app.workspace.path())
        .args(args)
        .output()
        .expect("the binary runs")
}

fn ok(app: &TestApp, args: &[&str]) -> String {
    let output = attache(app, args);
    assert!(
        output.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn json(app: &TestApp, args: &[&str]) -> Value {
    serde_json::from_str(&ok(app, &[args, &["--json"]].concat())).expect("one JSON value")
}

#[tokio::test]
async fn the_list_says_what_was_told_when_and_by_which_mail() {
    let app = failing_app().await;
    fail(&app, 2, "told").await;
    fail(&app, 3, "untold").await;
    app.engine
        .store
        .emit_notice(refused_login("one", "nine"))
        .await
        .expect("stored");
    let list = json(&app, &["notices", "list"]);
    let row = |n: usize| {
        (
            list[n]["cause"].as_str().unwrap_or_default(),
            list[n]["count"].as_i64(),
            &list[n]["delivery_state"],
        )
    };
    assert_eq!(
        row(0),
        ("transport_refused:relay.example", Some(1), &Value::Null)
    );
    assert_eq!(row(1), ("run_failed:permission:ada", Some(3), &Value::Null));
    assert_eq!(
        row(2),
        ("run_failed:permission:ada", Some(2), &json!("done"))
    );
    let delivery = list[2]["delivery"].as_str().expect("a delivery");
    assert_eq!(json(&app, &["outbox", "show", delivery])["kind"], "notice");
    let lines = ok(&app, &["notices", "list"]);
    assert_eq!(lines.lines().count(), 3);
    assert!(
        lines
            .lines()
            .nth(2)
            .is_some_and(|line| line.contains(delivery)),
        "{lines}"
    );

    let facts = json(&app, &["notices", "show", "run_failed:permission:ada"]);
    assert_eq!(facts.as_array().map(Vec::len), Some(5));
    let id = facts[0]["id"].as_str().expect("an id");
    let one = ok(&app, &["notices", "show", id]);
    assert!(
        one.contains("attache runs retry --failed --class permission --persona ada --yes"),
        "{one}"
    );
    assert_eq!(
        attache(&app, &["notices", "show", "nothing"]).status.code(),
        Some(66)
    );
}

#[tokio::test]
#[ignore = "second tier"]
async fn all_runs_of_an_expired_key_are_queued_again_at_one_word() {
    let app = failing_app().await;
    fail(&app, 3, "old").await;
    app.workspace.clock.advance(HOUR * 20);
    fail(&app, 2, "new").await;
    let since = "2026-11-20T20:00:00Z";
    for (args, found) in [
        (&["--class", "permission"][..], 5),
        (&["--class", "config"], 0),
        (&["--since", since], 2),
        (&["--persona", "ada", "--class", "permission"], 5),
    ] {
        let said = json(&app, &[&["runs", "retry", "--failed"], args].concat());
        assert_eq!(
            (&said["found"], &said["queued"]),
            (&json!(found), &json!(0)),
            "{args:?}"
        );
    }
    assert_eq!(app.drain().await.runs, 0, "asking changes nothing");
    let said = ok(
        &app,
        &["runs", "retry", "--failed", "--class", "permission"],
    );
    assert_eq!(
        said,
        "5 failed runs would be queued again; say --yes to do it\n"
    );

    app.workspace.write(
        "configs/script.json",
        &json!({ "rules": [{ "say": "Here I am again." }] }).to_string(),
    );
    let app = app.restart().await;
    let said = json(
        &app,
        &[
            "runs",
            "retry",
            "--failed",
            "--class",
            "permission",
            "--since",
            since,
            "--yes",
        ],
    );
    assert_eq!((&said["found"], &said["queued"]), (&json!(2), &json!(2)));
    app.drain().await;
    assert_eq!(app.sent().len(), 2);
    let said = json(&app, &["runs", "retry", "--failed", "--yes"]);
    assert_eq!(said["queued"], 3);
    app.drain().await;
    assert_eq!(app.sent().len(), 5);
    app.check().await;

    assert_eq!(
        ok(&app, &["runs", "retry", "--failed", "--yes"]),
        "no run has failed so\n"
    );
    for wrong in [
        &["runs", "retry"][..],
        &["runs", "retry", "last", "--failed"],
        &["runs", "retry", "last", "--yes"],
        &["runs", "retry", "--class", "permission"],
    ] {
        assert_eq!(attache(&app, wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[tokio::test]
async fn under_json_an_error_is_one_object_on_a_line_with_exit_code() {
    let app = failing_app().await;
    for (args, code, said) in [
        (
            &["runs", "show", "0123456789"][..],
            66,
            "no run `0123456789`",
        ),
        (&["notices", "show", "nothing"], 66, "no notice `nothing`"),
        (
            &["runs", "list", "--persona", "nope"],
            66,
            "no persona `nope`",
        ),
        (
            &["runs", "list", "--since", "whenever"],
            2,
            "`whenever` is not a time",
        ),
        (&["runs", "retry"], 2, "required arguments"),
        (&["runs", "lsit"], 2, "unrecognized subcommand"),
    ] {
        let output = attache(&app, &[args, &["--json"]].concat());
        assert_eq!(
            (output.status.code(), output.stdout.len()),
            (Some(code), 0),
            "{args:?}"
        );
        let stderr = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
        let error: Value = serde_json::from_str(&stderr).expect("JSON");
        assert_eq!(error["exit_code"], code, "{stderr}");
        assert!(
            error["error"]
                .as_str()
                .is_some_and(|text| text.contains(said)),
            "{stderr}"
        );
        assert!(
            error["hint"].as_str().is_some_and(|hint| !hint.is_empty()),
            "{stderr}"
        );
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_persona_that_nobody_knows_is_an_error_and_no_empty_listing() {
    let app = failing_app().await;
    app.workspace.persona("bea", "Bea");
    fail(&app, 1, "x").await;
    for command in [
        &["runs", "list"][..],
        &["threads", "list"],
        &["outbox", "list"],
        &["schedule", "list"],
    ] {
        for (persona, code) in [("ada", 0), ("bea", 0), ("nope", 66), ("No Such", 2)] {
            let output = attache(&app, &[command, &["--persona", persona]].concat());
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(
                output.status.code(),
                Some(code),
                "{command:?} {persona}: {stderr}"
            );
        }
    }
    // Its rows outlive its folder.
    std::fs::remove_dir_all(app.workspace.path().join("personas/ada")).expect("removed");
    assert_eq!(
        ok(&app, &["runs", "list", "--persona", "ada"])
            .lines()
            .count(),
        1
    );
}
