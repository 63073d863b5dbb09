//! The tests' own access to a workspace's database, whichever database it is: rows that are looked at, and rows that are
//! changed behind the engine's back.
//!
//! - `connection`: a connection to SQLite or PostgreSQL.
//! - `contents`: everything that a database holds.
//! - `query`: a statement with its arguments.
//! - `refusal`: writes that a database is made to refuse.
//! - `row`: a row, read by name or number.
//!
//! The names are those of sqlx. Its `Any` driver is not used: it reads no boolean from an integer column and no sum from
//! PostgreSQL, and would be a feature of the dependency that users build.

mod connection;
pub mod contents;
mod query;
mod refusal;
mod row;

pub use connection::Connection;
pub use query::{query, query_as, query_scalar, raw_sql};
pub use row::Row;

/// The one number that a statement gives.
pub async fn number(rows: &mut Connection, sql: &'static str) -> i64 {
    let number = query_scalar(sql).fetch_one(rows).await;
    number.expect("a number")
}
