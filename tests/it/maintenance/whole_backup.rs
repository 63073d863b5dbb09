//! Backups of a whole workspace: made and checked, restored, moved; made by the engine by the clock.

use super::workspace::{attache, lived, script};
use crate::app::database::is_sqlite_only;
use crate::app::{TestApp, Workspace, proven_note as note};
use attache::domain::Email;
use attache::keeping::{BackupWorker, backups_in};
use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// Points that these tests come to, in place of a workload of the sweep.
pub const POINTS: &[&str] = &["K1", "K2"];

/// `abort` ends a process by this signal.
const SIGABRT: i32 = 6;

/// Stops the engine of a test.
pub async fn stopped(app: TestApp) -> Workspace {
    let TestApp { workspace, engine } = app;
    engine.store.clone().close().await;
    workspace
}

/// A whole backup, by the command, in a folder of its own.
pub async fn backed_up(workspace: &Workspace) -> (TempDir, PathBuf) {
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().join("whole");
    let typed = format!("{}/", folder.display());
    let (code, stdout, stderr) = attache(workspace.path(), &["backup", &typed]).await;
    assert_eq!(code, 0, "{stdout}{stderr}");
    (place, folder)
}

async fn restored(from: &Workspace, backup: &Path) -> Workspace {
    let restored = Workspace {
        dir: tempfile::tempdir().expect("a folder"),
        clock: from.clock.clone(),
        scripted: from.scripted.clone(),
    };
    let to = restored.path().to_string_lossy().into_owned();
    let args = ["restore", &backup.to_string_lossy(), "--to", &to];
    let (code, stdout, stderr) = attache(from.path(), &args).await;
    assert_eq!(code, 0, "{stdout}{stderr}");
    restored
}

pub async fn code_of(workspace: &Workspace, args: &[&str]) -> (i32, String) {
    let (code, _, stderr) = attache(workspace.path(), args).await;
    (code, stderr)
}

