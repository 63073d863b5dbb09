//! `attache reload`, SIGHUP, and what `config check` says beside an engine.

use crate::guest_house::run;
use crate::recovery::place::{Running, Sink, workspace};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

fn set(folder: &Path, file: &str, pointer: &str, value: Value) {
    let path = folder.join(file);
    let text = std::fs::read_to_string(&path).expect("a file");
    let mut whole: Value = serde_json::from_str(&text).expect("json");
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    whole.pointer_mut(parent).expect("a parent")[key] = value;
    std::fs::write(path, whole.to_string()).expect("written");
}

fn checked(folder: &Path) -> Value {
    let said = run(folder, &["--json", "config", "check"]);
    serde_json::from_str(&said.stdout).expect("JSON")
}

#[test]
fn the_command_says_what_became_of_an_edit_and_what_needs_a_restart() {
    let sink = Sink::default();
    let dir = workspace(sink.open(), &json!({ "rules": [{ "say": "Seven." }] }));
    let folder = dir.path();
    let alone = run(folder, &["reload"]);
    assert_eq!(alone.code, 69, "{}", alone.stderr);
    let engine = Running::start(folder, &[]);
    let limits = "/limits/replies_per_day_max";
    set(folder, "configs/gateway.json", limits, json!(77));
    let said = run(folder, &["reload"]);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    assert!(
        said.stdout.contains("the configuration is in force"),
        "{}",
        said.stdout
    );
    assert_eq!(checked(folder)["not_in_force"], json!([]));
    let listeners = json!([
        { "kind": "smtp", "address": "127.0.0.1:0" },
        { "kind": "smtp", "address": "127.0.0.2:0" },
    ]);
    set(folder, "configs/gateway.json", "/listeners", listeners);
    let said = run(folder, &["--json", "reload"]);
    let report: Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert_eq!((said.code, &report["in_force"]), (0, &json!(true)));
    let wanted = json!(["configs/gateway.json: listeners: listening on 127.0.0.2:0"]);
    assert_eq!(report["after_restart"], wanted);
    let found = checked(folder);
    assert_eq!(
        (&found["after_restart"], &found["not_in_force"]),
        (&wanted, &json!([]))
    );
    let said = run(folder, &["config", "check"]);
    assert!(
        said.stderr.contains("after a restart of the engine"),
        "{}",
        said.stderr
    );
    let good = std::fs::read_to_string(folder.join("configs/security.json")).expect("a file");
    std::fs::write(folder.join("configs/security.json"), "{ \"access\": ").expect("written");
    let said = run(folder, &["reload"]);
    assert_eq!(said.code, 65, "{}{}", said.stdout, said.stderr);
    assert!(
        said.stdout.contains("configs/security.json"),
        "{}",
        said.stdout
    );
    assert!(
        said.stdout.contains("what was in force before stays so"),
        "{}",
        said.stdout
    );
    let found = checked(folder);
    assert_eq!(found["not_in_force"], json!(["configs/security.json"]));
    assert_eq!(
        found["refused"].as_array().map(Vec::len),
        Some(1),
        "{found}"
    );
    std::fs::write(folder.join("configs/security.json"), good).expect("written");
    engine.signal(Signal::HUP);
    let began = Instant::now();
    while checked(folder)["refused"] != json!([]) {
        assert!(began.elapsed() < Duration::from_secs(60), "SIGHUP is heard");
    }
    engine.signal(Signal::TERM);
    let (status, complaints, _) = engine.ended();
    assert!(status.success(), "{complaints}");
}
