//! `attache migrate --to`: all rows go from a file to a server and back. They need a cluster: `ATTACHE_TEST_POSTGRES`.

use super::every_table::{lines, plant_a_row_in_each_table};
use crate::app::database::{self, is_sqlite_only};
use crate::app::{Workspace, audit, db, letter, note, proven_note};
use crate::replay::attache;
use crate::verify::kinds;
use attache::clock::ManualClock;
use attache::store::{BegunTransfer, OpenError, Store, Transfer, TransferError};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use std::path::Path;
use std::sync::Arc;

/// Returns the address of an empty database for a workspace whose own is a file; `None`, loudly, where there is no cluster.
async fn server(workspace: &Path) -> Option<String> {
    if is_sqlite_only("what moves begins in a file") {
        return None;
    }
    let url = database::empty_on_server(workspace).await;
    if url.is_none() {
        eprintln!("SKIPPED: ATTACHE_TEST_POSTGRES names no cluster of PostgreSQL");
    }
    url
}

/// A workspace in which runs of several kinds ended, with an attachment; no engine works there.
async fn lived() -> Workspace {
    let app = kinds::house().start().await;
    for (n, kind) in ["plain", "tools", "road", "flaky", "refused"]
        .iter()
        .enumerate()
    {
        app.run_of(&kinds::letter(n, kind)).await;
        app.drain().await;
    }
    let plan = note(
        "plan@guest.example",
        "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n",
        "--b\nContent-Type: text/plain\n\nA plan, kind-plain 4711AB.\n--b\nContent-Type: text/csv\n\
         Content-Disposition: attachment; filename=\"plan.csv\"\n\nroom,1\n--b--",
    );
    app.run_of(&plan).await;
    app.drain().await;
    app.check().await;
    let crate::app::TestApp { workspace, engine } = app;
    // A move makes the words that letters still wait for, and the parts of words are rows.
    let indexed = engine.store.clone().index_open_letters();
    indexed.await.expect("words");
    engine.store.close().await;
    workspace
}

async fn begun(workspace: &Workspace, to: &str) -> Result<Box<Transfer>, TransferError> {
    let clock: Arc<ManualClock> = workspace.clock.clone();
    match Transfer::begin(workspace.path(), to, clock).await? {
        BegunTransfer::Open(transfer) => Ok(transfer),
        BegunTransfer::Ended { from, to } => panic!("from {from} to {to} was done before"),
    }
}

async fn copied(workspace: &Workspace, to: &str) -> Box<Transfer> {
    let mut transfer = begun(workspace, to).await.expect("a transfer");
    while transfer.copy_next().await.expect("a table").is_some() {}
    transfer.finish_copy().await.expect("finished");
    transfer
}

/// Moves all rows, and has the workspace use the new database.
async fn moved(workspace: &Workspace, to: &str) -> Box<Transfer> {
    let mut transfer = copied(workspace, to).await;
    transfer.compare().await.expect("the same rows");
    transfer.audit().await.expect("no new violation");
    transfer
}

fn use_server(workspace: &Path, url: &str) {
    std::fs::rename(
        workspace.join("data/attache.db"),
        workspace.join("data/before"),
    )
    .expect("moved away");
    let line = format!("ATTACHE_DATABASE_URL={url}\n");
    std::fs::write(workspace.join(".secrets"), line).expect("a file");
}

/// What replays of all runs find.
async fn verdicts(workspace: &Workspace) -> Vec<String> {
    let verified = workspace.verified().await;
    assert!(verified.len() > 5);
    let mut verdicts: Vec<String> = verified.iter().map(|run| format!("{run:?}")).collect();
    verdicts.sort_unstable();
    verdicts
}

async fn execute(url: &str, sql: &str) {
    let mut rows = db::Connection::at(url).await;
    let done = rows.execute(AssertSqlSafe(sql.to_owned())).await;
    done.expect("a statement");
    rows.close().await.expect("closed");
}

