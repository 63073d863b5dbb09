//! What a responsibility's runs are held to: whom they ask, which tools they may use, where their answer goes, how often they
//! are tried. A slot keeps the terms of its run, whatever becomes of the file.

mod asked;
mod delivered;
mod files;
mod inbox;
mod retried;
mod settings;
mod replayed;

use crate::app::db;
use crate::app::{TestApp, Workspace};
use serde_json::{Value, json};
use std::time::Duration;

const DUTY: &str = "---\nname: Report\nschedule: \"*/5 * * * *\"\n---\n\nWhat came in?\n";

/// Terms as a row keeps them: what is not said is as usual.
pub async fn set_terms(app: &TestApp, options: &Value) {
    let mut rows = app.workspace.rows().await;
    let set =
        db::query("UPDATE responsibilities SET run_options_json = $1").bind(options.to_string());
    assert_eq!(
        set.execute(&mut rows).await.expect("terms").rows_affected(),
        1
    );
}

/// An engine that knows one responsibility of Ada's under these terms; nothing is due.
pub async fn ready(workspace: Workspace, options: &Value) -> TestApp {
    workspace.write("personas/ada/responsibilities/report.md", DUTY);
    let app = workspace.start().await;
    app.engine.scheduler().sync().await.expect("looked at");
    set_terms(&app, options).await;
    app
}

/// The next slot fires; gives its run, which nobody has worked on.
pub async fn fire(app: &TestApp) -> String {
    app.workspace.clock.advance(Duration::from_secs(300));
    let mut fired = app.engine.scheduler().tick().await.expect("a tick").fired;
    let (_, run) = fired.pop().expect("a slot that fired");
    run.to_string()
}

/// The next slot fires, and its run is worked off.
pub async fn work(app: &TestApp) -> String {
    let run = fire(app).await;
    app.drain().await;
    run
}

/// A workspace whose model says these words, one after another.
pub fn saying(words: &[&str]) -> Workspace {
    let turns: Value = words.iter().map(|text| json!({ "say": text })).collect();
    Workspace::new(&json!({ "turns": turns }))
}
