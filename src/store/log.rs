//! Keeps the write-ahead log short without making a write wait for it (decision D-41).
//!
//! Pages are copied back into the database by a connection of its own while the writer goes on; what was written
//! meanwhile is little, and the writer copies it between two groups, so that the log begins anew. A log that nobody
//! writes to is cut to nothing. If all that fails, `wal_autocheckpoint` of the writer's connection is the bound.

use super::refusal::{Halt, is_of_the_disk};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection, Row};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

/// Pages of the log from which on it is copied back: 16 MiB.
const PAGES_MIN: i64 = 4096;
/// Groups between two looks at its length.
const LOOK_EVERY: u32 = 16;
/// Time without a write after which the log is cut.
const IDLE: Duration = Duration::from_secs(2);

/// How long the log is, without touching it (SQLite 3.51).
pub(super) const LOG_LENGTH: &str = "PRAGMA wal_checkpoint(NOOP)";
/// Copies what no reader still needs from the log; waits for nobody.
pub(super) const COPY_BACK: &str = "PRAGMA wal_checkpoint(PASSIVE)";
/// Copies all of it and cuts the file, unless somebody reads or writes.
pub(super) const CUT: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

/// What the connection beside the writer came to.
struct Beside {
    conn: Option<SqliteConnection>,
    end: Result<End, sqlx::Error>,
}

enum End {
    /// The log was long, and is copied back but for what came meanwhile.
    Copied,
    /// It was to be cut, and somebody reads it.
    Held,
    Nothing,
}

/// The writer's care for its log.
pub(super) struct Log {
    /// `None` when another process keeps the log.
    options: Option<SqliteConnectOptions>,
    conn: Option<SqliteConnection>,
    working: Option<BoxFuture<'static, Beside>>,
    /// The writer may copy the rest.
    has_copied: bool,
    groups: u32,
    /// There is something to cut.
    is_written: bool,
    failed: Option<Arc<sqlx::Error>>,
}

impl Log {
    pub fn new(options: Option<SqliteConnectOptions>) -> Self {
        // It gives way to everybody.
        let options = options.map(|options| options.busy_timeout(Duration::ZERO));
        Self {
            options,
            conn: None,
            working: None,
            has_copied: false,
            groups: 0,
            is_written: false,
            failed: None,
        }
    }

    /// After what time without a write [`Log::rest`] has something to do.
    pub fn patience(&self) -> Duration {
        let has_to_do = self.options.is_some() && self.is_written && self.working.is_none();
        if has_to_do { IDLE } else { Duration::MAX }
    }

    /// After every group, when its callers have their answers.
    pub async fn after_group(&mut self, writer: &mut SqliteConnection) {
        self.groups = self.groups.wrapping_add(1);
        self.is_written = true;
        if self.working.is_none() && self.groups.is_multiple_of(LOOK_EVERY) {
            self.begin(false);
        }
        // Its thread works whether it is looked at or not.
        if let Some(beside) = self.working.as_mut().and_then(FutureExt::now_or_never) {
            self.note(beside);
        }
        if std::mem::take(&mut self.has_copied) {
            let copied = sqlx::raw_sql(COPY_BACK).execute(writer).await;
            copied.map_or_else(|error| self.complain(error), drop);
        }
    }

    /// When nothing was written for [`Log::patience`].
    pub fn rest(&mut self) {
        if self.working.is_none() {
            self.is_written = false;
            self.begin(true);
        }
    }

    /// Resolves when the connection beside the writer has done what it does; never while it does nothing.
    pub async fn worked(&mut self) {
        match &mut self.working {
            Some(working) => {
                let beside = working.await;
                self.note(beside);
            }
            None => pending().await,
        }
    }

    /// Lets the connection beside the writer go.
    pub async fn close(&mut self) {
        if let Some(working) = self.working.take() {
            self.conn = working.await.conn;
        }
        if let Some(conn) = self.conn.take() {
            conn.close().await.unwrap_or_else(|error| self.complain(error));
        }
    }

    /// Why nothing more is to be written: the disk failed. What SQLite has copied in part it takes for done, synced or not;
    /// only a log that nobody has open is copied whole by the next one who reads it.
    pub fn failed(&mut self) -> Option<Halt> {
        self.failed.take().map(Halt::Failed)
    }

    fn begin(&mut self, is_idle: bool) {
        let Some(options) = self.options.clone() else { return };
        let conn = self.conn.take();
        self.working = Some(Box::pin(async move {
            let mut conn = match conn {
                Some(conn) => conn,
                None => match options.connect().await {
                    Ok(conn) => conn,
                    Err(error) => return Beside { conn: None, end: Err(error) },
                },
            };
            let end = copy_back(&mut conn, is_idle).await;
            Beside { conn: Some(conn), end }
        }));
    }

    fn note(&mut self, beside: Beside) {
        self.working = None;
        self.conn = beside.conn;
        match beside.end {
            Ok(End::Copied) => self.has_copied = true,
            // Who reads has an end: until then it is tried again and again.
            Ok(End::Held) => self.is_written = true,
            Ok(End::Nothing) => {}
            Err(error) => self.complain(error),
        }
    }

    /// A log that is not copied back now is copied back later, unless the disk is to blame.
    fn complain(&mut self, error: sqlx::Error) {
        tracing::warn!(%error, "the log of the database is not copied back yet");
        if is_of_the_disk(&error) {
            self.failed = Some(Arc::new(error));
        }
    }
}

async fn copy_back(conn: &mut SqliteConnection, is_idle: bool) -> Result<End, sqlx::Error> {
    if is_idle {
        let is_held: bool = sqlx::raw_sql(CUT).fetch_one(conn).await?.get(0);
        return Ok(if is_held { End::Held } else { End::Nothing });
    }
    let pages: i64 = sqlx::raw_sql(LOG_LENGTH).fetch_one(&mut *conn).await?.get(1);
    if pages < PAGES_MIN {
        return Ok(End::Nothing);
    }
    sqlx::raw_sql(COPY_BACK).execute(conn).await?;
    Ok(End::Copied)
}
