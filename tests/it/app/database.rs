//! The database of a new workspace, copied from one that a first start has made: making it anew for each test was a third of
//! what most tests compute. What opening makes of no database is tested through the binary.

use attache::clock::ManualClock;
use attache::domain::Timestamp;
use attache::store::Store;
use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Executor};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::OnceCell;

static MADE: OnceCell<Vec<u8>> = OnceCell::const_new();

async fn made() -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let clock = ManualClock::at(Timestamp::parse(super::START).expect("an instant"));
    let store = Store::open(folder.path(), Arc::new(clock)).await;
    store.expect("a database").close().await;
    std::fs::read(folder.path().join("data/attache.db")).expect("a database")
}

/// Gives a workspace without `data` a database that no engine has worked on.
pub async fn provide(workspace: &Path) {
    // One with the folder has a database, or is to make its own.
    if workspace.join("data").exists() {
        return;
    }
    let path = workspace.join("data/attache.db");
    let bytes = MADE.get_or_init(made).await;
    std::fs::create_dir_all(workspace.join("data")).expect("a folder");
    std::fs::write(&path, bytes).expect("a database");
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&path, private).expect("its mode");
    let options = SqliteConnectOptions::new()
        .filename(&path)
        .synchronous(SqliteSynchronous::Off);
    let mut database = options.connect().await.expect("a database");
    // Each has a key of its own, as if it had been made here.
    let own = "UPDATE engine SET epoch = 0, loop_key = randomblob(32)";
    database.execute(own).await.expect("a row");
    database.close().await.expect("closed");
}
