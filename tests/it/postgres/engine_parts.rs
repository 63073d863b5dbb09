//! The account of the engine in parts: calls of two parts do not wait for each other.

use super::is_skipped;
use super::nodes::answers;
use super::races::{engine_account, paid_call};
use crate::app::{TestApp, database, db};
use attache::store::{NewEmbeddingCall, StoreError};
use tokio::task::JoinHandle;

/// A call of 100 micro-dollars; its last digit is that of its part.
fn call(id: &str, bound: i64) -> NewEmbeddingCall {
    paid_call(id, "ada", bound)
}

/// Locks the rows of other parts than 1, and of 1 too if `all`, until it is rolled back.
async fn lock_parts(app: &TestApp, all: bool) -> db::Connection {
    let url = database::url_of(app.workspace.path()).expect("a database on a server");
    let mut other = db::Connection::at(&url).await;
    let lock = "SELECT owner FROM budget_accounts WHERE scope = 'engine' AND (owner <> '1' OR $1 = 1) FOR UPDATE";
    db::query("BEGIN").execute(&mut other).await.expect("begun");
    let locked = db::query_scalar::<String>(lock).bind(i64::from(all));
    let locked = locked.fetch_all(&mut other).await.expect("locked");
    assert_eq!(locked.len(), if all { 16 } else { 15 }, "{locked:?}");
    other
}

async fn roll_back(mut other: db::Connection) {
    let rolled_back = db::query("ROLLBACK").execute(&mut other).await;
    rolled_back.expect("rolled back");
}

/// Waits until a session of this database waits for a row.
async fn somebody_waits(app: &TestApp) {
    let mut rows = app.workspace.rows().await;
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    loop {
        let waits: i64 = db::query_scalar(waiting)
            .fetch_one(&mut rows)
            .await
            .expect("a count");
        if waits > 0 {
            return;
        }
    }
}

fn open(app: &TestApp, id: &str) -> JoinHandle<Result<(), StoreError>> {
    let (store, call) = (app.engine.store.clone(), call(id, 1_000_000));
    tokio::spawn(async move { store.open_embedding_call(call).await })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_call_waits_for_the_commit_of_no_call_in_another_part() {
    if is_skipped() {
        return;
    }
    let app = TestApp::start(answers()).await;
    let granted = open(&app, "first 1").await.expect("it ends");
    granted.expect("paid, and granted to all");

    let others = lock_parts(&app, false).await;
    let beside = open(&app, "second 1").await.expect("it ends");
    beside.expect("paid although all other parts are locked");
    roll_back(others).await;

    // The control: with one row for all calls, it waits.
    let all = lock_parts(&app, true).await;
    let waits = open(&app, "third 1");
    somebody_waits(&app).await;
    assert!(!waits.is_finished());
    roll_back(all).await;
    let paid = waits.await.expect("it ends");
    paid.expect("paid when the row is free");
    let balance = app.engine.store.account(&engine_account()).await;
    assert_eq!(balance.expect("a balance").reserved_micros, 300);
}

#[tokio::test]
async fn a_bound_that_changes_holds_from_the_next_call_on() {
    if is_skipped() {
        return;
    }
    let app = TestApp::start(answers()).await;
    let store = &app.engine.store;
    for id in ["1", "2", "3"] {
        let paid = store.open_embedding_call(call(id, 1_000)).await;
        paid.expect("paid");
    }
    // What was granted under the higher bound would have been enough.
    for id in ["1 again 1", "4"] {
        let refused = store.open_embedding_call(call(id, 350)).await;
        let Err(StoreError::BudgetExhausted(empty)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(empty.account, engine_account());
        assert_eq!(empty.state.reserved_micros, 300, "of all parts");
        assert!(empty.held_by_others);
    }
    let paid = store.open_embedding_call(call("5", 400)).await;
    paid.expect("to the last call");
    let refused = store.open_embedding_call(call("6", 400)).await;
    assert!(
        matches!(refused, Err(StoreError::BudgetExhausted(_))),
        "{refused:?}"
    );
}
