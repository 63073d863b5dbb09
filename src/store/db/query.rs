//! A statement with its arguments, and its execution.

use super::argument::{Argument, IntoArgument};
use super::column::{FromColumn, Row};
use super::connection::{Connection, ConnectionSource, Pool};
use super::postgres_query::PostgresQuery;
use super::sql::Sql;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use sqlx::Executor as _;
use sqlx::sqlite::{Sqlite, SqliteArguments};
use std::marker::PhantomData;

/// An execution. It is boxed, so that a transaction of twenty statements, which is part of a run, part of a
/// worker, is not twenty times the state of both drivers on the stack of the thread that polls it.
type Executed<'c, T> = BoxFuture<'c, Result<T, sqlx::Error>>;

/// Returns a statement that is executed as a prepared one.
pub(in crate::store) fn query(sql: impl Into<Sql>) -> Query {
    Query {
        sql: sql.into(),
        arguments: Vec::new(),
    }
}

/// Returns a statement of which the first column is read.
pub(in crate::store) fn query_scalar<T>(sql: impl Into<Sql>) -> ScalarQuery<T> {
    ScalarQuery {
        query: query(sql),
        column: PhantomData,
    }
}

/// Returns statements without parameters that are not prepared, such as those that steer a
/// transaction.
pub(in crate::store) fn raw_sql(sql: impl Into<Sql>) -> RawSql {
    RawSql(sql.into())
}

/// A statement and the values of its parameters, in the order of their numbers.
#[must_use = "a statement does nothing until it is executed"]
pub(in crate::store) struct Query {
    sql: Sql,
    arguments: Vec<Argument>,
}

/// Number of rows that a statement wrote.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct QueryResult {
    rows_affected: u64,
}

impl QueryResult {
    pub fn rows_affected(self) -> u64 {
        self.rows_affected
    }
}

type SqliteQuery = sqlx::query::Query<'static, Sqlite, SqliteArguments>;

impl Query {
    /// Binds the value of the next parameter.
    pub fn bind(mut self, value: impl IntoArgument) -> Self {
        self.arguments.push(value.into_argument());
        self
    }

    /// Executes the statement; its rows are not read.
    pub fn execute<'c>(self, on: impl Into<ConnectionSource<'c>>) -> Executed<'c, QueryResult> {
        Box::pin(self.rows_written(on.into()))
    }

    async fn rows_written(self, on: ConnectionSource<'_>) -> Result<QueryResult, sqlx::Error> {
        let rows_affected = match on {
            ConnectionSource::Connection(Connection::Sqlite(conn)) => {
                self.sqlite()?.execute(&mut **conn).await?.rows_affected()
            }
            ConnectionSource::Pool(Pool::Sqlite(pool, failed)) => {
                let done = failed.noted(self.sqlite()?.execute(pool).await)?;
                done.rows_affected()
            }
            ConnectionSource::Connection(Connection::Postgres(conn)) => {
                let query = self.postgres();
                conn.answered(|conn| query.execute(conn)).await?
            }
            ConnectionSource::Pool(Pool::Postgres(pool)) => {
                let (query, mut conn) = (self.postgres(), pool.acquire().await?);
                conn.answered(|conn| query.execute(conn)).await?
            }
        };
        Ok(QueryResult { rows_affected })
    }

    /// Returns all rows.
    pub fn fetch_all<'c>(self, on: impl Into<ConnectionSource<'c>>) -> Executed<'c, Vec<Row>> {
        Box::pin(self.all_rows(on.into()))
    }

    async fn all_rows(self, on: ConnectionSource<'_>) -> Result<Vec<Row>, sqlx::Error> {
        let rows = match on {
            ConnectionSource::Connection(Connection::Sqlite(conn)) => {
                self.sqlite()?.fetch_all(&mut **conn).await?
            }
            ConnectionSource::Pool(Pool::Sqlite(pool, failed)) => {
                failed.noted(self.sqlite()?.fetch_all(pool).await)?
            }
            ConnectionSource::Connection(Connection::Postgres(conn)) => {
                let query = self.postgres();
                return conn.answered(|conn| query.fetch_all(conn)).await;
            }
            ConnectionSource::Pool(Pool::Postgres(pool)) => {
                let (query, mut conn) = (self.postgres(), pool.acquire().await?);
                return conn.answered(|conn| query.fetch_all(conn)).await;
            }
        };
        Ok(rows.into_iter().map(Row::Sqlite).collect())
    }

    /// Returns the first row.
    ///
    /// Errors: there is none.
    pub fn fetch_one<'c>(self, on: impl Into<ConnectionSource<'c>>) -> Executed<'c, Row> {
        let first = self.first_row(on.into());
        Box::pin(async move { first.await?.ok_or(sqlx::Error::RowNotFound) })
    }

    /// Returns the first row, if there is one.
    pub fn fetch_optional<'c>(
        self,
        on: impl Into<ConnectionSource<'c>>,
    ) -> Executed<'c, Option<Row>> {
        Box::pin(self.first_row(on.into()))
    }

    async fn first_row(self, on: ConnectionSource<'_>) -> Result<Option<Row>, sqlx::Error> {
        let row = match on {
            ConnectionSource::Connection(Connection::Sqlite(conn)) => {
                self.sqlite()?.fetch_optional(&mut **conn).await?
            }
            ConnectionSource::Pool(Pool::Sqlite(pool, failed)) => {
                failed.noted(self.sqlite()?.fetch_optional(pool).await)?
            }
            ConnectionSource::Connection(Connection::Postgres(conn)) => {
                let query = self.postgres();
                return conn.answered(|conn| query.fetch_optional(conn)).await;
            }
            ConnectionSource::Pool(Pool::Postgres(pool)) => {
                let (query, mut conn) = (self.postgres(), pool.acquire().await?);
                return conn.answered(|conn| query.fetch_optional(conn)).await;
            }
        };
        Ok(row.map(Row::Sqlite))
    }

    /// Returns the rows one after the other, as they are read.
    pub fn fetch(self, conn: &mut Connection) -> BoxStream<'_, Result<Row, sqlx::Error>> {
        match conn {
            Connection::Sqlite(conn) => match self.sqlite() {
                Ok(query) => query.fetch(&mut **conn).map_ok(Row::Sqlite).boxed(),
                Err(error) => failed(error),
            },
            Connection::Postgres(conn) => match self.postgres().into_one() {
                Ok(query) => conn.rows(query),
                Err(error) => failed(error),
            },
        }
    }

    fn postgres(self) -> PostgresQuery {
        PostgresQuery::new(self.sql.postgres(), self.arguments)
    }

    fn sqlite(self) -> Result<SqliteQuery, sqlx::Error> {
        let mut arguments = SqliteArguments::default();
        for argument in self.arguments {
            argument.add_to(&mut arguments)?;
        }
        Ok(sqlx::query_with(self.sql.sqlite(), arguments))
    }
}

