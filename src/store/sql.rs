//! Conversions between Rust values and SQL: columns of rows, parameters, JSON in either.

use crate::domain::{PersonaId, Timestamp};
use crate::store::db::{self, Row};
use crate::store::{Result, StoreError};
use serde::Serialize;
use std::time::Duration;

/// Reads the `persona_id` column of a row.
pub fn persona_id(row: &Row) -> Result<PersonaId> {
    PersonaId::parse(row.get("persona_id"))
        .map_err(|_| StoreError::Unreadable { what: "persona id" })
}

/// Returns whole milliseconds, for a column.
pub fn to_ms(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

pub fn to_i64(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

pub fn instant(text: &str) -> Result<Timestamp> {
    Timestamp::parse(text).ok_or(StoreError::Unreadable { what: "time" })
}

pub fn from_json<T: serde::de::DeserializeOwned>(json: &str, what: &'static str) -> Result<T> {
    serde_json::from_str(json).map_err(|_| StoreError::Unreadable { what })
}

/// Reads a time column.
pub fn timestamp(row: &Row, column: &str) -> Result<Timestamp> {
    Timestamp::parse(row.get(column)).ok_or(StoreError::Unreadable { what: "time" })
}

/// Returns JSON array text, for `json_each`.
pub fn json_list(items: impl Iterator<Item: AsRef<str>>) -> String {
    let items = items.map(|item| item.as_ref().to_owned());
    serde_json::Value::from_iter(items).to_string()
}

pub fn optional_timestamp(row: &Row, column: &str) -> Result<Option<Timestamp>> {
    match row.get::<Option<String>>(column) {
        None => Ok(None),
        Some(text) => Timestamp::parse(&text)
            .map(Some)
            .ok_or(StoreError::Unreadable { what: "time" }),
    }
}

/// Returns JSON text of rows, for `json_each`.
pub fn to_json(rows: &impl Serialize) -> Result<String> {
    serde_json::to_string(rows).map_err(|error| db::Error::Encode(Box::new(error)).into())
}

/// Returns the bytes of a column in the words of both databases; its name comes from the schema.
pub fn column_bytes(column: &str, is_bytes: bool) -> [String; 2] {
    let postgres = match is_bytes {
        true => column.to_owned(),
        false => format!("convert_to({column}, 'UTF8')"),
    };
    [format!("CAST({column} AS BLOB)"), postgres]
}
