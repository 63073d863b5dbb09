//! Rows of a persona in one table: read in the order of their key, translated, written, and compared.

use super::error::PersonaMoveError;
use super::numbers::{NumberShifts, Translation};
use super::objects::{ObjectPlaces, ObjectRooms};
use crate::domain::PersonaId;
use crate::store::db::{self, Cell, Connection, Row, Sql, without_nul};
use crate::store::persona_tables::PersonaTable;
use crate::store::transfer::TransferError;
use crate::store::transfer::canonical::{TableDigest, TableHasher};
use crate::store::transfer::load::RowSink;
use futures_util::TryStreamExt;
use std::borrow::Cow;

/// Number that SQLite gives the rows of every table, and PostgreSQL those of some: the new rows get their own, in the same order.
static ROWID: &str = "rowid";

/// Columns of a table with their place in its key. `$1`: the table.
pub(in crate::store) const TABLE_COLUMNS: Sql = Sql::pair(
    "SELECT name, CASE WHEN pk > 0 THEN pk END AS key_place FROM pragma_table_info($1) ORDER BY name",
    "
    SELECT a.attname::TEXT AS name, array_position(i.indkey::INT2[], a.attnum)::BIGINT AS key_place
    FROM pg_attribute a LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
    WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attname",
);

/// A table that both databases have.
pub(super) struct MovingTable {
    pub table: &'static PersonaTable,
    /// In the order of their names.
    columns: Vec<String>,
    /// Order of the rows.
    order: String,
    objects: Option<ObjectPlaces>,
    pub has_numbers: bool,
}

impl MovingTable {
    /// Asks both catalogues.
    ///
    /// Errors: [`TransferError::Tables`] where they differ.
    pub async fn read(
        table: &'static PersonaTable,
        (source, target): (&mut Connection, &mut Connection),
    ) -> Result<Self, TransferError> {
        let (here, has_rowid) = columns_of(source, table.name).await?;
        let (there, there_too) = columns_of(target, table.name).await?;
        let names = |columns: &[KeyedColumn]| -> Vec<String> {
            columns.iter().map(|column| column.name.clone()).collect()
        };
        let columns = names(&here);
        if columns != names(&there) || columns.is_empty() {
            let what = format!("the columns of `{}`", table.name);
            return Err(TransferError::Tables { what });
        }
        let mut key: Vec<&KeyedColumn> = here.iter().filter(|c| c.key_place.is_some()).collect();
        key.sort_by_key(|column| column.key_place);
        let key: Vec<String> = key.iter().map(|column| quoted(&column.name)).collect();
        let order = match has_rowid || there_too {
            true => ROWID.to_owned(),
            false => key.join(", "),
        };
        Ok(Self {
            objects: ObjectPlaces::of(table.name, &columns),
            has_numbers: columns.iter().any(|column| column == "seq"),
            table,
            columns,
            order,
        })
    }

    fn column_list(&self) -> String {
        let quoted: Vec<String> = self.columns.iter().map(|name| quoted(name)).collect();
        quoted.join(", ")
    }

    fn select(&self) -> Sql {
        let (name, whose) = (self.table.name, self.table.whose);
        let (columns, order) = (self.column_list(), &self.order);
        Sql::built(format!(
            "SELECT {columns} FROM \"{name}\" WHERE {whose} ORDER BY {order}"
        ))
    }
}

struct KeyedColumn {
    name: String,
    key_place: Option<i64>,
}

/// Returns the columns without the number of the row, and whether the table has a column of it.
async fn columns_of(
    conn: &mut Connection,
    table: &str,
) -> Result<(Vec<KeyedColumn>, bool), db::Error> {
    let rows = db::query(TABLE_COLUMNS).bind(table).fetch_all(conn).await?;
    let column = |row: &Row| KeyedColumn {
        name: row.get("name"),
        key_place: row.get("key_place"),
    };
    let mut columns: Vec<KeyedColumn> = rows.iter().map(column).collect();
    let count = columns.len();
    columns.retain(|column| column.name != ROWID);
    let has_rowid = columns.len() < count;
    Ok((columns, has_rowid))
}

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

/// How the rows of a move are translated.
pub(super) struct RowTranslation {
    pub shifts: NumberShifts,
    /// A server holds no NUL in a text, so one of either side decides what is compared.
    pub is_without_nul: bool,
}

impl RowTranslation {
    fn translate(
        &self,
        moving: &MovingTable,
        cells: &mut [Cell],
        translation: Translation,
    ) -> Result<(), TransferError> {
        for (column, cell) in moving.columns.iter().zip(cells) {
            let place = (moving.table.name, column.as_str());
            self.shifts.translate(place, cell, translation)?;
            if self.is_without_nul
                && let Cell::Text(text) = cell
                && let Cow::Owned(clean) = without_nul(text)
            {
                *cell = Cell::Text(clean);
            }
        }
        Ok(())
    }

    /// Adds a row to a digest, in the form that both databases have it in.
    fn digest(
        &self,
        moving: &MovingTable,
        mut cells: Vec<Cell>,
        (hasher, translation): (&mut TableHasher, Translation),
    ) -> Result<(), TransferError> {
        self.translate(moving, &mut cells, translation)?;
        if let Some(places) = moving.objects {
            places.digest(&mut cells);
        }
        hasher.add(&cells);
        Ok(())
    }

    /// Writes a persona's rows of a table into the target, and returns what was read.
    pub async fn copy(
        &self,
        moving: &MovingTable,
        (source, target): (&mut Connection, &mut Connection),
        (persona, rooms): (&PersonaId, &ObjectRooms<'_>),
    ) -> Result<TableDigest, PersonaMoveError> {
        let mut hasher = TableHasher::default();
        let table = format!("\"{}\" ({})", moving.table.name, moving.column_list());
        let mut sink = RowSink::begin(target, (&table, moving.columns.len())).await?;
        let select = db::query(moving.select()).bind(persona.as_str());
        let mut rows = select.fetch(source);
        while let Some(row) = rows.try_next().await? {
            let mut cells = cells_of(&row)?;
            self.digest(moving, cells.clone(), (&mut hasher, Translation::AsRead))?;
            self.translate(moving, &mut cells, Translation::ToTarget)?;
            if let Some(places) = moving.objects {
                rooms.bring(places, &mut cells).await?;
            }
            sink.row(cells).await?;
        }
        sink.end().await?;
        Ok(hasher.end(moving.table.name))
    }

    /// Reads a persona's rows of a table in the target, with the numbers that they had.
    pub async fn read_back(
        &self,
        moving: &MovingTable,
        target: &mut Connection,
        persona: &PersonaId,
    ) -> Result<TableDigest, TransferError> {
        let mut hasher = TableHasher::default();
        let select = db::query(moving.select()).bind(persona.as_str());
        let mut rows = select.fetch(target);
        while let Some(row) = rows.try_next().await? {
            let cells = cells_of(&row)?;
            self.digest(moving, cells, (&mut hasher, Translation::FromTarget))?;
        }
        Ok(hasher.end(moving.table.name))
    }
}

fn cells_of(row: &Row) -> Result<Vec<Cell>, db::Error> {
    let cells = row.cells()?;
    Ok(cells.into_iter().map(|(_, cell)| cell).collect())
}
