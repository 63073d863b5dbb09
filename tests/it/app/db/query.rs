//! Statements with their arguments, and their execution.

use super::connection::Connection;
use super::row::{FromCell, FromRow, Row};
use sqlx::{Arguments, AssertSqlSafe, Error, Postgres, SqlSafeStr, SqlStr, Sqlite};
use std::marker::PhantomData;

/// An argument. `None` is NULL of that type, which PostgreSQL wants to know.
#[derive(Debug, Clone)]
pub enum Argument {
    Integer(Option<i64>),
    Real(Option<f64>),
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
}

impl Argument {
    fn add_to<'q, A: Arguments>(self, arguments: &mut A)
    where
        Option<i64>: sqlx::Encode<'q, A::Database> + sqlx::Type<A::Database>,
        Option<f64>: sqlx::Encode<'q, A::Database> + sqlx::Type<A::Database>,
        Option<String>: sqlx::Encode<'q, A::Database> + sqlx::Type<A::Database>,
        Option<Vec<u8>>: sqlx::Encode<'q, A::Database> + sqlx::Type<A::Database>,
    {
        let added = match self {
            Self::Integer(value) => arguments.add(value),
            Self::Real(value) => arguments.add(value),
            Self::Text(value) => arguments.add(value),
            Self::Bytes(value) => arguments.add(value),
        };
        added.expect("an argument");
    }
}

/// A Rust type that can be bound.
pub trait Bound {
    fn argument(self) -> Argument;
}

/// Binds a type and its `Option` as a variant of [`Argument`].
macro_rules! bound {
    ($($type:ty as $variant:ident by $convert:expr;)+) => {$(
        impl Bound for $type {
            fn argument(self) -> Argument {
                Argument::$variant(Some($convert(self)))
            }
        }

        impl Bound for Option<$type> {
            fn argument(self) -> Argument {
                Argument::$variant(self.map($convert))
            }
        }
    )+};
}

bound! {
    i64 as Integer by i64::from;
    i32 as Integer by i64::from;
    u32 as Integer by i64::from;
    u16 as Integer by i64::from;
    bool as Integer by i64::from;
    f64 as Real by f64::from;
    &str as Text by str::to_owned;
    String as Text by String::from;
    &[u8] as Bytes by <[u8]>::to_vec;
    Vec<u8> as Bytes by Vec::from;
}

impl<T: Bound + Clone> Bound for &T {
    fn argument(self) -> Argument {
        self.clone().argument()
    }
}

/// What a statement changed.
#[derive(Debug, Clone, Copy)]
pub struct Done {
    rows: u64,
}

impl Done {
    pub fn rows_affected(self) -> u64 {
        self.rows
    }
}

/// One statement.
#[derive(Debug)]
pub struct Query {
    sql: SqlStr,
    arguments: Vec<Argument>,
}

pub fn query(sql: impl SqlSafeStr) -> Query {
    Query {
        sql: sql.into_sql_str(),
        arguments: Vec::new(),
    }
}

/// What a statement of SQLite is in another database, where it is another.
trait Dialect {
    fn of(sql: SqlStr) -> SqlStr;
}

impl Dialect for Sqlite {
    fn of(sql: SqlStr) -> SqlStr {
        sql
    }
}

impl Dialect for Postgres {
    /// A cast makes digits of bytes there.
    fn of(sql: SqlStr) -> SqlStr {
        const CAST: &str = "CAST(bytes AS TEXT)";
        match sql.as_str().contains(CAST) {
            true => {
                AssertSqlSafe(sql.as_str().replace(CAST, "tests.text_of(bytes)")).into_sql_str()
            }
            false => sql,
        }
    }
}

/// All arguments of a statement, as a database takes them.
macro_rules! prepared {
    ($query:expr, $database:ty) => {{
        let mut arguments = <$database as sqlx::Database>::Arguments::default();
        for argument in $query.arguments {
            argument.add_to(&mut arguments);
        }
        let sql = <$database as Dialect>::of($query.sql);
        sqlx::query_with::<$database, _>(sql, arguments)
    }};
}

