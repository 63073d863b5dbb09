//! How PostgreSQL finds rows: what runs for every letter, tick or turn reads no table that grows whole.

use super::both::Database;
use super::expected::HOT;
use super::on_postgres::pieces;
use super::source::statements_of_the_store;
use super::{Statement, read_statements};
use serde_json::Value;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor, Row};
use std::collections::BTreeSet;

/// Hot statements that read a small table whole and find rows of a large one by their keys: they want them in the order of the
/// keys, which an index of some thousand rows has at once. Looked at with 150,000 rows each.
const BY_KEY_AND_IN_ITS_ORDER: &[&str] = &[
    "deliveries::OPEN_RECIPIENTS",
    "feed_lines::FEED_LINES",
    "history::PAST_STEPS",
    "redaction::ENDED_REDACTIONS",
];
/// Tables with a row for each machine, or of what waits.
const SMALL: &[&str] = &["nodes", "leases", "held_letters"];

#[tokio::test]
async fn no_hot_statement_walks_a_growing_table_on_postgresql() {
    let Some(mut database) = Database::make("plans").await else {
        return;
    };
    fill(&mut database.conn).await;
    let partial = partial_indexes(&mut database.conn).await;
    let is_hot = |statement: &Statement| {
        let name = statement.name.as_str();
        HOT.iter().any(|(hot, _)| *hot == name) && !BY_KEY_AND_IN_ITS_ORDER.contains(&name)
    };
    let mut found = Vec::new();
    for statement in statements_of_the_store().into_iter().filter(is_hot) {
        let walks = walks(&mut database.conn, &statement, &partial).await;
        found.extend(
            walks
                .iter()
                .map(|walk| format!("{}: {walk}", statement.name)),
        );
    }
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
    database.drop().await;
}

/// The claim of runs read every run for every persona in its first form, and every test of behaviour was green.
#[tokio::test]
async fn a_walk_that_only_a_plan_shows_is_found() {
    let Some(mut database) = Database::make("walks").await else {
        return;
    };
    fill(&mut database.conn).await;
    let partial = partial_indexes(&mut database.conn).await;
    let source = r##"
        const WALK: &str = "SELECT id FROM runs WHERE provider = $1";
        const IN_ORDER: &str = "SELECT id FROM runs WHERE provider = $1 ORDER BY seq";
        const BY_PERSONA: &str = "SELECT c.seq FROM json_each($1) p CROSS JOIN runs c
            WHERE c.seq IN (SELECT r.seq FROM runs r WHERE r.persona_id = p.value AND r.behind = 0 ORDER BY r.seq LIMIT $2)";
        const GOOD: &str = "SELECT state FROM runs WHERE id = $1; SELECT id FROM runs WHERE state = 'running'";
    "##;
    for statement in read_statements("sample", source) {
        let found = walks(&mut database.conn, &statement, &partial).await;
        let is_good = statement.name == "sample::GOOD";
        assert_eq!(found.is_empty(), is_good, "{}: {found:?}", statement.name);
    }
    database.drop().await;
}

/// Fills every table, because a plan for an empty one says nothing. No value comes twice.
const FILL: &str = "
    DO $fill$
    DECLARE made RECORD; columns TEXT; makes TEXT;
    BEGIN
      SET LOCAL session_replication_role = replica; -- no triggers, no references
      FOR made IN SELECT conrelid::regclass AS relation, conname FROM pg_constraint WHERE contype = 'c' AND conrelid <> 0 LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', made.relation, made.conname);
      END LOOP;
      FOR made IN SELECT oid, oid::regclass AS relation FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
        SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum), string_agg(CASE format_type(atttypid, NULL)
            WHEN 'bigint' THEN 'i' WHEN 'double precision' THEN 'i' WHEN 'boolean' THEN 'true' WHEN 'text' THEN quote_literal('x') || ' || i'
            WHEN 'bytea' THEN 'int8send(i)'
            WHEN 'tsvector' THEN 'array_to_tsvector(ARRAY[i::text])' ELSE 'NULL' END, ', ' ORDER BY attnum)
          INTO columns, makes FROM pg_attribute
          WHERE attrelid = made.oid AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
            AND (attnotnull OR format_type(atttypid, NULL) IN ('bigint', 'text'));
        EXECUTE format('INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM generate_series(1000, 6000) i', made.relation, columns, makes);
      END LOOP;
    END $fill$";

async fn fill(conn: &mut PgConnection) {
    conn.execute(FILL).await.expect("filled");
    conn.execute("ANALYZE").await.expect("analysed");
}

/// Indexes of some of a table's rows: those that are open, that wait. All of them may be read.
async fn partial_indexes(conn: &mut PgConnection) -> BTreeSet<String> {
    let sql = "SELECT c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indpred IS NOT NULL";
    let rows = conn.fetch_all(sql).await.expect("indexes");
    rows.iter().map(|row| row.get(0)).collect()
}

/// What a statement reads whole of tables with rows, where reading all rows is made to look dear.
async fn walks(
    conn: &mut PgConnection,
    statement: &Statement,
    partial: &BTreeSet<String>,
) -> Vec<String> {
    let text = statement.postgres.as_ref().unwrap_or(&statement.sql);
    let mut found = Vec::new();
    for sql in pieces(text) {
        if let Some(plan) = plan(conn, &sql).await {
            gather(&plan, partial, &mut found);
        }
    }
    found
}

/// The plan for whatever arguments; `None`: PostgreSQL has no plan for it, or is not told a type.
async fn plan(conn: &mut PgConnection, sql: &str) -> Option<Value> {
    for way in ["seqscan", "mergejoin", "hashjoin"] {
        let off = AssertSqlSafe(format!("SET enable_{way} = off"));
        conn.execute(off).await.expect("set");
    }
    let generic = "SET plan_cache_mode = force_generic_plan";
    conn.execute(generic).await.expect("set");
    let prepare = AssertSqlSafe(format!("PREPARE looked_at AS {sql}"));
    conn.execute(prepare).await.ok()?;
    let parameters = (1..100)
        .rev()
        .find(|number| sql.contains(&format!("${number}")))
        .unwrap_or(0);
    let nulls = vec!["NULL"; parameters].join(", ");
    let arguments = match parameters {
        0 => String::new(),
        _ => format!("({nulls})"),
    };
    let explain = AssertSqlSafe(format!(
        "EXPLAIN (FORMAT JSON) EXECUTE looked_at{arguments}"
    ));
    let explained = conn.fetch_one(explain).await;
    conn.execute("DEALLOCATE looked_at")
        .await
        .expect("forgotten");
    let explained = explained.expect("a plan");
    let text = explained.try_get_raw(0).expect("a column");
    let text = text.as_str().expect("a text");
    Some(serde_json::from_str(text).expect("JSON"))
}

fn gather(plan: &Value, partial: &BTreeSet<String>, found: &mut Vec<String>) {
    let said = |key: &str| plan[key].as_str().unwrap_or_default();
    let is_whole = match said("Node Type") {
        "Seq Scan" => true,
        "Index Scan" | "Index Only Scan" | "Bitmap Index Scan" => {
            plan["Index Cond"].is_null() && !partial.contains(said("Index Name"))
        }
        _ => false,
    };
    if is_whole && !SMALL.contains(&said("Relation Name")) {
        found.push(format!(
            "{} {}{}",
            said("Node Type"),
            said("Relation Name"),
            said("Index Name")
        ));
    }
    match plan {
        Value::Object(members) => members
            .values()
            .for_each(|part| gather(part, partial, found)),
        Value::Array(parts) => parts.iter().for_each(|part| gather(part, partial, found)),
        _ => {}
    }
}
