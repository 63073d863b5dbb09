//! A statement with its arguments, and its execution.

use super::argument::{Argument, ArgumentList};
use super::column::Row;
use super::connection::{Connection, ConnectionSource, Pool};
use super::file::FileConnection;
use super::postgres_query::PostgresQuery;
use super::row::FromRow;
use super::server::ServerConnection;
use super::sql::Sql;
use crate::store;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use sqlx::Executor as _;
use sqlx::postgres::PgConnection;
use sqlx::sqlite::{Sqlite, SqliteArguments};
use std::ops::ControlFlow;
use std::sync::Arc;

/// An execution. It is boxed, so that a transaction of twenty statements, which is part of a run, part of a
/// worker, is not twenty times the state of both drivers on the stack of the thread that polls it.
pub type Executed<'c, T> = BoxFuture<'c, store::Result<T>>;

/// Returns a statement that is executed as a prepared one.
pub fn query(sql: impl Into<Sql>) -> Query {
    Query {
        sql: sql.into(),
        arguments: Vec::new(),
    }
}

/// Returns statements without parameters that are not prepared, such as those that steer a
/// transaction.
pub fn raw_sql(sql: impl Into<Sql>) -> RawSql {
    RawSql(sql.into())
}

/// A statement and the values of its parameters, in the order of their numbers.
#[must_use = "a statement does nothing until it is executed"]
pub struct Query {
    sql: Sql,
    arguments: Vec<Argument>,
}

type SqliteQuery = sqlx::query::Query<'static, Sqlite, SqliteArguments>;

impl Query {
    /// Binds the values of the next parameters.
    pub fn bind(mut self, values: impl ArgumentList) -> Self {
        values.add_to(&mut self.arguments);
        self
    }

