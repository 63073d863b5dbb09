//! Every statement of the store, read from its source: each prepares against a fresh database, and what runs for
//! every letter, tick or turn finds its rows by an index.
//!
//! `prepare` and never `describe`: sqlx 0.9.0 crashes the process when it describes a column of an FTS5 table.

mod source;
mod statistics;

use attache::clock::ManualClock;
use attache::domain::Timestamp;
use attache::store::Store;
use source::{read_statements, statements_of_the_store};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Executor, Row};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// Statements that run for every letter, tick or turn, as `file::CONST`, and the indexes that must serve them.
const HOT: &[(&str, &[&str])] = &[
    (
        "arrival_facts::ARRIVALS",
        &[
            "messages_by_dedup",
            "PRIMARY KEY",
            "threads_by_conversation",
            "messages_by_rfc_id",
        ],
    ),
    (
        "placement::FIND_THREAD",
        &["threads_by_conversation", "messages_by_rfc_id"],
    ),
    ("runs::CLAIM_RUNS", &["runs_ready", "runs_running"]),
    ("agent_files::EXPECTED", &["thread_tool_events_of_files"]),
    ("runs::OPEN_RUNS", &["runs_open"]),
    ("runs::OPEN_RUNS_UP_TO", &["runs_open"]),
    ("runs::CANCEL_REQUESTED", &["runs_running"]),
    (
        "letters::RAW_LETTER",
        &[
            "sqlite_autoindex_messages_1",
            "sqlite_autoindex_raw_letters_1",
        ],
    ),
    ("history::MESSAGE", &["sqlite_autoindex_messages_1"]),
    (
        "history::PAST_MESSAGES",
        &[
            "messages_by_thread",
            "INTEGER PRIMARY KEY",
            "sqlite_autoindex_runs_1",
        ],
    ),
    ("history::NEWEST_LETTER", &["messages_by_thread"]),
    ("record::OPEN_COMMANDS", &["mail_commands_open"]),
    ("sender_notes::FAILED_WITHOUT_NOTE", &["runs_failed"]),
    ("sender_notes::SLOW_WITHOUT_NOTE", &["runs_open"]),
    ("act::LATER_HALT_COMMAND", &["mail_commands_halts"]),
    ("answer::ANSWERS_SINCE", &["mail_commands_answered"]),
    (
        "sessions::RUN_MAILS",
        &["messages_by_run", "sqlite_autoindex_runs_1"],
    ),
    ("messages::READERS", &["INTEGER PRIMARY KEY", "PRIMARY KEY"]),
    ("run_options::SLOT_OF_RUN", &["responsibility_slots_by_run"]),
    ("history::PAST_STEPS", &["thread_tool_events_by_message"]),
    ("money::RESERVE", &["PRIMARY KEY"]),
    ("money::FINISH", &["PRIMARY KEY"]),
    ("money::LOSE", &["PRIMARY KEY"]),
    ("resume::JOURNAL_TURNS", &["PRIMARY KEY"]),
    (
        "resume::JOURNAL_STEPS",
        &["sqlite_autoindex_thread_tool_events_2"],
    ),
    ("deliveries::CLAIM", &["deliveries_open"]),
    ("deliveries::NEXT_DUE", &["deliveries_open"]),
    ("deliveries::OPEN_RECIPIENTS", &["PRIMARY KEY"]),
    (
        "outcomes::RECORD",
        &["sqlite_autoindex_deliveries_1", "PRIMARY KEY"],
    ),
    ("reports::BY_TOKEN", &["deliveries_by_bounce_token"]),
    (
        "reports::NAMED",
        &["messages_by_rfc_id", "deliveries_by_message"],
    ),
    ("mailboxes::HAS_CONTENT", &["PRIMARY KEY"]),
    ("mailboxes::OUTCOMES", &["PRIMARY KEY"]),
    ("held::NEXT_HELD", &["held_letters_due"]),
    ("held::POSTPONE", &["sqlite_autoindex_held_letters_1"]),
    ("held::RELEASE", &["sqlite_autoindex_held_letters_1"]),
    ("inbox::INBOX", &["messages_inbox"]),
    ("imports::KNOWN", &["messages_by_dedup"]),
    ("imports::WRITTEN_HERE", &["messages_by_rfc_id"]),
    ("schedules::DUE_RESPONSIBILITIES", &["responsibilities_due"]),
    (
        "firing::BEFORE_IT",
        &[
            "runs_open_by_thread",
            "responsibility_slots_by_run",
            "responsibility_slots_waiting_of",
        ],
    ),
    (
        "waiting::TURNS",
        &[
            "responsibility_slots_waiting",
            "responsibility_slots_waiting_of",
            "runs_open_by_thread",
        ],
    ),
    (
        "waiting::CATCHING_UP",
        &["responsibility_slots_catching_up"],
    ),
    (
        "waiting::BEGIN_WAITING",
        &[
            "PRIMARY KEY",
            "responsibility_slots_catching_up",
            "runs_open_by_thread",
        ],
    ),
    ("waiting::END_WAITING", &["responsibility_slots_waiting_of"]),
    ("pauses::FAILING", &["responsibilities_failing"]),
    ("pauses::NEWEST_SLOT", &["PRIMARY KEY"]),
    ("slot_events::IS_OVERDUE", &["responsibility_slots_watched"]),
    (
        "slot_events::OVERDUE_SLOTS",
        &["responsibility_slots_watched"],
    ),
    (
        "notices::DUE_CAUSES",
        &["notices_pending", "notices_notified", "INTEGER PRIMARY KEY"],
    ),
    ("notices::PENDING", &["notices_pending"]),
    ("search::SEARCH_MESSAGES_BY_DATE", &["messages_by_time"]),
    ("search::NEWEST_HITS", &["INTEGER PRIMARY KEY"]),
    ("search::EARLIER_HITS", &["INTEGER PRIMARY KEY"]),
    ("search::SHOW_HITS", &["INTEGER PRIMARY KEY"]),
    ("filed::HAS_NEW", &["messages_filed"]),
    ("filed::FILED_SINCE", &["messages_filed"]),
    ("filed::MISSED_LETTERS", &["messages_filed"]),
    ("filed::LAST_SUMMARY", &["INTEGER PRIMARY KEY"]),
    (
        "events::DELAYED_DELIVERIES",
        &["deliveries_open", "sqlite_autoindex_notices_2"],
    ),
];

