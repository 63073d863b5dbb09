//! SQLite itself: opening, the one writer, the log, identity of the file, backups.
//!
//! - `open`: the store, its connections, its epoch.
//! - `open_error`: reasons why a database could not be opened.
//! - `locks`: the lock of an engine, and the lock for opening.
//! - `files`: SQLite's files beside a database. `spare`: room that is given up on a full disk.
//! - `leftovers`: files that another database left.
//! - `read_only`: opening where nothing can be written.
//! - `writer`: group commit.
//! - `refusal`: reasons why a commit failed. `read_health`: reads that fail.
//! - `log`: the write-ahead log, copied back. `mark`: a number outside of the database, which shows that its log was lost.
//! - `identity`: identity of the file behind the name.
//! - `clock_steps`: rows that a step of the clock left in the future.
//! - `backup`: a copy of the database while an engine works.
//!
//! Not here: statements on the tables, which are in the room of each table.

pub(in crate::store) mod open;
pub(in crate::store) mod open_error;
pub(in crate::store) mod locks;
pub mod files;
pub mod spare;
pub(in crate::store) mod leftovers;
pub(in crate::store) mod read_only;

pub(in crate::store) mod writer;
pub(in crate::store) mod refusal;
pub(in crate::store) mod read_health;
pub(in crate::store) mod log;
pub(in crate::store) mod mark;
pub(in crate::store) mod identity;
pub(in crate::store) mod clock_steps;
pub mod backup;
