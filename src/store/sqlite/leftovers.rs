//! Detection of files left by another database in the place of this one: refused before SQLite
//! opens anything. SQLite would create a new database where the old one is missing, and replay an
//! old log into a file that was restored.

use crate::store::OpenError;
use crate::store::sqlite::files::{MAKING, RESTORING, log_of};
use crate::store::sqlite::locks::VERSION;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Mark in the lock of an engine once the database exists.
static OPENED: &str = "opened";
/// Offset of the read and write versions in a database's header
/// (sqlite.org/fileformat.html#file_format_version_numbers), and their values in WAL mode.
const MODE_AT: u64 = 18;
const WAL_MODE: [u8; 2] = [2, 2];

/// Records that the database exists, and the version of the program, in the lock that its engine holds.
pub fn note_opened(lock: &mut File) -> io::Result<()> {
    writeln!(lock, "{OPENED}\n{VERSION}{}", env!("CARGO_PKG_VERSION"))
}

/// Notes on the disk that the database is made now, so that the file of 0 bytes with which SQLite begins is told from one that
/// lost its content.
pub fn note_making(data: &Path) -> io::Result<()> {
    File::create(data.join(MAKING))?;
    File::open(data)?.sync_all()
}

/// Removes what [`note_making`] left: the database has content now, or is not there.
pub fn note_made(data: &Path) -> io::Result<()> {
    let mark = data.join(MAKING);
    match mark.exists() {
        true => std::fs::remove_file(mark),
        false => Ok(()),
    }
}

/// Reports whether there is no database yet: no file, or the empty one of a first opening that was killed. What
/// [`refuse_leftovers`] refuses is refused before.
pub fn is_new(data: &Path) -> bool {
    let database = data.join("attache.db").metadata();
    database.map_or(true, |file| file.len() == 0)
}

/// Refuses leftovers below the folder `data` of a workspace.
///
/// Errors: [`OpenError::HalfRestored`] where a restore did not end, [`OpenError::Gone`] where a database is missing,
/// [`OpenError::Empty`] where a file without a byte stands for it that no first opening left, [`OpenError::ForeignLog`] where there is a log that is not
/// the database's.
pub fn refuse_leftovers(data: &Path) -> Result<(), OpenError> {
    let database = data.join("attache.db");
    let length = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
    let log = log_of(&database);
    if length(&database) > 0 {
        return match length(&log) > 0 && !is_in_wal_mode(&database) {
            true => Err(OpenError::ForeignLog {
                log: log.display().to_string(),
            }),
            false => Ok(()),
        };
    }
    let lock = data.join("engine.lock");
    let was_opened =
        std::fs::read_to_string(&lock).is_ok_and(|text| text.lines().any(|line| line == OPENED));
    let outbox = data.join("outbox");
    let has_mails = || {
        let mut mails = std::fs::read_dir(&outbox).into_iter().flatten().flatten();
        mails.any(|file| {
            file.path()
                .extension()
                .is_some_and(|ending| ending == "eml")
        })
    };
    let restoring = data.join(RESTORING);
    // A new database would take the place of the one that was to come.
    if restoring.exists() {
        let left = restoring.display().to_string();
        return Err(OpenError::HalfRestored { left });
    }
    let left = match () {
        () if length(&log) > 0 => log,
        () if was_opened => lock,
        () if has_mails() => outbox,
        // What a copy leaves on a full disk, or a power cut.
        () if database.exists() && !data.join(MAKING).exists() => {
            let path = database.display().to_string();
            return Err(OpenError::Empty { path });
        }
        () => return Ok(()),
    };
    Err(OpenError::Gone {
        left: left.display().to_string(),
    })
}

/// Reports whether the database's header says WAL mode; a backup's does not (`VACUUM INTO`).
pub fn is_in_wal_mode(database: &Path) -> bool {
    let mut mode = [0; 2];
    let read = File::open(database).and_then(|mut file| {
        file.seek(SeekFrom::Start(MODE_AT))?;
        file.read_exact(&mut mode)
    });
    // An unreadable file is left to SQLite's error.
    read.is_err() || mode == WAL_MODE
}
