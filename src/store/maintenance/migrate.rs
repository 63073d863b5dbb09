//! Brings a database up to date: one migration after the other, behind a copy of what was there.

use super::before_upgrade::{back_up, remove_oldest};
use super::versions::{APPLIED_MIGRATIONS, is_new, newer};
use crate::crash::crash_point;
use crate::domain::Timestamp;
use crate::store::OpenError;
use crate::store::migrations::{BASELINE, SQLITE};
use crate::store::sqlite::locks::working_engine;
use serde::Serialize;
use sqlx::migrate::MigrateError;
use sqlx::{Connection, Row, SqliteConnection};
use std::collections::BTreeSet;
use std::path::Path;

/// Virtual machine steps of SQLite between two crash points.
#[cfg(debug_assertions)]
const STEPS_BETWEEN_POINTS: i32 = 200;

/// Whether a database is copied before it is brought up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpgradeBackup {
    Made,
    /// The owner has copied it, or wants to go without.
    Without,
}

/// A migration that a database lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PendingMigration {
    pub number: i64,
    pub name: String,
}

/// The process that opens a database.
pub(in crate::store) struct Opening<'a> {
    pub database: &'a Path,
    /// It is the engine of the workspace.
    pub is_engine: bool,
    pub backup: UpgradeBackup,
    pub now: Timestamp,
}

/// Lists the migrations that a database lacks, in order.
///
/// Errors: [`OpenError::Newer`] for one that has a migration which this program does not know, [`OpenError::Development`].
pub(in crate::store) async fn pending(
    conn: &mut SqliteConnection,
) -> Result<Vec<PendingMigration>, OpenError> {
    let rows = sqlx::query(APPLIED_MIGRATIONS)
        .fetch_all(&mut *conn)
        .await?;
    let applied: BTreeSet<i64> = rows.iter().map(|row| row.get("version")).collect();
    if applied.first().is_some_and(|first| *first < BASELINE) {
        return Err(OpenError::Development);
    }
    let is_known = |number: &i64| SQLITE.iter().any(|known| known.version == *number);
    if let Some(unknown) = applied.iter().rev().find(|number| !is_known(number)) {
        return Err(newer(conn, *unknown).await);
    }
    let lacking = SQLITE
        .iter()
        .filter(|migration| !applied.contains(&migration.version));
    let named = lacking.map(|migration| PendingMigration {
        number: migration.version,
        name: migration.description.to_string(),
    });
    Ok(named.collect())
}

/// Applies what a database lacks; `true`: it was changed. One that has rows is copied before.
///
/// Errors: [`OpenError::Newer`], [`OpenError::EngineIsOlder`], and those of the copy.
pub(in crate::store) async fn migrate(
    conn: &mut SqliteConnection,
    opening: &Opening<'_>,
) -> Result<bool, OpenError> {
    // sqlx commits twice for each migration, and every commit waits for the disk: a new database
    // gets its tables in one. An older one keeps what each migration did, so that the log does not
    // have to hold all of them.
    if is_new(conn).await? {
        let mut whole = conn.begin().await?;
        apply(&mut whole, None).await?;
        whole.commit().await?;
        return Ok(true);
    }
    let pending = pending(conn).await?;
    if pending.is_empty() {
        // It still compares the digests of what was applied.
        apply(conn, None).await?;
        return Ok(false);
    }
    refuse_beside_engine(opening)?;
    if opening.backup == UpgradeBackup::Made {
        let file = back_up(conn, opening.database, opening.now).await?;
        tracing::info!(file = %file.display(), "the database was copied before it is brought up to date");
    }
    tracing::info!(
        migrations = pending.len(),
        "bringing the database up to date"
    );
    for migration in &pending {
        meet_points(conn, true).await?;
        apply(conn, Some(migration.number)).await?;
        meet_points(conn, false).await?;
        crash_point!("U3");
    }
    remove_oldest(opening.database);
    Ok(true)
}

/// Refuses to change the tables of an engine that works with them.
fn refuse_beside_engine(opening: &Opening<'_>) -> Result<(), OpenError> {
    let workspace = opening.database.parent().and_then(Path::parent);
    match workspace.and_then(working_engine) {
        Some(pid) if !opening.is_engine => Err(OpenError::EngineIsOlder { pid }),
        _ => Ok(()),
    }
}

/// Has SQLite meet a crash point again and again in the middle of its statements, or no more: sqlx gives no other place inside
/// a migration.
#[cfg(debug_assertions)]
async fn meet_points(conn: &mut SqliteConnection, meets: bool) -> Result<(), OpenError> {
    let mut handle = conn.lock_handle().await?;
    match meets {
        true => handle.set_progress_handler(STEPS_BETWEEN_POINTS, || {
            crash_point!("U4");
            true
        }),
        false => handle.remove_progress_handler(),
    }
    Ok(())
}
#[cfg(not(debug_assertions))]
async fn meet_points(_conn: &mut SqliteConnection, _meets: bool) -> Result<(), OpenError> {
    Ok(())
}

/// Applies the migrations up to this number, or all.
async fn apply(conn: &mut SqliteConnection, upto: Option<i64>) -> Result<(), OpenError> {
    // `run` would take the connection by sqlx's `Acquire`, which makes this future `Send` for one
    // lifetime only.
    let applied = SQLITE.run_direct(upto, &mut *conn, false).await;
    match applied {
        Err(MigrateError::VersionMissing(number)) => Err(newer(conn, number).await),
        other => other.map_err(OpenError::Migrate),
    }
}
