//! A number of the database, kept outside of it: a start finds by it that the newest commits are missing (decision D-35).
//!
//! SQLite cannot know that its log was removed: the database beside it is whole, and as old as the last copying back. The number
//! grows in the database with the first write after each copying back and with every sixteenth group, and is written into
//! `data/newest` once it is committed. That file is not synced: it may be behind the database, never ahead of it.

use super::leftovers::{is_in_wal_mode, is_new};
use super::open_error::OpenError;
use super::refusal::is_one_of;
use crate::domain::Timestamp;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection, Row};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Below `data`.
static FILE: &str = "newest";
/// SQLite's code of a statement that names what is not there (SQLITE_ERROR).
const NO_SUCH: i32 = 1;

/// Moves the number on, unless the connection has changed as many rows as it had before.
pub const RAISE_MARK: &str =
    "UPDATE engine SET mark = mark + 1 WHERE id = 1 AND total_changes() <> $1
    RETURNING epoch, mark, total_changes() AS changes";
const READ_MARK: &str = "SELECT epoch, mark FROM engine WHERE id = 1";

/// State of a database: the epoch of its engine, and the number within it.
pub type Mark = (i64, i64);

/// What a note says, and when it was written.
pub type Noted = (Mark, Timestamp);

/// Returns what was noted beside a database, and when; `None` where there is no note of this database. That of another one,
/// which stood here before, is removed.
pub fn noted(data: &Path) -> Option<Noted> {
    let path = data.join(FILE);
    // One that was restored is no longer in the mode of a log, until it is opened to write.
    if is_new(data) || !is_in_wal_mode(&data.join("attache.db")) {
        let _there_was_none = std::fs::remove_file(path);
        return None;
    }
    let text = std::fs::read_to_string(&path).ok()?;
    let (epoch, mark) = text.trim().split_once(' ')?;
    let written = path.metadata().and_then(|file| file.modified()).ok()?;
    let at = written.duration_since(std::time::UNIX_EPOCH).ok()?;
    let at = Timestamp::from_millis(i64::try_from(at.as_millis()).ok()?);
    Some(((epoch.parse().ok()?, mark.trim().parse().ok()?), at))
}

/// Refuses a database that is older than what was noted of it before it was opened, and closes it then: a connection that is
/// dropped ends some time later, and would remove a log that was put back meanwhile.
///
/// Errors: [`OpenError::LogLost`].
pub async fn require_whole_log(
    mut conn: SqliteConnection,
    noted: Option<Noted>,
) -> Result<SqliteConnection, OpenError> {
    let Some((noted, at)) = noted else {
        return Ok(conn);
    };
    let found = match sqlx::query(READ_MARK).fetch_optional(&mut conn).await {
        Ok(found) => found.map(|row| (row.get("epoch"), row.get("mark"))),
        // All tables were in the log, or the column.
        Err(error) if is_one_of(&error, &[NO_SUCH]) => None,
        Err(error) => return Err(error.into()),
    };
    if found >= Some(noted) {
        return Ok(conn);
    }
    conn.close().await?;
    Err(OpenError::LogLost { at })
}

/// The file that has the number.
pub struct MarkFile(File);

impl MarkFile {
    /// Opens or makes it, and notes where the database is now. `None` where that fails: then a lost log is not noticed, which is
    /// no reason to stop.
    pub fn open(data: &Path, now: Mark) -> Option<Self> {
        let opened = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(data.join(FILE));
        let file = Self(opened.ok()?);
        file.note(now);
        Some(file)
    }

    /// Notes what is committed.
    pub fn note(&self, (epoch, mark): Mark) {
        // Of one length, so that no older digits stay behind it.
        let text = format!("{epoch:<19} {mark:<19}\n");
        let _behind = self.0.write_all_at(text.as_bytes(), 0);
    }
}
