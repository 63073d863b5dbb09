//! Export of what belongs to runs, and its import into an empty database: things with named fields (`bundle_kinds`), which outlive
//! the schema.
//!
//! A database that was filled this way is an archive: no engine opens it (`open.rs`), so no row in
//! it is ever due.

use crate::domain::RunId;
use crate::store::archive::{ARCHIVE_HEADER, MARK_ARCHIVE};
use crate::store::db::{self, Cell, Connection, Row, Scope, Sql};
use crate::store::journal::packed::{Bodies, Unpacker};
use crate::store::journal::packed_context::{ReportFacts, names_beside};
use crate::store::mail::attachment_bytes;
use crate::store::packing::{self, PackedLetter, REPORTS};
use crate::store::views::bundle_kinds::{BundleKind, KINDS};
use crate::store::{Result, Store, StoreError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Most messages of all threads that are exported, the newest first.
const MESSAGES_MAX: u32 = 5000;

/// References between things: kind, field, kind. A thing is left out where what it refers to is absent, because foreign keys would
/// refuse it: where there are too many messages, the letter of an older run is missing, and so is that run.
const HANGS_ON: &[(&str, &str, &str)] = &[
    ("thread", "conversation", "conversation"),
    ("participant", "thread", "thread"),
    ("message", "thread", "thread"),
    ("attachment", "message", "message"),
    ("run", "thread", "thread"),
    ("run", "message", "message"),
    ("slot", "run", "run"),
    ("turn", "run", "run"),
    ("step", "thread", "thread"),
    ("step", "run", "run"),
    ("output", "run", "run"),
    ("mail", "message", "message"),
    ("recipient", "mail", "mail"),
    ("bill", "run", "run"),
    ("fork", "run", "run"),
];

const IS_EMPTY: &str = "
    SELECT NOT EXISTS (SELECT 1 FROM runs) AND NOT EXISTS (SELECT 1 FROM messages) AND NOT EXISTS (SELECT 1 FROM archive)";

/// A thing of a file of runs. Bytes are `{"base64": …}`.
#[derive(Debug, Clone, PartialEq)]
pub struct BundleThing {
    pub kind: String,
    pub fields: Map<String, Value>,
}

impl Store {
    /// Returns the things that belong to these runs, in an order in which they can be inserted.
    pub async fn things_of_runs(&self, runs: &[RunId]) -> Result<Vec<BundleThing>> {
        let ids: Vec<&str> = runs.iter().map(RunId::as_str).collect();
        let ids = json!(ids).to_string();
        let mut things = Vec::new();
        for kind in KINDS {
            let found = self.rows(&kind.rows, (&ids, MESSAGES_MAX)).await?;
            let mut unpacker = Unpacker::default();
            for row in &found {
                let mut cells = cells(row)?;
                if kind.name == "turn" {
                    put_bodies(&mut cells, unpacker.read(row)?);
                }
                unpack_cells(kind, row, &mut cells)?;
                let fields = kind.fields().filter_map(|(field, column)| {
                    let cell = cells.shift_remove(column)?;
                    (!cell.is_null()).then(|| (field.to_owned(), cell))
                });
                things.push(BundleThing {
                    kind: kind.name.to_owned(),
                    fields: fields.collect(),
                });
            }
        }
        // A message of the history has no bytes.
        let letters = ids_of(&things, "letter");
        for thing in things.iter_mut().filter(|thing| thing.kind == "message") {
            if text(thing, "letter").is_some_and(|letter| !letters.contains(&letter)) {
                thing.fields.shift_remove("letter");
            }
        }
        for (kind, field, on) in HANGS_ON {
            let there = ids_of(&things, on);
            things.retain(|thing| {
                thing.kind != *kind || text(thing, field).is_some_and(|of| there.contains(&of))
            });
        }
        Ok(things)
    }

    /// Returns the header of the file that this archive was imported from; `None`: the database is
    /// no archive.
    pub async fn archive_header(&self) -> Result<Option<String>> {
        self.maybe(ARCHIVE_HEADER, ()).await
    }

    /// Fills an empty database with things of another engine, in one commit, and marks it as an
    /// archive.
    ///
    /// Errors: [`StoreError::WrongState`] when the database is not empty;
    /// [`StoreError::Unreadable`] for an unknown kind or field; constraint errors of the tables.
    pub async fn fill_archive(&self, things: Vec<BundleThing>, header_json: String) -> Result<()> {
        let now = self.clock().now().to_string();
        transact!(self, Scope::Engine, |conn| {
            if !conn.one::<bool>(IS_EMPTY, ()).await? {
                let (id, state) = ("archive".to_owned(), "not empty".to_owned());
                let hint = "runs from elsewhere go into a workspace of their own";
                return Err(StoreError::WrongState {
                    kind: "database",
                    id,
                    state,
                    hint,
                });
            }
            for thing in &things {
                insert(conn, thing).await?;
            }
            conn.exec(MARK_ARCHIVE, (&header_json, &now)).await?;
            Ok(())
        })
        .await
    }
}

async fn insert(conn: &mut Connection, thing: &BundleThing) -> Result<()> {
    let strange = || StoreError::Unreadable {
        what: "thing of a file of runs",
    };
    let kind = KINDS.iter().find(|kind| kind.name == thing.kind);
    let kind = kind.ok_or_else(strange)?;
    // Names in the statement are our own constants: a name of the file only selects among them.
    let column = |name: &String| kind.fields().find(|(field, _)| field == name);
    let cells = thing.fields.iter().map(|(name, value)| {
        let (_, column) = column(name)?;
        Some((column, cell(value)?))
    });
    let mut cells: Vec<(&str, Cell)> = cells.collect::<Option<_>>().ok_or_else(strange)?;
    if cells.is_empty() {
        return Err(strange());
    }
    pack_cells(kind, &mut cells);
    let names: Vec<&str> = cells.iter().map(|(column, _)| *column).collect();
    let table = kind.table;
    let places: Vec<String> = (1..=names.len()).map(|place| format!("${place}")).collect();
    let sql = format!(
        "INSERT INTO {table} ({}) VALUES ({})",
        names.join(", "),
        places.join(", ")
    );
    let mut query = db::query(Sql::built(sql));
    for (_, cell) in cells {
        query = match cell {
            Cell::Null => query.bind(None::<String>),
            Cell::Text(text) => query.bind(text),
            Cell::Integer(whole) => query.bind(whole),
            Cell::Real(real) => query.bind(real),
            Cell::Bytes(bytes) => query.bind(bytes),
        };
    }
    query.exec(conn).await?;
    Ok(())
}

/// Reads a value of the file; `None`: no column has such a one.
fn cell(value: &Value) -> Option<Cell> {
    Some(match value {
        Value::Null => Cell::Null,
        Value::String(text) => Cell::Text(text.clone()),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => Cell::Integer(whole),
            None => Cell::Real(number.as_f64()?),
        },
        Value::Object(_) => Cell::Bytes(STANDARD.decode(value["base64"].as_str()?).ok()?),
        _ => return None,
    })
}

