//! Programs of the owner that a run asks: when, with what, and what their answers do.

mod failing;
mod files;
mod occasions;

use crate::app::Workspace;
use crate::approvals::scene::Scene;
use attache::domain::RunId;
use attache::store::HookCall;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

/// Writes an executable shell script below the workspace.
fn program(workspace: &Workspace, path: &str, script: &str) {
    workspace.write(path, &format!("#!/bin/sh\n{script}\n"));
    let file = workspace.path().join(path);
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).expect("a mode");
}

/// A script that keeps what it is given in a file of its own, and answers this.
fn answering(answer: &str) -> String {
    format!("tee -a data/given-$ATTACHE_HOOK >/dev/null\necho '{answer}'")
}

fn allows() -> String {
    answering(r#"{"decision": "allow"}"#)
}

fn denies() -> String {
    answering(r#"{"decision": "deny", "reason": "not her"}"#)
}

/// A scene with one hook on that event, called `h`.
async fn scene(event: &str, script: &str) -> Scene {
    with(&crate::approvals::scene::asks(), event, script).await
}

async fn with(model: &Value, event: &str, script: &str) -> Scene {
    Scene::with(model, |workspace| {
        program(workspace, "hooks/h", script);
        let hook = json!({ "id": "h", "event": event, "command": ["hooks/h"] });
        workspace.write_json("configs/hooks.json", &json!({ "hooks": [hook] }));
    })
    .await
}

/// What the hook was given, in order.
fn given(scene: &Scene, hook: &str) -> Vec<Value> {
    let file = scene
        .world
        .app
        .workspace
        .path()
        .join(format!("data/given-{hook}"));
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("one line of JSON"))
        .collect()
}

async fn recorded(scene: &Scene, run: &str) -> Vec<HookCall> {
    let store = &scene.world.app.engine.store;
    store
        .hooks_of_run(&RunId::new(run))
        .await
        .expect("answers of hooks")
}

/// `event tool decision` of each recorded answer.
async fn answers(scene: &Scene, run: &str) -> Vec<String> {
    let line = |call: &HookCall| format!("{} {} {}", call.event, call.tool, call.decision);
    recorded(scene, run).await.iter().map(line).collect()
}
