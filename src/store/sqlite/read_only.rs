//! Opens a database read-only, also where nothing can be written: on a disk that is mounted
//! read-only, or in a folder of another user.

use crate::store::OpenError;
use crate::store::db::FileAccess;
use crate::store::sqlite::files::beside;
use rustix::fs::{Access, access};
use sqlx::sqlite::SqliteConnectOptions;
use std::path::Path;

/// Reports whether this process can change a database: its file, and the files that SQLite creates
/// beside it.
pub fn can_change(database: &Path) -> bool {
    let may_write = |path: &Path| access(path, Access::WRITE_OK).is_ok();
    // For a file that does not exist yet its folder decides.
    let is_file_fixed = database.exists() && !may_write(database);
    !is_file_fixed && database.parent().is_none_or(may_write)
}

/// Returns options of read-only connections.
///
/// Errors: as [`access_to_read`].
pub fn only_to_read(options: SqliteConnectOptions) -> Result<SqliteConnectOptions, OpenError> {
    let is_fixed = access_to_read(options.get_filename())? == FileAccess::Immutable;
    let options = options.read_only(true).create_if_missing(false);
    Ok(options.immutable(is_fixed))
}

/// Returns how a database is opened read-only.
///
/// SQLite reads a database in WAL mode with the help of two files beside it, and creates them where
/// they are missing. In a folder that cannot be written, a database without a log is opened as
/// immutable (sqlite.org/wal.html#readonly).
///
/// Errors: [`OpenError::LogUnread`] where there is a log that cannot be read without write
/// permission.
pub fn access_to_read(database: &Path) -> Result<FileAccess, OpenError> {
    if database
        .parent()
        .is_none_or(|folder| access(folder, Access::WRITE_OK).is_ok())
    {
        return Ok(FileAccess::ReadOnly);
    }
    // An engine of another user keeps both files while it works, and they suffice for reading at
    // the same time.
    let log = beside(database, "-wal");
    match std::fs::metadata(&log) {
        Ok(_) if beside(database, "-shm").exists() => Ok(FileAccess::ReadOnly),
        Ok(found) if found.len() > 0 => Err(OpenError::LogUnread {
            log: log.display().to_string(),
        }),
        _ => Ok(FileAccess::Immutable),
    }
}
