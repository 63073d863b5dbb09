//! Conversions between Rust values and SQL: columns of rows, parameters, JSON in either.

use crate::domain::{PersonaId, Timestamp};
use crate::store::db::{self, Row};
use crate::store::{Result, StoreError};
use serde::Serialize;
use std::fmt::Write;
use std::time::Duration;

/// Reads the `persona_id` column of a row.
pub(in crate::store) fn persona_id(row: &Row) -> Result<PersonaId> {
    PersonaId::parse(row.get("persona_id"))
        .map_err(|_| StoreError::Unreadable { what: "persona id" })
}

/// Returns whole milliseconds, for a column.
pub(in crate::store) fn to_ms(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

pub(in crate::store) fn to_i64(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

pub(in crate::store) fn instant(text: &str) -> Result<Timestamp> {
    Timestamp::parse(text).ok_or(StoreError::Unreadable { what: "time" })
}

pub(in crate::store) fn from_json<T: serde::de::DeserializeOwned>(
    json: &str,
    what: &'static str,
) -> Result<T> {
    serde_json::from_str(json).map_err(|_| StoreError::Unreadable { what })
}

/// Reads a time column.
pub(in crate::store) fn timestamp(row: &Row, column: &str) -> Result<Timestamp> {
    Timestamp::parse(row.get(column)).ok_or(StoreError::Unreadable { what: "time" })
}

/// Returns JSON array text, for `json_each`.
pub(in crate::store) fn json_list<'a>(items: impl Iterator<Item = &'a str>) -> String {
    serde_json::Value::from_iter(items).to_string()
}

pub(in crate::store) fn optional_timestamp(row: &Row, column: &str) -> Result<Option<Timestamp>> {
    match row.get::<Option<String>>(column) {
        None => Ok(None),
        Some(text) => Timestamp::parse(&text)
            .map(Some)
            .ok_or(StoreError::Unreadable { what: "time" }),
    }
}

/// Returns JSON text of rows, for `json_each`.
pub(in crate::store) fn to_json(rows: &impl Serialize) -> Result<String> {
    serde_json::to_string(rows).map_err(|error| db::Error::Encode(Box::new(error)).into())
}

/// Joins two texts; the parameters of the second are numbered on.
pub(in crate::store) fn chained(first: &str, second: &str) -> String {
    let by = numbers(first).max().unwrap_or(0);
    let mut pieces = second.split('$');
    let mut text = format!("{first};{}", pieces.next().unwrap_or_default());
    for piece in pieces {
        let end = piece
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(piece.len());
        match piece[..end].parse::<usize>() {
            Ok(number) => {
                let _infallible = write!(text, "${}{}", number + by, &piece[end..]);
            }
            // A JSON path, such as `$.owner`.
            Err(_) => {
                let _infallible = write!(text, "${piece}");
            }
        }
    }
    text
}

/// Returns the parameter numbers in a text, in order.
fn numbers(text: &str) -> impl Iterator<Item = usize> {
    let digits = |piece: &str| {
        piece
            .split(|c: char| !c.is_ascii_digit())
            .next()?
            .parse()
            .ok()
    };
    text.split('$').skip(1).filter_map(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_texts_parameters_are_numbered_on_paths_left_alone() {
        let first = "UPDATE a SET b = $2 WHERE c = $1";
        assert_eq!(
            chained(first, "SELECT $1, $10"),
            format!("{first};SELECT $3, $12")
        );
        assert_eq!(
            chained(first, "SELECT $1 ->> '$.owner'"),
            format!("{first};SELECT $3 ->> '$.owner'")
        );
    }
}
