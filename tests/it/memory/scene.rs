//! A model that remembers what a letter tells it to: the worst that a model can do.

use crate::app::Workspace;
use crate::approvals::scene::{CONTACT, Scene};
use attache::domain::MemoryStatus;
use attache::store::{MemoryAct, MemoryEntry, MemoryFilter, Store, StoreError};
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
                { "use": "contact-memory", "budget_tokens": 600 }, { "use": "recall", "budget_tokens": 400 }, "thread-history", "invocation-metadata", "current-input"],
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

    /// Lets days pass, and the engine do what is due.
    pub async fn days_pass(&self, days: u64) {
        let app = &self.scene.world.app;
        let span = std::time::Duration::from_secs(days * 24 * 3600);
        app.workspace.clock.advance(span);
        app.drain().await;
    }

    /// The entry with this text.
    pub async fn entry(&self, text: &str) -> MemoryEntry {
        let mut entries = self.entries().await.into_iter();
        entries
            .find(|entry| entry.text == text)
            .unwrap_or_else(|| panic!("no entry {text}"))
    }

    /// The first request of a run, as text.
    pub async fn prompt(&self, run: &str) -> String {
        self.scene.world.app.prompts(run).await[0].to_string()
    }

    /// The last results of a run.
    pub async fn trace(&self, run: &str) -> Vec<String> {
        self.scene.world.app.trace(run).await
    }

    pub async fn act(&self, id: &str, act: MemoryAct) -> Result<String, StoreError> {
        let store = &self.scene.world.app.engine.store;
        store.change_memory(id, act, "uid 7").await
    }

    /// What Carol's next letter is told of the memory; the thread is a new one.
    pub async fn told(&self, id: &str) -> String {
        let run = self.writes(CONTACT, id, "", "What do you know?").await;
        let prompt = self.prompt(&run).await;
        let begin = prompt.find("What you remember").unwrap_or(prompt.len());
        let end = prompt[begin..]
            .find("</notes>")
            .map_or(prompt.len(), |end| begin + end);
        prompt[begin..end].to_owned()
    }

    pub async fn acts(&self, id: &str) -> Vec<String> {
        let store = &self.scene.world.app.engine.store;
        let dossier = store.memory_dossier(id).await.expect("an entry");
        dossier
            .events
            .iter()
            .map(|event| event.act.clone())
            .collect()
    }
}
