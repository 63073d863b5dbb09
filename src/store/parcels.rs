//! The rows that runs are made of, taken out as values and put into an empty database. What a row holds is the affair of
//! whoever made its table: every column goes along, also one that a later migration adds.
//!
//! A database that was filled this way is an archive: no engine opens it (`open.rs`), so nothing in it is ever due.

use super::{Result, Store, StoreError};
use crate::domain::RunId;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use sqlx::sqlite::SqliteRow;
use sqlx::{Column, Row, SqliteConnection, TypeInfo, ValueRef};
use std::collections::{BTreeMap, BTreeSet};

/// Messages of all threads that go along, the newest.
const MESSAGES_MAX: u32 = 5000;

pub(super) const CONVERSATIONS: &str = "
    SELECT * FROM conversations WHERE id IN (SELECT conversation_id FROM threads WHERE id IN (
      SELECT thread_id FROM runs WHERE id IN (SELECT value FROM json_each($1))
      UNION SELECT thread_id FROM messages WHERE run_id IN (SELECT value FROM json_each($1))))";
/// Those of the runs, and those that they wrote into: mail to somebody else is a thread of its own.
pub(super) const THREADS: &str = "
    SELECT * FROM threads WHERE id IN (
      SELECT thread_id FROM runs WHERE id IN (SELECT value FROM json_each($1))
      UNION SELECT thread_id FROM messages WHERE run_id IN (SELECT value FROM json_each($1)))";
pub(super) const PARTICIPANTS: &str = "
    SELECT * FROM thread_participants WHERE thread_id IN (
      SELECT thread_id FROM runs WHERE id IN (SELECT value FROM json_each($1))
      UNION SELECT thread_id FROM messages WHERE run_id IN (SELECT value FROM json_each($1)))";
pub(super) const RAW_LETTERS: &str = "
    SELECT * FROM raw_letters WHERE id IN (SELECT raw_id FROM messages WHERE id IN
      (SELECT trigger_message_id FROM runs WHERE id IN (SELECT value FROM json_each($1))))";
/// The letters, what the runs wrote, and what they could see of their threads. Only the letters bring their bytes.
pub(super) const MESSAGES: &str = "
    SELECT * FROM messages WHERE id IN (
      SELECT trigger_message_id FROM runs WHERE id IN (SELECT value FROM json_each($1))
      UNION SELECT id FROM messages WHERE run_id IN (SELECT value FROM json_each($1))
      UNION SELECT p.id FROM runs r JOIN messages t ON t.id = r.trigger_message_id
        JOIN messages p ON p.thread_id = r.thread_id
        WHERE r.id IN (SELECT value FROM json_each($1)) AND (p.seq < t.seq OR p.direction = 'outbound'))
    ORDER BY seq DESC LIMIT $2";
pub(super) const ATTACHMENTS: &str = "
    SELECT * FROM attachments WHERE message_id IN
      (SELECT trigger_message_id FROM runs WHERE id IN (SELECT value FROM json_each($1)))";
/// With the runs before them in their threads, to which the traces of a history belong.
pub(super) const RUNS: &str = "
    SELECT DISTINCT b.* FROM runs r JOIN runs b ON b.thread_id = r.thread_id AND b.seq <= r.seq
    WHERE r.id IN (SELECT value FROM json_each($1)) ORDER BY b.seq";
/// What the runs are held to stands in their slots.
pub(super) const RESPONSIBILITIES: &str = "
    SELECT * FROM responsibilities WHERE id IN (
      SELECT responsibility_id FROM responsibility_slots WHERE run_id IN (SELECT value FROM json_each($1)))";
pub(super) const SLOTS: &str =
    "SELECT * FROM responsibility_slots WHERE run_id IN (SELECT value FROM json_each($1))";
pub(super) const TURNS: &str = "SELECT * FROM run_turns WHERE run_id IN (SELECT value FROM json_each($1))";
/// What the contexts were assembled from: every digest that their sources name, and the files that a configuration among
/// them names.
pub(super) const CONTENTS: &str = "
    WITH named (sha256) AS (SELECT t.sha256 FROM turn_texts t WHERE t.run_id IN (SELECT value FROM json_each($1)))
    SELECT * FROM contents WHERE sha256 IN (
      SELECT sha256 FROM named
      UNION SELECT f.value FROM named n JOIN contents c ON c.sha256 = n.sha256,
        json_each(CASE WHEN json_valid(CAST(c.bytes AS TEXT)) THEN CAST(c.bytes AS TEXT) ELSE '{}' END, '$.files') f)";
pub(super) const STEPS: &str = "
    SELECT DISTINCT e.* FROM runs r JOIN runs b ON b.thread_id = r.thread_id AND b.seq <= r.seq
      JOIN thread_tool_events e ON e.run_id = b.id
    WHERE r.id IN (SELECT value FROM json_each($1))";