    /// Executes the statement, and returns the number of rows that it wrote; its rows are not read.
    pub fn exec<'c>(self, on: impl Into<ConnectionSource<'c>>) -> Executed<'c, u64> {
        let written = self.rows_written(on.into());
        Box::pin(async move { Ok(written.await?) })
    }

    /// Returns all rows.
    pub fn rows<'c>(self, on: impl Into<ConnectionSource<'c>>) -> Executed<'c, Vec<Row>> {
        let rows = self.all_rows(on.into());
        Box::pin(async move { Ok(rows.await?) })
    }

    /// Returns the first row, if there is one.
    pub fn maybe_row<'c>(self, on: impl Into<ConnectionSource<'c>>) -> Executed<'c, Option<Row>> {
        let row = self.first_row(on.into());
        Box::pin(async move { Ok(row.await?) })
    }

    /// Returns the first row.
    ///
    /// Errors: there is none.
    pub fn row<'c>(self, on: impl Into<ConnectionSource<'c>>) -> Executed<'c, Row> {
        let row = self.first_row(on.into());
        Box::pin(async move { Ok(row.await?.ok_or(sqlx::Error::RowNotFound)?) })
    }

    /// Returns what all rows are read as.
    pub fn all<'c, T: FromRow + 'c>(
        self,
        on: impl Into<ConnectionSource<'c>>,
    ) -> Executed<'c, Vec<T>> {
        let rows = self.all_rows(on.into());
        Box::pin(async move { rows.await?.iter().map(T::from_row).collect() })
    }

    /// Returns what the first row is read as.
    ///
    /// Errors: there is none.
    pub fn one<'c, T: FromRow + 'c>(self, on: impl Into<ConnectionSource<'c>>) -> Executed<'c, T> {
        let row = self.first_row(on.into());
        Box::pin(async move { T::from_row(&row.await?.ok_or(sqlx::Error::RowNotFound)?) })
    }

    /// Returns what the first row is read as, if there is one.
    pub fn maybe<'c, T: FromRow + 'c>(
        self,
        on: impl Into<ConnectionSource<'c>>,
    ) -> Executed<'c, Option<T>> {
        let row = self.first_row(on.into());
        Box::pin(async move { row.await?.as_ref().map(T::from_row).transpose() })
    }

    async fn rows_written(self, on: ConnectionSource<'_>) -> Result<u64, sqlx::Error> {
        Ok(match on {
            ConnectionSource::Connection(Connection::File(file)) => {
                let (sql, arguments) = (self.sql.sqlite_text(), &self.arguments);
                file.conn()?
                    .run(sql, arguments, |_row| ControlFlow::Continue(()))?
            }
            ConnectionSource::Pool(Pool::File(pool)) => {
                let (sql, arguments) = (self.sql.sqlite_text(), &self.arguments);
                let mut reader = pool.acquire().await?;
                let done = reader
                    .conn()?
                    .run(sql, arguments, |_row| ControlFlow::Continue(()));
                pool.failed.noted(done)?
            }
            ConnectionSource::Connection(Connection::Sqlite(conn)) => {
                self.sqlite()?.execute(&mut *conn).await?.rows_affected()
            }
            ConnectionSource::Connection(Connection::Postgres(conn)) => {
                let query = self.postgres(conn);
                conn.answered(|conn| query.execute(conn)).await?
            }
            ConnectionSource::Pool(Pool::Postgres(pool)) => {
                let query = self.postgres_read();
                pool.read(|conn| shared(&query, conn, |query, conn| query.execute(conn)))
                    .await?
            }
        })
    }

    async fn all_rows(self, on: ConnectionSource<'_>) -> Result<Vec<Row>, sqlx::Error> {
        let rows = match on {
            ConnectionSource::Connection(Connection::File(file)) => {
                return self.rows_of_file(file.conn()?, usize::MAX);
            }
            ConnectionSource::Pool(Pool::File(pool)) => {
                let mut reader = pool.acquire().await?;
                let rows = self.rows_of_file(reader.conn()?, usize::MAX);
                return pool.failed.noted(rows);
            }
            ConnectionSource::Connection(Connection::Sqlite(conn)) => {
                self.sqlite()?.fetch_all(&mut *conn).await?
            }
            ConnectionSource::Connection(Connection::Postgres(conn)) => {
                let query = self.postgres(conn);
                return conn.answered(|conn| query.fetch_all(conn)).await;
            }
            ConnectionSource::Pool(Pool::Postgres(pool)) => {
                let query = self.postgres_read();
                return pool
                    .read(|conn| shared(&query, conn, |query, conn| query.fetch_all(conn)))
                    .await;
            }
        };
        Ok(rows.into_iter().map(Row::Sqlite).collect())
    }

    /// Returns the first row, if there is one, with the database's own error.
    pub async fn first_row(self, on: ConnectionSource<'_>) -> Result<Option<Row>, sqlx::Error> {
        let row = match on {
            ConnectionSource::Connection(Connection::File(file)) => {
                return Ok(self.rows_of_file(file.conn()?, 1)?.pop());
            }
            ConnectionSource::Pool(Pool::File(pool)) => {
                let mut reader = pool.acquire().await?;
                let rows = self.rows_of_file(reader.conn()?, 1);
                return Ok(pool.failed.noted(rows)?.pop());
            }
            ConnectionSource::Connection(Connection::Sqlite(conn)) => {
                self.sqlite()?.fetch_optional(&mut *conn).await?
            }
            ConnectionSource::Connection(Connection::Postgres(conn)) => {
                let query = self.postgres(conn);
                return conn.answered(|conn| query.fetch_optional(conn)).await;
            }
            ConnectionSource::Pool(Pool::Postgres(pool)) => {
                let query = self.postgres_read();
                return pool
                    .read(|conn| shared(&query, conn, |query, conn| query.fetch_optional(conn)))
                    .await;
            }
        };
        Ok(row.map(Row::Sqlite))
    }

    /// Returns the rows of a file's statements, at most so many.
    fn rows_of_file(
        &self,
        conn: &mut FileConnection,
        rows_max: usize,
    ) -> Result<Vec<Row>, sqlx::Error> {
        let mut rows = Vec::new();
        conn.run(self.sql.sqlite_text(), &self.arguments, |row| {
            rows.push(Row::File(row));
            match rows.len() < rows_max {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
        Ok(rows)
    }

    /// Gives the rows to `read`, one after the other, as they are read.
    pub async fn each(
        self,
        conn: &mut Connection,
        mut read: impl FnMut(&Row) -> store::Result<()>,
    ) -> store::Result<()> {
        if let Connection::File(file) = conn {
            let mut ended = Ok(());
            file.conn()?
                .run(self.sql.sqlite_text(), &self.arguments, |row| {
                    ended = read(&Row::File(row));
                    match ended {
                        Ok(()) => ControlFlow::Continue(()),
                        Err(_) => ControlFlow::Break(()),
                    }
                })?;
            return ended;
        }
        let mut rows = self.fetch(conn);
        while let Some(row) = rows.try_next().await? {
            read(&row)?;
        }
        Ok(())
    }

    /// Returns the rows one after the other, as they are read; those of [`Connection::File`] at once.
    pub fn fetch(self, conn: &mut Connection) -> BoxStream<'_, Result<Row, sqlx::Error>> {
        match conn {
            Connection::File(file) => {
                let rows = file
                    .conn()
                    .and_then(|conn| self.rows_of_file(conn, usize::MAX));
                match rows {
                    Ok(rows) => futures_util::stream::iter(rows.into_iter().map(Ok)).boxed(),
                    Err(error) => failed(error),
                }
            }
            Connection::Sqlite(conn) => match self.sqlite() {
                Ok(query) => query.fetch(&mut *conn).map_ok(Row::Sqlite).boxed(),
                Err(error) => failed(error),
            },
            Connection::Postgres(conn) => match self.postgres(conn).into_one() {
                Ok(query) => conn.rows(query),
                Err(error) => failed(error),
            },
        }
    }

    fn postgres(self, conn: &mut ServerConnection) -> PostgresQuery {
        let text = self.sql.postgres();
        conn.note_texts(text.writes_texts);
        PostgresQuery::new(text, self.arguments, conn.functions())
    }

    /// Of a connection that only reads, and makes no functions.
    fn postgres_read(self) -> Arc<PostgresQuery> {
        PostgresQuery::new(self.sql.postgres(), self.arguments, None).into()
    }

    fn sqlite(self) -> Result<SqliteQuery, sqlx::Error> {
        let mut arguments = SqliteArguments::default();
        for argument in self.arguments {
            argument.add_to(&mut arguments)?;
        }
        Ok(sqlx::query_with(self.sql.sqlite(), arguments))
    }
}

/// Executes a statement that may be executed again, for which it is kept.
fn shared<'c, T: Send + 'c>(
    query: &Arc<PostgresQuery>,
    conn: &'c mut PgConnection,
    execute: impl for<'a> FnOnce(
        &'a PostgresQuery,
        &'a mut PgConnection,
    ) -> BoxFuture<'a, Result<T, sqlx::Error>>
    + Send
    + 'c,
) -> BoxFuture<'c, Result<T, sqlx::Error>> {
    let query = query.clone();
    Box::pin(async move { execute(&query, conn).await })
}

