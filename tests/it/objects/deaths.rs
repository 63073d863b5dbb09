//! The engine dies between an object and its row: an object may be left over, and no row is ever without its object.

use super::{Kept, answered, large, noise, objects, reads};
use crate::app::database;
use crate::app::{dated_now, db, proven_note};
use crate::crash_points::letters::hand_in;
use crate::maintenance::whole_backup::dies;
use crate::recovery::place::{Running, attache as command};
use attache::store::audit::{Audit, AuditScope};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Points that these tests come to, in place of a workload of the sweep.
pub const POINTS: &[&str] = &["OB1", "OB2", "OB3", "OB4"];

const DAYS: Duration = Duration::from_secs(3 * 24 * 3600);

async fn count(workspace: &Path, sql: &'static str) -> i64 {
    let mut rows = db::Connection::open(workspace).await;
    db::query_scalar(sql)
        .fetch_one(&mut rows)
        .await
        .expect("a count")
}

/// What the audit says of a workspace, its objects included.
pub async fn complaints(workspace: &Path) -> Vec<&'static str> {
    let audit = Audit::of_workspace(workspace).await;
    let scope = AuditScope {
        bytes: true,
        at_rest: false,
    };
    let findings = audit.expect("a database").examine(scope).await;
    let broken = findings.expect("an audit").broken;
    broken.iter().map(|one| one.name).collect()
}

fn dying(workspace: &Path, order: &str) -> Running {
    let mut serve = command(workspace, &["serve", "--log", "error"]);
    serve
        .env("ATTACHE_CRASH", order)
        .stderr(std::process::Stdio::piped());
    Running::of(serve)
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let began = std::time::Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        crate::app::glance().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_death_between_an_object_and_its_row_leaves_an_orphan_that_is_swept_and_loses_nothing() {
    let kept = Kept::new(&reads());
    let (path, workspace) = (kept.path(), kept.workspace.path().to_owned());
    database::provide_to_binary(&workspace);
    let eml = dated_now(&large("q1@guest.example"));
    let engine = dying(&workspace, "OB1:1");
    hand_in(engine.port, &eml).await.expect_err("no yes");
    let (status, said, _) = engine.ended();
    assert!(!status.success(), "{said}");
    let orphans = objects(&path);
    assert_eq!(orphans.len(), 2, "the letter and its attachment");
    assert_eq!(
        count(&workspace, "SELECT count(*) FROM raw_letters").await,
        0
    );
    assert_eq!(complaints(&workspace).await, Vec::<&str>::new());
    // Two days pass for what was left, and the peer comes again.
    for orphan in &orphans {
        let file = std::fs::File::options().write(true).open(orphan);
        let file = file.expect("an object");
        file.set_modified(SystemTime::now() - DAYS).expect("a time");
    }
    let engine = Running::start(&workspace, &[]);
    hand_in(engine.port, &eml).await.expect("a yes");
    until("the orphans stay", async || {
        orphans.iter().all(|orphan| !orphan.exists())
    })
    .await;
    until("no answer", async || {
        count(
            &workspace,
            "SELECT count(*) FROM runs WHERE state = 'succeeded'",
        )
        .await
            == 1
    })
    .await;
    drop(engine);
    let with_rows =
        "SELECT (SELECT count(object) FROM raw_letters) + (SELECT count(object) FROM attachments)
        + (SELECT count(packed_object) FROM run_turns)";
    assert_eq!(
        count(&workspace, with_rows).await,
        objects(&path).len() as i64
    );
    assert_eq!(complaints(&workspace).await, Vec::<&str>::new());
    // The control: an object that goes without its row is what the audit complains of.
    std::fs::remove_file(&objects(&path)[0]).expect("removed");
    assert_eq!(complaints(&workspace).await, ["object-lost"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_request_is_an_object_without_a_row_is_answered_once_after_a_death() {
    let kept = Kept::new(&reads());
    let (path, workspace) = (kept.path(), kept.workspace.path().to_owned());
    database::provide_to_binary(&workspace);
    let eml = dated_now(&proven_note("q1@guest.example", "", &noise("q1", 90)));
    let engine = dying(&workspace, "OB2:1");
    // It may die before the yes, which the peer then asks for again.
    let yes = hand_in(engine.port, &eml).await;
    engine.ended();
    assert_eq!(objects(&path).len(), 2, "a letter and a request");
    assert_eq!(count(&workspace, "SELECT count(*) FROM run_turns").await, 0);
    let engine = Running::start(&workspace, &[]);
    if yes.is_err() {
        hand_in(engine.port, &eml).await.expect("a yes");
    }
    until("no answer", async || {
        count(
            &workspace,
            "SELECT count(*) FROM deliveries WHERE state = 'done'",
        )
        .await
            == 1
    })
    .await;
    drop(engine);
    assert_eq!(count(&workspace, "SELECT count(*) FROM runs").await, 1);
    assert_eq!(complaints(&workspace).await, Vec::<&str>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_whose_rows_went_are_deleted_again_after_a_death() {
    let kept = Kept::new(&reads());
    let path = kept.path();
    let app = answered(kept.workspace).await;
    let workspace = crate::maintenance::whole_backup::stopped(app).await;
    // Of the token, which is put before the first deletion, none is there yet.
    dies(&workspace, "OB4:1", &["gc", "--older-than", "0s"]);
    dies(&workspace, "OB3:1", &["gc", "--older-than", "0s"]);
    // A new token is noted, and the one before it is still there.
    dies(&workspace, "OB4:1", &["objects", "claim"]);
    let listed = "SELECT count(*) FROM dropped_objects";
    assert!(count(workspace.path(), listed).await >= 2);
    let (code, _, said) =
        crate::maintenance::workspace::attache(workspace.path(), &["gc", "--older-than", "0s"])
            .await;
    assert_eq!(code, 0, "{said}");
    assert_eq!(count(workspace.path(), listed).await, 0);
    assert_eq!(objects(&path), Vec::<std::path::PathBuf>::new());
}
