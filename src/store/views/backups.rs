//! The age of the last backup, for whoever asks whether there is a good one.

use crate::domain::Timestamp;
use crate::store::db::Row;
use crate::store::{Result, Store};
use serde::Serialize;

const LAST_GOOD_BACKUP: &str = "
    SELECT started_at, finished_at, path, bytes, failure FROM backups
    WHERE finished_at IS NOT NULL AND failure IS NULL ORDER BY seq DESC LIMIT 1";
const LAST_TRIED_BACKUP: &str =
    "SELECT started_at, finished_at, path, bytes, failure FROM backups ORDER BY seq DESC LIMIT 1";

/// A backup that was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BackupRow {
    pub started: Timestamp,
    /// `None`: it is being made, or its maker died.
    pub finished: Option<Timestamp>,
    pub path: String,
    pub bytes: u64,
    /// `None`: it is good, or not finished.
    pub failure: Option<String>,
}

/// The newest backups.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LastBackup {
    /// The newest good one; its instant is that of its beginning, of which it is the copy.
    pub good: Option<BackupRow>,
    /// The newest of all.
    pub tried: Option<BackupRow>,
}

impl LastBackup {
    /// Reports whether the newest backup that ended is not good.
    pub fn has_failed(&self) -> bool {
        let tried = self.tried.as_ref();
        tried.is_some_and(|tried| tried.failure.is_some())
    }
}

impl Store {
    /// Returns the newest good backup and the newest that was tried.
    pub async fn last_backup(&self) -> Result<LastBackup> {
        let good = self.maybe_row(LAST_GOOD_BACKUP, ());
        let good = good.await?;
        let tried = self.maybe_row(LAST_TRIED_BACKUP, ());
        let tried = tried.await?;
        Ok(LastBackup {
            good: good.as_ref().map(Row::to).transpose()?,
            tried: tried.as_ref().map(Row::to).transpose()?,
        })
    }
}

from_row!(BackupRow {
    started: "started_at",
    finished: "finished_at",
    path,
    bytes,
    failure
});
