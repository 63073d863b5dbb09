//! Opens a database only to read it, also where nothing can be written: on a disk that is mounted read-only, or in a folder
//! that belongs to somebody else.

use super::OpenError;
use super::backup::beside;
use rustix::fs::{Access, access};
use sqlx::sqlite::SqliteConnectOptions;
use std::path::Path;

/// Whether this process can change a database: its file, and the files that SQLite makes beside it.
pub(super) fn can_change(database: &Path) -> bool {
    let may_write = |path: &Path| access(path, Access::WRITE_OK).is_ok();
    // A file that is not there yet says nothing; its folder does.
    let is_file_fixed = database.exists() && !may_write(database);
    !is_file_fixed && database.parent().is_none_or(may_write)
}

/// Makes options of connections that change nothing.
///
/// SQLite reads a database in WAL mode with the help of two files beside it, and makes them where they are missing. In a
/// folder that takes none, a database without a log is opened as immutable (sqlite.org/wal.html#readonly).
///
/// Errors: [`OpenError::LogUnread`] where there is a log that only somebody who may write could read.
pub(super) fn only_to_read(options: SqliteConnectOptions) -> Result<SqliteConnectOptions, OpenError> {
    let database = options.get_filename().to_path_buf();
    let options = options.read_only(true).create_if_missing(false);
    if database.parent().is_none_or(|folder| access(folder, Access::WRITE_OK).is_ok()) {
        return Ok(options);
    }
    // An engine of another user keeps both files while it works, and they are enough to read beside it.
    let log = beside(&database, "-wal");
    match std::fs::metadata(&log) {
        Ok(_) if beside(&database, "-shm").exists() => Ok(options),
        Ok(found) if found.len() > 0 => Err(OpenError::LogUnread { log: log.display().to_string() }),
        _ => Ok(options.immutable(true)),
    }
}
