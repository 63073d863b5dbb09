//! Classes of failed transactions, and whether a later one may commit.

use crate::store::StoreError;
use crate::store::db::StatementError;
use sqlx::sqlite::SqliteError;

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

/// The disk or the quota is full.
pub const FULL: i32 = 13;
/// Another process holds the lock of the file.
const BUSY: i32 = 5;

impl StoreError {
    /// Reports whether the disk has no room for the write.
    pub fn is_for_want_of_room(&self) -> bool {
        self.is_code(FULL)
    }

    /// Reports whether another process kept the file locked until this one gave up.
    pub fn is_locked_out(&self) -> bool {
        self.is_code(BUSY)
    }

    fn is_code(&self, code: i32) -> bool {
        match self {
            StoreError::Sql(error) => is_one_of(error, &[code]),
            StoreError::NotCommitted(error) => is_one_of(error, &[code]),
            _ => false,
        }
    }
}

/// Reports whether the disk failed during a statement.
pub fn is_broken(error: &StoreError) -> bool {
    matches!(error, StoreError::Sql(error) if is_of_the_disk(error))
}

/// Reports whether an error is an I/O error of the disk.
pub fn is_of_the_disk(error: &sqlx::Error) -> bool {
    is_one_of(error, &[IO_ERROR])
}

/// Reports whether it is certain that the failed commit stored nothing, and the next commit may
/// succeed.
pub fn is_harmless(error: &sqlx::Error) -> bool {
    is_one_of(error, NOTHING_STORED)
}

pub fn is_one_of(error: &sqlx::Error, primary: &[i32]) -> bool {
    let of_sqlite = |error: &dyn sqlx::error::DatabaseError| {
        if let Some(error) = error.try_downcast_ref::<StatementError>() {
            return Some(error.code);
        }
        let _is_ours = error.try_downcast_ref::<SqliteError>()?;
        error.code()?.parse().ok()
    };
    let code = error.as_database_error().and_then(of_sqlite);
    code.is_some_and(|code: i32| primary.contains(&(code & 0xff)))
}
