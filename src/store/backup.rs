//! A consistent copy of the database while an engine works on it.
//!
//! `VACUUM INTO` reads one snapshot and writes a compact file (<https://sqlite.org/lang_vacuum.html>). For as long as it
//! reads, the write-ahead log cannot be folded in and grows by what is written meanwhile; a copy during which it would grow
//! beyond its bound is given up. SQLite's other way, the online backup in steps, begins anew whenever somebody writes, and
//! so never ends beside a busy engine. The copy is not in WAL mode, by which an old log beside it is known for what it is
//! (`leftovers.rs`).

use super::anchor::Identity;
use super::read_only::only_to_read;
use super::{OpenError, Result, Store};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Row};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the log may be while the database is copied.
pub const LOG_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Steps of SQLite's machine between two looks at the log.
const STEPS_BETWEEN_LOOKS: i32 = 250;

pub(super) const COPY: &str = "VACUUM INTO $1";
pub(super) const CONTENT: &str = "
    SELECT (SELECT count(*) FROM messages), (SELECT count(*) FROM runs), (SELECT count(*) FROM deliveries),
      (SELECT count(*) FROM runs WHERE state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')),
      (SELECT count(*) FROM deliveries WHERE state IN ('queued', 'sending', 'committing'))";
pub(super) const NOTE_UPKEEP: &str = "
    INSERT INTO upkeep (kind, at, detail) VALUES ($1, $2, $3)
    ON CONFLICT (kind) DO UPDATE SET at = excluded.at, detail = excluded.detail";

/// What a copy holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    pub messages: u64,
    pub runs: u64,
    pub deliveries: u64,
    /// Runs that a restored engine would go on with.
    pub open_runs: u64,
    /// Mails that a restored engine would send.
    pub open_deliveries: u64,
}

/// Copies the database at `from` into the empty file `to`, and waits until it is on disk.
///
/// Errors: among others, that the log is longer than `log_bytes_max` (`interrupted`).
pub async fn copy_database(from: &Path, to: &Path, log_bytes_max: u64) -> std::result::Result<(), OpenError> {
    let folder = |source| OpenError::Folder { path: to.display().to_string(), source };
    let options = only_to_read(SqliteConnectOptions::new().filename(from))?;
    let options = options.busy_timeout(Duration::from_secs(5)).disable_statement_logging();
    let mut conn = options.connect().await?;
    let log = log_of(from);
    let length = move || std::fs::metadata(&log).map_or(0, |log| log.len());
    conn.lock_handle().await?.set_progress_handler(STEPS_BETWEEN_LOOKS, move || length() <= log_bytes_max);
    let copied = sqlx::query(COPY).bind(to.to_string_lossy().into_owned()).execute(&mut conn).await;
    sqlx::Connection::close(conn).await?;
    copied?;
    File::open(to).and_then(|file| file.sync_all()).map_err(folder)
}

/// The write-ahead log that belongs to a database file.
pub(super) fn log_of(database: &Path) -> PathBuf {
    beside(database, "-wal")
}

/// Whether a file is the database or one of those that SQLite keeps beside it, by whatever name.
pub fn is_of_database(file: &Path, database: &Path) -> bool {
    let identity = |path: &Path| Identity::of(path).ok();
    let folder = |path: &Path| path.parent().and_then(identity);
    ["", "-wal", "-shm", "-journal"].iter().any(|ending| {
        let own = beside(database, ending);
        let is_same = identity(file).is_some() && identity(file) == identity(&own);
        is_same
            || (folder(file).is_some() && folder(file) == folder(&own) && file.file_name() == own.file_name())
    })
}

/// A file that SQLite keeps beside a database.
pub(super) fn beside(database: &Path, ending: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Counts what a copy holds.
pub async fn content(database: &Path) -> std::result::Result<Content, OpenError> {
    let mut conn = only_to_read(SqliteConnectOptions::new().filename(database))?.connect().await?;
    let row = sqlx::query(CONTENT).fetch_one(&mut conn).await?;
    sqlx::Connection::close(conn).await?;
    let count = |column| row.get::<i64, _>(column).unsigned_abs();
    Ok(Content {
        messages: count(0),
        runs: count(1),
        deliveries: count(2),
        open_runs: count(3),
        open_deliveries: count(4),
    })
}

impl Store {
    /// Notes that the installation was looked after: `backup` or `gc`.
    pub async fn note_upkeep(&self, kind: &'static str, detail: String) -> Result<()> {
        let now = self.clock().now().to_string();
        self.write(move |conn| {
            Box::pin(async move {
                sqlx::query(NOTE_UPKEEP).bind(kind).bind(now).bind(detail).execute(conn).await?;
                Ok(())
            })
        })
        .await
    }
}