#[tokio::test]
async fn every_row_of_every_table_goes_to_a_server_and_comes_back() {
    let workspace = lived().await;
    let Some(url) = server(workspace.path()).await else {
        return;
    };
    plant_a_row_in_each_table(workspace.path()).await;
    let file = workspace.path().join("data/attache.db");
    let given = "UPDATE sqlite_sequence SET seq = 99 WHERE name = 'web_sessions'";
    let mut rows = db::Connection::file(&file).await;
    rows.execute(given).await.expect("a number");
    rows.close().await.expect("closed");
    let before = lines(workspace.path()).await;
    let there = moved(&workspace, &url).await;
    let of_file = there.copied().to_vec();
    assert!(of_file.len() > 50, "{} tables", of_file.len());
    assert_eq!(there.replaced().texts, 0);
    there.end().await.expect("the end");
    use_server(workspace.path(), &url);
    let mut rows = db::Connection::at(&url).await;
    let next =
        "SELECT nextval('web_sessions_seq_seq') * 1000000 + nextval('thread_tool_events_rowid_seq')
        - (SELECT max(rowid) FROM thread_tool_events)";
    let next = db::query_scalar::<i64>(next).fetch_one(&mut rows).await;
    assert_eq!(next.expect("numbers"), 100_000_001);
    rows.close().await.expect("closed");

    let back = moved(&workspace, &workspace.path().display().to_string()).await;
    let of_server = back.copied().to_vec();
    back.end().await.expect("the end");
    for (one, other) in of_file.iter().zip(&of_server) {
        assert!(one == other || one.table == "engine", "{one:?} {other:?}");
    }
    assert_eq!(lines(workspace.path()).await, before);
    let mut rows = db::Connection::file(&file).await;
    let given = "SELECT seq FROM sqlite_sequence WHERE name = 'web_sessions'";
    let given = db::query_scalar::<i64>(given).fetch_one(&mut rows).await;
    assert_eq!(given.expect("a number"), 100);
}

#[tokio::test]
async fn the_command_moves_a_workspace_that_answers_and_replays_as_before() {
    let workspace = lived().await;
    let Some(url) = server(workspace.path()).await else {
        return;
    };
    let before = verdicts(&workspace).await;
    for (number, to) in [url.as_str(), workspace.path().to_str().expect("a path")]
        .into_iter()
        .enumerate()
    {
        let args = ["--json", "migrate", "--to", to, "--switch"];
        let (code, stdout, stderr) = attache(workspace.path(), &args);
        assert_eq!(code, 0, "{stderr}");
        let record: Value = serde_json::from_str(&stdout).expect("one JSON value");
        assert_eq!(record["is_switched"], true);
        assert!(record["rows"].as_u64() > Some(100), "{record}");
        let of_server = database::url_of(workspace.path());
        assert_eq!(of_server.is_some(), number == 0);
        let after = verdicts(&workspace).await;
        assert_eq!(after.len(), before.len() + number);
        assert!(before.iter().all(|verdict| after.contains(verdict)));
        // Mail in the outbox is nothing that a file of a database has left.
        workspace.write("data/outbox/0.eml", "Subject: an answer\n\nYes.\n");
        let (code, _, stderr) = attache(workspace.path(), &["doctor", "--audit"]);
        assert_eq!(code, 0, "{stderr}");

        let engine = workspace.engine().await;
        let reply = "In-Reply-To: <0@guest.example>\n";
        let eml = proven_note(&format!("more{number}"), reply, "One more, kind-plain.");
        let taken = engine.intake().accept(letter(&eml)).await;
        taken.expect("the letter is taken");
        engine.drain().await.expect("drained");
        engine.store.close().await;
        let mut rows = workspace.rows().await;
        let sql = "SELECT count(*) FROM messages m JOIN messages o ON o.thread_id = m.thread_id
            WHERE m.message_id = '0@guest.example' AND o.direction = 'outbound' AND o.disposition = 'sent'";
        let answers: i64 = db::query_scalar(sql)
            .fetch_one(&mut rows)
            .await
            .expect("a count");
        assert!(
            answers > i64::try_from(number).expect("few"),
            "in the old thread"
        );
        audit(&mut rows).await;
    }
}

#[tokio::test]
async fn a_target_with_rows_is_refused_and_left_alone() {
    let workspace = lived().await;
    let Some(url) = server(workspace.path()).await else {
        return;
    };
    // Makes the tables.
    drop(begun(&workspace, &url).await.expect("a transfer"));
    let planted =
        "DELETE FROM archive; INSERT INTO conversations VALUES ('c', 'p', 's', NULL, 'x')";
    execute(&url, planted).await;
    let refused = begun(&workspace, &url).await.map(|_| ());
    let refusal = refused.expect_err("a refusal");
    assert!(
        matches!(&refusal, TransferError::NotEmpty { table, .. } if table == "conversations"),
        "{refusal:?}"
    );
    let (code, _, stderr) = attache(workspace.path(), &["migrate", "--to", &url]);
    assert_eq!(code, 73, "{stderr}");
    assert!(stderr.contains("is not empty"), "{stderr}");
    let mut rows = db::Connection::at(&url).await;
    let left = db::query_scalar::<i64>("SELECT count(*) FROM conversations");
    assert_eq!(left.fetch_one(&mut rows).await.expect("a count"), 1);
    // The source goes on.
    let store = Store::open(workspace.path(), workspace.clock.clone()).await;
    store.expect("the file").close().await;
}

