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

use crate::store::db::Connection;
use crate::store::search::index_merge::SearchIndexMerge;
use crate::store::sqlite::identity::FileIdentity;
use crate::store::sqlite::job::{Job, JobOutcome, Write};
use crate::store::sqlite::log::Log;
use crate::store::sqlite::refusal::{self, CommitRefusal, Halt};
use crate::store::{Result, StoreError};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::Row;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Most writes that wait at once; further callers wait for a place, which is the store's
/// back-pressure.
const QUEUE_LENGTH_MAX: usize = 1024;
/// Most writes that share one commit.
const GROUP_SIZE_MAX: usize = 256;

/// The epoch comes last: a caller that reads one row reads nothing after it.
pub(in crate::store) const BEGIN: &str = "BEGIN IMMEDIATE; SELECT epoch FROM engine WHERE id = 1";
pub(in crate::store) const BEGIN_ANEW: &str =
    "ROLLBACK; BEGIN IMMEDIATE; SAVEPOINT job; SELECT epoch FROM engine WHERE id = 1";
/// A reader may hold the log; the shutdown waits at most 500 ms for it.
pub(in crate::store) const CHECKPOINT: &str =
    "PRAGMA busy_timeout = 500; PRAGMA wal_checkpoint(TRUNCATE)";

/// Simulated power cut, for tests: the number of its commit, counted from 1, and the state of that
/// commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerCut {
    /// Nothing of the group is on disk.
    BeforeCommit(u64),
    /// The group is on disk, and no caller was answered.
    AfterCommit(u64),
    /// The machine stays on; the disk answers the commit with an I/O error.
    BrokenDisk(u64),
}

impl PowerCut {
    fn strikes(self, commit: u64) -> bool {
        match self {
            PowerCut::BeforeCommit(at) | PowerCut::AfterCommit(at) | PowerCut::BrokenDisk(at) => {
                commit >= at
            }
        }
    }
}

#[derive(Clone)]
pub(in crate::store) struct GroupWriter {
    queue: mpsc::Sender<Box<dyn Job>>,
    working: Arc<Mutex<Option<JoinHandle<()>>>>,
    power_cut: Arc<Mutex<Option<PowerCut>>>,
    closing: CancellationToken,
    halt: watch::Receiver<Option<Halt>>,
}

impl GroupWriter {
    /// Starts the writer with the only write connection; it works until it is closed or every
    /// handle is dropped. `engine` holds the epoch that must be in the database and the file that
    /// must have its name.
    pub(in crate::store) fn start(
        conn: Connection,
        engine: Option<(i64, FileIdentity)>,
        log: Log,
    ) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE_LENGTH_MAX);
        let (power_cut, closing) = (Arc::new(Mutex::new(None)), CancellationToken::new());
        let (halted, halt) = watch::channel(None);
        let (epoch, identity) = engine.unzip();
        let work = WriterTask {
            conn,
            log,
            merge: SearchIndexMerge::default(),
            epoch,
            identity,
            power_cut: power_cut.clone(),
            closing: closing.clone(),
            halted,
        };
        let working = Arc::new(Mutex::new(Some(tokio::spawn(work.run(waiting)))));
        Self {
            queue,
            working,
            power_cut,
            closing,
            halt,
        }
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
            && let Err(error) = working.await
        {
            tracing::error!(%error, "the database writer panicked");
        }
    }

    pub(in crate::store) async fn write<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut Connection) -> BoxFuture<'c, Result<T>> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        self.submit(Box::new(Write::new(work, reply)), answer)
            .await?
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

/// End of a group without a commit.
enum GroupEnd {
    Failed(CommitRefusal),
    /// The power is cut: no caller is answered any more.
    PowerCut,
}

impl<E: Into<CommitRefusal>> From<E> for GroupEnd {
    fn from(failure: E) -> Self {
        GroupEnd::Failed(failure.into())
    }
}

/// State of the writer's background task.
struct WriterTask {
    conn: Connection,
    log: Log,
    merge: SearchIndexMerge,
    epoch: Option<i64>,
    identity: Option<FileIdentity>,
    power_cut: Arc<Mutex<Option<PowerCut>>>,
    closing: CancellationToken,
    halted: watch::Sender<Option<Halt>>,
}

