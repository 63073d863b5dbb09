//! The write-ahead log: short however much is written, cut when nobody writes, and kept for a reader only as long as
//! it reads.

use crate::app::database::is_sqlite_only;
use crate::app::db;
use crate::app::{TestApp, note};
use attache::domain::{PersonaId, RunId};
use attache::store::NewFork;
use serde_json::json;
use std::time::Duration;

const MIB: u64 = 1024 * 1024;
/// What one write adds to the log.
const WRITE_BYTES: u64 = 256 * 1024;
/// The log is copied back from 16 MiB on; meanwhile sixteen groups go by before anybody looks, and some more while the
/// copy is made. Without all that SQLite begins anew at 48 MiB.
const BOUND: u64 = 40 * MIB;

/// An engine with a run that documents can be kept of.
async fn quiet() -> (TestApp, RunId) {
    let app = TestApp::start(json!({ "turns": [] })).await;
    let run = app
        .run_of(&note("q1@guest.example", "", "When is breakfast?"))
        .await;
    (app, RunId::new(run))
}

fn length(app: &TestApp) -> u64 {
    app.workspace
        .path()
        .join("data/attache.db-wal")
        .metadata()
        .map_or(0, |log| log.len())
}

/// Writes so much, one commit after the other; gives the greatest length that the log had meanwhile.
async fn write((app, run): &(TestApp, RunId), bytes: u64) -> u64 {
    let mut longest = 0;
    for _ in 0..bytes / WRITE_BYTES {
        let fork = NewFork {
            id: uuid::Uuid::now_v7().to_string(),
            run: run.clone(),
            persona: PersonaId::parse("ada").expect("an id"),
            at_turn: 0,
            change_json: "{}".to_owned(),
            record_json: "x".repeat(WRITE_BYTES as usize),
        };
        app.engine.store.begin_fork(fork).await.expect("stored");
        longest = longest.max(length(app));
    }
    longest
}

async fn written(rows: &mut db::Connection) -> u64 {
    let sql = "SELECT coalesce(sum(length(record_json)), 0) FROM forks";
    db::query_scalar::<i64>(sql)
        .fetch_one(rows)
        .await
        .expect("a sum")
        .unsigned_abs()
}

async fn is_cut(app: &TestApp) {
    let cut = async {
        while length(app) > 0 {
            crate::app::glance().await;
        }
    };
    let cut = tokio::time::timeout(Duration::from_secs(20), cut).await;
    assert!(cut.is_ok(), "the log still has {} bytes", length(app));
}

#[tokio::test]
#[ignore = "second tier"]
async fn the_log_stays_short_and_is_cut_when_nobody_writes() {
    if is_sqlite_only("its log") {
        return;
    }
    let place = quiet().await;
    let longest = write(&place, 96 * MIB).await;
    assert!(longest < BOUND, "the log grew to {longest} bytes");
    is_cut(&place.0).await;
    assert_eq!(written(&mut place.0.workspace.rows().await).await, 96 * MIB);
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_reader_delays_the_cut_of_the_log_and_loses_nothing() {
    if is_sqlite_only("its log") {
        return;
    }
    let place = quiet().await;
    let app = &place.0;
    write(&place, MIB).await;
    let mut reader = app.workspace.rows().await;
    db::raw_sql("BEGIN")
        .execute(&mut reader)
        .await
        .expect("a transaction");
    assert_eq!(written(&mut reader).await, MIB);
    write(&place, 40 * MIB).await;
    assert!(
        length(app) > 40 * MIB,
        "what somebody still may read was overwritten"
    );
    assert_eq!(
        written(&mut reader).await,
        MIB,
        "it reads what was there when it began"
    );
    // The writer tries when nothing was written for two seconds.
    let too_soon = tokio::time::timeout(Duration::from_millis(2500), is_cut(app)).await;
    assert!(too_soon.is_err(), "the log was cut under a reader");
    assert!(
        length(app) > 40 * MIB,
        "what somebody still may read was overwritten"
    );
    db::raw_sql("COMMIT")
        .execute(&mut reader)
        .await
        .expect("an end");
    assert_eq!(written(&mut reader).await, 41 * MIB);
    is_cut(app).await;
    assert_eq!(written(&mut reader).await, 41 * MIB);
}