#[tokio::test]
async fn a_move_that_was_cut_is_begun_anew_in_both_directions() {
    let workspace = lived().await;
    let Some(url) = server(workspace.path()).await else {
        return;
    };
    let folder = workspace.path().display().to_string();
    for to in [url.as_str(), folder.as_str()] {
        let mut cut = begun(&workspace, to).await.expect("a transfer");
        for _ in 0..20 {
            cut.copy_next()
                .await
                .expect("a table")
                .expect("more tables");
        }
        drop(cut);
        refuse_engine_on_half(&workspace, to, &url).await;
        // Another one dies when all rows are there.
        drop(copied(&workspace, to).await);
        let whole = moved(&workspace, to).await;
        whole.end().await.expect("the end");
        match to == url {
            true => use_server(workspace.path(), &url),
            false => std::fs::remove_file(workspace.path().join(".secrets")).expect("gone"),
        }
        let store = Store::open(workspace.path(), workspace.clock.clone()).await;
        store.expect("an engine works there").close().await;
    }
}

/// The database to which only some rows have come.
async fn refuse_engine_on_half(workspace: &Workspace, to: &str, url: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    std::fs::create_dir_all(&data).expect("a folder");
    match to == url {
        true => {
            let line = format!("ATTACHE_DATABASE_URL={url}\n");
            std::fs::write(folder.path().join(".secrets"), line).expect("a file");
        }
        false => {
            let half = workspace.path().join("data/attache.db");
            for file in ["", "-wal"] {
                let from = format!("{}{file}", half.display());
                if Path::new(&from).exists() {
                    let to = data.join(format!("attache.db{file}"));
                    std::fs::copy(&from, to).expect("a copy");
                }
            }
        }
    }
    let opened = Store::open(folder.path(), workspace.clock.clone()).await;
    let refusal = opened.map(|_| ()).expect_err("a refusal");
    assert!(
        matches!(refusal, OpenError::HalfMoved { .. }),
        "{refusal:?}"
    );
}

#[tokio::test]
async fn a_value_that_changes_in_the_target_is_found() {
    let workspace = lived().await;
    let Some(url) = server(workspace.path()).await else {
        return;
    };
    let mut transfer = copied(&workspace, &url).await;
    transfer.compare().await.expect("nothing changed yet");
    for (change, table) in [
        (
            "UPDATE messages SET subject = subject || ' ' WHERE seq = 1",
            "`messages` (a value)",
        ),
        (
            "UPDATE runs SET cost_micros = 0 WHERE seq = 2",
            "`runs` (a value)",
        ),
        (
            "DELETE FROM run_turns WHERE turn_index > 0",
            "`run_turns` (",
        ),
    ] {
        execute(&url, change).await;
        let found = transfer.compare().await.expect_err("a difference");
        assert!(found.to_string().contains(table), "{found}");
    }
    // What is not copied is no part of the comparison; the audit knows it.
    transfer.audit().await.expect_err("lost turns");
    drop(transfer);
    let mut transfer = moved(&workspace, &url).await;
    execute(&url, "DELETE FROM letter_words WHERE seq = 1").await;
    transfer.compare().await.expect("the same rows");
    let found = transfer.audit().await.expect_err("a violation");
    assert!(
        matches!(&found, TransferError::Audit { checks } if checks == &["`search-index-differs` (1)"]),
        "{found:?}"
    );
    drop(transfer);
    // Its connections close on threads of their own.
    let mut refusals = Vec::new();
    while refusals.len() < 1_000 {
        match Store::open(workspace.path(), workspace.clock.clone()).await {
            Ok(store) => return store.close().await,
            Err(refusal) => refusals.push(refusal),
        }
        crate::app::blink();
    }
    panic!("the source does not go on: {:?}", refusals.last());
}

