//! Vectors of letters: made beside the letters, paid from the budgets, gone with their letter; and what they change in a search.

mod embedding_server;
mod made;
mod searched;
mod readers;
mod paid;
mod measured;
mod configured;

use crate::app::db;
use crate::app::{PROVEN, TestApp, Workspace, behind_relay, note};
use embedding_server::EmbeddingServer;
use serde_json::{Value, json};

/// The name of the server's model in the rows.
const MODEL: &str = "compat:local/topics";

/// Searches as the line `search:` of a letter says, and says what was found.
fn searching() -> Value {
    json!({ "rules": [
        { "when": { "turn": 0, "contains": "\nsearch: " }, "call": [{ "tool": "search_email", "args":
            { "query": "{{header:search}}" } }] },
        { "say": "Done: {{result}}" },
    ] })
}

/// A workspace whose vectors come from this server.
fn workspace(server: &EmbeddingServer) -> Workspace {
    let workspace = Workspace::new(&searching()).talkative();
    workspace.set("configs/inference.json", "/providers", json!({
        "scripted": { "script": "configs/script.json" }, "compat:local": { "base_url": server.url() },
    }));
    let vectors = json!({ "provider": "compat:local", "model": "topics" });
    workspace.set("configs/inference.json", "/embeddings", vectors);
    workspace.write_json("configs/security.json", &behind_relay());
    workspace
}

/// A letter of Bob's, in a thread of its own; drains, and gives the run.
async fn writes(app: &TestApp, id: &str, body: &str) -> String {
    let run = app
        .run_of(&note(&format!("{id}@guest.example"), PROVEN, body))
        .await;
    app.drain().await;
    run
}

/// Values of a column of all rows of a statement.
async fn column(app: &TestApp, sql: &'static str) -> Vec<String> {
    let mut rows = app.workspace.rows().await;
    db::query_scalar(sql)
        .fetch_all(&mut rows)
        .await
        .expect("rows")
}
