//! Opening a workspace's database: the lock, the pragmas read back, the migrations, the epoch.

use super::Result;
use super::anchor::Anchor;
use super::leftovers::{note_opened, refuse_leftovers};
use super::log::Log;
use super::read_only::{can_change, only_to_read};
use super::suspects::Suspects;
use super::writer::{Job, Writer};
use crate::clock::Clock;
use crate::crash::is_careless;
use crate::domain::LoopKey;
use futures_util::future::BoxFuture;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions,
    SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection, Row};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Readers that may run at once.
const READERS_MAX: u32 = 4;
/// Size up to which the database is looked over at every start; that takes less than a second.
const LOOKED_OVER_BYTES_MAX: i64 = 256 * 1024 * 1024;
/// Prepared statements kept per connection; more than there are SQL constants.
const STATEMENTS_CACHED: usize = 256;

/// How often, and with which pause, whoever opens the database looks whether somebody else has done so: ten seconds.
const OPENING_LOOKS_MAX: usize = 1000;
const OPENING_PAUSE: Duration = Duration::from_millis(10);

static MIGRATIONS: Migrator = sqlx::migrate!("./migrations");
/// Looks at the lock of whoever only asks whether it is held; each of them has it for an instant.
const LOCK_LOOKS_MAX: usize = 1000;

/// Why a workspace's database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("another engine (process {pid}) works on this workspace")]
    InUse { pid: String },
    #[error("cannot use `{path}`")]
    Folder {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error("the database runs with {pragma} = {found}, and promises need {wanted}")]
    Unsafe { pragma: &'static str, found: String, wanted: &'static str },
    /// SQLite cannot follow it from page to page; `found` is where it gave up.
    #[error("the database is damaged: {found}")]
    Damaged { found: String },
    #[error("cannot open the database")]
    Sql(#[source] sqlx::Error),
    /// Somebody else makes or migrates it, and has not finished in time.
    #[error("another process ({pid}) is opening the database")]
    Opening { pid: String },
    #[error("cannot bring the database up to date")]
    Migrate(#[source] MigrateError),
    /// It has a migration that we do not know; the number is its.
    #[error("the database was written by a newer attache (it has migration {0})")]
    Newer(i64),
    /// It was filled by `attache replay import`.
    #[error("this workspace holds runs that were brought from elsewhere; no engine works there")]
    Archive,
    /// There was one, and an empty one in its place would know nothing of what was promised.
    #[error("the database is missing, and `{left}` is left of it")]
    Gone { left: String },
    /// It was put in place of another one, whose log is still there.
    #[error("the log `{log}` does not belong to the database beside it")]
    ForeignLog { log: String },
    /// The newest of it stands in a log that cannot be read without writing beside it.
    #[error("nothing can be written beside the database, and without that its log `{log}` cannot be read")]
    LogUnread { log: String },
    /// It lacks migrations, and was opened by somebody who must not write.
    #[error("the database was written by an older attache (it lacks migration {0})")]
    Older(i64),
}

impl From<sqlx::Error> for OpenError {
    fn from(error: sqlx::Error) -> Self {
        // SQLITE_CORRUPT and SQLITE_NOTADB, in the low byte of every code that extends them.
        let code = error.as_database_error().and_then(|error| error.code()?.parse::<i64>().ok());
        match code.map(|code| code & 0xff) {
            Some(11 | 26) => OpenError::Damaged { found: error.to_string() },
            _ => OpenError::Sql(error),
        }
    }
}

/// The engine's database. Cheap to clone; the last clone dropped closes it and frees the workspace.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    writer: Writer,
    readers: SqlitePool,
    clock: Arc<dyn Clock>,
    epoch: i64,
    loop_key: LoopKey,
    suspects: Suspects,
    can_write: bool,
    /// Held for as long as the store is open; the operating system frees it when the process dies.
    _lock: Option<File>,
}

impl Store {
    /// Opens `data/attache.db` below `workspace` for an engine: takes the workspace's lock, raises the epoch.
    ///
    /// Errors: [`OpenError::InUse`] when another process holds the lock.
    pub async fn open(workspace: &Path, clock: Arc<dyn Clock>) -> std::result::Result<Self, OpenError> {
        Self::open_for_engine(workspace, clock, acquire).await
    }

