//! Every statement of the store, read from its source: each prepares against a fresh database, and what runs for
//! every letter, tick or turn finds its rows by an index.
//!
//! `prepare` and never `describe`: sqlx 0.9.0 crashes the process when it describes a column of an FTS5 table.

mod both;
mod copies;
mod expected;
mod filled;
mod on_postgres;
mod plans_of_postgres;
pub mod source;
mod statistics;
mod walks;

use attache::clock::ManualClock;
use attache::domain::Timestamp;
use attache::store::Store;
use expected::{HOT, OPEN_ROWS};
use source::{read_statements, statements_of_the_store};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Executor, Row};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use walks::WALKS;

/// A `const NAME: &str` of the store, or a `const NAME: Sql` with two texts.
struct Statement {
    /// `file::NAME`.
    name: String,
    sql: String,
    /// Text for PostgreSQL, where it is another.
    postgres: Option<String>,
}

#[tokio::test]
async fn every_statement_of_the_store_prepares() {
    let statements = statements_of_the_store();
    assert!(
        statements.len() > 100,
        "only {} statements were found",
        statements.len()
    );
    let (_folder, mut conn) = fresh_database().await;
    let mut refused = Vec::new();
    for statement in &statements {
        if let Err(error) = prepares(&mut conn, &statement.sql).await {
            refused.push(format!("{}: {error}", statement.name));
        }
    }
    assert!(refused.is_empty(), "\n{}\n", refused.join("\n"));
}

#[tokio::test]
async fn a_statement_with_a_misspelt_column_does_not_prepare() {
    let (_folder, mut conn) = fresh_database().await;
    let good = r##"const A: &str = "SELECT id FROM runs WHERE id = $1";"##;
    let bad = r##"
        pub(super) const PLAIN: &str = "
            SELECT idd FROM runs WHERE id = $1";
        const RAW: &str = r#"UPDATE runs SET "state" = 'x' WHERE sequence = 1"#;
        const CONTINUED: &str = "DELETE FROM runs \
            WHERE nope = \"x\"";
        const SECOND: &str = "DELETE FROM runs; DELETE FROM runns";
    "##;
    for statement in read_statements("sample", good) {
        prepares(&mut conn, &statement.sql)
            .await
            .expect("a good statement");
    }
    let pair = r##"const PAIR: Sql = Sql::pair(
        "SELECT id FROM runs WHERE id GLOB $1",
        r#"SELECT id FROM runs WHERE id ~ $1"#,
    );"##;
    let pair = read_statements("sample", pair).remove(0);
    let of_postgres = pair.postgres.as_deref();
    assert_eq!(of_postgres, Some("SELECT id FROM runs WHERE id ~ $1"));
    prepares(&mut conn, &pair.sql).await.expect("a pair");
    let bad = read_statements("sample", bad);
    let names: Vec<&str> = bad
        .iter()
        .map(|statement| statement.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "sample::PLAIN",
            "sample::RAW",
            "sample::CONTINUED",
            "sample::SECOND"
        ]
    );
    for (statement, word) in bad.iter().zip(["idd", "sequence", "nope", "runns"]) {
        let refusal = prepares(&mut conn, &statement.sql)
            .await
            .expect_err(&statement.name);
        assert!(
            refusal.to_string().contains(word),
            "{}: {refusal}",
            statement.name
        );
    }
}