impl Query {
    pub fn bind(mut self, value: impl Bound) -> Self {
        self.arguments.push(value.argument());
        self
    }

    pub async fn execute(self, conn: &mut Connection) -> Result<Done, Error> {
        let rows = match conn {
            Connection::Sqlite(conn) => {
                prepared!(self, Sqlite).execute(conn).await?.rows_affected()
            }
            Connection::Postgres(conn) => {
                let done = prepared!(self, Postgres).execute(conn).await?;
                done.rows_affected()
            }
        };
        Ok(Done { rows })
    }

    pub async fn fetch_all(self, conn: &mut Connection) -> Result<Vec<Row>, Error> {
        Ok(match conn {
            Connection::Sqlite(conn) => {
                let rows = prepared!(self, Sqlite).fetch_all(conn).await?;
                rows.into_iter().map(Row::Sqlite).collect()
            }
            Connection::Postgres(conn) => {
                let rows = prepared!(self, Postgres).fetch_all(conn).await?;
                rows.into_iter().map(Row::Postgres).collect()
            }
        })
    }

    pub async fn fetch_optional(self, conn: &mut Connection) -> Result<Option<Row>, Error> {
        Ok(match conn {
            Connection::Sqlite(conn) => {
                let row = prepared!(self, Sqlite).fetch_optional(conn).await?;
                row.map(Row::Sqlite)
            }
            Connection::Postgres(conn) => {
                let row = prepared!(self, Postgres).fetch_optional(conn).await?;
                row.map(Row::Postgres)
            }
        })
    }

    pub async fn fetch_one(self, conn: &mut Connection) -> Result<Row, Error> {
        self.fetch_optional(conn).await?.ok_or(Error::RowNotFound)
    }
}

/// A statement whose rows are read as a type.
#[derive(Debug)]
pub struct Typed<T, R> {
    query: Query,
    read: R,
    of: PhantomData<fn() -> T>,
}

/// A statement of which the first column is read.
pub fn query_scalar<T: for<'r> FromCell<'r>>(
    sql: impl SqlSafeStr,
) -> Typed<T, impl Fn(&Row) -> Result<T, Error>> {
    Typed {
        query: query(sql),
        read: |row: &Row| row.try_get(0),
        of: PhantomData,
    }
}

/// A statement whose rows are read as tuples.
pub fn query_as<T: FromRow>(sql: impl SqlSafeStr) -> Typed<T, impl Fn(&Row) -> Result<T, Error>> {
    Typed {
        query: query(sql),
        read: T::from_row,
        of: PhantomData,
    }
}

impl<T, R: Fn(&Row) -> Result<T, Error>> Typed<T, R> {
    pub fn bind(mut self, value: impl Bound) -> Self {
        self.query = self.query.bind(value);
        self
    }

    pub async fn fetch_all(self, conn: &mut Connection) -> Result<Vec<T>, Error> {
        let rows = self.query.fetch_all(conn).await?;
        rows.iter().map(&self.read).collect()
    }

    pub async fn fetch_optional(self, conn: &mut Connection) -> Result<Option<T>, Error> {
        let row = self.query.fetch_optional(conn).await?;
        row.as_ref().map(&self.read).transpose()
    }

    pub async fn fetch_one(self, conn: &mut Connection) -> Result<T, Error> {
        let row = self.query.fetch_one(conn).await?;
        (self.read)(&row)
    }
}

/// One or several statements without arguments.
#[derive(Debug)]
pub struct Raw(SqlStr);

pub fn raw_sql(sql: impl SqlSafeStr) -> Raw {
    Raw(sql.into_sql_str())
}

impl Raw {
    pub async fn execute(self, conn: &mut Connection) -> Result<Done, Error> {
        let raw = sqlx::raw_sql(self.0);
        let rows = match conn {
            Connection::Sqlite(conn) => raw.execute(conn).await?.rows_affected(),
            Connection::Postgres(conn) => raw.execute(conn).await?.rows_affected(),
        };
        Ok(Done { rows })
    }
}
