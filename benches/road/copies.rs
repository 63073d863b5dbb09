//! A long history: rows that the engine wrote for some letters, copied with other ids until there are as many as wanted.
//!
//! A copy is older than what it was made from, by its ids and its times, so that new rows go to the end of each index,
//! as they do in an engine that has run for years.

use crate::app::db;

/// Tables of which a letter has rows, each after those that it refers to, and which rows are a letter's own.
const COPIED: [(&str, &str); 14] = [
    ("conversations", "true"),
    ("threads", "true"),
    ("thread_participants", "true"),
    ("message_links", "true"),
    ("raw_letters", "true"),
    ("messages", "true"),
    ("runs", "true"),
    ("run_turns", "true"),
    ("thread_tool_events", "true"),
    ("deliveries", "true"),
    ("delivery_recipients", "true"),
    ("usage_ledger", "true"),
    // Those of a persona and of the engine are one row each.
    ("budget_accounts", "length(owner) = 36"),
    ("audit_log", "true"),
];
/// Columns that a table numbers by itself.
const NUMBERED: &str = "seq";
/// Copies of everything in one transaction.
const COPIES_AT_ONCE: usize = 50;

/// What has no row for a letter of the bench and grows with letters elsewhere: firings of responsibilities, notices of
/// which owners were told, sessions of agents.
const OTHERS: &str = "
    INSERT INTO responsibility_slots (responsibility_id, slot_at, persona_id, kind, state, run_id, created_at)
      SELECT d.id, strftime('%Y-%m-%dT%H:%M:00.000Z', '2026-11-01', '-' || (n.i * 10) || ' minutes'), d.persona_id, 'scheduled', 'fired',
        printf('%08x', n.i) || substr((SELECT id FROM runs ORDER BY seq LIMIT 1), 9), '2026-01-01T00:00:00.000Z'
      FROM responsibilities d, numbers n;
    INSERT INTO notices (id, persona_id, kind, cause, subject_kind, subject_id, occurrence, summary, hint, emitted_at,
        notified_at, delivery_id)
      SELECT printf('%08x', n.i) || substr(d.id, 9), 'ada', 'delivery_failed', 'delivery_failed:' || d.id, 'delivery', d.id, n.i,
        'a mail did not arrive', 'look at it', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z', d.id
      FROM (SELECT min(id) AS id FROM deliveries WHERE state = 'done' GROUP BY substr(id, 9) ORDER BY 1 LIMIT 3) d, numbers n;
    INSERT INTO provider_sessions (persona_id, thread_id, provider, model, session_id, folder, options_sha256, state, run_id,
        seen_seq, created_at, used_at)
      SELECT 'ada', printf('%08x', n.i) || substr(t.id, 9), 'claude-code', 'm', t.id, '/nowhere', '', 'lost', '', 1,
        '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z'
      FROM (SELECT min(id) AS id FROM threads GROUP BY substr(id, 9) ORDER BY 1 LIMIT 10) t, numbers n";

/// Copies the rows of the letters in a database until it holds the wanted number of letters. No engine may have it open.
pub async fn multiply(rows: &mut db::Connection, letters: usize) {
    let begin = "PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF; PRAGMA cache_size = -262144;
        PRAGMA temp_store = MEMORY; CREATE TEMP TABLE numbers (i INTEGER PRIMARY KEY)";
    execute(rows, begin).await;
    let there: i64 = db::query_scalar("SELECT count(*) FROM raw_letters")
        .fetch_one(&mut *rows)
        .await
        .expect("letters");
    let mut copying = String::new();
    for (table, own) in COPIED {
        copying += &copy_of(rows, table, own).await;
        copying += ";\n";
    }
    let copies = letters / usize::try_from(there).expect("a count");
    let before = counts(rows).await;
    for first in (1..copies).step_by(COPIES_AT_ONCE) {
        let last = copies.min(first + COPIES_AT_ONCE) - 1;
        let numbers = format!(
            "BEGIN; DELETE FROM numbers; INSERT INTO numbers
               WITH RECURSIVE n(i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM n WHERE i < {last}) SELECT i FROM n"
        );
        execute(rows, &numbers).await;
        execute(rows, &copying).await;
        execute(rows, OTHERS).await;
        execute(rows, "COMMIT").await;
    }
    for ((table, own), [all, copied]) in COPIED.into_iter().zip(before) {
        let wanted = all + copied * i64::try_from(copies - 1).expect("a count");
        let [now, _] = count(rows, table, own).await;
        assert_eq!(
            now, wanted,
            "rows of `{table}`: {copied} of {all} were copied"
        );
    }
    execute(rows, "PRAGMA wal_checkpoint(TRUNCATE)").await;
}

