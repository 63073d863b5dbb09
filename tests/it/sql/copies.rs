//! The long history of the benches is one: each letter that is copied has all of its rows.

use crate::app::database::is_sqlite_only;
use crate::app::{TestApp, db, note};
use serde_json::json;

#[path = "../../../benches/road/copies.rs"]
mod filling;

const ORIGINALS: i64 = 4;
const LETTERS: i64 = 80;

#[tokio::test]
async fn every_copied_letter_has_its_run_and_all_other_rows() {
    if is_sqlite_only("the benches copy rows in a file") {
        return;
    }
    let call = json!({ "tool": "send_email", "args": { "to": ["bob@guest.example"], "subject": "Rooms", "body": "Two." } });
    let script = json!({ "rules": [{ "when": { "turn": 0 }, "call": [call] }, { "when": { "turn": 1 }, "say": "Sent." }] });
    let app = TestApp::start(script).await;
    for number in 0..ORIGINALS {
        // Copies have another beginning of it.
        let id = format!("00000000.original.{number}@guest.example");
        app.run_of(&note(&id, "", "Two rooms?")).await;
    }
    app.drain().await;
    let TestApp { workspace, engine } = app;
    drop(engine);
    let mut rows = workspace.rows().await;
    filling::multiply(&mut rows, usize::try_from(LETTERS).expect("few")).await;
    for (table, each) in [
        ("runs", 1),
        ("raw_letters", 1),
        ("threads", 1),
        ("run_turns", 2),
        ("thread_tool_events", 2),
    ] {
        let sql = format!("SELECT count(*) FROM {table}");
        let count: i64 = db::query_scalar(sqlx::AssertSqlSafe(sql))
            .fetch_one(&mut rows)
            .await
            .expect("a count");
        assert!(count >= LETTERS * each, "{count} rows of {table}");
    }
    let broken = db::query("PRAGMA foreign_key_check")
        .fetch_all(&mut rows)
        .await;
    assert_eq!(
        broken.expect("checked").len(),
        0,
        "a copy refers to nothing"
    );
}
