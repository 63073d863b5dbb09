//! Backups: made while an engine works, whole under their name or not there, and a working engine when restored.

use super::workspace::{attache, lived};
use crate::app::db;
use crate::app::{TestApp, Workspace, note};
use attache::store::audit::{Audit, AuditScope};
use attache::store::sqlite::backup::{self, copy_database};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

const EVERYTHING: AuditScope = AuditScope {
    bytes: true,
    at_rest: false,
};

/// A new workspace from a backup and the plain files, as the command's last words say.
pub fn restore(from: &Workspace, backup: &Path) -> Workspace {
    let dir = tempfile::tempdir().expect("a folder");
    let restored = Workspace {
        dir,
        clock: from.clock.clone(),
        scripted: from.scripted.clone(),
    };
    for folder in ["configs", "personas"] {
        copy_folder(&from.path().join(folder), &restored.path().join(folder));
    }
    std::fs::create_dir(restored.path().join("data")).expect("a folder");
    std::fs::copy(backup, restored.path().join("data/attache.db")).expect("a restored database");
    restored
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("a copy");
        }
    }
}

async fn count(workspace: &Workspace, sql: &'static str) -> i64 {
    db::query_scalar(sql)
        .fetch_one(&mut workspace.rows().await)
        .await
        .expect("a count")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn a_backup_under_load_has_every_accepted_letter_and_restores() {
    let app = lived().await;
    for n in 0..20 {
        app.receive(&note(&format!("before-{n}@guest.example"), "", "Before."))
            .await
            .expect("taken");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (file, is_made) = (folder.path().join("monday.db"), AtomicBool::new(false));
    let making = async {
        let said = attache(
            app.workspace.path(),
            &["backup", &file.to_string_lossy(), "--json"],
        )
        .await;
        is_made.store(true, Ordering::SeqCst);
        said
    };
    let load = async {
        let mut taken = 0;
        while !is_made.load(Ordering::SeqCst) {
            app.receive(&note(
                &format!("during-{taken}@guest.example"),
                "",
                "During.",
            ))
            .await
            .expect("taken");
            taken += 1;
        }
        taken
    };
    let ((code, stdout, stderr), taken) = tokio::join!(making, load);
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert!(taken > 0, "there was no load");
    let said: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(said["broken_checks"], serde_json::json!([]), "{said}");
    let mode = std::fs::metadata(&file)
        .expect("the backup")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(
        std::fs::read_dir(folder.path())
            .expect("its folder")
            .count(),
        1,
        "something else was left there"
    );

    works_when_restored(&app, &file).await;
}

/// An engine on the restored backup is whole, verifies and answers what waited.
async fn works_when_restored(app: &TestApp, file: &Path) {
    let epoch = app.engine.store.epoch();
    let restored = restore(&app.workspace, file);
    let before = "SELECT count(*) FROM messages m JOIN runs r ON r.trigger_message_id = m.id
        WHERE m.message_id LIKE 'before-%'";
    assert_eq!(count(&restored, before).await, 20);
    let mut audit = Audit::open(&restored.path().join("data/attache.db"))
        .await
        .expect("a database");
    let findings = audit.examine(EVERYTHING).await.expect("an audit");
    assert!(findings.broken.is_empty(), "{:#?}", findings.broken);
    let (code, stdout, stderr) = attache(restored.path(), &["replay", "verify", "--all"]).await;
    assert_eq!(
        code, 0,
        "who only reads cannot open what was restored: {stdout}{stderr}"
    );
    let restored = restored.start().await;
    assert_eq!(restored.engine.store.epoch(), epoch + 1);
    restored.drain().await;
    restored.check().await;
    let answered = "SELECT count(*) FROM messages m JOIN runs r ON r.trigger_message_id = m.id
        WHERE m.message_id LIKE 'before-%' AND r.state = 'succeeded'";
    assert_eq!(count(&restored.workspace, answered).await, 20);
}

#[tokio::test]
#[ignore = "second tier"]
async fn mail_in_an_engines_hands_is_sent_the_same_by_a_restored_one() {
    let app = lived().await;
    let sent = app.sent();
    let queue = "UPDATE deliveries SET state = 'committing', finished_at = NULL;
        UPDATE delivery_recipients SET state = 'queued'";
    db::raw_sql(queue)
        .execute(&mut app.workspace.rows().await)
        .await
        .expect("rows");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("b.db");
    let (code, stdout, stderr) =
        attache(app.workspace.path(), &["backup", &file.to_string_lossy()]).await;
    assert_eq!(code, 0, "{stdout}{stderr}");
    let restored = restore(&app.workspace, &file).start().await;
    restored.drain().await;
    let ids = |mails: &[attache::domain::Email]| {
        let mut ids: Vec<_> = mails
            .iter()
            .map(|mail| format!("{:?}", mail.message_id))
            .collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(&restored.sent()), ids(&sent));
    let flagged = "SELECT count(*) FROM deliveries WHERE possible_duplicate = 1 AND state = 'done'";
    assert_eq!(count(&restored.workspace, flagged).await, sent.len() as i64);
}

#[tokio::test]
async fn a_file_that_exists_is_not_replaced_unless_told_so() {
    let app = lived().await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("b.db");
    std::fs::write(&file, "precious").expect("a file");
    let (code, _, stderr) =
        attache(app.workspace.path(), &["backup", &file.to_string_lossy()]).await;
    assert_eq!(code, 73, "{stderr}");
    assert!(stderr.contains("exists"), "{stderr}");
    assert_eq!(std::fs::read(&file).expect("the file"), b"precious");
    let (code, _, stderr) = attache(
        app.workspace.path(),
        &["backup", "--force", &file.to_string_lossy()],
    )
    .await;
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(
        backup::content(&file).await.expect("a database").messages,
        messages(&app.workspace).await
    );
}

async fn messages(workspace: &Workspace) -> u64 {
    count(workspace, "SELECT count(*) FROM messages")
        .await
        .unsigned_abs()
}

/// It would take the place of what an engine may have open: whatever came later would be lost with a yes.
#[tokio::test]
#[ignore = "second tier"]
async fn the_database_is_never_replaced_by_its_backup_under_any_name() {
    let app = lived().await;
    let folder = tempfile::tempdir().expect("a folder");
    let (link, hard) = (
        folder.path().join("link.db"),
        app.workspace.path().join("data/hard.db"),
    );
    let database = app.workspace.path().join("data/attache.db");
    std::os::unix::fs::symlink(&database, &link).expect("a link");
    std::fs::hard_link(&database, &hard).expect("a link");
    for file in [
        "data/attache.db",
        "data/attache.db-wal",
        "data/../data/attache.db-journal",
    ] {
        let file = app.workspace.path().join(file);
        let (code, _, stderr) = attache(
            app.workspace.path(),
            &["backup", "--force", &file.to_string_lossy()],
        )
        .await;
        assert_eq!(
            (code, stderr.contains("another file")),
            (2, true),
            "{file:?}: {stderr}"
        );
    }
    for file in [link, hard] {
        let (code, _, stderr) = attache(
            app.workspace.path(),
            &["backup", "--force", &file.to_string_lossy()],
        )
        .await;
        assert_eq!(code, 2, "{stderr}");
    }
    app.check().await;
}

#[tokio::test]
async fn a_copy_during_which_the_log_is_too_long_is_given_up() {
    let app = lived().await;
    let folder = tempfile::tempdir().expect("a folder");
    let (from, to) = (
        app.workspace.path().join("data/attache.db"),
        folder.path().join("copy.db"),
    );
    std::fs::File::create(&to).expect("a file");
    let error = copy_database(&from, &to, 0)
        .await
        .expect_err("the log is longer than nothing");
    assert!(format!("{error:?}").contains("interrupted"), "{error:?}");
    std::fs::remove_file(&to).expect("a file");
    std::fs::File::create(&to).expect("a file");
    copy_database(&from, &to, backup::LOG_BYTES_MAX)
        .await
        .expect("a copy");
}

#[tokio::test]
async fn the_audit_is_a_command_with_an_exit_code() {
    let app = lived().await;
    let (code, stdout, stderr) =
        attache(app.workspace.path(), &["doctor", "--audit", "--json"]).await;
    assert_eq!(code, 0, "{stdout}{stderr}");
    let said: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(
        (&said["ok"], &said["engine_works"]),
        (&true.into(), &true.into()),
        "{said}"
    );
    assert_eq!(said["engine_pid"], std::process::id(), "{said}");
    let broken = "UPDATE raw_letters SET persona_id = 'eve'";
    db::raw_sql(broken)
        .execute(&mut app.workspace.rows().await)
        .await
        .expect("rows");
    let (code, stdout, _) = attache(
        app.workspace.path(),
        &["doctor", "--audit", "--quick", "--json"],
    )
    .await;
    assert_eq!(code, 1);
    let said: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(said["violations"][0]["check"], "personas-mixed", "{said}");
    let (code, stdout, _) = attache(app.workspace.path(), &["doctor"]).await;
    assert_eq!(code, 1);
    assert!(
        stdout.contains("AU14 personas-mixed") && stdout.contains("hint: "),
        "{stdout}"
    );
}