#[tokio::test]
async fn no_statement_walks_a_growing_table_unless_it_says_why() {
    let (_folder, mut conn) = fresh_database().await;
    let tables = tables(&mut conn).await;
    let mut complaints = Vec::new();
    let mut walking = Vec::new();
    for Statement { name, sql, .. } in statements_of_the_store() {
        let plan = plan(&mut conn, &sql).await;
        let scans = scans(&plan, &sql, &tables);
        if scans.is_empty() {
            continue;
        }
        if !WALKS.iter().any(|(known, _)| *known == name) {
            complaints.push(format!(
                "{name}: {scans:?}: give it an index, or name it in WALKS and say why"
            ));
        }
        walking.push(name);
    }
    let stale = WALKS
        .iter()
        .filter(|(known, _)| !walking.iter().any(|name| name == known));
    complaints
        .extend(stale.map(|(known, _)| format!("{known}: walks no more: take it out of WALKS")));
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[tokio::test]
async fn hot_statements_find_their_rows_by_the_indexes_made_for_them() {
    let statements = statements_of_the_store();
    let (_folder, mut conn) = fresh_database().await;
    let mut complaints = Vec::new();
    for (name, indexes) in HOT {
        let statement = statements.iter().find(|statement| statement.name == *name);
        let statement =
            statement.unwrap_or_else(|| panic!("no statement `{name}`: rename it in HOT"));
        let plan = plan(&mut conn, &statement.sql).await;
        for index in *indexes {
            if !plan.iter().any(|step| is_used(index, step)) {
                complaints.push(format!("{name} does not use `{index}`: {plan:#?}"));
            }
        }
    }
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// Each index costs a page for every row. A unique one is a rule besides, and stays.
#[tokio::test]
async fn every_index_is_used_by_a_statement() {
    let (_folder, mut conn) = fresh_database().await;
    sqlx::query("CREATE INDEX of_no_use ON messages (hops)")
        .execute(&mut conn)
        .await
        .expect("an index");
    let indexes = "SELECT name, sql LIKE '% WHERE %' FROM sqlite_schema WHERE type = 'index' AND sql LIKE 'CREATE INDEX%'";
    let mut indexes: BTreeSet<(String, bool)> = sqlx::query_as(indexes)
        .fetch_all(&mut conn)
        .await
        .expect("the schema")
        .into_iter()
        .collect();
    assert!(indexes.len() > 50, "only {} indexes", indexes.len());
    for statement in statements_of_the_store() {
        for step in plan(&mut conn, &statement.sql).await {
            // What counts all rows walks any index, as the smallest copy of the table.
            let is_walk = step.starts_with("SCAN") && !statement.sql.contains("ORDER BY");
            indexes.retain(|(index, is_partial)| is_walk && !is_partial || !is_used(index, &step));
        }
    }
    // The control is the only one.
    assert_eq!(indexes, BTreeSet::from([("of_no_use".to_owned(), false)]));
}

/// The feed tells when a state began, and its triggers know only what the row says.
#[test]
fn every_statement_that_changes_a_state_says_when() {
    let mut checked = 0;
    for Statement { name, sql, .. } in statements_of_the_store() {
        for update in sql.split(';').filter(|part| changes_state(part)) {
            checked += 1;
            let is_dated = update.contains("state_at = ") || update.contains("finished_at = $");
            assert!(
                is_dated,
                "{name}: set `state_at` to now, or `finished_at` where it ends"
            );
        }
    }
    assert!(checked > 25, "only {checked} changes of a state were found");
    assert!(changes_state(
        "UPDATE runs SET state = 'queued' WHERE id = $1"
    ));
}

/// Whether a statement sets the state of a run, a slot or a mail that is not being sent now.
fn changes_state(sql: &str) -> bool {
    let tables = ["runs", "deliveries", "responsibility_slots"];
    let is_ours = |table: &&str| sql.contains(&format!("UPDATE {table} "));
    let sets = sql.split("WHERE").next().unwrap_or_default();
    let in_flight = sets.contains("'sending'") || sets.contains("'committing'");
    tables.iter().any(is_ours) && sets.contains(" state = ") && !in_flight
}

#[tokio::test]
async fn a_scan_of_a_growing_table_is_found_behind_alias_and_index() {
    let (_folder, mut conn) = fresh_database().await;
    let tables = tables(&mut conn).await;
    let cases = [
        ("SELECT subject FROM messages WHERE text_body = $1", 1),
        (
            "SELECT m.subject FROM runs r JOIN messages AS m ON m.text_body = r.state WHERE r.id = $1",
            1,
        ),
        ("SELECT count(*) FROM messages WHERE seq + 1 = $1", 1), // walks a whole index
        (
            "SELECT min(next_attempt_at) FROM runs WHERE state = 'waiting_retry'",
            1,
        ),
        (
            "SELECT id FROM runs WHERE id IN (SELECT value FROM json_each($1))",
            0,
        ),
        (
            "SELECT r.id FROM runs r WHERE r.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')",
            0,
        ),
        (
            "SELECT c.n FROM (SELECT count(*) AS n FROM runs WHERE id = $1) c",
            0,
        ),
    ];
    for (sql, expected) in cases {
        let plan = plan(&mut conn, sql).await;
        assert_eq!(
            scans(&plan, sql, &tables).len(),
            expected,
            "{sql}\n{plan:#?}"
        );
    }
}

async fn fresh_database() -> (TempDir, SqliteConnection) {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Arc::new(ManualClock::at(Timestamp::from_millis(0)));
    Store::open(folder.path(), clock)
        .await
        .expect("a migrated database")
        .close()
        .await;
    let options = SqliteConnectOptions::new().filename(folder.path().join("data/attache.db"));
    let conn = options.connect().await.expect("a connection");
    (folder, conn)
}

async fn prepares(conn: &mut SqliteConnection, sql: &str) -> Result<(), sqlx::Error> {
    let sql = sqlx::AssertSqlSafe(sql.to_owned());
    conn.prepare(sqlx::SqlSafeStr::into_sql_str(sql))
        .await
        .map(|_| ())
}

async fn tables(conn: &mut SqliteConnection) -> Vec<String> {
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'engine'";
    sqlx::query_scalar(sql)
        .fetch_all(conn)
        .await
        .expect("the schema")
}

/// The steps of all statements of a text.
async fn plan(conn: &mut SqliteConnection, text: &str) -> Vec<String> {
    let mut steps = Vec::new();
    for sql in text.split(';').filter(|sql| !sql.trim().is_empty()) {
        let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"));
        let rows = sqlx::query(explain)
            .fetch_all(&mut *conn)
            .await
            .expect("a plan");
        steps.extend(rows.iter().map(|row| row.get::<String, _>("detail")));
    }
    steps
}

/// The steps of a plan that walk a whole table, or a whole index that is not one of open rows. `SEARCH t` without an
/// index is how SQLite writes a walk for `min` or `max`.
fn scans<'a>(plan: &'a [String], sql: &str, tables: &[String]) -> Vec<&'a str> {
    let is_scan = |step: &&str| {
        let words: Vec<&str> = step.split_whitespace().collect();
        let walks = words[0] == "SCAN" || (words[0] == "SEARCH" && words.len() == 2);
        let bounded = words.last().is_some_and(|index| OPEN_ROWS.contains(index));
        let is_match = step.contains("VIRTUAL TABLE INDEX"); // full text, or `json_each`
        walks
            && !is_match
            && words.get(1).is_some_and(|what| is_table(what, sql, tables))
            && !bounded
    };
    plan.iter().map(String::as_str).filter(is_scan).collect()
}

/// Whether a name in a plan is a table, or in the statement's text another name for one.
fn is_table(name: &str, sql: &str, tables: &[String]) -> bool {
    let words: Vec<&str> = words(sql).collect();
    let stands_for = |pair: &[&str]| tables.iter().any(|table| table == pair[0]) && pair[1] == name;
    let named_as =
        |three: &[&str]| three[1].eq_ignore_ascii_case("as") && stands_for(&[three[0], three[2]]);
    tables.iter().any(|table| table == name)
        || words.windows(2).any(stands_for)
        || words.windows(3).any(named_as)
}

/// Indexes stand behind the word `INDEX`; the key of a table, and its rowid, stand for themselves.
fn is_used(index: &str, step: &str) -> bool {
    let words: Vec<&str> = words(step).collect();
    let is_key = |run: &[&str]| run.join(" ") == index;
    words
        .windows(2)
        .any(|pair| pair == ["INDEX", index] || is_key(pair))
        || words.windows(3).any(is_key)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}
