//! An older database is copied before it is brought up to date, whatever dies meanwhile; a newer one is refused.

use super::workspace::{attache, lived, script};
use crate::app::Workspace;
use crate::app::{db, rows};
use serde_json::Value;
use sqlx::migrate::Migrator;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection as _};
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Points that these tests come to, in place of a workload of the sweep.
pub const POINTS: &[&str] = &["U1", "U2", "U3", "U4"];

/// `abort` ends a process by this signal.
const SIGABRT: i32 = 6;
/// The newest migration of the older database.
const BEFORE: i64 = 200;
const LETTERS: u32 = 250;

/// A workspace with an older database: the tables of the first migration, with letters.
async fn older() -> Workspace {
    let workspace = Workspace::new(&script());
    std::fs::create_dir_all(workspace.path().join("data")).expect("a folder");
    let file = database(&workspace);
    let made = SqliteConnectOptions::new()
        .filename(&file)
        .create_if_missing(true);
    let mut conn = made.connect().await.expect("a database");
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let mut all = Migrator::new(all).await.expect("migrations");
    // By the names that the engine gives them.
    for migration in all.migrations.to_mut() {
        migration.description = migration.description.replace('_', " ").into();
    }
    all.migrations
        .to_mut()
        .retain(|migration| migration.version <= BEFORE);
    all.run_direct(None, &mut conn, false)
        .await
        .expect("migrated");
    conn.close().await.expect("closed");
    let mut conn = db::Connection::file(&file).await;
    let at = "2026-11-01T00:00:00.000Z";
    rows::thread(&mut conn, ("ada", "t", ""), at, &["carol@partner.test"]).await;
    for n in 1..=LETTERS {
        let id = format!("m{n}");
        let row = rows::Message {
            id: &id,
            persona: "ada",
            thread: "t",
            direction: "inbound",
            message_id: &id,
            sender: "carol@partner.test",
            recipients_json: "{}",
            subject: "",
            body: "the horse",
            received_at: at,
            trust: "contact",
            disposition: "run",
        };
        rows::message(&mut conn, row).await;
    }
    conn.close().await.expect("closed");
    workspace
}

async fn open(file: &Path) -> db::Connection {
    let options = SqliteConnectOptions::new().filename(file).read_only(true);
    db::Connection::Sqlite(options.connect().await.expect("a database"))
}

async fn number(file: &Path, sql: &'static str) -> i64 {
    let mut conn = open(file).await;
    let number = db::query_scalar(sql).fetch_one(&mut conn);
    number.await.expect("a number")
}

async fn migration(file: &Path) -> i64 {
    number(file, "SELECT max(version) FROM _sqlx_migrations").await
}

fn database(workspace: &Workspace) -> PathBuf {
    workspace.path().join("data/attache.db")
}

/// Files of the folder of copies, by name.
fn copies(workspace: &Workspace) -> Vec<PathBuf> {
    let folder = workspace.path().join("data/backups");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files
}

fn mode(path: &Path) -> u32 {
    let metadata = std::fs::metadata(path).expect("metadata");
    metadata.permissions().mode() & 0o777
}

async fn checked(workspace: &Workspace, more: &[&str]) -> (i32, Value) {
    let args = [&["upgrade", "--check", "--json"], more].concat();
    let (code, stdout, stderr) = attache(workspace.path(), &args).await;
    let report = serde_json::from_str(&stdout);
    (code, report.unwrap_or_else(|_| panic!("{stdout}{stderr}")))
}

#[tokio::test]
async fn an_older_database_is_copied_and_checked_before_it_is_changed() {
    let workspace = older().await;
    let (code, stdout, stderr) = attache(workspace.path(), &["upgrade"]).await;
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert!(
        stderr.contains("the database was copied before"),
        "{stderr}"
    );
    let copies_made = copies(&workspace);
    let [copy] = copies_made.as_slice() else {
        panic!("{copies_made:?}")
    };
    let name = copy.file_name().expect("a name").to_string_lossy();
    let begin = format!("before-{}-20", env!("CARGO_PKG_VERSION"));
    assert!(name.starts_with(&begin), "{name}");
    assert_eq!(mode(copy), 0o600);
    assert_eq!(mode(copy.parent().expect("a folder")), 0o700);
    assert_eq!(migration(copy).await, BEFORE);
    let letters = "SELECT count(*) FROM messages";
    assert_eq!(number(copy, letters).await, i64::from(LETTERS));
    let now = database(&workspace);
    assert!(migration(&now).await > BEFORE);
    assert_eq!(number(&now, letters).await, i64::from(LETTERS));
    let mine = "SELECT count(*) FROM program_versions WHERE migration = (SELECT max(version) FROM _sqlx_migrations)";
    assert_eq!(number(&now, mine).await, 1);
    // A database that lacks nothing is not copied.
    let (code, _, _) = attache(workspace.path(), &["upgrade"]).await;
    assert_eq!((code, copies(&workspace).len()), (0, 1));
}

