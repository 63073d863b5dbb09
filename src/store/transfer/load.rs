//! Rows of a table, read from one database and written to the other, few of them in memory at a time.

use super::canonical::{ReplacedNul, TableDigest, TableHasher};
use super::error::TransferError;
use super::shape::TableShape;
use crate::store::db::{self, Cell, Connection, Row, Sql};
use crate::store::postgres::copy_in::CopyIn;
use futures_util::TryStreamExt;

/// Rows and bytes of one transaction of SQLite, whose log would otherwise be as long as the database.
const BATCH_ROWS: usize = 5_000;
const BATCH_BYTES: usize = 32 * 1024 * 1024;

static BY_KEYS: &str = "SET enable_sort = off";
static AS_USUAL: &str = "RESET enable_sort";

/// Has PostgreSQL read tables in the order of their keys by their indexes, or plan as usual: sorting would need as much disk again.
pub(super) async fn read_by_keys(conn: &mut Connection, is_wanted: bool) -> Result<(), db::Error> {
    match (conn.postgres().is_some(), is_wanted) {
        (false, _) => Ok(()),
        (true, true) => db::raw_sql(BY_KEYS).execute(conn).await,
        (true, false) => db::raw_sql(AS_USUAL).execute(conn).await,
    }
}

/// Copies a table, and returns what was written.
pub(super) async fn copy_table(
    source: &mut Connection,
    target: &mut Connection,
    shape: &TableShape,
    replaced: &mut ReplacedNul,
) -> Result<TableDigest, TransferError> {
    let is_to_server = target.postgres().is_some();
    let mut sink = TableSink::begin(target, shape).await?;
    let mut hasher = TableHasher::default();
    let mut rows = RowReader::new(source, shape);
    while let Some(mut cells) = rows.next().await? {
        shape.require_types(&cells)?;
        if is_to_server {
            replaced.replace(shape, &mut cells)?;
        }
        hasher.add(&cells);
        sink.row(cells).await?;
    }
    sink.end().await?;
    Ok(hasher.end(&shape.name))
}

/// Reads a table to its end.
pub(super) async fn digest_of(
    conn: &mut Connection,
    shape: &TableShape,
) -> Result<TableDigest, TransferError> {
    let mut hasher = TableHasher::default();
    let mut rows = RowReader::new(conn, shape);
    while let Some(cells) = rows.next().await? {
        hasher.add(&cells);
    }
    Ok(hasher.end(&shape.name))
}

/// Reads rows in the order of their key.
struct RowReader<'c> {
    rows: futures_util::stream::BoxStream<'c, Result<Row, db::Error>>,
    shape: &'c TableShape,
    /// The row that was read last, for an error of the next.
    last: Option<String>,
}

impl<'c> RowReader<'c> {
    fn new(conn: &'c mut Connection, shape: &'c TableShape) -> Self {
        Self {
            rows: db::query(shape.rows()).fetch(conn),
            shape,
            last: None,
        }
    }

    async fn next(&mut self) -> Result<Option<Vec<Cell>>, TransferError> {
        let Some(row) = self.rows.try_next().await? else {
            return Ok(None);
        };
        let cells = row
            .cells()
            .map_err(|source| self.unreadable(source.into()))?;
        let cells: Vec<Cell> = cells.into_iter().map(|(_, cell)| cell).collect();
        self.last = Some(self.shape.row_name(&cells));
        Ok(Some(cells))
    }

    fn unreadable(&self, source: db::Error) -> TransferError {
        let beginning = || format!("the beginning of `{}`", self.shape.name);
        TransferError::Row {
            after: self.last.clone().unwrap_or_else(beginning),
            source,
        }
    }
}

/// A table that rows are written to, in the open transaction.
pub(super) enum RowSink<'c> {
    Copy(CopyIn<'c>),
    Insert {
        conn: &'c mut Connection,
        insert: Sql,
    },
}

impl<'c> RowSink<'c> {
    /// `table`: its name and those of `columns` columns, as they stand in an INSERT.
    pub async fn begin(
        conn: &'c mut Connection,
        (table, columns): (&str, usize),
    ) -> Result<Self, db::Error> {
        if conn.postgres().is_some() {
            return Ok(Self::Copy(CopyIn::begin(conn, table).await?));
        }
        let values: Vec<String> = (1..=columns).map(|n| format!("${n}")).collect();
        let values = values.join(", ");
        let insert = Sql::built(format!("INSERT INTO {table} VALUES ({values})"));
        Ok(Self::Insert { conn, insert })
    }

    pub async fn row(&mut self, cells: Vec<Cell>) -> Result<(), db::Error> {
        match self {
            Self::Copy(copy) => copy.row(&cells).await,
            Self::Insert { conn, insert } => {
                let bound = cells.into_iter().fold(db::query(&*insert), db::Query::bind);
                bound.exec(&mut **conn).await?;
                Ok(())
            }
        }
    }

    pub async fn end(self) -> Result<(), db::Error> {
        match self {
            Self::Copy(copy) => copy.end().await,
            Self::Insert { .. } => Ok(()),
        }
    }

    /// Executes a statement between rows on SQLite; PostgreSQL, which is in the middle of a COPY, gets none.
    async fn execute_on_file(&mut self, sql: &'static str) -> Result<(), db::Error> {
        match self {
            Self::Copy(_) => Ok(()),
            Self::Insert { conn, .. } => db::raw_sql(sql).execute(conn).await,
        }
    }
}

/// A table that rows are written to, on SQLite in several transactions.
struct TableSink<'c> {
    sink: RowSink<'c>,
    rows: usize,
    bytes: usize,
}

impl<'c> TableSink<'c> {
    async fn begin(conn: &'c mut Connection, shape: &TableShape) -> Result<Self, db::Error> {
        let table = (&*shape.insert_columns(), shape.columns.len());
        let mut sink = RowSink::begin(conn, table).await?;
        sink.execute_on_file("BEGIN").await?;
        Ok(Self {
            sink,
            rows: 0,
            bytes: 0,
        })
    }

    async fn row(&mut self, cells: Vec<Cell>) -> Result<(), db::Error> {
        self.rows += 1;
        self.bytes += cells.iter().map(size).sum::<usize>();
        self.sink.row(cells).await?;
        if self.rows >= BATCH_ROWS || self.bytes >= BATCH_BYTES {
            self.sink.execute_on_file("COMMIT; BEGIN").await?;
            (self.rows, self.bytes) = (0, 0);
        }
        Ok(())
    }

    async fn end(mut self) -> Result<(), db::Error> {
        self.sink.execute_on_file("COMMIT").await?;
        self.sink.end().await
    }
}

fn size(cell: &Cell) -> usize {
    match cell {
        Cell::Text(text) => text.len(),
        Cell::Bytes(bytes) => bytes.len(),
        Cell::Null | Cell::Integer(_) | Cell::Real(_) => 8,
    }
}
