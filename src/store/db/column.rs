//! Types that a column is read as.
//!
//! PostgreSQL gives numbers of several types where SQLite has one: `count` is an `int8`, a constant
//! an `int4`, a `sum` of integers a `numeric`, a comparison a `bool`. Each is read as what is asked for.

use super::file::row::FileRow;
use crate::store;
use rusqlite::types::Value;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgRow, PgValueRef, Postgres};
use sqlx::sqlite::SqliteRow;
use sqlx::{ColumnIndex, Decode, Row as _, TypeInfo, ValueRef};

/// A row of a result.
pub enum Row {
    File(FileRow),
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

/// Column of a row, by its name or its place from 0.
#[derive(Debug, Clone, Copy)]
pub enum At<'a> {
    Name(&'a str),
    Place(usize),
}

/// Finds the column as sqlx finds it.
macro_rules! index {
    ($($row:ty),+) => {$(
        impl ColumnIndex<$row> for At<'_> {
            fn index(&self, row: &$row) -> Result<usize, sqlx::Error> {
                match self {
                    At::Name(name) => name.index(row),
                    At::Place(place) => place.index(row),
                }
            }
        }
    )+};
}

index!(SqliteRow, PgRow);

/// A Rust type that a column can be read as.
pub trait FromColumn<'r>: Sized {
    fn from_column(row: &'r Row, at: At<'_>) -> store::Result<Self>;
}

/// A Rust type that a value of a file's row other than NULL can be read as.
trait FromFile<'r>: Sized {
    fn from_value(value: &'r Value) -> Result<Self, BoxDynError>;
}

/// A Rust type that a value of PostgreSQL other than NULL can be read as.
trait FromPostgres<'r>: Sized {
    fn from_postgres(value: PgValueRef<'r>) -> Result<Self, BoxDynError>;
}

/// Reads types as sqlx reads them from SQLite, and by [`FromFile`] and [`FromPostgres`] from the others.
macro_rules! read {
    ($($type:ty),+) => {$(
        impl<'r> FromColumn<'r> for $type {
            fn from_column(row: &'r Row, at: At<'_>) -> store::Result<Self> {
                Ok(match row {
                    Row::File(row) => read_file(row, at)?,
                    Row::Sqlite(row) => row.try_get(at)?,
                    Row::Postgres(row) => read_postgres(row, at)?,
                })
            }
        }
    )+};
}

read!(
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

impl<'r, T: FromColumn<'r>> FromColumn<'r> for Option<T> {
    fn from_column(row: &'r Row, at: At<'_>) -> store::Result<Self> {
        let is_null = match row {
            Row::File(row) => *file_value(row, at)? == Value::Null,
            Row::Sqlite(row) => row.try_get_raw(at)?.is_null(),
            Row::Postgres(row) => row.try_get_raw(at)?.is_null(),
        };
        (!is_null).then(|| T::from_column(row, at)).transpose()
    }
}

/// Returns a value, as sqlx finds it: by the name of its column, or by its place.
fn file_value<'r>(row: &'r FileRow, at: At<'_>) -> Result<&'r Value, sqlx::Error> {
    match at {
        At::Name(name) => row
            .place(name)
            .and_then(|place| row.value(place))
            .ok_or_else(|| sqlx::Error::ColumnNotFound(name.to_owned())),
        At::Place(place) => row.value(place).ok_or(sqlx::Error::ColumnIndexOutOfBounds {
            index: place,
            len: row.columns().count(),
        }),
    }
}

fn read_file<'r, T: FromFile<'r>>(row: &'r FileRow, at: At<'_>) -> Result<T, sqlx::Error> {
    T::from_value(file_value(row, at)?).map_err(|error| undecodable(at, error))
}

fn read_postgres<'r, T: FromPostgres<'r>>(row: &'r PgRow, at: At<'_>) -> Result<T, sqlx::Error> {
    let value = row.try_get_raw(at)?;
    if value.is_null() {
        return Err(undecodable(at, "the value is NULL".into()));
    }
    T::from_postgres(value).map_err(|error| undecodable(at, error))
}

fn undecodable(at: At<'_>, source: BoxDynError) -> sqlx::Error {
    sqlx::Error::ColumnDecode {
        index: format!("{at:?}"),
        source,
    }
}

impl FromFile<'_> for i64 {
    fn from_value(value: &Value) -> Result<Self, BoxDynError> {
        match value {
            Value::Integer(number) => Ok(*number),
            other => Err(unexpected(other, "an integer")),
        }
    }
}

impl FromFile<'_> for bool {
    fn from_value(value: &Value) -> Result<Self, BoxDynError> {
        Ok(i64::from_value(value)? != 0)
    }
}

impl FromFile<'_> for f64 {
    fn from_value(value: &Value) -> Result<Self, BoxDynError> {
        match value {
            Value::Real(number) => Ok(*number),
            other => Err(unexpected(other, "a real number")),
        }
    }
}

impl<'r> FromFile<'r> for &'r str {
    fn from_value(value: &'r Value) -> Result<Self, BoxDynError> {
        match value {
            Value::Text(text) => Ok(text),
            other => Err(unexpected(other, "a text")),
        }
    }
}

impl FromFile<'_> for String {
    fn from_value(value: &Value) -> Result<Self, BoxDynError> {
        <&str>::from_value(value).map(str::to_owned)
    }
}

