//! Results of a transaction that was not stored: the next one may be, or none may be any more.

use crate::store::StoreError;
use std::sync::Arc;

/// Reason why a writer stopped for good.
#[derive(Debug, Clone)]
pub enum Halt {
    /// Another engine raised the epoch.
    Fenced { epoch: i64 },
    /// The node has no row any more.
    Buried,
    /// The disk failed at a commit, and the content of the disk is unknown.
    Failed(Arc<sqlx::Error>),
    /// The open file is no longer the file at the database's path.
    Moved(Arc<std::io::Error>),
}

/// Reason why nothing of a group is stored: every write of the group gets it.
#[derive(Debug, Clone)]
pub enum CommitRefusal {
    /// The next group may commit.
    Refused(Arc<sqlx::Error>),
    /// The commit had no answer; the next may have one.
    Unanswered(Arc<sqlx::Error>),
    /// The node's lease has expired; it may be extended before the next write.
    NoLease,
    /// The clock is off by so many milliseconds.
    ClockOff(i64),
    Halted(Halt),
}

impl From<Halt> for StoreError {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Fenced { epoch } => StoreError::Fenced { epoch },
            Halt::Buried => StoreError::Buried,
            Halt::Failed(error) => StoreError::CommitFailed(error),
            Halt::Moved(error) => StoreError::Moved(error),
        }
    }
}

impl From<CommitRefusal> for StoreError {
    fn from(refusal: CommitRefusal) -> Self {
        match refusal {
            CommitRefusal::Refused(error) => StoreError::NotCommitted(error),
            CommitRefusal::Unanswered(error) => StoreError::CommitUnanswered(error),
            CommitRefusal::NoLease => StoreError::NoLease,
            CommitRefusal::ClockOff(off_ms) => StoreError::ClockOff { off_ms },
            CommitRefusal::Halted(halt) => halt.into(),
        }
    }
}

impl From<sqlx::Error> for CommitRefusal {
    fn from(error: sqlx::Error) -> Self {
        CommitRefusal::Refused(Arc::new(error))
    }
}

impl From<Halt> for CommitRefusal {
    fn from(halt: Halt) -> Self {
        CommitRefusal::Halted(halt)
    }
}
