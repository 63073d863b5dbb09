//! What makes a backup or restores one dies at each step: nothing half made counts, nothing is left behind, and the next
//! attempt does it all.

use super::whole_backup::{backed_up, code_of, dies, stopped};
use super::workspace::{attache, lived};
use crate::app::Workspace;
use crate::app::db;
use crate::recovery::place::{Running, until};
use attache::keeping::{BackupManifest, backups_in};
use attache::store::sqlite::backup::CopyFile;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;

/// Points that these tests come to, in place of a workload of the sweep.
pub const POINTS: &[&str] = &["K3", "K4", "K5", "K6"];

/// In the copy of the database, before the first plain file and between two, before the backup has its name, and after it.
const DEATHS: [&str; 5] = ["K3:1", "K4:1", "K4:3", "K1:1", "K5:1"];

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The newest backup that the workspace knows.
async fn newest(workspace: &Workspace) -> Value {
    let (code, out, error) = attache(workspace.path(), &["status", "--json"]).await;
    let status: Value =
        serde_json::from_str(&out).unwrap_or_else(|_| panic!("{code} {out}{error}"));
    status["last_backup"].clone()
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_whole_backup_that_dies_is_none_until_it_has_all() {
    let workspace = stopped(lived().await).await;
    for order in DEATHS {
        let place = tempfile::tempdir().expect("a folder");
        let typed = format!("{}/", place.path().join("whole").display());
        dies(&workspace, order, &["backup", &typed]);
        let is_whole = order == "K5:1";
        let left = if is_whole { "whole" } else { ".whole.tmp" };
        assert_eq!(names(place.path()), [left], "{order}");
        assert_eq!(
            newest(&workspace).await,
            Value::Null,
            "{order}: nothing was noted"
        );
        let half = place.path().join(left).display().to_string();
        let (code, error) = code_of(&workspace, &["backup", "verify", &half]).await;
        // The control of the name: what died with its manifest written is whole, and has no name.
        let has_manifest = is_whole || order == "K1:1";
        assert_eq!(code, if has_manifest { 0 } else { 65 }, "{order}: {error}");
        if is_whole {
            continue;
        }
        let (code, error) = code_of(&workspace, &["backup", &typed]).await;
        assert_eq!(
            (code, names(place.path())),
            (0, vec!["whole".to_owned()]),
            "{order}: {error}"
        );
        db::query("DELETE FROM backups")
            .execute(&mut workspace.rows().await)
            .await
            .expect("forgotten");
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_copy_of_the_database_that_died_goes_with_the_next_and_one_at_work_stays() {
    let workspace = stopped(lived().await).await;
    let place = tempfile::tempdir().expect("a folder");
    let file = place.path().join("house.db");
    let typed = file.display().to_string();
    dies(&workspace, "K3:1", &["backup", &typed]);
    let [left] = <[String; 1]>::try_from(names(place.path())).expect("one file");
    assert!(
        left.starts_with(".house.db.") && left.ends_with(".tmp"),
        "{left}"
    );
    // Another process works on one of the same name: this one.
    let other = CopyFile::beside(&file).expect("a copy");
    let at_work = other
        .path()
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    assert_eq!(
        names(place.path()),
        std::slice::from_ref(&at_work),
        "the one that died has gone"
    );
    let (code, error) = code_of(&workspace, &["backup", &typed]).await;
    assert_eq!(code, 0, "{error}");
    let mut both = vec![at_work, "house.db".to_owned()];
    both.sort();
    assert_eq!(names(place.path()), both);
    drop(other);
    let (code, error) = code_of(&workspace, &["backup", "verify", &typed]).await;
    assert_eq!(code, 0, "{error}");
}

/// Lets the next backup be due, whatever became of the last.
async fn days_pass(workspace: &Workspace) {
    let started = "UPDATE backups SET started_at = '2026-01-01T00:00:00.000Z'";
    let mut rows = workspace.rows().await;
    db::query(started)
        .execute(&mut rows)
        .await
        .expect("a table");
}

#[tokio::test]
#[ignore = "second tier"]
async fn an_engine_that_dies_in_its_backup_makes_another_and_counts_no_half_one() {
    let workspace = stopped(lived().await).await;
    let backup = json!({ "every": "1d", "folder": "data/backups", "count": 3 });
    workspace.write_json("configs/keeping.json", &json!({ "backup": backup }));
    let folder = workspace.path().join("data/backups");
    for order in DEATHS {
        let _not_there_yet = std::fs::remove_dir_all(&folder);
        days_pass(&workspace).await;
        dies(&workspace, order, &["serve"]);
        let is_whole = usize::from(order == "K5:1");
        assert_eq!(
            backups_in(&folder).len(),
            is_whole,
            "{order}: a half one counts"
        );
        assert_eq!(names(&folder).len(), 1, "{order}");
        let good = "SELECT count(*) FROM backups WHERE finished_at IS NOT NULL AND failure IS NULL";
        let mut rows = workspace.rows().await;
        let before: i64 = db::query_scalar(good)
            .fetch_one(&mut rows)
            .await
            .expect("a number");
        days_pass(&workspace).await;
        let engine = Running::of({
            let mut command =
                crate::recovery::place::attache(workspace.path(), &["serve", "--log", "error"]);
            command.stderr(Stdio::piped());
            command
        });
        until("a backup", || backups_in(&folder).len() > is_whole);
        while db::query_scalar::<i64>(good)
            .fetch_one(&mut rows)
            .await
            .expect("a number")
            == before
        {
            crate::app::glance().await;
        }
        drop(engine);
        let kept = names(&folder);
        assert!(
            kept.iter().all(|name| !name.starts_with('.')),
            "{order}: {kept:?}"
        );
        let (code, error) = code_of(&workspace, &["doctor", "--audit"]).await;
        assert_eq!(code, 0, "{order}: {error}");
    }
}

/// The death of a restore that has all but the last plain file and the database.
fn before_the_last_file(backup: &str) -> String {
    let manifest = BackupManifest::read(Path::new(backup)).expect("a manifest");
    format!("K6:{}", manifest.files.len() - 1)
}

/// Restores until it dies; gives the folder.
fn half_restored(workspace: &Workspace, order: &str, backup: &str, to: &Path) -> String {
    let to = to.display().to_string();
    dies(workspace, order, &["restore", backup, "--to", &to]);
    to
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_restore_that_dies_leaves_no_workspace_and_is_done_in_a_new_folder() {
    let workspace = stopped(lived().await).await;
    let (place, backup) = backed_up(&workspace).await;
    let backup = backup.display().to_string();
    for order in ["K6:1", &before_the_last_file(&backup), "K2:1"] {
        let folder = place.path().join(order);
        let to = half_restored(&workspace, order, &backup, &folder);
        for look in [
            &["drain"][..],
            &["serve"],
            &["config", "check"],
            &["upgrade", "--check"],
        ] {
            let look = [&["--workspace", &to], look].concat();
            let (code, error) = code_of(&workspace, &look).await;
            assert!(
                code == 78 && error.contains("restoring") && error.contains("hint: restore again"),
                "{order}: {look:?}: {code} {error}"
            );
        }
        for look in ["status", "doctor"] {
            let look = ["--workspace", &to, look];
            let (code, said, error) = attache(workspace.path(), &look).await;
            let said = format!("{said}{error}");
            assert!(
                code != 0 && said.contains("restoring") && said.contains("restore again"),
                "{order}: {look:?}: {said}"
            );
        }
        let (code, error) = code_of(&workspace, &["restore", &backup, "--to", &to]).await;
        assert!(
            code == 73 && error.contains("interrupted restore"),
            "{order}: {error}"
        );
        std::fs::remove_dir_all(&folder).expect("removed, as the hint says");
        let (code, error) = code_of(&workspace, &["restore", &backup, "--to", &to]).await;
        assert_eq!(code, 0, "{order}: {error}");
        let (code, error) = code_of(&workspace, &["--workspace", &to, "doctor", "--audit"]).await;
        assert_eq!(code, 0, "{order}: {error}");
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn the_control_without_its_mark_an_engine_would_begin_anew_in_half_a_workspace() {
    let workspace = stopped(lived().await).await;
    let (place, backup) = backed_up(&workspace).await;
    let backup = backup.display().to_string();
    let folder = place.path().join("half");
    let to = half_restored(&workspace, &before_the_last_file(&backup), &backup, &folder);
    std::fs::remove_file(folder.join("data/.attache.db.restoring")).expect("the mark");
    let (code, error) = code_of(&workspace, &["--workspace", &to, "drain"]).await;
    assert_eq!(code, 0, "{error}");
    assert!(folder.join("data/attache.db").exists());
}

#[tokio::test]
async fn a_database_whose_restore_died_is_restored_by_the_next() {
    let workspace = stopped(lived().await).await;
    let place = tempfile::tempdir().expect("a folder");
    let file = place.path().join("house.db").display().to_string();
    let (code, error) = code_of(&workspace, &["backup", &file]).await;
    assert_eq!(code, 0, "{error}");
    let data = workspace.path().join("data");
    let letters = "SELECT count(*) FROM messages";
    let had: i64 = db::query_scalar(letters)
        .fetch_one(&mut workspace.rows().await)
        .await
        .expect("a number");
    std::fs::rename(&data, place.path().join("away")).expect("moved away");
    let to = half_restored(&workspace, "K2:1", &file, workspace.path());
    let (code, error) = code_of(&workspace, &["drain"]).await;
    assert!(code == 78 && error.contains("restoring"), "{code} {error}");
    let (code, error) = code_of(&workspace, &["restore", &file, "--to", &to]).await;
    assert_eq!(code, 0, "{error}");
    assert!(!data.join(".attache.db.restoring").exists());
    let has: i64 = db::query_scalar(letters)
        .fetch_one(&mut workspace.rows().await)
        .await
        .expect("a number");
    assert_eq!(has, had);
}
