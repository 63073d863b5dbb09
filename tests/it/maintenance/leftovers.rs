//! A database that is missing, and one that was put beside another one's log: nothing is begun anew and nothing undone
//! without a word.

use super::workspace::{attache, lived};
use crate::app::database::is_sqlite_only;
use crate::app::db;
use crate::app::{TestApp, Workspace, note};
use attache::store::{OpenError, Store};
use serde_json::json;
use std::fs::copy;
use std::path::Path;

const LETTERS: &str = "SELECT count(*) FROM messages WHERE direction = 'inbound'";

async fn opened(workspace: &Workspace) -> [Option<OpenError>; 2] {
    let engine = Store::open(workspace.path(), workspace.clock.clone())
        .await
        .err();
    [
        engine,
        Store::open_shared(workspace.path(), workspace.clock.clone())
            .await
            .err(),
    ]
}

/// A workspace whose `data` has only these files of that of an engine.
fn with_files(app: &TestApp, files: &[&str]) -> Workspace {
    let workspace = Workspace::new(&json!({ "turns": [] }));
    let data = workspace.path().join("data");
    std::fs::create_dir_all(data.join("outbox")).expect("a folder");
    for file in files {
        copy(
            app.workspace.path().join("data").join(file),
            data.join(file),
        )
        .expect("a copy");
    }
    workspace
}