/// Statements that may walk a whole table that grows, and why.
const WALKS: &[(&str, &str)] = &[
    (
        "list::APPROVALS",
        "a person asked; newest first, ends at its limit",
    ),
    (
        "list::OPEN_APPROVALS",
        "the index of open questions, of which a persona has twenty at most",
    ),
    (
        "list::APPROVALS_SINCE",
        "a person asked for statistics; ends at its limit",
    ),
    (
        "list::RUNS_SINCE",
        "a person asked for statistics, once per command",
    ),
    (
        "mails::UNASKED",
        "the index of questions that nobody was asked yet",
    ),
    (
        "mails::TO_EXPLAIN",
        "the index of answers that are to be explained",
    ),
    ("list::APPROVALS_ENDING", "a person typed the end of an id"),
    ("forks::FORKS", "newest first, ends at its limit"),
    (
        "open::RAISE_EPOCH",
        "an archive has one row, and any other database none",
    ),
    (
        "bundles::IS_EMPTY",
        "asked of a database that was made a moment ago; ends at the first row",
    ),
    ("threads::LATEST_THREADS", "newest first, ends at its limit"),
    ("usage::USAGE", "a person asked, once per command"),
    (
        "usage::THREADS_THAT_SPEND",
        "a person asked, once per command",
    ),
    ("money::OPEN_CALLS", "a row lives as long as its call"),
    ("money::FOLD_MONEY", "as for `money::OPEN_CALLS`"),
    ("runs::LATEST_RUNS", "newest first, ends at its limit"),
    (
        "filed::NEWEST_FILED",
        "newest first by `messages_filed`, ends at the first row",
    ),
    ("runs::NEWEST_RUN", "newest first, ends at the first row"),
    (
        "ids::RUNS_ENDING",
        "a person typed the end of an id; reads the index of ids and no row",
    ),
    ("ids::THREADS_ENDING", "as for `ids::RUNS_ENDING`"),
    ("ids::DELIVERIES_ENDING", "as for `ids::RUNS_ENDING`"),
    ("letters::MESSAGES_ENDING", "as for `ids::RUNS_ENDING`"),
    ("notices::NOTICES_ENDING", "as for `ids::RUNS_ENDING`"),
    ("forks::FORKS_ENDING", "as for `ids::RUNS_ENDING`"),
    ("runs::RUNS_ENDED", "a person asked, once per command"),
    ("runs::RUNS_SINCE", "a person asked, once per command"),
    ("notices::FOLDS", "a person asked, once per command"),
    ("outbox::LIST", "newest first, ends at its limit"),
    ("outbox::RETRY_ALL", "a person asked, once per command"),
    (
        "run_control::FAILED_RUNS",
        "a person asked, once per command",
    ),
    (
        "clock_steps::END_AHEAD",
        "once per start and step of the clock; one row per file that a person wrote",
    ),
    (
        "clock_steps::PULL_CURSORS",
        "as for `clock_steps::END_AHEAD`",
    ),
    (
        "schedules::RESPONSIBILITIES",
        "one row per file that a person wrote",
    ),
    ("slots::SLOTS", "a person asked, once per command"),
    (
        "sessions::FORGET_SESSIONS",
        "once per start of the engine, ends at its limit",
    ),
    ("providers::PROVIDER_CALLS", "one row per provider"),
    ("audit::PENDING", "a person asked, once per command"),
    ("backup::CONTENT", "a person asked, once per command"),
    (
        "gc::COUNTS",
        "a person asked; a row for each minute with mail",
    ),
    ("gc::PRUNE_COUNTS", "as for `gc::COUNTS`"),
    ("gc::FORKS_KEPT", "a person asked, and made each of them"),
    ("gc::RUNS_AT_WORK", "the last row, found in one step"),
    (
        "messages::INSERT_MESSAGE",
        "planned for the foreign key of `raw_letters`, skipped while no key is broken",
    ),
    (
        "imports::INSERT_IMPORTED",
        "as for `messages::INSERT_MESSAGE`",
    ),
    (
        "letter_rows::STORE_LETTERS",
        "as for `messages::INSERT_MESSAGE`",
    ),
    ("search::LAST_SEQ", "the last row, found in one step"),
    ("halts::HALTS", "one row per persona at most"),
];

/// Indexes that hold only rows that somebody still works on: walking one whole is bounded by the work at hand.
const OPEN_ROWS: &[&str] = &[
    "runs_open",
    "runs_ready",
    "runs_open_by_thread",
    "runs_running",
    "runs_poison",
    "deliveries_open",
    "responsibilities_due",
    "responsibility_slots_waiting",
    "responsibility_slots_catching_up",
    "notices_pending",
];

/// A `const NAME: &str` of the store.
struct Statement {
    /// `file::NAME`.
    name: String,
    sql: String,
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
    for Statement { name, sql } in statements_of_the_store() {
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