#[tokio::test]
async fn a_copy_of_an_upgrade_is_a_working_database_of_the_version_before() {
    let workspace = older().await;
    attache(workspace.path(), &["upgrade"]).await;
    let restored = Workspace::new(&script());
    std::fs::create_dir_all(restored.path().join("data")).expect("a folder");
    std::fs::copy(&copies(&workspace)[0], database(&restored)).expect("restored");
    let (code, report) = checked(&restored, &[]).await;
    assert_eq!(
        (code, &report["migration"]),
        (0, &BEFORE.into()),
        "{report}"
    );
    let (code, _, stderr) = attache(restored.path(), &["upgrade"]).await;
    assert_eq!(code, 0, "{stderr}");
}

#[tokio::test]
async fn the_check_says_what_would_be_done_and_does_nothing() {
    let workspace = older().await;
    let before = std::fs::read(database(&workspace)).expect("bytes");
    let (code, report) = checked(&workspace, &[]).await;
    assert_eq!(code, 0, "{report}");
    assert_eq!(report["written_by"], serde_json::json!([]));
    assert_eq!(report["pending"][0]["number"], 201, "{report}");
    assert_eq!(report["pending"][0]["name"], "words and triggers");
    assert!(
        report["room_bytes"].as_u64() > Some(64 * 1024 * 1024),
        "{report}"
    );
    assert!(report["seconds"].as_u64() >= Some(1), "{report}");
    let origin = report["seconds_from"].as_str().unwrap_or_default();
    assert!(origin.starts_with("at 40 MB a second"), "{origin}");
    assert!(report["engine"].is_null());
    let other = Workspace::new(&script());
    let from = database(&workspace);
    let (code, elsewhere) = checked(&other, &["--from", &from.to_string_lossy()]).await;
    assert_eq!((code, &elsewhere["pending"]), (0, &report["pending"]));
    assert_eq!(std::fs::read(from).expect("bytes"), before);
    assert_eq!(copies(&workspace), [] as [PathBuf; 0]);
    workspace.write("configs/gateway.json", "{}");
    let (code, report) = checked(&workspace, &[]).await;
    assert_eq!(code, 65, "{report}");
    assert!(!report["problems"].as_array().expect("a list").is_empty());
}

