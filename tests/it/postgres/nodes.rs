//! Several engines on one database: each is a node with a lease, and what one that is gone had in hand goes to another.

use super::is_skipped;
use crate::app::{TestApp, Workspace, database, db, note};
use crate::guest_house::attache;
use attache::store::{OpenError, Store, StoreError};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

pub(super) fn answers() -> Value {
    json!({ "turns": [{ "say": "From seven to ten." }] })
}

/// Starts another node on the database of an engine, in a workspace of its own; the first has the number 0.
pub(super) async fn node_beside(app: &TestApp, number: u64) -> TestApp {
    let workspace = Workspace::new(&answers());
    share_database(app, &workspace);
    // Ids of a manual clock are made of its time.
    workspace.clock.advance(Duration::from_millis(number));
    workspace.start().await
}

fn share_database(app: &TestApp, workspace: &Workspace) {
    let url = database::url_of(app.workspace.path()).expect("a database on a server");
    std::fs::create_dir_all(workspace.path().join("data")).expect("a folder");
    workspace.write(".secrets", &format!("ATTACHE_DATABASE_URL={url}\n"));
    let ours = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(workspace.path().join(".secrets"), ours).expect("ours");
}

/// Lets the lease of a node expire, and has another node take its work over. A heartbeat may come between.
async fn bury(node: &TestApp, survivor: &Store) {
    let mut rows = node.workspace.rows().await;
    for _ in 0..50 {
        let expire = "UPDATE nodes SET expires_ms = 0 WHERE epoch = $1";
        let expire = db::query(expire).bind(node.engine.store.epoch());
        expire.execute(&mut rows).await.expect("expired");
        let taken = survivor.take_over_work(false).await.expect("taken over");
        if !taken.nodes.is_empty() {
            return;
        }
    }
    panic!("the node was never found gone");
}

