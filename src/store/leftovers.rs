//! What lies where a database belongs and shows that another one was there: refused before SQLite opens anything. It would
//! make a new database where one is missing, and write what an old log holds into a file that was restored.

use super::OpenError;
use super::backup::log_of;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Stands in the lock of an engine once the database is there.
static OPENED: &str = "opened";
/// Where a database's header says how it is written and read (sqlite.org/fileformat.html#file_format_version_numbers), and what
/// stands there in WAL mode.
const MODE_AT: u64 = 18;
const WAL_MODE: [u8; 2] = [2, 2];

/// Notes that the database is there, in the lock that its engine holds.
pub(super) fn note_opened(lock: &mut File) -> io::Result<()> {
    writeln!(lock, "{OPENED}")
}

/// Errors: [`OpenError::Gone`] where there was a database and is none, [`OpenError::ForeignLog`] where a log is left that is
/// not the database's.
pub(super) fn refuse_leftovers(data: &Path) -> Result<(), OpenError> {
    let database = data.join("attache.db");
    let length = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
    let log = log_of(&database);
    if length(&database) > 0 {
        return match length(&log) > 0 && !is_in_wal_mode(&database) {
            true => Err(OpenError::ForeignLog { log: log.display().to_string() }),
            false => Ok(()),
        };
    }
    let lock = data.join("engine.lock");
    let was_opened = std::fs::read_to_string(&lock).is_ok_and(|text| text.lines().any(|line| line == OPENED));
    let outbox = data.join("outbox");
    let has_mails = || {
        let mut mails = std::fs::read_dir(&outbox).into_iter().flatten().flatten();
        mails.any(|file| file.path().extension().is_some_and(|ending| ending == "eml"))
    };
    let left = match () {
        () if length(&log) > 0 => log,
        () if was_opened => lock,
        () if has_mails() => outbox,
        () => return Ok(()),
    };
    Err(OpenError::Gone { left: left.display().to_string() })
}

/// A database that SQLite wrote a log for says so in its header; a backup does not (`VACUUM INTO`).
fn is_in_wal_mode(database: &Path) -> bool {
    let mut mode = [0; 2];
    let read = File::open(database).and_then(|mut file| {
        file.seek(SeekFrom::Start(MODE_AT))?;
        file.read_exact(&mut mode)
    });
    // What cannot be read is for SQLite to complain of.
    read.is_err() || mode == WAL_MODE
}