#[tokio::test]
async fn an_engine_at_work_keeps_its_rows_and_a_retired_file_says_where_they_are() {
    let workspace = lived().await;
    let Some(url) = server(workspace.path()).await else {
        return;
    };
    let engine = Store::open(workspace.path(), workspace.clock.clone()).await;
    let refused = begun(&workspace, &url).await.map(|_| ());
    assert!(matches!(
        refused,
        Err(TransferError::Open(OpenError::InUse { .. }))
    ));
    engine.expect("an engine").close().await;
    let transfer = moved(&workspace, &url).await;
    let to = transfer.to();
    transfer.end().await.expect("the end");
    let opened = Store::open(workspace.path(), workspace.clock.clone()).await;
    let refusal = opened.map(|_| ()).expect_err("a refusal");
    assert!(
        matches!(&refusal, OpenError::MovedAway { to: there } if *there == to),
        "{refusal:?}"
    );
    let (_, said, _) = attache(workspace.path(), &["doctor", "--quick"]);
    assert!(said.contains("no engine starts here"), "{said}");
}

#[tokio::test]
async fn a_move_that_died_before_its_last_step_is_ended_by_the_next() {
    let workspace = lived().await;
    let Some(url) = server(workspace.path()).await else {
        return;
    };
    moved(&workspace, &url).await.end().await.expect("the end");
    let marked = r#"INSERT INTO archive VALUES (1, '{"comes_from":"a file"}', 'x')"#;
    execute(&url, marked).await;
    let clock = workspace.clock.clone();
    let again = Transfer::begin(workspace.path(), &url, clock.clone()).await;
    assert!(matches!(again, Ok(BegunTransfer::Ended { .. })));
    use_server(workspace.path(), &url);
    let store = Store::open(workspace.path(), clock).await;
    store.expect("an engine works there").close().await;
}

/// Copies tables until one is refused.
async fn refusal_of_copy(transfer: &mut Transfer) -> TransferError {
    loop {
        match transfer.copy_next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("all tables"),
            Err(refused) => return refused,
        }
    }
}

#[tokio::test]
async fn a_nul_is_replaced_counted_and_named_and_in_a_key_refused() {
    let workspace = lived().await;
    let Some(url) = server(workspace.path()).await else {
        return;
    };
    let file = workspace.path().join("data/attache.db");
    let mut rows = db::Connection::file(&file).await;
    let with_nul = r#"UPDATE messages SET subject = 'a' || char(0) || 'b', html_body = '{"x":"\u0000","y":"\\u0000"}' WHERE seq = 1"#;
    rows.execute(with_nul).await.expect("a NUL");
    let transfer = moved(&workspace, &url).await;
    assert_eq!(transfer.replaced().texts, 2);
    let first = transfer.replaced().first.as_deref();
    assert_eq!(first, Some("`html_body` of `messages` (seq = 1)"));
    drop(transfer);
    let in_key = "INSERT INTO contents VALUES ('a' || char(0), x'00')";
    rows.execute(in_key).await.expect("a NUL");
    let mut transfer = begun(&workspace, &url).await.expect("a transfer");
    let refused = refusal_of_copy(&mut transfer).await;
    assert!(
        matches!(&refused, TransferError::NulInKey { row } if row.starts_with("`contents`")),
        "{refused:?}"
    );
}

#[tokio::test]
#[ignore = "second tier"]
async fn the_row_before_one_that_cannot_be_read_is_named() {
    let workspace = lived().await;
    let Some(url) = server(workspace.path()).await else {
        return;
    };
    let mut rows = db::Connection::file(&workspace.path().join("data/attache.db")).await;
    let damaged = "UPDATE messages SET subject = CAST(x'ff' AS TEXT) WHERE seq = 2";
    rows.execute(damaged).await.expect("damaged");
    let mut transfer = begun(&workspace, &url).await.expect("a transfer");
    let refused = refusal_of_copy(&mut transfer).await;
    assert!(
        matches!(&refused, TransferError::Row { after, .. } if after == "`messages` (seq = 1)"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_move_to_a_database_of_the_same_kind_is_refused() {
    if is_sqlite_only("the database is a file") {
        return;
    }
    let (one, other) = (
        Workspace::new(&json!({ "turns": [] })),
        Workspace::new(&json!({})),
    );
    one.engine().await.store.close().await;
    let to = other.path().display().to_string();
    let refused = begun(&one, &to).await.map(|_| ());
    assert!(matches!(refused, Err(TransferError::SameKind { .. })));
    let refused = begun(&other, "postgres://mail@db.test/mail")
        .await
        .map(|_| ());
    assert!(matches!(refused, Err(TransferError::NoSource)));
    for (to, exit) in [("nowhere", 2), ("postgres://mail@127.0.0.1:1/mail", 75)] {
        let (code, _, stderr) = attache(one.path(), &["migrate", "--to", to]);
        assert_eq!(code, exit, "{stderr}");
    }
}
