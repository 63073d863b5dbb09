//! A damaged database is named by whoever looks at it, with what helps against damage and nothing else.

use super::whole_backup::stopped;
use super::workspace::{attache, lived};
use crate::app::Workspace;
use crate::app::db;
use serde_json::Value;
use std::io::{Seek, SeekFrom, Write};

/// A name like those of the engine's own backups.
const BACKUP: &str = "data/backups/attache-20261101T033000Z";

/// A workspace that was at work, with a whole backup in its folder.
async fn backed_up() -> Workspace {
    let workspace = stopped(lived().await).await;
    let folder = format!("{BACKUP}/");
    let (code, said, error) = attache(workspace.path(), &["backup", &folder]).await;
    assert_eq!(code, 0, "{said}{error}");
    workspace
}

/// Overwrites the first page of a table or an index.
async fn damage(workspace: &Workspace, name: &str) {
    let mut rows = workspace.rows().await;
    let (page, root): (i64, i64) = db::query_as(
        "SELECT page_size, rootpage FROM sqlite_schema CROSS JOIN pragma_page_size WHERE name = $1",
    )
    .bind(name)
    .fetch_one(&mut rows)
    .await
    .expect("a page");
    db::query("PRAGMA wal_checkpoint(TRUNCATE)")
        .execute(&mut rows)
        .await
        .expect("folded in");
    drop(rows);
    let file = workspace.path().join("data/attache.db");
    let file = std::fs::OpenOptions::new().write(true).open(file);
    let mut file = file.expect("the database");
    file.seek(SeekFrom::Start(((root - 1) * page).unsigned_abs()))
        .expect("the page");
    file.write_all(b"\x07flipped").expect("damage");
    file.sync_all().expect("on disk");
}

/// What `doctor --json` finds, and its exit code.
async fn examined(workspace: &Workspace) -> (Value, i32) {
    let (code, said, error) = attache(workspace.path(), &["doctor", "--json"]).await;
    let record = serde_json::from_str(&said).unwrap_or_else(|bad| panic!("{bad}: {said}{error}"));
    (record, code)
}

/// The findings that speak of damage.
fn of_damage(record: &Value) -> Vec<&Value> {
    let findings = record["findings"].as_array().expect("findings").iter();
    let is_damage = |one: &&Value| {
        one["what"]
            .as_str()
            .is_some_and(|what| what.contains("damaged"))
    };
    findings.filter(is_damage).collect()
}

#[tokio::test]
#[ignore = "second tier"]
async fn damage_is_a_finding_like_any_other_and_has_no_remedy_but_a_backup() {
    // A table that no other check asks, one that many ask, and one without which nothing can be said of the installation.
    for (table, area) in [
        ("thread_resets", "records"),
        ("attachments", "records"),
        ("runs", "database"),
    ] {
        let workspace = backed_up().await;
        let (before, _) = examined(&workspace).await;
        assert_eq!(of_damage(&before).len(), 0, "{table}: {before:#}");
        damage(&workspace, table).await;
        let (record, code) = examined(&workspace).await;
        assert_eq!((code, &record["ok"]), (1, &Value::Bool(false)), "{table}");
        let found = of_damage(&record);
        assert_eq!(found.len(), 1, "{table}: {record:#}");
        assert_eq!(found[0]["area"], area, "{table}");
        assert_eq!(found[0]["severity"], "fault", "{table}");
        assert_eq!(found[0]["file"], "data/attache.db", "{table}");
        let remedy = found[0]["remedy"].as_str().expect("a remedy");
        assert!(
            remedy.contains(BACKUP) && remedy.contains(".recover"),
            "{table}: {remedy}"
        );
        let violations = record["records"]["violations"].as_array();
        for violation in violations.into_iter().flatten() {
            assert_eq!(violation["hint"], remedy, "{table}: {violation}");
            assert_eq!(violation["check"], "damaged-pages", "{table}: {violation}");
        }
        let (_, said, _) = attache(workspace.path(), &["doctor"]).await;
        assert!(said.contains(BACKUP), "{table}: {said}");
        for wrong in ["report it", "build the index anew", "restart the engine"] {
            assert!(!said.contains(wrong), "{table}: {said}");
        }
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn an_upgrade_is_not_said_to_work_on_a_damaged_database() {
    let workspace = backed_up().await;
    let check = ["upgrade", "--check"];
    let (code, said, error) = attache(workspace.path(), &check).await;
    assert_eq!(code, 0, "{said}{error}");
    damage(&workspace, "thread_resets").await;
    for args in [&check[..], &["upgrade", "--check", "--json"]] {
        let (code, said, error) = attache(workspace.path(), args).await;
        assert!(
            code == 65 && error.contains("the database is damaged") && error.contains("hint"),
            "{code}: {said}{error}"
        );
    }
    // As the start of an engine says it.
    let (code, _, error) = attache(workspace.path(), &["serve"]).await;
    assert!(
        code == 65 && error.contains("the database is damaged"),
        "{error}"
    );
    workspace.write("empty.db", "");
    let from = ["upgrade", "--check", "--from", "empty.db"];
    let (code, _, error) = attache(workspace.path(), &from).await;
    assert!(code == 78 && error.contains("is empty"), "{code}: {error}");
}