/// Packs what a row has packed, and adds what statements ask of it.
fn pack_cells(kind: &BundleKind, cells: &mut Vec<(&'static str, Cell)>) {
    let mut facts = ReportFacts::default();
    let mut named = None;
    let mut size = None;
    for (column, cell) in cells.iter_mut() {
        let is_packed = kind.packed().contains(column);
        match cell {
            Cell::Text(text) => {
                match *column {
                    "context_report_json" => facts = ReportFacts::of(text),
                    "sources_json" => named = Some(names_beside(text, &BTreeSet::new())),
                    _ => {}
                }
                if is_packed {
                    *cell = Cell::Bytes(REPORTS.pack(text.as_bytes()).into_owned());
                }
            }
            Cell::Bytes(bytes) if is_packed => {
                let letter = PackedLetter::of(bytes);
                size = Some(letter.size_bytes());
                *bytes = letter.bytes;
            }
            _ => {}
        }
    }
    cells.extend(named.map(|named| ("named_json", Cell::Text(named))));
    let facts = [
        ("size_bytes", size),
        ("context_tokens", facts.used_tokens),
        ("context_budget_tokens", facts.budget_tokens),
        ("history_is_cut", facts.history_is_cut.then_some(1)),
    ];
    for (column, fact) in facts {
        cells.extend(fact.map(|fact| (column, Cell::Integer(fact))));
    }
}

/// Replaces packed columns by their texts.
fn unpack_cells(kind: &BundleKind, row: &Row, cells: &mut Map<String, Value>) -> Result<()> {
    if kind.name == "attachment" {
        let bytes = STANDARD.encode(attachment_bytes::read(row)?);
        cells.insert("bytes".to_owned(), json!({ "base64": bytes }));
    }
    for column in kind.packed() {
        let cell = match *column {
            "bytes" => json!({ "base64": STANDARD.encode(packing::bytes_of(row, column)?) }),
            column => json!(packing::text_of(row, column)?),
        };
        cells.insert((*column).to_owned(), cell);
    }
    Ok(())
}

fn ids_of(things: &[BundleThing], kind: &str) -> BTreeSet<String> {
    things
        .iter()
        .filter(|thing| thing.kind == kind)
        .filter_map(|thing| text(thing, "id"))
        .collect()
}

fn text(thing: &BundleThing, field: &str) -> Option<String> {
    thing.fields.get(field)?.as_str().map(str::to_owned)
}

/// Replaces the packed bodies of a turn by their texts.
pub fn put_bodies(cells: &mut Map<String, Value>, bodies: Bodies) {
    cells.insert("request_json".to_owned(), json!(bodies.request.as_ref()));
    cells.insert("context_json".to_owned(), json!(bodies.context));
    cells.insert("sources_json".to_owned(), json!(bodies.sources));
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