/// A file of a workspace or a backup.
fn text(folder: &Path, path: &str) -> String {
    std::fs::read_to_string(folder.join(path)).expect("a file")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_below_a_folder_that_is_not_there_is_refused() {
    let workspace = stopped(lived().await).await;
    let place = tempfile::tempdir().expect("a folder");
    for name in ["away/house/", "away/house.db"] {
        let typed = format!("{}/{name}", place.path().display());
        let (code, said) = code_of(&workspace, &["backup", &typed]).await;
        assert_eq!(code, 73, "{said}");
        for words in ["there is no folder `", "/away`", "disk is mounted"] {
            assert!(said.contains(words), "{words} is missing in {said}");
        }
        assert!(!place.path().join("away").exists(), "{name} was begun");
    }
    let typed = format!("{}/house/", place.path().display());
    assert_eq!(code_of(&workspace, &["backup", &typed]).await.0, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn a_moved_workspace_answers_the_next_letter_in_its_thread_and_sends_nothing_twice() {
    let app = lived().await;
    let sent: Vec<Option<String>> = app.sent().into_iter().map(|mail| mail.message_id).collect();
    assert!(!sent.is_empty());
    let workspace = stopped(app).await;
    let (_place, backup) = backed_up(&workspace).await;
    let moved = restored(&workspace, &backup).await.start().await;
    moved.drain().await;
    assert!(moved.sent().is_empty(), "something was sent again");
    let next = note(
        "q3@guest.example",
        "In-Reply-To: <q2@guest.example>\nReferences: <q1@guest.example> <q2@guest.example>\n",
        "And on Mondays?",
    );
    let run = moved.run_of(&next).await;
    moved.drain().await;
    let threads = "SELECT CAST((SELECT thread_id FROM messages WHERE message_id = 'q1@guest.example') = thread_id AS TEXT)
        FROM runs WHERE id = $1";
    assert_eq!(moved.row(threads, &run).await, [Some("1".to_owned())]);
    let prompt = moved.prompts(&run).await[0].to_string();
    assert!(prompt.contains("And on Sundays?"), "{prompt}");
    let new = moved.sent();
    let again = new.iter().filter(|mail| sent.contains(&mail.message_id));
    assert_eq!(again.count(), 0);
    let answers = |mail: &&Email| mail.in_reply_to == ["q3@guest.example"];
    assert_eq!(new.iter().filter(answers).count(), 1);
    moved.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn a_whole_backup_holds_every_file_for_its_owner_alone_and_says_what_it_leaves_out() {
    let app = lived().await;
    let workspace = &app.workspace;
    workspace.write(".secrets", "KEY=value\n");
    workspace.write("data/tokens/mailbox.json", "{}");
    workspace.write("data/workspaces/ada/notes.txt", "an earlier version");
    workspace.write("data/outbox/kept.txt", "not copied");
    // Whatever the configuration may name.
    let named = ["hooks/no-iban", "dkim.pem", "prompts/system.md"];
    for path in named {
        workspace.write(path, "of the owner");
    }
    workspace.write(".git/HEAD", "ref: refs/heads/main");
    workspace.write("earlier/data/attache.db", "another backup");
    workspace.write(
        "cache/CACHEDIR.TAG",
        "Signature: 8a477f597d28d172789f06886806bc55",
    );
    let database = workspace.path().join("data/attache.db");
    std::fs::copy(database, workspace.path().join("before.db")).expect("a copy");
    let program = workspace.path().join("configs/tools/stock");
    std::fs::create_dir_all(&program).expect("a folder");
    std::fs::write(program.join("run"), "#!/bin/sh\n").expect("a program");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(program.join("run"), mode).expect("a mode");
    symlink("/etc/hostname", workspace.path().join("personas/ada/link")).expect("a link");
    let (_place, backup) = backed_up(workspace).await;
    let mode = |path: &str| {
        let found = std::fs::metadata(backup.join(path)).expect(path);
        found.permissions().mode() & 0o777
    };
    assert_eq!(mode("."), 0o700);
    assert_eq!(mode("data/attache.db"), 0o600);
    assert_eq!(mode(".secrets"), 0o600);
    assert_eq!(mode("configs/tools/stock/run"), 0o700);
    assert_eq!(text(&backup, ".secrets"), "KEY=value\n");
    assert_eq!(
        text(&backup, "data/workspaces/ada/notes.txt"),
        "an earlier version"
    );
    assert!(backup.join("data/tokens/mailbox.json").exists());
    assert!(!backup.join("data/outbox").exists());
    let manifest: Value = serde_json::from_str(&text(&backup, "manifest.json")).expect("JSON");
    let left_out = [".git", "before.db", "cache", "earlier", "personas/ada/link"];
    assert_eq!(manifest["left_out"], json!(left_out));
    for path in named {
        assert_eq!(text(&backup, path), "of the owner");
    }
    assert_eq!(manifest["program"], env!("CARGO_PKG_VERSION"));
    let whole = backup.to_string_lossy().into_owned();
    let (code, stderr) = code_of(workspace, &["backup", "verify", &whole]).await;
    assert_eq!(code, 0, "{stderr}");
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_backup_that_was_changed_is_named_and_not_restored() {
    let app = lived().await;
    type Change = fn(&Path);
    let changes: [(&str, Change); 4] = [
        ("configs/gateway.json` was changed", |backup| {
            let path = backup.join("configs/gateway.json");
            let more = std::fs::read_to_string(&path).expect("a file") + " ";
            std::fs::write(path, more).expect("changed");
        }),
        ("PERSONA.md` cannot be read", |backup| {
            std::fs::remove_file(backup.join("personas/ada/PERSONA.md")).expect("removed");
        }),
        ("configs/more.json` was added", |backup| {
            std::fs::write(backup.join("configs/more.json"), "{}").expect("added");
        }),
        ("data/attache.db` was changed", |backup| {
            let path = backup.join("data/attache.db");
            let mut bytes = std::fs::read(&path).expect("a database");
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            std::fs::write(path, bytes).expect("changed");
        }),
    ];
    for (named, change) in changes {
        let (place, backup) = backed_up(&app.workspace).await;
        let path = backup.to_string_lossy().into_owned();
        let to = place.path().join("restored").to_string_lossy().into_owned();
        change(&backup);
        let verify = ["backup", "verify", &path];
        let (code, stdout, _) = attache(app.workspace.path(), &verify).await;
        assert!(
            code == 65 && stdout.contains(named),
            "{named}: {code} {stdout}"
        );
        let (code, stderr) = code_of(&app.workspace, &["restore", &path, "--to", &to]).await;
        assert!(
            code == 65 && stderr.contains(named),
            "{named}: {code} {stderr}"
        );
        assert!(!Path::new(&to).exists(), "{named}");
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_restore_refuses_leftovers_other_files_and_a_working_engine() {
    let app = lived().await;
    let (place, backup) = backed_up(&app.workspace).await;
    let backup = backup.to_string_lossy().into_owned();
    let to = place.path().join("to");
    let typed = to.to_string_lossy().into_owned();
    for left in [
        "attache.db",
        "attache.db-wal",
        "attache.db-shm",
        "attache.db-journal",
    ] {
        std::fs::create_dir_all(to.join("data")).expect("a folder");
        std::fs::write(to.join("data").join(left), "").expect("left");
        let (code, stderr) = code_of(&app.workspace, &["restore", &backup, "--to", &typed]).await;
        assert!(
            code == 78 && stderr.contains(left) && stderr.contains("hint:"),
            "{left}: {stderr}"
        );
        std::fs::remove_dir_all(&to).expect("removed");
    }
    std::fs::create_dir(&to).expect("a folder");
    std::fs::write(to.join("letter.txt"), "mine").expect("a file");
    let (code, stderr) = code_of(&app.workspace, &["restore", &backup, "--to", &typed]).await;
    assert_eq!(code, 73, "{stderr}");
    let own = app.workspace.path().to_string_lossy().into_owned();
    let (code, stderr) = code_of(&app.workspace, &["restore", &backup, "--to", &own]).await;
    assert!(
        code == 78 && stderr.contains("an engine (process"),
        "{stderr}"
    );
    // The control: without any of it the same command works.
    std::fs::remove_dir_all(&to).expect("removed");
    let (code, stderr) = code_of(&app.workspace, &["restore", &backup, "--to", &typed]).await;
    assert_eq!(code, 0, "{stderr}");
}

/// Runs a command that dies at a point.
pub fn dies(workspace: &Workspace, order: &str, args: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command
        .current_dir(workspace.path())
        .args(args)
        .env_remove("ATTACHE_WORKSPACE")
        .env("ATTACHE_CRASH", order);
    let output = command.output().expect("the binary runs");
    assert_eq!(output.status.signal(), Some(SIGABRT), "{order}: {output:?}");
}

#[tokio::test]
#[ignore = "second tier"]
async fn what_dies_in_a_backup_or_a_restore_leaves_nothing_that_looks_whole() {
    let app = lived().await;
    let place = tempfile::tempdir().expect("a folder");
    let (folder, to) = (place.path().join("whole"), place.path().join("to"));
    let typed = format!("{}/", folder.display());
    dies(&app.workspace, "K1:1", &["backup", &typed]);
    assert!(!folder.exists());
    let (code, stderr) = code_of(&app.workspace, &["backup", &typed]).await;
    assert_eq!(code, 0, "{stderr}");
    let names = std::fs::read_dir(place.path()).expect("a folder").count();
    assert_eq!(names, 1, "something else was left");
    let target = to.to_string_lossy().into_owned();
    dies(
        &app.workspace,
        "K2:1",
        &["restore", &typed, "--to", &target],
    );
    // No engine makes a new database in the place of the one that is missing.
    let half = ["--workspace", &target, "threads", "list"];
    let (code, stderr) = code_of(&app.workspace, &half).await;
    assert!(code == 78 && stderr.contains("restoring"), "{stderr}");
    let (code, _) = code_of(&app.workspace, &["restore", &typed, "--to", &target]).await;
    assert_eq!(code, 73);
    std::fs::remove_dir_all(&to).expect("removed, as the hint says");
    let (code, stderr) = code_of(&app.workspace, &["restore", &typed, "--to", &target]).await;
    assert_eq!(code, 0, "{stderr}");
}

async fn by_the_clock(count: u32) -> (TestApp, TempDir, BackupWorker) {
    scripted(&script(), count).await
}

/// An engine with backups in a folder, and what makes them.
pub async fn scripted(script: &Value, count: u32) -> (TestApp, TempDir, BackupWorker) {
    let workspace = Workspace::new(script);
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().join("backups");
    let backup = json!({ "every": "1d", "at": "03:30", "folder": folder, "count": count });
    workspace.write_json("configs/keeping.json", &json!({ "backup": backup }));
    let app = workspace.start().await;
    let worker = BackupWorker::new(&app.engine.store, &app.engine.config);
    (app, place, worker)
}

pub const DAY: Duration = Duration::from_secs(24 * 3600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn the_engine_makes_a_backup_a_day_checks_it_and_keeps_so_many() {
    if is_sqlite_only("backups of a file") {
        return;
    }
    let (app, place, worker) = by_the_clock(2).await;
    let folder = place.path().join("backups");
    for day in 1..=4 {
        app.run_of(&note(&format!("d{day}@guest.example"), "", "Hello."))
            .await;
        app.drain().await;
        assert!(worker.work_once().await.expect("tried"), "day {day}");
        assert!(!worker.work_once().await.expect("not again"), "day {day}");
        let last = app.engine.store.last_backup().await.expect("a row");
        let good = last.good.clone().expect("a good one");
        assert!(!last.has_failed() && good.bytes > 0, "{last:?}");
        assert_eq!(good.started, app.engine.store.clock().now());
        assert_eq!(backups_in(&folder).len(), day.min(2));
        app.workspace.clock.advance(DAY);
    }
    for (backup, is_good) in backups_in(&folder) {
        assert!(is_good);
        let path = backup.to_string_lossy().into_owned();
        let (code, stderr) = code_of(&app.workspace, &["backup", "verify", &path]).await;
        assert_eq!(code, 0, "{stderr}");
    }
    let (newest, _) = backups_in(&folder).pop().expect("a backup");
    let restored = restored(&app.workspace, &newest).await.start().await;
    let letters = "SELECT CAST(count(*) AS TEXT) FROM messages WHERE message_id LIKE $1";
    assert_eq!(
        restored.row(letters, "d_@guest.example").await,
        [Some("4".to_owned())]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_that_fails_is_told_once_a_day_tried_again_and_pushes_out_no_good_one() {
    if is_sqlite_only("backups of a file") {
        return;
    }
    let (app, place, worker) = by_the_clock(1).await;
    let folder = place.path().join("backups");
    assert!(worker.work_once().await.expect("tried"));
    let away = place.path().join("away");
    std::fs::rename(&folder, &away).expect("moved");
    std::fs::write(&folder, "a file in its place").expect("written");
    app.workspace.clock.advance(DAY);
    for hour in 0..3 {
        assert!(worker.work_once().await.expect("tried"), "hour {hour}");
        assert!(!worker.work_once().await.expect("not yet"), "hour {hour}");
        app.workspace.clock.advance(Duration::from_secs(3600));
    }
    let last = app.engine.store.last_backup().await.expect("rows");
    assert!(last.has_failed() && last.good.is_some(), "{last:?}");
    app.drain().await;
    let told = app.notices();
    let [notice] = told.as_slice() else {
        panic!("{} mails", told.len())
    };
    let body = notice.text.clone();
    assert!(
        body.contains("could not be made") && body.contains("attache backup DIR/"),
        "{body}"
    );
    std::fs::remove_file(&folder).expect("removed");
    std::fs::rename(&away, &folder).expect("moved back");
    assert!(worker.work_once().await.expect("tried"));
    let last = app.engine.store.last_backup().await.expect("rows");
    assert!(!last.has_failed(), "{last:?}");
    assert_eq!(backups_in(&folder).len(), 1);
}