pub(super) const OUTPUTS: &str =
    "SELECT * FROM run_outputs WHERE run_id IN (SELECT value FROM json_each($1))";
pub(super) const DELIVERIES: &str =
    "SELECT * FROM deliveries WHERE run_id IN (SELECT value FROM json_each($1))";
pub(super) const RECIPIENTS: &str = "
    SELECT * FROM delivery_recipients WHERE delivery_id IN
      (SELECT id FROM deliveries WHERE run_id IN (SELECT value FROM json_each($1)))";
pub(super) const LEDGER: &str =
    "SELECT * FROM usage_ledger WHERE run_id IN (SELECT value FROM json_each($1))";

/// Every table that goes along, a table after those that its rows name.
const TABLES: &[(&str, &str)] = &[
    ("conversations", CONVERSATIONS),
    ("threads", THREADS),
    ("thread_participants", PARTICIPANTS),
    ("raw_letters", RAW_LETTERS),
    ("messages", MESSAGES),
    ("attachments", ATTACHMENTS),
    ("runs", RUNS),
    ("responsibilities", RESPONSIBILITIES),
    ("responsibility_slots", SLOTS),
    ("run_turns", TURNS),
    ("contents", CONTENTS),
    ("thread_tool_events", STEPS),
    ("run_outputs", OUTPUTS),
    ("deliveries", DELIVERIES),
    ("delivery_recipients", RECIPIENTS),
    ("usage_ledger", LEDGER),
];

/// What a table's rows hang on, in the order of [`TABLES`]. A row without it does not go along, because the database that
/// it is put into takes none: where there are too many messages, the letter of an older run does not come, nor does that run.
const HANGS_ON: &[(&str, &str, &str)] = &[
    ("threads", "conversation_id", "conversations"),
    ("thread_participants", "thread_id", "threads"),
    ("messages", "thread_id", "threads"),
    ("attachments", "message_id", "messages"),
    ("runs", "thread_id", "threads"),
    ("runs", "trigger_message_id", "messages"),
    ("responsibility_slots", "run_id", "runs"),
    ("run_turns", "run_id", "runs"),
    ("thread_tool_events", "thread_id", "threads"),
    ("thread_tool_events", "run_id", "runs"),
    ("run_outputs", "run_id", "runs"),
    ("deliveries", "message_id", "messages"),
    ("delivery_recipients", "delivery_id", "deliveries"),
    ("usage_ledger", "run_id", "runs"),
];

/// Columns that would let whoever reads them act in our name: an address to which reports are believed.
const POWERS: &[&str] = &["bounce_token"];

pub(super) const SCHEMA: &str = "SELECT max(version) FROM _sqlx_migrations";
pub(super) const COLUMNS: &str = "SELECT name FROM pragma_table_info($1)";
pub(super) const IS_EMPTY: &str = "
    SELECT NOT EXISTS (SELECT 1 FROM runs) AND NOT EXISTS (SELECT 1 FROM messages) AND NOT EXISTS (SELECT 1 FROM archive)";
pub(super) const ARCHIVE_HEADER: &str = "SELECT header_json FROM archive WHERE id = 1";
pub(super) const MARK_ARCHIVE: &str = "INSERT INTO archive (id, header_json, imported_at) VALUES (1, $1, $2)";

/// One row of a table. Bytes are `{"base64": …}`.
#[derive(Debug, Clone, PartialEq)]
pub struct ParcelRow {
    pub table: String,
    pub cells: Map<String, Value>,
}

impl Store {
    /// The rows that these runs are made of, in an order in which they can be put elsewhere.
    pub async fn rows_of_runs(&self, runs: &[RunId]) -> Result<Vec<ParcelRow>> {
        let ids: Vec<&str> = runs.iter().map(RunId::as_str).collect();
        let ids = json!(ids).to_string();
        let mut rows = Vec::new();
        for (table, sql) in TABLES {
            let found = sqlx::query(*sql).bind(&ids).bind(MESSAGES_MAX).fetch_all(self.readers()).await?;
            for row in &found {
                let mut cells = cells(row)?;
                for power in POWERS {
                    cells.get_mut(*power).into_iter().for_each(|cell| *cell = Value::Null);
                }
                rows.push(ParcelRow { table: (*table).to_owned(), cells });
            }
        }
        // A message of the history comes without its bytes.
        let letters = ids_of(&rows, "raw_letters");
        for row in rows.iter_mut().filter(|row| row.table == "messages") {
            if text(row, "raw_id").is_some_and(|raw| !letters.contains(&raw)) {
                row.cells.insert("raw_id".into(), Value::Null);
            }
        }
        for (table, column, on) in HANGS_ON {
            let there = ids_of(&rows, on);
            rows.retain(|row| row.table != *table || text(row, column).is_some_and(|of| there.contains(&of)));
        }
        Ok(rows)
    }

