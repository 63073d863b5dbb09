//! Keeps the write-ahead log short without making a write wait for it (decision D-41).
//!
//! Pages are copied back into the database by a connection of its own while the writer goes on; what was written
//! meanwhile is little, and the writer copies it between two groups, so that the log begins anew. A log that nobody
//! writes to is cut to nothing. If all that fails, `wal_autocheckpoint` of the writer's connection is the bound.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection, Row};
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
    /// The log was long, and is copied back but for what came meanwhile.
    has_copied: bool,
}

/// The writer's care for its log.
pub(super) struct Log {
    /// `None` when another process keeps the log.
    options: Option<SqliteConnectOptions>,
    conn: Option<SqliteConnection>,
    working: Option<BoxFuture<'static, Beside>>,
    groups: u32,
    is_written: bool,
}

impl Log {
    pub fn new(options: Option<SqliteConnectOptions>) -> Self {
        // It gives way to everybody.
        let options = options.map(|options| options.busy_timeout(Duration::ZERO));
        Self { options, conn: None, working: None, groups: 0, is_written: false }
    }

    /// After what time without a write [`Log::rest`] has something to do.
    pub fn patience(&self) -> Duration {
        let is_kept = self.options.is_some() && (self.is_written || self.working.is_some());
        if is_kept { IDLE } else { Duration::MAX }
    }

    /// After every group, when its callers have their answers.
    pub async fn after_group(&mut self, writer: &mut SqliteConnection) {
        self.groups = self.groups.wrapping_add(1);
        self.is_written = true;
        if self.working.is_none() && self.groups.is_multiple_of(LOOK_EVERY) {
            self.begin(false);
        }
        if self.look() {
            report(sqlx::raw_sql(COPY_BACK).execute(writer).await.map(drop));
        }
    }

    /// When nothing was written for [`Log::patience`].
    pub fn rest(&mut self) {
        if self.working.is_none() {
            self.is_written = false;
            self.begin(true);
        }
        self.look();
    }

    /// Lets the connection beside the writer go.
    pub async fn close(&mut self) {
        if let Some(working) = self.working.take() {
            self.conn = working.await.conn;
        }
        if let Some(conn) = self.conn.take() {
            report(conn.close().await);
        }
    }

    fn begin(&mut self, is_idle: bool) {
        let Some(options) = self.options.clone() else { return };
        let conn = self.conn.take();
        self.working = Some(Box::pin(async move {
            let mut conn = match conn {
                Some(conn) => conn,
                None => match options.connect().await {
                    Ok(conn) => conn,
                    Err(error) => {
                        report(Err(error));
                        return Beside { conn: None, has_copied: false };
                    }
                },
            };
            let copied = copy_back(&mut conn, is_idle).await;
            let has_copied = matches!(copied, Ok(true));
            report(copied.map(drop));
            Beside { conn: Some(conn), has_copied }
        }));
    }

    /// Sees how far the connection is; whether it has copied a long log back. Its thread works whether it is looked at or
    /// not.
    fn look(&mut self) -> bool {
        let Some(beside) = self.working.as_mut().and_then(FutureExt::now_or_never) else { return false };
        self.working = None;
        self.conn = beside.conn;
        beside.has_copied
    }
}

async fn copy_back(conn: &mut SqliteConnection, is_idle: bool) -> Result<bool, sqlx::Error> {
    if is_idle {
        sqlx::raw_sql(CUT).execute(conn).await?;
        return Ok(false);
    }
    let pages: i64 = sqlx::raw_sql(LOG_LENGTH).fetch_one(&mut *conn).await?.get(1);
    if pages < PAGES_MIN {
        return Ok(false);
    }
    sqlx::raw_sql(COPY_BACK).execute(conn).await?;
    Ok(true)
}

/// A log that is not copied back now is copied back later.
fn report(done: Result<(), sqlx::Error>) {
    if let Err(error) = done {
        tracing::warn!(%error, "the log of the database is not copied back yet");
    }
}
