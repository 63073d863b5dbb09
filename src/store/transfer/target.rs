//! The database that rows go to: that it is empty, and the mark by which no engine works there before all are there.

use super::error::TransferError;
use super::place::TransferPlace;
use super::shape::Shapes;
use super::source::have_server_alone;
use crate::clock::Clock;
use crate::domain::Timestamp;
use crate::store::OpenError;
use crate::store::archive::{ARCHIVE_HEADER, MARK_ARCHIVE, TransferMark, UNMARK_ARCHIVE};
use crate::store::db::{Connection, Sql};
use crate::store::postgres::open as server;
use crate::store::postgres::url::Session;
use crate::store::sqlite::files::side_files;
use crate::store::sqlite::locks::{acquire, turn_to_open};
use crate::store::sqlite::open::{connect_alone, data_folder};
use std::fs::File;
use std::io;
use std::path::Path;

/// A database that rows go to.
pub(super) struct TransferTarget {
    pub conn: Connection,
    pub place: TransferPlace,
    /// Lock of the target's workspace, where it is another than the source's.
    _lock: Option<File>,
}

impl TransferTarget {
    /// Opens the database, and makes its tables where there are none. The lock of `workspace` is held by the source.
    pub async fn open(
        workspace: &Path,
        place: TransferPlace,
        clock: &dyn Clock,
    ) -> Result<Self, OpenError> {
        let (conn, lock) = match &place {
            TransferPlace::File { data } => {
                let data = data_folder(data.parent().unwrap_or(data))?;
                let _opening = turn_to_open(&data).await?;
                let is_same = is_same_folder(&data, &workspace.join("data"));
                let lock = match is_same {
                    true => None,
                    false => Some(acquire(&data.join("engine.lock"))?),
                };
                (connect_alone(&data, clock.now()).await?, lock)
            }
            TransferPlace::Server(url) => {
                let opened = async {
                    let mut conn = server::connect_to_write(url, Session::WriteAll, clock).await?;
                    have_server_alone(&mut conn).await?;
                    Ok(conn)
                };
                (opened.await.map_err(|error| url.failed(error))?, None)
            }
        };
        Ok(Self {
            conn,
            place,
            _lock: lock,
        })
    }

    /// Makes ready for rows from `from`: marks an empty database, and empties one that an earlier attempt has left.
    ///
    /// Errors: [`TransferError::NotEmpty`].
    pub async fn make_ready(
        mut self,
        from: &TransferPlace,
        shapes: &Shapes,
        now: Timestamp,
    ) -> Result<Self, TransferError> {
        let header = self.conn.maybe::<String>(ARCHIVE_HEADER, ()).await?;
        match header.map(|header| TransferMark::of(&header)) {
            Some(Some(TransferMark::ComesFrom(_))) => self = self.begun_anew(now).await?,
            Some(_) => return Err(self.not_empty("archive")),
            None => self.require_empty(shapes).await?,
        }
        let mark = TransferMark::ComesFrom(from.shown()).to_json()?;
        self.conn.exec(UNMARK_ARCHIVE, ()).await?;

        self.conn.exec(MARK_ARCHIVE, (mark, now)).await?;
        Ok(self)
    }

    /// Reports whether an earlier transfer has put all rows there and retired its source, and only this mark is left.
    pub async fn is_marked(&mut self) -> Result<bool, TransferError> {
        let header = self.conn.maybe::<String>(ARCHIVE_HEADER, ()).await?;
        let mark = header.and_then(|header| TransferMark::of(&header));
        Ok(matches!(mark, Some(TransferMark::ComesFrom(_))))
    }

    /// A file is made anew: its triggers may be gone. On a server an attempt that died has left no more than rows.
    async fn begun_anew(self, now: Timestamp) -> Result<Self, TransferError> {
        let TransferPlace::File { data } = &self.place else {
            return Ok(self);
        };
        let database = data.join("attache.db");
        self.conn.close().await?;
        for file in side_files(&database).into_iter().chain([database]) {
            match std::fs::remove_file(file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(TransferError::Remove(error));
                }
                _ => {}
            }
        }
        let conn = connect_alone(data, now).await?;
        Ok(Self { conn, ..self })
    }

    async fn require_empty(&mut self, shapes: &Shapes) -> Result<(), TransferError> {
        for table in &shapes.tables {
            if table.is_made_by_migrations() {
                continue;
            }
            let any = format!("SELECT EXISTS (SELECT 1 FROM \"{}\")", table.name);
            if self.conn.one::<bool>(Sql::built(any), ()).await? {
                return Err(self.not_empty(&table.name));
            }
        }
        Ok(())
    }

    fn not_empty(&self, table: &str) -> TransferError {
        TransferError::NotEmpty {
            place: self.place.shown(),
            table: table.to_owned(),
        }
    }

    /// Lets engines work there.
    pub async fn release(mut self) -> Result<(), TransferError> {
        self.conn.exec(UNMARK_ARCHIVE, ()).await?;
        self.conn.close().await?;
        Ok(())
    }
}

fn is_same_folder(one: &Path, other: &Path) -> bool {
    match (std::fs::canonicalize(one), std::fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}
