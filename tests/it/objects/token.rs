//! Of a database and its copies one deletes in an object store: whichever an operator says, or neither.

use super::deaths::complaints;
use super::{Kept, answered, large, objects, reads};
use crate::app::database::is_sqlite_only;
use crate::app::db;
use crate::maintenance::whole_backup::stopped;
use crate::maintenance::workspace::attache;
use attache::clock::Clock;
use attache::keeping::ObjectWorker;
use attache::objects::ObjectError;
use attache::store::StoreError;
use std::path::{Path, PathBuf};
use std::time::Duration;

const ALL: &[&str] = &["gc", "--older-than", "0s"];

/// A copy of a whole workspace, as `cp` makes it, in a folder of its own.
fn copied(workspace: &Path, to: &Path) -> PathBuf {
    let copy = to.join("copy");
    let status = std::process::Command::new("cp")
        .arg("-a")
        .args([workspace, &copy])
        .status();
    assert!(status.expect("cp").success());
    copy
}

/// Prunes all that may be pruned; what the command says of objects that stay.
async fn pruned(workspace: &Path) -> String {
    let (code, _, said) = attache(workspace, ALL).await;
    assert_eq!(code, 0, "{said}");
    said
}

#[tokio::test]
async fn a_copy_deletes_no_object_of_the_first_database() {
    if is_sqlite_only("what is copied is a file") {
        return;
    }
    let kept = Kept::new(&reads());
    let (path, folder) = (kept.path(), kept.folder.path().to_owned());
    let app = answered(kept.workspace).await;
    let mut worker = ObjectWorker::new(&app.engine.store);
    while worker.work_once().await.expect("a step") {}
    drop(worker);
    let first = stopped(app).await;
    let before = objects(&path);
    assert!(before.len() >= 3);

    let copy = copied(first.path(), &folder);
    let said = pruned(&copy).await;
    assert!(said.contains("another database has used it"), "{said}");
    assert!(said.contains("attache objects claim"), "{said}");
    assert_eq!(objects(&path), before);
    assert_eq!(complaints(first.path()).await, Vec::<&str>::new());
    // The first one hears of the copy, too, and deletes nothing until an operator has decided.
    assert!(pruned(first.path()).await.contains("another database"));
    assert_eq!(objects(&path), before);
    let (_, said, _) = attache(first.path(), &["doctor", "--online", "--json"]).await;
    assert!(said.contains("another database has used it"), "{said}");
    // A claim without a second look is refused, and changes nothing.
    let (code, _, said) = attache(first.path(), &["objects", "claim"]).await;
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("objects at once"), "{said}");
    assert!(pruned(first.path()).await.contains("another database"));
    let (code, said, _) = attache(first.path(), &["objects", "claim", "--yes"]).await;
    assert_eq!(code, 0, "{said}");
    assert!(!pruned(first.path()).await.contains("another database"));
    assert_eq!(objects(&path), Vec::<PathBuf>::new());
    assert!(pruned(&copy).await.contains("another database"));
}

#[tokio::test]
async fn the_control_a_copy_that_claims_takes_objects_of_the_first_database() {
    if is_sqlite_only("what is copied is a file") {
        return;
    }
    let kept = Kept::new(&reads());
    let (path, folder) = (kept.path(), kept.folder.path().to_owned());
    let app = answered(kept.workspace).await;
    let first = stopped(app).await;
    let copy = copied(first.path(), &folder);
    let (code, _, said) = attache(&copy, &["objects", "claim"]).await;
    assert_eq!(code, 0, "{said}");
    pruned(&copy).await;
    assert_eq!(objects(&path), Vec::<PathBuf>::new());
    assert_eq!(complaints(first.path()).await, ["object-lost"]);
}

#[tokio::test]
async fn a_database_deletes_only_while_the_token_is_its_own() {
    let kept = Kept::new(&reads());
    let path = kept.path();
    let app = answered(kept.workspace).await;
    let mut worker = ObjectWorker::new(&app.engine.store);
    while worker.work_once().await.expect("a step") {}
    let is_refused = |step: Result<bool, StoreError>| match step {
        Ok(_) => false,
        Err(StoreError::Object(error)) => matches!(*error, ObjectError::NotHolder { .. }),
        Err(error) => panic!("{error}"),
    };
    // As in a copy: the row is there, and was written by another database.
    let mut rows = db::Connection::open(app.workspace.path()).await;
    let other = db::query("UPDATE object_tokens SET database = 'other ' || database");
    other.execute(&mut rows).await.expect("a copy's rows");
    app.workspace.clock.advance(Duration::from_secs(3600));
    assert!(is_refused(worker.work_once().await));
    // Disputed, it is nobody's.
    let own = db::query("UPDATE object_tokens SET database = substr(database, 7)");
    own.execute(&mut rows).await.expect("rows");
    assert!(is_refused(worker.work_once().await));
    let store = &app.engine.store;
    assert!(store.try_objects().await.is_err(), "the doctor says so");
    store.claim_objects().await.expect("claimed");
    assert!(!is_refused(worker.work_once().await));
    store.try_objects().await.expect("nothing to say");
    // What was put is kept by the one that puts, whoever deletes: nothing of this stops a letter.
    let count = objects(&path).len();
    db::query("DELETE FROM object_tokens")
        .execute(&mut rows)
        .await
        .expect("an older state");
    app.run_of(&large("q2@guest.example")).await;
    app.drain().await;
    assert!(objects(&path).len() > count);
    app.workspace.clock.advance(Duration::from_secs(3600));
    assert!(is_refused(worker.work_once().await));
    let (store, now) = (&app.engine.store, app.workspace.clock.now());
    let kind = crate::maintenance::gc::kind("turns");
    store.prune_kind(kind, now, false).await.expect("pruned");
    let left = store.delete_all_dropped().await.expect("tried");
    assert!(left > 0, "what waits is not forgotten");
    app.check().await;
}

#[tokio::test]
async fn of_many_tokens_the_latest_are_kept() {
    let kept = Kept::new(&reads());
    let app = kept.workspace.start().await;
    for _ in 0..120 {
        app.engine.store.claim_objects().await.expect("claimed");
    }
    let row = "SELECT CAST(count(*) AS TEXT), max(token) FROM object_tokens WHERE $1 = $1";
    let row = app.row(row, "").await;
    assert_eq!(row[0].as_deref(), Some("100"));
    let token = token_in(&kept.folder.path().join("objects"));
    assert_eq!(std::fs::read_to_string(token).ok(), row[1]);
}

/// The file of the one token.
fn token_in(folder: &Path) -> PathBuf {
    let owners = std::fs::read_dir(folder).expect("a folder");
    let mut tokens = owners.map(|owner| owner.expect("an owner").path().join("token"));
    tokens.next().expect("a token")
}
