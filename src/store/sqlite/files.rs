//! SQLite's files beside a database.

use crate::store::sqlite::identity::Inode;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Begins every database of SQLite (the "magic header string" of its file format).
const MAGIC: &[u8] = b"SQLite format 3\0";

/// Reports whether a file begins as a database of SQLite does.
pub fn begins_as_database(file: impl Read) -> io::Result<bool> {
    let mut begin = Vec::with_capacity(MAGIC.len());
    file.take(MAGIC.len() as u64).read_to_end(&mut begin)?;
    Ok(begin == MAGIC)
}

/// Returns the disk space that a process without privileges may still fill below a folder.
pub fn free_disk_bytes(folder: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(folder)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Name of a database that is being restored, beside its place.
pub static RESTORING: &str = ".attache.db.restoring";

/// Name of a mark beside the place of a database: the first opening has begun to make it.
pub(in crate::store) static MAKING: &str = ".attache.db.making";

/// Returns the path of the write-ahead log of a database file.
pub(in crate::store) fn log_of(database: &Path) -> PathBuf {
    beside(database, "-wal")
}

/// Reports whether a file is the database or one of SQLite's files beside it, under any name.
pub fn is_of_database(file: &Path, database: &Path) -> bool {
    let identity = |path: &Path| Inode::of(path).ok();
    let folder = |path: &Path| path.parent().and_then(identity);
    ["", "-wal", "-shm", "-journal"].iter().any(|ending| {
        let own = beside(database, ending);
        let is_same = identity(file).is_some() && identity(file) == identity(&own);
        is_same
            || (folder(file).is_some()
                && folder(file) == folder(&own)
                && file.file_name() == own.file_name())
    })
}

/// Returns the path of one of SQLite's files beside a database.
pub(in crate::store) fn beside(database: &Path, ending: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Returns the paths of the files that SQLite may leave beside a database.
pub fn side_files(database: &Path) -> Vec<PathBuf> {
    let endings = ["-wal", "-shm", "-journal"];
    endings.map(|ending| beside(database, ending)).to_vec()
}