fn failed<'c>(error: sqlx::Error) -> BoxStream<'c, Result<Row, sqlx::Error>> {
    futures_util::stream::iter([Err(error)]).boxed()
}

/// Statements that are not prepared.
#[must_use = "a statement does nothing until it is executed"]
pub struct RawSql(Sql);

impl RawSql {
    /// Executes the statements in order.
    pub async fn execute(self, conn: &mut Connection) -> Result<(), sqlx::Error> {
        match conn {
            Connection::File(file) => {
                file.conn()?.execute_batch(self.0.sqlite_text().as_str())?;
            }
            Connection::Sqlite(conn) => {
                sqlx::raw_sql(self.0.sqlite()).execute(&mut *conn).await?;
            }
            Connection::Postgres(conn) => {
                let sql = self.0.into_postgres();
                let done = conn.answered(|conn| conn.execute(sqlx::raw_sql(sql)));
                done.await?;
            }
        }
        Ok(())
    }

    /// Executes the statements in order, and returns the first row of them.
    pub async fn fetch_optional(self, conn: &mut Connection) -> Result<Option<Row>, sqlx::Error> {
        Ok(match conn {
            Connection::File(file) => {
                let query = Query {
                    sql: self.0,
                    arguments: Vec::new(),
                };
                query.rows_of_file(file.conn()?, 1)?.pop()
            }
            Connection::Sqlite(conn) => {
                let rows = sqlx::raw_sql(self.0.sqlite()).fetch_optional(&mut *conn);
                rows.await?.map(Row::Sqlite)
            }
            Connection::Postgres(conn) => {
                let rows = sqlx::raw_sql(self.0.into_postgres());
                let row = conn.answered(|conn| conn.fetch_optional(rows));
                row.await?.map(Row::Postgres)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::Cell;
    use super::*;

    #[tokio::test]
    async fn what_is_bound_is_read_back_as_it_was() {
        let mut conn = Connection::in_memory().await;
        let all = query(
            "SELECT $1 AS i, $2 AS r, $3 AS b, $4 AS t, $5 AS shared, $6 AS bytes, $7 AS absent",
        )
        .bind((i64::MAX, 0.5, true, "Grüße\0"))
        .bind((Arc::<str>::from("shared"), [0_u8, 255].as_slice()))
        .bind(None::<&str>);
        let row = all.row(&mut conn).await.expect("a row");
        assert_eq!((row.get::<i64>("i"), row.get::<f64>("r")), (i64::MAX, 0.5));
        assert!(row.get::<bool>("b"));
        assert_eq!(
            (row.get::<&str>("t"), row.get::<String>("shared").as_str()),
            ("Grüße\0", "shared")
        );
        assert_eq!(row.get::<&[u8]>("bytes"), [0, 255]);
        assert_eq!(
            (
                row.get::<Option<&str>>("absent"),
                row.get::<Option<i64>>("i")
            ),
            (None, Some(i64::MAX))
        );
        assert!(row.has("absent") && !row.has("missing"));
        assert!(row.try_get::<String>("missing").is_err() && row.try_get::<i64>("t").is_err());
        let cells = row.cells().expect("cells");
        assert_eq!(cells[3], ("t".to_owned(), Cell::Text("Grüße\0".to_owned())));
        assert_eq!(cells[6], ("absent".to_owned(), Cell::Null));
    }

    #[tokio::test]
    async fn several_statements_share_their_parameters_and_the_last_gives_the_rows() {
        let mut conn = Connection::in_memory().await;
        let made = raw_sql("CREATE TABLE t (word TEXT)").execute(&mut conn);
        made.await.expect("a table");
        let two = "INSERT INTO t VALUES ($1), ($2); SELECT word FROM t WHERE word = $2";
        let found: Vec<String> = conn.all(two, ("one", "two")).await.expect("rows");
        assert_eq!(found, ["two"]);
        let gone = conn.exec("DELETE FROM t", ()).await;
        assert_eq!(gone.expect("a statement"), 2);
        let none = conn.maybe::<String>("SELECT word FROM t", ()).await;
        assert_eq!(none.expect("no row"), None);
    }
}
