//! Opening a database of PostgreSQL: settings read back, migrations, the epoch.

use super::heartbeat::{LeaseHeartbeat, lease};
use super::lanes::Lanes;
use super::lock::Locks;
use super::migrations::{self, migrate, require_newest};
use super::settings;
use super::url::DatabaseUrl;
use crate::clock::Clock;
use crate::domain::LoopKey;
use crate::store::OpenError;
use crate::store::archive;
use crate::store::db::{Connection, Pool, Row, Scope, query, raw_sql};
use crate::store::nodes::identity::NodeIdentity;
use crate::store::nodes::join::{END_SESSIONS, JOIN};
use crate::store::opened::{Opened, StoreWriter};
use crate::store::sql::to_ms;
use crate::store::sqlite::locks::{acquire, replace, turn_to_open};
use crate::store::sqlite::open::{RAISE_EPOCH, READ_EPOCH, data_folder};
use sqlx::Connection as _;
use sqlx::postgres::{PgConnection, PgPoolOptions};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Most connections that read at once.
const READERS_MAX: u32 = 8;
/// Time that a read waits for a connection, while the server is away for example.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);

type OpenResult = Result<Opened, OpenError>;

/// Opens the database for an engine: takes the workspace's lock, raises the epoch, joins the nodes.
pub(in crate::store) async fn open(
    workspace: &Path,
    url: &DatabaseUrl,
    clock: &Arc<dyn Clock>,
) -> OpenResult {
    let opened = open_for_engine(workspace, url, clock, acquire).await;
    opened.map_err(|error| url.failed(error))
}

/// Opens the database like [`open`], also while another process has the lock.
pub(in crate::store) async fn take_over(
    workspace: &Path,
    url: &DatabaseUrl,
    clock: &Arc<dyn Clock>,
) -> OpenResult {
    let opened = open_for_engine(workspace, url, clock, replace).await;
    opened.map_err(|error| url.failed(error))
}

async fn open_for_engine(
    workspace: &Path,
    url: &DatabaseUrl,
    clock: &Arc<dyn Clock>,
    lock: fn(&Path) -> Result<File, OpenError>,
) -> OpenResult {
    let data = data_folder(workspace)?;
    let _opening = turn_to_open(&data).await?;
    let lock = lock(&data.join("engine.lock"))?;
    let mut conn = connect_to_write(url, &**clock).await?;
    let (node, lease) = (NodeIdentity::of(workspace), lease()?);
    let engine = join(&mut conn, (&node, lease), &**clock).await?;
    conn.close().await?;
    let epoch = engine.get("epoch");
    let options = url.to_write_as_node(epoch);
    let lanes = Lanes::start(&options, Some(epoch));
    let mut opened = opened(url, &engine, lanes.clone());
    let heartbeat = LeaseHeartbeat::start(options, (epoch, lease), clock.clone(), lanes);
    opened.heartbeat = Some(heartbeat);
    opened._lock = Some(lock);
    Ok(opened)
}

/// Opens the database beside an engine.
pub(in crate::store) async fn open_shared(url: &DatabaseUrl, clock: &dyn Clock) -> OpenResult {
    let opened = async {
        let mut conn = connect_to_write(url, clock).await?;
        let engine = read_epoch(&mut conn, READ_EPOCH).await?;
        conn.close().await?;
        let lanes = Lanes::start(&url.to_write(), None);
        Ok(opened(url, &engine, lanes))
    };
    opened.await.map_err(|error| url.failed(error))
}

/// Opens the database by connections that only read.
///
/// Errors: [`OpenError::Older`] for a database that the engine has not migrated yet.
pub(in crate::store) async fn open_to_read(url: &DatabaseUrl) -> OpenResult {
    let opened = async {
        let mut conn = connect_to_read(url).await?;
        let engine = read_epoch(&mut conn, READ_EPOCH).await?;
        conn.close().await?;
        // What a reader submits is a transaction that reads, such as of the feed; the server refuses
        // others.
        let lanes = Lanes::start(&url.to_read(), None);
        let mut opened = opened(url, &engine, lanes);
        opened.can_write = false;
        Ok(opened)
    };
    opened.await.map_err(|error| url.failed(error))
}

/// Returns a connection that only reads.
///
/// Errors: [`OpenError::Older`], [`OpenError::Newer`] for a schema that is not this program's.
pub(in crate::store) async fn connect_to_read(url: &DatabaseUrl) -> Result<Connection, OpenError> {
    let connected = async {
        let mut conn = PgConnection::connect_with(&url.to_read()).await?;
        require_newest(&mut conn).await?;
        Ok(conn.into())
    };
    connected.await.map_err(|error| url.failed(error))
}

/// Checks that a database has the tables of this program, or none yet.
///
/// Errors: [`OpenError::Older`], [`OpenError::Newer`].
pub(in crate::store) async fn require_newest_or_none(url: &DatabaseUrl) -> Result<(), OpenError> {
    let checked = async {
        let mut conn = PgConnection::connect_with(&url.to_read()).await?;
        migrations::require_newest_or_none(&mut conn).await?;
        Ok(conn.close().await?)
    };
    checked.await.map_err(|error| url.failed(error))
}

/// Returns a connection that writes, after the settings of the server were read back and the schema was brought up to date.
pub(in crate::store) async fn connect_to_write(
    url: &DatabaseUrl,
    clock: &dyn Clock,
) -> Result<Connection, OpenError> {
    let conn = PgConnection::connect_with(&url.to_write()).await?;
    let mut checked = Connection::from(conn);
    settings::require(&mut checked).await?;
    if let Some(conn) = checked.postgres() {
        migrate(conn, clock.now()).await?;
    }
    Ok(checked)
}

/// Raises the epoch, joins the nodes under it, and returns the row of the engine. No other write goes on meanwhile, so
/// that none of the node before of this workspace has begun and not ended.
async fn join(
    conn: &mut Connection,
    (node, lease): (&NodeIdentity, Duration),
    clock: &dyn Clock,
) -> Result<Row, OpenError> {
    query(END_SESSIONS)
        .bind(&node.host)
        .bind(&node.workspace)
        .bind(false)
        .execute(&mut *conn)
        .await?;
    let locks = Locks::of(&Scope::Engine, conn).await?;
    locks.begin(conn, None).await?;
    let engine = read_epoch(conn, RAISE_EPOCH).await?;
    let join = query(JOIN)
        .bind(engine.get::<i64>("epoch"))
        .bind(&node.host)
        .bind(&node.workspace)
        .bind(node.pid)
        .bind(node.version)
        .bind(clock.now().to_string());
    join.bind(to_ms(lease)).execute(&mut *conn).await?;
    raw_sql("COMMIT").execute(conn).await?;
    Ok(engine)
}

async fn read_epoch(conn: &mut Connection, statement: &'static str) -> Result<Row, OpenError> {
    let engine = query(statement).fetch_optional(&mut *conn).await?;
    match engine {
        Some(engine) => Ok(engine),
        None => Err(archive::refusal(conn).await),
    }
}

fn opened(url: &DatabaseUrl, engine: &Row, lanes: Lanes) -> Opened {
    let readers = PgPoolOptions::new()
        .max_connections(READERS_MAX)
        .min_connections(0)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .connect_lazy_with(url.to_read());
    Opened {
        writer: StoreWriter::Lanes(lanes),
        readers: Pool::Postgres(readers),
        epoch: engine.get("epoch"),
        loop_key: LoopKey::new(engine.get("loop_key")),
        can_write: true,
        heartbeat: None,
        _lock: None,
    }
}
