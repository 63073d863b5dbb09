//! A row of a result.

use super::column::{At, FromColumn, Row};
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
    pub fn try_get<'r, T: FromColumn<'r>>(&'r self, column: &str) -> Result<T, sqlx::Error> {
        T::from_column(self, At::Name(column))
    }

    /// Reports whether the statement has a column of that name.
    pub fn has(&self, column: &str) -> bool {
        match self {
            Row::Sqlite(row) => row.try_column(column).is_ok(),
            Row::Postgres(row) => row.try_column(column).is_ok(),
        }
    }

    /// Returns the names and values of all columns, whatever they are.
    pub fn cells(&self) -> Result<Vec<(String, Cell)>, sqlx::Error> {
        match self {
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

    /// Reads the first column.
    pub(super) fn first<'r, T: FromColumn<'r>>(&'r self) -> Result<T, sqlx::Error> {
        T::from_column(self, At::Place(0))
    }
}

/// Reads a cell of SQLite by the type of its value.
fn cell(
    row: &SqliteRow,
    column: &<sqlx::Sqlite as Database>::Column,
) -> Result<(String, Cell), sqlx::Error> {
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
pub(in crate::store) enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Bytes(Vec<u8>),
}

impl Cell {
    fn of_postgres(row: &Row, raw: &PgRow, at: At<'_>) -> Result<Self, sqlx::Error> {
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
