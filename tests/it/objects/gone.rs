//! What goes from the object store: objects whose rows are pruned or erased, and objects that never had a row.

use super::{Kept, answered, named, objects, reads};
use crate::maintenance::gc::kind;
use crate::maintenance::workspace::attache;
use attache::clock::Clock;
use attache::domain::sha256_hex;
use attache::keeping::ObjectWorker;
use serde_json::Value;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);

#[tokio::test]
async fn what_is_pruned_goes_from_the_object_store_after_the_commit() {
    let kept = Kept::new(&reads());
    let (path, folder) = (kept.path(), kept.folder.path().to_owned());
    let app = answered(kept.workspace).await;
    let count = objects(&path).len();
    app.workspace.clock.advance(DAY * 100);
    let (store, now) = (&app.engine.store, app.workspace.clock.now());
    let mut bytes = 0;
    for name in ["turns", "letters", "attachments"] {
        let pruned = store.prune_kind(kind(name), now, false).await;
        bytes += pruned.expect("pruned").bytes;
    }
    assert!(bytes > 8 * 1024, "{bytes}");
    assert_eq!(named(&app).await.0, 0);
    let dropped = store.dropped_objects().await.expect("a count");
    assert_eq!((dropped as usize, objects(&path).len()), (count, count));
    // The object store is away: they are not forgotten.
    Kept::unmount(&folder);
    assert_eq!(store.delete_all_dropped().await.expect("tried"), dropped);
    Kept::mount(&folder);
    assert_eq!(store.delete_all_dropped().await.expect("deleted"), 0);
    assert_eq!(objects(&path).len(), 0);
    app.check().await;
}

/// Makes steps until there is nothing more to do.
async fn sweep(worker: &mut ObjectWorker) {
    while worker.work_once().await.expect("a step") {}
}

#[tokio::test]
async fn an_object_without_a_row_goes_after_a_day_and_one_with_a_row_stays() {
    let kept = Kept::new(&reads());
    let path = kept.path();
    let app = answered(kept.workspace).await;
    let with_rows = objects(&path);
    let owner = with_rows[0].strip_prefix(&path).expect("below");
    let owner = path.join(owner.components().next().expect("an owner"));
    let digest = sha256_hex(&[b"left by a crash"]);
    let orphan = owner.join(&digest[..2]).join(format!("{digest}-1"));
    std::fs::create_dir_all(orphan.parent().expect("a shard")).expect("a folder");
    std::fs::write(&orphan, b"left by a crash").expect("an orphan");
    // Another database's, and what is no object of ours.
    let other = path.join("0123456789abcdef").join(&digest[..2]);
    std::fs::create_dir_all(&other).expect("a folder");
    let others = [
        other.join(format!("{digest}-2")),
        owner.join(&digest[..2]).join("README"),
    ];
    for file in &others {
        std::fs::write(file, b"not ours").expect("a file");
    }
    let at = |days: i64| {
        let time = std::time::UNIX_EPOCH
            + Duration::from_millis(app.workspace.clock.now().as_millis().unsigned_abs());
        let time = time - Duration::from_secs(days.unsigned_abs() * 3600);
        for file in objects(&path) {
            let file = std::fs::File::options().write(true).open(file);
            file.expect("a file").set_modified(time).expect("a time");
        }
    };
    let mut worker = ObjectWorker::new(&app.engine.store);
    at(23);
    sweep(&mut worker).await;
    assert!(orphan.exists(), "its row may be on the way");
    at(25);
    sweep(&mut worker).await;
    assert!(orphan.exists(), "a pass is made once a day");
    app.workspace.clock.advance(DAY);
    sweep(&mut worker).await;
    assert!(!orphan.exists());
    let mut left = with_rows;
    left.extend(others);
    left.sort();
    assert_eq!(objects(&path), left);
    app.check().await;
}

#[tokio::test]
async fn an_erasure_takes_the_objects_of_the_person() {
    let kept = Kept::new(&reads());
    let path = kept.path();
    let app = answered(kept.workspace).await;
    let count = objects(&path).len();
    assert!(count >= 3, "{count}");
    let workspace = crate::maintenance::whole_backup::stopped(app).await;
    let args = ["erase", "--contact", "bob@guest.example", "--yes", "--json"];
    let (code, stdout, stderr) = attache(workspace.path(), &args).await;
    assert_eq!(code, 0, "{stdout}{stderr}");
    let report: Value = serde_json::from_str(&stdout).expect("a report");
    assert_eq!(report["counts"]["objects"], count, "{report:#}");
    assert_eq!(objects(&path).len(), 0);
}