impl WriterTask {
    async fn run(mut self, mut waiting: mpsc::Receiver<Box<dyn Job>>) {
        let (mut arrived, mut group) = (
            Vec::with_capacity(GROUP_SIZE_MAX),
            Vec::with_capacity(GROUP_SIZE_MAX),
        );
        let mut commits = 0;
        loop {
            if let Some(halt) = self.log.failed() {
                return self.stop(halt, &mut waiting);
            }
            let closing = self.closing.clone();
            let came = tokio::select! {
                biased;
                () = closing.cancelled(), if !waiting.is_closed() => {
                    // Writes that were sent before are still done.
                    waiting.close();
                    continue;
                }
                came = timeout(self.log.grace_period(), waiting.recv_many(&mut arrived, GROUP_SIZE_MAX)) => came,
                () = self.log.worked() => continue,
            };
            let Ok(came) = came else {
                self.log.rest();
                continue;
            };
            match came {
                0 if closing.is_cancelled() => return self.leave().await,
                0 => return self.close().await,
                _ => commits += 1,
            }
            arrived.drain(..).for_each(|job| gather(&mut group, 0, job));
            let cut = *self
                .power_cut
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let cut = cut.filter(|cut| cut.strikes(commits));
            let ended = self.commit_group(&mut group, &mut waiting, cut).await;
            let committed = match ended {
                Ok(()) => Ok(()),
                Err(GroupEnd::PowerCut) => return self.close().await,
                Err(GroupEnd::Failed(refusal)) => Err(refusal),
            };
            if committed.is_err() {
                // The transaction may be open or already rolled back; either way the next group
                // starts clean.
                let _already_closed = sqlx::raw_sql("ROLLBACK").execute(self.conn.sqlite()).await;
            }
            if let Err(CommitRefusal::Halted(halt)) = &committed {
                // Before any caller is answered, so that the next caller gets the same error.
                waiting.close();
                self.halted.send_replace(Some(halt.clone()));
            }
            group
                .drain(..)
                .for_each(|job| job.answer(committed.clone()));
            match committed {
                Ok(()) | Err(CommitRefusal::Refused(_)) => {
                    self.log.after_group(self.conn.sqlite()).await;
                }
                Err(CommitRefusal::Halted(Halt::Fenced { .. })) => return self.close().await,
                // Closing the connection would try the disk once more: the last connection copies
                // the log. Nor may the log be copied into a file that has another's name.
                Err(CommitRefusal::Halted(Halt::Failed(_) | Halt::Moved(_))) => {
                    return std::mem::forget(self.conn);
                }
            }
        }
    }

    async fn commit_group(
        &mut self,
        group: &mut Vec<Box<dyn Job>>,
        waiting: &mut mpsc::Receiver<Box<dyn Job>>,
        cut: Option<PowerCut>,
    ) -> std::result::Result<(), GroupEnd> {
        let ended = self.run_jobs(group, waiting).await;
        if let Err(GroupEnd::Failed(CommitRefusal::Refused(error))) = &ended {
            tracing::error!(%error, writes = group.len(), "the database refused a transaction");
        }
        ended?;
        let writes = self.epoch.map(|_| group.len());
        self.merge.before_commit(&mut self.conn, writes).await?;
        if let Some(Err(error)) = self.identity.as_ref().map(FileIdentity::holds) {
            tracing::error!(%error, "the database was moved, replaced or removed; nothing more is stored");
            return Err(Halt::Moved(Arc::new(error)).into());
        }
        crate::crash::crash_point!("W1");
        let committed = match cut {
            None => sqlx::raw_sql("COMMIT")
                .execute(self.conn.sqlite())
                .await
                .map(|_| ()),
            Some(PowerCut::BrokenDisk(_)) => {
                Err(sqlx::Error::Io(std::io::Error::other("a broken disk")))
            }
            Some(PowerCut::BeforeCommit(_)) => return self.cut_short("ROLLBACK").await,
            Some(PowerCut::AfterCommit(_)) => return self.cut_short("COMMIT").await,
        };
        crate::crash::crash_point!("W2", committed.is_ok());
        committed.map_err(|error| {
            let is_known = refusal::is_harmless(&error);
            tracing::error!(%error, writes = group.len(), stops = !is_known, "the database did not commit");
            if is_known { error.into() } else { Halt::Failed(Arc::new(error)).into() }
        })
    }

    async fn cut_short(&mut self, final_turn: &'static str) -> std::result::Result<(), GroupEnd> {
        let _nobody_hears = sqlx::raw_sql(final_turn).execute(self.conn.sqlite()).await;
        Err(GroupEnd::PowerCut)
    }

