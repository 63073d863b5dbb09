//! Rows of a result, and the types that their columns are read as.

use sqlx::postgres::{PgRow, PgValueFormat, PgValueRef};
use sqlx::sqlite::SqliteRow;
use sqlx::{Column, Error, Row as _, TypeInfo, ValueRef};

/// A row of a result.
#[derive(Debug)]
pub enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

/// A column, by its number or its name.
#[derive(Debug, Clone, Copy)]
pub enum At<'a> {
    Number(usize),
    Name(&'a str),
}

impl From<usize> for At<'_> {
    fn from(number: usize) -> Self {
        Self::Number(number)
    }
}

impl<'a> From<&'a str> for At<'a> {
    fn from(name: &'a str) -> Self {
        Self::Name(name)
    }
}

impl Row {
    /// Reads a column, which must have that type.
    pub fn get<'r, T: FromCell<'r>>(&'r self, at: impl Into<At<'r>>) -> T {
        let at = at.into();
        match self.try_get(at) {
            Ok(value) => value,
            Err(error) => panic!("{at:?}: {error}"),
        }
    }

    pub fn try_get<'r, T: FromCell<'r>>(&'r self, at: impl Into<At<'r>>) -> Result<T, Error> {
        let number = match at.into() {
            At::Number(number) => number,
            At::Name(name) => match self {
                Self::Sqlite(row) => row.try_column(name)?.ordinal(),
                Self::Postgres(row) => row.try_column(name)?.ordinal(),
            },
        };
        T::from_cell(self, number)
    }

    /// How many columns there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Sqlite(row) => row.len(),
            Self::Postgres(row) => row.len(),
        }
    }
}

/// A Rust type that a column can be read as.
pub trait FromCell<'r>: Sized {
    fn from_cell(row: &'r Row, at: usize) -> Result<Self, Error>;
}

/// Numbers of PostgreSQL, which has more types of them.
macro_rules! numbers {
    ($($type:ty => $read:ident, $convert:expr;)+) => {$(
        impl<'r> FromCell<'r> for $type {
            fn from_cell(row: &'r Row, at: usize) -> Result<Self, Error> {
                let null = || Error::Decode("NULL, of which there should be none".into());
                match row {
                    Row::Sqlite(row) => row.try_get(at),
                    Row::Postgres(row) => $convert($read(row, at)?.ok_or_else(null)?),
                }
            }
        }

        impl<'r> FromCell<'r> for Option<$type> {
            fn from_cell(row: &'r Row, at: usize) -> Result<Self, Error> {
                match row {
                    Row::Sqlite(row) => row.try_get(at),
                    Row::Postgres(row) => $read(row, at)?.map($convert).transpose(),
                }
            }
        }
    )+};
}

fn narrowed<T: TryFrom<i64>>(number: i64) -> Result<T, Error> {
    T::try_from(number).map_err(|_| Error::Decode(format!("{number} is out of range").into()))
}

numbers! {
    i64 => integer, Ok;
    i32 => integer, narrowed;
    u64 => integer, narrowed;
    u32 => integer, narrowed;
    u16 => integer, narrowed;
    bool => integer, |number: i64| Ok(number != 0);
    f64 => real, Ok;
}

/// Texts and bytes, as sqlx reads them.
macro_rules! read {
    ($($type:ty),+) => {$(
        impl<'r> FromCell<'r> for $type {
            fn from_cell(row: &'r Row, at: usize) -> Result<Self, Error> {
                match row {
                    Row::Sqlite(row) => row.try_get(at),
                    Row::Postgres(row) => row.try_get(at),
                }
            }
        }

        impl<'r> FromCell<'r> for Option<$type> {
            fn from_cell(row: &'r Row, at: usize) -> Result<Self, Error> {
                match row {
                    Row::Sqlite(row) => row.try_get(at),
                    Row::Postgres(row) => row.try_get(at),
                }
            }
        }
    )+};
}

read!(String, &'r str, Vec<u8>, &'r [u8]);

fn integer(row: &PgRow, at: usize) -> Result<Option<i64>, Error> {
    let raw = row.try_get_raw(at)?;
    if raw.is_null() {
        return Ok(None);
    }
    match raw.type_info().name() {
        "INT2" => Ok(Some(row.try_get::<i16, _>(at)?.into())),
        "INT4" => Ok(Some(row.try_get::<i32, _>(at)?.into())),
        "BOOL" => Ok(Some(row.try_get::<bool, _>(at)?.into())),
        "NUMERIC" => {
            let (whole, _) = numeric(&raw)?;
            Ok(Some(whole))
        }
        _ => row.try_get(at).map(Some),
    }
}

fn real(row: &PgRow, at: usize) -> Result<Option<f64>, Error> {
    let raw = row.try_get_raw(at)?;
    if raw.is_null() {
        return Ok(None);
    }
    match raw.type_info().name() {
        "FLOAT4" => Ok(Some(row.try_get::<f32, _>(at)?.into())),
        "NUMERIC" => {
            let (whole, fraction) = numeric(&raw)?;
            Ok(Some(whole as f64 + fraction))
        }
        _ => row.try_get(at).map(Some),
    }
}

/// A NUMERIC as what stands before its point and what stands behind it. Its bytes are four numbers of two bytes (count of
/// digits, weight of the first, sign, scale) and the digits, to the base of ten thousand.
fn numeric(raw: &PgValueRef<'_>) -> Result<(i64, f64), Error> {
    let bad = || Error::Decode("a NUMERIC that is no number".into());
    if raw.format() == PgValueFormat::Text {
        let text = raw.as_str().map_err(Error::Decode)?;
        let number: f64 = text.parse().map_err(|_| bad())?;
        return Ok((number.trunc() as i64, number.fract()));
    }
    let bytes = raw.as_bytes().map_err(Error::Decode)?;
    let words: Vec<i16> = bytes
        .chunks_exact(2)
        .map(|pair| i16::from_be_bytes([pair[0], pair[1]]))
        .collect();
    let [_, weight, sign, _, digits @ ..] = words.as_slice() else {
        return Err(bad());
    };
    let sign: i64 = if *sign == 0x4000 { -1 } else { 1 };
    let (mut whole, mut fraction) = (0_i64, 0.0);
    for place in 0..=i32::from((*weight).max(0)) {
        let digit = digits.get(usize::try_from(place).map_err(|_| bad())?);
        let digit = if *weight < 0 { None } else { digit };
        whole = whole * 10_000 + i64::from(digit.copied().unwrap_or(0));
    }
    for (place, digit) in digits.iter().enumerate() {
        let exponent = i32::from(*weight) - i32::try_from(place).map_err(|_| bad())?;
        if exponent < 0 {
            fraction += f64::from(*digit) * 10_000_f64.powi(exponent);
        }
    }
    Ok((sign * whole, sign as f64 * fraction))
}

/// A tuple that a row is read as.
pub trait FromRow: Sized {
    fn from_row(row: &Row) -> Result<Self, Error>;
}

macro_rules! tuples {
    ($(($($type:ident $at:literal),+))+) => {$(
        impl<$($type: for<'r> FromCell<'r>),+> FromRow for ($($type,)+) {
            fn from_row(row: &Row) -> Result<Self, Error> {
                Ok(($(row.try_get::<$type>($at)?,)+))
            }
        }
    )+};
}

tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
}