    /// As [`Store::open`], also while another process has the lock, a stopped one for example. Whatever that one still
    /// wants to write is refused, and its [`Store::halted`] resolves.
    pub async fn take_over(workspace: &Path, clock: Arc<dyn Clock>) -> std::result::Result<Self, OpenError> {
        Self::open_for_engine(workspace, clock, replace).await
    }

    async fn open_for_engine(
        workspace: &Path,
        clock: Arc<dyn Clock>,
        lock: fn(&Path) -> std::result::Result<File, OpenError>,
    ) -> std::result::Result<Self, OpenError> {
        let data = data_folder(workspace)?;
        // One at a time until the epoch is raised: whose name the lock bears must be whose epoch it is.
        let _opening = turn_to_open(&data).await?;
        refuse_leftovers(&data)?;
        let lock = lock(&data.join("engine.lock"))?;
        Self::open_database(write_options(&data), clock, (Some(lock), true)).await
    }

    /// Opens the same database beside a running engine, for listings and for requests such as a cancellation.
    /// It claims nothing and raises no epoch. Where nothing can be written it is opened as by [`Store::open_to_read`].
    pub async fn open_beside(
        workspace: &Path,
        clock: Arc<dyn Clock>,
    ) -> std::result::Result<Self, OpenError> {
        let database = workspace.join("data/attache.db");
        if database.exists() && !can_change(&database) {
            return Self::open_to_read(workspace, clock).await;
        }
        let data = data_folder(workspace)?;
        // Whoever comes first makes the database, and brings it up to date.
        let _opening = turn_to_open(&data).await?;
        refuse_leftovers(&data)?;
        Self::open_database(write_options(&data), clock, (None, true)).await
    }

    /// Opens it by connections that SQLite lets write nothing, migrations neither: every write is an error.
    ///
    /// Errors: [`OpenError::Older`] for a database that the engine has not brought up to date yet.
    pub async fn open_to_read(
        workspace: &Path,
        clock: Arc<dyn Clock>,
    ) -> std::result::Result<Self, OpenError> {
        let data = workspace.join("data");
        refuse_leftovers(&data)?;
        let options = only_to_read(connect_options(&data))?;
        let mut conn = options.connect().await?;
        let newest: Option<i64> = sqlx::query_scalar(NEWEST_MIGRATION).fetch_one(&mut conn).await?;
        require_newest(newest.unwrap_or(0))?;
        conn.close().await?;
        Self::open_database(options, clock, (None, false)).await
    }

    async fn open_database(
        options: SqliteConnectOptions,
        clock: Arc<dyn Clock>,
        (mut lock, can_write): (Option<File>, bool),
    ) -> std::result::Result<Self, OpenError> {
        let file = options.get_filename().to_path_buf();
        let mut conn = options.connect().await?;
        if lock.is_some() {
            look_over(&mut conn).await?;
        }
        if can_write {
            read_back(&mut conn).await?;
            migrate(&mut conn).await?;
        }
        let engine = if lock.is_some() { RAISE_EPOCH } else { READ_EPOCH };
        // To its end: a commit that fails is told after the row, and an epoch that is not on disk is nobody's.
        let engine = sqlx::query(engine).fetch_all(&mut conn).await?;
        let engine = engine.first().ok_or(OpenError::Archive)?;
        let (epoch, loop_key) = (engine.get(0), LoopKey::new(engine.get(1)));
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS_MAX)
            .min_connections(0)
            // A local file does not hang up: no ping before each read.
            .test_before_acquire(false)
            .connect_lazy_with(options.clone().pragma("query_only", "ON"));
        let is_engine = lock.is_some();
        let log = Log::new(is_engine.then_some(options));
        let anchor = |source| OpenError::Folder { path: file.display().to_string(), source };
        // Without the note a database that goes missing is made anew, as before: that is no reason not to start.
        let _noted = lock.as_mut().map(note_opened);
        let engine = if is_engine { Some((epoch, Anchor::of(&file).map_err(anchor)?)) } else { None };
        let writer = Writer::start(conn, engine, log);
        let suspects = Suspects::of_engine(clock.monotonic());
        let inner = Inner { writer, readers, clock, epoch, loop_key, suspects, can_write, _lock: lock };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Runs one named transaction; resolves after it is on disk. The closure must await nothing but statements.
    pub(super) async fn write<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T>> + Send + 'static,
    {
        self.inner.writer.write(work).await
    }

