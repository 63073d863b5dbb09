//! Opening a database of PostgreSQL: settings read back, migrations, the epoch.

use super::away::ServerAway;
use super::heartbeat::{LeaseHeartbeat, lease};
use super::lanes::Lanes;
use super::lock::Locks;
use super::migrations::{migrate, require_newest};
use super::settings;
use super::url::{DatabaseUrl, Session};
use crate::clock::Clock;
use crate::domain::LoopKey;
use crate::store::OpenError;
use crate::store::archive;
use crate::store::db::{Connection, Pool, Row, Scope, ServerPool, query, raw_sql, unanswered};
use crate::store::nodes::identity::NodeIdentity;
use crate::store::nodes::join::{END_SESSIONS, HOLDER, JOIN};
use crate::store::opened::{Opened, StoreWriter};
use crate::store::sql::to_ms;
use crate::store::sqlite::locks::{acquire, pid_before, replace, turn_to_open};
use crate::store::sqlite::open::{RAISE_EPOCH, READ_EPOCH, data_folder};
use crate::store::writes::commit_signal::CommitSignal;
use futures_util::future::BoxFuture;
use sqlx::postgres::PgConnection;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Looks at another node of this identity, within the length of a lease.
const HOLDER_LOOKS: u32 = 5;

type OpenResult = Result<Opened, OpenError>;

/// Opens the database for an engine: takes the workspace's lock, raises the epoch, joins the nodes.
pub async fn open(workspace: &Path, url: &DatabaseUrl, clock: &Arc<dyn Clock>) -> OpenResult {
    let opened = open_for_engine(workspace, url, clock, acquire).await;
    opened.map_err(|error| url.failed(error))
}

/// Opens the database like [`open`], also while another process has the lock.
pub async fn take_over(workspace: &Path, url: &DatabaseUrl, clock: &Arc<dyn Clock>) -> OpenResult {
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
    let before = pid_before(&data.join("engine.lock"));
    let lock = lock(&data.join("engine.lock"))?;
    let mut conn = connect_to_write(url, Session::Write, &**clock).await?;
    let (node, lease) = (NodeIdentity::of(workspace), lease()?);
    refuse_second(&mut conn, &node, before, lease).await?;
    let engine = join(&mut conn, &node, lease, &**clock).await?;
    conn.close().await?;
    let epoch = engine.get("epoch");
    let lanes = Lanes::start((url, Session::WriteAsNode(epoch)), Some(epoch));
    let mut opened = opened(url, &engine, lanes.clone());
    let away = ServerAway::of(&data);
    let heartbeat = LeaseHeartbeat::start((url, away), (epoch, lease), clock.clone(), lanes);
    opened.heartbeat = Some(heartbeat);
    opened._lock = Some(lock);
    Ok(opened)
}

/// Opens the database beside an engine.
pub async fn open_shared(url: &DatabaseUrl, clock: &dyn Clock) -> OpenResult {
    let opened = async {
        let mut conn = connect_to_write(url, Session::Write, clock).await?;
        let engine = read_epoch(&mut conn, READ_EPOCH).await?;
        conn.close().await?;
        let lanes = Lanes::start((url, Session::Write), None);
        Ok(opened(url, &engine, lanes))
    };
    opened.await.map_err(|error| url.failed(error))
}

/// Opens the database by connections that only read.
///
/// Errors: [`OpenError::Older`] for a database that the engine has not migrated yet.
pub async fn open_to_read(url: &DatabaseUrl) -> OpenResult {
    let opened = async {
        let mut conn = connect_to_read(url, Session::Read).await?;
        let engine = read_epoch(&mut conn, READ_EPOCH).await?;
        conn.close().await?;
        // What a reader submits is a transaction that reads, such as of the feed; the server refuses
        // others.
        let lanes = Lanes::start((url, Session::Read), None);
        let mut opened = opened(url, &engine, lanes);
        opened.can_write = false;
        Ok(opened)
    };
    opened.await.map_err(|error| url.failed(error))
}

/// Returns a connection that only reads; [`Session::ReadAll`] for whole tables.
///
/// Errors: [`OpenError::Older`], [`OpenError::Newer`] for a schema that is not this program's.
pub async fn connect_to_read(url: &DatabaseUrl, session: Session) -> Result<Connection, OpenError> {
    let mut conn = url.connect(session).await.map_err(OpenError::Sql);
    if let Ok(conn) = &mut conn {
        let checked = within(url, conn, |conn| Box::pin(require_newest(conn))).await;
        checked.map_err(|error| url.failed(error))?;
    }
    conn.map_err(|error| url.failed(error))
}

