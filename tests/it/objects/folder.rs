//! Letters, attachments and requests in a folder: written, read, exported, looked over, and what an unmounted folder does.

use super::{Kept, large, named, noise, objects, reads};
use crate::app::{TestApp, letter, note};
use crate::maintenance::workspace::attache;
use attache::app::Engine;
use attache::clock::Clock;
use attache::domain::{MessageId, RunId};
use attache::gateway::intake_contract::Refusal;
use attache::store::audit::{Audit, AuditScope};
use attache::store::{OpenError, StoreError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use std::time::Duration;

async fn message_of(app: &TestApp, id: &str) -> MessageId {
    let row = app
        .row("SELECT id FROM messages WHERE message_id = $1", id)
        .await;
    MessageId::new(row[0].clone().expect("an id"))
}

#[tokio::test]
async fn large_bytes_are_objects_and_are_read_as_before() {
    let kept = Kept::new(&reads());
    let path = kept.path();
    let app = kept.workspace.start().await;
    let eml = large("q1@guest.example");
    let run = app.run_of(&eml).await;
    app.drain().await;
    assert_eq!(
        app.trace(&run).await,
        ["call read_attachment", "ok read_attachment"]
    );
    let (names, bytes_left) = named(&app).await;
    // The letter, its attachment, and the first request at least.
    assert!(names >= 3, "{names}");
    assert_eq!(bytes_left, 0, "a row has its bytes twice");
    assert_eq!(objects(&path).len() as i64, names);
    let message = message_of(&app, "q1@guest.example").await;
    let raw = app.engine.store.raw_letter(&message).await.expect("bytes");
    assert_eq!(raw.bytes, letter(&eml).bytes);
    let rows = app.engine.store.rows_of_runs(&[RunId::new(&run)]).await;
    let rows = rows.expect("rows of a bundle");
    let of_letter = rows.iter().find(|row| row.table == "raw_letters");
    let cells = &of_letter.expect("the letter").cells;
    assert_eq!(
        cells["bytes"]["base64"],
        STANDARD.encode(letter(&eml).bytes)
    );
    assert!(
        !cells.contains_key("object"),
        "a bundle needs no object store"
    );
    let is_named = |row: &attache::store::BundleRow| row.cells.contains_key("packed_object");
    assert!(!rows.iter().any(is_named));
    // Every run is executed again by what was recorded, and the audit finds nothing.
    app.check().await;
    assert_eq!(broken(&app).await, Vec::<String>::new());
}

#[tokio::test]
async fn without_an_object_store_and_below_its_size_bytes_stay_in_their_rows() {
    let small = note("s1@guest.example", "", "When is breakfast?");
    let kept = Kept::new(&json!({ "turns": [{ "say": "From seven." }] }));
    let path = kept.path();
    let app = kept.workspace.start().await;
    app.run_of(&small).await;
    let count = "SELECT CAST(length(bytes) AS TEXT), object FROM raw_letters WHERE $1 = $1";
    let row = app.row(count, "").await;
    assert_eq!(row, [Some(letter(&small).bytes.len().to_string()), None]);
    assert_eq!(objects(&path).len(), 0);
    // The control: large, and none is configured.
    let app = TestApp::start(reads()).await;
    let eml = large("q1@guest.example");
    app.run_of(&eml).await;
    app.drain().await;
    let row = app.row(count, "").await;
    assert_eq!(row, [Some(letter(&eml).bytes.len().to_string()), None]);
    assert_eq!(named(&app).await.0, 0);
    app.check().await;
}

#[tokio::test]
async fn an_export_has_the_letters_of_the_object_store() {
    let kept = Kept::new(&reads());
    let folder = kept.folder.path().to_owned();
    let app = kept.workspace.start().await;
    let eml = large("q1@guest.example");
    app.run_of(&eml).await;
    app.drain().await;
    let to = folder.join("export");
    let typed = to.display().to_string();
    let args = ["export", "persona", "ada", &typed];
    let (code, _, error) = attache(app.workspace.path(), &args).await;
    assert_eq!(code, 0, "{error}");
    let mail = std::fs::read(to.join("mail/00000000.eml")).expect("the letter");
    assert_eq!(mail, letter(&eml).bytes);
    // The copy of the database says what it lacks.
    let copy = folder.join("copy.db").display().to_string();
    if crate::app::database::is_postgres() {
        return;
    }
    let (code, _, error) = attache(app.workspace.path(), &["backup", &copy]).await;
    assert_eq!(code, 0, "{error}");
    assert!(
        error.contains("not in it: the bytes in the object store"),
        "{error}"
    );
}

/// Names of the checks that fail, with what they list.
async fn broken(app: &TestApp) -> Vec<String> {
    let audit = Audit::of_workspace(app.workspace.path()).await;
    let scope = AuditScope {
        bytes: true,
        at_rest: false,
    };
    let findings = audit.expect("a database").examine(scope).await;
    let broken = findings.expect("an audit").broken;
    let shown = broken
        .iter()
        .map(|one| format!("{} {}: {}", one.name, one.count, one.what.join(" ")));
    shown.collect()
}

#[tokio::test]
async fn the_audit_names_objects_that_are_lost_and_a_read_of_one_is_an_error() {
    let kept = Kept::new(&json!({ "turns": [{ "say": "Thank you." }] }));
    let (path, folder) = (kept.path(), kept.folder.path().to_owned());
    let app = kept.workspace.start().await;
    app.run_of(&large("q1@guest.example")).await;
    app.run_of(&large("q2@guest.example")).await;
    let message = message_of(&app, "q1@guest.example").await;
    let sql = "SELECT l.object FROM raw_letters l JOIN messages m ON m.raw_id = l.id WHERE m.message_id = $1";
    let of_letter = |name: Vec<Option<String>>| path.join(name[0].clone().expect("an object"));
    let first = of_letter(app.row(sql, "q1@guest.example").await);
    let second = of_letter(app.row(sql, "q2@guest.example").await);
    let was = std::fs::read(&first).expect("bytes");
    std::fs::remove_file(&second).expect("removed");
    let mut changed = was.clone();
    changed[7] ^= 1;
    std::fs::write(&first, changed).expect("changed");
    let found = broken(&app).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("object-lost 2:"), "{found:?}");
    assert!(found[0].contains("missing") && found[0].contains("is not what was put"));
    let read = app.engine.store.raw_letter(&message).await;
    let error = read.expect_err("the bytes are another's");
    assert!(
        matches!(&error, StoreError::Object(lost) if lost.is_lost()),
        "{error}"
    );
    // A store that is away has lost nothing.
    std::fs::write(&first, was).expect("as it was");
    Kept::unmount(&folder);
    let found = broken(&app).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("objects-unread 1:"), "{found:?}");
}

