//! Rows that move to another database keep the names of their objects, and move only to where these are found.

use super::{Kept, answered, objects, reads};
use crate::app::database::{self, is_sqlite_only};
use crate::maintenance::whole_backup::stopped;
use crate::maintenance::workspace::attache;
use attache::domain::MessageId;
use attache::store::Store;
use std::path::Path;

/// Makes the folder of a workspace with the configuration of another, but for its database.
fn twin(of: &Path, to: &Path) {
    let configs = to.join("configs");
    std::fs::create_dir_all(&configs).expect("a folder");
    for entry in std::fs::read_dir(of.join("configs")).expect("files") {
        let path = entry.expect("an entry").path();
        if path.is_file() {
            let name = path.file_name().expect("a name");
            std::fs::copy(&path, configs.join(name)).expect("a copy");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_keeps_the_names_of_objects_and_refuses_a_target_without_their_store() {
    if is_sqlite_only("what moves begins in a file") {
        return;
    }
    let kept = Kept::new(&reads());
    let (path, folder) = (kept.path(), kept.folder.path().to_owned());
    let app = answered(kept.workspace).await;
    let row = app
        .row(
            "SELECT id FROM messages WHERE message_id = $1",
            "q1@guest.example",
        )
        .await;
    let message = MessageId::new(row[0].clone().expect("an id"));
    let before = objects(&path);
    let workspace = stopped(app).await;
    let Some(url) = database::empty_on_server(workspace.path()).await else {
        eprintln!("SKIPPED: ATTACHE_TEST_POSTGRES names no cluster of PostgreSQL");
        return;
    };
    let (code, _, said) = attache(workspace.path(), &["migrate", "--to", &url, "--switch"]).await;
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("attache objects claim --yes"), "{said}");
    let store = Store::open_to_read(workspace.path(), workspace.clock.clone()).await;
    let store = store.expect("on the server");
    let letter = store.raw_letter(&message).await.expect("its object");
    assert!(letter.bytes.len() > 1024);
    store.close().await;
    // Back to a folder whose configuration names no object store, and the control: the same one.
    let back = folder.join("back");
    twin(workspace.path(), &back);
    let keeping = back.join("configs/keeping.json");
    let named = std::fs::read(&keeping).expect("the configuration");
    std::fs::remove_file(&keeping).expect("removed");
    let typed = back.display().to_string();
    let (code, _, said) = attache(workspace.path(), &["migrate", "--to", &typed]).await;
    assert_eq!(code, 78, "{said}");
    assert!(said.contains("rows name objects in"), "{said}");
    std::fs::write(&keeping, named).expect("as it was");
    let (code, _, said) = attache(workspace.path(), &["migrate", "--to", &typed]).await;
    assert_eq!(code, 0, "{said}");
    let store = Store::open_to_read(&back, workspace.clock.clone()).await;
    let letter = store.expect("a file").raw_letter(&message).await;
    assert!(letter.expect("its object").bytes.len() > 1024);
    assert_eq!(objects(&path), before);
}
