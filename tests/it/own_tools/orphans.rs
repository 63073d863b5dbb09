//! A program of an own tool that outlives the process which started it.

use super::own_tool;
use crate::app::{Workspace, glance};
use serde_json::json;
use std::path::Path;
use std::process::{Command, Stdio};

/// Reports whether a process lives; one that is dead and not yet reaped does not.
fn lives(pid: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    state.is_ok_and(|stat| {
        let state = stat
            .rsplit_once(')')
            .map_or("", |(_, rest)| rest.trim_start());
        !state.starts_with(['Z', 'X'])
    })
}

async fn written(path: &Path) -> String {
    loop {
        match std::fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => glance().await,
        }
    }
}

#[tokio::test]
async fn the_next_engine_ends_the_program_of_a_tool_that_was_left_running() {
    let workspace = Workspace::new(&json!({ "turns": [] }));
    // It leaves the group, which dies with whoever started it.
    let script = "setsid sh -c 'echo $$ > pid; exec sleep 600' & wait";
    own_tool(&workspace, "weather", script, &json!({ "timeout": "10m" }));
    let args = ["tools", "try", "weather", r#"{"city": "Oslo"}"#];
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command.args(args).current_dir(workspace.path());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut starter = command.spawn().expect("the binary");
    let pid = written(&workspace.path().join("configs/tools/weather/pid")).await;
    starter.kill().expect("killed");
    starter.wait().expect("reaped");
    assert!(lives(&pid), "it outlives the process that started it");
    // Another workspace's engine leaves it alone.
    let elsewhere = Workspace::new(&json!({ "turns": [] })).start().await;
    assert!(lives(&pid), "it is none of that workspace");
    drop(elsewhere);
    workspace.start().await;
    while lives(&pid) {
        glance().await;
    }
}
