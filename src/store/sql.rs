//! Conversions between Rust values and SQL: columns of rows, parameters, JSON in either.

use crate::domain::{PersonaId, Timestamp};
use crate::store::{Result, StoreError};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use std::time::Duration;

/// Reads the `persona_id` column of a row.
pub(in crate::store) fn persona_id(row: &SqliteRow) -> Result<PersonaId> {
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
pub(in crate::store) fn timestamp(row: &SqliteRow, column: &str) -> Result<Timestamp> {
    Timestamp::parse(row.get(column)).ok_or(StoreError::Unreadable { what: "time" })
}

/// Returns JSON array text, for `json_each`.
pub(in crate::store) fn json_list<'a>(items: impl Iterator<Item = &'a str>) -> String {
    serde_json::Value::from_iter(items).to_string()
}

pub(in crate::store) type Statement<'q> =
    sqlx::query::Query<'q, sqlx::Sqlite, sqlx::sqlite::SqliteArguments>;

pub(in crate::store) fn optional_timestamp(
    row: &SqliteRow,
    column: &str,
) -> Result<Option<Timestamp>> {
    match row.get::<Option<String>, _>(column) {
        None => Ok(None),
        Some(text) => Timestamp::parse(&text)
            .map(Some)
            .ok_or(StoreError::Unreadable { what: "time" }),
    }
}
