//! A migration again, a migration that was cut off, and one into a workspace that has files of its owner.

use super::fixture::{ADA_KEY, ProtegeFolder, tree};
use super::{findings, letters, outcomes};
use serde_json::Value;
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

/// `abort` ends a process by this signal.
const SIGABRT: i32 = 6;

/// Rows of the mail in the workspace's database, without what chance gave them.
async fn rows(folder: &ProtegeFolder) -> Vec<String> {
    let options = SqliteConnectOptions::new()
        .filename(folder.workspace().join("data/attache.db"))
        .read_only(true);
    let mut rows = options.connect().await.expect("the database");
    let sql = "SELECT concat_ws('|', m.persona_id, m.direction, m.message_id, m.received_at, m.disposition, r.sha256, t.subject) FROM messages m
        JOIN raw_letters r ON r.id = m.raw_id JOIN threads t ON t.id = m.thread_id
        UNION ALL SELECT 'thread ' || persona_id || subject FROM threads
        UNION ALL SELECT 'run ' || id FROM runs UNION ALL SELECT 'mail ' || id FROM deliveries
        UNION ALL SELECT 'slot ' || responsibility_id FROM responsibility_slots ORDER BY 1";
    sqlx::query_scalar(sql)
        .fetch_all(&mut rows)
        .await
        .expect("rows")
}

/// The files of a workspace without those that belong to its database.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let all = tree(folder).into_iter();
    all.filter(|(path, _)| !path.starts_with(folder.join("data")))
        .collect()
}

#[tokio::test]
async fn a_second_migration_changes_nothing() {
    let folder = ProtegeFolder::new().await;
    folder.second().await;
    let first = folder.migrate(&[]);
    assert_eq!(letters(&first, 1), [5, 2, 1, 0, 0, 1, 1]);
    let before = (rows(&folder).await, files(&folder.workspace()));
    assert_eq!(
        before
            .0
            .iter()
            .filter(|row| row.starts_with("ada|"))
            .count(),
        3,
        "{:#?}",
        before.0
    );
    let second = folder.migrate(&[]);
    for persona in [0, 1] {
        assert_eq!(letters(&second, persona), [5, 0, 0, 3, 0, 1, 1]);
    }
    let changed: Vec<_> = outcomes(&second)
        .into_iter()
        .filter(|(_, outcome)| *outcome != "unchanged")
        .collect();
    assert!(changed.is_empty(), "{changed:?}");
    assert!(
        (rows(&folder).await, files(&folder.workspace())) == before,
        "a second migration wrote something"
    );
}

#[tokio::test]
async fn a_dry_run_writes_nothing_and_tells_the_rows() {
    let folder = ProtegeFolder::new().await;
    let told = folder.migrate(&["--dry-run"]);
    assert_eq!(letters(&told, 0), [5, 0, 0, 0, 0, 0, 0]);
    assert!(outcomes(&told).contains(&("configs/context.json", "written")));
    assert!(!folder.workspace().exists());
}

/// Files of a workspace by their path in it.
fn relative(folder: &ProtegeFolder) -> Vec<(PathBuf, Vec<u8>)> {
    let workspace = folder.workspace();
    let path = |path: PathBuf| {
        path.strip_prefix(&workspace)
            .expect("a path below")
            .to_path_buf()
    };
    files(&workspace)
        .into_iter()
        .map(|(at, bytes)| (path(at), bytes))
        .collect()
}

async fn with_two_personas() -> ProtegeFolder {
    let folder = ProtegeFolder::new().await;
    folder.second().await;
    folder
}

#[tokio::test]
async fn a_migration_that_was_killed_between_letters_is_finished_by_the_next() {
    let whole = with_two_personas().await;
    whole.migrate(&[]);
    let wanted = (rows(&whole).await, relative(&whole));
    let mut partial = 0;
    for point in ["W1:1", "W2:1", "W1:2", "W2:2", "W1:3"] {
        let folder = with_two_personas().await;
        let killed = folder
            .command(&[])
            .env("ATTACHE_CRASH", point)
            .output()
            .expect("the binary runs");
        if killed.status.signal() != Some(SIGABRT) {
            continue;
        }
        partial += usize::from(rows(&folder).await != wanted.0);
        folder.migrate(&[]);
        assert!(relative(&folder) == wanted.1, "{point}: the files differ");
        assert_eq!(rows(&folder).await, wanted.0, "{point}");
    }
    assert!(
        partial >= 2,
        "only {partial} died before everything was there"
    );
}

