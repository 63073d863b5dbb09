//! Questions of a database that was restored from a backup are closed, and nothing that was approved happens again.

use super::scene::{CONTACT, Scene};
use crate::app::database::is_sqlite_only;
use crate::maintenance::backup::restore;
use crate::maintenance::workspace::attache;
use attache::domain::ApprovalState;
use attache::store::ApprovalVerdict;
use attache::store::sqlite::backup::{self, copy_database};
use std::path::{Path, PathBuf};

async fn backed_up(scene: &Scene, folder: &Path) -> PathBuf {
    let copy = folder.join("monday.db");
    std::fs::File::create(&copy).expect("an empty file");
    let database = scene.world.app.workspace.path().join("data/attache.db");
    copy_database(&database, &copy, backup::LOG_BYTES_MAX)
        .await
        .expect("a copy");
    copy
}

#[tokio::test]
#[ignore = "second tier"]
async fn an_open_question_of_a_restored_backup_is_closed_once() {
    if is_sqlite_only("a backup of a file") {
        return;
    }
    let scene = Scene::start().await;
    let run = scene.writes(CONTACT, "l1", "").await;
    let id = scene.only_question().await.id;
    let folder = tempfile::tempdir().expect("a folder");
    let copy = backed_up(&scene, folder.path()).await;
    // Meanwhile the owner approves, and the mail goes.
    scene.decide(&id, ApprovalVerdict::Approve, "").await;
    scene.world.app.drain().await;
    assert_eq!(scene.to_eve().len(), 1);

    let workspace = restore(&scene.world.app.workspace, &copy);
    let app = workspace.start().await;
    let state = |id: String| {
        let store = app.engine.store.clone();
        async move { store.approval(&id).await.expect("a question").state }
    };
    assert_eq!(state(id.clone()).await, ApprovalState::Cancelled);
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    assert_eq!(
        app.trace(&run).await,
        ["call send_email", "approval_cancelled send_email"]
    );
    let to_eve = app
        .sent()
        .into_iter()
        .filter(|mail| mail.to[0].spec == "eve@new.test");
    assert_eq!(to_eve.count(), 0);
    app.check().await;
    // The next start of it is no restored backup any more.
    let row = app
        .row(
            "SELECT CAST(is_copy AS TEXT) FROM engine WHERE CAST(id AS TEXT) = $1",
            "1",
        )
        .await;
    assert_eq!(row[0].as_deref(), Some("0"));
}

/// Whoever decides before an engine has started there decides nothing: the question is closed first.
#[tokio::test]
async fn a_question_of_a_restored_backup_is_closed_before_anybody_decides_it() {
    if is_sqlite_only("a backup of a file") {
        return;
    }
    let scene = Scene::start().await;
    scene.writes(CONTACT, "l1", "").await;
    let id = scene.only_question().await.id;
    let folder = tempfile::tempdir().expect("a folder");
    let copy = backed_up(&scene, folder.path()).await;
    let workspace = restore(&scene.world.app.workspace, &copy);
    let (code, said, refused) = attache(workspace.path(), &["approvals", "approve", &id]).await;
    assert_ne!(code, 0, "{said}{refused}");
    let app = workspace.start().await;
    let state = app.engine.store.approval(&id).await;
    assert_eq!(state.expect("a question").state, ApprovalState::Cancelled);
    app.drain().await;
    let to_eve = app
        .sent()
        .into_iter()
        .filter(|mail| mail.to[0].spec == "eve@new.test");
    assert_eq!(to_eve.count(), 0);
}

/// The control: without the mark of a copy the question stays open, and the same yes would send the mail.
#[tokio::test]
async fn a_database_that_is_no_backup_keeps_its_questions() {
    if is_sqlite_only("a copy of a file") {
        return;
    }
    let scene = Scene::start().await;
    scene.writes(CONTACT, "l1", "").await;
    let id = scene.only_question().await.id;
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("moved.db");
    let mut rows = scene.world.app.workspace.rows().await;
    let sql = format!("VACUUM INTO '{}'", copy.display());
    rows.execute(sqlx::AssertSqlSafe(sql))
        .await
        .expect("a copy");
    let app = restore(&scene.world.app.workspace, &copy).start().await;
    let state = app
        .engine
        .store
        .approval(&id)
        .await
        .expect("a question")
        .state;
    assert_eq!(state, ApprovalState::Open);
}
