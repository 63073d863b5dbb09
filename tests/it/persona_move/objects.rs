//! Bytes in object stores: they go into rows where the other cell has no object store, and into its own where it has one.

use super::cells::moved;
use crate::app::{Workspace, audit, db};
use crate::maintenance::whole_backup::stopped;
use crate::objects::{Kept, large, objects, reads};
use attache::store::Store;
use serde_json::json;

async fn names(workspace: &Workspace) -> i64 {
    let sql = "SELECT (SELECT count(*) FROM raw_letters WHERE object IS NOT NULL)
      + (SELECT count(*) FROM attachments WHERE object IS NOT NULL) + (SELECT count(*) FROM run_turns WHERE packed_object IS NOT NULL)";
    super::cells::count(workspace, sql).await
}

fn without_ada(workspace: &Workspace) {
    std::fs::remove_dir_all(workspace.path().join("personas/ada")).expect("gone");
    workspace.persona("eva", "Eva");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_become_rows_and_rows_stay_what_they_are() {
    let first = Kept::new(&reads());
    let (here, keeps) = (first.path(), first.folder);
    let app = first.workspace.start().await;
    app.run_of(&large("q1@guest.example")).await;
    app.drain().await;
    let first = stopped(app).await;
    let before = names(&first).await;
    assert!(before >= 2 && objects(&here).len() >= 2);
    // Another cell with a store of its own.
    let second = Kept::new(&reads());
    let there = second.path();
    let second_keeps = second.folder;
    without_ada(&second.workspace);
    let mut second = second.workspace;
    second.clock = first.clock.clone();
    moved(&first, &second).await.expect("a move");
    assert_eq!((names(&first).await, names(&second).await), (0, before));
    assert_eq!(objects(&there).len(), usize::try_from(before).expect("few"));
    // The next engine deletes them in the old cell.
    let waiting = "SELECT count(*) FROM dropped_objects";
    assert_eq!(super::cells::count(&first, waiting).await, before);
    let store = Store::open(first.path(), first.clock.clone())
        .await
        .expect("a store");
    store.delete_all_dropped().await.expect("deleted");
    store.close().await;
    assert_eq!(objects(&here).len(), 0);
    // One without: the bytes are in the rows.
    let mut third = Workspace::new(&reads());
    third.clock = first.clock.clone();
    without_ada(&third);
    std::fs::create_dir_all(third.path().join("data")).expect("a folder");
    moved(&second, &third).await.expect("a move");
    assert_eq!(names(&third).await, 0);
    drop((keeps, second_keeps));
    let mut rows = third.rows().await;
    let sql = "SELECT max(octet_length(bytes)) FROM raw_letters";
    let sql = match rows {
        db::Connection::Sqlite(_) => "SELECT max(length(bytes)) FROM raw_letters",
        db::Connection::Postgres(_) => sql,
    };
    let largest: i64 = db::query_scalar(sql)
        .fetch_one(&mut rows)
        .await
        .expect("a size");
    assert!(largest > 1024);
    audit(&mut rows).await;
    assert_eq!(json!(third.verified().await.len()), json!(1));
}
