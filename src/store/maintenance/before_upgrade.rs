//! The copy of a database that is made beside it before a migration changes it.
//!
//! A copy that was made of the same state, because an earlier start failed after it, is replaced and not joined by another: so
//! starts that fail again and again fill no disk and push no older copy out.

use super::versions::{THIS_VERSION, newest_applied};
use crate::crash::crash_point;
use crate::domain::Timestamp;
use crate::store::OpenError;
use crate::store::sqlite::backup::{CopyFile, LOG_BYTES_MAX, copy_database};
use crate::store::sqlite::files::free_disk_bytes;
use crate::store::sqlite::read_only::only_to_read;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, Row, SqliteConnection};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Number of copies that are kept; older ones are removed after an upgrade that went well.
pub const COPIES_KEPT: usize = 3;
/// Bytes that must stay free on the disk beside a copy.
pub const SPARE_BYTES: u64 = 64 * 1024 * 1024;

/// Bytes that a compact copy has.
const COPY_BYTES: &str = "
    SELECT (page_count - freelist_count) * page_size AS bytes
    FROM pragma_page_count, pragma_freelist_count, pragma_page_size";
const EPOCH_OF_COPY: &str = "SELECT epoch FROM engine WHERE id = 1";
const ROWS_OF_COPY: &str =
    "SELECT (SELECT count(*) FROM messages) AS messages, (SELECT count(*) FROM runs) AS runs";
pub const LOOK_OVER: &str = "PRAGMA quick_check(1)";

/// State by which two copies are known to be of the same: no engine has worked between them.
#[derive(PartialEq, Eq)]
struct CopyState {
    epoch: i64,
    migration: i64,
}

/// Returns the folder of these copies.
pub fn folder_of(database: &Path) -> PathBuf {
    database.with_file_name("backups")
}

/// Returns the room that a copy needs, the spare included, in bytes.
pub async fn room_needed(conn: &mut SqliteConnection) -> Result<u64, OpenError> {
    let row = sqlx::query(COPY_BYTES).fetch_one(conn).await?;
    let bytes: i64 = row.try_get("bytes")?;
    Ok(bytes.unsigned_abs() + SPARE_BYTES)
}

/// Copies the database and checks the copy; returns its file.
///
/// Errors: [`OpenError::NoRoom`], [`OpenError::NotBackedUp`].
pub(super) async fn back_up(
    conn: &mut SqliteConnection,
    database: &Path,
    now: Timestamp,
) -> Result<PathBuf, OpenError> {
    let folder = folder_of(database);
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder);
    made.map_err(|source| failed(&folder, source))?;
    remove_unfinished(&folder);
    let (needed, free) = (room_needed(conn).await?, free_disk_bytes(&folder));
    let free = free.map_err(|source| failed(&folder, source))?;
    if free < needed {
        let folder = folder.display().to_string();
        return Err(OpenError::NoRoom {
            needed,
            free,
            folder,
        });
    }
    let state = state_of(conn).await?;
    let same = copies_in(&folder).into_iter();
    let mut replaced = Vec::new();
    for copy in same {
        if state_of_file(&copy).await.is_ok_and(|other| other == state) {
            replaced.push(copy);
        }
    }
    let file = free_name(&folder, now);
    let copy = CopyFile::beside(&file).map_err(|source| failed(&file, source))?;
    copy_database(database, copy.path(), LOG_BYTES_MAX).await?;
    verify(conn, copy.path(), &state).await?;
    crash_point!("U1");
    copy.finish(&file, false)
        .map_err(|source| failed(&file, source))?;
    for copy in replaced {
        remove(&copy);
    }
    crash_point!("U2");
    Ok(file)
}

/// Removes the oldest copies beyond those that are kept.
pub(super) fn remove_oldest(database: &Path) {
    let mut copies = copies_in(&folder_of(database));
    // The instant stands behind the last dash; a version may hold dashes of its own.
    copies.sort_by_key(|copy| {
        let name = copy.to_string_lossy();
        name.rsplit('-').next().unwrap_or_default().to_owned()
    });
    let beyond = copies.len().saturating_sub(COPIES_KEPT);
    for copy in &copies[..beyond] {
        remove(copy);
    }
}

