//! The one writer: group commit.
//!
//! Writes that wait together share one `BEGIN IMMEDIATE … COMMIT`, each in a savepoint of its own, and one fsync.
//! Every caller is answered only after that fsync, so "stored" always means stored. While a group commits, the next
//! one gathers; there is no timer.

use super::{Result, StoreError};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::SqliteConnection;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// Writes that may wait at once; more callers wait for a place, which is the store's back-pressure.
const QUEUE_LENGTH_MAX: usize = 1024;
/// Writes that share one commit.
const GROUP_SIZE_MAX: usize = 256;

/// A write, as a closure over the connection inside the group's transaction. It must not await anything else.
pub(super) trait Job: Send {
    fn run<'a>(&'a mut self, conn: &'a mut SqliteConnection) -> BoxFuture<'a, Outcome>;
    /// Called once, after the group's commit succeeded or failed.
    fn answer(self: Box<Self>, committed: std::result::Result<(), StoreError>);
}

/// Whether a job's savepoint is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Keep,
    RollBack,
}

/// Where a power cut strikes, for tests: the commit with this number, counted from 1, and on which side of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerCut {
    /// Nothing of the group is on disk.
    BeforeCommit(u64),
    /// The group is on disk, and nobody was told.
    AfterCommit(u64),
}

impl PowerCut {
    fn strikes(self, commit: u64) -> bool {
        match self {
            PowerCut::BeforeCommit(at) | PowerCut::AfterCommit(at) => commit >= at,
        }
    }
}

#[derive(Clone)]
pub(super) struct Writer {
    queue: mpsc::Sender<Box<dyn Job>>,
    working: Arc<Mutex<Option<JoinHandle<()>>>>,
    power_cut: Arc<Mutex<Option<PowerCut>>>,
}

struct Write<T, F> {
    work: Option<F>,
    result: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T, F> Job for Write<T, F>
where
    T: Send + 'static,
    F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T>> + Send + 'static,
{
    fn run<'a>(&'a mut self, conn: &'a mut SqliteConnection) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let Some(work) = self.work.take() else { return Outcome::RollBack };
            let result = work(conn).await;
            let outcome = if result.is_ok() { Outcome::Keep } else { Outcome::RollBack };
            self.result = Some(result);
            outcome
        })
    }

    fn answer(self: Box<Self>, committed: std::result::Result<(), StoreError>) {
        let answer = match (self.result, committed) {
            (Some(Err(own)), _) => Err(own),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (_, Err(group)) => Err(group),
            (None, Ok(())) => Err(StoreError::Closed),
        };
        // A caller that went away (a client hung up) does not undo what is committed.
        let _gone = self.reply.send(answer);
    }
}

impl Writer {
    /// Takes over the only write connection and works until every handle is dropped.
    pub(super) fn start(conn: SqliteConnection) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE_LENGTH_MAX);
        let power_cut = Arc::new(Mutex::new(None));
        let working = tokio::spawn(work(conn, waiting, power_cut.clone()));
        Self { queue, working: Arc::new(Mutex::new(Some(working))), power_cut }
    }

    /// Arms a power cut. Commits that changed nothing do not count.
    pub(super) fn cut_power(&self, cut: PowerCut) {
        *self.power_cut.lock().unwrap_or_else(PoisonError::into_inner) = Some(cut);
    }

    /// Lets the writer finish what waits and close its connection.
    pub(super) async fn close(self) {
        let working = self.working.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(self.queue);
        if let Some(working) = working
            && let Err(error) = working.await
        {
            tracing::error!(%error, "the database writer panicked");
        }
    }

    pub(super) async fn write<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T>> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(Write { work: Some(work), result: None, reply });
        self.queue.send(job).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }
}

/// How a group ended.
enum GroupEnd {
    Committed,
    Failed(Arc<sqlx::Error>),
    /// The power is gone: nobody is answered any more.
    PowerCut,
}

