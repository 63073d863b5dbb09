//! Execution of a text on PostgreSQL: its statements one after the other, each with its own values.

use super::argument::Argument;
use super::pieces::Piece;
use super::row::Row;
use futures_util::future::BoxFuture;
use sqlx::postgres::{PgArguments, PgConnection, Postgres};
use std::sync::Arc;

/// An execution; boxed, because the compiler cannot see that the futures of sqlx are `Send` for every
/// lifetime (rust-lang/rust issue 100013).
type Executed<'a, T> = BoxFuture<'a, Result<T, sqlx::Error>>;

type PieceQuery = sqlx::query::Query<'static, Postgres, PgArguments>;

/// Statements of a text, and the values of all of them.
pub(super) struct PostgresQuery {
    pieces: Arc<[Piece]>,
    arguments: Vec<Argument>,
}

impl PostgresQuery {
    pub fn new(pieces: Arc<[Piece]>, arguments: Vec<Argument>) -> Self {
        Self { pieces, arguments }
    }

    /// Returns the number of rows that all statements wrote.
    pub fn execute<'a>(&'a self, conn: &'a mut PgConnection) -> Executed<'a, u64> {
        Box::pin(async move {
            let mut rows = 0;
            for piece in self.pieces.iter() {
                let done = self.query(piece)?.execute(&mut *conn).await?;
                rows += done.rows_affected();
            }
            Ok(rows)
        })
    }

    /// Returns the rows of all statements, as SQLite does.
    pub fn fetch_all<'a>(&'a self, conn: &'a mut PgConnection) -> Executed<'a, Vec<Row>> {
        Box::pin(async move {
            let mut rows = Vec::new();
            for piece in self.pieces.iter() {
                let read = self.query(piece)?.fetch_all(&mut *conn).await?;
                rows.extend(read.into_iter().map(Row::Postgres));
            }
            Ok(rows)
        })
    }

    pub fn fetch_optional<'a>(&'a self, conn: &'a mut PgConnection) -> Executed<'a, Option<Row>> {
        Box::pin(async move {
            if let [piece] = &*self.pieces {
                let row = self.query(piece)?.fetch_optional(conn).await?;
                return Ok(row.map(Row::Postgres));
            }
            let rows = self.fetch_all(conn).await?;
            Ok(rows.into_iter().next())
        })
    }

    /// Returns the only statement, to read its rows as they come.
    ///
    /// Errors: there are several.
    pub fn into_one(self) -> Result<PieceQuery, sqlx::Error> {
        match &*self.pieces {
            [piece] => self.query(piece),
            _ => Err(sqlx::Error::Protocol(
                "rows of several statements cannot be read one by one".to_owned(),
            )),
        }
    }

    fn query(&self, piece: &Piece) -> Result<PieceQuery, sqlx::Error> {
        let mut arguments = PgArguments::default();
        for place in &piece.values {
            let value = self.arguments.get(*place).ok_or_else(|| {
                sqlx::Error::Protocol(format!("no value for parameter ${}", place + 1))
            })?;
            value.add_to_postgres(&mut arguments)?;
        }
        Ok(sqlx::query_with(piece.sql.clone(), arguments))
    }
}
