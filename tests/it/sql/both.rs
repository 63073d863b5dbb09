//! Both databases have one schema: the same tables and columns, functions of one meaning, and triggers that give the same rows.
//!
//! Needs a cluster: `ATTACHE_TEST_POSTGRES` names a database of a role that may make others.

use super::fresh_database;
use attache::store::migrations::of_postgres;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor};
use std::collections::BTreeSet;
use std::str::FromStr;

/// A row for each column, index, trigger and view. A key has a value, whether the table says so or not.
const SQLITE_SCHEMA: &str = "
    WITH named AS (SELECT s.name FROM sqlite_schema s WHERE s.type = 'table' AND s.name NOT LIKE 'sqlite%'
      AND s.name <> '_sqlx_migrations' AND NOT EXISTS (SELECT 1 FROM sqlite_schema v WHERE v.sql LIKE 'CREATE VIRTUAL%'
        AND s.name IN (v.name, v.name || '_data', v.name || '_idx', v.name || '_docsize', v.name || '_config', v.name || '_through')))
    SELECT 'column ' || n.name || '.' || c.name || ' ' || CASE c.type WHEN 'INTEGER' THEN 'bigint' WHEN 'BLOB' THEN 'bytea'
        WHEN 'REAL' THEN 'double precision' ELSE lower(c.type) END || CASE WHEN c.\"notnull\" OR c.pk THEN ' not null' ELSE '' END
      FROM named n CROSS JOIN pragma_table_info(n.name) c
    UNION SELECT type || ' ' || name || CASE type WHEN 'view' THEN '' ELSE ' of ' || tbl_name END FROM sqlite_schema
      WHERE type IN ('trigger', 'view') OR (type = 'index' AND sql IS NOT NULL)";
const POSTGRES_SCHEMA: &str = "
    SELECT 'column ' || c.table_name || '.' || c.column_name || ' ' || c.data_type
        || CASE WHEN c.is_nullable = 'NO' THEN ' not null' ELSE '' END
      FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
      WHERE t.table_type = 'BASE TABLE' AND c.table_schema = 'public'
    UNION SELECT 'view ' || table_name FROM information_schema.views WHERE table_schema = 'public'
    UNION SELECT 'trigger ' || trigger_name || ' of ' || event_object_table FROM information_schema.triggers
      WHERE trigger_schema = 'public'
    UNION SELECT 'index ' || i.indexname || ' of ' || i.tablename FROM pg_indexes i WHERE i.schemaname = 'public'
      AND NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conname = i.indexname)";
/// What only PostgreSQL has: its indexes of words, and numbers of rows that SQLite gives to every table.
const ONLY_POSTGRES: &[&str] = &[
    "column feed_pruned.id bigint not null",
    "column feed_pruned.through bigint not null",
    "column forks.rowid bigint not null",
    "column knowledge_fts.seq bigint not null",
    "column knowledge_fts.words tsvector",
    "column letter_parts.seq bigint not null",
    "column letter_parts.words tsvector not null",
    "column letter_words.seq bigint not null",
    "column letter_words.words tsvector",
    "column provider_sessions.rowid bigint not null",
    "column thread_tool_events.rowid bigint not null",
    "index knowledge_fts_found of knowledge_fts",
    "index knowledge_fts_pending of knowledge_fts",
    "index letter_parts_found of letter_parts",
    "index letter_words_found of letter_words",
    "index letter_words_pending of letter_words",
    "trigger feed_pruned_through of feed",
];