async fn work(
    mut conn: SqliteConnection,
    mut waiting: mpsc::Receiver<Box<dyn Job>>,
    power_cut: Arc<Mutex<Option<PowerCut>>>,
) {
    let mut group = Vec::with_capacity(GROUP_SIZE_MAX);
    let mut commits = 0;
    while waiting.recv_many(&mut group, GROUP_SIZE_MAX).await > 0 {
        commits += 1;
        let cut = *power_cut.lock().unwrap_or_else(PoisonError::into_inner);
        let cut = cut.filter(|cut| cut.strikes(commits));
        let failure = match commit_group(&mut conn, &mut group, &mut waiting, cut).await {
            GroupEnd::Committed => None,
            GroupEnd::Failed(error) => Some(error),
            GroupEnd::PowerCut => break,
        };
        if let Some(error) = &failure {
            tracing::error!(error = %error, writes = group.len(), "the database did not commit");
            // The transaction may be open or already rolled back; either way the next group starts clean.
            let _already_closed = sqlx::raw_sql("ROLLBACK").execute(&mut conn).await;
        }
        for job in group.drain(..) {
            job.answer(match &failure {
                None => Ok(()),
                Some(error) => Err(StoreError::NotCommitted(error.clone())),
            });
        }
    }
    if let Err(error) = sqlx::Connection::close(conn).await {
        tracing::warn!(%error, "closing the database");
    }
}

async fn commit_group(
    conn: &mut SqliteConnection,
    group: &mut Vec<Box<dyn Job>>,
    waiting: &mut mpsc::Receiver<Box<dyn Job>>,
    cut: Option<PowerCut>,
) -> GroupEnd {
    let ended = run_jobs(conn, group, waiting).await;
    if let (Ok(()), Some(cut)) = (&ended, cut) {
        let last_words = match cut {
            PowerCut::BeforeCommit(_) => "ROLLBACK",
            PowerCut::AfterCommit(_) => "COMMIT",
        };
        let _nobody_hears = sqlx::raw_sql(last_words).execute(conn).await;
        return GroupEnd::PowerCut;
    }
    crate::crash::crash_point!("W1", ended.is_ok());
    let committed = match ended {
        // Savepoints that are open are kept by the commit.
        Ok(()) => sqlx::raw_sql("COMMIT").execute(conn).await.map(|_| ()),
        Err(error) => Err(error),
    };
    crate::crash::crash_point!("W2", committed.is_ok());
    committed.map_or_else(|error| GroupEnd::Failed(Arc::new(error)), |()| GroupEnd::Committed)
}

/// Runs every job of the group in one open transaction. The first needs no savepoint, because undoing it is undoing
/// everything; each later one has its own.
async fn run_jobs(
    conn: &mut SqliteConnection,
    group: &mut Vec<Box<dyn Job>>,
    waiting: &mut mpsc::Receiver<Box<dyn Job>>,
) -> std::result::Result<(), sqlx::Error> {
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut *conn).await?;
    let mut in_savepoint = false;
    let mut done = 0;
    while done < group.len() {
        let outcome = AssertUnwindSafe(group[done].run(conn)).catch_unwind().await.unwrap_or_else(|_bug| {
            // Its caller is answered `Closed`; the writer must outlive it, or nothing would be stored any more.
            tracing::error!("a write panicked and is undone");
            Outcome::RollBack
        });
        done += 1;
        // Whoever arrived meanwhile rides along: one fsync for all.
        if done == group.len()
            && group.len() < GROUP_SIZE_MAX
            && let Ok(job) = waiting.try_recv()
        {
            group.push(job);
        }
        let is_last = done == group.len();
        let between = match (outcome, in_savepoint, is_last) {
            (Outcome::Keep, _, true) => continue,
            (Outcome::Keep, false, false) => "SAVEPOINT job",
            (Outcome::Keep, true, false) => "RELEASE job; SAVEPOINT job",
            (Outcome::RollBack, false, true) => "ROLLBACK; BEGIN IMMEDIATE",
            (Outcome::RollBack, false, false) => "ROLLBACK; BEGIN IMMEDIATE; SAVEPOINT job",
            (Outcome::RollBack, true, true) => "ROLLBACK TO job",
            (Outcome::RollBack, true, false) => "ROLLBACK TO job; RELEASE job; SAVEPOINT job",
        };
        sqlx::raw_sql(between).execute(&mut *conn).await?;
        in_savepoint = !is_last;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlx::Connection;

    #[tokio::test]
    async fn a_write_that_panics_is_undone_alone_and_the_writer_lives_on() {
        let conn = SqliteConnection::connect("sqlite::memory:").await.expect("a database");
        let writer = Writer::start(conn);
        let run = async |sql: &'static str| {
            writer
                .write(move |conn| {
                    Box::pin(async move {
                        sqlx::raw_sql(sql).execute(conn).await?;
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
                Ok(sqlx::query_scalar::<_, String>("SELECT word FROM t").fetch_all(conn).await?)
            })
        });
        assert_eq!(words.await.expect("a read"), ["well"]);
    }
}