fn a_mail(app: &TestApp) -> String {
    let mut files = std::fs::read_dir(app.workspace.path().join("data/outbox")).expect("an outbox");
    let name = files.next().expect("a mail").expect("an entry").file_name();
    format!("outbox/{}", name.to_string_lossy())
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_missing_or_empty_database_is_not_begun_beside_its_remains() {
    let app = lived().await;
    let mail = a_mail(&app);
    for left in ["engine.lock", "attache.db-wal", &mail] {
        for is_empty in [false, true] {
            let workspace = with_files(&app, &[left]);
            let database = workspace.path().join("data/attache.db");
            if is_empty {
                std::fs::write(&database, "").expect("a file");
            }
            for refused in opened(&workspace).await {
                assert!(
                    matches!(refused, Some(OpenError::Gone { .. })),
                    "{left}: {refused:?}"
                );
            }
            assert_eq!(
                database.metadata().map_or(0, |file| file.len()),
                0,
                "{left}"
            );
            let (code, _, said) = attache(workspace.path(), &["threads", "list"]).await;
            assert_eq!(code, 78, "{said}");
            assert!(
                said.contains("is missing") && said.contains("hint: put `data/attache.db` back"),
                "{said}"
            );
        }
    }
    for nothing_of_it in [vec![], vec!["opening.lock"]] {
        let workspace = with_files(&app, &nothing_of_it);
        assert!(opened(&workspace).await.iter().all(Option::is_none));
    }
}

#[tokio::test]
async fn a_database_without_a_byte_is_not_taken_for_a_new_one() {
    let workspace = Workspace::new(&json!({ "turns": [] }));
    let database = workspace.path().join("data/attache.db");
    workspace.write("data/attache.db", "");
    // The second time the locks of the first are there.
    for _ in 0..2 {
        for refused in opened(&workspace).await {
            assert!(
                matches!(refused, Some(OpenError::Empty { .. })),
                "{refused:?}"
            );
        }
    }
    for command in [
        &["serve"][..],
        &["threads", "list"],
        &["doctor", "--audit"],
        &["upgrade", "--check"],
    ] {
        let (code, _, said) = attache(workspace.path(), command).await;
        let is_named = said.contains("is empty") && said.contains("hint: remove the empty file");
        assert!(code == 78 && is_named, "{command:?}: {said}");
    }
    let (code, said, _) = attache(workspace.path(), &["status"]).await;
    assert!(
        code == 3 && said.contains("remove the empty file"),
        "{said}"
    );
    assert_eq!(database.metadata().expect("the file").len(), 0);
    std::fs::remove_file(&database).expect("removed, as the hint says");
    assert!(opened(&workspace).await.iter().all(Option::is_none));
}

const MARK: &str = "data/.attache.db.making";

#[tokio::test]
async fn an_empty_file_that_a_killed_first_opening_left_is_made_anew() {
    for is_command in [false, true] {
        let workspace = Workspace::new(&json!({ "turns": [] }));
        workspace.write(MARK, "");
        workspace.write("data/attache.db", "");
        let (code, said, _) = attache(workspace.path(), &["status"]).await;
        assert!(
            code == 3 && !said.contains("remove the empty file"),
            "{said}"
        );
        let (path, clock) = (workspace.path(), workspace.clock.clone());
        let opened = match is_command {
            true => Store::open_shared(path, clock).await,
            false => Store::open(path, clock).await,
        };
        opened.expect("a database").close().await;
        assert!(!path.join(MARK).exists(), "it is made");
        assert_eq!(letters(&workspace).await, 0);
        // What is emptied later is no first opening's.
        workspace.write("data/attache.db", "");
        for refused in opened_again(&workspace).await {
            assert!(
                matches!(refused, OpenError::Empty { .. } | OpenError::Gone { .. }),
                "{refused:?}"
            );
        }
    }
}

async fn opened_again(workspace: &Workspace) -> Vec<OpenError> {
    let opened = opened(workspace).await.into_iter();
    opened.map(|refused| refused.expect("refused")).collect()
}

#[tokio::test]
#[ignore = "second tier"]
async fn the_mark_of_a_first_opening_stands_for_no_database_that_was_there() {
    let app = lived().await;
    let mail = a_mail(&app);
    for left in ["engine.lock", "attache.db-wal", &mail] {
        let workspace = with_files(&app, &[left]);
        workspace.write(MARK, "");
        workspace.write("data/attache.db", "");
        for refused in opened_again(&workspace).await {
            assert!(
                matches!(refused, OpenError::Gone { .. }),
                "{left}: {refused:?}"
            );
        }
    }
    // Killed between the making and the removal of the mark.
    app.workspace.write(MARK, "");
    let before = letters(&app.workspace).await;
    let app = app.restart().await;
    assert!(!app.workspace.path().join(MARK).exists());
    assert_eq!(letters(&app.workspace).await, before);
}

/// A killed engine's `data`, with a backup from before in place of its database.
async fn restored_over_a_log() -> (TestApp, Workspace) {
    let app = lived().await;
    let backup = app.workspace.path().join("monday.db");
    let (code, _, said) = attache(app.workspace.path(), &["backup", "monday.db"]).await;
    assert_eq!(code, 0, "{said}");
    let _reader = behind_a_reader(&app).await;
    let workspace = with_files(&app, &["attache.db-wal", "attache.db-shm"]);
    copy(&backup, workspace.path().join("data/attache.db")).expect("a restored database");
    (app, workspace)
}

async fn letters(workspace: &Workspace) -> i64 {
    db::query_scalar(LETTERS)
        .fetch_one(&mut workspace.rows().await)
        .await
        .expect("a count")
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_backup_restored_beside_an_old_log_is_not_opened() {
    let (app, workspace) = restored_over_a_log().await;
    for refused in opened(&workspace).await {
        assert!(
            matches!(refused, Some(OpenError::ForeignLog { .. })),
            "{refused:?}"
        );
    }
    let (code, _, said) = attache(workspace.path(), &["threads", "list"]).await;
    assert_eq!(code, 78, "{said}");
    assert!(
        said.contains("does not belong to the database") && said.contains("-wal"),
        "{said}"
    );
    let log = |path: &Path, ending: &str| path.join(format!("data/attache.db-{ending}"));
    for ending in ["wal", "shm"] {
        std::fs::remove_file(log(workspace.path(), ending)).expect("a file");
    }
    assert!(opened(&workspace).await.iter().all(Option::is_none));
    assert_eq!(
        letters(&workspace).await,
        letters(&app.workspace).await - 1,
        "the letter after the backup is not there"
    );
}

#[tokio::test]
async fn the_control_sqlite_opens_both_and_the_restore_is_undone() {
    let (app, workspace) = restored_over_a_log().await;
    assert_eq!(letters(&workspace).await, letters(&app.workspace).await);
}

/// A letter that no copying back takes out of the log, however long the test takes, while a connection reads what was before it.
async fn behind_a_reader(app: &TestApp) -> db::Connection {
    let mut reader = app.workspace.rows().await;
    reader.execute("BEGIN").await.expect("a snapshot");
    let seen: i64 = db::query_scalar(LETTERS)
        .fetch_one(&mut reader)
        .await
        .expect("a count");
    let id = format!("late{seen}@guest.example");
    app.receive(&note(&id, "", "Behind a reader."))
        .await
        .expect("taken");
    reader
}

/// The files of a killed engine's database.
const WHOLE: [&str; 3] = ["attache.db", "attache.db-wal", "newest"];

async fn every_opening(workspace: &Workspace) -> Vec<Option<OpenError>> {
    let to_read = Store::open_to_read(workspace.path(), workspace.clock.clone()).await;
    let mut refused = vec![to_read.err()];
    refused.extend(opened(workspace).await);
    refused
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_database_whose_log_was_removed_is_not_gone_on_with() {
    if is_sqlite_only("the log of a file") {
        return;
    }
    let app = lived().await;
    let _reader = behind_a_reader(&app).await;
    let stored = letters(&app.workspace).await;
    let in_data = |workspace: &Workspace, file: &str| workspace.path().join("data").join(file);
    // What is done to the files of a killed engine, and whether they are refused then.
    type Harm = fn(&Path);
    let harms: [(&str, Harm, bool); 7] = [
        ("nothing", |_| (), false),
        ("no log", |data| gone(data, "attache.db-wal"), true),
        ("an empty log", |data| emptied(data, "attache.db-wal"), true),
        ("a log of noise", |data| noisy(data, "attache.db-wal"), true),
        ("no note", |data| gone(data, "newest"), false),
        ("an empty note", |data| emptied(data, "newest"), false),
        ("a note of noise", |data| noisy(data, "newest"), false),
    ];
    for (name, harm, is_refused) in harms {
        let workspace = with_files(&app, &WHOLE);
        harm(&workspace.path().join("data"));
        for refused in every_opening(&workspace).await {
            let is_lost = matches!(refused, Some(OpenError::LogLost { .. }));
            assert!(
                is_lost == is_refused && is_lost == refused.is_some(),
                "{name}: {refused:?}"
            );
        }
        if !is_refused {
            assert_eq!(letters(&workspace).await, stored, "{name}");
            continue;
        }
        // Nothing was written meanwhile: the log, put back, is read.
        for ending in ["-wal", "-shm"] {
            let _there_is_none =
                std::fs::remove_file(in_data(&workspace, &format!("attache.db{ending}")));
        }
        let log = "attache.db-wal";
        copy(in_data(&app.workspace, log), in_data(&workspace, log)).expect("a copy");
        let refused = every_opening(&workspace).await;
        assert!(refused.iter().all(Option::is_none), "{name}: {refused:?}");
        assert_eq!(letters(&workspace).await, stored, "{name}");
    }
    let workspace = with_files(&app, &["attache.db", "newest"]);
    for command in [&["serve"][..], &["threads", "list"], &["doctor", "--audit"]] {
        let (code, _, said) = attache(workspace.path(), command).await;
        let is_named =
            said.contains("newest commits of this database") && said.contains("`data/newest`");
        assert!(code == 78 && is_named, "{command:?}: {said}");
    }
    // As the hint says.
    std::fs::remove_file(in_data(&workspace, "newest")).expect("a note");
    assert!(opened(&workspace).await.iter().all(Option::is_none));
    assert!(letters(&workspace).await < stored);
}

fn gone(data: &Path, file: &str) {
    std::fs::remove_file(data.join(file)).expect("a file");
}

fn emptied(data: &Path, file: &str) {
    std::fs::write(data.join(file), "").expect("a file");
}

fn noisy(data: &Path, file: &str) {
    std::fs::write(data.join(file), [b'x'; 40]).expect("a file");
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_note_is_no_reason_to_refuse_what_was_meant() {
    if is_sqlite_only("the log of a file") {
        return;
    }
    let app = lived().await;
    let backup = app.workspace.path().join("monday.db");
    let (code, _, said) = attache(app.workspace.path(), &["backup", "monday.db"]).await;
    assert_eq!(code, 0, "{said}");
    let at_backup = letters(&app.workspace).await;
    app.receive(&note("later@guest.example", "", "After the backup."))
        .await
        .expect("taken");
    // A backup beside the note of a newer database, opened by a command, by an engine, and by both once more.
    let workspace = with_files(&app, &["newest"]);
    copy(&backup, workspace.path().join("data/attache.db")).expect("a restored database");
    let (code, _, said) = attache(workspace.path(), &["threads", "list"]).await;
    assert_eq!(code, 0, "{said}");
    for _ in 0..2 {
        assert!(every_opening(&workspace).await.iter().all(Option::is_none));
    }
    assert_eq!(letters(&workspace).await, at_backup);
    // Another program copies the log back, and removes it.
    let workspace = with_files(&app, &WHOLE);
    let (code, _, said) = attache(workspace.path(), &["notices", "list"]).await;
    assert_eq!(code, 0, "{said}");
    let mut rows = workspace.rows().await;
    rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        .await
        .expect("copied back");
    drop(rows);
    let _there_is_none = std::fs::remove_file(workspace.path().join("data/attache.db-wal"));
    assert!(every_opening(&workspace).await.iter().all(Option::is_none));
    assert_eq!(letters(&workspace).await, at_backup + 1);
    // What this engine stored after its own end in order is noted, too.
    let app = app.restart().await;
    let _reader = behind_a_reader(&app).await;
    let workspace = with_files(&app, &["attache.db", "newest"]);
    for refused in every_opening(&workspace).await {
        assert!(
            matches!(refused, Some(OpenError::LogLost { .. })),
            "{refused:?}"
        );
    }
}
