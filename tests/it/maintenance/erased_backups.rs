//! Backups that were made before an erasure: its report names them, and they go when it says.

use super::erasure::{CAROL, carol, erase, files, stopped};
use super::whole_backup::{DAY, backed_up, scripted};
use super::workspace::attache;
use crate::app::Workspace;
use crate::app::database::is_sqlite_only;
use attache::keeping::{BackupWorker, backups_in};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const WORDS: &str = "The saffron ferry crosses before dawn and carries nobody.";

fn hold_words(folder: &Path) -> usize {
    let mut all = Vec::new();
    files(folder, &mut all);
    let texts = all.iter().filter_map(|file| std::fs::read(file).ok());
    texts
        .filter(|bytes| bytes.windows(13).any(|window| window == b"saffron ferry"))
        .count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn the_report_names_the_backups_that_hold_the_words_and_they_go_when_it_says() {
    if is_sqlite_only("backups of a file") {
        return;
    }
    let (app, place, worker) = scripted(&json!({ "rules": [{ "say": "Thank you." }] }), 2).await;
    let folder = place.path().join("backups");
    app.run_of(&carol("k1", "", "Ferry", WORDS)).await;
    app.drain().await;
    assert!(worker.work_once().await.expect("made"));
    let (_place, by_hand) = backed_up(&app.workspace).await;
    assert!(hold_words(&folder) > 0 && hold_words(&by_hand) > 0);
    drop(worker);
    let workspace = stopped(app).await;
    let report = erase(&workspace, &["--quotes"]).await;
    assert_eq!(hold_words(workspace.path()), 0, "{report}");
    let (scheduled, _) = backups_in(&folder).pop().expect("a backup");
    let named = report["backups"].as_array().expect("backups");
    let goes = |path: &Path| {
        let mut of_path = named
            .iter()
            .filter(|one| one["path"] == path.to_string_lossy().as_ref());
        of_path
            .next()
            .map(|one| one["goes"].as_str().unwrap_or_default().to_owned())
    };
    let scheduled = goes(&scheduled).expect("the scheduled one");
    assert!(
        scheduled.starts_with("when 2 newer ones are there, one each 1d"),
        "{report}"
    );
    assert!(
        goes(&by_hand).is_some_and(|goes| goes.starts_with("by `rm -r`")),
        "{report}"
    );
    let app = workspace.start().await;
    let worker = BackupWorker::new(&app.engine.store, &app.engine.config);
    // The control: with one newer one it is still there.
    for held in [true, false] {
        app.workspace.clock.advance(DAY);
        assert!(worker.work_once().await.expect("made"));
        assert_eq!(hold_words(&folder) > 0, held);
    }
}

/// Paths of the backups that a dry run names in a workspace, with how they go.
async fn named(workspace: &Path) -> BTreeMap<String, String> {
    let dry = ["erase", "--contact", CAROL, "--dry-run", "--json"];
    let (code, stdout, stderr) = attache(workspace, &dry).await;
    assert_eq!(code, 0, "{stderr}");
    let forecast: Value = serde_json::from_str(&stdout).expect("JSON");
    let backups = forecast["backups"].as_array().expect("backups").iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    backups
        .map(|one| (text(&one["path"]), text(&one["goes"])))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn backups_that_lie_here_are_named_also_after_the_workspace_is_moved_or_copied() {
    if is_sqlite_only("backups of a file") {
        return;
    }
    let app = Workspace::new(&json!({ "rules": [{ "say": "Thank you." }] }))
        .start()
        .await;
    app.run_of(&carol("k1", "", "Ferry", WORDS)).await;
    app.drain().await;
    let workspace = stopped(app).await;
    let elsewhere = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(workspace.path().join("data/backups")).expect("a folder");
    let place = |name: &str| elsewhere.path().join(name).to_string_lossy().into_owned();
    let (third, lost) = (place("third.db"), place("lost.db"));
    for to in [
        "data/backups/mine/",
        "data/backups/second.db",
        &third,
        &lost,
    ] {
        let (code, stdout, stderr) = attache(workspace.path(), &["backup", to]).await;
        assert_eq!(code, 0, "{to}: {stdout}{stderr}");
    }
    std::fs::remove_file(&lost).expect("removed");
    let copy = tempfile::tempdir().expect("a folder");
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .arg(workspace.path().join("."))
        .arg(copy.path())
        .status();
    assert!(copied.expect("cp runs").success());
    let of = |workspace: &Path, name: &str| {
        let path = workspace.join("data/backups").join(name);
        path.to_string_lossy().trim_end_matches('/').to_owned()
    };
    let here = |workspace: &Path| [of(workspace, "mine"), of(workspace, "second.db")];
    let trimmed = |found: &BTreeMap<String, String>| -> BTreeSet<String> {
        found
            .keys()
            .map(|path| path.trim_end_matches('/').to_owned())
            .collect()
    };
    let others = [third, lost.clone()];
    let found = named(copy.path()).await;
    let all = here(copy.path()).into_iter().chain(here(workspace.path()));
    let all: BTreeSet<String> = all.chain(others.clone()).collect();
    assert_eq!(trimmed(&found), all);
    assert!(found[&lost].contains("is not there now"), "{found:?}");
    // As after a move: where they were made nothing is any more.
    drop(workspace);
    let found = trimmed(&named(copy.path()).await);
    let all: BTreeSet<String> = here(copy.path()).into_iter().chain(others).collect();
    assert_eq!(found, all);
}