#[tokio::test]
async fn after_an_upgrade_the_check_names_the_version_and_the_engine() {
    let app = lived().await;
    let (code, report) = checked(&app.workspace, &[]).await;
    assert_eq!(code, 0, "{report}");
    assert_eq!(
        report["written_by"][0]["version"],
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(report["pending"], serde_json::json!([]));
    assert_eq!(report["engine"], std::process::id().to_string());
    let next = report["next"].as_str().expect("a sentence");
    assert!(next.contains("stop the engine"), "{next}");
}

#[tokio::test]
async fn the_time_is_estimated_from_the_last_backup_of_the_engine() {
    let app = lived().await;
    let (_, report) = checked(&app.workspace, &[]).await;
    assert_eq!(report["seconds"], 1, "{report}");
    // The newest by hand is noted when it has been made, and one that failed measures nothing.
    let rows =
        "INSERT INTO backups (started_at, finished_at, is_scheduled, path, bytes, failure) VALUES
        ('2026-11-20T03:00:00.000Z', '2026-11-20T03:00:09.000Z', 1, 'a', 102400, NULL),
        ('2026-11-21T03:00:00.000Z', '2026-11-21T03:00:01.000Z', 1, 'b', 900000, 'no room'),
        ('2026-11-22T03:00:00.000Z', '2026-11-22T03:00:00.000Z', 0, 'c', 900000, NULL)";
    let mut conn = app.workspace.rows().await;
    db::query(rows).execute(&mut conn).await.expect("rows");
    let (_, report) = checked(&app.workspace, &[]).await;
    let origin = report["seconds_from"].as_str().unwrap_or_default();
    assert_eq!(
        origin,
        "the engine's last backup here took 10 s for 102400 bytes"
    );
    let spare = 64 * 1024 * 1024;
    let bytes = report["room_bytes"].as_u64().expect("a number") - spare;
    assert_eq!(report["seconds"], 1 + bytes * 10 / 102_400, "{report}");
}

#[tokio::test]
async fn a_newer_database_is_refused_by_the_names_of_both_versions() {
    let app = lived().await;
    let workspace = &app.workspace;
    let known = migration(&database(workspace)).await;
    let newer =
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
          VALUES (9001, 'later', 1, x'00', 0);
        INSERT INTO program_versions (version, first_seen_at, last_seen_at, migration)
          VALUES ('9.1.0', '2031-01-01T00:00:00.000Z', '2031-01-01T00:00:00.000Z', 9001)";
    let mut rows = workspace.rows().await;
    db::raw_sql(newer).execute(&mut rows).await.expect("newer");
    for command in [
        &["threads", "list"][..],
        &["upgrade"],
        &["doctor"],
        &["serve"],
    ] {
        let (code, stdout, stderr) = attache(workspace.path(), command).await;
        // What the doctor finds is its answer.
        let answer = format!("{stdout}{stderr}");
        let both = ["9.1.0", env!("CARGO_PKG_VERSION")];
        let is_named = both
            .iter()
            .all(|version| answer.contains(&format!("attache {version}")));
        assert!(
            code != 0 && (is_named || command == ["serve"]),
            "{command:?}: {answer}"
        );
    }
    let (code, report) = checked(workspace, &[]).await;
    assert_eq!(code, 1, "{report}");
    assert!(
        report["next"]
            .as_str()
            .expect("a sentence")
            .contains("attache 9.1.0")
    );
    let back = "DELETE FROM _sqlx_migrations WHERE version = 9001; DELETE FROM program_versions WHERE migration = 9001";
    db::raw_sql(back).execute(&mut rows).await.expect("back");
    assert_eq!(migration(&database(workspace)).await, known);
    let (code, _, stderr) = attache(workspace.path(), &["threads", "list"]).await;
    assert_eq!(code, 0, "{stderr}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn a_database_of_another_program_is_refused_and_left_as_it_is() {
    let workspace = Workspace::new(&script());
    std::fs::create_dir(workspace.path().join("data")).expect("a folder");
    let path = workspace.path().join("data/attache.db");
    std::fs::File::create(&path).expect("a file");
    let mut rows = db::Connection::file(&path).await;
    let theirs = "CREATE TABLE messages (a TEXT); INSERT INTO messages VALUES ('theirs')";
    let done = db::raw_sql(theirs).execute(&mut rows).await;
    done.expect("a table");
    rows.close().await.expect("closed");
    for command in [
        &["threads", "list"][..],
        &["drain"],
        &["upgrade", "--check"],
        &["doctor", "--audit"],
    ] {
        let (code, _, stderr) = attache(workspace.path(), command).await;
        let is_said = stderr.contains("`data/attache.db` is a database of another program");
        assert!(is_said, "{command:?}: {stderr}");
        assert_eq!(code, 65, "{command:?}: {stderr}");
    }
    let mut rows = db::Connection::file(&path).await;
    let kept: String = db::query_scalar(
        "SELECT group_concat(name || (SELECT a FROM messages)) FROM sqlite_schema",
    )
    .fetch_one(&mut rows)
    .await
    .expect("its table");
    assert_eq!(kept, "messagestheirs");
}

#[tokio::test]
async fn a_database_of_a_development_version_is_refused_in_a_sentence() {
    let workspace = older().await;
    attache(workspace.path(), &["upgrade"]).await;
    let development = "DELETE FROM _sqlx_migrations WHERE version > 200;
        UPDATE _sqlx_migrations SET version = 101";
    let mut rows = workspace.rows().await;
    let done = db::raw_sql(development).execute(&mut rows).await;
    done.expect("older");
    rows.close().await.expect("closed");
    for command in [
        &["threads", "list"][..],
        &["upgrade"],
        &["upgrade", "--check"],
        &["serve"],
    ] {
        let (code, _, stderr) = attache(workspace.path(), command).await;
        let is_said =
            stderr.contains("a development version before 0.2.0, which this version cannot read");
        assert!(
            is_said && stderr.contains("move the folder `data` away"),
            "{command:?}: {stderr}"
        );
        assert_eq!(code, 65, "{command:?}: {stderr}");
    }
    assert_eq!(
        migration(&database(&workspace)).await,
        101,
        "it is left as it was"
    );
}

#[tokio::test]
async fn an_upgrade_without_room_for_its_copy_is_refused_with_the_figures() {
    let workspace = older().await;
    let folder = workspace.path().join("data/backups");
    // A file system of the kernel's, on which nothing is free.
    std::os::unix::fs::symlink("/proc", &folder).expect("a link");
    let (code, _, stderr) = attache(workspace.path(), &["upgrade"]).await;
    assert_eq!(code, 73, "{stderr}");
    assert!(
        stderr.contains("and 0 are free") && stderr.contains("--without-backup"),
        "{stderr}"
    );
    assert_eq!(migration(&database(&workspace)).await, BEFORE);
    let (code, report) = checked(&workspace, &[]).await;
    assert_eq!(code, 73, "{report}");
    let (code, _, stderr) = attache(workspace.path(), &["upgrade", "--without-backup"]).await;
    assert_eq!(code, 0, "{stderr}");
    assert!(migration(&database(&workspace)).await > BEFORE);
}

#[tokio::test]
async fn no_command_changes_the_tables_under_an_engine_of_an_earlier_version() {
    let workspace = older().await;
    let lock = File::create(workspace.path().join("data/engine.lock")).expect("a lock");
    lock.lock().expect("locked");
    let (code, _, stderr) = attache(workspace.path(), &["threads", "list"]).await;
    assert_eq!(code, 75, "{stderr}");
    assert!(stderr.contains("of an earlier version"), "{stderr}");
    assert_eq!(migration(&database(&workspace)).await, BEFORE);
    lock.unlock().expect("unlocked");
    let (code, _, stderr) = attache(workspace.path(), &["threads", "list"]).await;
    assert_eq!(code, 0, "{stderr}");
}

/// Where an upgrade dies, and how many migrations it has applied then: in the copy (K3), before and after it has its name, inside
/// of a migration, after it.
const DEATHS: [(&str, i64); 6] = [
    ("K3:1", 0),
    ("U1:1", 0),
    ("U2:1", 0),
    ("U4:1", 0),
    ("U4:9", 0),
    ("U3:1", 1),
];

/// Runs `attache upgrade` until it dies at a point.
fn dies(workspace: &Workspace, order: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command
        .current_dir(workspace.path())
        .arg("upgrade")
        .env_remove("ATTACHE_WORKSPACE")
        .env("ATTACHE_CRASH", order);
    let output = command.output().expect("the binary runs");
    assert_eq!(output.status.signal(), Some(SIGABRT), "{order}: {output:?}");
}

/// The tables with their numbers of rows, and the migrations. Without the versions that wrote it: after a death behind the last
/// migration, the next engine notes its own, and no command does.
async fn content(file: &Path) -> (Vec<String>, i64) {
    let mut conn = open(file).await;
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '%\\_fts%' ESCAPE '\\' AND name <> 'program_versions' ORDER BY name";
    let tables: Vec<String> = db::query_scalar(tables)
        .fetch_all(&mut conn)
        .await
        .expect("tables");
    let mut counted = Vec::new();
    for table in tables {
        let sql = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM \"{table}\""));
        let rows: i64 = db::query_scalar(sql)
            .fetch_one(&mut conn)
            .await
            .expect("rows");
        counted.push(format!("{table} {rows}"));
    }
    (counted, migration(file).await)
}

