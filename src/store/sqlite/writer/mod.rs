//! The one writer: group commit.
//!
//! Writes that wait together share one `BEGIN IMMEDIATE … COMMIT`, each in a savepoint of its own,
//! and one fsync. Every caller is answered only after that fsync, so "stored" always means stored.
//! While a group commits, the next one gathers; there is no timer.
//!
//! An engine's writer checks in every transaction that the epoch is still its own, so that an
//! engine that was stopped and replaced writes nothing when it wakes. A commit that fails for a
//! reason other than a full disk or want of memory ends the writer for good: after a failed `fsync`
//! the content of the disk is unknown, and the next one may succeed without having written anything
//! (the PostgreSQL wiki's page "Fsync Errors").
//!
//! - `task`: the task that has the write connection.
//! - `scope_check`: writes outside their scope, for tests.

pub mod scope_check;
mod task;

use crate::store::db::Connection;
use crate::store::search::index_merge::SearchIndexMerge;
use crate::store::sqlite::identity::FileIdentity;
use crate::store::sqlite::log::Log;
use crate::store::writes::commit_signal::CommitSignal;
use crate::store::writes::job::Job;
use crate::store::writes::piggyback::PiggybackClaims;
use crate::store::writes::power_cut::PowerCut;
use crate::store::writes::refusal::Halt;
use crate::store::{Result, StoreError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use self::task::WriterTask;

/// Most writes that wait at once; further callers wait for a place, which is the store's
/// back-pressure.
const QUEUE_LENGTH_MAX: usize = 1024;
/// Most writes that share one commit.
const GROUP_SIZE_MAX: usize = 256;

/// The epoch comes last: a caller that reads one row reads nothing after it.
pub const BEGIN: &str = "BEGIN IMMEDIATE; SELECT epoch FROM engine WHERE id = 1";
pub const BEGIN_ANEW: &str =
    "ROLLBACK; BEGIN IMMEDIATE; SAVEPOINT job; SELECT epoch FROM engine WHERE id = 1";
/// A reader may hold the log; the shutdown waits at most 500 ms for it.
pub const CHECKPOINT: &str = "PRAGMA busy_timeout = 500; PRAGMA wal_checkpoint(TRUNCATE)";

#[derive(Clone)]
pub struct GroupWriter {
    queue: mpsc::Sender<Box<dyn Job>>,
    /// Ends with the writer's thread.
    working: Arc<Mutex<Option<oneshot::Receiver<()>>>>,
    power_cut: Arc<Mutex<Option<PowerCut>>>,
    closing: CancellationToken,
    halt: watch::Receiver<Option<Halt>>,
    checks_scopes: Arc<AtomicBool>,
    pub(in crate::store) piggyback: PiggybackClaims,
}

impl GroupWriter {
    /// Starts the writer with the only write connection; it works until it is closed or every
    /// handle is dropped. `engine` holds the epoch that must be in the database and the file that
    /// must have its name.
    pub(in crate::store) fn start(
        conn: Connection,
        engine: Option<(i64, FileIdentity)>,
        log: Log,
        commits: CommitSignal,
    ) -> std::io::Result<Self> {
        let (queue, waiting) = mpsc::channel(QUEUE_LENGTH_MAX);
        let (power_cut, closing) = (Arc::new(Mutex::new(None)), CancellationToken::new());
        let (halted, halt) = watch::channel(None);
        let checks_scopes = Arc::new(AtomicBool::new(false));
        let piggyback = PiggybackClaims::default();
        let (epoch, identity) = engine.unzip();
        let work = WriterTask {
            conn,
            log,
            merge: SearchIndexMerge::default(),
            epoch,
            identity,
            power_cut: power_cut.clone(),
            checks_scopes: checks_scopes.clone(),
            piggyback: piggyback.clone(),
            has_triggers: false,
            closing: closing.clone(),
            halted,
            commits,
            changes: 0,
        };
        // A disk that takes its time holds up nobody but those who wait for a commit.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (ended, working) = oneshot::channel();
        let thread = std::thread::Builder::new().name("writer".to_owned());
        thread.spawn(move || {
            runtime.block_on(work.run(waiting));
            let _nobody_waits = ended.send(());
        })?;
        Ok(Self {
            queue,
            working: Arc::new(Mutex::new(Some(working))),
            power_cut,
            closing,
            halt,
            checks_scopes,
            piggyback,
        })
    }

    /// Resolves when the writer has stopped for good, with the reason. Never after an orderly
    /// shutdown.
    pub(in crate::store) async fn halted(&self) -> StoreError {
        let mut halt = self.halt.clone();
        let halted = halt
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|halt| halt.clone());
        match halted {
            Some(halt) => halt.into(),
            None => std::future::pending().await,
        }
    }

    fn closed(&self) -> StoreError {
        self.halt
            .borrow()
            .clone()
            .map_or(StoreError::Closed, StoreError::from)
    }

    /// Arms a simulated power cut. Commits that changed nothing do not count.
    pub(in crate::store) fn cut_power(&self, cut: PowerCut) {
        *self
            .power_cut
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(cut);
    }

    /// Has every later write checked by its scope.
    pub(in crate::store) fn check_scopes(&self) {
        self.checks_scopes.store(true, Ordering::Relaxed);
    }

    /// Finishes the waiting writes, copies the log into the database, and closes the connection.
    /// Later writes are answered with [`StoreError::Closed`].
    pub(in crate::store) async fn close(&self) {
        let working = self
            .working
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        self.closing.cancel();
        if let Some(working) = working
            && working.await.is_err()
        {
            tracing::error!("the database writer panicked");
        }
    }

    /// Submits a write and waits for its answer.
    pub(in crate::store) async fn submit<T>(
        &self,
        job: Box<dyn Job>,
        answer: oneshot::Receiver<T>,
    ) -> Result<T> {
        self.queue.send(job).await.map_err(|_| self.closed())?;
        // A write that panicked is dropped without an answer, and the writer lives on.
        answer.await.map_err(|_| self.closed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::db::{self, Scope};
    use crate::store::sqlite::refusal;
    use crate::store::writes::job::Write;
    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;

    async fn write<T, F>(writer: &GroupWriter, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut Connection) -> BoxFuture<'c, Result<T>> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let write = Box::new(Write::new(Scope::Rows, work, reply));
        writer.submit(write, answer).await?
    }

    #[tokio::test]
    async fn a_write_that_panics_is_undone_alone_and_the_writer_lives_on() {
        let conn = Connection::in_memory().await;
        let writer = GroupWriter::start(conn, None, Log::new(None, None), CommitSignal::default())
            .expect("a writer");
        let run = async |sql: &'static str| {
            write(&writer, move |conn| {
                Box::pin(async move {
                    db::raw_sql(sql).execute(conn).await?;
                    assert!(!sql.contains("bug"), "a bug");
                    Ok(())
                })
            })
            .await
        };
        run("CREATE TABLE t (word TEXT)").await.expect("stored");
        let broken = run("INSERT INTO t VALUES ('bug')").await;
        assert!(matches!(broken, Err(StoreError::Closed)), "{broken:?}");
        run("INSERT INTO t VALUES ('well')").await.expect("stored");
        let words = write(&writer, |conn| {
            Box::pin(async move { conn.all::<String>("SELECT word FROM t", ()).await })
        });
        assert_eq!(words.await.expect("a read"), ["well"]);
    }

    #[tokio::test]
    async fn a_commit_that_stored_nothing_is_refused_the_next_one_is_not() {
        let conn = Connection::in_memory().await;
        let writer = GroupWriter::start(conn, None, Log::new(None, None), CommitSignal::default())
            .expect("a writer");
        let run = async |sql: &'static str| {
            let write = write(&writer, move |conn| {
                Box::pin(async move { Ok(db::raw_sql(sql).execute(conn).await?) })
            });
            write.await
        };
        run("CREATE TABLE p (id INTEGER PRIMARY KEY, bytes BLOB);
            CREATE TABLE c (p INTEGER REFERENCES p DEFERRABLE INITIALLY DEFERRED)")
        .await
        .expect("stored");
        let broken = run("INSERT INTO c VALUES (1)").await;
        assert!(
            matches!(broken, Err(StoreError::NotCommitted(_))),
            "{broken:?}"
        );
        run("PRAGMA max_page_count = 20").await.expect("set");
        let full = run("INSERT INTO p VALUES (1, zeroblob(1000000))").await;
        let is_full = |error: &sqlx::Error| refusal::is_one_of(error, &[13]);
        assert!(
            matches!(&full, Err(StoreError::Sql(error)) if is_full(error)),
            "{full:?}"
        );
        run("PRAGMA max_page_count = 2000").await.expect("set");
        run("INSERT INTO p VALUES (1, zeroblob(1000000))")
            .await
            .expect("stored");
        assert!(writer.halted().now_or_never().is_none());
    }
}
