//! A cell that takes part in a move: its workspace, and its database, which no engine and no other command has meanwhile.

use super::error::PersonaMoveError;
use crate::clock::Clock;
use crate::domain::LoopKey;
use crate::store::OpenError;
use crate::store::archive::require_no_archive;
use crate::store::db::{self, Connection, Sql};
use crate::store::objects::room::ObjectRoom;
use crate::store::postgres::open as server;
use crate::store::postgres::url::{DatabaseUrl, Session};
use crate::store::sqlite::leftovers::refuse_leftovers;
use crate::store::sqlite::locks::{acquire, turn_to_open};
use crate::store::sqlite::open::{self as file, connect_alone, data_folder};
use crate::store::transfer::source::{NO_NODES, have_server_alone};
use std::fs::File;
use std::path::{Path, PathBuf};

/// An engine that was stopped, and wakes, stores nothing.
pub(in crate::store) const FENCE: &str =
    "UPDATE engine SET epoch = epoch + 1 WHERE id = 1 RETURNING loop_key";

/// A cell of which nobody else changes a row.
pub(super) struct MovingCell {
    pub conn: Connection,
    /// Absolute path of the workspace's folder.
    pub workspace: PathBuf,
    pub objects: ObjectRoom,
    pub loop_key: LoopKey,
    /// Lock of the workspace, so that no engine begins there.
    _lock: File,
}

/// Returns the absolute path of a workspace.
pub(super) fn absolute(workspace: &Path) -> Result<PathBuf, PersonaMoveError> {
    std::fs::canonicalize(workspace).map_err(|source| PersonaMoveError::at(workspace, source))
}

/// Checks that two workspaces have not one database.
///
/// Errors: [`PersonaMoveError::SamePlace`].
pub(super) fn require_two(from: &Path, to: &Path) -> Result<(), PersonaMoveError> {
    let place = |place: String| Err(PersonaMoveError::SamePlace { place });
    if from == to {
        return place(format!("`{}`", from.display()));
    }
    let shown = |workspace| DatabaseUrl::of(workspace).map(|url| url.map(|url| url.shown()));
    match (shown(from)?, shown(to)?) {
        (Some(one), Some(other)) if one == other => place(one),
        _ => Ok(()),
    }
}

impl MovingCell {
    /// Opens the database of a workspace as an engine would; one that has none yet gets its tables.
    ///
    /// Errors: [`OpenError::InUse`], [`OpenError::NodesAtWork`]; [`OpenError::Older`] for tables of another version.
    pub async fn open(workspace: &Path, clock: &dyn Clock) -> Result<Self, OpenError> {
        let objects = ObjectRoom::of_engine(workspace)?;
        let data = data_folder(workspace)?;
        let url = DatabaseUrl::of(workspace)?;
        let _opening = turn_to_open(&data).await?;
        if url.is_none() {
            refuse_leftovers(&data)?;
        }
        let lock = acquire(&data.join("engine.lock"))?;
        require_version(&data, url.as_ref()).await?;
        let mut conn = match &url {
            None => connect_alone(&data, clock.now()).await?,
            Some(url) => server_alone(url, clock)
                .await
                .map_err(|error| url.failed(error))?,
        };
        require_no_archive(&mut conn).await?;
        let engine = db::query(FENCE).fetch_all(&mut conn).await?;
        let engine = engine.first().ok_or(OpenError::Archive)?;
        let loop_key = LoopKey::new(engine.try_get("loop_key")?);
        db::query(NO_NODES).execute(&mut conn).await?;
        Ok(Self {
            conn,
            workspace: workspace.to_owned(),
            objects,
            loop_key,
            _lock: lock,
        })
    }

    pub fn shown(&self) -> String {
        self.workspace.display().to_string()
    }

    pub async fn execute(&mut self, sql: impl Into<Sql>) -> Result<(), db::Error> {
        db::raw_sql(sql).execute(&mut self.conn).await
    }
}

async fn server_alone(url: &DatabaseUrl, clock: &dyn Clock) -> Result<Connection, OpenError> {
    let mut conn = server::connect_to_write(url, Session::WriteAll, clock).await?;
    have_server_alone(&mut conn).await?;
    Ok(conn)
}

/// Checks that the tables are those of this program: a program of another version may work in the other cell.
///
/// Errors: [`OpenError::Older`], [`OpenError::Newer`].
async fn require_version(data: &Path, url: Option<&DatabaseUrl>) -> Result<(), OpenError> {
    match url {
        Some(url) => server::require_newest_or_none(url).await,
        None => file::require_newest_or_none(data).await,
    }
}

/// Returns a connection that only reads, beside an engine; `None` where there is no database yet.
pub(super) async fn connect_to_read(workspace: &Path) -> Result<Option<Connection>, OpenError> {
    match DatabaseUrl::of(workspace)? {
        Some(url) => server::connect_to_read(&url, Session::ReadAll)
            .await
            .map(Some),
        None => file::connect_to_read(&workspace.join("data")).await,
    }
}
