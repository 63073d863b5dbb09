//! A row of a result, and the types that its columns are read as.

use sqlx::sqlite::SqliteRow;
use sqlx::{Column, ColumnIndex, Row as _, TypeInfo, ValueRef};

/// A row of a result.
pub(in crate::store) enum Row {
    Sqlite(SqliteRow),
}

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
        T::from_column(self, column)
    }

    /// Reports whether the statement has a column of that name.
    pub fn has(&self, column: &str) -> bool {
        let Row::Sqlite(row) = self;
        row.try_column(column).is_ok()
    }

    /// Returns the names and values of all columns, whatever they are.
    pub fn cells(&self) -> Result<Vec<(String, Cell)>, sqlx::Error> {
        let Row::Sqlite(row) = self;
        let cell = |column: &<sqlx::Sqlite as sqlx::Database>::Column| {
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
        };
        row.columns().iter().map(cell).collect()
    }

    /// Reads the first column.
    pub(super) fn first<'r, T: FromColumn<'r>>(&'r self) -> Result<T, sqlx::Error> {
        T::from_column(self, 0)
    }
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

/// A Rust type that a column can be read as.
pub(in crate::store) trait FromColumn<'r>: Sized {
    fn from_column<I: ColumnIndex<SqliteRow>>(row: &'r Row, at: I) -> Result<Self, sqlx::Error>;
}

/// Reads types as sqlx reads them.
macro_rules! read {
    ($($type:ty),+) => {$(
        impl<'r> FromColumn<'r> for $type {
            fn from_column<I: ColumnIndex<SqliteRow>>(
                row: &'r Row,
                at: I,
            ) -> Result<Self, sqlx::Error> {
                let Row::Sqlite(row) = row;
                row.try_get(at)
            }
        }
    )+};
}

/// Reads types, and their `Option`.
macro_rules! read_or_null {
    ($($type:ty),+) => {
        read!($($type, Option<$type>),+);
    };
}

read_or_null!(
    i64,
    u64,
    u32,
    u16,
    f64,
    bool,
    String,
    &'r str,
    Vec<u8>,
    &'r [u8]
);
