//! `attache status`: whether an engine serves, what waits, what failed, what it costs; its exit code.

use crate::app::db;
use crate::app::{Workspace, proven_note};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

fn attache(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command.env_remove("ATTACHE_WORKSPACE").current_dir(folder);
    command.args(args).output().expect("the binary runs")
}

fn status(folder: &Path) -> (Value, Option<i32>) {
    let said = attache(folder, &["status", "--json"]);
    let value = serde_json::from_slice(&said.stdout).expect("JSON");
    (value, said.status.code())
}

/// An engine of the real binary, which ends with the value.
struct Engine(Child);

impl Engine {
    fn start(folder: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
        let command = command
            .args(["serve", "--log", "error"])
            .current_dir(folder);
        let command = command
            .env_remove("ATTACHE_WORKSPACE")
            .stderr(Stdio::null());
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a line");
        Self(child)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

#[test]
fn it_says_whether_an_engine_serves_and_which() {
    let place = Workspace::new(&json!({ "turns": [] }));
    let (before, code) = status(place.path());
    assert_eq!(
        (code, &before["engine"], &before["records"]),
        (Some(3), &json!("none"), &Value::Null)
    );
    let engine = Engine::start(place.path());
    let (serving, code) = status(place.path());
    assert_eq!(code, Some(0), "{serving}");
    assert_eq!(
        (&serving["engine"], &serving["pid"]),
        (&json!("serving"), &json!(engine.0.id()))
    );
    assert_eq!(serving["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(serving["not_in_force"], json!([]));
    let security = place.path().join("configs/security.json");
    let text = std::fs::read_to_string(&security).unwrap_or_else(|_| "{}".to_owned());
    std::fs::write(&security, format!("{text}\n")).expect("written");
    let (edited, _) = status(place.path());
    assert_eq!(edited["not_in_force"], json!(["configs/security.json"]));
    let text = attache(place.path(), &["status"]);
    let text = String::from_utf8(text.stdout).expect("UTF-8");
    assert!(
        text.starts_with("Engine ") && text.contains("at work since ") && text.lines().count() < 24,
        "{text}"
    );
    drop(engine);
    assert_eq!(status(place.path()).1, Some(3));
}

#[test]
#[ignore = "second tier"]
fn it_counts_what_waits_and_what_has_failed_today() {
    let place = Workspace::new(&json!({ "rules": [] }));
    let said = attache(place.path(), &["schedule", "list"]);
    assert!(said.status.success(), "{said:?}");
    place.write(
        "personas/ada/responsibilities/note.md",
        "---\nname: Note\nschedule: \"0 9 * * *\"\ndeliver_to: store\n---\nNote it.\n",
    );
    for args in [
        &["schedule", "run", "Note"][..],
        &["halt", "--reason", "the night"],
    ] {
        let said = attache(place.path(), args);
        assert!(said.status.success(), "{said:?}");
    }
    let (waits, code) = status(place.path());
    let records = &waits["records"];
    assert_eq!(
        (code, &records["waiting"]["runs_queued"]),
        (Some(3), &json!(1)),
        "{waits}"
    );
    assert_eq!(records["halts"][0]["reason"], "the night");
    assert_eq!(records["next_slot"]["name"], "Note", "{waits}");
    assert_eq!(records["last_backup"], Value::Null);
    // Its script has no answer, so that the run fails.
    attache(place.path(), &["resume"]);
    attache(place.path(), &["drain"]);
    attache(place.path(), &["backup", "copy.db"]);
    let (failed, _) = status(place.path());
    let records = &failed["records"];
    assert_eq!(records["waiting"]["runs_queued"], 0, "{failed}");
    assert_eq!(
        (
            &records["failed_today"]["runs"],
            &records["failed_today"]["is_whole"]
        ),
        (&json!(1), &json!(true)),
        "{failed}"
    );
    assert_eq!(records["halts"], json!([]));
    assert!(
        records["last_backup"]["file"]
            .as_str()
            .is_some_and(|file| file.ends_with("copy.db")),
        "{failed}"
    );
    let text = String::from_utf8(attache(place.path(), &["status"]).stdout).expect("UTF-8");
    assert!(
        text.contains("Failed today  1 run;") && text.contains("Next task     Note of ada at "),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mails_that_are_held_are_counted() {
    let app = Workspace::new(&json!({ "turns": [{ "say": "Yes." }] }))
        .start()
        .await;
    app.run_of(&proven_note("q@guest.example", "", "Is there tea?"))
        .await;
    app.drain().await;
    let held = |status: &Value| status["records"]["waiting"]["mails_held"].clone();
    let (before, _) = status(app.workspace.path());
    assert_eq!(held(&before), 0, "{before}");
    let mut rows = app.workspace.rows().await;
    let hold = db::query("UPDATE deliveries SET state = 'held'").execute(&mut rows);
    assert_eq!(hold.await.expect("held").rows_affected(), 1);
    let (after, _) = status(app.workspace.path());
    assert_eq!(held(&after), 1, "{after}");
    assert_eq!(after["records"]["waiting"]["mails"], 0, "{after}");
    let text = String::from_utf8(attache(app.workspace.path(), &["status"]).stdout);
    let text = text.expect("UTF-8");
    assert!(text.contains("1 mail held"), "{text}");
}

#[test]
fn it_says_that_letters_are_refused_for_want_of_disk_space() {
    let place = Workspace::new(&json!({ "turns": [] }));
    for (kept, is_short) in [(0, false), (u64::MAX, true)] {
        let limits = json!({ "free_disk_bytes_min": kept });
        place.set("configs/gateway.json", "/limits", limits);
        let (said, code) = status(place.path());
        assert_eq!(code, Some(3), "{said}");
        assert_eq!(said["disk_shortage"].is_object(), is_short, "{said}");
        let text = String::from_utf8(attache(place.path(), &["status"]).stdout).expect("UTF-8");
        assert_eq!(text.contains("letters are refused"), is_short, "{text}");
        if is_short {
            assert_eq!(said["disk_shortage"]["free_bytes_min"], kept, "{said}");
        }
    }
}

#[test]
fn it_says_what_it_can_of_a_broken_configuration() {
    let place = Workspace::new(&json!({ "turns": [] }));
    assert!(attache(place.path(), &["drain"]).status.success());
    place.write("configs/inference.json", "{");
    let (broken, code) = status(place.path());
    assert_eq!(code, Some(3));
    assert_ne!(broken["configuration_problems"], 0, "{broken}");
    assert_eq!(broken["records"]["waiting"]["mails"], 0, "{broken}");
    std::fs::write(place.path().join("data/attache.db"), [7; 200]).expect("written");
    let (damaged, code) = status(place.path());
    let error = damaged["database_error"].as_str().unwrap_or_default();
    // It says the one or the other by what the drain left of the log.
    let words = ["does not belong to the database", "damaged"];
    let is_named = words.iter().any(|words| error.contains(words));
    assert!(code == Some(3) && is_named, "{damaged}");
    assert_eq!(damaged["records"], Value::Null);
}
