//! A database that was opened, whichever it is.

use crate::domain::LoopKey;
use crate::store::db::Pool;
use crate::store::postgres::heartbeat::LeaseHeartbeat;
use crate::store::postgres::lanes::Lanes;
use crate::store::sqlite::writer::GroupWriter;
use crate::store::writes::commit_signal::CommitSignal;
use std::fs::File;

/// What executes writes.
pub enum StoreWriter {
    Group(GroupWriter),
    Lanes(Lanes),
}

/// A database that was opened, and what was read from it.
pub struct Opened {
    pub writer: StoreWriter,
    pub readers: Pool,
    pub epoch: i64,
    pub loop_key: LoopKey,
    pub can_write: bool,
    pub commits: CommitSignal,
    /// Of an engine on PostgreSQL.
    pub heartbeat: Option<LeaseHeartbeat>,
    /// Lock of the workspace while the store is open; the operating system frees it when the
    /// process dies.
    pub _lock: Option<File>,
}
