//! Execution of a text on PostgreSQL: its statements one after the other, each with its own values, or several by a function.

use super::argument::Argument;
use super::column::Row;
use super::statements::SqlStatement;
use super::text_functions::{FunctionsMade, PostgresText, StatementGroup};
use futures_util::future::BoxFuture;
use sqlx::Row as _;
use sqlx::postgres::{PgArguments, PgConnection, Postgres};
use std::sync::Arc;

/// An execution; boxed, because the compiler cannot see that the futures of sqlx are `Send` for every
/// lifetime (rust-lang/rust issue 100013).
type Executed<'a, T> = BoxFuture<'a, Result<T, sqlx::Error>>;

type StatementQuery = sqlx::query::Query<'static, Postgres, PgArguments>;

/// Statements of a text, and the values of all of them.
pub(super) struct PostgresQuery {
    statements: Arc<PostgresText>,
    arguments: Vec<Argument>,
    /// Functions of the connection; `None` where it makes none.
    made: Option<FunctionsMade>,
}

impl PostgresQuery {
    pub fn new(
        statements: Arc<PostgresText>,
        arguments: Vec<Argument>,
        made: Option<FunctionsMade>,
    ) -> Self {
        Self {
            statements,
            arguments,
            made,
        }
    }

    /// Returns the number of rows that all statements wrote.
    pub fn execute<'a>(&'a self, conn: &'a mut PgConnection) -> Executed<'a, u64> {
        Box::pin(async move {
            let group = &self.statements.counted;
            if let Some(call) = self.call(group)? {
                let count: i64 = call.fetch_one(conn).await?.try_get("count")?;
                return Ok(count.cast_unsigned());
            }
            let mut rows = 0;
            for statement in group.statements.iter() {
                let done = self.query(statement)?.execute(&mut *conn).await?;
                rows += done.rows_affected();
            }
            Ok(rows)
        })
    }

    /// Returns the rows of all statements, as SQLite does.
    pub fn fetch_all<'a>(&'a self, conn: &'a mut PgConnection) -> Executed<'a, Vec<Row>> {
        Box::pin(async move {
            let mut rows = Vec::new();
            for group in &self.statements.by_rows {
                if let Some(call) = self.call(group)? {
                    let read = call.fetch_all(&mut *conn).await?;
                    if group.gives_rows() {
                        rows.extend(read.into_iter().map(Row::Postgres));
                    }
                    continue;
                }
                for statement in group.statements.iter() {
                    let read = self.query(statement)?.fetch_all(&mut *conn).await?;
                    rows.extend(read.into_iter().map(Row::Postgres));
                }
            }
            Ok(rows)
        })
    }

    pub fn fetch_optional<'a>(&'a self, conn: &'a mut PgConnection) -> Executed<'a, Option<Row>> {
        Box::pin(async move {
            if let [statement] = &*self.statements.counted.statements {
                let row = self.query(statement)?.fetch_optional(conn).await?;
                return Ok(row.map(Row::Postgres));
            }
            let rows = self.fetch_all(conn).await?;
            Ok(rows.into_iter().next())
        })
    }

    /// Returns the only statement, to read its rows as they come.
    ///
    /// Errors: there are several.
    pub fn into_one(self) -> Result<StatementQuery, sqlx::Error> {
        match &*self.statements.counted.statements {
            [statement] => self.query(statement),
            _ => Err(sqlx::Error::Protocol(
                "rows of several statements cannot be read one by one".to_owned(),
            )),
        }
    }

    /// Returns the call of a group's function, where there is one.
    fn call(&self, group: &StatementGroup) -> Result<Option<StatementQuery>, sqlx::Error> {
        let Some(made) = self.made.as_ref().filter(|_| self.statements.is_kept) else {
            return Ok(None);
        };
        let Some(call) = group.call(made, &self.arguments) else {
            return Ok(None);
        };
        let mut arguments = PgArguments::default();
        for value in &self.arguments {
            value.add_to_postgres(&mut arguments)?;
        }
        Ok(Some(sqlx::query_with(call, arguments)))
    }

    fn query(&self, statement: &SqlStatement) -> Result<StatementQuery, sqlx::Error> {
        let mut arguments = PgArguments::default();
        for place in &statement.values {
            let value = self.arguments.get(*place).ok_or_else(|| {
                sqlx::Error::Protocol(format!("no value for parameter ${}", place + 1))
            })?;
            value.add_to_postgres(&mut arguments)?;
        }
        Ok(sqlx::query_with(statement.sql.clone(), arguments))
    }
}
