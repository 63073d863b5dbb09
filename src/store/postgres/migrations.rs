//! Brings a database of PostgreSQL up to date.

use crate::domain::Timestamp;
use crate::store::OpenError;
use crate::store::maintenance::versions::{NEWEST_MIGRATION, NOTE_VERSION, THIS_VERSION};
use crate::store::migrations::{BASELINE, POSTGRES, newest_known};
use sqlx::postgres::PgConnection;

static UNHURRIED: &str = "SET statement_timeout = 0";
static HURRIED: &str = "RESET statement_timeout";

/// Gives the name of the table of migrations, or NULL where none was ever applied.
static HAS_MIGRATIONS: &str = "SELECT to_regclass('_sqlx_migrations')::text AS made";

/// Gives the name of the table of nodes, or NULL before it was made.
static HAS_NODES: &str = "SELECT to_regclass('nodes')::text AS made";
/// Gives the nodes whose lease lasts, or NULL where there are none.
pub(in crate::store) static LIVING_NODES: &str = "SELECT string_agg(host || ':' || workspace, ', ' ORDER BY epoch) FROM nodes WHERE expires_ms > server_ms()";

/// Brings the database up to date. Processes that do it at once wait for each other, by a lock that
/// sqlx takes.
pub(in crate::store) async fn migrate(
    conn: &mut PgConnection,
    now: Timestamp,
) -> Result<(), OpenError> {
    let newest = newest_applied(conn).await?;
    refuse_development(newest)?;
    if newest > newest_known() {
        return Err(newer(newest));
    }
    if newest < newest_known() {
        refuse_beside_nodes(conn).await?;
        // A migration reads and writes whole tables.
        sqlx::query(UNHURRIED).execute(&mut *conn).await?;
        // As for SQLite: by `run` this future would be `Send` for one lifetime only.
        let applied = POSTGRES.run_direct(None, &mut *conn, false).await;
        applied.map_err(OpenError::Migrate)?;
        sqlx::query(NOTE_VERSION)
            .bind(THIS_VERSION)
            .bind(now.to_string())
            .bind(newest_known())
            .execute(&mut *conn)
            .await?;
        sqlx::query(HURRIED).execute(conn).await?;
    }
    Ok(())
}

/// Refuses to change the tables while engines of an earlier version work with them.
async fn refuse_beside_nodes(conn: &mut PgConnection) -> Result<(), OpenError> {
    let made = sqlx::query_scalar::<_, Option<String>>(HAS_NODES);
    if made.fetch_one(&mut *conn).await?.is_none() {
        return Ok(());
    }
    let nodes = sqlx::query_scalar::<_, Option<String>>(LIVING_NODES);
    match nodes.fetch_one(conn).await? {
        Some(nodes) => Err(OpenError::NodesAreOlder { nodes }),
        None => Ok(()),
    }
}

/// Checks that the newest migration of the database is the newest of this program.
///
/// Errors: [`OpenError::Older`], [`OpenError::Newer`].
pub(in crate::store) async fn require_newest(conn: &mut PgConnection) -> Result<(), OpenError> {
    let (newest, known) = (newest_applied(conn).await?, newest_known());
    if newest == 0 {
        return Err(OpenError::NotMade);
    }
    refuse_development(newest)?;
    match newest.cmp(&known) {
        std::cmp::Ordering::Less => Err(OpenError::Older(known)),
        std::cmp::Ordering::Greater => Err(newer(newest)),
        std::cmp::Ordering::Equal => Ok(()),
    }
}

fn refuse_development(newest: i64) -> Result<(), OpenError> {
    match (1..BASELINE).contains(&newest) {
        true => Err(OpenError::Development),
        false => Ok(()),
    }
}

async fn newest_applied(conn: &mut PgConnection) -> Result<i64, OpenError> {
    let made = sqlx::query_scalar::<_, Option<String>>(HAS_MIGRATIONS);
    if made.fetch_one(&mut *conn).await?.is_none() {
        return Ok(0);
    }
    let newest = sqlx::query_scalar::<_, Option<i64>>(NEWEST_MIGRATION);
    Ok(newest.fetch_one(conn).await?.unwrap_or(0))
}

fn newer(migration: i64) -> OpenError {
    OpenError::Newer {
        migration,
        version: None,
    }
}
