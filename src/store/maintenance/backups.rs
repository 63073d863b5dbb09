//! The rows of backups that were tried.

use crate::domain::Timestamp;
use crate::store::db::{Row, Scope};
use crate::store::notices::emit::{NewNotice, emit};
use crate::store::sql::timestamp;
use crate::store::{Result, Store};
use std::collections::BTreeMap;
use std::path::PathBuf;

const BEGIN_BACKUP: &str = "
    INSERT INTO backups (started_at, is_scheduled, path) VALUES ($1, $2, $3) RETURNING seq";
const END_BACKUP: &str = "
    UPDATE backups SET finished_at = $2, path = $3, bytes = $4, failure = $5 WHERE seq = $1";
/// `$1`: number of rows that stay.
const PRUNE_BACKUPS: &str = "
    DELETE FROM backups WHERE seq <= (SELECT max(seq) FROM backups) - $1
      AND seq <> coalesce((SELECT max(seq) FROM backups WHERE finished_at IS NOT NULL AND failure IS NULL), 0)";
const LAST_SCHEDULED: &str = "
    SELECT started_at, failure IS NULL AND finished_at IS NOT NULL AS is_good FROM backups
    WHERE is_scheduled = 1 ORDER BY seq DESC LIMIT 1";
/// The newest of each path last.
const BACKUP_PATHS: &str = "SELECT path, is_scheduled, started_at FROM backups ORDER BY seq";

/// Rows that stay.
const ROWS_MAX: i64 = 500;

/// End of a backup.
#[derive(Debug, Clone)]
pub struct BackupEnd {
    pub path: String,
    pub bytes: u64,
    /// Why it is not good.
    pub failure: Option<String>,
}

/// The last backup that the engine tried by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastScheduled {
    pub started: Timestamp,
    pub is_good: bool,
}

impl Store {
    /// Records that a backup is begun; returns its number.
    pub async fn begin_backup(&self, path: String, is_scheduled: bool) -> Result<i64> {
        let now = self.clock().now().to_string();
        transact!(self, Scope::Engine, |conn| {
            let begun = conn.row(BEGIN_BACKUP, (now, is_scheduled, path)).await?;
            conn.exec(PRUNE_BACKUPS, ROWS_MAX).await?;
            Ok(begun.get("seq"))
        })
        .await
    }

    /// Records the end of a backup, with the notice of a failure.
    pub async fn end_backup(
        &self,
        number: i64,
        end: BackupEnd,
        notice: Option<NewNotice>,
    ) -> Result<()> {
        let now = self.clock().now();
        transact!(self, Scope::Engine, |conn| {
            conn.exec(
                END_BACKUP,
                (
                    number,
                    now,
                    end.path,
                    i64::try_from(end.bytes).unwrap_or(i64::MAX),
                    end.failure,
                ),
            )
            .await?;
            if let Some(notice) = &notice {
                emit(conn, notice, now).await?;
            }
            Ok(())
        })
        .await
    }

    /// Returns where backups were made, whether by the engine itself, and when the newest there was begun.
    pub async fn backup_paths(&self) -> Result<BTreeMap<PathBuf, (bool, Timestamp)>> {
        let rows = self.rows(BACKUP_PATHS, ()).await?;
        let path = |row: &Row| {
            let made = (row.get("is_scheduled"), timestamp(row, "started_at")?);
            Ok((PathBuf::from(row.get::<String>("path")), made))
        };
        rows.iter().map(path).collect()
    }

    /// Returns the last backup that the engine tried by itself.
    pub async fn last_scheduled_backup(&self) -> Result<Option<LastScheduled>> {
        let row = self.maybe_row(LAST_SCHEDULED, ());
        let Some(row) = row.await? else {
            return Ok(None);
        };
        Ok(Some(LastScheduled {
            started: timestamp(&row, "started_at")?,
            is_good: row.get("is_good"),
        }))
    }
}
