//! What a letter with its answer leaves in the database, in bytes: a number that does not depend on the machine.

use crate::app::database::is_sqlite_only;
use crate::app::{TestApp, Workspace, db, proven_note};
use serde_json::json;
use std::time::Duration;

const LETTERS: u32 = 50;
/// What it was, and a tenth more.
const KEPT_MAX: i64 = 19_000;
/// Used pages of the file.
const USED: &str = "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size";
const WORDS: [&str; 24] = [
    "breakfast",
    "lake",
    "garden",
    "Tuesday",
    "the",
    "room",
    "with",
    "please",
    "nine",
    "train",
    "arrives",
    "and",
    "we",
    "would",
    "like",
    "window",
    "quiet",
    "about",
    "children",
    "to",
    "bring",
    "a",
    "boat",
    "thanks",
];

/// A text of some bytes; no two numbers give the same.
fn text(number: u32, bytes: usize) -> String {
    let (mut words, mut state) = (String::new(), number.wrapping_mul(2_654_435_761).max(1));
    while words.len() < bytes {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        words.push_str(WORDS[state as usize % WORDS.len()]);
        words.push(if state.is_multiple_of(11) { '\n' } else { ' ' });
    }
    words
}

async fn used(app: &TestApp) -> i64 {
    let mut rows = app.workspace.rows().await;
    let used = db::query_scalar(USED).fetch_one(&mut rows).await;
    used.expect("a number")
}

/// Shows what each table has with `ATTACHE_SHOW_KEPT`.
async fn show(app: &TestApp) {
    if std::env::var_os("ATTACHE_SHOW_KEPT").is_none() {
        return;
    }
    let mut rows = app.workspace.rows().await;
    let sql = "SELECT m.tbl_name || ': ' || sum(s.pgsize) || ' of which unused ' || sum(s.unused)
        FROM dbstat s JOIN sqlite_master m ON m.name = s.name GROUP BY m.tbl_name ORDER BY sum(s.pgsize) DESC LIMIT 14";
    let lines = db::query_scalar::<String>(sql).fetch_all(&mut rows).await;
    println!("{:#?}", lines.unwrap_or_default());
    for sql in [
        "SELECT 'packed ' || sum(length(packed)) || ' answers ' || sum(length(response_json)) || ' turns ' || count(*) FROM run_turns",
        "SELECT 'letters ' || sum(length(bytes)) FROM raw_letters",
        "SELECT 'mails ' || sum(length(bytes)) FROM deliveries",
        "SELECT 'contents ' || sum(length(bytes)) FROM contents",
    ] {
        println!(
            "{}",
            db::query_scalar::<String>(sql)
                .fetch_one(&mut rows)
                .await
                .expect("a line")
        );
    }
}

#[tokio::test]
async fn a_letter_of_two_kilobytes_and_its_answer_keep_few_bytes() {
    if is_sqlite_only("pages of its file are counted") {
        return;
    }
    let script = json!({ "rules": [
        { "when": { "turn": 0 }, "call": [{ "tool": "read_file", "args": { "path": "knowledge/house.md" } }] },
        { "when": { "turn": 1 }, "say": text(77, 700) },
    ] });
    let app = Workspace::new(&script).talkative().start().await;
    let mut first = 0;
    for number in 0..=LETTERS {
        // The first letter brings what all have in common.
        if number == 1 {
            first = used(&app).await;
        }
        let note = proven_note(
            &format!("q{number}@guest.example"),
            "",
            &text(number + 1, 1_500),
        );
        app.run_of(&note).await;
        app.drain().await;
        // A sender has a number of letters for each hour.
        app.workspace.clock.advance(Duration::from_secs(1800));
    }
    let kept = (used(&app).await - first) / i64::from(LETTERS);
    println!("{kept} bytes a letter");
    show(&app).await;
    assert!(kept < KEPT_MAX, "{kept} bytes a letter");
}
