//! Keeps the write-ahead log short without making a write wait for it (decision D-01).
//!
//! Pages are copied back into the database by a side connection while the writer goes on; few pages
//! are written meanwhile, and the writer copies them between two groups, so that the log begins
//! anew. An idle log is truncated. If all that fails, `wal_autocheckpoint` of the writer's
//! connection is the bound.

use crate::store::db;
use crate::store::sqlite::mark::{Mark, MarkFile, RAISE_MARK};
use crate::store::sqlite::refusal::is_of_the_disk;
use crate::store::writes::refusal::Halt;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection, Row};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

/// Pages of the log from which on it is copied back: 16 MiB.
const PAGES_MIN: i64 = 4096;
/// Number of groups between two looks at its length.
const LOOK_EVERY: u32 = 16;
/// Time without a write after which the log is truncated.
const IDLE: Duration = Duration::from_secs(2);

/// Returns the length of the log, without touching it (SQLite 3.51).
const LOG_LENGTH: &str = "PRAGMA wal_checkpoint(NOOP)";
/// Copies the pages that no reader still needs; waits for no lock.
const COPY_BACK: &str = "PRAGMA wal_checkpoint(PASSIVE)";
/// Copies all pages and truncates the file, unless another connection reads or writes.
const CUT: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

/// Result of the side connection's work.
struct SideConnection {
    conn: Option<SqliteConnection>,
    end: Result<CheckpointEnd, sqlx::Error>,
}

enum CheckpointEnd {
    /// The log was long, and is copied back but for the pages written meanwhile.
    Copied,
    /// The log was to be truncated, and a reader holds it.
    Held,
    Nothing,
}

/// Checkpointing of the writer's log.
pub struct Log {
    /// `None` when another process checkpoints the log.
    options: Option<SqliteConnectOptions>,
    conn: Option<SqliteConnection>,
    working: Option<BoxFuture<'static, SideConnection>>,
    /// `true`: the writer may copy the rest.
    has_copied: bool,
    groups: u32,
    /// `true`: the log has pages to truncate.
    is_written: bool,
    failed: Option<Arc<sqlx::Error>>,
    /// Of an engine.
    mark: Option<MarkFile>,
    /// `true`: the number has moved on since the side connection last began.
    has_marked: bool,
    /// Rows that the writer's connection had changed when the number of the database was last looked at.
    changes: i64,
}

impl Log {
    pub fn new(options: Option<SqliteConnectOptions>, mark: Option<MarkFile>) -> Self {
        // The side connection gives way to every lock.
        let options = options.map(|options| options.busy_timeout(Duration::ZERO));
        Self {
            options,
            conn: None,
            working: None,
            has_copied: false,
            groups: 0,
            is_written: false,
            failed: None,
            mark,
            has_marked: false,
            changes: 0,
        }
    }

    /// Returns the time without a write after which [`Log::rest`] has work to do.
    pub fn grace_period(&self) -> Duration {
        let has_to_do = self.options.is_some() && self.is_written && self.working.is_none();
        if has_to_do { IDLE } else { Duration::MAX }
    }

    /// Called before the commit of a group: moves the number of the database on where that is due and something was written.
    pub async fn before_commit(
        &mut self,
        writer: &mut db::Connection,
    ) -> Result<Option<Mark>, sqlx::Error> {
        if self.mark.is_none() || self.has_marked {
            return Ok(None);
        }
        let raised = db::query(RAISE_MARK).bind(self.changes);
        let raised = raised.first_row(writer.into()).await?;
        Ok(raised.map(|row| {
            self.has_marked = true;
            // This change counts as well.
            self.changes = row.get::<i64>("changes") + 1;
            (row.get("epoch"), row.get("mark"))
        }))
    }

    /// Called when the number was committed.
    pub fn note_mark(&self, mark: Mark) {
        if let Some(file) = &self.mark {
            file.note(mark);
        }
    }