fn failed<'c>(error: sqlx::Error) -> BoxStream<'c, Result<Row, sqlx::Error>> {
    futures_util::stream::iter([Err(error)]).boxed()
}

/// A statement of which the first column is read.
#[must_use = "a statement does nothing until it is executed"]
pub(in crate::store) struct ScalarQuery<T> {
    query: Query,
    column: PhantomData<fn() -> T>,
}

impl<T: for<'r> FromColumn<'r> + Send + 'static> ScalarQuery<T> {
    /// Binds the value of the next parameter.
    pub fn bind(mut self, value: impl IntoArgument) -> Self {
        self.query = self.query.bind(value);
        self
    }

    /// Returns the first column of all rows.
    pub fn fetch_all<'c>(self, on: impl Into<ConnectionSource<'c>>) -> Executed<'c, Vec<T>> {
        let rows = self.query.all_rows(on.into());
        Box::pin(async move { rows.await?.iter().map(Row::first).collect() })
    }

    /// Returns the first column of the first row.
    ///
    /// Errors: there is none.
    pub fn fetch_one<'c>(self, on: impl Into<ConnectionSource<'c>>) -> Executed<'c, T> {
        let row = self.query.first_row(on.into());
        Box::pin(async move { row.await?.ok_or(sqlx::Error::RowNotFound)?.first() })
    }

    /// Returns the first column of the first row, if there is one.
    pub fn fetch_optional<'c>(
        self,
        on: impl Into<ConnectionSource<'c>>,
    ) -> Executed<'c, Option<T>> {
        let row = self.query.first_row(on.into());
        Box::pin(async move { row.await?.as_ref().map(Row::first).transpose() })
    }

    /// Returns the first column of the rows, one after the other.
    pub fn fetch(self, conn: &mut Connection) -> BoxStream<'_, Result<T, sqlx::Error>> {
        let rows = self.query.fetch(conn);
        rows.and_then(|row| std::future::ready(row.first())).boxed()
    }
}

/// Statements that are not prepared.
#[must_use = "a statement does nothing until it is executed"]
pub(in crate::store) struct RawSql(Sql);

impl RawSql {
    /// Executes the statements in order.
    pub async fn execute(self, conn: &mut Connection) -> Result<(), sqlx::Error> {
        match conn {
            Connection::Sqlite(conn) => {
                sqlx::raw_sql(self.0.sqlite()).execute(&mut **conn).await?;
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
            Connection::Sqlite(conn) => {
                let rows = sqlx::raw_sql(self.0.sqlite()).fetch_optional(&mut **conn);
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
    use std::sync::Arc;

    #[tokio::test]
    async fn what_is_bound_is_read_back_as_it_was() {
        let mut conn = Connection::in_memory().await;
        let all = query(
            "SELECT $1 AS i, $2 AS r, $3 AS b, $4 AS t, $5 AS shared, $6 AS bytes, $7 AS absent",
        )
        .bind(i64::MAX)
        .bind(0.5)
        .bind(true)
        .bind("Grüße\0")
        .bind(Arc::<str>::from("shared"))
        .bind([0_u8, 255].as_slice())
        .bind(None::<&str>);
        let row = all.fetch_one(&mut conn).await.expect("a row");
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
        let found = query_scalar::<String>(two).bind("one").bind("two");
        assert_eq!(found.fetch_all(&mut conn).await.expect("rows"), ["two"]);
        let gone = query("DELETE FROM t").execute(&mut conn).await;
        assert_eq!(gone.expect("a statement").rows_affected(), 2);
        let none = query_scalar::<String>("SELECT word FROM t");
        assert_eq!(none.fetch_optional(&mut conn).await.expect("no row"), None);
    }
}