/// Reads every page; nothing is written into a damaged database, nor is a copy of it one to go back to.
pub async fn require_whole(conn: &mut SqliteConnection) -> Result<(), OpenError> {
    let found: String = sqlx::query_scalar(LOOK_OVER).fetch_one(conn).await?;
    match found == "ok" {
        true => Ok(()),
        false => Err(OpenError::Damaged { found }),
    }
}

/// Checks that SQLite can follow the copy from page to page, and that it has the rows of the database.
async fn verify(
    conn: &mut SqliteConnection,
    copy: &Path,
    state: &CopyState,
) -> Result<(), OpenError> {
    let not_good = |found: String| OpenError::NotBackedUp {
        file: copy.display().to_string(),
        found,
    };
    let mut other = reader(copy).await?;
    let found: String = sqlx::query_scalar(LOOK_OVER).fetch_one(&mut other).await?;
    if found != "ok" {
        return Err(not_good(found));
    }
    let is_same = state_of(&mut other).await? == *state;
    let rows = rows_of(&mut other).await?;
    other.close().await?;
    match is_same && rows == rows_of(conn).await? {
        true => Ok(()),
        false => Err(not_good("it lacks rows".to_owned())),
    }
}

async fn rows_of(conn: &mut SqliteConnection) -> Result<(i64, i64), OpenError> {
    let row = sqlx::query(ROWS_OF_COPY).fetch_one(conn).await?;
    Ok((row.try_get("messages")?, row.try_get("runs")?))
}

async fn state_of(conn: &mut SqliteConnection) -> Result<CopyState, OpenError> {
    let row = sqlx::query(EPOCH_OF_COPY).fetch_one(&mut *conn).await?;
    Ok(CopyState {
        epoch: row.try_get("epoch")?,
        migration: newest_applied(conn).await?,
    })
}

async fn state_of_file(file: &Path) -> Result<CopyState, OpenError> {
    let mut conn = reader(file).await?;
    let state = state_of(&mut conn).await;
    conn.close().await?;
    state
}

async fn reader(file: &Path) -> Result<SqliteConnection, OpenError> {
    let options = only_to_read(SqliteConnectOptions::new().filename(file))?;
    Ok(options.disable_statement_logging().connect().await?)
}

/// Returns a name for the copy that no file has.
fn free_name(folder: &Path, now: Timestamp) -> PathBuf {
    let at = now.to_utc().format("%Y%m%dT%H%M%SZ");
    let name = |ending: &str| folder.join(format!("before-{THIS_VERSION}-{at}{ending}.db"));
    let mut others = (2..).map(|count: u32| name(&format!("_{count}")));
    let first = name("");
    match first.exists() {
        false => first,
        true => others.find(|file| !file.exists()).unwrap_or(first),
    }
}

/// Lists the copies that were made before upgrades of a database.
pub fn copies_before_upgrades(database: &Path) -> Vec<PathBuf> {
    copies_in(&folder_of(database))
}

/// Lists the copies in a folder.
fn copies_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.retain(|file| {
        let name = file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        name.starts_with("before-") && name.ends_with(".db")
    });
    found.sort();
    found
}

/// Removes what a process left that was killed while it copied; one process at a time opens the database.
fn remove_unfinished(folder: &Path) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(".before-") && name.contains(".tmp") {
            remove(&entry.path());
        }
    }
}

fn remove(file: &Path) {
    if let Err(error) = std::fs::remove_file(file) {
        tracing::warn!(file = %file.display(), %error, "an old copy of the database cannot be removed");
    }
}

fn failed(path: &Path, source: io::Error) -> OpenError {
    OpenError::Folder {
        path: path.display().to_string(),
        source,
    }
}
