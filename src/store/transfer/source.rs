//! The database that rows come from: opened as an engine opens it, and had alone until it is retired.

use super::error::TransferError;
use super::place::TransferPlace;
use crate::clock::Clock;
use crate::store::archive::{self, MARK_ARCHIVE, TransferMark};
use crate::store::db::{self, Connection, Sql};
use crate::store::postgres::lock::have_alone;
use crate::store::postgres::migrations::LIVING_NODES;
use crate::store::postgres::open as server;
use crate::store::postgres::url::Session;
use crate::store::search::index_merge::index_letters;
use crate::store::sqlite::leftovers::refuse_leftovers;
use crate::store::sqlite::locks::{acquire, turn_to_open};
use crate::store::sqlite::open::{RAISE_EPOCH, connect_alone, data_folder};
use crate::store::{OpenError, StoreError};
use std::fs::File;
use std::path::Path;

/// A connection that waits for the other database is not idle.
static PATIENT: &str = "SET idle_in_transaction_session_timeout = 0";
/// Every engine of a database that is retired.
const NO_NODES: &str = "DELETE FROM nodes";
/// SQLite has one writer, and who has begun to write is alone.
pub(super) static BEGIN_SNAPSHOT: Sql =
    Sql::pair("BEGIN IMMEDIATE", "BEGIN ISOLATION LEVEL REPEATABLE READ");

/// Takes the whole database of a server: every write of another program of ours waits, and is given up after a while.
///
/// Errors: [`OpenError::NodesAtWork`].
pub(super) async fn have_server_alone(conn: &mut Connection) -> Result<(), OpenError> {
    db::raw_sql(PATIENT).execute(conn).await?;
    have_alone(conn).await?;
    match conn.one::<Option<String>>(LIVING_NODES, ()).await? {
        Some(nodes) => Err(OpenError::NodesAtWork { nodes }),
        None => Ok(()),
    }
}

/// A database of which nobody else changes a row.
pub(super) struct TransferSource {
    pub conn: Connection,
    pub place: TransferPlace,
    /// Lock of the workspace, so that no engine begins there.
    _lock: File,
}

impl TransferSource {
    /// Opens the database of a workspace, and brings it up to date.
    ///
    /// Errors: [`OpenError::InUse`], [`OpenError::MovedAway`] and the others of an engine's start.
    pub async fn open(
        workspace: &Path,
        place: TransferPlace,
        clock: &dyn Clock,
    ) -> Result<Self, OpenError> {
        let data = data_folder(workspace)?;
        let _opening = turn_to_open(&data).await?;
        let lock = data.join("engine.lock");
        let (conn, lock) = match &place {
            TransferPlace::File { data } => {
                refuse_leftovers(data)?;
                let lock = acquire(&lock)?;
                let mut conn = connect_alone(data, clock.now()).await?;
                let raised = conn.rows(RAISE_EPOCH, ()).await?;
                if raised.is_empty() {
                    return Err(archive::refusal(&mut conn).await);
                }
                (conn, lock)
            }
            TransferPlace::Server(url) => {
                let lock = acquire(&lock)?;
                let opened = async {
                    let mut conn = server::connect_to_write(url, Session::WriteAll, clock).await?;
                    archive::require_no_archive(&mut conn).await?;
                    Ok(conn)
                };
                (opened.await.map_err(|error| url.failed(error))?, lock)
            }
        };
        Ok(Self {
            conn,
            place,
            _lock: lock,
        })
    }

    /// Begins the transaction in which all rows are read, and the database is retired.
    pub async fn begin(&mut self) -> Result<(), TransferError> {
        if self.conn.postgres().is_some() {
            have_server_alone(&mut self.conn).await?;
        }
        db::raw_sql(&BEGIN_SNAPSHOT).execute(&mut self.conn).await?;
        // Its letters have all their words, and the parts of words that are rows of a table, as those of the target will.
        if self.conn.postgres().is_none() {
            while index_letters(&mut self.conn).await? {}
        }
        Ok(())
    }

    /// Has no engine work there any more, and says where its rows are.
    pub async fn retire(mut self, to: &TransferPlace, now: String) -> Result<(), TransferError> {
        let mark = TransferMark::MovedTo(to.shown()).to_json()?;
        self.conn.rows(RAISE_EPOCH, ()).await?;
        // One that was stopped, and wakes, stores nothing.
        self.conn.exec(NO_NODES, ()).await?;

        self.conn.exec(MARK_ARCHIVE, (mark, now)).await?;
        let committed = db::raw_sql("COMMIT").execute(&mut self.conn).await;
        committed.map_err(StoreError::from)?;
        self.conn.close().await?;
        Ok(())
    }
}
