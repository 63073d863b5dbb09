//! Machines that look alike: one host name and one path, because they are copies of each other.

use super::is_skipped;
use crate::app::{database, db};
use attache::clock::SystemClock;
use attache::store::{OpenError, Store};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

async fn open(workspace: &Path) -> Result<Store, OpenError> {
    Store::open(workspace, Arc::new(SystemClock::new())).await
}

/// Makes a workspace that names this database.
fn name_database(workspace: &Path, url: &str) {
    std::fs::create_dir_all(workspace.join("data")).expect("a folder");
    let secrets = workspace.join(".secrets");
    std::fs::write(&secrets, format!("ATTACHE_DATABASE_URL={url}\n")).expect("a file");
    std::fs::set_permissions(secrets, PermissionsExt::from_mode(0o600)).expect("ours");
}

/// Moves a folder away, under an engine that works there, and makes another at its path: as another machine has it.
fn another_machine(workspace: &Path, url: &str) {
    let away = workspace.with_extension(format!("away{:?}", Instant::now()).replace(' ', ""));
    std::fs::rename(workspace, away).expect("moved");
    name_database(workspace, url);
}

#[tokio::test]
async fn machines_with_one_name_and_one_path_work_beside_each_other() {
    if is_skipped() {
        return;
    }
    let place = database::folder().await;
    let url = database::url_of(place.path()).expect("a database");
    let house = place.path().join("house");
    name_database(&house, &url);
    let mut nodes = Vec::new();
    for _ in 0..4 {
        nodes.push(open(&house).await.expect("a node"));
        another_machine(&house, &url);
        for node in &nodes {
            node.writer_answers().await.expect("it lives");
        }
    }
    let seen = nodes[0].nodes().await.expect("nodes");
    assert_eq!(seen.len(), 4);
    let alike = |node: &attache::store::NodeRecord| (node.host.clone(), node.workspace.clone());
    assert!(
        seen.iter().all(|node| alike(node) == alike(&seen[0])),
        "{seen:?}"
    );
    // Whoever goes leaves the others alone.
    nodes.remove(1).close().await;
    assert_eq!(nodes[0].nodes().await.expect("nodes").len(), 3);
    for node in &nodes {
        node.writer_answers().await.expect("it lives");
    }
}

#[tokio::test]
async fn of_two_living_holders_of_one_identity_the_second_is_refused_and_neither_is_ended() {
    if is_skipped() {
        return;
    }
    let place = database::folder().await;
    let first = open(place.path()).await.expect("a node");
    let mut rows = db::Connection::open(place.path()).await;
    // Of another process than the one that had this lock, as on a copy of this machine.
    let elsewhere = "UPDATE nodes SET pid = 1";
    rows.execute(elsewhere).await.expect("changed");
    let refused = Store::take_over(place.path(), Arc::new(SystemClock::new())).await;
    let refusal = refused.map(|_| ()).expect_err("a refusal");
    assert!(
        matches!(&refusal, OpenError::NodeLives { pid: 1, .. }),
        "{refusal:?}"
    );
    first.writer_answers().await.expect("it lives");
    assert_eq!(first.nodes().await.expect("nodes").len(), 1);
}

#[tokio::test]
async fn a_node_of_this_folder_that_is_gone_is_replaced() {
    if is_skipped() {
        return;
    }
    let place = database::folder().await;
    let first = open(place.path()).await.expect("a node");
    // By its lock, at once: its process was this one.
    let began = Instant::now();
    let second = Store::take_over(place.path(), Arc::new(SystemClock::new())).await;
    let second = second.expect("a node");
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    assert!(first.writer_answers().await.is_err(), "it was replaced");
    assert_eq!(second.nodes().await.expect("nodes").len(), 1);
    second.close().await;
    // By its silence: its lease is not extended.
    let mut rows = db::Connection::open(place.path()).await;
    let third = open(place.path()).await.expect("a node");
    drop(third);
    rows.execute("UPDATE nodes SET pid = 1, expires_ms = server_ms() + 1000")
        .await
        .expect("changed");
    let again = open(place.path()).await.expect("a node");
    assert_eq!(again.nodes().await.expect("nodes").len(), 1);
}
