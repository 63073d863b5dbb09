//! A consistent copy of the database while an engine works on it.
//!
//! `VACUUM INTO` reads one snapshot and writes a compact file
//! (<https://sqlite.org/lang_vacuum.html>). For as long as it reads, the write-ahead log cannot be
//! folded in and grows by every commit; a copy during which the log would grow beyond its bound is
//! given up. SQLite's other method, the online backup in steps, begins anew after every write, and
//! so never ends while an engine is busy. The copy is not in WAL mode, by which a log of the
//! replaced database is recognised as foreign (`leftovers.rs`).

use crate::crash::crash_point;
use crate::store::OpenError;
use crate::store::sqlite::files::log_of;
use crate::store::sqlite::read_only::only_to_read;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Row};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most bytes of the write-ahead log while the database is copied.
pub const LOG_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// End of the name of a copy that is not finished, behind the number of its process.
static UNFINISHED: &str = ".tmp";
/// Virtual machine steps of SQLite between two looks at the log.
const STEPS_BETWEEN_LOOKS: i32 = 250;

pub(in crate::store) const COPY: &str = "VACUUM INTO $1";
const CONTENT: &str = "
    SELECT (SELECT count(*) FROM messages), (SELECT count(*) FROM runs), (SELECT count(*) FROM deliveries),
      (SELECT count(*) FROM runs WHERE state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')),
      (SELECT count(*) FROM deliveries WHERE state IN ('queued', 'sending', 'committing'))";
const NOTE_COPY: &str = "UPDATE engine SET is_copy = 1 WHERE id = 1";

/// Number of rows in a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyCounts {
    pub messages: u64,
    pub runs: u64,
    pub deliveries: u64,
    /// Runs that a restored engine would continue.
    pub open_runs: u64,
    /// Mails that a restored engine would send.
    pub open_deliveries: u64,
}

/// Copies the database at `from` into the empty file `to`, and syncs it to disk.
///
/// Errors: among others, that the log is longer than `log_bytes_max` (`interrupted`).
pub async fn copy_database(
    from: &Path,
    to: &Path,
    log_bytes_max: u64,
) -> std::result::Result<(), OpenError> {
    let folder = |source| OpenError::Folder {
        path: to.display().to_string(),
        source,
    };
    let options = only_to_read(SqliteConnectOptions::new().filename(from))?;
    let options = options
        .busy_timeout(Duration::from_secs(5))
        .disable_statement_logging();
    let mut conn = options.connect().await?;
    let log = log_of(from);
    let length = move || std::fs::metadata(&log).map_or(0, |log| log.len());
    conn.lock_handle()
        .await?
        .set_progress_handler(STEPS_BETWEEN_LOOKS, move || length() <= log_bytes_max);
    let copied = sqlx::query(COPY)
        .bind(to.to_string_lossy().into_owned())
        .execute(&mut conn)
        .await;
    sqlx::Connection::close(conn).await?;
    copied?;
    crash_point!("K3");
    note_copy(to).await?;
    File::open(to)
        .and_then(|file| file.sync_all())
        .map_err(folder)
}

/// Marks the database as a copy, by which an engine that works on it knows that time has passed elsewhere.
async fn note_copy(database: &Path) -> std::result::Result<(), OpenError> {
    let options = SqliteConnectOptions::new()
        .filename(database)
        .disable_statement_logging();
    let mut conn = options.connect().await?;
    sqlx::query(NOTE_COPY).execute(&mut conn).await?;
    sqlx::Connection::close(conn).await?;
    Ok(())
}

/// Counts the rows of a copy.
pub async fn content(database: &Path) -> std::result::Result<CopyCounts, OpenError> {
    let mut conn = only_to_read(SqliteConnectOptions::new().filename(database))?
        .connect()
        .await?;
    let row = sqlx::query(CONTENT).fetch_one(&mut conn).await?;
    sqlx::Connection::close(conn).await?;
    let count = |column| row.get::<i64, _>(column).unsigned_abs();
    Ok(CopyCounts {
        messages: count(0),
        runs: count(1),
        deliveries: count(2),
        open_runs: count(3),
        open_deliveries: count(4),
    })
}

/// A copy under a temporary name, removed on drop unless it is finished.
pub struct CopyFile {
    path: PathBuf,
    is_finished: bool,
    /// Locked as long as somebody works on it, by which what a killed process left is known.
    _lock: File,
}

impl CopyFile {
    /// Creates the file beside the copy's final name, with a mode for its owner alone: it holds all the mail.
    pub fn beside(file: &Path) -> io::Result<Self> {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        remove_abandoned(file, &format!(".{name}."));
        let path = file.with_file_name(format!(".{name}.{}{UNFINISHED}", std::process::id()));
        let mut made = OpenOptions::new();
        let lock = made.write(true).create_new(true).mode(0o600).open(&path)?;
        // Where a file system knows no locks, nothing is removed either.
        let _unlocked = lock.try_lock();
        Ok(Self {
            path,
            is_finished: false,
            _lock: lock,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the copy to its final name, so that a file of that name is always complete.
    ///
    /// Errors: [`io::ErrorKind::AlreadyExists`] for a name that is taken, unless it is to be replaced.
    pub fn finish(mut self, file: &Path, replaces: bool) -> io::Result<()> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        let flags = if replaces {
            RenameFlags::empty()
        } else {
            RenameFlags::NOREPLACE
        };
        match renameat_with(CWD, &self.path, CWD, file, flags) {
            Ok(()) => {}
            Err(rustix::io::Errno::EXIST) => return Err(io::ErrorKind::AlreadyExists.into()),
            // This file system has no rename that fails on an existing name (`RENAME_NOREPLACE`).
            Err(_) if replaces || !file.exists() => std::fs::rename(&self.path, file)?,
            Err(_) => return Err(io::ErrorKind::AlreadyExists.into()),
        }
        self.is_finished = true;
        // The name is durable only after an `fsync` of the folder.
        let folder = file.parent().unwrap_or(Path::new("/"));
        File::open(folder).and_then(|folder| folder.sync_all())
    }
}

/// Removes copies of a file on which nobody works any more.
fn remove_abandoned(file: &Path, begin: &str) {
    let folder = file.parent().unwrap_or(Path::new("/"));
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let middle = name.strip_prefix(begin);
        let number = middle.and_then(|rest| rest.strip_suffix(UNFINISHED));
        if number.is_none_or(|number| number.parse::<u32>().is_err()) {
            continue;
        }
        let is_abandoned = File::open(entry.path()).is_ok_and(|copy| copy.try_lock().is_ok());
        if is_abandoned {
            let _next_time = std::fs::remove_file(entry.path());
        }
    }
}

impl Drop for CopyFile {
    fn drop(&mut self) {
        if !self.is_finished {
            let _nothing_to_do = std::fs::remove_file(&self.path);
        }
    }
}
