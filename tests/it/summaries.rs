//! Summaries of threads: made when history no longer fits, checked, shown to those who may read all of it, replayed.

mod backlog;
mod checker;
mod erased;
mod instructed;
mod lasting;
mod real;
mod scope;

use crate::app::db;
use crate::app::{PROVEN, TestApp, Workspace, note};
use crate::contexts::report;
use serde_json::{Value, json};

/// What marks the request of a run that summarises.
pub const ASKED: &str = "You write the summary of";
const SIXTY: &str =
    "The weir is quiet at dusk and the path along it is dry again today, says the miller. ";

/// An engine whose history holds few letters and whose model answers `summary` when it is asked for one.
pub fn small_house(summary: &Value) -> Workspace {
    let mut rule = summary.clone();
    rule["when"] = json!({ "system_contains": ASKED });
    let workspace = Workspace::new(&json!({ "rules": [rule, { "say": "Yes." }] })).talkative();
    workspace.set(
        "configs/context.json",
        "/thread",
        json!(["persona", { "use": "thread-summary", "budget_tokens": 2000 },
            { "use": "thread-history", "budget_tokens": 400 }, "invocation-metadata", "current-input"]),
    );
    workspace
}

/// The letter of that number in the thread, from a proven correspondent.
pub fn letter(n: usize, body: &str) -> String {
    let more = match n {
        0 => PROVEN.to_owned(),
        _ => format!("{PROVEN}References: <t.0@guest.example>\nIn-Reply-To: <t.0@guest.example>\n"),
    };
    note(&format!("t.{n}@guest.example"), &more, body)
}

/// Letters from number `from` on, each answered before the next.
pub async fn correspond(app: &TestApp, from: usize, count: usize) -> Vec<String> {
    let mut runs = Vec::new();
    for n in from..from + count {
        let body = format!("{}I bring {} eels for Maria.", SIXTY.repeat(3), 100 + n);
        runs.push(app.run_of(&letter(n, &body)).await);
        app.drain().await;
    }
    runs
}

pub async fn count(app: &TestApp, sql: &'static str) -> i64 {
    let mut rows = app.workspace.rows().await;
    db::query_scalar(sql)
        .fetch_one(&mut rows)
        .await
        .expect("a count")
}

fn entry<'r>(report: &'r Value, resolver: &str) -> &'r Value {
    let entries = report["entries"].as_array().expect("entries");
    let found = entries.iter().find(|entry| entry["resolver"] == resolver);
    found.expect("an entry")
}

#[tokio::test]
async fn what_no_longer_fits_stands_in_a_summary_and_after_it_every_letter() {
    let app = small_house(&json!({ "say": "{{text}}" })).start().await;
    let runs = correspond(&app, 0, 6).await;
    let usable = count(
        &app,
        "SELECT count(*) FROM thread_memory WHERE state = 'usable'",
    )
    .await;
    assert!(
        usable >= 1,
        "{:?}",
        app.row(
            "SELECT problems_json FROM thread_memory WHERE 'x' = $1",
            "x"
        )
        .await
    );
    let last = runs.last().expect("a run");
    let prompt = serde_json::to_string(&app.prompts(last).await).expect("json");
    assert!(prompt.contains("<thread-summary>"), "{prompt}");
    let summary = prompt.find("<thread-summary>").expect("a summary");
    for n in 0..6 {
        // In the summary or behind it, never in both and never nowhere.
        let said = format!("bring {} eels", 100 + n);
        assert_eq!(prompt.matches(&said).count(), 1, "{n}: {prompt}");
    }
    let old = prompt.find("bring 100 eels").expect("the first letter");
    assert!(old > summary && old < prompt.find("</thread-summary>").expect("its end"));
    let report = report(&app, last).await;
    let shown = entry(&report, "thread-summary");
    assert_eq!(shown["outcome"], "used", "{report}");
    assert!(
        shown["source"]
            .as_str()
            .is_some_and(|source| source.contains("messages up to 2026-")),
        "{report}"
    );
    assert_eq!(
        entry(&report, "thread-history")["outcome"],
        "used",
        "{report}"
    );
    // Nobody got a summary by mail, and no letter waited for one.
    assert_eq!(app.sent().len(), 6);
    let verified = app.workspace.verified().await;
    assert!(verified.len() > 6);
    app.check().await;
}