#[tokio::test]
async fn an_upgrade_that_dies_anywhere_is_finished_by_the_next_start() {
    let straight = older().await;
    attache(straight.path(), &["upgrade"]).await;
    let straight = content(&database(&straight)).await;
    for (order, applied) in DEATHS {
        let workspace = older().await;
        dies(&workspace, order);
        let applied_now = "SELECT count(*) FROM _sqlx_migrations WHERE version > 200";
        let found = number(&database(&workspace), applied_now).await;
        assert_eq!(found, applied, "{order}");
        let (code, _, stderr) = attache(workspace.path(), &["upgrade"]).await;
        assert_eq!(code, 0, "{order}: {stderr}");
        assert_eq!(content(&database(&workspace)).await, straight, "{order}");
        let mut oldest = i64::MAX;
        for copy in copies(&workspace) {
            assert!(
                copy.extension().is_some_and(|ending| ending == "db"),
                "{order}: {copy:?} was left"
            );
            assert_eq!(
                number(&copy, "SELECT count(*) FROM messages").await,
                i64::from(LETTERS)
            );
            oldest = oldest.min(migration(&copy).await);
        }
        assert_eq!(
            oldest, BEFORE,
            "{order}: the database as it was is not there"
        );
    }
}

#[tokio::test]
async fn starts_that_die_again_and_again_leave_one_copy_and_three_stay() {
    let workspace = older().await;
    let folder = workspace.path().join("data/backups");
    std::fs::create_dir(&folder).expect("a folder");
    for year in 2020..2025 {
        let name = format!("before-0.0.{}-{year}0101T000000Z.db", year % 7);
        std::fs::write(folder.join(name), "an older copy").expect("written");
    }
    for _ in 0..4 {
        dies(&workspace, "U2:1");
        assert_eq!(copies(&workspace).len(), 6);
    }
    attache(workspace.path(), &["upgrade"]).await;
    let kept = copies(&workspace);
    assert_eq!(kept.len(), 3, "{kept:?}");
    let years: Vec<bool> = ["2023", "2024", "202"]
        .iter()
        .map(|year| {
            kept.iter()
                .any(|copy| copy.to_string_lossy().contains(&format!("-{year}")))
        })
        .collect();
    assert_eq!(years, [true; 3], "{kept:?}");
    let mine = format!("before-{}", env!("CARGO_PKG_VERSION"));
    assert!(
        kept.iter()
            .any(|copy| copy.to_string_lossy().contains(&mine)),
        "{kept:?}"
    );
}
