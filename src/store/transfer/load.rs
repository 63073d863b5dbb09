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
        let cells = row.cells().map_err(|source| self.unreadable(source))?;
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

/// A table that rows are written to.
enum TableSink<'c> {
    Copy(CopyIn<'c>),
    Insert {
        conn: &'c mut Connection,
        insert: Sql,
        rows: usize,
        bytes: usize,
    },
}

impl<'c> TableSink<'c> {
    async fn begin(conn: &'c mut Connection, shape: &TableShape) -> Result<Self, TransferError> {
        if conn.postgres().is_some() {
            let copy = CopyIn::begin(conn, &shape.insert_columns()).await?;
            return Ok(Self::Copy(copy));
        }
        let values: Vec<String> = (1..=shape.columns.len()).map(|n| format!("${n}")).collect();
        let (columns, values) = (shape.insert_columns(), values.join(", "));
        db::raw_sql("BEGIN").execute(conn).await?;
        Ok(Self::Insert {
            conn,
            insert: Sql::built(format!("INSERT INTO {columns} VALUES ({values})")),
            rows: 0,
            bytes: 0,
        })
    }

    async fn row(&mut self, cells: Vec<Cell>) -> Result<(), TransferError> {
        match self {
            Self::Copy(copy) => Ok(copy.row(&cells).await?),
            Self::Insert {
                conn,
                insert,
                rows,
                bytes,
            } => {
                *rows += 1;
                *bytes += cells.iter().map(size).sum::<usize>();
                let bound = cells.into_iter().fold(db::query(&*insert), db::Query::bind);
                bound.execute(&mut **conn).await?;
                if *rows >= BATCH_ROWS || *bytes >= BATCH_BYTES {
                    db::raw_sql("COMMIT; BEGIN").execute(conn).await?;
                    (*rows, *bytes) = (0, 0);
                }
                Ok(())
            }
        }
    }

    async fn end(self) -> Result<(), TransferError> {
        match self {
            Self::Copy(copy) => Ok(copy.end().await?),
            Self::Insert { conn, .. } => Ok(db::raw_sql("COMMIT").execute(conn).await?),
        }
    }
}

fn size(cell: &Cell) -> usize {
    match cell {
        Cell::Text(text) => text.len(),
        Cell::Bytes(bytes) => bytes.len(),
        Cell::Null | Cell::Integer(_) | Cell::Real(_) => 8,
    }
}
