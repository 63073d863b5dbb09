//! The versions of the program that have written a database, and the migrations that it has.

use crate::domain::Timestamp;
use crate::store::OpenError;
use crate::store::migrations::{BASELINE, newest_known};
use serde::Serialize;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

/// Version of this program.
pub static THIS_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Number of the newest migration that was applied.
pub(in crate::store) const NEWEST_MIGRATION: &str =
    "SELECT max(version) AS newest FROM _sqlx_migrations";
pub(in crate::store) const APPLIED_MIGRATIONS: &str =
    "SELECT version FROM _sqlx_migrations ORDER BY version";
/// Gives 1 for a database to which no migration was ever applied.
pub(in crate::store) const IS_NEW: &str =
    "SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = '_sqlx_migrations')";
const HAS_TABLES: &str =
    "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%')";
/// The last writer comes last, whatever the clock said.
pub(in crate::store) const PROGRAM_VERSIONS: &str = "
    SELECT version, first_seen_at, last_seen_at, migration FROM program_versions
    ORDER BY migration, last_seen_at, version";
pub(in crate::store) const NOTE_VERSION: &str = "
    INSERT INTO program_versions (version, first_seen_at, last_seen_at, migration) VALUES ($1, $2, $2, $3)
    ON CONFLICT (version) DO UPDATE SET last_seen_at = excluded.last_seen_at, migration = excluded.migration";

/// A version of the program that has written a database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProgramVersion {
    pub version: String,
    pub first_seen: Timestamp,
    pub last_seen: Timestamp,
    /// Newest migration that it had applied.
    pub migration: i64,
}

/// Reports whether a database has nothing yet.
///
/// Errors: [`OpenError::Foreign`] where it has tables, and no migration of ours.
pub(in crate::store) async fn is_new(conn: &mut SqliteConnection) -> Result<bool, OpenError> {
    let is_new: bool = sqlx::query_scalar(IS_NEW).fetch_one(&mut *conn).await?;
    match is_new && sqlx::query_scalar(HAS_TABLES).fetch_one(conn).await? {
        true => Err(OpenError::Foreign),
        false => Ok(is_new),
    }
}

/// Reads the number of the newest migration of a database.
///
/// Errors: [`OpenError::Foreign`].
pub(in crate::store) async fn newest_applied(
    conn: &mut SqliteConnection,
) -> Result<i64, OpenError> {
    is_new(conn).await?;
    let newest = sqlx::query(NEWEST_MIGRATION).fetch_one(conn).await?;
    Ok(newest.try_get::<Option<i64>, _>("newest")?.unwrap_or(0))
}

/// Reads the versions that have written a database, the last writer last.
pub(in crate::store) async fn program_versions(
    conn: &mut SqliteConnection,
) -> Result<Vec<ProgramVersion>, OpenError> {
    let rows = sqlx::query(PROGRAM_VERSIONS).fetch_all(conn).await?;
    let instant = |row: &SqliteRow, column| {
        Timestamp::parse(row.get(column)).unwrap_or(Timestamp::from_millis(0))
    };
    let version = |row: &SqliteRow| ProgramVersion {
        version: row.get("version"),
        first_seen: instant(row, "first_seen_at"),
        last_seen: instant(row, "last_seen_at"),
        migration: row.get("migration"),
    };
    Ok(rows.iter().map(version).collect())
}

/// Records that this version writes the database.
pub(in crate::store) async fn note_version(
    conn: &mut SqliteConnection,
    now: Timestamp,
) -> Result<(), OpenError> {
    sqlx::query(NOTE_VERSION)
        .bind(THIS_VERSION)
        .bind(now.to_string())
        .bind(newest_known())
        .execute(conn)
        .await?;
    Ok(())
}

/// Checks that the newest migration of the database is the newest of this program.
///
/// Errors: [`OpenError::Older`], [`OpenError::Newer`], [`OpenError::Development`].
pub(in crate::store) async fn require_newest(conn: &mut SqliteConnection) -> Result<(), OpenError> {
    let (newest, known) = (newest_applied(conn).await?, newest_known());
    if newest < BASELINE {
        return Err(OpenError::Development);
    }
    match newest.cmp(&known) {
        std::cmp::Ordering::Less => Err(OpenError::Older(known)),
        std::cmp::Ordering::Greater => Err(newer(conn, newest).await),
        std::cmp::Ordering::Equal => Ok(()),
    }
}

/// Returns the error for a database with a migration that this program does not know.
pub(in crate::store) async fn newer(conn: &mut SqliteConnection, migration: i64) -> OpenError {
    // The version is a courtesy: a later schema may name it elsewhere.
    let versions = program_versions(conn).await.unwrap_or_default();
    let last = versions.last().map(|last| last.version.clone());
    OpenError::Newer {
        migration,
        // Between two releases they have one number.
        version: last.filter(|version| version != THIS_VERSION),
    }
}
