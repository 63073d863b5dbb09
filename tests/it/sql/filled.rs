//! Plans in a database that has rows in every table, before anybody counted them and after: a plan of an empty one says
//! nothing about an index that gives every row of a persona.

use super::statistics::{WIDE, expected_rows};
use super::{fresh_database, plan, statements_of_the_store};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Row, SqliteConnection};
use tempfile::TempDir;

/// Rows of a table whose keys allow as many.
const ROWS: u64 = 3_000;
/// Most rows that a look-up may expect here without a word in [`WIDE`]: more than a thread has, fewer than a persona.
const FOUND_MAX: u64 = 400;

/// Look-ups that give many rows here, and why that is no harm; the others are in [`WIDE`].
const MANY: &[(&str, &str)] = &[
    (
        "aliases::ENTRIES_OF_ADDRESS",
        "an owner joins addresses of one person; over personas, of which there are few",
    ),
    (
        "knowledge::COUNT_KNOWLEDGE",
        "counts the chunks of a folder that somebody wrote by hand",
    ),
    (
        "knowledge::KNOWLEDGE_OUTLINE",
        "400 pieces at most, by its limit",
    ),
    (
        "knowledge::WHOLE_KNOWLEDGE",
        "400 pieces at most, by its limit",
    ),
    (
        "persona_file_versions::PRUNE_VERSIONS",
        "fifty versions of each file",
    ),
    (
        "persona_file_versions::VERSIONS",
        "fifty versions of each file; a person asked",
    ),
    (
        "proposals::WHOLE_MEMORY",
        "a persona's memory is tidied as a whole; it has a bound",
    ),
    (
        "slots::SERVED",
        "responsibilities that somebody wrote by hand",
    ),
];

/// What SQLite makes by itself, or another module keeps.
const OTHERS: &str = "SELECT s.name FROM sqlite_schema s WHERE s.type = 'table' AND s.name NOT LIKE 'sqlite%'
    AND s.name <> '_sqlx_migrations' AND s.sql NOT LIKE 'CREATE VIRTUAL%'
    AND NOT EXISTS (SELECT 1 FROM sqlite_schema v WHERE v.sql LIKE 'CREATE VIRTUAL%'
      AND s.name IN (v.name || '_data', v.name || '_idx', v.name || '_docsize', v.name || '_config', v.name || '_content', v.name || '_through'))";

/// The value of a column in the row `i`: two personas, five states, twenty rows a thread, else one of its own.
fn value(column: &str, kind: &str) -> String {
    let number = match column {
        "persona_id" => "i % 2",
        "state" | "direction" | "disposition" | "kind" | "event_type" | "trust" | "provider"
        | "tool_name" | "model" | "trigger" | "outcome" => "i % 5",
        "thread_id" | "conversation_id" | "own_thread_id" => "i / 20",
        "run_id" | "delivery_id" | "parent_message_id" | "trigger_message_id" => "i / 4",
        "responsibility_id" | "counterparty" | "sender" | "address" => "i / 30",
        _ => "i",
    };
    match kind {
        "TEXT" => format!("'x' || ({number})"),
        "BLOB" => format!("CAST(({number}) AS BLOB)"),
        "REAL" => format!("({number}) * 1.0"),
        _ => format!("({number})"),
    }
}

/// A database with rows in every table.
async fn filled_database() -> (TempDir, SqliteConnection) {
    let (folder, mut conn) = fresh_database().await;
    let drops = "SELECT 'DROP TRIGGER ' || name FROM sqlite_schema WHERE type = 'trigger'";
    let mut todo: Vec<String> = vec![
        "PRAGMA foreign_keys = OFF".to_owned(),
        "PRAGMA ignore_check_constraints = ON".to_owned(),
        "CREATE TEMP TABLE numbers (i INTEGER PRIMARY KEY)".to_owned(),
        format!(
            "INSERT INTO numbers WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})
             SELECT i FROM n"
        ),
    ];
    let triggers: Vec<String> = texts(&mut conn, drops).await;
    todo.extend(triggers);
    let tables = texts(&mut conn, OTHERS).await;
    assert!(tables.len() > 60, "{tables:?}");
    for table in &tables {
        let columns = "SELECT name, type FROM pragma_table_xinfo($1) WHERE hidden = 0";
        let columns = sqlx::query(columns).bind(table).fetch_all(&mut conn).await;
        let columns = columns.expect("columns");
        let names: Vec<String> = columns
            .iter()
            .map(|row| format!("\"{}\"", row.get::<String, _>(0)))
            .collect();
        let values = columns.iter().map(|row| value(row.get(0), row.get(1)));
        let values = values.collect::<Vec<_>>().join(", ");
        let names = names.join(", ");
        todo.push(format!(
            "INSERT OR IGNORE INTO {table} ({names}) SELECT {values} FROM numbers"
        ));
    }
    for sql in todo {
        let done = sqlx::raw_sql(AssertSqlSafe(sql.clone()))
            .execute(&mut conn)
            .await;
        done.unwrap_or_else(|error| panic!("{error}: {sql}"));
    }
    for table in &tables {
        let sql = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        let count: i64 = sqlx::query_scalar(sql)
            .fetch_one(&mut conn)
            .await
            .expect("a count");
        assert!(count > 0, "`{table}` has no row");
    }
    (folder, conn)
}

