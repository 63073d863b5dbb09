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
    "letter_part_texts",
    "letter_vectors",
    "embedding_calls",
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
        | "tool_name" | "model" => MANY / 5,
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
    let found = |plan: &[String], index| plan.iter().any(|step| is_used(index, step));
    let (stolen, mended) = (
        plan(&mut conn, stolen).await,
        plan(&mut conn, &mended).await,
    );
    assert!(found(&stolen, "messages_by_time"));
    assert!(!found(&stolen, "messages_by_run"));
    assert!(found(&mended, "messages_by_run"));

    let (_folder, mut counted) = counted_database().await;
    let mut most = 0;
    for step in &stolen {
        most = most.max(expected_rows(&mut counted, step).await.unwrap_or(0));
    }
    assert!(most > ROWS_MAX, "{most} rows: {stolen:#?}");
    for step in &mended {
        let rows = expected_rows(&mut counted, step).await.unwrap_or(0);
        assert!(rows <= ROWS_MAX, "{rows} rows: {step}");
    }
}

/// Most rows that a look-up may expect without a word in [`WIDE`].
const ROWS_MAX: u64 = 5_000;

/// Statements with a look-up that gives many rows of a table which grows, and why that is no harm.
pub(super) const WIDE: &[(&str, &str)] = &[
    (
        "crowds::NEW_CORRESPONDENTS",
        "the letters of one day, once a minute",
    ),
    ("quotes::CONTENT_PAGE", "ends at its limit"),
    ("usage::USAGE", "a person asked, once per command"),
    ("vectors::NEWEST_VECTORS", "newest first, ends at its limit"),
    (
        "embedded::COUNT_VECTORS",
        "an owner measures a search; counts the rows of an index",
    ),
    (
        "embedded::LETTERS_BEFORE",
        "in the order of the index, ends at its limit",
    ),
    (
        "replies::ANSWERED_LETTERS",
        "an owner measures a search; in the order of the index, ends at its limit",
    ),
    (
        "replies::NEW_TEXTS",
        "an owner measures a search; in the order of the index, ends at its limit",
    ),
    (
        "erase::RUNS_WITH_RECORDS",
        "an owner erases; each record of a persona is read",
    ),
    (
        "gc::TEXT_SIZES",
        "in the order of the key, ends at its limit",
    ),
    (
        "letter_search::SEARCH_MESSAGES_BY_DATE",
        "newest first, ends at its limit",
    ),
    ("letter_search::COUNT_ALL", "counts up to its limit"),
    ("runs::LATEST_RUNS_OF", "newest first, ends at its limit"),
    (
        "threads::LATEST_THREADS_OF",
        "newest first, ends at its limit",
    ),
    (
        "overview::OVERVIEW_IDS",
        "newest first behind a cursor, ends at its limit",
    ),
    (
        "overview::OVERVIEW_IDS_OF",
        "newest first behind a cursor, ends at its limit",
    ),
    ("threads::KNOWS_PERSONA", "ends at the first row"),
    ("export::MAILS", "a person wants all mail of a persona"),
    (
        "letters::MESSAGES_LIKE",
        "a person typed the beginning of an id",
    ),
    ("ids::RUNS_LIKE", "a person typed the beginning of an id"),
    ("ids::THREADS_LIKE", "a person typed the beginning of an id"),
    (
        "ids::DELIVERIES_LIKE",
        "a person typed the beginning of an id",
    ),
];

/// Rows that a step of a plan expects by the statistics; `None` when it is no look-up in an index.
pub(super) async fn expected_rows(conn: &mut SqliteConnection, step: &str) -> Option<u64> {
    let (_, index) = step
        .split_once("INDEX ")
        .or_else(|| step.split_once("USING PRIMARY KEY"))?;
    let (name, terms) = index.split_once('(')?;
    let name = match name.trim() {
        "" => {
            let table = step.strip_prefix("SEARCH ")?.split(' ').next()?;
            format!("sqlite_autoindex_{table}_1")
        }
        name => name.to_owned(),
    };
    let equal = terms
        .split(" AND ")
        .take_while(|term| term.contains("=?"))
        .count();
    let counts = sqlx::query_scalar("SELECT stat FROM sqlite_stat1 WHERE idx = $1");
    let counts: Option<String> = counts
        .bind(name)
        .fetch_optional(conn)
        .await
        .expect("counts");
    counts?.split(' ').nth(equal)?.parse().ok()
}

#[tokio::test]
async fn no_look_up_gives_many_rows_unless_its_statement_says_why() {
    let (_folder, mut conn) = counted_database().await;
    let (mut complaints, mut wide) = (Vec::new(), Vec::new());
    for statement in statements_of_the_store() {
        for step in plan(&mut conn, &statement.sql).await {
            let rows = expected_rows(&mut conn, &step).await.unwrap_or(0);
            if rows > ROWS_MAX {
                wide.push(statement.name.clone());
                if !WIDE.iter().any(|(known, _)| *known == statement.name) {
                    complaints.push(format!("{}: {rows} rows: {step}", statement.name));
                }
            }
        }
    }
    let stale = WIDE
        .iter()
        .filter(|(known, _)| !wide.iter().any(|name| name == known));
    complaints.extend(stale.map(|(known, _)| format!("{known}: take it out of WIDE")));
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}
