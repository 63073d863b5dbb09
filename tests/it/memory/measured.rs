//! `attache memory bench`: what a search of a persona's own letters finds, by the real program.

use crate::app::db;
use crate::app::{Workspace, rows};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

const REPLIES: usize = 40;

fn bench(workspace: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command.arg("--workspace").arg(workspace);
    command
        .args(["memory", "bench", "--persona", "ada"])
        .args(args);
    command.output().expect("a process")
}

/// A letter of a matter, and the answer to it in the same words.
async fn matter(conn: &mut db::Connection, number: usize) {
    let thread = format!("t{number}");
    let at = |minute: usize| format!("2026-11-01T{:02}:{minute:02}:00.000Z", number % 24);
    rows::thread(conn, ("ada", &thread, ""), &at(0), &["carol@partner.test"]).await;
    let own: Vec<String> = (1..=4).map(|salt| token(number, salt)).collect();
    let own = own.join(" ");
    for (kind, minute) in [("asks", 1), ("answers", 2)] {
        let id = format!("{kind}{number}@partner.test");
        let message = rows::Message {
            id: &id,
            persona: "ada",
            thread: &thread,
            direction: "inbound",
            message_id: &id,
            sender: "carol@partner.test",
            recipients_json: "{}",
            subject: "",
            body: &own,
            received_at: &at(minute),
            trust: "contact",
            disposition: "run",
        };
        rows::message(conn, message).await;
    }
    let answers = format!(
        "UPDATE messages SET in_reply_to = 'asks{number}@partner.test' WHERE id = 'answers{number}@partner.test'"
    );
    let answers = db::raw_sql(sqlx::AssertSqlSafe(answers));
    answers.execute(conn).await.expect("a reply");
}

/// A word of letters only, that no other number has.
fn token(number: usize, salt: usize) -> String {
    let letter =
        |place: usize| char::from(b'a' + ((number / 26_usize.pow(place as u32)) % 26) as u8);
    format!(
        "{}{}{}zeta{}",
        letter(0),
        letter(1),
        letter(0),
        "k".repeat(salt)
    )
}

#[tokio::test]
async fn replies_ask_for_their_parents_and_unrelated_words_for_nothing() {
    let workspace = Workspace::new(&json!({ "rules": [{ "say": "Yes." }] }));
    let engine = workspace.engine().await;
    let few = bench(workspace.path(), &[]);
    assert_eq!(few.status.code(), Some(66), "{few:?}");
    let said = String::from_utf8_lossy(&few.stderr).into_owned();
    assert!(
        said.contains("needs 5") && said.contains("attache import"),
        "{said}"
    );
    let mut conn = workspace.rows().await;
    for number in 0..REPLIES {
        matter(&mut conn, number).await;
    }
    // PostgreSQL's index learns of them here: they came past the engine.
    let indexed = engine.store.clone().index_open_letters().await;
    indexed.expect("indexed");
    let measured = bench(workspace.path(), &["--json"]);
    assert_eq!(measured.status.code(), Some(0), "{measured:?}");
    let measured: Value = serde_json::from_slice(&measured.stdout).expect("json");
    assert_eq!(measured["queries"], REPLIES);
    assert_eq!(measured["recall_at_1"], 1.0, "{measured}");
    assert_eq!(measured["recall_at_10_shown"], 1.0, "{measured}");
    assert_eq!(measured["unrelated"], REPLIES);
    assert_eq!(measured["unrelated_silent"], REPLIES, "{measured}");
    let shown = bench(workspace.path(), &["--queries", "5"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("5 replies among 80 letters"), "{shown}");
    assert!(shown.contains("not measured"), "too few to mix: {shown}");
    drop(engine);
}