async fn texts(conn: &mut SqliteConnection, sql: &'static str) -> Vec<String> {
    sqlx::query_scalar(sql)
        .fetch_all(conn)
        .await
        .expect("the schema")
}

/// Every look-up of a statement that gives many rows, by the plan before rows were counted and by the one after.
async fn wide_steps(statements: &[(String, String)]) -> Vec<(String, String)> {
    let (folder, mut conn) = filled_database().await;
    let mut plans = Vec::new();
    for (name, sql) in statements {
        plans.push((name, plan(&mut conn, sql).await));
    }
    sqlx::raw_sql("ANALYZE")
        .execute(&mut conn)
        .await
        .expect("counted");
    conn.close().await.expect("closed");
    let options = SqliteConnectOptions::new().filename(folder.path().join("data/attache.db"));
    let mut conn = options.connect().await.expect("a connection");
    for (name, sql) in statements {
        plans.push((name, plan(&mut conn, sql).await));
    }
    let mut wide = Vec::new();
    for (name, steps) in plans {
        for step in steps {
            let rows = expected_rows(&mut conn, &step).await.unwrap_or(0);
            // A range ends at its cursor or its limit.
            let is_range = step.contains(">?") || step.contains("<?");
            if rows > FOUND_MAX && !is_range {
                wide.push((name.clone(), format!("{rows} of {ROWS} rows: {step}")));
            }
        }
    }
    wide.sort();
    wide.dedup();
    wide
}

#[tokio::test]
async fn every_statement_finds_few_rows_in_a_database_with_rows_in_every_table() {
    let statements: Vec<(String, String)> = statements_of_the_store()
        .into_iter()
        .map(|statement| (statement.name, statement.sql))
        .collect();
    let wide = wide_steps(&statements).await;
    let is_known = |name: &str| WIDE.iter().chain(MANY).any(|(known, _)| *known == name);
    let complaints: Vec<String> = wide
        .iter()
        .filter(|(name, _)| !is_known(name))
        .map(|(name, step)| {
            format!(
                "{name}: {step}: give it an index or a unary plus, or name it in WIDE and say why"
            )
        })
        .collect();
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// The controls: the runs of a thread as they were read until 28 November 2026, and its kin.
#[tokio::test]
async fn a_look_up_that_reads_all_rows_of_a_persona_is_found() {
    let cases = [
        (
            "SELECT id FROM runs WHERE thread_id = $1 AND persona_id = $2 ORDER BY seq DESC LIMIT $3",
            true,
        ),
        (
            "SELECT id FROM runs WHERE thread_id = $1 AND +persona_id = $2 ORDER BY seq DESC LIMIT $3",
            false,
        ),
        (
            "SELECT id FROM runs WHERE persona_id = $1 AND provider = $2",
            true,
        ),
        (
            "SELECT count(*) FROM messages WHERE persona_id = $1 AND text_body = $2",
            true,
        ),
        (
            "SELECT id FROM messages WHERE persona_id = $1 AND id = $2",
            false,
        ),
        ("SELECT id FROM deliveries WHERE id = $1", false),
        (
            "SELECT r.id FROM runs r JOIN threads t ON t.id = r.thread_id WHERE t.persona_id = $1",
            true,
        ),
        (
            "SELECT id FROM runs WHERE id = $1 AND persona_id = $2",
            false,
        ),
    ];
    let statements: Vec<(String, String)> = cases
        .iter()
        .map(|(sql, _)| ((*sql).to_owned(), (*sql).to_owned()))
        .collect();
    let wide = wide_steps(&statements).await;
    for (sql, is_wide) in cases {
        let found = wide.iter().any(|(name, _)| name == sql);
        assert_eq!(found, is_wide, "{sql}: {wide:#?}");
    }
}
