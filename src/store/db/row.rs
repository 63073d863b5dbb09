//! A row of a result.

use super::column::{At, FromColumn, Row};
use crate::store::{Result, StoreError};
use rusqlite::types::Value;
use serde::de::DeserializeOwned;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{Column, Database, Row as _, TypeInfo, ValueRef};

impl Row {
    /// Reads a column of a statement of ours.
    ///
    /// Panics where the column is missing or has another type: then the statement and its reader do
    /// not belong together, which every test of the statement shows.
    pub fn get<'r, T: FromColumn<'r>>(&'r self, column: &str) -> T {
        match self.try_get(column) {
            Ok(value) => value,
            Err(error) => panic!("column `{column}`: {error}"),
        }
    }

    /// Reads a column.
    ///
    /// Errors: the column is missing, or has another type.
    pub fn try_get<'r, T: FromColumn<'r>>(&'r self, column: &str) -> Result<T> {
        T::from_column(self, At::Name(column))
    }

    /// Reads the row as a struct.
    pub fn to<T: FromRow>(&self) -> Result<T> {
        T::from_row(self)
    }

    /// Reads a column with JSON. Errors: [`StoreError::Unreadable`].
    pub fn json<T: DeserializeOwned>(&self, column: &str, what: &'static str) -> Result<T> {
        let json: &str = self.get(column);
        serde_json::from_str(json).map_err(|_| StoreError::Unreadable { what })
    }

    /// Reports whether the statement has a column of that name.
    pub fn has(&self, column: &str) -> bool {
        match self {
            Row::File(row) => row.place(column).is_some(),
            Row::Sqlite(row) => row.try_column(column).is_ok(),
            Row::Postgres(row) => row.try_column(column).is_ok(),
        }
    }

    /// Returns the names and values of all columns, whatever they are.
    pub fn cells(&self) -> Result<Vec<(String, Cell)>> {
        match self {
            Row::File(row) => {
                let named = row
                    .columns()
                    .map(|(name, value)| (name.to_owned(), value.into()));
                Ok(named.collect())
            }
            Row::Sqlite(row) => row.columns().iter().map(|c| cell(row, c)).collect(),
            Row::Postgres(row) => {
                let named = |column: &<sqlx::Postgres as Database>::Column| {
                    let at = At::Place(column.ordinal());
                    Ok((column.name().to_owned(), Cell::of_postgres(self, row, at)?))
                };
                row.columns().iter().map(named).collect()
            }
        }
    }
}

/// Reads a cell of SQLite by the type of its value.
fn cell(row: &SqliteRow, column: &<sqlx::Sqlite as Database>::Column) -> Result<(String, Cell)> {
    let at = column.ordinal();
    let raw = row.try_get_raw(at)?;
    let kind = raw.type_info().name().to_owned();
    let cell = match kind.as_str() {
        _ if raw.is_null() => Cell::Null,
        "INTEGER" => Cell::Integer(row.try_get_unchecked(at)?),
        "REAL" => Cell::Real(row.try_get_unchecked(at)?),
        "BLOB" => Cell::Bytes(row.try_get_unchecked(at)?),
        _ => Cell::Text(row.try_get_unchecked(at)?),
    };
    Ok((column.name().to_owned(), cell))
}

/// A value of which only the database knows the type.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Bytes(Vec<u8>),
}

impl From<&Value> for Cell {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Cell::Null,
            Value::Integer(value) => Cell::Integer(*value),
            Value::Real(value) => Cell::Real(*value),
            Value::Text(value) => Cell::Text(value.clone()),
            Value::Blob(value) => Cell::Bytes(value.clone()),
        }
    }
}

impl Cell {
    fn of_postgres(row: &Row, raw: &PgRow, at: At<'_>) -> Result<Self> {
        let value = raw.try_get_raw(at)?;
        let kind = value.type_info();
        Ok(match kind.name() {
            _ if value.is_null() => Cell::Null,
            "INT2" | "INT4" | "INT8" | "NUMERIC" | "BOOL" => {
                Cell::Integer(FromColumn::from_column(row, at)?)
            }
            "FLOAT4" | "FLOAT8" => Cell::Real(FromColumn::from_column(row, at)?),
            "BYTEA" => Cell::Bytes(FromColumn::from_column(row, at)?),
            _ => Cell::Text(FromColumn::from_column(row, at)?),
        })
    }
}

/// What a row of a result is read as.
pub trait FromRow: Sized {
    fn from_row(row: &Row) -> Result<Self>;
}

/// Reads the first column.
impl<T: for<'r> FromColumn<'r>> FromRow for T {
    fn from_row(row: &Row) -> Result<Self> {
        T::from_column(row, At::Place(0))
    }
}

/// Reads the first columns.
macro_rules! columns {
    ($($($name:ident $place:literal)+;)+) => {$(
        impl<$($name: for<'r> FromColumn<'r>),+> FromRow for ($($name,)+) {
            fn from_row(row: &Row) -> Result<Self> {
                Ok(($($name::from_column(row, At::Place($place))?,)+))
            }
        }
    )+};
}

columns! {
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
    A 0 B 1 C 2 D 3 E 4;
    A 0 B 1 C 2 D 3 E 4 F 5;
}