/// Looks at the tables, as long as a read may take.
async fn within<'c>(
    url: &DatabaseUrl,
    conn: &'c mut Connection,
    look: impl FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<(), OpenError>>,
) -> Result<(), OpenError> {
    let Some(conn) = conn.postgres() else {
        return Ok(());
    };
    let looked = timeout(url.read_max(), look(conn)).await;
    looked.unwrap_or_else(|_elapsed| Err(unanswered(url.read_max()).into()))
}

/// Returns a connection that writes, after the settings of the server were read back and the schema was brought up to date;
/// [`Session::WriteAll`] for whole tables.
pub async fn connect_to_write(
    url: &DatabaseUrl,
    session: Session,
    clock: &dyn Clock,
) -> Result<Connection, OpenError> {
    let mut checked = url.connect(session).await?;
    settings::require(&mut checked).await?;
    if let Some(conn) = checked.postgres() {
        migrate(conn, clock.now()).await?;
    }
    Ok(checked)
}

/// Refuses to take the place of a node that lives: of two machines with one identity, such as a machine and its copy with all of
/// its memory, each would end the other. One whose process had the lock of this workspace is gone.
async fn refuse_second(
    conn: &mut Connection,
    node: &NodeIdentity,
    before: Option<i64>,
    lease: Duration,
) -> Result<(), OpenError> {
    let mut first_seen: Option<i64> = None;
    for _ in 0..=HOLDER_LOOKS {
        let holder = query(HOLDER).bind((&node.identity, before.unwrap_or(0)));
        let Some(holder) = holder.maybe_row(&mut *conn).await? else {
            return Ok(());
        };
        let expires_ms: i64 = holder.get("expires_ms");
        match first_seen {
            Some(seen) if expires_ms > seen => {
                return Err(OpenError::NodeLives {
                    node: format!(
                        "{}:{}",
                        holder.get::<&str>("host"),
                        holder.get::<&str>("workspace")
                    ),
                    pid: holder.get("pid"),
                });
            }
            _ => first_seen = Some(expires_ms),
        }
        tokio::time::sleep(lease / HOLDER_LOOKS).await;
    }
    Ok(())
}

/// Raises the epoch, joins the nodes under it, and returns the row of the engine. No other write goes on meanwhile, so
/// that none of the node before of this workspace has begun and not ended.
async fn join(
    conn: &mut Connection,
    node: &NodeIdentity,
    lease: Duration,
    clock: &dyn Clock,
) -> Result<Row, OpenError> {
    query(END_SESSIONS)
        .bind((&node.identity, false))
        .exec(&mut *conn)
        .await?;
    let locks = Locks::of(&Scope::Engine, conn).await?;
    locks.begin(conn, None).await?;
    let engine = read_epoch(conn, RAISE_EPOCH).await?;
    let join = query(JOIN).bind((
        engine.get::<i64>("epoch"),
        &node.host,
        &node.workspace,
        node.pid,
        node.version,
        clock.now(),
    ));
    let join = join.bind((to_ms(lease), &node.identity));
    join.exec(&mut *conn).await?;
    raw_sql("COMMIT").execute(conn).await?;
    Ok(engine)
}

async fn read_epoch(conn: &mut Connection, statement: &'static str) -> Result<Row, OpenError> {
    let engine = query(statement).maybe_row(&mut *conn).await?;
    match engine {
        Some(engine) => Ok(engine),
        None => Err(archive::refusal(conn).await),
    }
}

fn opened(url: &DatabaseUrl, engine: &Row, lanes: Lanes) -> Opened {
    let to_read = url.clone();
    let connect = move || -> BoxFuture<'static, Result<PgConnection, sqlx::Error>> {
        let url = to_read.clone();
        Box::pin(async move { url.connected(Session::Read).await })
    };
    Opened {
        writer: StoreWriter::Lanes(lanes),
        readers: Pool::Postgres(ServerPool::new(Box::new(connect), url.read_max())),
        epoch: engine.get("epoch"),
        loop_key: LoopKey::new(engine.get("loop_key")),
        can_write: true,
        commits: CommitSignal::default(),
        heartbeat: None,
        _lock: None,
    }
}
