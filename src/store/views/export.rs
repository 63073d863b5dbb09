//! Everything of one persona, row by row, for an export. It reads a snapshot (see `backup.rs`), so
//! that a large export neither sees half a change nor holds up the engine's log.

use crate::domain::PersonaId;
use crate::store::catalogue::{self, TABLES, Table};
use crate::store::db::{self, Connection, Sql, raw_sql};
use crate::store::journal::packed::Unpacker;
use crate::store::packing;
use crate::store::postgres::open as server;
use crate::store::postgres::url::{DatabaseUrl, Session};
use crate::store::sql::{from_json, persona_id};
use crate::store::views::bundles::put_bodies;
use crate::store::{OpenError, Result};
use futures_util::TryStreamExt;
use serde_json::{Map, Value, json};
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use std::borrow::Cow;
use std::io;
use std::path::Path;

/// Raw letters as received and mails as handed over, in the order of their threads; without those
/// whose bytes are pruned.
const MAILS: &str = "
    SELECT m.id, m.direction, coalesce(l.bytes, d.bytes) AS bytes FROM messages m
    LEFT JOIN raw_letters l ON l.id = m.raw_id
    LEFT JOIN deliveries d ON d.message_id = m.id
    WHERE m.persona_id = $1 AND m.disposition <> 'notice'
      AND coalesce(octet_length(l.bytes), octet_length(d.bytes), 0) > 0
    ORDER BY m.seq";
/// Personas with rows, those whose folder is gone among them.
const PERSONAS_WITH_ROWS: &str = "SELECT DISTINCT persona_id FROM threads ORDER BY persona_id";
/// Bytes are not text: they are exported as mails, or are parts of them.
pub(in crate::store) const COLUMNS: Sql = Sql::pair(
    "SELECT name FROM pragma_table_info($1) WHERE type <> 'BLOB' ORDER BY cid",
    "
    SELECT column_name::TEXT AS name FROM information_schema.columns
    WHERE table_schema = current_schema() AND table_name = $1 AND data_type <> 'bytea' ORDER BY ordinal_position",
);

/// Returns the columns of a table with packed texts.
fn packed_texts(table: &Table) -> impl Iterator<Item = &'static str> {
    let columns = table.packed.iter().copied();
    columns.filter(|column| column.ends_with("_json"))
}

/// Returns what is read beside the columns that are text: the bodies of a turn, and texts that are packed.
fn bodies_of(table: &Table) -> String {
    match table.name {
        "run_turns" => ", request_json, request_sha256, context_json, sources_json, packed,
              (SELECT bytes FROM contents WHERE sha256 = packed_with) AS dictionary"
            .to_owned(),
        _ => packed_texts(table)
            .map(|column| format!(", {column}"))
            .collect(),
    }
}

/// Nests texts that were packed, as far as they are JSON.
fn nest(cells: &mut Map<String, Value>) {
    for (_, text) in cells
        .iter_mut()
        .filter(|(column, _)| column.ends_with("_json"))
    {
        let nested = text
            .as_str()
            .and_then(|text| serde_json::from_str(text).ok());
        if let Some(nested) = nested {
            *text = nested;
        }
    }
}

/// Returns the query of rows as objects, in which columns that are JSON are nested.
fn row_as_json(columns: &[String], from: &str) -> Sql {
    let fields = |nested: fn(&str) -> String| {
        let field = |name: &String| match name.ends_with("_json") {
            true => format!(
                "'{name}', CASE WHEN json_valid({name}) THEN {} END",
                nested(name)
            ),
            false => format!("'{name}', {name}"),
        };
        columns.iter().map(field).collect::<Vec<_>>().join(", ")
    };
    let of_sqlite = fields(|name| format!("json({name}) ELSE {name}"));
    let of_postgres = fields(|name| format!("json_of({name}) ELSE to_json({name})"));
    Sql::built_pair(
        format!("SELECT json_object({of_sqlite}) {from}"),
        format!("SELECT json_build_object({of_postgres}) {from}"),
    )
}

/// A mail of an export.
#[derive(Debug)]
pub struct ExportedMail<'a> {
    pub message: &'a str,
    /// `inbound` or `outbound`.
    pub direction: &'a str,
    pub bytes: &'a [u8],
}

