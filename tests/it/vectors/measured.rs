//! `attache memory bench` with vectors, by the real program: what it measures, and that only a gain switches them on.

use super::embedding_server::{EmbeddingServer, Mood};
use super::{MODEL, column, workspace};
use crate::app::db;
use crate::app::{TestApp, rows};
use serde_json::Value;
use std::process::{Command, Output};

const QUESTIONS: usize = 12;

async fn bench(app: &TestApp, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command.arg("--workspace").arg(app.workspace.path());
    command
        .args(["memory", "bench", "--persona", "ada"])
        .args(args);
    tokio::task::spawn_blocking(move || command.output().expect("a process"))
        .await
        .expect("joined")
}

async fn letter(conn: &mut db::Connection, id: &str, body: &str, minute: usize) {
    let at = format!(
        "2026-11-{:02}T{:02}:{:02}:00.000Z",
        1 + minute / 1440,
        minute / 60 % 24,
        minute % 60
    );
    rows::thread(conn, ("ada", id, ""), &at, &["carol@partner.test"]).await;
    let message = rows::Message {
        id,
        persona: "ada",
        thread: id,
        direction: "inbound",
        message_id: id,
        sender: "carol@partner.test",
        recipients_json: "{}",
        subject: "",
        body,
        received_at: &at,
        trust: "contact",
        disposition: "run",
    };
    rows::message(conn, message).await;
}

/// Questions whose parent says the same in other words, beneath many letters with the words of the question: words find
/// it outside of the first ten, where `is_hard`.
async fn mailbox(app: &TestApp, is_hard: bool) {
    let mut conn = app.workspace.rows().await;
    let mut minute = 0;
    for number in 0..QUESTIONS {
        let mark = format!(
            "{}zeta{}",
            char::from(b'a' + number as u8),
            char::from(b'a' + number as u8)
        );
        letter(
            &mut conn,
            &format!("asks{number}"),
            &format!("boiler {mark} {mark}quux boiler"),
            minute,
        )
        .await;
        minute += 1;
        if is_hard {
            for decoy in 0..12 {
                let body = format!("{mark} {mark}quux kitchen number {decoy}");
                letter(&mut conn, &format!("decoy{number}x{decoy}"), &body, minute).await;
                minute += 1;
            }
        }
        let answer = format!("answers{number}");
        letter(
            &mut conn,
            &answer,
            &format!("heating {mark} {mark}quux"),
            minute,
        )
        .await;
        minute += 1;
        let sql = format!("UPDATE messages SET in_reply_to = 'asks{number}' WHERE id = '{answer}'");
        db::raw_sql(sqlx::AssertSqlSafe(sql))
            .execute(&mut conn)
            .await
            .expect("a reply");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "second tier"]
async fn a_gain_that_is_measured_switches_them_on_and_nothing_else_does() {
    let server = EmbeddingServer::start().await;
    let app = workspace(&server).start().await;
    mailbox(&app, true).await;
    // Before there are vectors, there is no gain.
    let refused = bench(&app, &["--switch-on"]).await;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        said.contains("+0.0 points") && said.contains("3 are asked for"),
        "{said}"
    );
    app.drain().await;
    let plain = bench(&app, &["--json"]).await;
    assert_eq!(plain.status.code(), Some(0), "{plain:?}");
    let plain: Value = serde_json::from_slice(&plain.stdout).expect("json");
    let vectors = &plain["vectors"];
    assert_eq!(vectors["model"], MODEL, "{plain}");
    assert_eq!(
        vectors["letters"], vectors["letters_with_vector"],
        "{plain}"
    );
    assert_eq!(
        vectors["switched_on"], false,
        "measuring alone switches nothing on"
    );
    assert!(
        vectors["gain_points"].as_f64().expect("a number") >= 3.0,
        "{plain}"
    );
    assert!(
        column(&app, "SELECT model FROM vector_switches")
            .await
            .is_empty()
    );
    let on = bench(&app, &["--switch-on"]).await;
    assert_eq!(on.status.code(), Some(0), "{on:?}");
    let shown = String::from_utf8_lossy(&on.stdout).into_owned();
    assert!(
        shown.contains("searches use vectors") && shown.contains(" on"),
        "{shown}"
    );
    assert_eq!(
        column(
            &app,
            "SELECT persona_id || ' ' || provider || ' ' || model FROM vector_switches"
        )
        .await,
        [format!("ada compat:local {MODEL}")]
    );
    let off = bench(&app, &["--switch-off"]).await;
    assert_eq!(off.status.code(), Some(0), "{off:?}");
    assert!(
        column(&app, "SELECT model FROM vector_switches")
            .await
            .is_empty()
    );
    let purposes = column(
        &app,
        "SELECT DISTINCT purpose FROM embedding_calls ORDER BY purpose",
    )
    .await;
    assert_eq!(purposes, ["bench", "letters"]);
    let reserved =
        "SELECT owner FROM budget_accounts WHERE reserved_micros <> 0 OR reserved_tokens <> 0";
    assert!(column(&app, reserved).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_gain_they_stay_off() {
    let server = EmbeddingServer::start().await;
    let app = workspace(&server).start().await;
    mailbox(&app, false).await;
    app.drain().await;
    let refused = bench(&app, &["--switch-on", "--json"]).await;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let figures: Value = serde_json::from_slice(&refused.stdout).expect("the figures all the same");
    assert_eq!(figures["vectors"]["recall_at_10_shown"], 1.0, "{figures}");
    assert!(
        column(&app, "SELECT model FROM vector_switches")
            .await
            .is_empty()
    );
    server.set(Mood::Refuses(503));
    let failed = bench(&app, &[]).await;
    assert_eq!(failed.status.code(), Some(69), "{failed:?}");
}
