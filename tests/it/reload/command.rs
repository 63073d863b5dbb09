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

/// Events about the configuration, as `tail` prints them.
fn configuration_events(folder: &Path) -> Vec<(String, Value)> {
    let said = run(folder, &["--json", "tail"]);
    assert!(!said.stdout.contains("hidden"), "a secret was printed");
    let events = said.stdout.lines().map(|line| {
        let event: Value = serde_json::from_str(line).expect("JSON");
        let item = event["item"].as_str().unwrap_or("null");
        let item = serde_json::from_str(item).unwrap_or_default();
        (event["kind"].as_str().expect("a kind").to_owned(), item)
    });
    events
        .filter(|(kind, _)| kind.starts_with("configuration."))
        .collect()
}

#[test]
fn a_key_that_nothing_reads_any_more_is_a_warning_and_every_edit_is_an_event() {
    let sink = Sink::default();
    let dir = workspace(sink.open(), &json!({ "rules": [{ "say": "Seven." }] }));
    let folder = dir.path();
    let (inference, blocks) = ("configs/inference.json", "/providers/compat:house");
    let block =
        json!({ "base_url": "https://models.test/v1", "api_key_variable": "HOUSE_API_KEY" });
    set(folder, inference, blocks, block);
    std::fs::write(folder.join(".secrets"), "HOUSE_API_KEY=hidden\n").expect("written");
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(folder.join(".secrets"), private).expect("a mode");
    let engine = Running::start(folder, &[]);
    let path = folder.join(inference);
    let text = std::fs::read_to_string(&path).expect("a file");
    let mut whole: Value = serde_json::from_str(&text).expect("JSON");
    let providers = whole["providers"].as_object_mut().expect("providers");
    providers.remove("compat:house").expect("it was there");
    std::fs::write(&path, whole.to_string()).expect("written");
    let said = run(folder, &["reload"]);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    let warning = "warning: .secrets:1:1: nothing reads `HOUSE_API_KEY`";
    assert!(said.stderr.contains(warning), "{}", said.stderr);
    let reloaded = configuration_events(folder);
    assert_eq!(reloaded.len(), 1, "{reloaded:?}");
    assert_eq!(reloaded[0].0, "configuration.reloaded");
    assert_eq!(reloaded[0].1["files"], json!([inference]));
    assert_eq!(reloaded[0].1["problems"], 0);
    assert!(
        reloaded[0].1["warnings"].as_u64() >= Some(1),
        "{reloaded:?}"
    );
    let line = run(folder, &["tail"]).stdout;
    assert!(
        line.contains("configuration.reloaded") && line.contains("configs/inference.json, "),
        "{line}"
    );
    std::fs::write(folder.join("configs/security.json"), "{ \"access\": ").expect("written");
    assert_eq!(run(folder, &["reload"]).code, 65);
    assert_eq!(run(folder, &["reload"]).code, 65);
    let refused = configuration_events(folder);
    assert_eq!(refused.len(), 2, "the same fault is told once: {refused:?}");
    assert_eq!(refused[1].0, "configuration.refused");
    let item = (&refused[1].1["files"], &refused[1].1["problems"]);
    assert_eq!(item, (&json!(["configs/security.json"]), &json!(1)));
    engine.signal(Signal::TERM);
    assert!(engine.ended().0.success());
}