/// For each table, the number of its rows, and of those that are copied.
async fn counts(rows: &mut db::Connection) -> Vec<[i64; 2]> {
    let mut counts = Vec::new();
    for (table, own) in COPIED {
        counts.push(count(rows, table, own).await);
    }
    counts
}

async fn count(rows: &mut db::Connection, table: &str, own: &str) -> [i64; 2] {
    let mut numbers = [0; 2];
    for (number, condition) in numbers.iter_mut().zip(["true", own]) {
        let sql = format!("SELECT count(*) FROM main.{table} WHERE {condition}");
        *number = db::query_scalar(sqlx::AssertSqlSafe(sql))
            .fetch_one(&mut *rows)
            .await
            .expect("a count");
    }
    numbers
}

/// A statement that copies the rows which the engine itself wrote, once for each of `numbers`.
async fn copy_of(rows: &mut db::Connection, table: &str, own: &str) -> String {
    // A number such as `crashed_at` is none of a time.
    let columns = db::query(
        "SELECT name, type = 'TEXT' AS is_text FROM pragma_table_info($1) WHERE name <> $2",
    )
    .bind(table)
    .bind(NUMBERED)
    .fetch_all(&mut *rows)
    .await
    .expect("columns");
    let temporary =
        format!("CREATE TEMP TABLE original_{table} AS SELECT * FROM main.{table} WHERE {own}");
    execute(rows, &temporary).await;
    let values = columns.iter().map(|column| {
        let name: String = column.get("name");
        match column.get::<bool>("is_text") {
            true => value(table, &name),
            false => format!("t.{name}"),
        }
    });
    let values = values.collect::<Vec<_>>().join(", ");
    let columns = columns.iter().map(|column| column.get::<String>("name"));
    let columns = columns.collect::<Vec<_>>().join(", ");
    // A row that is refused stops the bench: figures of fewer rows than letters were published once.
    format!(
        "INSERT INTO main.{table} ({columns}) SELECT {values} FROM original_{table} t, numbers n"
    )
}

/// A column of a copy: ids and times are its own, everything else is that of the original.
fn value(table: &str, column: &str) -> String {
    match (table, column) {
        // Message-IDs of strangers and digests stand anywhere among those that are there.
        ("messages", "message_id" | "in_reply_to")
        | (_, "rfc_message_id" | "sha256" | "bounce_token") => {
            format!("printf('%08x', n.i * 2654435761 & 4294967295) || substr(t.{column}, 9)")
        }
        (_, "dedup_key") => format!(
            "substr(t.{column}, 1, 4) || printf('%08x', n.i * 2654435761 & 4294967295) || substr(t.{column}, 13)"
        ),
        ("budget_accounts", "owner") => "printf('%08x', n.i) || substr(t.owner, 9)".to_owned(),
        (_, "persona_id" | "tool_call_id" | "fork_id") => format!("t.{column}"),
        (_, "id") => "printf('%08x', n.i) || substr(t.id, 9)".to_owned(),
        (_, column) if column.ends_with("_id") => {
            format!("printf('%08x', n.i) || substr(t.{column}, 9)")
        }
        (_, column) if column.ends_with("_at") => {
            format!("strftime('%Y-%m-%dT%H:%M:%fZ', t.{column}, '-' || (1 + n.i % 300) || ' days')")
        }
        (_, column) => format!("t.{column}"),
    }
}

async fn execute(rows: &mut db::Connection, sql: &str) {
    db::raw_sql(sqlx::AssertSqlSafe(sql.to_owned()))
        .execute(rows)
        .await
        .unwrap_or_else(|error| panic!("{error}: {sql}"));
}