async fn states(app: &TestApp) -> Vec<String> {
    let mut rows = app.workspace.rows().await;
    let states = db::query_scalar("SELECT state FROM runs ORDER BY seq");
    states.fetch_all(&mut rows).await.expect("states")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_nodes_share_the_work_and_neither_takes_what_the_other_has_in_hand() {
    if is_skipped() {
        return;
    }
    let first = TestApp::start(answers()).await;
    first.run_of(&note("one", "", "When is breakfast?")).await;
    let claimed = first.engine.store.claim_runs(9, 9).await.expect("a claim");
    assert_eq!(claimed.len(), 1);
    // The start of another node recovers what nodes left that are gone, and no more.
    let second = node_beside(&first, 1).await;
    assert_eq!(states(&first).await, ["running"]);
    let store = &second.engine.store;
    assert_eq!(store.recover_runs().await.expect("recovered").queued, 0);
    let other = second.run_of(&note("two", "", "And supper?")).await;
    second.drain().await;
    assert_eq!(second.outcome(&other).await.0, "succeeded");
    assert_eq!(states(&first).await, ["running", "succeeded"]);
    let nodes = store.nodes().await.expect("nodes");
    let epochs: Vec<i64> = nodes.iter().map(|node| node.epoch).collect();
    assert_eq!(epochs, [first.engine.store.epoch(), store.epoch()]);
    assert!(
        nodes.iter().all(|node| node.lease_ms > Some(0)),
        "{nodes:?}"
    );
    bury(&first, store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_node_whose_lease_is_gone_stores_nothing_and_its_work_goes_to_another() {
    if is_skipped() {
        return;
    }
    let first = TestApp::start(answers()).await;
    let run = first.run_of(&note("one", "", "When is breakfast?")).await;
    first.engine.store.claim_runs(9, 9).await.expect("a claim");
    let second = node_beside(&first, 1).await;
    bury(&first, &second.engine.store).await;
    assert_eq!(states(&second).await, ["queued"]);

    let store = &first.engine.store;
    let before = db::contents::every_row(&mut second.workspace.rows().await).await;
    let refused = first.receive(&note("late", "", "And lunch?")).await;
    assert!(
        refused.is_err(),
        "a letter got a yes from a node that is gone"
    );
    for refused in [
        store.claim_runs(9, 9).await.map(|_| ()),
        store.recover_runs().await.map(|_| ()),
        store.release_lease("work").await,
    ] {
        assert!(matches!(refused, Err(StoreError::Buried)), "{refused:?}");
    }
    assert!(matches!(store.halted().await, StoreError::Buried));
    let after = db::contents::every_row(&mut second.workspace.rows().await).await;
    assert!(before == after, "something was written");

    second.drain().await;
    assert_eq!(second.outcome(&run).await.0, "succeeded");
    assert_eq!(second.sent().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn work_that_one_node_does_for_all_goes_on_when_it_is_gone() {
    if is_skipped() {
        return;
    }
    let first = TestApp::start(answers()).await;
    let second = node_beside(&first, 1).await;
    let (one, two) = (&first.engine.store, &second.engine.store);
    let takes = join_all((0..8).map(|number| [one, two][number % 2].take_lease("mailbox")));
    let taken: Vec<bool> = takes
        .await
        .into_iter()
        .map(|taken| taken.expect("a look"))
        .collect();
    // The one that has it keeps it, however often both ask at once.
    let of_one: BTreeSet<bool> = taken.iter().step_by(2).copied().collect();
    let of_two: BTreeSet<bool> = taken.iter().skip(1).step_by(2).copied().collect();
    assert_eq!(of_one.len() + of_two.len(), 2, "{taken:?}");
    assert_ne!(of_one, of_two);
    let (holder, other) = if of_one.contains(&true) {
        (one, two)
    } else {
        (two, one)
    };

    // Given up, it is the other's; and a node that is gone has none.
    holder.release_lease("mailbox").await.expect("given up");
    assert!(other.take_lease("mailbox").await.expect("a look"));
    assert!(!holder.take_lease("mailbox").await.expect("a look"));
    let (gone, survivor) = match std::ptr::eq(other, one) {
        true => (&first, &second),
        false => (&second, &first),
    };
    bury(gone, &survivor.engine.store).await;
    assert!(
        survivor
            .engine
            .store
            .take_lease("mailbox")
            .await
            .expect("a look")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_workspace_that_is_started_again_is_one_node_and_takes_its_work_back_at_once() {
    if is_skipped() {
        return;
    }
    let first = TestApp::start(answers()).await;
    let second = node_beside(&first, 1).await;
    let run = first.run_of(&note("one", "", "When is breakfast?")).await;
    let claimed = first.engine.store.claim_runs(9, 9).await.expect("a claim");
    assert_eq!(claimed.len(), 1);
    let died = first.engine.store.epoch();
    // Its row stays, as that of a process that was killed.
    let TestApp { workspace, engine } = first;
    drop(engine);
    let again = workspace.start().await;
    let nodes = second.engine.store.nodes().await.expect("nodes");
    let epochs: BTreeSet<i64> = nodes.iter().map(|node| node.epoch).collect();
    let living = [again.engine.store.epoch(), second.engine.store.epoch()];
    assert_eq!(epochs, BTreeSet::from(living));
    assert!(!epochs.contains(&died));
    again.drain().await;
    assert_eq!(again.outcome(&run).await.0, "succeeded");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_node_that_ends_in_order_leaves_no_row() {
    if is_skipped() {
        return;
    }
    let first = TestApp::start(answers()).await;
    let second = node_beside(&first, 1).await;
    let epoch = second.engine.store.epoch();
    assert!(
        second
            .engine
            .store
            .take_lease("work")
            .await
            .expect("a look")
    );
    let TestApp { workspace, engine } = second;
    let store = engine.store.clone();
    drop(engine);
    store.close().await;
    drop(workspace);
    let nodes = first.engine.store.nodes().await.expect("nodes");
    assert!(nodes.iter().all(|node| node.epoch != epoch), "{nodes:?}");
    assert!(first.engine.store.take_lease("work").await.expect("a look"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_operator_asks_a_node_to_end() {
    if is_skipped() {
        return;
    }
    let first = TestApp::start(answers()).await;
    let second = node_beside(&first, 1).await;
    let (asking, asked) = (&first.engine.store, &second.engine.store);
    let mut seen = asked.nodes_seen().expect("one of several");
    asking
        .ask_node_to_drain(asked.epoch())
        .await
        .expect("asked");
    let told = seen.wait_for(|found| found.is_drained);
    let told = tokio::time::timeout(Duration::from_secs(30), told).await;
    assert!(told.is_ok(), "its heartbeat did not tell it");
    let missing = asking.ask_node_to_drain(999).await;
    assert!(matches!(missing, Err(StoreError::Missing { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tables_are_not_changed_while_a_node_of_an_earlier_version_works() {
    if is_skipped() {
        return;
    }
    let app = TestApp::start(answers()).await;
    let mut rows = app.workspace.rows().await;
    // As an earlier version would have left it.
    let earlier =
        "DELETE FROM _sqlx_migrations WHERE version = (SELECT max(version) FROM _sqlx_migrations)";
    db::query(earlier)
        .execute(&mut rows)
        .await
        .expect("deleted");
    let newer = Store::open_shared(app.workspace.path(), app.workspace.clock.clone()).await;
    assert!(
        matches!(newer, Err(OpenError::NodesAreOlder { .. })),
        "{:?}",
        newer.map(|_| ())
    );
    // The control: with no node it goes on, perhaps to a table that is there already.
    let gone = "UPDATE nodes SET expires_ms = 0";
    for _ in 0..50 {
        db::query(gone).execute(&mut rows).await.expect("expired");
        let newer = Store::open_shared(app.workspace.path(), app.workspace.clock.clone()).await;
        if matches!(newer, Ok(_) | Err(OpenError::Migrate(_))) {
            return;
        }
    }
    panic!("it was refused without a node, too");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_status_beside_no_engine_names_the_nodes_elsewhere() {
    if is_skipped() {
        return;
    }
    let app = TestApp::start(answers()).await;
    let beside = Workspace::new(&answers());
    share_database(&app, &beside);
    let said = attache(beside.path(), &["status"])
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&said.stdout);
    assert_eq!(said.status.code(), Some(0), "{said:?}");
    assert!(text.contains("others work on its database"), "{text}");
    assert!(text.contains("1 node at work"), "{text}");
    let said = attache(beside.path(), &["--json", "nodes", "list"])
        .output()
        .expect("it runs");
    let nodes: Value = serde_json::from_slice(&said.stdout).expect("JSON");
    assert_eq!(nodes[0]["epoch"], app.engine.store.epoch());
    assert!(nodes[0]["lease_ms"].as_i64() > Some(0), "{nodes}");
    let said = attache(beside.path(), &["nodes", "drain", "77"])
        .output()
        .expect("it runs");
    assert_eq!(said.status.code(), Some(66), "{said:?}");
    let node = app.engine.store.epoch().to_string();
    let said = attache(beside.path(), &["nodes", "drain", &node])
        .output()
        .expect("it runs");
    assert_eq!(said.status.code(), Some(0), "{said:?}");
    let nodes = app.engine.store.nodes().await.expect("nodes");
    assert!(nodes[0].drain_asked_at.is_some());
}