/// A database that no process changes: a copy, or a snapshot on a server.
pub struct ExportSnapshot {
    conn: Connection,
}

impl ExportSnapshot {
    /// Opens the copy of a workspace's database.
    pub async fn open(path: &Path) -> Result<Self> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .read_only(true)
            .create_if_missing(false);
        let options = options.row_buffer_size(2).disable_statement_logging();
        Ok(Self {
            conn: options.connect().await?.into(),
        })
    }

    /// Begins a snapshot of the database of a workspace, where that is on a server.
    pub async fn of_server(workspace: &Path) -> std::result::Result<Option<Self>, OpenError> {
        let Some(url) = DatabaseUrl::of(workspace)? else {
            return Ok(None);
        };
        let mut conn = server::connect_to_read(&url, Session::ReadAll).await?;
        raw_sql("BEGIN ISOLATION LEVEL REPEATABLE READ")
            .execute(&mut conn)
            .await?;
        Ok(Some(Self { conn }))
    }

    /// Returns the names of the exported tables. Absent: the search index and vectors, which can be made again, and what only
    /// an engine can use.
    pub fn tables() -> impl Iterator<Item = &'static str> {
        let exported = TABLES
            .iter()
            .filter(|table| table.rows_of_persona.is_some());
        exported.map(|table| table.name)
    }

    /// Returns the personas that have rows, those whose folder is gone among them.
    pub async fn personas(&mut self) -> Result<Vec<PersonaId>> {
        let rows = self.conn.rows(PERSONAS_WITH_ROWS, ()).await?;
        rows.iter().map(persona_id).collect()
    }

    /// Passes the persona's rows of a table as JSON objects, one each; columns that are JSON are
    /// nested. Returns their number.
    pub async fn rows(
        &mut self,
        table: &str,
        persona: &PersonaId,
        mut each: impl FnMut(&str) -> io::Result<()>,
    ) -> Result<io::Result<u64>> {
        let Some(table) = catalogue::find(table) else {
            return Ok(Ok(0));
        };
        let Some(rows) = table.rows_of_persona else {
            return Ok(Ok(0));
        };
        let name = table.name;
        let columns: Vec<String> = self.conn.all(COLUMNS, name).await?;
        let bodies = bodies_of(table);
        let from = format!("AS row_json{bodies} FROM {name} WHERE {rows}");
        let mut rows = db::query(row_as_json(&columns, &from))
            .bind(persona)
            .fetch(&mut self.conn);
        let (mut count, mut unpacker) = (0, Unpacker::default());
        while let Some(row) = rows.try_next().await? {
            let mut row_json: Cow<'_, str> = Cow::Borrowed(row.try_get("row_json")?);
            if !bodies.is_empty() {
                let mut cells: Map<String, Value> = from_json(&row_json, "turn")?;
                if name == "run_turns" {
                    put_bodies(&mut cells, unpacker.read(&row)?);
                }
                for column in packed_texts(table) {
                    let text = packing::text_of(&row, column)?;
                    cells.insert(column.to_owned(), json!(text));
                }
                nest(&mut cells);
                row_json = Cow::Owned(Value::Object(cells).to_string());
            }
            if let Err(error) = each(&row_json) {
                return Ok(Err(error));
            }
            count += 1;
        }
        Ok(Ok(count))
    }

    /// Passes every letter and mail of the persona, oldest first. Returns their number.
    pub async fn mails(
        &mut self,
        persona: &PersonaId,
        mut each: impl FnMut(u64, ExportedMail<'_>) -> io::Result<()>,
    ) -> Result<io::Result<u64>> {
        let mut rows = db::query(MAILS).bind(persona).fetch(&mut self.conn);
        let mut count = 0;
        while let Some(row) = rows.try_next().await? {
            let mail = ExportedMail {
                message: row.try_get("id")?,
                direction: row.try_get("direction")?,
                bytes: &packing::bytes_of(&row, "bytes")?,
            };
            if let Err(error) = each(count, mail) {
                return Ok(Err(error));
            }
            count += 1;
        }
        Ok(Ok(count))
    }
}
