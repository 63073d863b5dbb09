//! What is wrong in the other workspace is named by its place, and the rest goes on.

use super::fixture::{ProtegeFolder, tree};
use super::{findings, letters};
use serde_json::{Value, json};
use sqlx::{Connection, Executor};
use std::os::unix::fs::symlink;

/// The exit code and the complaint of a migration that is refused whole.
fn refused(folder: &ProtegeFolder, more: &[&str]) -> (Option<i32>, String) {
    let done = folder.output(&[more, &["--json"]].concat());
    let complaint = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(
        !folder.workspace().join("configs").exists(),
        "something was written: {complaint}"
    );
    (done.status.code(), complaint)
}

fn has(report: &Value, kind: &str, wanted: &str) {
    let found = findings(report, kind);
    assert!(
        found.iter().any(|finding| finding.contains(wanted)),
        "`{wanted}` is missing in {found:#?}"
    );
}

#[tokio::test]
async fn a_folder_of_another_kind_is_refused() {
    let folder = ProtegeFolder::new().await;
    std::fs::rename(folder.path().join("personas"), folder.path().join("people")).expect("renamed");
    let (code, complaint) = refused(&folder, &[]);
    assert!(
        code == Some(66) && complaint.contains("is no workspace of Protege"),
        "{complaint}"
    );
    let inside = folder.path().join("ours");
    std::fs::rename(folder.path().join("people"), folder.path().join("personas")).expect("renamed");
    let (code, complaint) = refused(&folder, &["--workspace", &inside.display().to_string()]);
    assert!(
        code == Some(2) && complaint.contains("lie in each other"),
        "{complaint}"
    );
    assert!(!inside.exists());
}

#[tokio::test]
async fn broken_files_are_named_by_line_and_the_rest_comes_over() {
    let folder = ProtegeFolder::new().await;
    folder.write(
        "configs/security.json",
        "{\n  \"gateway_access\": {\n    \"allow\": [\"x\"\n}\n",
    );
    folder.write("configs/inference.json", "[]");
    folder.write(
        "personas/ada/responsibilities/broken.md",
        "---\nname: Broken\nschedule: often\n---\nDo it.\n",
    );
    folder.write(
        "personas/ada/responsibilities/open.md",
        "---\nname: Open\nschedule: 0 6 * * 1\n",
    );
    folder.write(
        "personas/ada/responsibilities/huge.md",
        &"x".repeat(1_100_000),
    );
    folder.write("personas/ada/knowledge/latin.bin", "x");
    std::fs::write(
        folder.path().join("memory/ada/active.md"),
        b"good\nF\xfchre\n",
    )
    .expect("a file");
    let told = folder.migrate(&[]);
    has(&told, "broken", "configs/security.json:4: ");
    has(&told, "broken", "configs/inference.json: is no JSON object");
    has(
        &told,
        "broken",
        "personas/ada/responsibilities/broken.md:3: ",
    );
    has(
        &told,
        "broken",
        "personas/ada/responsibilities/open.md:1: the front matter is not closed",
    );
    has(
        &told,
        "broken",
        "personas/ada/responsibilities/huge.md: has 1100000 bytes; at most 1048576 are read",
    );
    has(&told, "broken", "memory/ada/active.md: line 2 is not UTF-8");
    has(
        &told,
        "no_counterpart",
        "personas/ada/knowledge/latin.bin: is no text of knowledge",
    );
    assert_eq!(letters(&told, 0), [5, 2, 1, 0, 0, 1, 1]);
    assert!(
        folder
            .workspace()
            .join("personas/ada/responsibilities/weekly.md")
            .exists()
    );
    assert!(
        !folder
            .workspace()
            .join("personas/ada/responsibilities/broken.md")
            .exists()
    );
}

