//! No column is forgotten by an erasure: each of the schema is named, and what is said to go is searched in every file after.

use super::erased_plants::{PLANTS, Plant, names};
use super::erasure::{BOAT, bobs_thread, carol, erase, files, lived, stopped};
use super::workspace::attache;
use crate::app::Workspace;
use crate::app::database::is_sqlite_only;
use crate::app::db;
use attache::clock::SystemClock;
use attache::replay::verify::Outcome;
use attache::store::Store;
use attache::store::catalogue::{ErasedColumns, INDEXES, TABLES};
use attache::text::quotations::Quotations;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Begins every planted sentence, and stands nowhere else.
const MARK: &str = "grüne Reiher";
/// Word in her letter, without the beginning that an index of terms shares with the term before it.
const TERM: &str = "anternfish";

#[tokio::test]
async fn every_column_of_every_table_is_named_with_what_becomes_of_it() {
    if is_sqlite_only("its catalogue; both schemas are compared in `sql::both`") {
        return;
    }
    let app = Workspace::new(&json!({ "turns": [] })).start().await;
    let mut rows = app.workspace.rows().await;
    let virtuals = "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL%' ORDER BY name";
    let virtuals: Vec<String> = db::query_scalar(virtuals)
        .fetch_all(&mut rows)
        .await
        .expect("tables");
    let named: Vec<&str> = INDEXES.iter().map(|(name, _)| *name).collect();
    assert_eq!(virtuals, named);
    let columns = "SELECT m.name || '.' || c.name FROM sqlite_master m CROSS JOIN pragma_table_xinfo(m.name) c
        WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.name NOT LIKE '\\_sqlx%' ESCAPE '\\'
          AND m.sql NOT LIKE 'CREATE VIRTUAL%' AND c.type NOT IN ('INTEGER', 'REAL')
          AND NOT EXISTS (SELECT 1 FROM json_each($1) v WHERE m.name LIKE v.value || '\\_%' ESCAPE '\\')";
    let there: Vec<String> = db::query_scalar(columns)
        .bind(serde_json::to_string(&virtuals).expect("JSON"))
        .fetch_all(&mut rows)
        .await
        .expect("columns");
    assert!(there.len() > 400, "only {} columns", there.len());
    let mut ledger = Vec::new();
    for table in TABLES {
        let columns = table.columns.iter().flat_map(|columns| columns.names());
        ledger.extend(columns.map(|column| format!("{}.{column}", table.name)));
    }
    let all: BTreeSet<&String> = ledger.iter().collect();
    assert_eq!(all.len(), ledger.len(), "a column is named twice");
    let unnamed: Vec<&String> = there
        .iter()
        .filter(|column| !all.contains(column))
        .collect();
    assert!(
        unnamed.is_empty(),
        "say in store/catalogue.rs what an erasure does to {unnamed:?}"
    );
    let there: BTreeSet<&String> = there.iter().collect();
    let gone: Vec<&&String> = all.difference(&there).collect();
    assert!(gone.is_empty(), "no columns any more: {gone:?}");
}

fn columns_of(plant: &Plant) -> impl Iterator<Item = String> {
    plant
        .columns
        .split(' ')
        .map(|column| format!("{}.{column}", plant.table))
}

#[test]
fn every_column_that_is_said_to_go_is_planted() {
    let planted: BTreeSet<String> = PLANTS.iter().flat_map(columns_of).collect();
    let mut gone = BTreeSet::new();
    for table in TABLES {
        let all = table.columns.iter();
        let taken = all.filter(|columns| matches!(columns, ErasedColumns::Gone(..)));
        let columns = taken.flat_map(|columns| columns.names());
        gone.extend(columns.map(|column| format!("{}.{column}", table.name)));
    }
    assert_eq!(planted, gone);
}

/// Writes a sentence of its own into each column.
async fn plant(workspace: &Workspace) {
    let mut rows = workspace.rows().await;
    for plant in PLANTS {
        let mut sql = plant.sql.to_owned();
        for (name, value) in names() {
            sql = sql.replace(name, &value);
        }
        for column in columns_of(plant) {
            let written = sql.replace(&format!("@{column}@"), &format!("{MARK} {column} schlafen"));
            assert_ne!(written, sql, "{column} is not in its statement");
            sql = written;
        }
        let done = db::raw_sql(sqlx::AssertSqlSafe(sql))
            .execute(&mut rows)
            .await;
        let rows = done.unwrap_or_else(|error| panic!("{}: {error}", plant.table));
        assert!(rows.rows_affected() > 0, "{}: no row", plant.table);
    }
    let word = format!(
        "UPDATE messages SET fresh_text = fresh_text || ' l{TERM}' WHERE message_id = 'c1@partner.test'"
    );
    let done = db::raw_sql(sqlx::AssertSqlSafe(word));
    done.execute(&mut rows).await.expect("a word");
    let index = "SELECT CAST(count(*) AS TEXT) FROM letter_words_data WHERE instr(CAST(block AS BLOB), CAST($1 AS BLOB)) > 0";
    let blocks: String = db::query_scalar(index)
        .bind(TERM)
        .fetch_one(&mut rows)
        .await
        .expect("a count");
    assert_ne!(blocks, "0", "the index does not have the word");
}

/// Counts the files of a workspace that hold a text.
fn files_with(workspace: &Workspace, text: &str) -> usize {
    let mut all = Vec::new();
    files(workspace.path(), &mut all);
    let texts = all.iter().filter_map(|file| std::fs::read(file).ok());
    texts
        .filter(|bytes| {
            bytes
                .windows(text.len())
                .any(|window| window == text.as_bytes())
        })
        .count()
}