    /// The number of the newest migration.
    pub async fn schema_version(&self) -> Result<i64> {
        Ok(sqlx::query_scalar(SCHEMA).fetch_one(self.readers()).await?)
    }

    /// The header of the file that this archive came from; `None`: it is a database of its own.
    pub async fn archive_header(&self) -> Result<Option<String>> {
        Ok(sqlx::query_scalar(ARCHIVE_HEADER).fetch_optional(self.readers()).await?)
    }

    /// Fills an empty database with rows of another engine, in one commit, and makes it an archive.
    ///
    /// Errors: [`StoreError::WrongState`] when something is in it; [`StoreError::Unreadable`] for a table or a column that is
    /// none of ours; what a table itself refuses.
    pub async fn fill_archive(&self, rows: Vec<ParcelRow>, header_json: String) -> Result<()> {
        let now = self.clock().now().to_string();
        self.write(move |conn| {
            Box::pin(async move {
                if !sqlx::query_scalar::<_, bool>(IS_EMPTY).fetch_one(&mut *conn).await? {
                    let (id, state) = ("archive".to_owned(), "not empty".to_owned());
                    let hint = "runs from elsewhere go into a workspace of their own";
                    return Err(StoreError::WrongState { kind: "database", id, state, hint });
                }
                let mut known = BTreeMap::new();
                for (table, _) in TABLES {
                    let columns = sqlx::query_scalar(COLUMNS).bind(table).fetch_all(&mut *conn).await?;
                    known.insert((*table).to_owned(), columns.into_iter().collect::<BTreeSet<String>>());
                }
                for row in &rows {
                    insert(conn, row, &known).await?;
                }
                sqlx::query(MARK_ARCHIVE).bind(&header_json).bind(&now).execute(conn).await?;
                Ok(())
            })
        })
        .await
    }
}

async fn insert(
    conn: &mut SqliteConnection,
    row: &ParcelRow,
    known: &BTreeMap<String, BTreeSet<String>>,
) -> Result<()> {
    let strange = || StoreError::Unreadable { what: "row of a run from elsewhere" };
    let (table, columns) = known.get_key_value(&row.table).ok_or_else(strange)?;
    // Names in the statement are our own: a name of the file only chooses among them.
    let names: Option<Vec<&str>> =
        row.cells.keys().map(|name| columns.get(name).map(String::as_str)).collect();
    let names = names.filter(|names| !names.is_empty()).ok_or_else(strange)?;
    let places: Vec<String> = (1..=names.len()).map(|place| format!("${place}")).collect();
    let sql = format!("INSERT INTO {table} ({}) VALUES ({})", names.join(", "), places.join(", "));
    let mut query = sqlx::query(sqlx::AssertSqlSafe(sql));
    for cell in row.cells.values() {
        query = match cell {
            Value::Null => query.bind(None::<String>),
            Value::String(text) => query.bind(text.clone()),
            Value::Number(number) => match number.as_i64() {
                Some(whole) => query.bind(whole),
                None => query.bind(number.as_f64()),
            },
            Value::Object(_) => {
                let bytes = cell["base64"].as_str().and_then(|text| STANDARD.decode(text).ok());
                query.bind(bytes.ok_or_else(strange)?)
            }
            _ => return Err(strange()),
        };
    }
    query.execute(conn).await?;
    Ok(())
}

fn ids_of(rows: &[ParcelRow], table: &str) -> BTreeSet<String> {
    rows.iter().filter(|row| row.table == table).filter_map(|row| text(row, "id")).collect()
}

fn text(row: &ParcelRow, column: &str) -> Option<String> {
    row.cells.get(column)?.as_str().map(str::to_owned)
}

fn cells(row: &SqliteRow) -> Result<Map<String, Value>> {
    let mut cells = Map::new();
    for column in row.columns() {
        let (index, name) = (column.ordinal(), column.name().to_owned());
        let raw = row.try_get_raw(index)?;
        let kind = raw.type_info().name().to_owned();
        let value = match kind.as_str() {
            _ if raw.is_null() => Value::Null,
            "INTEGER" => json!(row.try_get_unchecked::<i64, _>(index)?),
            "REAL" => json!(row.try_get_unchecked::<f64, _>(index)?),
            "BLOB" => json!({ "base64": STANDARD.encode(row.try_get_unchecked::<Vec<u8>, _>(index)?) }),
            _ => json!(row.try_get_unchecked::<String, _>(index)?),
        };
        cells.insert(name, value);
    }
    Ok(cells)
}
