//! The row that makes a database an archive, in which no engine works: its runs came from elsewhere, or its rows were copied to
//! another database, or are being copied from one.

use crate::store::OpenError;
use crate::store::db::{self, Connection};
use serde::{Deserialize, Serialize};

pub const ARCHIVE_HEADER: &str = "SELECT header_json FROM archive WHERE id = 1";
pub const MARK_ARCHIVE: &str =
    "INSERT INTO archive (id, header_json, imported_at) VALUES (1, $1, $2)";
pub const UNMARK_ARCHIVE: &str = "DELETE FROM archive WHERE id = 1";

/// Header of a database that takes part in a transfer of all rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransferMark {
    /// All rows are in another database, of these words for an operator.
    MovedTo(String),
    /// Rows come from another database, and are not all there, or not compared yet.
    ComesFrom(String),
}

impl TransferMark {
    /// Reads a header; `None` for that of a file of runs.
    pub fn of(header_json: &str) -> Option<Self> {
        serde_json::from_str(header_json).ok()
    }

    pub fn to_json(&self) -> Result<String, db::Error> {
        serde_json::to_string(self).map_err(|error| db::Error::Encode(error.into()))
    }
}

/// Returns the reason why no engine works in a database whose epoch cannot be raised.
pub async fn refusal(conn: &mut Connection) -> OpenError {
    match require_no_archive(conn).await {
        Err(refusal) => refusal,
        // The engine's row is missing.
        Ok(()) => OpenError::Archive,
    }
}

/// Errors: the reason why no engine works in a database that is an archive.
pub async fn require_no_archive(conn: &mut Connection) -> Result<(), OpenError> {
    let header = conn.maybe::<String>(ARCHIVE_HEADER, ());
    match header.await? {
        Some(header) => Err(archive_refusal(&header)),
        None => Ok(()),
    }
}

/// Returns the reason why no engine works in an archive of this header.
pub fn archive_refusal(header_json: &str) -> OpenError {
    match TransferMark::of(header_json) {
        Some(TransferMark::MovedTo(to)) => OpenError::MovedAway { to },
        Some(TransferMark::ComesFrom(from)) => OpenError::HalfMoved { from },
        None => OpenError::Archive,
    }
}
