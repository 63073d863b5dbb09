//! An engine that does not answer: what `attache ask` and `attache reload` say while they wait, and that they give up.

use crate::guest_house::{attache, run};
use crate::recovery::place::{Running, Sink, workspace};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::net::TcpListener;
use std::process::Stdio;

#[tokio::test]
#[ignore = "second tier"]
async fn a_stopped_engine_is_named_and_not_waited_for_without_end() {
    let script = json!({ "rules": [{ "say": "Until eight." }] });
    let dir = workspace(Sink::default().open(), &script);
    let folder = dir.path();
    let engine = Running::start(folder, &[]);
    engine.stop_between_writes(folder).await;
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

/// L13: a second engine names what helps, and one that is to replace a stopped one is not led into a wall.
#[tokio::test]
async fn an_engine_beside_a_stopped_one_says_how_to_go_on_and_changes_nothing() {
    let script = json!({ "rules": [{ "say": "Until eight." }] });
    let dir = workspace(Sink::default().open(), &script);
    let folder = dir.path();
    let file = folder.join("configs/gateway.json");
    let gateway = std::fs::read_to_string(&file).expect("a file");
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = free.local_addr().expect("bound");
    drop(free);
    let gateway = gateway.replace("127.0.0.1:0", &address.to_string());
    std::fs::write(&file, gateway).expect("a file");
    let engine = Running::start(folder, &[]);
    assert_eq!(engine.port, address.port());
    let works = run(folder, &["serve"]);
    assert_eq!(works.code, 78, "{}", works.stderr);
    assert!(works.stderr.contains("--take-over"), "{}", works.stderr);
    engine.stop_between_writes(folder).await;
    let pid = engine.pid();
    let (go_on, end) = (format!("`kill -CONT {pid}`"), format!("`kill -9 {pid}`"));
    let beside = run(folder, &["serve"]);
    let instead = run(folder, &["serve", "--take-over"]);
    for said in [&beside, &instead] {
        assert_eq!(
            (said.code, said.stdout.as_str()),
            (78, ""),
            "{}",
            said.stderr
        );
        assert!(said.stderr.contains(&end), "{}", said.stderr);
    }
    assert!(beside.stderr.contains(&go_on), "{}", beside.stderr);
    assert!(!beside.stderr.contains("--take-over"), "{}", beside.stderr);
    let keeps =
        format!("process {pid} works on this workspace, is stopped, and keeps its addresses");
    for says in [keeps.as_str(), "nothing was changed"] {
        assert!(instead.stderr.contains(says), "{says}: {}", instead.stderr);
    }
    engine.signal(Signal::CONT);
    let asked = run(folder, &["ask", "concierge", "Until when?"]);
    assert_eq!(asked.stdout, "Until eight.\n", "{}", asked.stderr);
    engine.signal(Signal::TERM);
    assert!(engine.ended().0.success());
}