/// Forms in which the mark may stand in a file.
fn forms() -> Vec<(&'static str, Vec<u8>)> {
    let utf16 = |order: fn(u16) -> [u8; 2]| MARK.encode_utf16().flat_map(order).collect();
    let mut forms: Vec<(&'static str, Vec<u8>)> = vec![
        ("plain", MARK.as_bytes().to_vec()),
        ("quoted-printable", b"gr=C3=BCne Reiher".to_vec()),
        ("JSON", b"gr\\u00fcne Reiher".to_vec()),
        ("UTF-16 LE", utf16(u16::to_le_bytes)),
        ("UTF-16 BE", utf16(u16::to_be_bytes)),
    ];
    for before in ["", "x", "xx"] {
        let whole = STANDARD.encode(format!("{before}{MARK}"));
        // What neighbours share a character with is cut off.
        let inner = &whole.as_bytes()[if before.is_empty() { 0 } else { 4 }..16];
        forms.push(("base64", inner.to_vec()));
    }
    forms
}

/// What follows the mark, or the form in which it stands, with its file.
fn holding(workspace: &Workspace) -> BTreeSet<String> {
    let (mut all, mut found) = (Vec::new(), BTreeSet::new());
    files(workspace.path(), &mut all);
    for file in all {
        let Ok(bytes) = std::fs::read(&file) else {
            continue;
        };
        for (form, needle) in forms() {
            let first = needle[0];
            for at in (0..bytes.len()).filter(|at| bytes[*at] == first) {
                if !bytes[at..].starts_with(&needle) {
                    continue;
                }
                let after = &bytes[(at + needle.len() + 1).min(bytes.len())..];
                let word = after.split(|byte| *byte == b' ').next().unwrap_or_default();
                found.insert(match form {
                    "plain" => String::from_utf8_lossy(word).into_owned(),
                    form => form.to_owned(),
                });
            }
        }
    }
    found
}

async fn audited(workspace: &Workspace) -> BTreeSet<String> {
    let (_, stdout, _) = attache(workspace.path(), &["doctor", "--audit"]).await;
    let faults = stdout.lines().filter(|line| !line.contains(" checks, "));
    faults.map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn what_stands_in_one_column_only_is_gone_from_every_file() {
    if is_sqlite_only("bytes of its file") {
        return;
    }
    let app = lived().await;
    // Its letters are too few to have their words by themselves.
    let indexed = app.engine.store.clone().index_open_letters();
    indexed.await.expect("words");
    let workspace = stopped(app).await;
    plant(&workspace).await;
    let encoded = [
        STANDARD.encode(MARK),
        "gr=C3=BCne Reiher gr\\u00fcne Reiher".to_owned(),
    ];
    for (name, text) in ["a.txt", "b.txt"].iter().zip(&encoded) {
        let folder = workspace.path().join("data/control");
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join(name), text).expect("a file");
    }
    assert!(files_with(&workspace, TERM) > 0, "no word is in the index");
    let before = bobs_thread(&workspace).await;
    // The control: each is found, in its form.
    let there = holding(&workspace);
    for word in PLANTS
        .iter()
        .flat_map(columns_of)
        .chain(["base64", "quoted-printable", "JSON"].map(str::to_owned))
    {
        assert!(
            there.contains(&word),
            "{word} was not there before: {there:?}"
        );
    }
    std::fs::remove_dir_all(workspace.path().join("data/control")).expect("removed");
    let faults = audited(&workspace).await;
    let report = erase(&workspace, &["--quotes"]).await;
    assert_eq!(holding(&workspace), BTreeSet::new());
    assert_eq!(files_with(&workspace, TERM), 0);
    assert_eq!(report["remains"], json!({}), "{report}");
    assert_eq!(bobs_thread(&workspace).await, before);
    let more: Vec<String> = audited(&workspace)
        .await
        .difference(&faults)
        .cloned()
        .collect();
    assert_eq!(more, [] as [String; 0]);
    let mut redacted = 0;
    for run in workspace.verified().await {
        redacted += i32::from(matches!(run.outcome, Outcome::Redacted { .. }));
    }
    assert!(redacted >= 3, "{redacted}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn requests_that_are_stored_compressed_are_searched_after_too() {
    let workspace = stopped(lived().await).await;
    let mut hers = Quotations::default();
    hers.add(BOAT);
    let places = async || {
        let store = Store::open_to_read(workspace.path(), Arc::new(SystemClock::new()));
        let store = store.await.expect("a database");
        let places = store.quoting_places(&hers).await.expect("places");
        store.close().await;
        places
    };
    let before = places().await;
    assert!(before.contains_key("run_turns.packed"), "{before:?}");
    erase(&workspace, &["--quotes"]).await;
    assert_eq!(places().await, std::collections::BTreeMap::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mails_that_told_the_owner_of_a_letter_go_with_it() {
    const SUBJECT: &str = "Zanzibarlampe";
    let nothing = json!({ "rules": [{ "when": { "contains": "breakfast" }, "say": "At seven." }] });
    let app = Workspace::new(&nothing).start().await;
    app.run_of(&carol("f1", "", SUBJECT, "This fails.")).await;
    app.drain().await;
    let told = "SELECT count(*) FROM messages WHERE disposition = 'notice' AND text_body LIKE '%Zanzibarlampe%'";
    let mut rows = app.workspace.rows().await;
    let told: i64 = db::query_scalar(told)
        .fetch_one(&mut rows)
        .await
        .expect("a count");
    assert_eq!(told, 1, "the owner was not told");
    drop(rows);
    let workspace = stopped(app).await;
    assert!(files_with(&workspace, SUBJECT) > 0);
    // It is the engine's own mail, and nothing that another person wrote.
    erase(&workspace, &[]).await;
    assert_eq!(files_with(&workspace, SUBJECT), 0);
}