    /// Hands a write of another kind to the writer, and waits for its answer.
    pub(super) async fn submit<T>(&self, job: Box<dyn Job>, answer: oneshot::Receiver<T>) -> Result<T> {
        self.inner.writer.submit(job, answer).await
    }

    /// Arms a power cut, for tests of recovery: the store acts as if the machine went off at that commit. Every later
    /// write answers [`super::StoreError::Closed`].
    pub fn cut_power(&self, cut: super::PowerCut) {
        self.inner.writer.cut_power(cut);
    }

    pub(super) fn readers(&self) -> &SqlitePool {
        &self.inner.readers
    }

    pub(super) fn suspects(&self) -> &Suspects {
        &self.inner.suspects
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    /// Whether every write will be refused, because it was opened only to be read, or lies where nothing can be written.
    pub fn is_read_only(&self) -> bool {
        !self.inner.can_write
    }

    /// The number of this start; rows in a running state with an older epoch belong to an engine that is gone.
    pub fn epoch(&self) -> i64 {
        self.inner.epoch
    }

    /// This database's key for the note in the header of our own mail.
    pub fn loop_key(&self) -> &LoopKey {
        &self.inner.loop_key
    }

    /// Resolves when nothing can be stored any more and the engine must end: it was replaced, or the disk failed at a
    /// commit.
    pub async fn halted(&self) -> super::StoreError {
        self.inner.writer.halted().await
    }

    /// Closes the read connections, works off the writes that wait, and closes the write connection. The workspace is
    /// free when the last clone is dropped; what a clone still wants is answered [`super::StoreError::Closed`].
    pub async fn close(self) {
        self.inner.readers.close().await;
        self.inner.writer.close().await;
    }
}

pub(super) const DATABASE_BYTES: &str =
    "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
/// No engine has an epoch in an archive, so nothing there is ever claimed, called or mailed.
pub(super) const RAISE_EPOCH: &str = "
    UPDATE engine SET epoch = epoch + 1 WHERE id = 1 AND NOT EXISTS (SELECT 1 FROM archive)
    RETURNING epoch, loop_key";
/// Who only looks writes nothing, so that it can look at a full disk.
pub(super) const READ_EPOCH: &str = "SELECT epoch, loop_key FROM engine WHERE id = 1";

/// What every migration was applied by.
pub(super) const NEWEST_MIGRATION: &str = "SELECT max(version) FROM _sqlx_migrations";

async fn migrate(conn: &mut SqliteConnection) -> std::result::Result<(), OpenError> {
    // `run` would take the connection by sqlx's `Acquire`, which makes this future `Send` for one lifetime only.
    MIGRATIONS.run_direct(None, conn, false).await.map_err(|error| match error {
        MigrateError::VersionMissing(number) => OpenError::Newer(number),
        other => OpenError::Migrate(other),
    })
}

fn write_options(data: &Path) -> SqliteConnectOptions {
    connect_options(data).create_if_missing(true).journal_mode(SqliteJournalMode::Wal)
}

fn connect_options(data: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(data.join("attache.db"))
        .synchronous(if is_careless() { SqliteSynchronous::Normal } else { SqliteSynchronous::Full })
        .foreign_keys(true)
        .busy_timeout(Duration::from_secs(5))
        .pragma("trusted_schema", "OFF")
        .pragma("cell_size_check", "ON")
        // A log that began anew keeps its first 16 MiB, because writing over a file costs less than making it longer.
        .pragma("journal_size_limit", "16777216")
        // The log is copied back beside the writer (`log.rs`); this is the bound if that does not work: 48 MiB.
        .pragma("wal_autocheckpoint", "12288")
        .pragma("cache_size", "-8192")
        // The undo list of a savepoint is a temporary file as soon as it is longer than 64 KiB.
        .pragma("temp_store", "MEMORY")
        .statement_cache_capacity(STATEMENTS_CACHED)
        .disable_statement_logging()
}

fn data_folder(workspace: &Path) -> std::result::Result<std::path::PathBuf, OpenError> {
    let data = workspace.join("data");
    let made = std::fs::create_dir_all(&data);
    made.map_err(|source| OpenError::Folder { path: data.display().to_string(), source })?;
    Ok(data)
}

/// Takes a lock, or says which process has it.
fn acquire(path: &Path) -> std::result::Result<File, OpenError> {
    let failed = |source| OpenError::Folder { path: path.display().to_string(), source };
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    let mut file = opened.map_err(failed)?;
    let mut looks = 0;
    while let Err(held) = file.try_lock() {
        looks += 1;
        match held {
            // Nobody has it for good: somebody looked at it just now, as `working_engine` does.
            TryLockError::WouldBlock if looks < LOCK_LOOKS_MAX && file.try_lock_shared().is_ok() => {
                file.unlock().map_err(failed)?;
                std::thread::yield_now();
            }
            TryLockError::WouldBlock => return Err(OpenError::InUse { pid: pid_in(&mut file) }),
            TryLockError::Error(source) => return Err(failed(source)),
        }
    }
    let written =
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
    written.map_err(failed)?;
    Ok(file)
}

/// Waits for the turn to open the database: two that make it, or migrate it, at once would meet each other's half of it.
///
/// Errors: [`OpenError::Opening`] when somebody else takes too long.
async fn turn_to_open(data: &Path) -> std::result::Result<File, OpenError> {
    let lock = data.join("opening.lock");
    for _ in 0..OPENING_LOOKS_MAX {
        match acquire(&lock) {
            Err(OpenError::InUse { .. }) => tokio::time::sleep(OPENING_PAUSE).await,
            taken_or_failed => return taken_or_failed,
        }
    }
    acquire(&lock).map_err(|error| match error {
        OpenError::InUse { pid } => OpenError::Opening { pid },
        other => other,
    })
}

/// Refuses a damaged database before anything is written into it. A large one is not looked over at every start
/// (300 MB/s, decision D-37): `attache doctor` does that beside a serving engine.
async fn look_over(conn: &mut SqliteConnection) -> std::result::Result<(), OpenError> {
    let bytes: i64 = sqlx::query_scalar(DATABASE_BYTES).fetch_one(&mut *conn).await?;
    if bytes > LOOKED_OVER_BYTES_MAX {
        tracing::debug!(bytes, "the database is not looked over at the start: it is too large");
        return Ok(());
    }
    let found: String = sqlx::query_scalar("PRAGMA quick_check(1)").fetch_one(&mut *conn).await?;
    if found == "ok" { Ok(()) } else { Err(OpenError::Damaged { found }) }
}

/// Takes a lock whoever has it: a new file gets its name, and the old lock stays with a file that nobody finds any more.
fn replace(path: &Path) -> std::result::Result<File, OpenError> {
    let unnamed = path.with_extension("lock.new");
    let file = acquire(&unnamed)?;
    let renamed = std::fs::rename(&unnamed, path);
    renamed.map_err(|source| OpenError::Folder { path: path.display().to_string(), source })?;
    Ok(file)
}

fn pid_in(file: &mut File) -> String {
    let mut pid = String::new();
    let _unknown_pid = file.read_to_string(&mut pid);
    pid.lines().next().unwrap_or_default().trim().to_owned()
}

/// The process that works on a workspace; `None` when none does.
pub fn working_engine(workspace: &Path) -> Option<String> {
    let mut file = File::open(workspace.join("data/engine.lock")).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Some(pid_in(&mut file)),
        _ => None,
    }
}

/// Whether tables whose newest migration is this one are those that this program knows.
pub(super) fn require_newest(migration: i64) -> std::result::Result<(), OpenError> {
    let known = MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or(0);
    match migration.cmp(&known) {
        std::cmp::Ordering::Less => Err(OpenError::Older(known)),
        std::cmp::Ordering::Greater => Err(OpenError::Newer(migration)),
        std::cmp::Ordering::Equal => Ok(()),
    }
}

/// Pragmas are per connection and may silently not take: what the promises rest on is read back.
async fn read_back(conn: &mut SqliteConnection) -> std::result::Result<(), OpenError> {
    let journal: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut *conn).await?;
    if !journal.eq_ignore_ascii_case("wal") {
        return Err(OpenError::Unsafe { pragma: "journal_mode", found: journal, wanted: "wal" });
    }
    let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&mut *conn).await?;
    if synchronous != 2 && !is_careless() {
        return Err(OpenError::Unsafe {
            pragma: "synchronous",
            found: synchronous.to_string(),
            wanted: "2 (FULL)",
        });
    }
    conn.ping().await?;
    Ok(())
}
