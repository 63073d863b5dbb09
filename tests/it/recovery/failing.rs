//! A commit that fails: nobody is told yes, the engine ends, and the next one goes on as if nothing had been.

use super::place::{Running, Sink, attache, send, workspace};
use crate::app::database::is_sqlite_only;
use crate::app::db;
use crate::app::{TestApp, Workspace, audit, note};
use attache::store::{PowerCut, StoreError};
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

fn script() -> serde_json::Value {
    json!({ "turns": [{ "say": "From seven to ten." }] })
}

async fn dialogue(address: std::net::SocketAddr) -> String {
    let letter = note("q1@guest.example", "", "When is breakfast?").replace('\n', "\r\n");
    let words = format!(
        "EHLO guest.example\r\nMAIL FROM:<bob@guest.example>\r\nRCPT TO:<ada@engine.test>\r\nDATA\r\n{letter}.\r\nQUIT\r\n"
    );
    let mut said = String::new();
    // A closed connection is as good a no as 451, whenever it closes.
    let Ok(mut client) = TcpStream::connect(address).await else {
        return said;
    };
    let _reset = client.write_all(words.as_bytes()).await;
    let _reset = client.read_to_string(&mut said).await;
    said
}

#[tokio::test]
async fn an_engine_whose_commit_fails_says_no_and_ends_in_a_second() {
    for commit in 1..=3 {
        let app = Workspace::new(&script()).start().await;
        let listeners = app.engine.bind().await.expect("a port");
        let address = listeners[0].tcp_address().expect("an address");
        let TestApp { workspace, engine } = app;
        let store = engine.store.clone();
        let serving = tokio::spawn(engine.serve(listeners, CancellationToken::new()));
        store.cut_power(PowerCut::BrokenDisk(commit));
        let said = dialogue(address).await;
        let ended = tokio::time::timeout(Duration::from_secs(1), serving)
            .await
            .expect("it ends at once");
        let error = ended
            .expect("no panic")
            .expect_err("an engine whose disk failed does not end well");
        assert!(
            matches!(error.downcast_ref(), Some(StoreError::CommitFailed(_))),
            "{error:?}"
        );
        let after = store.claim_runs(1, 1).await;
        assert!(
            matches!(after, Err(StoreError::CommitFailed(_))),
            "{after:?}"
        );
        drop(store);

        let app = workspace.start().await;
        let yes = said
            .lines()
            .filter(|line| line.starts_with("250 ") && line.contains("2.0.0 stored"))
            .count();
        let stored = app
            .row(
                "SELECT CAST(count(*) AS TEXT) FROM messages WHERE $1 = $1",
                "",
            )
            .await;
        assert!(
            stored[0].as_deref() >= Some(if yes > 0 { "1" } else { "0" }),
            "{said}"
        );
        app.receive(&note("q1@guest.example", "", "When is breakfast?"))
            .await
            .expect("taken");
        app.drain().await;
        app.check().await;
        assert_eq!(app.sent().len(), 1, "after commit {commit}");
    }
}

/// What it stored would be in a file that nobody finds.
#[tokio::test]
async fn an_engine_with_database_moved_or_replaced_says_no_and_ends() {
    if is_sqlite_only("a file that is moved") {
        return;
    }
    for replaced in [false, true] {
        let app = Workspace::new(&script()).start().await;
        let listeners = app.engine.bind().await.expect("a port");
        let address = listeners[0].tcp_address().expect("an address");
        let TestApp { workspace, engine } = app;
        let serving = tokio::spawn(engine.serve(listeners, CancellationToken::new()));
        let said = dialogue(address).await;
        assert!(
            said.contains("2.0.0 stored"),
            "the control: where it was it stores: {said}"
        );
        let (database, moved) = (
            workspace.path().join("data/attache.db"),
            workspace.path().join("moved.db"),
        );
        std::fs::rename(&database, &moved).expect("moved");
        if replaced {
            std::fs::copy(&moved, &database).expect("another file of that name");
        }
        let said = dialogue(address).await;
        assert!(!said.contains("2.0.0 stored"), "{said}");
        let ended = tokio::time::timeout(Duration::from_secs(5), serving)
            .await
            .expect("it ends");
        let error = ended.expect("no panic").expect_err("that is no good end");
        assert!(
            matches!(error.downcast_ref(), Some(StoreError::Moved(_))),
            "{error:?}"
        );
        std::fs::rename(&moved, &database).expect("moved back");
        let app = workspace.start().await;
        app.drain().await;
        app.check().await;
        assert_eq!(
            app.sent().len(),
            1,
            "the letter that got its yes is answered"
        );
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn an_engine_unable_to_copy_its_log_back_ends_and_loses_nothing() {
    if is_sqlite_only("its log") {
        return;
    }
    let sink = Sink::default();
    let dir = workspace(sink.open(), &json!({ "rules": [{ "hang": true }] }));
    let engine = Running::start(dir.path(), &[]);
    // Whoever reads keeps the log from being copied whole before it is cut, and an engine with nothing to copy would live on.
    let mut reader = db::Connection::open(dir.path()).await;
    let begun = reader
        .execute("BEGIN; SELECT count(*) FROM run_turns")
        .await;
    begun.expect("a transaction that reads");
    send(engine.port, "q1@guest.example", "When is breakfast?");
    let mut rows = db::Connection::open(dir.path()).await;
    let asked = "SELECT count(*) FROM run_turns WHERE state = 'started'";
    while db::query_scalar::<i64>(asked)
        .fetch_one(&mut rows)
        .await
        .expect("turns")
        < 1
    {
        tokio::task::yield_now().await;
    }
    // A lease that is renewed now would fill the log up again.
    let locked = rows.execute("BEGIN IMMEDIATE").await;
    locked.expect("the lock of who writes");
    // The log loses its end: to read it for the copy is an I/O error, as on a failing disk.
    let log = dir.path().join("data/attache.db-wal");
    let whole = std::fs::read(&log).expect("a log");
    std::fs::File::options()
        .write(true)
        .open(&log)
        .and_then(|log| log.set_len(100))
        .expect("cut");
    reader.close().await.expect("closed");
    let (status, said, _took) = engine.ended();
    assert_eq!(status.code(), Some(74), "{said}");
    std::fs::write(&log, whole).expect("the disk is mended");
    rows.execute("ROLLBACK").await.expect("the lock is free");
    rows.close().await.expect("closed");
    std::fs::write(
        dir.path().join("configs/demo-script.json"),
        script().to_string(),
    )
    .expect("a script");
    assert!(
        attache(dir.path(), &["drain"])
            .output()
            .expect("the binary runs")
            .status
            .success()
    );
    let mut rows = db::Connection::open(dir.path()).await;
    audit(&mut rows).await;
    assert_eq!(
        sink.mails.lock().expect("a lock").len(),
        1,
        "it is answered"
    );
}
