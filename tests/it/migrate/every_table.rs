//! A row in each table of a file, and everything that a file holds as lines.

use crate::app::db::{self, Connection};
use sqlx::AssertSqlSafe;
use std::collections::BTreeMap;
use std::path::Path;

/// Tables that are copied: all of the schema but the indexes of words, the migrations, the marks of a transfer, and what
/// tells a database from its copies.
const COPIED: &str = "
    SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite%'
      AND name NOT IN ('_sqlx_migrations', 'archive', 'leases', 'nodes') ORDER BY name";
/// Those whose rows an opening changes.
const OF_OPENING: [&str; 2] = ["engine", "program_versions"];

pub async fn copied_tables(rows: &mut Connection) -> Vec<String> {
    let tables = db::query_scalar(COPIED).fetch_all(rows).await;
    tables.expect("the tables")
}

/// A column, and what an INSERT says for it.
struct Planted {
    name: String,
    value: String,
    is_needed: bool,
    is_reference: bool,
}

/// Puts a row into each table that has none.
pub async fn plant_a_row_in_each_table(workspace: &Path) {
    let mut rows = Connection::file(&workspace.join("data/attache.db")).await;
    let mut empty = copied_tables(&mut rows).await;
    // A row comes after those that it refers to.
    for _ in 0..5 {
        let mut left = Vec::new();
        for table in empty {
            if count(&mut rows, &table).await == 0 && !plant(&mut rows, &table).await {
                left.push(table);
            }
        }
        empty = left;
    }
    assert!(empty.is_empty(), "no row goes into {empty:?}");
    // With one on its way no database is opened.
    let odd = "
        INSERT INTO contents (sha256, bytes) VALUES ('empty', x''), ('quoted \\ '' \"', CAST('a' || char(9, 10, 13, 92) AS BLOB)),
          ('Grüße 会議 🚲' || char(10) || '\\N\\.', zeroblob(70000));
        INSERT INTO provider_calls (provider, calls, last_latency_ms, last_failure_message)
          VALUES ('least', -9223372036854775808, 9223372036854775807, ''), ('~', 0, NULL, NULL);
        INSERT INTO vector_switches (persona_id, provider, model, gain_points, letters, measured_at)
          SELECT 'p' || value, 'p', 'm', value, 1, 'x' FROM json_each('[1e300, 0.1, 3, -4.9e-324]')";
    rows.execute(odd).await.expect("odd values");
    rows.close().await.expect("closed");
}

async fn count(rows: &mut Connection, table: &str) -> i64 {
    let sql = AssertSqlSafe(format!("SELECT count(*) FROM \"{table}\""));
    db::query_scalar(sql)
        .fetch_one(rows)
        .await
        .expect("a count")
}

/// Inserts a row with a value in each column; where the table refuses that, only in those that need one, with or without those that
/// refer to another.
async fn plant(rows: &mut Connection, table: &str) -> bool {
    let planted = values(rows, table).await;
    for (all, references) in [(true, true), (false, false), (false, true)] {
        let is_wanted =
            |column: &&Planted| all || column.is_needed || (references && column.is_reference);
        let of_row = planted.iter().filter(is_wanted);
        let (names, values): (Vec<_>, Vec<_>) = of_row
            .map(|column| (format!("\"{}\"", column.name), column.value.as_str()))
            .unzip();
        let sql = format!(
            "INSERT INTO \"{table}\" ({}) SELECT {}",
            names.join(", "),
            values.join(", ")
        );
        if rows.execute(AssertSqlSafe(sql)).await.is_ok() {
            return true;
        }
    }
    false
}

async fn values(rows: &mut Connection, table: &str) -> Vec<Planted> {
    let sql = "SELECT \"from\", \"table\", \"to\" FROM pragma_foreign_key_list($1)";
    let references = db::query(sql).bind(table).fetch_all(rows).await;
    let references: BTreeMap<String, String> = references
        .expect("references")
        .iter()
        .map(|row| {
            let (from, table, to): (String, String, String) = (row.get(0), row.get(1), row.get(2));
            (from, format!("(SELECT \"{to}\" FROM \"{table}\" LIMIT 1)"))
        })
        .collect();
    let schema = "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = $1";
    let schema: String = db::query_scalar(schema)
        .bind(table)
        .fetch_one(rows)
        .await
        .expect("a table");
    let schema = schema.split_whitespace().collect::<Vec<_>>().join(" ");
    let sql =
        "SELECT name, type, \"notnull\" OR pk > 0, dflt_value IS NULL FROM pragma_table_info($1)";
    let columns = db::query(sql).bind(table).fetch_all(rows).await;
    let planted = columns.expect("columns").into_iter().map(|row| {
        let (name, kind): (String, String) = (row.get(0), row.get(1));
        let first_of = |list: &str| {
            let begin = format!("CHECK ({name} IN ({list}");
            let rest = schema.split_once(&begin)?.1;
            rest.split(['\'', ',', ')']).next().map(str::to_owned)
        };
        let value = match (references.get(&name), first_of("'"), kind.as_str()) {
            (Some(reference), ..) => reference.clone(),
            (_, Some(word), _) => format!("'{word}'"),
            (_, _, "TEXT") if name.ends_with("_json") => "'{}'".to_owned(),
            (_, _, "TEXT") => format!("'{table}.{name} ä'"),
            (_, _, "INTEGER") => "1".to_owned(),
            (_, _, "REAL") => "-0.1".to_owned(),
            (_, _, "BLOB") => "x'00ff0a5c'".to_owned(),
            other => panic!("{table}.{name}: {other:?}"),
        };
        let is_needed = row.get::<bool>(2) && row.get::<bool>(3);
        let is_reference = references.contains_key(&name);
        Planted {
            is_reference,
            name,
            value,
            is_needed,
        }
    });
    planted.collect()
}

/// Every row of every table that is copied, as a line with its values as SQLite quotes them.
pub async fn lines(workspace: &Path) -> Vec<String> {
    let mut rows = Connection::file(&workspace.join("data/attache.db")).await;
    let mut lines = Vec::new();
    for table in copied_tables(&mut rows).await {
        if OF_OPENING.contains(&table.as_str()) {
            continue;
        }
        let sql = "SELECT name FROM pragma_table_info($1) ORDER BY name";
        let columns: Vec<String> = db::query_scalar(sql)
            .bind(table.as_str())
            .fetch_all(&mut rows)
            .await
            .expect("columns");
        let has_number = ["forks", "provider_sessions", "thread_tool_events"];
        let number = has_number.contains(&table.as_str()).then_some("rowid");
        let quoted = columns.iter().map(String::as_str).chain(number);
        let quoted: Vec<String> = quoted.map(|name| format!("quote(\"{name}\")")).collect();
        let sql = format!(
            "SELECT '{table}: ' || {} FROM \"{table}\"",
            quoted.join(" || ', ' || ")
        );
        let found: Vec<String> = db::query_scalar(AssertSqlSafe(sql))
            .fetch_all(&mut rows)
            .await
            .expect("rows");
        let is_empty = table.ends_with("_build") || table.ends_with("_pending");
        assert!(!found.is_empty() || is_empty, "{table} has no row");
        lines.extend(found);
    }
    lines.sort_unstable();
    rows.close().await.expect("closed");
    lines
}
