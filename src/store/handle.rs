//! The store: a handle to the database of a workspace, whichever it is.

use crate::clock::Clock;
use crate::domain::LoopKey;
use crate::store::db::{Connection, Pool, QueuedWork, Scope};
use crate::store::journal::packed::SharedParts;
use crate::store::maintenance::migrate::UpgradeBackup;
use crate::store::opened::{Opened, StoreWriter};
use crate::store::postgres::heartbeat::LeaseHeartbeat;
use crate::store::postgres::open as server;
use crate::store::postgres::url::DatabaseUrl;
use crate::store::runs::poison_runs::PoisonRuns;
use crate::store::sqlite::open as file;
use crate::store::sqlite::open_error::OpenError;
use crate::store::writes::commit_signal::CommitReceiver;
use crate::store::writes::job::{Job, Write};
use crate::store::writes::piggyback::PiggybackClaim;
use crate::store::{PowerCut, Result, StoreError};
use futures_util::future::BoxFuture;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The engine's database. Cheap to clone; the last clone dropped closes it and frees the workspace.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    opened: Opened,
    clock: Arc<dyn Clock>,
    poison_runs: PoisonRuns,
    shared_parts: SharedParts,
}

type OpenResult = std::result::Result<Store, OpenError>;

statements!(Store, (&'c self), self.readers());

impl Store {
    /// Opens the database of `workspace` for an engine: takes the workspace's lock, raises the
    /// epoch. It is `data/attache.db`, or that of `ATTACHE_DATABASE_URL`.
    ///
    /// Errors: [`OpenError::InUse`] when another process holds the lock.
    pub async fn open(workspace: &Path, clock: Arc<dyn Clock>) -> OpenResult {
        let opened = match DatabaseUrl::of(workspace)? {
            None => file::open(workspace, &*clock).await?,
            Some(url) => server::open(workspace, &url, &clock).await?,
        };
        Ok(Self::new(opened, clock))
    }

    /// Opens the database like [`Store::open`], also while another process has the lock, a stopped
    /// one for example. Later writes of that process are refused, and its [`Store::halted`]
    /// resolves.
    pub async fn take_over(workspace: &Path, clock: Arc<dyn Clock>) -> OpenResult {
        let opened = match DatabaseUrl::of(workspace)? {
            None => file::take_over(workspace, &*clock).await?,
            Some(url) => server::take_over(workspace, &url, &clock).await?,
        };
        Ok(Self::new(opened, clock))
    }

    /// Opens the database while an engine runs, for listings and for requests such as a
    /// cancellation. It claims no run and raises no epoch. A database that cannot be written is
    /// opened as by [`Store::open_to_read`].
    pub async fn open_shared(workspace: &Path, clock: Arc<dyn Clock>) -> OpenResult {
        let opened = match DatabaseUrl::of(workspace)? {
            None => file::open_shared(workspace, &*clock).await?,
            Some(url) => server::open_shared(&url, &*clock).await?,
        };
        Ok(Self::new(opened, clock))
    }

    /// Opens the database like [`Store::open_shared`], after bringing it up to date with a copy before or without.
    pub async fn upgrade(
        workspace: &Path,
        clock: Arc<dyn Clock>,
        backup: UpgradeBackup,
    ) -> OpenResult {
        let opened = match DatabaseUrl::of(workspace)? {
            None => file::upgrade(workspace, &*clock, backup).await?,
            Some(url) => server::open_shared(&url, &*clock).await?,
        };
        Ok(Self::new(opened, clock))
    }

    /// Opens the database by read-only connections, without migrations: every write is an error.
    ///
    /// Errors: [`OpenError::Older`] for a database that the engine has not migrated yet.
    pub async fn open_to_read(workspace: &Path, clock: Arc<dyn Clock>) -> OpenResult {
        let opened = match DatabaseUrl::of(workspace)? {
            None => file::open_to_read(workspace, &*clock).await?,
            Some(url) => server::open_to_read(&url).await?,
        };
        Ok(Self::new(opened, clock))
    }

    fn new(opened: Opened, clock: Arc<dyn Clock>) -> Self {
        let poison_runs = PoisonRuns::of_engine(clock.monotonic());
        let inner = Inner {
            opened,
            clock,
            poison_runs,
            shared_parts: SharedParts::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Runs one named transaction on the rows of a scope; resolves after it is on disk. The closure must await nothing but
    /// statements.
    pub(in crate::store) async fn write<T, F>(&self, scope: Scope, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut Connection) -> BoxFuture<'c, Result<T>> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let write = Box::new(Write::new(scope, work, reply));
        self.submit(write, answer).await?
    }

    /// Has a claim made by the next transaction that queues such work. `None` on PostgreSQL, where it would take the rows of
    /// another persona's transaction.
    pub(in crate::store) fn piggyback<T, F>(
        &self,
        work: QueuedWork,
        claim: F,
    ) -> Option<PiggybackClaim<T>>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut Connection) -> BoxFuture<'c, Result<Vec<T>>> + Send + 'static,
    {
        let StoreWriter::Group(writer) = &self.inner.opened.writer else {
            return None;
        };
        let (reply, answer) = oneshot::channel();
        let claims = writer.piggyback.clone();
        claims.place(work, Box::new(Write::new(Scope::Claims, claim, reply)));
        Some(PiggybackClaim::new(work, claims, answer))
    }

    /// Submits a write of another kind to the writer, and waits for its answer.
    pub(in crate::store) async fn submit<T>(
        &self,
        job: Box<dyn Job>,
        answer: oneshot::Receiver<T>,
    ) -> Result<T> {
        match &self.inner.opened.writer {
            StoreWriter::Group(writer) => writer.submit(job, answer).await,
            StoreWriter::Lanes(lanes) => lanes.submit(job, answer).await,
        }
    }

    /// Arms a power cut, for tests of recovery: the store acts as if the machine went off at that commit. Every later
    /// write answers [`StoreError::Closed`].
    pub fn cut_power(&self, cut: PowerCut) {
        match &self.inner.opened.writer {
            StoreWriter::Group(writer) => writer.cut_power(cut),
            StoreWriter::Lanes(lanes) => lanes.cut_power(cut),
        }
    }

    /// Refuses every write from now on that changes a row of a persona outside its scope, for tests
    /// on SQLite.
    pub fn check_scopes(&self) {
        if let StoreWriter::Group(writer) = &self.inner.opened.writer {
            writer.check_scopes();
        }
    }

    /// Takes no lock of a scope any more, for controls of tests on PostgreSQL.
    pub fn take_no_locks(&self) {
        if let StoreWriter::Lanes(lanes) = &self.inner.opened.writer {
            lanes.take_no_locks();
        }
    }

    /// Returns the heartbeat of an engine that may be one of several.
    pub(in crate::store) fn heartbeat(&self) -> Option<&LeaseHeartbeat> {
        self.inner.opened.heartbeat.as_ref()
    }

    /// Returns what tells of commits, of this process and of others: those of others while somebody
    /// [watches](Store::watch_others).
    pub fn commits(&self) -> CommitReceiver {
        self.inner.opened.commits.all()
    }

    /// Returns what tells of commits of other processes, while somebody [watches](Store::watch_others).
    pub fn commits_of_others(&self) -> CommitReceiver {
        self.inner.opened.commits.others()
    }

    /// Watches for commits of other processes, without an end. Once per engine.
    pub async fn watch_others(&self) {
        self.inner.opened.commits.watch().await;
    }

    pub(in crate::store) fn readers(&self) -> &Pool {
        &self.inner.opened.readers
    }

    pub(in crate::store) fn shared_parts(&self) -> &SharedParts {
        &self.inner.shared_parts
    }

    pub(in crate::store) fn poison_runs(&self) -> &PoisonRuns {
        &self.inner.poison_runs
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    /// Reports whether every write will be refused: the database was opened read-only, or its
    /// folder cannot be written.
    pub fn is_read_only(&self) -> bool {
        !self.inner.opened.can_write
    }

    pub(in crate::store) fn is_on_server(&self) -> bool {
        matches!(self.inner.opened.writer, StoreWriter::Lanes(_))
    }

    /// Returns the number of this start; rows in a running state with an epoch that no node has belong
    /// to an engine that is gone.
    pub fn epoch(&self) -> i64 {
        self.inner.opened.epoch
    }

    /// Returns this database's key of the loop token in the header of our own mail.
    pub fn loop_key(&self) -> &LoopKey {
        &self.inner.opened.loop_key
    }

    /// Resolves when writes are refused for good and the engine must end: it was replaced, or the
    /// disk failed at a commit, or fails at reads.
    pub async fn halted(&self) -> StoreError {
        match &self.inner.opened.writer {
            StoreWriter::Group(writer) => tokio::select! {
                halted = writer.halted() => halted,
                failing = self.readers().failing() => StoreError::ReadsFail(failing),
            },
            StoreWriter::Lanes(lanes) => lanes.halted().await,
        }
    }

    /// Resolves when the writer has done a transaction without a statement, which writes nothing to
    /// disk, after all that wait before it.
    ///
    /// Errors: the transaction was refused.
    pub async fn writer_answers(&self) -> Result<()> {
        self.write(Scope::Rows, |_conn| Box::pin(async { Ok(()) }))
            .await
    }

    /// Closes the read connections, finishes the waiting writes, and closes the write connection.
    /// The workspace is free when the last clone is dropped; later writes of a clone are answered
    /// with [`StoreError::Closed`].
    pub async fn close(self) {
        self.inner.opened.readers.close().await;
        match &self.inner.opened.writer {
            StoreWriter::Group(writer) => writer.close().await,
            StoreWriter::Lanes(lanes) => lanes.close().await,
        }
        if let Some(heartbeat) = &self.inner.opened.heartbeat {
            heartbeat.leave().await;
        }
    }
}
