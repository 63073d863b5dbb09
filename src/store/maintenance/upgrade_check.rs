//! What an upgrade would do to a database, found by reading.

use super::before_upgrade::{SPARE_BYTES, folder_of, require_whole, room_needed};
use super::migrate::{PendingMigration, pending};
use super::versions::{ProgramVersion, newest_applied, program_versions};
use crate::store::OpenError;
use crate::store::sqlite::files::free_disk_bytes;
use crate::store::sqlite::read_only::only_to_read;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, Row, SqliteConnection};
use std::path::Path;
use std::time::Duration;

/// Bytes of a database that an upgrade copies, checks and rewrites in a second, on a slow disk, where nothing was measured.
const BYTES_PER_SECOND: u64 = 40 * 1024 * 1024;

/// One by hand is noted when it has been made, so its row measures nothing.
pub(in crate::store) const LAST_MEASURED: &str = "
    SELECT bytes, CAST(1 + unixepoch(finished_at) - unixepoch(started_at) AS BIGINT) AS seconds FROM backups
    WHERE finished_at IS NOT NULL AND failure IS NULL AND is_scheduled = 1 AND bytes > 0 ORDER BY seq DESC LIMIT 1";

/// What the last backup by the engine took, which copies and checks the database as an upgrade does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeasuredBackup {
    pub bytes: u64,
    /// Begun seconds: one at least.
    pub seconds: u64,
}

/// A database as an upgrade would find it.
#[derive(Debug)]
pub struct UpgradeForecast {
    /// Versions that have written it, the last writer last; empty before there was such a list.
    pub versions: Vec<ProgramVersion>,
    pub migration: i64,
    /// The migrations that would be applied; the error is [`OpenError::Newer`].
    pub pending: Result<Vec<PendingMigration>, OpenError>,
    /// Room for the copy that is made before, the spare included.
    pub room_bytes: u64,
    /// `None`: the disk does not say.
    pub free_bytes: Option<u64>,
    /// `None`: the engine has made none here.
    pub measured: Option<MeasuredBackup>,
}

impl UpgradeForecast {
    /// Reads a database file, also while an engine works on it.
    ///
    /// Errors: [`OpenError::Damaged`], [`OpenError::Empty`].
    pub async fn of(database: &Path) -> Result<Self, OpenError> {
        // SQLite takes a file without a byte for a database without tables.
        if database.metadata().is_ok_and(|file| file.len() == 0) {
            let path = database.display().to_string();
            return Err(OpenError::Empty { path });
        }
        let options = only_to_read(SqliteConnectOptions::new().filename(database))?;
        let options = options.busy_timeout(Duration::from_secs(5));
        let mut conn = options.disable_statement_logging().connect().await?;
        let found = Self::read(&mut conn, database).await;
        conn.close().await?;
        found
    }

    async fn read(conn: &mut SqliteConnection, database: &Path) -> Result<Self, OpenError> {
        require_whole(conn).await?;
        let migration = newest_applied(conn).await?;
        let pending = match pending(conn).await {
            Err(error) if !matches!(error, OpenError::Newer { .. }) => return Err(error),
            found => found,
        };
        let folder = folder_of(database);
        let folder = match folder.exists() {
            true => folder.as_path(),
            false => database.parent().unwrap_or(database),
        };
        Ok(Self {
            versions: program_versions(conn).await?,
            migration,
            pending,
            room_bytes: room_needed(conn).await?,
            free_bytes: free_disk_bytes(folder).ok(),
            measured: last_measured(conn).await?,
        })
    }

    /// Estimates the time of the upgrade from the size and the last measured backup, or that of a slow disk; a second at least.
    pub fn duration(&self) -> Duration {
        let bytes = self.room_bytes.saturating_sub(SPARE_BYTES);
        let seconds = match self.measured {
            Some(measured) => bytes.saturating_mul(measured.seconds) / measured.bytes.max(1),
            None => bytes / BYTES_PER_SECOND,
        };
        Duration::from_secs(1 + seconds)
    }

    /// Reports whether the copy would fit.
    pub fn has_room(&self) -> bool {
        self.free_bytes.is_none_or(|free| free >= self.room_bytes)
    }
}

async fn last_measured(conn: &mut SqliteConnection) -> Result<Option<MeasuredBackup>, OpenError> {
    let row = sqlx::query(LAST_MEASURED).fetch_optional(conn).await?;
    Ok(row.map(|row| MeasuredBackup {
        bytes: row.get::<i64, _>("bytes").unsigned_abs(),
        // The clock may have been set back meanwhile.
        seconds: row.get::<i64, _>("seconds").max(1).unsigned_abs(),
    }))
}
