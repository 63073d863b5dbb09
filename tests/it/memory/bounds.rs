//! C-7: bounded, however much is said.

use super::scene::MemoryScene;
use crate::approvals::scene::CONTACT;
use attache::domain::MemoryStatus;
use attache::replay::verify::Outcome;
use serde_json::{Value, json};
use std::time::Instant;

/// Letters of a garrulous correspondent; 18250 is the long form, a year of 50 a day.
const LETTERS: &str = "ATTACHE_MEMORY_DAYS";
const BUDGET_TOKENS: u64 = 600;

/// Remembers three long things of every letter.
fn garrulous() -> Value {
    let call = |name: &str| json!({ "tool": "remember", "args": { "text": format!("{{{{header:{name}}}}}"), "kind": "fact", "source_quote": "there is a lot to tell" } });
    json!({ "rules": [{ "when": { "turn": 0 }, "call": [call("one"), call("two"), call("three")] }, { "say": "Done: {{result}}" }] })
}

/// A sentence that is like no other.
fn sentence(seed: usize) -> String {
    let mut number = seed as u64 + 7;
    let mut word = || {
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let letters =
            (0..8).map(|place| char::from(b'a' + ((number >> (33 + place * 3)) % 23) as u8));
        letters.collect::<String>()
    };
    (0..30).map(|_| word()).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
#[ignore = "second tier"]
async fn c7_entries_and_context_keep_to_their_limits() {
    let letters: usize =
        std::env::var(LETTERS).map_or(40, |count| count.parse().expect("a number"));
    let scene = MemoryScene::with(&garrulous()).await;
    let app = &scene.scene.world.app;
    let (mut widest, mut refused) = (0, 0);
    let mut tenths = vec![Instant::now()];
    for number in 0..letters {
        let things: Vec<String> = (0..3).map(|place| sentence(number * 3 + place)).collect();
        let body = format!(
            "Oh, there is a lot to tell.\r\none: {}\r\ntwo: {}\r\nthree: {}\r\n",
            things[0], things[1], things[2]
        );
        let run = scene
            .writes(CONTACT, &format!("g{number}"), "", &body)
            .await;
        let sql = "SELECT context_report_json FROM runs WHERE id = $1";
        let report = app.row(sql, &run).await[0].clone().expect("a report");
        let report: Value = serde_json::from_str(&report).expect("json");
        let steps = report["entries"].as_array().expect("steps");
        let tokens = steps
            .iter()
            .filter(|step| step["resolver"] == "contact-memory");
        widest = tokens
            .map(|step| step["tokens"].as_u64().unwrap_or(0))
            .sum::<u64>()
            .max(widest);
        let trace = scene.trace(&run).await;
        refused += trace
            .iter()
            .filter(|line| *line == "memory_full remember")
            .count();
        if (number + 1) % (letters / 10).max(1) == 0 {
            tenths.push(Instant::now());
        }
    }
    let rates: Vec<f64> = tenths
        .windows(2)
        .map(|pair| (letters / 10).max(1) as f64 / (pair[1] - pair[0]).as_secs_f64())
        .collect();
    println!("replies per second, by tenths: {rates:.0?}");
    let entries = scene.entries().await;
    let open = entries
        .iter()
        .filter(|entry| entry.status == MemoryStatus::Active)
        .count();
    println!(
        "C-7: {letters} letters, {open} entries of 100, {refused} refused as full, widest share {widest} of {BUDGET_TOKENS} tokens"
    );
    assert!(open <= 100 && widest <= BUDGET_TOKENS, "{open} {widest}");
    assert!(
        refused > 0 && open == 100 && widest > BUDGET_TOKENS / 2,
        "{open} {refused} {widest}"
    );
    let verified = app.workspace.verified().await;
    let differs = verified
        .iter()
        .find(|run| !matches!(run.outcome, Outcome::Identical { .. }));
    println!("C-9: {} runs executed once more", verified.len());
    assert!(differs.is_none() && !verified.is_empty(), "{differs:?}");
    app.check().await;
}
