//! PostgreSQL itself: opening, transactions, locks.
//!
//! - `url`: where the database is.
//! - `settings`: settings of the server that promises need.
//! - `migrations`: brings a database up to date.
//! - `refusal`: classes of failed statements and commits.
//! - `lock`: locks that a write takes first.
//! - `copy_in`: rows of a table, without a statement for each.
//! - `lane`: a connection that executes writes, one transaction each.
//! - `lanes`: the queue of writes, and the lanes that work on it.
//! - `heartbeat`: the lease of a node, extended. `away`: since when the server does not answer.
//! - `hints`: what tells other nodes of new work.
//! - `open`: the store's connections, its epoch.
//!
//! Not here: statements on the tables, which are in the room of each table.

pub mod url;
mod settings;
pub mod migrations;
pub mod refusal;
pub mod lock;
pub mod copy_in;
pub mod lane;
pub mod lanes;
pub mod away;
pub mod heartbeat;
pub mod hints;
pub mod open;