#[tokio::test]
async fn a_letter_is_not_taken_while_the_object_store_is_away() {
    let kept = Kept::new(&reads());
    let folder = kept.folder.path().to_owned();
    let app = kept.workspace.start().await;
    Kept::unmount(&folder);
    let refused = app.receive(&large("q1@guest.example")).await;
    assert!(matches!(
        refused,
        Err(Refusal::NotStored(StoreError::Object(_)))
    ));
    assert!(!folder.join("objects").exists(), "a put made the folder");
    let stored = "SELECT CAST(count(*) AS TEXT) FROM messages WHERE $1 = $1";
    assert_eq!(app.row(stored, "").await, [Some("0".to_owned())]);
    // A small letter needs no object.
    app.run_of(&note("s1@guest.example", "", "When?")).await;
    Kept::mount(&folder);
    app.run_of(&large("q1@guest.example")).await;
    app.drain().await;
    assert_eq!(named(&app).await.1, 0);
    app.check().await;
}

#[tokio::test]
async fn a_run_waits_for_an_object_store_that_is_away_and_is_not_answered_without_its_attachment() {
    let kept = Kept::new(&reads());
    let folder = kept.folder.path().to_owned();
    let app = kept.workspace.start().await;
    let run = app.run_of(&large("q1@guest.example")).await;
    Kept::unmount(&folder);
    app.drain().await;
    let (state, _, class) = app.outcome(&run).await;
    assert_eq!(
        (state.as_str(), class.as_deref()),
        ("waiting_retry", Some("store"))
    );
    assert!(app.sent().is_empty());
    Kept::mount(&folder);
    app.workspace.clock.advance(Duration::from_secs(3600));
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    assert_eq!(app.sent().len(), 1);
    app.check().await;
}

#[tokio::test]
async fn an_engine_does_not_start_without_its_folder_and_says_what_to_do() {
    let kept = Kept::new(&reads());
    let folder = kept.folder.path().to_owned();
    crate::app::database::provide(kept.workspace.path()).await;
    Kept::unmount(&folder);
    let names = attache::cli::name_catalog();
    let config = attache::config::load(kept.workspace.path(), &names).expect("a configuration");
    let clock = kept.workspace.clock.clone();
    let opened = Engine::open(config, clock.clone()).await;
    let error = opened.err().expect("no engine");
    assert!(matches!(error.downcast_ref(), Some(OpenError::Objects(_))));
    assert!(clock.now() > attache::domain::Timestamp::from_millis(0));
    let (code, _, said) = attache(kept.workspace.path(), &["serve"]).await;
    assert_eq!(code, 78, "{said}");
    assert!(said.contains("make the folder"), "{said}");
    // What needs no object works.
    let (code, _, said) = attache(kept.workspace.path(), &["runs", "list"]).await;
    assert_eq!(code, 0, "{said}");
}

#[tokio::test]
async fn a_second_copy_of_a_letter_leaves_no_object() {
    let kept = Kept::new(&reads());
    let path = kept.path();
    let app = kept.workspace.start().await;
    let eml = large("q1@guest.example");
    app.run_of(&eml).await;
    let before = objects(&path);
    app.receive(&eml).await.expect("a duplicate");
    assert_eq!(objects(&path), before);
    assert_eq!(before.len(), 2);
    assert!(noise("q1", 2) != noise("q2", 2));
}
