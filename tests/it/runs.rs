//! Every rule of the tool loop as a case file: `tests/fixtures/runs/*.json` holds a model's script and what must come
//! of it.
//!
//! A case: `script` (the scripted provider's), optional `set` (`file#pointer` -> value), optional `letters` (a second
//! attempt after `retry`), and `expect` with any of `state`, `stop`, `error`, `trace`, `sent`, `reply_contains`,
//! `turns`, `withheld`, `last_prompt_contains`, `tokens`.

use crate::app::{PROVEN, TestApp, Workspace, note};
use futures_util::FutureExt;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// What the case shows, in one sentence.
    #[serde(rename = "rule")]
    _rule: String,
    script: Value,
    #[serde(default)]
    set: BTreeMap<String, Value>,
    /// Body of the letter.
    letter: Option<String>,
    expect: Expect,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Expect {
    state: Option<String>,
    stop: Option<String>,
    error: Option<String>,
    /// `call NAME`, `ok NAME`, `CODE NAME`.
    trace: Option<Vec<String>>,
    /// Mails in the outbox.
    sent: Option<usize>,
    reply_contains: Option<String>,
    /// Provider calls, failed ones included.
    turns: Option<usize>,
    /// Rule that withheld the final text.
    withheld: Option<String>,
    last_prompt_contains: Option<Vec<String>>,
    /// Input and output tokens of the run together.
    tokens: Option<i64>,
}

fn cases() -> Vec<(String, Case)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/runs");
    let mut cases = Vec::new();
    for file in std::fs::read_dir(folder).expect("the case files") {
        let path = file.expect("an entry").path();
        let name = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let text = std::fs::read_to_string(&path).expect("a case");
        cases.push((
            name.clone(),
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}")),
        ));
    }
    cases.sort_by(|a, b| a.0.cmp(&b.0));
    cases
}

#[tokio::test]
#[ignore = "second tier"]
async fn every_rule_of_the_tool_loop_holds() {
    let cases = cases();
    assert!(
        cases.len() >= 25,
        "only {} case files were found",
        cases.len()
    );
    let mut broken = Vec::new();
    for (name, case) in cases {
        // One run of the test shows every case that fails.
        let checked = AssertUnwindSafe(check(&name, case)).catch_unwind().await;
        if checked.is_err() {
            broken.push(name);
        }
    }
    assert!(broken.is_empty(), "these cases fail: {broken:?}");
}

async fn check(name: &str, case: Case) {
    let workspace = Workspace::new(&case.script);
    for (place, value) in &case.set {
        let (file, pointer) = place.split_once('#').expect("file#pointer");
        workspace.set(file, pointer, value.clone());
    }
    let app = workspace.start().await;
    let body = case.letter.as_deref().unwrap_or("When is breakfast?");
    let run = app.run_of(&note("q1@guest.example", PROVEN, body)).await;
    app.drain().await;
    let (state, stop, error) = app.outcome(&run).await;
    let expect = case.expect;
    let said = format!("{name}: {state} {stop:?} {error:?}");
    if let Some(wanted) = expect.state {
        assert_eq!(state, wanted, "{said}");
    }
    if expect.stop.is_some() {
        assert_eq!(stop, expect.stop, "{said}");
    }
    assert_eq!(error, expect.error, "{said}");
    if let Some(wanted) = expect.trace {
        assert_eq!(app.trace(&run).await, wanted, "{name}");
    }
    let sent = app.sent();
    if let Some(wanted) = expect.sent {
        assert_eq!(sent.len(), wanted, "{name}");
    }
    if let Some(wanted) = expect.reply_contains {
        assert!(
            sent.iter().any(|mail| mail.text.contains(&wanted)),
            "{name}: no mail with {wanted:?}"
        );
    }
    let prompts = app.prompts(&run).await;
    if let Some(wanted) = expect.turns {
        assert_eq!(prompts.len(), wanted, "{name}");
    }
    for wanted in expect.last_prompt_contains.unwrap_or_default() {
        let last = prompts.last().map(Value::to_string).unwrap_or_default();
        assert!(
            last.contains(&wanted),
            "{name}: {wanted:?} is not in {last}"
        );
    }
    if let Some(wanted) = expect.tokens {
        let sql = "SELECT CAST(input_tokens + output_tokens AS TEXT) FROM runs WHERE id = $1";
        assert_eq!(
            app.row(sql, &run).await[0].as_deref(),
            Some(wanted.to_string().as_str()),
            "{name}"
        );
    }
    if let Some(wanted) = expect.withheld {
        let sql = "SELECT max(disposition) FROM messages WHERE run_id = $1 AND disposition LIKE 'withheld:%'";
        assert_eq!(
            app.row(sql, &run).await[0].as_deref(),
            Some(format!("withheld:{wanted}").as_str()),
            "{name}"
        );
    }
    if state == "waiting_retry" || state == "failed" {
        assert_nothing_lost(&app, name).await;
    }
    app.check().await;
}

/// Whatever became of the run, the letter is there.
async fn assert_nothing_lost(app: &TestApp, name: &str) {
    let row = app
        .row(
            "SELECT CAST(count(*) AS TEXT) FROM raw_letters WHERE length(bytes) > 0 AND $1 = $1",
            "",
        )
        .await;
    assert_eq!(row[0].as_deref(), Some("1"), "{name}");
}
