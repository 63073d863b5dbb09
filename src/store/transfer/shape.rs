//! Tables with their columns and keys. They are asked of both catalogues, so that no table is forgotten: one that only one of the
//! databases has is an error.

use super::error::TransferError;
use crate::store::catalogue;
use crate::store::db::{self, Cell, Connection, Sql};
use std::collections::{BTreeMap, BTreeSet};

/// Only PostgreSQL has it; it is set from the feed.
static OF_SERVER_ALONE: &str = "feed_pruned";

/// Columns of all tables of SQLite, without those of its indexes of words and the number up to which they have letters.
const COLUMNS_OF_FILE: &str = "
    SELECT t.name AS of_table, c.name FROM pragma_table_list t JOIN pragma_table_info(t.name) c
    WHERE t.schema = 'main' AND t.type = 'table' AND t.name NOT LIKE 'sqlite%' AND t.name NOT IN ('_sqlx_migrations', 'letter_words_through')";
/// Returns the columns of every table of a new database.
#[cfg(test)]
pub async fn columns_of_schema() -> BTreeMap<String, BTreeSet<String>> {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = crate::clock::ManualClock::at(crate::domain::Timestamp::from_millis(0));
    let store = crate::store::Store::open(folder.path(), std::sync::Arc::new(clock)).await;
    store.expect("a database").close().await;
    let file = folder.path().join("data/attache.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file);
    let conn = sqlx::ConnectOptions::connect(&options).await;
    let mut conn: Connection = conn.expect("a database").into();
    let rows = conn.rows(COLUMNS_OF_FILE, ()).await;
    let mut tables: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in rows.expect("the schema") {
        let columns = tables.entry(row.get("of_table")).or_default();
        columns.insert(row.get("name"));
    }
    tables
}

/// Columns of all tables of PostgreSQL, those of its indexes of words (type `tsvector`) too. `key_place`: from 0 on, or NULL.
static COLUMNS_OF_SERVER: &str = "
    SELECT c.relname::TEXT AS of_table, a.attname::TEXT AS name, format_type(a.atttypid, NULL) AS type,
      a.attidentity <> '' AS is_identity, array_position(i.indkey::INT2[], a.attnum)::BIGINT AS key_place
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
    WHERE c.relnamespace = current_schema()::REGNAMESPACE AND c.relkind = 'r' AND c.relname <> '_sqlx_migrations'
    ORDER BY c.relname, a.attname";
static REFERENCES_OF_SERVER: &str = "
    SELECT k.conrelid::REGCLASS::TEXT AS of_table, k.confrelid::REGCLASS::TEXT AS to_table FROM pg_constraint k
    WHERE k.contype = 'f' AND k.conrelid <> k.confrelid AND k.connamespace = current_schema()::REGNAMESPACE";

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnKind {
    Integer,
    Real,
    Text,
    Bytes,
}

impl ColumnKind {
    fn of_server(type_name: &str) -> Option<Self> {
        match type_name {
            "bigint" => Some(Self::Integer),
            "double precision" => Some(Self::Real),
            "text" => Some(Self::Text),
            "bytea" => Some(Self::Bytes),
            _ => None,
        }
    }

    fn holds(self, cell: &Cell) -> bool {
        match cell {
            Cell::Null => true,
            Cell::Integer(_) => self == Self::Integer,
            Cell::Real(_) => self == Self::Real,
            Cell::Text(_) => self == Self::Text,
            Cell::Bytes(_) => self == Self::Bytes,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct ColumnShape {
    pub name: String,
    pub kind: ColumnKind,
    /// PostgreSQL gives its numbers.
    pub is_identity: bool,
    pub is_in_key: bool,
}

/// A table that is copied.
#[derive(Debug, Clone)]
pub(super) struct TableShape {
    pub name: String,
    /// In the order of their names.
    pub columns: Vec<ColumnShape>,
    key: Vec<String>,
}

impl TableShape {
    /// Returns the statement that reads all rows in the order of the key.
    pub fn rows(&self) -> Sql {
        let (columns, key) = (self.column_list(), quoted(&self.key));
        Sql::built(format!(
            "SELECT {columns} FROM \"{}\" ORDER BY {key}",
            self.name
        ))
    }

    /// Returns the name of the table and those of its columns, as they stand in an INSERT.
    pub fn insert_columns(&self) -> String {
        format!("\"{}\" ({})", self.name, self.column_list())
    }

    fn column_list(&self) -> String {
        let names: Vec<String> = self.columns.iter().map(|c| c.name.clone()).collect();
        quoted(&names)
    }

    /// Reports whether a new database has rows in it.
    pub fn is_made_by_migrations(&self) -> bool {
        catalogue::find(&self.name).is_some_and(|table| table.is_made_by_migrations)
    }

    /// Names a row by its key.
    pub fn row_name(&self, cells: &[Cell]) -> String {
        let of_key = self.columns.iter().zip(cells);
        let of_key = of_key.filter(|(column, _)| column.is_in_key);
        let key = of_key.map(|(column, cell)| match cell {
            Cell::Text(text) => format!("{} = {text:?}", column.name),
            Cell::Integer(number) => format!("{} = {number}", column.name),
            _ => column.name.clone(),
        });
        format!("`{}` ({})", self.name, key.collect::<Vec<_>>().join(", "))
    }

    /// Checks that each value has the type of its column.
    ///
    /// Errors: [`TransferError::Value`].
    pub fn require_types(&self, cells: &[Cell]) -> Result<(), TransferError> {
        let mut wrong = self.columns.iter().zip(cells);
        match wrong.find(|(column, cell)| !column.kind.holds(cell)) {
            Some((column, _)) => Err(TransferError::Value {
                row: self.row_name(cells),
                column: column.name.clone(),
            }),
            None => Ok(()),
        }
    }
}

fn quoted(names: &[String]) -> String {
    let quoted = names.iter().map(|name| format!("\"{name}\""));
    quoted.collect::<Vec<_>>().join(", ")
}

/// Tables of both databases.
pub(super) struct Shapes {
    /// Those that are copied; each after those that it refers to.
    pub tables: Vec<TableShape>,
    /// Indexes of words of PostgreSQL, which are made anew.
    pub indexes: Vec<String>,
}

impl Shapes {
    /// Reads the catalogues.
    ///
    /// Errors: [`TransferError::Tables`] where they differ.
    pub async fn read(
        file: &mut Connection,
        server: &mut Connection,
    ) -> Result<Self, TransferError> {
        let of_file = columns_of_file(file).await?;
        let (mut of_server, indexes) = columns_of_server(server).await?;
        let is_copied = |table: &str| {
            table != OF_SERVER_ALONE
                && catalogue::find(table).is_none_or(|table| table.not_copied.is_none())
        };
        of_server.retain(|table, _| is_copied(table));
        let names = |table: &TableShape| -> BTreeSet<String> {
            table.columns.iter().map(|c| c.name.clone()).collect()
        };
        for (table, columns) in of_file.iter().filter(|(table, _)| is_copied(table)) {
            let Some(mut there) = of_server.get(table).map(names) else {
                return Err(differ(format!("`{table}` is in the file alone")));
            };
            // SQLite numbers the rows of a table without saying so.
            if !columns.contains("rowid") {
                there.remove("rowid");
            }
            if there != *columns {
                return Err(differ(format!("the columns of `{table}`")));
            }
        }
        if let Some(table) = of_server.keys().find(|table| !of_file.contains_key(*table)) {
            return Err(differ(format!("`{table}` is on the server alone")));
        }
        let references = references(server).await?;
        let tables = in_order(of_server, &references)?;
        Ok(Self { tables, indexes })
    }
}

fn differ(what: String) -> TransferError {
    TransferError::Tables { what }
}

async fn columns_of_file(
    conn: &mut Connection,
) -> Result<BTreeMap<String, BTreeSet<String>>, TransferError> {
    let mut tables: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in conn.rows(COLUMNS_OF_FILE, ()).await? {
        let columns = tables.entry(row.get("of_table")).or_default();
        columns.insert(row.get("name"));
    }
    Ok(tables)
}

async fn columns_of_server(
    conn: &mut Connection,
) -> Result<(BTreeMap<String, TableShape>, Vec<String>), TransferError> {
    let (mut tables, mut indexes) = (BTreeMap::new(), BTreeSet::new());
    let mut keys: BTreeMap<String, BTreeMap<i64, String>> = BTreeMap::new();
    for row in conn.rows(COLUMNS_OF_SERVER, ()).await? {
        let (table, name): (String, String) = (row.get("of_table"), row.get("name"));
        let type_name: &str = row.get("type");
        if type_name == "tsvector" {
            indexes.insert(table);
            continue;
        }
        let Some(kind) = ColumnKind::of_server(type_name) else {
            return Err(differ(format!("`{table}.{name}` is {type_name}")));
        };
        let key_place: Option<i64> = row.get("key_place");
        if let Some(place) = key_place {
            let key = keys.entry(table.clone()).or_default();
            key.insert(place, name.clone());
        }
        let shape = tables.entry(table.clone()).or_insert_with(|| TableShape {
            name: table,
            columns: Vec::new(),
            key: Vec::new(),
        });
        shape.columns.push(ColumnShape {
            name,
            kind,
            is_identity: row.get("is_identity"),
            is_in_key: key_place.is_some(),
        });
    }
    tables.retain(|table, _| !indexes.contains(table));
    for (table, shape) in &mut tables {
        let key = keys.remove(table).unwrap_or_default();
        shape.key = key.into_values().collect();
        if shape.key.is_empty() {
            return Err(differ(format!("`{table}` has no key")));
        }
    }
    Ok((tables, indexes.into_iter().collect()))
}

/// Returns pairs of a table and one that it refers to.
async fn references(conn: &mut Connection) -> Result<Vec<(String, String)>, TransferError> {
    let rows = conn.rows(REFERENCES_OF_SERVER, ()).await?;
    let pair = |row: &db::Row| (row.get("of_table"), row.get("to_table"));
    Ok(rows.iter().map(pair).collect())
}

/// Puts each table after those that it refers to.
fn in_order(
    mut tables: BTreeMap<String, TableShape>,
    references: &[(String, String)],
) -> Result<Vec<TableShape>, TransferError> {
    let mut ordered = Vec::new();
    while !tables.is_empty() {
        let waits = |table: &String| {
            let mut referred = references.iter().filter(|(of, _)| of == table);
            referred.any(|(_, to)| tables.contains_key(to))
        };
        let ready: Vec<String> = tables.keys().filter(|t| !waits(t)).cloned().collect();
        if ready.is_empty() {
            return Err(differ("tables refer to each other in a circle".to_owned()));
        }
        ordered.extend(ready.iter().filter_map(|table| tables.remove(table)));
    }
    Ok(ordered)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str) -> (String, TableShape) {
        let shape = TableShape {
            name: name.to_owned(),
            columns: Vec::new(),
            key: Vec::new(),
        };
        (name.to_owned(), shape)
    }

    #[test]
    fn a_table_comes_after_those_that_it_refers_to_and_a_circle_is_refused() {
        let tables = || BTreeMap::from(["a", "b", "c"].map(table));
        let pair = |of: &str, to: &str| (of.to_owned(), to.to_owned());
        let ordered = in_order(tables(), &[pair("a", "c"), pair("c", "b")]).expect("an order");
        let names: Vec<&str> = ordered.iter().map(|table| table.name.as_str()).collect();
        assert_eq!(names, ["b", "c", "a"]);
        let circle = in_order(tables(), &[pair("a", "b"), pair("b", "a")]);
        assert!(matches!(circle, Err(TransferError::Tables { .. })));
    }
}
