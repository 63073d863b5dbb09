//! SQLite itself: opening, the one writer, the log, identity of the file, backups.

pub(in crate::store) mod open;
pub(in crate::store) mod migrations;
pub(in crate::store) mod leftovers;
pub(in crate::store) mod read_only;
pub(in crate::store) mod writer;
pub(in crate::store) mod refusal;
pub(in crate::store) mod identity;
pub(in crate::store) mod log;
pub(in crate::store) mod clock_steps;
pub mod backup;