/// Rows that triggers write or change, and those of the views, each as one text.
const TRACES: &[&str] = &[
    "SELECT seq || kind || coalesce(persona_id, '-') || coalesce(thread_id, '-') || coalesce(run_id, '-') || coalesce(message_id, '-')
       || coalesce(delivery_id, '-') || coalesce(approval_id, '-') || coalesce(item, '-') || at FROM feed ORDER BY seq",
    "SELECT id || ' ' || state || ' ' || behind FROM runs ORDER BY seq",
    "SELECT model || source || ' ' || calls || ' ' || lines || ' ' || input_tokens || ' ' || cache_read_tokens || ' '
       || output_tokens || ' ' || coalesce(cost_micros, -1) || ' ' || unknown_cost || ' ' || lost || ' ' || held_micros || ' '
       || estimated FROM usage_days ORDER BY day, model, source",
    "SELECT provider || calls || failures || coalesce(last_success_at, '-') || coalesce(last_latency_ms, -1)
       || coalesce(last_failure_at, '-') || coalesce(last_failure_message, '-') FROM provider_calls",
    "SELECT id || failures FROM responsibilities",
    "SELECT slot_at || catching_up || state FROM responsibility_slots ORDER BY slot_at",
    "SELECT run_id || turn_index || sha256 FROM turn_texts ORDER BY sha256",
    "SELECT seq || address FROM readable ORDER BY seq, address",
    "SELECT seq || thread || subject || sender || own FROM letter_texts ORDER BY seq",
    "SELECT 'parts ' || seq FROM letter_parts_pending ORDER BY seq",
    "SELECT 'vector ' || seq FROM letter_vectors ORDER BY seq",
    "SELECT id FROM thread_memory ORDER BY id",
    "SELECT attachment_id FROM attachment_texts",
    "SELECT thread || words FROM letter_part_texts",
    "SELECT id FROM webhook_deliveries ORDER BY n",
    "SELECT 'why: ' || why FROM memory_events",
];
/// Statements, each at the end of a line; a line `-- refused` stands before one that must fail.
static ROWS: &str = include_str!("../../fixtures/both/rows.sql");

/// An expression on each line.
static FUNCTIONS: &str = include_str!("../../fixtures/both/functions.sql");

/// A database of PostgreSQL with the schema, dropped at the end; `None` without a cluster.
pub(super) struct Database {
    pub conn: PgConnection,
    cluster: PgConnectOptions,
    name: String,
}

impl Database {
    pub async fn make(of: &str) -> Option<Self> {
        let Ok(url) = std::env::var("ATTACHE_TEST_POSTGRES") else {
            println!("SKIPPED: ATTACHE_TEST_POSTGRES names no cluster of PostgreSQL");
            return None;
        };
        let cluster = PgConnectOptions::from_str(&url).expect("a URL of a database");
        let name = format!("attache_{of}_{}", std::process::id());
        let mut conn = cluster.connect().await.expect("a cluster");
        let make = format!("CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'");
        conn.execute(AssertSqlSafe(make)).await.expect("a database");
        conn.close().await.expect("closed");
        let options = cluster.clone().database(&name);
        let mut conn = options.connect().await.expect("a database");
        for (_, _, text) in of_postgres() {
            let text = sqlx::raw_sql(AssertSqlSafe(text));
            text.execute(&mut conn).await.expect("made");
        }
        Some(Self {
            conn,
            cluster,
            name,
        })
    }

    pub async fn drop(self) {
        self.conn.close().await.expect("closed");
        let mut conn = self.cluster.connect().await.expect("a cluster");
        let drop = AssertSqlSafe(format!("DROP DATABASE {}", self.name));
        conn.execute(drop).await.expect("dropped");
    }

    async fn texts(&mut self, sql: &'static str) -> Vec<String> {
        let query = sqlx::query_scalar(sql);
        query.fetch_all(&mut self.conn).await.expect(sql)
    }
}

/// What one of them has and the other has not.
fn differences(sqlite: Vec<String>, postgres: Vec<String>) -> Vec<String> {
    let [sqlite, postgres] = [sqlite, postgres].map(BTreeSet::from_iter);
    let only: BTreeSet<String> = ONLY_POSTGRES.iter().map(ToString::to_string).collect();
    let postgres: BTreeSet<String> = postgres
        .into_iter()
        .filter(|line: &String| !line.starts_with("column _sqlx_migrations."))
        .collect();
    let mut found: Vec<String> = sqlite
        .difference(&postgres)
        .map(|line| format!("SQLite alone: {line}"))
        .collect();
    let more = postgres.difference(&sqlite).cloned().collect();
    found.extend(
        only.symmetric_difference(&more)
            .map(|line| format!("not as listed, of PostgreSQL alone: {line}")),
    );
    found
}

