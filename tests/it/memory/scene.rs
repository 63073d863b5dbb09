//! A model that remembers what a letter tells it to: the worst that a model can do.

use crate::app::Workspace;
use crate::approvals::scene::Scene;
use attache::domain::MemoryStatus;
use attache::store::{MemoryEntry, MemoryFilter, Store};
use serde_json::{Value, json};

pub struct MemoryScene {
    pub scene: Scene,
}

/// Does what the lines `remember:`, `correct:`, `forget:` and `recall:` of the letter say.
pub fn obedient() -> Value {
    let quote = "{{header:quote}}";
    json!({ "rules": [
        { "when": { "turn": 0, "contains": "\nremember: " }, "call": [{ "tool": "remember", "args":
            { "text": "{{header:remember}}", "kind": "fact", "source_quote": quote } }] },
        { "when": { "turn": 0, "contains": "\ncorrect: " }, "call": [{ "tool": "correct", "args":
            { "id": "{{header:id}}", "text": "{{header:correct}}", "source_quote": quote } }] },
        { "when": { "turn": 0, "contains": "\nforget: " }, "call": [{ "tool": "forget", "args":
            { "id": "{{header:forget}}", "why": "it is over" } }] },
        { "when": { "turn": 0, "contains": "\nrecall: " }, "call": [{ "tool": "recall", "args":
            { "query": "{{header:recall}}" } }] },
        { "say": "Done: {{result}}" },
    ] })
}

/// Adds the step to the contexts of the tests, as the shipped configuration has it.
pub fn with_memory(workspace: &Workspace) {
    workspace.write_json(
        "configs/context.json",
        &json!({
            "thread": ["load-file(configs/prompts/system.md)", "persona", "active-memory",
                { "use": "contact-memory", "budget_tokens": 600 }, "thread-history", "invocation-metadata", "current-input"],
            "responsibility": ["persona", "active-memory", "invocation-metadata", "current-input"],
        }),
    );
}

/// The texts of all entries, and of those in use.
pub async fn texts_of_entries(store: &Store) -> [String; 2] {
    let filter = MemoryFilter {
        limit: 10_000,
        ..MemoryFilter::default()
    };
    let found = store.memory_entries(&filter).await.expect("entries");
    let text = |entry: &MemoryEntry| format!("{} ", entry.text);
    let is_used = |entry: &&MemoryEntry| entry.status == MemoryStatus::Active;
    [
        found.iter().map(text).collect(),
        found.iter().filter(is_used).map(text).collect(),
    ]
}

impl MemoryScene {
    pub async fn start() -> Self {
        Self::with(&obedient()).await
    }

    pub async fn with(script: &Value) -> Self {
        Self {
            scene: Scene::with(script, with_memory).await,
        }
    }

    /// A signed letter to Ada; drains, and gives the run.
    pub async fn writes(&self, from: &str, id: &str, more: &str, body: &str) -> String {
        let app = &self.scene.world.app;
        let eml = self.scene.signed(from, "ada@engine.test", id, more, body);
        let taken = self
            .scene
            .deliver(&eml, "ada@engine.test")
            .await
            .expect("taken");
        app.drain().await;
        let message = taken.copies[0].message.to_string();
        let sql = "SELECT id FROM runs WHERE trigger_message_id = $1";
        app.row(sql, &message).await[0].clone().expect("a run")
    }

    /// A letter that says a thing, and has it remembered.
    pub async fn tells(&self, from: &str, id: &str, what: &str) -> String {
        let body = format!("{what}\r\nremember: {what}\r\nquote: {what}");
        self.writes(from, id, "", &body).await
    }

    pub async fn entries(&self) -> Vec<MemoryEntry> {
        let filter = MemoryFilter {
            limit: 1000,
            ..MemoryFilter::default()
        };
        let store = &self.scene.world.app.engine.store;
        store.memory_entries(&filter).await.expect("entries")
    }

    /// The first request of a run, as text.
    pub async fn prompt(&self, run: &str) -> String {
        self.scene.world.app.prompts(run).await[0].to_string()
    }

    /// The last results of a run.
    pub async fn trace(&self, run: &str) -> Vec<String> {
        self.scene.world.app.trace(run).await
    }
}
