//! An engine that does not answer: what `attache ask` and `attache reload` say while they wait, and that they give up.

use crate::guest_house::{attache, run};
use crate::recovery::place::{Running, Sink, workspace};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::process::Stdio;

#[test]
fn a_stopped_engine_is_named_and_not_waited_for_without_end() {
    let script = json!({ "rules": [{ "say": "Until eight." }] });
    let dir = workspace(Sink::default().open(), &script);
    let folder = dir.path();
    let engine = Running::start(folder, &[]);
    engine.signal(Signal::STOP);
    let begun = |args: &[&str]| {
        let mut command = attache(folder, args);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("the binary runs")
    };
    let waiting = [
        begun(&["ask", "concierge", "Until when?"]),
        begun(&["reload"]),
    ];
    for (child, awaited) in waiting
        .into_iter()
        .zip(["take the question", "read its files"])
    {
        let ended = child.wait_with_output().expect("it ends");
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(75), "{stderr}");
        for says in [
            "waiting for process ",
            ", which is stopped, to ",
            awaited,
            "hint: `kill -CONT ",
        ] {
            assert!(stderr.contains(says), "{says} is missing in {stderr}");
        }
    }
    let listed = run(folder, &["--json", "runs", "list"]);
    let runs: Value = serde_json::from_str(&listed.stdout).expect("JSON");
    assert_eq!(
        runs[0]["state"], "cancelled",
        "it can be asked again: {runs}"
    );
    engine.signal(Signal::CONT);
    let asked = run(folder, &["ask", "concierge", "Until when?"]);
    assert_eq!(
        (asked.code, asked.stdout.as_str()),
        (0, "Until eight.\n"),
        "{}",
        asked.stderr
    );
    engine.signal(Signal::TERM);
    assert!(engine.ended().0.success());
}
