//! The engine is killed in the middle of a command: the command ends, and is never run again (SH10).

use super::{alive, is_there};
use crate::app::db;
use crate::app::{Workspace, audit};
use crate::guest_house::{attache, run};
use serde_json::json;
use std::process::Stdio;
use std::time::{Duration, Instant};

const DUTY: &str = "---\nname: Nightly\nschedule: \"0 3 * * *\"\n---\nCount the guests.\n";

#[tokio::test]
#[ignore = "second tier"]
async fn sh10_a_command_dies_with_its_engine_and_is_not_run_again() {
    if !is_there(&["bwrap", "ps"]) {
        return;
    }
    let word = format!("88{}", std::process::id());
    let command = format!("echo x >>ran; setsid sleep {word} & sleep {word}");
    let workspace = Workspace::new(&json!({ "rules": [
        { "when": { "turn": 0 }, "call": [{ "tool": "shell", "args": { "command": command } }] },
        { "say": "It is so: {{result}}" },
    ] }));
    workspace.set("personas/ada/persona.json", "/shell", json!(true));
    workspace.write_json(
        "configs/policy.json",
        &json!({ "rules": [{ "id": "go", "effect": "allow", "tool": "shell" }] }),
    );
    workspace.write("personas/ada/responsibilities/nightly.md", DUTY);
    let started = run(workspace.path(), &["schedule", "run", "Nightly"]);
    assert_eq!(started.code, 0, "{}", started.stderr);
    let ran = workspace.path().join("personas/ada/workspace/ran");
    let mut engine = attache(workspace.path(), &["drain"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("an engine");
    let began = Instant::now();
    while !(ran.exists() && alive(&word).len() >= 3) {
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "no command: {:?}",
            alive(&word)
        );
        crate::app::blink();
    }
    engine.kill().expect("killed");
    engine.wait().expect("ended");
    let killed = Instant::now();
    while !alive(&word).is_empty() {
        assert!(
            killed.elapsed() < Duration::from_secs(5),
            "it lives: {:?}",
            alive(&word)
        );
        crate::app::blink();
    }
    println!(
        "the command was gone {:?} after its engine",
        killed.elapsed()
    );
    let again = run(workspace.path(), &["drain"]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert_eq!(
        std::fs::read_to_string(&ran).expect("a file"),
        "x\n",
        "run once"
    );
    let mut rows = workspace.rows().await;
    let sql = "SELECT payload_json ->> '$.error.code' FROM thread_tool_events WHERE event_type = 'tool_result'";
    let codes: Vec<String> = db::query_scalar(sql)
        .fetch_all(&mut rows)
        .await
        .expect("results");
    assert_eq!(codes, ["outcome_unknown"]);
    audit(&mut rows).await;
}