#[tokio::test]
async fn an_alias_of_two_personas_goes_to_neither_and_an_id_that_is_a_path_is_none() {
    let folder = ProtegeFolder::new().await;
    folder.second().await;
    folder.write_json(
        "personas/eve/persona.json",
        &json!({ "persona_id": "../ada", "public_key": "k5w2eve7q3m4", "aliases": ["harbour"] }),
    );
    folder.write_json(
        "personas/B a/persona.json",
        &json!({ "public_key": "k5w2bea7q3m4" }),
    );
    let told = folder.migrate(&[]);
    has(
        &told,
        "broken",
        "personas: the alias `harbour@harbour.test` belongs to ada and to eve; neither got it",
    );
    has(
        &told,
        "broken",
        "personas/eve/persona.json:2: `persona_id` is not the name of the folder",
    );
    has(&told, "broken", "personas/B a: the folder's name is no id");
    for persona in [0, 1] {
        assert_eq!(told["personas"][persona]["aliases"], json!([]));
    }
    assert_eq!(told["personas"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn databases_that_cannot_be_read_are_named_and_the_files_come_over() {
    let folder = ProtegeFolder::new().await;
    folder.second().await;
    let path = folder.database_of("ada");
    let mut bytes = std::fs::read(&path).expect("a database");
    let middle = bytes.len() / 2;
    bytes.truncate(middle);
    std::fs::write(&path, bytes).expect("half a database");
    let mut eve = folder.connect(&folder.database_of("eve")).await;
    eve.execute("INSERT INTO schema_migrations VALUES ('0006_later.sql', '')")
        .await
        .expect("a row");
    eve.close().await.expect("closed");
    let told = folder.migrate(&[]);
    has(
        &told,
        "broken",
        "memory/ada/protege.db: the database cannot be read",
    );
    has(
        &told,
        "broken",
        "memory/eve/protege.db: its migration 0006 is unknown here",
    );
    assert_eq!(letters(&told, 0), [0; 7]);
    assert!(folder.workspace().join("personas/eve/PERSONA.md").exists());
}

#[tokio::test]
async fn a_database_that_is_open_is_refused_and_a_log_that_was_left_is_read() {
    let folder = ProtegeFolder::new().await;
    let mut open = folder.connect(&folder.database_of("ada")).await;
    open.execute("UPDATE messages SET text_body = 'From the log.' WHERE id = 'm3'")
        .await
        .expect("a row");
    let (code, complaint) = refused(&folder, &[]);
    assert!(
        code == Some(75) && complaint.contains("is in use by another program"),
        "{complaint}"
    );
    // As a crash leaves it: the database, and a log that was not copied back.
    let left = ProtegeFolder::new().await;
    for end in ["", "-wal"] {
        let from = format!("{}{end}", folder.database_of("ada").display());
        std::fs::copy(from, format!("{}{end}", left.database_of("ada").display())).expect("copied");
    }
    open.close().await.expect("closed");
    let theirs = tree(&left.path());
    let told = left.migrate(&[]);
    assert_eq!(letters(&told, 0), [5, 2, 1, 0, 0, 1, 1]);
    assert!(
        tree(&left.path()) == theirs,
        "something was written beside the database"
    );
    let options = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(left.workspace().join("data/attache.db"));
    let mut rows = sqlx::ConnectOptions::connect(&options)
        .await
        .expect("the database");
    let sql = "SELECT count(*) FROM messages WHERE text_body LIKE 'From the log.%'";
    let read: i64 = sqlx::query_scalar(sql)
        .fetch_one(&mut rows)
        .await
        .expect("a number");
    assert_eq!(read, 1, "the log was not read");
}

#[tokio::test]
async fn links_out_of_the_folder_are_not_followed() {
    let folder = ProtegeFolder::new().await;
    let outside = folder.dir.path().join("outside.md");
    std::fs::write(&outside, "The words outside.").expect("a file");
    symlink(
        &outside,
        folder.path().join("personas/ada/knowledge/link.md"),
    )
    .expect("a link");
    let raw = folder.path().join("memory/ada/raw/root-1.eml");
    std::fs::remove_file(&raw).expect("removed");
    symlink(&outside, &raw).expect("a link");
    let told = folder.migrate(&[]);
    has(&told, "broken", "personas/ada/knowledge/link.md: ");
    has(&told, "broken", "memory/ada/protege.db: messages, row m1: ");
    assert_eq!(
        letters(&told, 0),
        [5, 2, 1, 0, 0, 1, 1],
        "the letter is composed from its row"
    );
    let ours = tree(&folder.workspace());
    let is_outside = |bytes: &Vec<u8>| bytes.windows(17).any(|part| part == b"The words outside");
    assert!(!ours.values().any(is_outside));
}