impl<'r> FromFile<'r> for &'r [u8] {
    fn from_value(value: &'r Value) -> Result<Self, BoxDynError> {
        match value {
            Value::Blob(bytes) => Ok(bytes),
            Value::Text(text) => Ok(text.as_bytes()),
            other => Err(unexpected(other, "bytes")),
        }
    }
}

impl FromFile<'_> for Vec<u8> {
    fn from_value(value: &Value) -> Result<Self, BoxDynError> {
        <&[u8]>::from_value(value).map(<[u8]>::to_vec)
    }
}

fn unexpected(found: &Value, wanted: &str) -> BoxDynError {
    format!("{} is not {wanted}", found.data_type()).into()
}

impl FromPostgres<'_> for i64 {
    fn from_postgres(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        let kind = value.type_info().into_owned();
        match kind.name() {
            "INT8" => Decode::<Postgres>::decode(value),
            "INT4" => Ok(<i32 as Decode<Postgres>>::decode(value)?.into()),
            "INT2" => Ok(<i16 as Decode<Postgres>>::decode(value)?.into()),
            "BOOL" => Ok(<bool as Decode<Postgres>>::decode(value)?.into()),
            "NUMERIC" => whole_number(value.as_bytes()?),
            other => Err(format!("{other} is no integer").into()),
        }
    }
}

/// Reads narrower integers.
macro_rules! narrower {
    ($($type:ty),+) => {$(
        impl FromFile<'_> for $type {
            fn from_value(value: &Value) -> Result<Self, BoxDynError> {
                Ok(Self::try_from(i64::from_value(value)?)?)
            }
        }

        impl FromPostgres<'_> for $type {
            fn from_postgres(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
                Ok(Self::try_from(i64::from_postgres(value)?)?)
            }
        }
    )+};
}

narrower!(u64, u32, u16);

impl FromPostgres<'_> for bool {
    fn from_postgres(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        Ok(i64::from_postgres(value)? != 0)
    }
}

impl FromPostgres<'_> for f64 {
    fn from_postgres(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        let kind = value.type_info().into_owned();
        match kind.name() {
            "FLOAT8" => Decode::<Postgres>::decode(value),
            "FLOAT4" => Ok(<f32 as Decode<Postgres>>::decode(value)?.into()),
            _ => Err(format!("{} is no double precision", kind.name()).into()),
        }
    }
}

impl<'r> FromPostgres<'r> for &'r str {
    fn from_postgres(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        let kind = value.type_info().into_owned();
        match kind.name() {
            "TEXT" | "VARCHAR" | "NAME" | "BPCHAR" | "JSON" | "UNKNOWN" => value.as_str(),
            other => Err(format!("{other} is no text").into()),
        }
    }
}

impl<'r> FromPostgres<'r> for String {
    fn from_postgres(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        <&str>::from_postgres(value).map(str::to_owned)
    }
}

impl<'r> FromPostgres<'r> for &'r [u8] {
    fn from_postgres(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        match value.type_info().name() {
            // The bytes of a text are its UTF-8, as in SQLite.
            "BYTEA" | "TEXT" => value.as_bytes(),
            other => Err(format!("{other} is no bytea").into()),
        }
    }
}

impl<'r> FromPostgres<'r> for Vec<u8> {
    fn from_postgres(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        <&[u8]>::from_postgres(value).map(<[u8]>::to_vec)
    }
}

/// Reads a `numeric` as it is sent: the number of digits of base 10,000, the weight of the first, the
/// sign, digits after the point to show, and the digits (`numeric_send` in `numeric.c` of PostgreSQL).
fn whole_number(bytes: &[u8]) -> Result<i64, BoxDynError> {
    let word = |at: usize| -> Option<u16> {
        let pair = bytes.get(2 * at..2 * at + 2)?;
        Some(u16::from_be_bytes([pair[0], pair[1]]))
    };
    let header = (word(0), word(1), word(2));
    let (Some(digits), Some(weight), Some(sign @ (0 | 0x4000))) = header else {
        return Err("a numeric that is no number".into());
    };
    let weight = weight.cast_signed();
    let mut number: i128 = 0;
    for at in 0..=weight.max(-1) {
        let place = usize::try_from(at)?;
        let digit = match place < usize::from(digits) {
            true => word(4 + place).ok_or("a numeric that ends early")?,
            false => 0,
        };
        number = number * 10_000 + i128::from(digit);
    }
    let is_whole = i32::from(digits) <= i32::from(weight) + 1;
    if !is_whole {
        return Err("a numeric with a fraction".into());
    }
    let signed = if sign == 0 { number } else { -number };
    Ok(i64::try_from(signed)?)
}

#[cfg(test)]
mod tests {
    use super::whole_number;

    fn sent(weight: i16, sign: u16, digits: &[u16]) -> Vec<u8> {
        let count = u16::try_from(digits.len()).expect("few");
        let header = [count, weight.cast_unsigned(), sign, 0];
        let words = header.iter().chain(digits);
        words.flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn a_whole_numeric_is_read_and_a_fraction_is_not() {
        for (bytes, number) in [
            (sent(0, 0, &[]), Some(0)),
            (sent(0, 0, &[7]), Some(7)),
            (sent(1, 0, &[1]), Some(10_000)),
            (sent(1, 0x4000, &[12, 3456]), Some(-123_456)),
            (sent(-1, 0, &[5000]), None),
            (sent(0, 0xC000, &[]), None),
            (sent(5, 0, &[1, 1, 1, 1, 1, 1]), None),
            (vec![0, 1], None),
        ] {
            assert_eq!(whole_number(&bytes).ok(), number, "{bytes:?}");
        }
    }
}
