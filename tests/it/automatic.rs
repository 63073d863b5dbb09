//! What may be answered, through the whole engine: every rule with its letters and near misses, the bounds of what
//! anybody may be sent, mail between personas, and what an owner may overrule.

mod bounds;
mod crowds;
mod letters;
mod loops;
mod personas;

use crate::app::db;
use crate::app::{TestApp, Workspace};
use attache::gateway::intake_contract::CopyOutcome;
use serde_json::{Value, json};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

fn yes() -> Value {
    json!({ "rules": [{ "say": "Yes." }] })
}

/// A letter with this From and subject to Ada.
fn from(sender: &str, id: &str, more: &str) -> String {
    format!(
        "From: {sender}\nTo: ada@engine.test\nSubject: Room\nMessage-ID: <{id}>\n\
         Date: Fri, 20 Nov 2026 08:59:00 +0000\n{more}\nIs there a room? {id}\n"
    )
}

/// `run`, `filed:<rule>` or `duplicate`.
pub fn word(outcome: &CopyOutcome) -> String {
    match outcome {
        CopyOutcome::Run(_) => "run".to_owned(),
        CopyOutcome::Filed(rule) => format!("filed:{rule}"),
        CopyOutcome::Duplicate => "duplicate".to_owned(),
        CopyOutcome::Held => "held".to_owned(),
    }
}

/// Takes a letter; says what became of its first copy.
async fn receive(app: &TestApp, eml: &str) -> String {
    word(&app.receive(eml).await.expect("the letter is taken").copies[0].outcome)
}

async fn count(workspace: &Workspace, sql: &'static str) -> i64 {
    let mut rows = workspace.rows().await;
    db::query(sql)
        .fetch_one(&mut rows)
        .await
        .expect("a count")
        .get(0)
}

/// How often a model was asked.
async fn model_calls(app: &TestApp) -> i64 {
    count(&app.workspace, "SELECT count(*) FROM run_turns").await
}