    /// Runs every job of the group in one open transaction. The first needs no savepoint, because
    /// undoing it is undoing everything; each later one has its own.
    async fn run_jobs(
        &mut self,
        group: &mut Vec<Box<dyn Job>>,
        waiting: &mut mpsc::Receiver<Box<dyn Job>>,
    ) -> std::result::Result<(), GroupEnd> {
        self.execute(if self.epoch.is_some() {
            BEGIN
        } else {
            "BEGIN IMMEDIATE"
        })
        .await?;
        let mut in_savepoint = false;
        // Absorbed writes count too, so that no caller waits for a group without end.
        let (mut done, mut taken) = (0, group.len());
        while done < group.len() {
            let ran = AssertUnwindSafe(group[done].run(&mut self.conn))
                .catch_unwind()
                .await;
            let outcome = ran.unwrap_or_else(|_bug| {
                // Its caller is answered `Closed`; the writer must outlive it, or nothing would be
                // stored any more.
                tracing::error!("a write panicked and is undone");
                JobOutcome::RollBack
            });
            done += 1;
            // Writes that arrived meanwhile join the group: one fsync for all.
            if done == group.len() {
                while taken < GROUP_SIZE_MAX
                    && let Ok(job) = waiting.try_recv()
                {
                    taken += 1;
                    gather(group, done, job);
                }
            }
            let is_last = done == group.len();
            let between = match (outcome, in_savepoint, is_last) {
                (JobOutcome::Broken, ..) => {
                    tracing::error!(
                        "a statement met an I/O error; the database is not used any more"
                    );
                    let error = std::io::Error::other("a statement met an I/O error");
                    return Err(Halt::Failed(Arc::new(error.into())).into());
                }
                (JobOutcome::Keep, _, true) => continue,
                (JobOutcome::Keep, false, false) => "SAVEPOINT job",
                (JobOutcome::Keep, true, false) => "RELEASE job; SAVEPOINT job",
                (JobOutcome::RollBack, false, true) => "ROLLBACK; BEGIN IMMEDIATE",
                (JobOutcome::RollBack, false, false) if self.epoch.is_some() => BEGIN_ANEW,
                (JobOutcome::RollBack, false, false) => "ROLLBACK; BEGIN IMMEDIATE; SAVEPOINT job",
                (JobOutcome::RollBack, true, true) => "ROLLBACK TO job",
                (JobOutcome::RollBack, true, false) => {
                    "ROLLBACK TO job; RELEASE job; SAVEPOINT job"
                }
            };
            self.execute(between).await?;
            in_savepoint = !is_last;
        }
        Ok(())
    }

    /// Executes a text; the epoch that it returns must be ours.
    async fn execute(&mut self, text: &'static str) -> std::result::Result<(), GroupEnd> {
        let said = sqlx::raw_sql(text)
            .fetch_optional(self.conn.sqlite())
            .await?;
        match (said.map(|row| row.get::<i64, _>("epoch")), self.epoch) {
            (Some(found), Some(ours)) if found != ours => {
                tracing::error!(ours, found, "another engine has taken this workspace over");
                Err(Halt::Fenced { epoch: found }.into())
            }
            _ => Ok(()),
        }
    }

    /// Stops for good, while no caller waits for an answer.
    fn stop(self, halt: Halt, waiting: &mut mpsc::Receiver<Box<dyn Job>>) {
        tracing::error!("the log could not be copied back; the next engine copies all of it");
        waiting.close();
        self.halted.send_replace(Some(halt));
        // As after a commit that failed.
        std::mem::forget(self.conn);
    }

    /// Closes the database in order: no log is left, unless another connection still reads it.
    async fn leave(mut self) {
        self.log.close().await;
        let left = sqlx::raw_sql(CHECKPOINT).execute(self.conn.sqlite()).await;
        // A reader cannot copy the log, and need not.
        if let (Err(error), Some(_engine)) = (left, self.epoch) {
            tracing::warn!(%error, "the log stays beside the database; the next start reads it");
        }
        self.close().await;
    }

    async fn close(mut self) {
        self.log.close().await;
        if let Err(error) = self.conn.close().await {
            tracing::warn!(%error, "closing the database");
        }
    }
}

/// Adds a write to the group: absorbed by a similar write that has not begun, or as the last.
fn gather(group: &mut Vec<Box<dyn Job>>, begun: usize, mut job: Box<dyn Job>) {
    if job.is_absorbable() {
        for earlier in &mut group[begun..] {
            match earlier.absorb(job) {
                None => return,
                Some(other) => job = other,
            }
        }
    }
    group.push(job);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::db;

    #[tokio::test]
    async fn a_write_that_panics_is_undone_alone_and_the_writer_lives_on() {
        let conn = Connection::in_memory().await;
        let writer = GroupWriter::start(conn, None, Log::new(None));
        let run = async |sql: &'static str| {
            writer
                .write(move |conn| {
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
        let words = writer.write(|conn| {
            Box::pin(async move {
                Ok(db::query_scalar::<String>("SELECT word FROM t")
                    .fetch_all(conn)
                    .await?)
            })
        });
        assert_eq!(words.await.expect("a read"), ["well"]);
    }

    #[tokio::test]
    async fn a_commit_that_stored_nothing_is_refused_the_next_one_is_not() {
        let conn = Connection::in_memory().await;
        let writer = GroupWriter::start(conn, None, Log::new(None));
        let run = async |sql: &'static str| {
            let write = writer.write(move |conn| {
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
