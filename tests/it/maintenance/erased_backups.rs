//! Backups that were made before an erasure: its report names them, and they go when it says.

use super::erasure::{carol, erase, files, stopped};
use super::whole_backup::{DAY, backed_up, scripted};
use attache::keeping::{BackupWorker, backups_in};
use serde_json::json;
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
async fn the_report_names_the_backups_that_hold_the_words_and_they_go_when_it_says() {
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
