//! Access to the database for every statement of the store, whichever database it is.
//!
//! - `macros`: what a row is read as, types as columns, and transactions, in short. `values`: values of the domain.
//! - `sql`: the text of a statement, or its two.
//! - `sql_text`: one text. `statements`: texts of several, taken apart.
//! - `json_rows`: rows of a JSON array, as PostgreSQL reads them fast.
//! - `text_functions`: texts of several as functions of a connection to PostgreSQL.
//! - `argument`: values that are bound to its parameters.
//! - `row`: a row of its result, read by name.
//! - `column`: the types that a column is read as.
//! - `server`: a connection to PostgreSQL, and how long it is waited for.
//! - `file`: a connection to a file of SQLite, its rows, its errors, and the pool of those that read.
//! - `connection`: a connection, and the pool of those that read.
//! - `postgres_query`: execution of a text on PostgreSQL.
//! - `query`: a statement with its arguments, and its execution.
//! - `scope`: rows that a write must have for itself.
//!
//! The names are those of sqlx, so that its documentation is true here. Not here: opening, settings,
//! transactions and backups of one database, which are in `sqlite`.

#[macro_use]
mod macros;
mod sql_text;
mod json_rows;
mod statements;
mod text_functions;
mod sql;
mod argument;
mod column;
mod row;
mod server;
mod file;
mod connection;
mod postgres_query;
mod query;
mod scope;
mod values;

pub use sqlx::Error;

pub use argument::{Argument, ArgumentList, IntoArgument, TextPair, without_nul};
pub use column::{At, FromColumn, Row};
pub use connection::{Connection, ConnectionSource, Pool, QueuedWork};
pub use file::{FileAccess, FileOptions, FilePool, STATEMENTS_CACHED, StatementError};
pub use json_rows::text_of_postgres;
pub use query::{Executed, Query, query, raw_sql};
pub use row::{Cell, FromRow};
pub use scope::Scope;
pub use server::{ServerConnection, ServerPool, is_starting, unanswered};
pub use sql::Sql;
pub use text_functions::{BeginFunction, named_by};