#[tokio::test]
async fn a_migration_that_was_killed_between_files_is_finished_by_the_next() {
    let whole = with_two_personas().await;
    whole.migrate(&[]);
    let wanted = (rows(&whole).await, relative(&whole));
    // Keys come first, and the file that makes a folder a workspace comes last.
    let (first, last) = (Path::new(".secrets"), Path::new("configs/gateway.json"));
    let mut written: Vec<_> = wanted.1.iter().collect();
    written.sort_by_key(|(path, _)| (path != first, path == last));
    for count in [1, 5, written.len() - 1] {
        let folder = with_two_personas().await;
        let put = |path: PathBuf, bytes: &[u8]| {
            let path = folder.workspace().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            std::fs::write(&path, bytes).expect("a file");
            std::fs::set_permissions(path, Permissions::from_mode(0o600)).expect("its mode");
        };
        for (path, bytes) in &written[..count] {
            put(path.clone(), bytes);
        }
        // The next one, as far as it came.
        let (path, bytes) = written[count];
        let name = path.file_name().expect("a name").to_string_lossy();
        put(
            path.with_file_name(format!(".{name}.migrating")),
            &bytes[..bytes.len() / 2],
        );
        folder.migrate(&[]);
        assert!(relative(&folder) == wanted.1, "{count}: the files differ");
        assert_eq!(rows(&folder).await, wanted.0, "{count}");
    }
}

#[tokio::test]
async fn a_file_of_the_owner_stays_and_its_difference_is_shown() {
    let folder = ProtegeFolder::new().await;
    let persona = folder.workspace().join("personas/ada/PERSONA.md");
    std::fs::create_dir_all(persona.parent().expect("a parent")).expect("folders");
    std::fs::write(&persona, "# Ada\n\nAda keeps nothing.\n").expect("a file");
    let told = folder.migrate(&[]);
    assert_eq!(
        std::fs::read_to_string(&persona).expect("a file"),
        "# Ada\n\nAda keeps nothing.\n"
    );
    let file = |told: &Value| -> Value {
        let files = told["files"].as_array().expect("files").iter();
        files
            .clone()
            .find(|file| file["path"] == "personas/ada/PERSONA.md")
            .cloned()
            .expect("the file")
    };
    let lines: Vec<Value> = file(&told)["difference"].as_array().expect("lines").clone();
    assert!(
        lines.contains(&"+ Ada keeps the moorings.".into())
            && lines.contains(&"- Ada keeps nothing.".into()),
        "{lines:?}"
    );
    assert_eq!(
        findings(&told, "kept"),
        ["personas/ada/PERSONA.md: another file is here, and stays as it is"]
    );
    assert_eq!(letters(&told, 0), [5, 2, 1, 0, 0, 1, 1], "the rest goes on");
}

#[tokio::test]
async fn a_workspace_that_is_there_keeps_its_own_files_and_gets_the_persona_and_its_letters() {
    let folder = ProtegeFolder::new().await;
    let made = folder.attache(&[
        "init",
        &folder.workspace().display().to_string(),
        "--domain",
        "pier.test",
        "--owner",
        "olga@home.test",
    ]);
    assert!(made.status.success(), "{made:?}");
    let before = relative(&folder);
    let told = folder.migrate(&[]);
    let after = relative(&folder);
    assert!(
        before.iter().all(|file| after.contains(file)),
        "a file of the owner changed"
    );
    let kept: Vec<String> = findings(&told, "kept");
    for path in [
        "configs/context.json",
        "configs/inference.json",
        "configs/security.json",
    ] {
        assert!(
            kept.contains(&format!("{path}: another file is here, and stays as it is")),
            "{path} is missing in {kept:#?}"
        );
    }
    assert_eq!(kept.len(), 3, "{kept:#?}");
    assert_eq!(
        told["personas"][0]["address"],
        format!("{ADA_KEY}@pier.test"),
        "the domain is the workspace's"
    );
    assert_eq!(letters(&told, 0), [5, 2, 1, 0, 0, 1, 1]);
    let options = SqliteConnectOptions::new()
        .filename(folder.workspace().join("data/attache.db"))
        .read_only(true);
    let mut rows = options.connect().await.expect("the database");
    let sql = "SELECT group_concat(DISTINCT address) FROM thread_participants";
    let people: String = sqlx::query_scalar(sql)
        .fetch_one(&mut rows)
        .await
        .expect("people");
    assert_eq!(
        people, "bob@guest.example",
        "an address of the persona's past is nobody else's"
    );
    assert!(folder.attache(&["config", "check"]).status.success());
    assert!(folder.attache(&["doctor", "--audit"]).status.success());
    assert_eq!(letters(&folder.migrate(&[]), 0), [5, 0, 0, 3, 0, 1, 1]);
}
