//! What an upgrade would do to a database, found by reading.

use super::before_upgrade::{folder_of, room_needed};
use super::migrate::{PendingMigration, pending};
use super::versions::{ProgramVersion, newest_applied, program_versions};
use crate::store::OpenError;
use crate::store::sqlite::files::free_disk_bytes;
use crate::store::sqlite::read_only::only_to_read;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use std::path::Path;
use std::time::Duration;

/// Bytes of a database that an upgrade copies, checks and rewrites in a second, on a slow disk.
const BYTES_PER_SECOND: u64 = 40 * 1024 * 1024;

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
}

impl UpgradeForecast {
    /// Reads a database file, also while an engine works on it.
    pub async fn of(database: &Path) -> Result<Self, OpenError> {
        let options = only_to_read(SqliteConnectOptions::new().filename(database))?;
        let options = options.busy_timeout(Duration::from_secs(5));
        let mut conn = options.disable_statement_logging().connect().await?;
        let found = Self::read(&mut conn, database).await;
        conn.close().await?;
        found
    }

    async fn read(conn: &mut SqliteConnection, database: &Path) -> Result<Self, OpenError> {
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
            migration: newest_applied(conn).await?,
            pending,
            room_bytes: room_needed(conn).await?,
            free_bytes: free_disk_bytes(folder).ok(),
        })
    }

    /// Estimates the time of the upgrade from the size; a second at least.
    pub fn duration(&self) -> Duration {
        Duration::from_secs(1 + self.room_bytes / BYTES_PER_SECOND)
    }

    /// Reports whether the copy would fit.
    pub fn has_room(&self) -> bool {
        self.free_bytes.is_none_or(|free| free >= self.room_bytes)
    }
}
