//! Checks a copy of a database, of this version or an earlier one.

use super::before_upgrade::LOOK_OVER;
use super::versions::newest_applied;
use crate::store::audit::{Audit, AuditScope};
use crate::store::sqlite::read_only::only_to_read;
use crate::store::{OpenError, StoreError};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};
use std::path::Path;

/// Outcome of the checks of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseVerdict {
    pub migration: i64,
    /// It was made by an earlier version: only its pages were checked.
    pub is_older: bool,
    pub checks: usize,
    /// Names of the checks that found something.
    pub broken: Vec<String>,
}

/// Error of a copy that cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Makes every check on a database file, hashes included.
pub async fn verify_database(file: &Path) -> Result<DatabaseVerdict, VerifyError> {
    let (migration, found) = look_over(file).await?;
    if found != "ok" {
        return Ok(DatabaseVerdict {
            migration,
            is_older: false,
            checks: 1,
            broken: vec![format!("pages: {found}")],
        });
    }
    let mut audit = match Audit::open(file).await {
        Ok(audit) => audit,
        Err(OpenError::Older(_)) => {
            return Ok(DatabaseVerdict {
                migration,
                is_older: true,
                checks: 1,
                broken: Vec::new(),
            });
        }
        Err(error) => return Err(error.into()),
    };
    let everything = AuditScope {
        bytes: true,
        at_rest: false,
    };
    let findings = audit.examine(everything).await?;
    let broken = findings.broken.iter();
    Ok(DatabaseVerdict {
        migration,
        is_older: false,
        checks: findings.made + 1,
        broken: broken.map(|broken| broken.name.to_owned()).collect(),
    })
}

async fn look_over(file: &Path) -> Result<(i64, String), OpenError> {
    let options = only_to_read(SqliteConnectOptions::new().filename(file))?;
    let mut conn = options.disable_statement_logging().connect().await?;
    let found: String = sqlx::query_scalar(LOOK_OVER).fetch_one(&mut conn).await?;
    let migration = newest_applied(&mut conn).await?;
    conn.close().await?;
    Ok((migration, found))
}