    /// Called after every group, when its callers have their answers.
    pub async fn after_group(&mut self, writer: &mut db::Connection) {
        self.groups = self.groups.wrapping_add(1);
        self.is_written = true;
        if self.working.is_none() && self.groups.is_multiple_of(LOOK_EVERY) {
            self.begin(false);
        }
        // The side connection's thread makes progress without being polled.
        if let Some(side) = self.working.as_mut().and_then(FutureExt::now_or_never) {
            self.note(side);
        }
        if std::mem::take(&mut self.has_copied) {
            let copied = db::raw_sql(COPY_BACK).execute(writer).await;
            copied.map_or_else(|error| self.complain(error), drop);
        }
    }

    /// Called when nothing was written for [`Log::grace_period`].
    pub fn rest(&mut self) {
        if self.working.is_none() {
            self.is_written = false;
            self.begin(true);
        }
    }

    /// Resolves when the side connection has finished its work; never while it has none.
    pub async fn worked(&mut self) {
        match &mut self.working {
            Some(working) => {
                let side = working.await;
                self.note(side);
            }
            None => pending().await,
        }
    }

    /// Closes the side connection.
    pub async fn close(&mut self) {
        if let Some(working) = self.working.take() {
            self.conn = working.await.conn;
        }
        if let Some(conn) = self.conn.take() {
            conn.close()
                .await
                .unwrap_or_else(|error| self.complain(error));
        }
    }

    /// Returns the reason why no further write may be made: the disk failed. Pages that SQLite has
    /// copied in part count as done for it, synced or not; only a log that no connection has open
    /// is copied whole, by the next connection that reads it.
    pub fn failed(&mut self) -> Option<Halt> {
        self.failed.take().map(Halt::Failed)
    }

    fn begin(&mut self, is_idle: bool) {
        let Some(options) = self.options.clone() else {
            return;
        };
        self.has_marked = false;
        let conn = self.conn.take();
        self.working = Some(Box::pin(async move {
            let mut conn = match conn {
                Some(conn) => conn,
                None => match options.connect().await {
                    Ok(conn) => conn,
                    Err(error) => {
                        return SideConnection {
                            conn: None,
                            end: Err(error),
                        };
                    }
                },
            };
            let end = copy_back(&mut conn, is_idle).await;
            SideConnection {
                conn: Some(conn),
                end,
            }
        }));
    }

    fn note(&mut self, side: SideConnection) {
        self.working = None;
        self.conn = side.conn;
        match side.end {
            Ok(CheckpointEnd::Copied) => self.has_copied = true,
            // Every reader ends some time: until then it is retried.
            Ok(CheckpointEnd::Held) => self.is_written = true,
            Ok(CheckpointEnd::Nothing) => {}
            Err(error) => self.complain(error),
        }
    }

    /// Logs that the log is not copied back yet and will be retried later; an I/O error of the disk
    /// stops the writer.
    fn complain(&mut self, error: sqlx::Error) {
        tracing::warn!(%error, "the log of the database is not copied back yet");
        if is_of_the_disk(&error) {
            self.failed = Some(Arc::new(error));
        }
    }
}

async fn copy_back(
    conn: &mut SqliteConnection,
    is_idle: bool,
) -> Result<CheckpointEnd, sqlx::Error> {
    if is_idle {
        let is_held: bool = sqlx::raw_sql(CUT).fetch_one(conn).await?.get("busy");
        return Ok(if is_held {
            CheckpointEnd::Held
        } else {
            CheckpointEnd::Nothing
        });
    }
    let pages: i64 = sqlx::raw_sql(LOG_LENGTH)
        .fetch_one(&mut *conn)
        .await?
        .get("log");
    if pages < PAGES_MIN {
        return Ok(CheckpointEnd::Nothing);
    }
    sqlx::raw_sql(COPY_BACK).execute(conn).await?;
    Ok(CheckpointEnd::Copied)
}
