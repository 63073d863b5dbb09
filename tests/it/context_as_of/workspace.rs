//! A workspace with memory, knowledge and a correspondence, and what may happen to it later.

use crate::app::db;
use crate::app::turns;
use crate::app::{TestApp, Workspace, proven_note as note};
use attache::context::ContextCause;
use attache::domain::RunId;
use attache::runs::record::as_of::AsOf;
use attache::runs::record::configs::Configs;
use serde_json::{Value, json};

/// Longest request that the scripted model takes, in characters.
const FITS: usize = 24_000;

/// Ada, who reads her files, is asked in rounds, and takes no more than so much at once.
pub fn house() -> Workspace {
    let too_long = json!({ "class": "context_overflow", "message": "prompt is too long", "window_tokens": 5000 });
    let read = json!([{ "tool": "read_file", "args": { "path": "knowledge/house.md" } }]);
    let keep = json!([{ "tool": "update_memory", "args": { "append": "Bob likes tea." } }]);
    let rules = json!([
        { "when": { "longer_than": FITS }, "error": too_long },
        { "when": { "turn": 0, "contains": "look it up" }, "call": read },
        { "when": { "turn": 0, "contains": "remember" }, "call": keep },
        { "say": "From seven to ten." },
    ]);
    let workspace = Workspace::new(&json!({ "rules": rules })).talkative();
    let steps = json!([
        "load-file(configs/prompts/system.md)",
        "persona",
        "active-memory",
        "knowledge",
        "thread-history",
        "load-file(personas/{persona_id}/house-rules.md)",
        "invocation-metadata",
        "current-input"
    ]);
    workspace.set("configs/context.json", "/thread", steps);
    workspace.set("configs/inference.json", "/max_output_tokens", json!(1000));
    workspace.write(
        "personas/ada/knowledge/tea.md",
        "# Tea\n\nTea is served at five, with cake.\n",
    );
    workspace
}

/// A letter in the correspondence of that number.
pub fn letter(thread: usize, n: usize, body: &str) -> String {
    let more = match n {
        0 => String::new(),
        _ => format!(
            "References: <{thread}.0@guest.example>\nIn-Reply-To: <{thread}.0@guest.example>\n"
        ),
    };
    note(&format!("{thread}.{n}@guest.example"), &more, body)
}

/// Letters in two threads: plain ones, with tools, with memory, and long ones that must be made shorter.
pub async fn correspond(app: &TestApp) -> Vec<RunId> {
    let long = format!("And this? {}", "The weather is fine here. ".repeat(220));
    let bodies = [
        (0, 0, "When is breakfast?"),
        (1, 0, "Please look it up: when is tea served?"),
        (0, 1, "Please remember that I like tea with cake."),
        (0, 2, &long),
        (0, 3, &long),
        (0, 4, &long),
        (0, 5, &long),
        (0, 6, &long),
        (1, 1, "And breakfast, with tea?"),
    ];
    let mut runs = Vec::new();
    for (thread, n, body) in bodies {
        runs.push(RunId::new(app.run_of(&letter(thread, n, body)).await));
        app.drain().await;
    }
    runs
}

/// The configurations that the runs of an engine were told.
pub fn configs(app: &TestApp) -> Configs {
    Configs::new(
        app.workspace.path().to_owned(),
        attache::cli::name_catalog(),
    )
}

/// Every context of a run.
pub async fn contexts(app: &TestApp, run: &RunId) -> Vec<AsOf> {
    AsOf::of_run(&app.engine.store, run)
        .await
        .expect("what the run was told")
}

/// Assembles every context of a run again, by the configuration of then; the first difference.
pub async fn cause(app: &TestApp, run: &RunId) -> Option<ContextCause> {
    let configs = configs(app);
    for context in contexts(app, run).await {
        let store = app.engine.store.persona(&context.persona);
        let config = configs
            .get(&store, &context.config)
            .await
            .expect("the configuration of then");
        if let Some(cause) = context.cause(&config).await.expect("assembled") {
            return Some(cause);
        }
    }
    None
}

/// Changes rows behind the engine's back.
pub async fn meddle(app: &TestApp, sql: &'static str) -> u64 {
    let mut rows = app.workspace.rows().await;
    db::query(sql)
        .execute(&mut rows)
        .await
        .expect("changed")
        .rows_affected()
}

/// The context as the run's row keeps it.
pub async fn told(app: &TestApp, run: &RunId) -> Value {
    let mut rows = app.workspace.rows().await;
    let turns = turns::of_run(&app.engine.store, &mut rows, run.as_str()).await;
    let context = turns.iter().find_map(|turn| turn.context_json.as_deref());
    serde_json::from_str(context.expect("a context")).expect("json")
}
