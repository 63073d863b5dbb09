//! Access to the database for every statement of the store, whichever database it is.
//!
//! - `sql`: the text of a statement, or its two.
//! - `sql_text`: one text. `statements`: texts of several, taken apart.
//! - `argument`: values that are bound to its parameters.
//! - `row`: a row of its result, read by name.
//! - `column`: the types that a column is read as.
//! - `server`: a connection to PostgreSQL, and how long it is waited for.
//! - `connection`: a connection, and the pool of those that read.
//! - `postgres_query`: execution of a text on PostgreSQL.
//! - `query`: a statement with its arguments, and its execution.
//! - `scope`: rows that a write must have for itself.
//!
//! The names are those of sqlx, so that its documentation is true here. Not here: opening, settings,
//! transactions and backups of one database, which are in `sqlite`.

mod sql_text;
mod statements;
mod sql;
mod argument;
mod column;
mod row;
mod server;
mod connection;
mod postgres_query;
mod query;
mod scope;

pub(in crate::store) use sqlx::Error;

pub(in crate::store) use argument::{TextPair, without_nul};
pub(in crate::store) use column::Row;
pub(in crate::store) use connection::{Connection, ConnectionSource, Pool};
pub(in crate::store) use query::{Query, query, query_scalar, raw_sql};
pub(in crate::store) use row::Cell;
pub(in crate::store) use scope::Scope;
pub(in crate::store) use server::{ServerConnection, ServerPool, is_starting, unanswered};
pub(in crate::store) use sql::Sql;
