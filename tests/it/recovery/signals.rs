//! Signals to a serving engine: what is one wish, what is two, and what asks for nothing.

use super::place::{Client, Running, Sink, attache, send, until, workspace};
use rustix::process::Signal;
use serde_json::json;
use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

/// An engine with a run that never ends by itself.
fn busy() -> (tempfile::TempDir, Running) {
    let sink = Sink::default();
    let dir = workspace(sink.open(), &json!({ "rules": [{ "hang": true }] }));
    let engine = Running::start(dir.path(), &[]);
    send(engine.port, "1@guest.example", "When?");
    // A run that is only queued keeps no engine from ending.
    until("the run at work", || {
        let listed = attache(
            dir.path(),
            &["runs", "list", "--state", "running", "--json"],
        )
        .output();
        String::from_utf8_lossy(&listed.expect("a list").stdout).contains("\"running\"")
    });
    (dir, engine)
}

#[test]
#[ignore = "second tier"]
fn two_signals_within_a_moment_are_one_wish() {
    let (_dir, engine) = busy();
    // Two kinds, because two of one kind may be delivered as one.
    engine.signal(Signal::TERM);
    engine.signal(Signal::INT);
    engine.signal(Signal::TERM);
    let (status, said, _) = engine.ended();
    assert_eq!(status.code(), Some(0), "{said}");
}

#[test]
fn a_signal_that_comes_later_ends_the_engine_without_waiting() {
    let (_dir, mut engine) = busy();
    engine.signal(Signal::TERM);
    until("the end", || {
        engine.signal(Signal::INT);
        engine.has_ended()
    });
    let (status, said, _) = engine.ended();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("second signal"), "{said}");
}

#[test]
fn a_hang_up_lets_the_engine_read_its_files_again_and_it_goes_on() {
    let sink = Sink::default();
    let dir = workspace(sink.open(), &json!({ "rules": [{ "say": "At ten." }] }));
    let (mut log, writer) = std::io::pipe().expect("a pipe");
    let engine = Running::logging(dir.path(), "warn", Stdio::from(writer), &[]);
    let mut open = Client::begin(engine.port).expect("a dialogue");
    std::fs::write(dir.path().join("configs/policy.json"), "{").expect("written");
    engine.signal(Signal::HUP);
    until("the files are read", || {
        let in_force = std::fs::read_to_string(dir.path().join("data/in-force.json"));
        in_force.is_ok_and(|text| text.contains("\"reads\":1"))
    });
    open.letter("1@guest.example", "When?").expect("sent");
    assert!(open.append().expect("a reply").starts_with("250"));
    engine.signal(Signal::TERM);
    let (status, _, took) = engine.ended();
    assert_eq!(status.code(), Some(0));
    assert!(took < Duration::from_secs(15), "{took:?}");
    let mut said = String::new();
    log.read_to_string(&mut said).expect("text");
    assert!(
        said.contains("configs/policy.json") && said.contains("what was in force stays so"),
        "{said}"
    );
}
