//! Classes of failed transactions, and whether a later one may commit.

use crate::store::StoreError;
use std::sync::Arc;

/// Reason why a writer stopped for good.
#[derive(Debug, Clone)]
pub(in crate::store) enum Halt {
    /// Another engine raised the epoch.
    Fenced { epoch: i64 },
    /// The disk failed at a commit, and the content of the disk is unknown.
    Failed(Arc<sqlx::Error>),
    /// The open file is no longer the file at the database's path.
    Moved(Arc<std::io::Error>),
}

/// Reason why nothing of a group is stored: every write of the group gets it.
#[derive(Debug, Clone)]
pub(in crate::store) enum CommitRefusal {
    /// The next group may commit.
    Refused(Arc<sqlx::Error>),
    Halted(Halt),
}

impl From<Halt> for StoreError {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Fenced { epoch } => StoreError::Fenced { epoch },
            Halt::Failed(error) => StoreError::CommitFailed(error),
            Halt::Moved(error) => StoreError::Moved(error),
        }
    }
}

impl From<CommitRefusal> for StoreError {
    fn from(refusal: CommitRefusal) -> Self {
        match refusal {
            CommitRefusal::Refused(error) => StoreError::NotCommitted(error),
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

/// Primary result codes of SQLite (sqlite.org/rescode.html).
const READ_ONLY: i32 = 8;
const IO_ERROR: i32 = 10;
/// After these codes the commit certainly did not happen, and a later commit may: busy, locked, no
/// memory, disk full, constraint.
const NOTHING_STORED: &[i32] = &[5, 6, 7, 13, 19];

impl StoreError {
    /// Reports whether the database cannot be written at its place.
    pub fn is_for_want_of_writing(&self) -> bool {
        match self {
            StoreError::Sql(error) => is_one_of(error, &[READ_ONLY]),
            StoreError::NotCommitted(error) => is_one_of(error, &[READ_ONLY]),
            _ => false,
        }
    }
}

/// Reports whether the disk failed during a statement.
pub(in crate::store) fn is_broken(error: &StoreError) -> bool {
    matches!(error, StoreError::Sql(error) if is_of_the_disk(error))
}

/// Reports whether an error is an I/O error of the disk.
pub(in crate::store) fn is_of_the_disk(error: &sqlx::Error) -> bool {
    is_one_of(error, &[IO_ERROR])
}

/// Reports whether it is certain that the failed commit stored nothing, and the next commit may
/// succeed.
pub(in crate::store) fn is_harmless(error: &sqlx::Error) -> bool {
    is_one_of(error, NOTHING_STORED)
}

pub(in crate::store) fn is_one_of(error: &sqlx::Error, primary: &[i32]) -> bool {
    let code = error
        .as_database_error()
        .and_then(sqlx::error::DatabaseError::code)
        .and_then(|code| code.parse().ok());
    code.is_some_and(|code: i32| primary.contains(&(code & 0xff)))
}
