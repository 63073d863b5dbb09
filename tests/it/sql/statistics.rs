//! Plans on a database whose statistics are those of a million letters: what is right for an empty database, and for
//! one that nobody ever counted, must be right there, too.

use super::{HOT, fresh_database, is_used, plan, statements_of_the_store};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, Row, SqliteConnection};
use tempfile::TempDir;

/// Rows of a table that grows with every letter.
const MANY: u64 = 1_000_000;
/// Rows of the others, and of an index of rows that somebody still works on.
const FEW: u64 = 100;

/// Tables that get rows with every letter or run.
const GROWING: &[&str] = &[
    "messages",
    "raw_letters",
    "message_links",
    "conversations",
    "threads",
    "thread_participants",
    "runs",
    "run_turns",
    "thread_tool_events",
    "deliveries",
    "delivery_recipients",
    "audit_log",
    "usage_ledger",
    "attachments",
    "contents",
    "responsibility_slots",
    "correspondence",
];

/// Rows that agree in a column, where a million are in the table.
fn alike(column: &str) -> u64 {
    match column {
        // Ten personas.
        "persona_id" => MANY / 10,
        "state" | "direction" | "disposition" | "kind" | "event_type" | "trust" | "provider"
        | "tool_name" => MANY / 5,
        "thread_id" | "conversation_id" | "own_thread_id" => 20,
        "run_id" | "delivery_id" | "parent_message_id" | "trigger_message_id" => 4,
        "responsibility_id" | "counterparty" | "sender" | "address" => 1_000,
        _ => 1,
    }
}

/// A fresh database, counted as if it held a million letters.
async fn counted_database() -> (TempDir, SqliteConnection) {
    let (folder, mut conn) = fresh_database().await;
    sqlx::raw_sql("ANALYZE")
        .execute(&mut conn)
        .await
        .expect("a table for counts");
    let indexes = "SELECT tbl_name, name, coalesce(sql LIKE '% WHERE %', 0) AS is_partial FROM sqlite_schema WHERE type = 'index'";
    let indexes = sqlx::query(indexes)
        .fetch_all(&mut conn)
        .await
        .expect("the schema");
    for index in &indexes {
        let (table, name): (&str, &str) = (index.get("tbl_name"), index.get("name"));
        let is_large = GROWING.contains(&table) && !index.get::<bool, _>("is_partial");
        let rows = if is_large { MANY } else { FEW };
        let columns = sqlx::query_scalar(
            "SELECT coalesce(name, '') FROM pragma_index_info($1) ORDER BY seqno",
        )
        .bind(name);
        let columns: Vec<String> = columns.fetch_all(&mut conn).await.expect("columns");
        let mut same = rows;
        let counts = columns.iter().map(|column| {
            same = same.min(alike(column) * rows / MANY).max(1);
            same.to_string()
        });
        let counts = std::iter::once(rows.to_string())
            .chain(counts)
            .collect::<Vec<_>>()
            .join(" ");
        let count = sqlx::query("INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ($1, $2, $3)");
        let count = count.bind(table).bind(name).bind(counts);
        count.execute(&mut conn).await.expect("a count");
    }
    conn.close().await.expect("closed");
    // Counts are read when a database is opened.
    let options = SqliteConnectOptions::new().filename(folder.path().join("data/attache.db"));
    let conn = options.connect().await.expect("a connection");
    (folder, conn)
}

#[tokio::test]
async fn hot_statements_use_their_indexes_on_a_million_letters() {
    let statements = statements_of_the_store();
    let (_folder, mut conn) = counted_database().await;
    let mut complaints = Vec::new();
    for (name, indexes) in HOT {
        let statement = statements.iter().find(|statement| statement.name == *name);
        let plan = plan(&mut conn, &statement.expect("a statement").sql).await;
        for index in *indexes {
            if !plan.iter().any(|step| is_used(index, step)) {
                complaints.push(format!("{name} does not use `{index}`: {plan:#?}"));
            }
        }
    }
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// The control: `sessions::RUN_MAILS` as it was. Indexes that begin with the persona, that of migration 0024 among them,
/// stole its plan, so that it read all mail of the persona.
#[tokio::test]
async fn an_index_that_steals_a_plan_is_found() {
    let (_folder, mut conn) = fresh_database().await;
    let stolen = "SELECT count(*), coalesce(sum(m.thread_id = r.thread_id), 0) FROM messages m
        JOIN runs r ON r.id = m.run_id WHERE m.run_id = $1 AND m.persona_id = $2 AND m.disposition = 'sent'";
    let mended = stolen.replace("m.persona_id", "r.persona_id");
    let found = |plan: Vec<String>, index| plan.iter().any(|step| is_used(index, step));
    assert!(found(plan(&mut conn, stolen).await, "messages_by_time"));
    assert!(!found(plan(&mut conn, stolen).await, "messages_by_run"));
    assert!(found(plan(&mut conn, &mended).await, "messages_by_run"));
}
