//! The schema of PostgreSQL: it begins as that of SQLite was at 0085, and has a file of the same
//! number for each later one.

use crate::domain::Timestamp;
use crate::store::OpenError;
use crate::store::maintenance::versions::{NEWEST_MIGRATION, NOTE_VERSION, THIS_VERSION};
use sqlx::SqlStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::postgres::PgConnection;
use std::sync::LazyLock;

static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let migration = |&(version, name, sql): &(i64, &'static str, &'static str)| {
        let sql = SqlStr::from_static(sql);
        Migration::new(version, name.into(), MigrationType::Simple, sql, false)
    };
    Migrator::with_migrations(FILES.iter().map(migration).collect())
});

macro_rules! files {
    ($($version:literal $name:literal,)*) => {
        &[$(($version, $name, include_str!(concat!("../../../migrations/postgres/", $name, ".sql"))),)*]
    };
}

/// Their numbers, names and texts.
const FILES: &[(i64, &str, &str)] = files! {
    84 "0084_functions",
    85 "0085_tables",
    86 "0086_nodes",
    87 "0087_engine_parts",
    88 "0088_objects",
    89 "0089_functions_with_plans",
    90 "0090_persona_moves",
    91 "0091_object_tokens",
    97 "0097_node_identities",
    98 "0098_no_ingest_tokens",
    99 "0099_log_marks",
    100 "0100_silence_and_dismissal",
    101 "0101_bytes_in_their_rows",
};

static UNHURRIED: &str = "SET statement_timeout = 0";
static HURRIED: &str = "RESET statement_timeout";

/// Gives the name of the table of migrations, or NULL where none was ever applied.
static HAS_MIGRATIONS: &str = "SELECT to_regclass('_sqlx_migrations')::text AS made";

/// Gives the name of the table of nodes, or NULL before it was made.
static HAS_NODES: &str = "SELECT to_regclass('nodes')::text AS made";
/// Gives the nodes whose lease lasts, or NULL where there are none.
pub(in crate::store) static LIVING_NODES: &str = "SELECT string_agg(host || ':' || workspace, ', ' ORDER BY epoch) FROM nodes WHERE expires_ms > server_ms()";

fn newest_known() -> i64 {
    FILES
        .iter()
        .map(|(version, _, _)| *version)
        .max()
        .unwrap_or(0)
}

/// Brings the database up to date. Processes that do it at once wait for each other, by a lock that
/// sqlx takes.
pub(in crate::store) async fn migrate(
    conn: &mut PgConnection,
    now: Timestamp,
) -> Result<(), OpenError> {
    let newest = newest_applied(conn).await?;
    if newest > newest_known() {
        return Err(newer(newest));
    }
    if newest < newest_known() {
        refuse_beside_nodes(conn).await?;
        // A migration reads and writes whole tables.
        sqlx::query(UNHURRIED).execute(&mut *conn).await?;
        // As for SQLite: by `run` this future would be `Send` for one lifetime only.
        let applied = MIGRATIONS.run_direct(None, &mut *conn, false).await;
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
    match newest.cmp(&known) {
        std::cmp::Ordering::Less => Err(OpenError::Older(known)),
        std::cmp::Ordering::Greater => Err(newer(newest)),
        std::cmp::Ordering::Equal => Ok(()),
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
