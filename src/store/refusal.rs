//! Why a transaction is not stored, and whether another one may be.

use super::StoreError;
use std::sync::Arc;

/// Why a writer stopped for good.
#[derive(Debug, Clone)]
pub(super) enum Halt {
    /// Another engine raised the epoch.
    Fenced { epoch: i64 },
    /// What is on disk is unknown.
    Failed(Arc<sqlx::Error>),
    /// The file that is open is not the one that bears the database's name.
    Moved(Arc<std::io::Error>),
}

/// Why nothing of a group is stored: everybody in it hears the same.
#[derive(Debug, Clone)]
pub(super) enum Refusal {
    /// The next group may be.
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

impl From<Refusal> for StoreError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Refused(error) => StoreError::NotCommitted(error),
            Refusal::Halted(halt) => halt.into(),
        }
    }
}

impl From<sqlx::Error> for Refusal {
    fn from(error: sqlx::Error) -> Self {
        Refusal::Refused(Arc::new(error))
    }
}

impl From<Halt> for Refusal {
    fn from(halt: Halt) -> Self {
        Refusal::Halted(halt)
    }
}

/// Primary result codes of SQLite (sqlite.org/rescode.html).
const READ_ONLY: i32 = 8;
const IO_ERROR: i32 = 10;
/// After these a commit has certainly not happened, and a later one may: busy, locked, no memory, disk full, constraint.
const NOTHING_STORED: &[i32] = &[5, 6, 7, 13, 19];

impl StoreError {
    /// Whether nothing can be written where the database lies.
    pub fn is_for_want_of_writing(&self) -> bool {
        match self {
            StoreError::Sql(error) => is_one_of(error, &[READ_ONLY]),
            StoreError::NotCommitted(error) => is_one_of(error, &[READ_ONLY]),
            _ => false,
        }
    }
}

/// Whether the disk failed a statement.
pub(super) fn is_broken(error: &StoreError) -> bool {
    matches!(error, StoreError::Sql(error) if is_of_the_disk(error))
}

/// Whether something could not be read from the disk or written to it.
pub(super) fn is_of_the_disk(error: &sqlx::Error) -> bool {
    is_one_of(error, &[IO_ERROR])
}

/// Whether nothing is stored for certain after a commit failed, and the next one may be.
pub(super) fn is_harmless(error: &sqlx::Error) -> bool {
    is_one_of(error, NOTHING_STORED)
}

pub(super) fn is_one_of(error: &sqlx::Error, primary: &[i32]) -> bool {
    let code = error
        .as_database_error()
        .and_then(sqlx::error::DatabaseError::code)
        .and_then(|code| code.parse().ok());
    code.is_some_and(|code: i32| primary.contains(&(code & 0xff)))
}
