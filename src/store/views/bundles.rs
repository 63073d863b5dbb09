//! Export of the rows that belong to runs, and their import into an empty database. The columns are
//! copied without interpretation: every column is included, also one that a later migration adds.
//!
//! A database that was filled this way is an archive: no engine opens it (`open.rs`), so no row in
//! it is ever due.

use crate::domain::RunId;
use crate::store::archive::{ARCHIVE_HEADER, MARK_ARCHIVE};
use crate::store::db::{self, Cell, Connection, Row, Scope, Sql};
use crate::store::journal::packed::{Bodies, Unpacker};
use crate::store::{Result, Store, StoreError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Most messages of all threads that are exported, the newest first.
const MESSAGES_MAX: u32 = 5000;

pub(in crate::store) const CONVERSATIONS: &str = "
    SELECT * FROM conversations WHERE id IN (SELECT conversation_id FROM threads WHERE id IN (
      SELECT thread_id FROM runs WHERE id IN (SELECT value FROM jsonb_each($1))
      UNION SELECT thread_id FROM messages WHERE run_id IN (SELECT value FROM jsonb_each($1))))";
/// Threads of the runs, and threads that they wrote into: mail to another recipient is a thread of
/// its own.
pub(in crate::store) const THREADS: &str = "
    SELECT * FROM threads WHERE id IN (
      SELECT thread_id FROM runs WHERE id IN (SELECT value FROM jsonb_each($1))
      UNION SELECT thread_id FROM messages WHERE run_id IN (SELECT value FROM jsonb_each($1)))";
pub(in crate::store) const PARTICIPANTS: &str = "
    SELECT * FROM thread_participants WHERE thread_id IN (
      SELECT thread_id FROM runs WHERE id IN (SELECT value FROM jsonb_each($1))
      UNION SELECT thread_id FROM messages WHERE run_id IN (SELECT value FROM jsonb_each($1)))";
pub(in crate::store) const RAW_LETTERS: &str = "
    SELECT * FROM raw_letters WHERE id IN (SELECT raw_id FROM messages WHERE id IN
      (SELECT trigger_message_id FROM runs WHERE id IN (SELECT value FROM jsonb_each($1))))";
/// The triggering letters, the messages that the runs wrote, and the messages that they could see
/// in their threads. Only the letters include their bytes.
pub(in crate::store) const MESSAGES: &str = "
    SELECT * FROM messages WHERE id IN (
      SELECT trigger_message_id FROM runs WHERE id IN (SELECT value FROM jsonb_each($1))
      UNION SELECT id FROM messages WHERE run_id IN (SELECT value FROM jsonb_each($1))
      UNION SELECT p.id FROM runs r JOIN messages t ON t.id = r.trigger_message_id
        JOIN messages p ON p.thread_id = r.thread_id
        WHERE r.id IN (SELECT value FROM jsonb_each($1)) AND (p.seq < t.seq OR p.direction = 'outbound'))
    ORDER BY seq DESC LIMIT $2";
pub(in crate::store) const ATTACHMENTS: &str = "
    SELECT * FROM attachments WHERE message_id IN
      (SELECT trigger_message_id FROM runs WHERE id IN (SELECT value FROM jsonb_each($1)))";
/// The runs with the earlier runs of their threads, to which the traces of a history belong.
pub(in crate::store) const RUNS: &str = "
    SELECT DISTINCT b.* FROM runs r JOIN runs b ON b.thread_id = r.thread_id AND b.seq <= r.seq
    WHERE r.id IN (SELECT value FROM jsonb_each($1)) ORDER BY b.seq";
/// Responsibilities of the runs, whose slots hold the run options.
pub(in crate::store) const RESPONSIBILITIES: &str = "
    SELECT * FROM responsibilities WHERE id IN (
      SELECT responsibility_id FROM responsibility_slots WHERE run_id IN (SELECT value FROM jsonb_each($1)))";
pub(in crate::store) const SLOTS: &str =
    "SELECT * FROM responsibility_slots WHERE run_id IN (SELECT value FROM jsonb_each($1))";
/// Requests and contexts leave as the texts that they are: a reader looks for words in them.
pub(in crate::store) const TURNS: &str = "
    SELECT t.*, c.bytes AS dictionary FROM run_turns t LEFT JOIN contents c ON c.sha256 = t.packed_with
    WHERE t.run_id IN (SELECT value FROM jsonb_each($1)) ORDER BY t.run_id, t.turn_index, t.attempt";
/// What the contexts were assembled from: every digest that their sources name, and the files that a configuration among
/// them names.
pub(in crate::store) const CONTENTS: Sql = Sql::pair(
    "
    WITH named (sha256) AS (SELECT t.sha256 FROM turn_texts t WHERE t.run_id IN (SELECT value FROM jsonb_each($1)))
    SELECT * FROM contents WHERE sha256 IN (
      SELECT sha256 FROM named
      UNION SELECT f.value FROM named n JOIN contents c ON c.sha256 = n.sha256,
        json_each(CASE WHEN json_valid(CAST(c.bytes AS TEXT)) THEN CAST(c.bytes AS TEXT) ELSE '{}' END, '$.files') f)",
    "
    WITH named (sha256) AS (SELECT t.sha256 FROM turn_texts t WHERE t.run_id IN (SELECT value FROM jsonb_each($1)))
    SELECT * FROM contents WHERE sha256 IN (
      SELECT sha256 FROM named
      UNION SELECT f.value FROM named n JOIN contents c ON c.sha256 = n.sha256,
        json_each(CASE WHEN json_valid(text_of(c.bytes)) THEN text_of(c.bytes) ELSE '{}' END, '$.files') f)",
);
pub(in crate::store) const STEPS: &str = "
    SELECT DISTINCT e.* FROM runs r JOIN runs b ON b.thread_id = r.thread_id AND b.seq <= r.seq
      JOIN thread_tool_events e ON e.run_id = b.id
    WHERE r.id IN (SELECT value FROM jsonb_each($1))";
/// Entries of memory that the runs were shown.
pub(in crate::store) const MEMORY: &str = "
    SELECT * FROM memory WHERE id IN (SELECT e.value FROM run_turns t, json_each(t.sources_json, '$.reads') r,
        json_each(r.value, '$.entries') e
      WHERE t.run_id IN (SELECT value FROM jsonb_each($1)) AND t.sources_json IS NOT NULL AND r.value ->> '$.read' = 'memory')";
pub(in crate::store) const OUTPUTS: &str =
    "SELECT * FROM run_outputs WHERE run_id IN (SELECT value FROM jsonb_each($1))";
pub(in crate::store) const DELIVERIES: &str =
    "SELECT * FROM deliveries WHERE run_id IN (SELECT value FROM jsonb_each($1))";
pub(in crate::store) const RECIPIENTS: &str = "
    SELECT * FROM delivery_recipients WHERE delivery_id IN
      (SELECT id FROM deliveries WHERE run_id IN (SELECT value FROM jsonb_each($1)))";
pub(in crate::store) const LEDGER: &str =
    "SELECT * FROM usage_ledger WHERE run_id IN (SELECT value FROM jsonb_each($1))";

/// Every exported table, after the tables that its rows reference.
static TABLES: &[(&str, Sql)] = &[
    ("conversations", Sql::same(CONVERSATIONS)),
    ("threads", Sql::same(THREADS)),
    ("thread_participants", Sql::same(PARTICIPANTS)),
    ("raw_letters", Sql::same(RAW_LETTERS)),
    ("messages", Sql::same(MESSAGES)),
    ("attachments", Sql::same(ATTACHMENTS)),
    ("runs", Sql::same(RUNS)),
    ("responsibilities", Sql::same(RESPONSIBILITIES)),
    ("responsibility_slots", Sql::same(SLOTS)),
    ("run_turns", Sql::same(TURNS)),
    ("contents", CONTENTS),
    ("thread_tool_events", Sql::same(STEPS)),
    ("memory", Sql::same(MEMORY)),
    ("run_outputs", Sql::same(OUTPUTS)),
    ("deliveries", Sql::same(DELIVERIES)),
    ("delivery_recipients", Sql::same(RECIPIENTS)),
    ("usage_ledger", Sql::same(LEDGER)),
];

/// References of a table's rows, in the order of [`TABLES`]. A row whose parent is absent is left
/// out, because foreign keys would refuse it: where there are too many messages, the letter of an
/// older run is missing, and so is that run.
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

/// Columns that would let a reader of the bundle act in our name: the token of an address to which
/// reports are believed.
const POWERS: &[&str] = &["bounce_token"];

pub(in crate::store) const SCHEMA: &str = "SELECT max(version) FROM _sqlx_migrations";
pub(in crate::store) const COLUMNS: Sql = Sql::pair(
    "SELECT name FROM pragma_table_info($1)",
    "
    SELECT column_name::TEXT AS name FROM information_schema.columns
    WHERE table_schema = current_schema() AND table_name = $1 ORDER BY ordinal_position",
);
pub(in crate::store) const IS_EMPTY: &str = "
    SELECT NOT EXISTS (SELECT 1 FROM runs) AND NOT EXISTS (SELECT 1 FROM messages) AND NOT EXISTS (SELECT 1 FROM archive)";

/// One row of a table. Bytes are `{"base64": …}`.
#[derive(Debug, Clone, PartialEq)]
pub struct BundleRow {
    pub table: String,
    pub cells: Map<String, Value>,
}

impl Store {
    /// Returns the rows that belong to these runs, in an order in which they can be inserted.
    pub async fn rows_of_runs(&self, runs: &[RunId]) -> Result<Vec<BundleRow>> {
        let ids: Vec<&str> = runs.iter().map(RunId::as_str).collect();
        let ids = json!(ids).to_string();
        let mut rows = Vec::new();
        for (table, sql) in TABLES {
            let found = db::query(sql)
                .bind(&ids)
                .bind(MESSAGES_MAX)
                .fetch_all(self.readers())
                .await?;
            let mut unpacker = Unpacker::default();
            for row in &found {
                let mut cells = cells(row)?;
                if *table == "run_turns" {
                    put_bodies(&mut cells, unpacker.read(row)?);
                }
                for power in POWERS {
                    cells
                        .get_mut(*power)
                        .into_iter()
                        .for_each(|cell| *cell = Value::Null);
                }
                rows.push(BundleRow {
                    table: (*table).to_owned(),
                    cells,
                });
            }
        }
        // A message of the history has no bytes.
        let letters = ids_of(&rows, "raw_letters");
        for row in rows.iter_mut().filter(|row| row.table == "messages") {
            if text(row, "raw_id").is_some_and(|raw| !letters.contains(&raw)) {
                row.cells.insert("raw_id".into(), Value::Null);
            }
        }
        for (table, column, on) in HANGS_ON {
            let there = ids_of(&rows, on);
            rows.retain(|row| {
                row.table != *table || text(row, column).is_some_and(|of| there.contains(&of))
            });
        }
        Ok(rows)
    }

    /// Returns the number of the newest migration.
    pub async fn schema_version(&self) -> Result<i64> {
        Ok(db::query_scalar(SCHEMA).fetch_one(self.readers()).await?)
    }

    /// Returns the header of the file that this archive was imported from; `None`: the database is
    /// no archive.
    pub async fn archive_header(&self) -> Result<Option<String>> {
        Ok(db::query_scalar(ARCHIVE_HEADER)
            .fetch_optional(self.readers())
            .await?)
    }

    /// Fills an empty database with rows of another engine, in one commit, and marks it as an
    /// archive.
    ///
    /// Errors: [`StoreError::WrongState`] when the database is not empty;
    /// [`StoreError::Unreadable`] for an unknown table or column; constraint errors of the tables.
    pub async fn fill_archive(&self, rows: Vec<BundleRow>, header_json: String) -> Result<()> {
        let now = self.clock().now().to_string();
        self.write(Scope::Engine, move |conn| {
            Box::pin(async move {
                if !db::query_scalar::<bool>(IS_EMPTY)
                    .fetch_one(&mut *conn)
                    .await?
                {
                    let (id, state) = ("archive".to_owned(), "not empty".to_owned());
                    let hint = "runs from elsewhere go into a workspace of their own";
                    return Err(StoreError::WrongState {
                        kind: "database",
                        id,
                        state,
                        hint,
                    });
                }
                let mut known = BTreeMap::new();
                for (table, _) in TABLES {
                    let columns = db::query_scalar(COLUMNS)
                        .bind(table)
                        .fetch_all(&mut *conn)
                        .await?;
                    known.insert(
                        (*table).to_owned(),
                        columns.into_iter().collect::<BTreeSet<String>>(),
                    );
                }
                for row in &rows {
                    insert(conn, row, &known).await?;
                }
                db::query(MARK_ARCHIVE)
                    .bind(&header_json)
                    .bind(&now)
                    .execute(conn)
                    .await?;
                Ok(())
            })
        })
        .await
    }
}

async fn insert(
    conn: &mut Connection,
    row: &BundleRow,
    known: &BTreeMap<String, BTreeSet<String>>,
) -> Result<()> {
    let strange = || StoreError::Unreadable {
        what: "row of a run from elsewhere",
    };
    let (table, columns) = known.get_key_value(&row.table).ok_or_else(strange)?;
    // Names in the statement are our own constants: a name of the file only selects among them.
    let names: Option<Vec<&str>> = row
        .cells
        .keys()
        .map(|name| columns.get(name).map(String::as_str))
        .collect();
    let names = names
        .filter(|names| !names.is_empty())
        .ok_or_else(strange)?;
    let places: Vec<String> = (1..=names.len()).map(|place| format!("${place}")).collect();
    let sql = format!(
        "INSERT INTO {table} ({}) VALUES ({})",
        names.join(", "),
        places.join(", ")
    );
    let mut query = db::query(Sql::built(sql));
    for cell in row.cells.values() {
        query = match cell {
            Value::Null => query.bind(None::<String>),
            Value::String(text) => query.bind(text.clone()),
            Value::Number(number) => match number.as_i64() {
                Some(whole) => query.bind(whole),
                None => query.bind(number.as_f64()),
            },
            Value::Object(_) => {
                let bytes = cell["base64"]
                    .as_str()
                    .and_then(|text| STANDARD.decode(text).ok());
                query.bind(bytes.ok_or_else(strange)?)
            }
            _ => return Err(strange()),
        };
    }
    query.execute(conn).await?;
    Ok(())
}

fn ids_of(rows: &[BundleRow], table: &str) -> BTreeSet<String> {
    rows.iter()
        .filter(|row| row.table == table)
        .filter_map(|row| text(row, "id"))
        .collect()
}

fn text(row: &BundleRow, column: &str) -> Option<String> {
    row.cells.get(column)?.as_str().map(str::to_owned)
}

/// Replaces the packed bodies of a turn by their texts.
pub(in crate::store) fn put_bodies(cells: &mut Map<String, Value>, bodies: Bodies) {
    cells.insert("request_json".to_owned(), json!(bodies.request.as_ref()));
    cells.insert("context_json".to_owned(), json!(bodies.context));
    for column in ["packed", "packed_with", "dictionary"] {
        cells.shift_remove(column);
    }
}

fn cells(row: &Row) -> Result<Map<String, Value>> {
    let value = |cell| match cell {
        Cell::Null => Value::Null,
        Cell::Integer(whole) => json!(whole),
        Cell::Real(real) => json!(real),
        Cell::Text(text) => json!(text),
        Cell::Bytes(bytes) => json!({ "base64": STANDARD.encode(bytes) }),
    };
    // PostgreSQL has it as a column, SQLite in every table: it counts rows of one database.
    let cells = row.cells()?.into_iter().filter(|(name, _)| name != "rowid");
    Ok(cells.map(|(name, cell)| (name, value(cell))).collect())
}