#[tokio::test]
async fn both_databases_have_the_same_tables_columns_indexes_and_triggers() {
    let (_folder, mut sqlite) = fresh_database().await;
    let of_sqlite = sqlx::query_scalar(SQLITE_SCHEMA);
    let of_sqlite: Vec<String> = of_sqlite.fetch_all(&mut sqlite).await.expect("a schema");
    assert!(of_sqlite.len() > 600, "{} lines", of_sqlite.len());
    let Some(mut database) = Database::make("schema").await else {
        return;
    };
    let of_postgres = database.texts(POSTGRES_SCHEMA).await;
    let none: Vec<String> = Vec::new();
    assert_eq!(differences(of_sqlite.clone(), of_postgres), none);
    // Control.
    let change =
        "ALTER TABLE runs ALTER COLUMN state DROP NOT NULL; ALTER TABLE runs ADD COLUMN more TEXT;
        DROP TRIGGER feed_call ON thread_tool_events";
    let changed = sqlx::raw_sql(change).execute(&mut database.conn).await;
    changed.expect("changed");
    let of_postgres = database.texts(POSTGRES_SCHEMA).await;
    let wanted = [
        "SQLite alone: column runs.state text not null",
        "SQLite alone: trigger feed_call of thread_tool_events",
        "not as listed, of PostgreSQL alone: column runs.more text",
        "not as listed, of PostgreSQL alone: column runs.state text",
    ];
    assert_eq!(differences(of_sqlite, of_postgres), wanted);
    database.drop().await;
}

#[tokio::test]
async fn triggers_and_views_of_both_databases_give_the_same_rows() {
    let Some(mut database) = Database::make("triggers").await else {
        return;
    };
    let (_folder, mut sqlite) = fresh_database().await;
    // As if every letter were one that is indexed at once.
    let at_once = sqlx::query("UPDATE letter_words_through SET seq = 9223372036854775807");
    let at_once = at_once.execute(&mut sqlite).await;
    at_once.expect("changed");
    let (mut is_refused, mut statement, mut executed) = (false, String::new(), 0);
    let lines = ROWS.lines().filter(|line| !line.is_empty());
    for line in lines {
        if line.starts_with("--") {
            is_refused = line == "-- refused";
            continue;
        }
        statement.push_str(line);
        statement.push('\n');
        if !line.ends_with(';') {
            continue;
        }
        executed += 1;
        let sql = std::mem::take(&mut statement);
        let on_sqlite = sqlx::raw_sql(AssertSqlSafe(sql.clone()));
        let on_sqlite = on_sqlite.execute(&mut sqlite).await;
        let on_postgres = sqlx::raw_sql(AssertSqlSafe(sql.clone()));
        let on_postgres = on_postgres.execute(&mut database.conn).await;
        let refused = (on_sqlite.is_err(), on_postgres.is_err());
        assert_eq!(refused, (is_refused, is_refused), "{sql}{on_postgres:?}");
        is_refused = false;
        for trace in TRACES {
            let of_sqlite = sqlx::query_scalar(*trace).fetch_all(&mut sqlite).await;
            let of_sqlite: Vec<String> = of_sqlite.expect(trace);
            assert_eq!(database.texts(trace).await, of_sqlite, "after {sql}{trace}");
        }
    }
    assert!(executed > 60, "{executed} statements");
    database.drop().await;
}

#[tokio::test]
async fn functions_of_sqlite_mean_the_same_on_postgresql() {
    let Some(mut database) = Database::make("functions").await else {
        return;
    };
    let (_folder, mut sqlite) = fresh_database().await;
    let expressions = FUNCTIONS.lines().filter(|line| !line.starts_with("--"));
    let (mut compared, mut others) = (0, Vec::new());
    for expression in expressions {
        compared += 1;
        let sql = format!("SELECT CAST({expression} AS TEXT)");
        let of_sqlite = sqlx::query_scalar(AssertSqlSafe(sql.clone()));
        let of_sqlite: Option<String> = of_sqlite.fetch_one(&mut sqlite).await.expect(&sql);
        let of_postgres = sqlx::query_scalar(AssertSqlSafe(sql.clone()));
        let of_postgres: Option<String> =
            of_postgres.fetch_one(&mut database.conn).await.expect(&sql);
        if of_sqlite != of_postgres {
            others.push(format!("{expression}: {of_sqlite:?}, not {of_postgres:?}"));
        }
    }
    assert!(compared > 80, "{compared} expressions");
    assert!(others.is_empty(), "\n{}\n", others.join("\n"));
    database.drop().await;
}
