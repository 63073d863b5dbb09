//! Opening a workspace's database: the lock, the pragmas read back, the migrations, the epoch.

use crate::clock::Clock;
use crate::crash::is_unsafe_sync;
use crate::domain::{LoopKey, Timestamp};
use crate::store::archive;
use crate::store::db::{Connection, FileAccess, FileOptions, FilePool, Pool, STATEMENTS_CACHED};
use crate::store::maintenance::before_upgrade::require_whole;
use crate::store::maintenance::migrate::{Opening, UpgradeBackup, migrate};
use crate::store::maintenance::versions::{note_version, require_newest};
use crate::store::nodes::identity::NodeIdentity;
use crate::store::nodes::join::JOIN_ALONE;
use crate::store::opened::{Opened, StoreWriter};
use crate::store::sqlite::identity::FileIdentity;
use crate::store::sqlite::leftovers::{
    is_new, note_made, note_making, note_opened, refuse_leftovers,
};
use crate::store::sqlite::locks::{acquire, replace, turn_to_open};
use crate::store::sqlite::log::Log;
use crate::store::sqlite::mark::{self, MarkFile};
use crate::store::sqlite::open_error::OpenError;
use crate::store::sqlite::read_only::{access_to_read, can_change, only_to_read};
use crate::store::sqlite::writer::GroupWriter;
use crate::store::writes::commit_signal::CommitSignal;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode};
use sqlx::{ConnectOptions, Connection as _, Row};
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// Size in bytes up to which the database is checked at every start; that takes less than a second.
pub const LOOKED_OVER_BYTES_MAX: i64 = 256 * 1024 * 1024;

type OpenResult = Result<Opened, OpenError>;

/// Opens `data/attache.db` below `workspace` for an engine: takes the workspace's lock, raises
/// the epoch.
///
/// Errors: [`OpenError::InUse`] when another process holds the lock.
pub(in crate::store) async fn open(workspace: &Path, clock: &dyn Clock) -> OpenResult {
    open_for_engine(workspace, clock, acquire).await
}

/// Opens the database like [`open`], also while another process has the lock, a stopped
/// one for example. Later writes of that process are refused, and its `Store::halted`
/// resolves.
pub(in crate::store) async fn take_over(workspace: &Path, clock: &dyn Clock) -> OpenResult {
    open_for_engine(workspace, clock, replace).await
}

async fn open_for_engine(
    workspace: &Path,
    clock: &dyn Clock,
    lock: fn(&Path) -> std::result::Result<File, OpenError>,
) -> OpenResult {
    let data = data_folder(workspace)?;
    // One process at a time until the epoch is raised: the process named in the lock must be
    // the one whose epoch it is.
    let _opening = turn_to_open(&data).await?;
    refuse_leftovers(&data)?;
    let lock = lock(&data.join("engine.lock"))?;
    open_or_make(&data, clock, OpenedAs::Engine(lock)).await
}

/// Opens the database while an engine runs, for listings and for requests such as a
/// cancellation. It claims no run and raises no epoch. A database that cannot be written is
/// opened as by [`open_to_read`].
pub(in crate::store) async fn open_shared(workspace: &Path, clock: &dyn Clock) -> OpenResult {
    let database = workspace.join("data/attache.db");
    if database.exists() && !can_change(&database) {
        return open_to_read(workspace, clock).await;
    }
    upgrade(workspace, clock, UpgradeBackup::Made).await
}

/// Opens the database like [`open_shared`], after bringing it up to date with a copy before or without.
pub(in crate::store) async fn upgrade(
    workspace: &Path,
    clock: &dyn Clock,
    backup: UpgradeBackup,
) -> OpenResult {
    let data = data_folder(workspace)?;
    // The first process creates the database and runs the migrations.
    let _opening = turn_to_open(&data).await?;
    refuse_leftovers(&data)?;
    open_or_make(&data, clock, OpenedAs::Shared(backup)).await
}

/// Opens the database to write it; where there is none, makes it, or leaves nothing.
async fn open_or_make(data: &Path, clock: &dyn Clock, access: OpenedAs) -> OpenResult {
    let failed = |source| OpenError::Folder {
        path: data.display().to_string(),
        source,
    };
    let was_new = is_new(data);
    if was_new {
        note_making(data).map_err(failed)?;
    }
    let opened = open_database(write_options(data), FileAccess::Read, clock.now(), access).await;
    // SQLite makes the file before it finds the disk full.
    if was_new && opened.is_err() && is_new(data) {
        let _still_there = std::fs::remove_file(data.join("attache.db"));
    }
    // Left, it would stand for a database that loses its content later.
    if opened.is_ok() || !data.join("attache.db").exists() {
        note_made(data).map_err(failed)?;
    }
    opened
}

/// Opens the database by read-only connections, without migrations: every write is an error.
///
/// Errors: [`OpenError::Older`] for a database that the engine has not migrated yet.
pub(in crate::store) async fn open_to_read(workspace: &Path, clock: &dyn Clock) -> OpenResult {
    let data = workspace.join("data");
    refuse_leftovers(&data)?;
    let options = only_to_read(connect_options(&data))?;
    let readers = access_to_read(options.get_filename())?;
    open_database(options, readers, clock.now(), OpenedAs::ToRead).await
}

/// Opens the database by one connection that writes, and brings it up to date; where there is none, makes it. The caller has the
/// lock of the workspace.
pub(in crate::store) async fn connect_alone(
    data: &Path,
    now: Timestamp,
) -> Result<Connection, OpenError> {
    let failed = |source| OpenError::Folder {
        path: data.display().to_string(),
        source,
    };
    if is_new(data) {
        note_making(data).map_err(failed)?;
    }
    // A row may be a letter of 25 MB: few of them are buffered at a time.
    let options = write_options(data).row_buffer_size(2);
    let file = options.get_filename().to_path_buf();
    let noted = mark::noted(data);
    let mut conn = mark::require_whole_log(options.connect().await?, noted).await?;
    let opening = Opening {
        database: &file,
        is_engine: true,
        backup: UpgradeBackup::Made,
        now,
    };
    bring_up_to_date(&mut conn, &opening).await?;
    note_made(data).map_err(failed)?;
    Ok(conn.into())
}

/// Checks settings, and with an engine's opening the pages, and applies the migrations that are missing.
async fn bring_up_to_date(
    conn: &mut SqliteConnection,
    opening: &Opening<'_>,
) -> std::result::Result<(), OpenError> {
    if opening.is_engine {
        look_over(conn).await?;
    }
    read_back(conn).await?;
    // A command beside an engine of the same version writes nothing here, so that it works on a full disk.
    if migrate(conn, opening).await? || opening.is_engine {
        note_version(conn, opening.now).await?;
    }
    Ok(())
}

async fn open_database(
    options: SqliteConnectOptions,
    readers: FileAccess,
    now: Timestamp,
    access: OpenedAs,
) -> OpenResult {
    let file = options.get_filename().to_path_buf();
    let data = file.parent().unwrap_or(&file);
    let noted = mark::noted(data);
    let mut conn = mark::require_whole_log(options.connect().await?, noted).await?;
    let can_write = !matches!(access, OpenedAs::ToRead);
    match can_write {
        true => bring_up_to_date(&mut conn, &access.opening(&file, now)).await?,
        false => require_newest(&mut conn).await?,
    }
    let mut lock = access.lock();
    let engine = if lock.is_some() {
        RAISE_EPOCH
    } else {
        READ_EPOCH
    };
    // Fetched to the end: a failed commit is reported after the row, and an epoch that is not
    // on disk belongs to no engine.
    let engine = sqlx::query(engine).fetch_all(&mut conn).await?;
    let Some(engine) = engine.first() else {
        return Err(archive::refusal(&mut conn.into()).await);
    };
    let (epoch, loop_key) = (engine.get("epoch"), LoopKey::new(engine.get("loop_key")));
    let mark = (epoch, engine.get("mark"));
    if lock.is_some() {
        join_alone(&mut conn, &file, epoch, now).await?;
    }
    let readers = FileOptions::new(&file, readers, pragmas());
    let writer = FileOptions {
        access: match can_write {
            true => FileAccess::Write,
            false => readers.access,
        },
        ..readers.clone()
    };
    // Opened before the one that looked it over is closed: the last to close would copy the log back.
    let writer = writer.open()?;
    conn.close().await?;
    let is_engine = lock.is_some();
    let log = match is_engine {
        true => Log::new(Some(options), MarkFile::open(data, mark)),
        false => Log::new(None, None),
    };
    let identity = |source| OpenError::Folder {
        path: file.display().to_string(),
        source,
    };
    // Without the mark a missing database is created anew at the next start; that is no reason
    // to refuse this start.
    let _noted = lock.as_mut().map(note_opened);
    let engine = if is_engine {
        Some((epoch, FileIdentity::of(&file).map_err(identity)?))
    } else {
        None
    };
    let commits = CommitSignal::of_file(data, is_engine);
    let writer =
        GroupWriter::start(writer.into(), engine, log, commits.clone()).map_err(identity)?;
    Ok(Opened {
        writer: StoreWriter::Group(writer),
        readers: Pool::File(FilePool::new(readers)),
        epoch,
        loop_key,
        can_write,
        commits,
        heartbeat: None,
        _lock: lock,
    })
}

/// Takes the place of the engine before.
async fn join_alone(
    conn: &mut SqliteConnection,
    file: &Path,
    epoch: i64,
    now: Timestamp,
) -> std::result::Result<(), OpenError> {
    let workspace = file.parent().and_then(Path::parent).unwrap_or(file);
    let node = NodeIdentity::of(workspace);
    let join = sqlx::query(JOIN_ALONE)
        .bind(epoch)
        .bind(node.host)
        .bind(node.workspace)
        .bind(node.pid)
        .bind(node.version)
        .bind(now.to_string());
    join.execute(conn).await?;
    Ok(())
}

/// How a process opens the database.
enum OpenedAs {
    /// An engine, with its lock.
    Engine(File),
    /// A command, perhaps beside an engine.
    Shared(UpgradeBackup),
    ToRead,
}

impl OpenedAs {
    fn is_engine(&self) -> bool {
        matches!(self, OpenedAs::Engine(_))
    }

    fn opening<'a>(&self, database: &'a Path, now: Timestamp) -> Opening<'a> {
        let backup = match self {
            OpenedAs::Shared(backup) => *backup,
            OpenedAs::Engine(_) | OpenedAs::ToRead => UpgradeBackup::Made,
        };
        Opening {
            database,
            is_engine: self.is_engine(),
            backup,
            now,
        }
    }

    fn lock(self) -> Option<File> {
        match self {
            OpenedAs::Engine(lock) => Some(lock),
            OpenedAs::Shared(_) | OpenedAs::ToRead => None,
        }
    }
}

pub(in crate::store) const DATABASE_BYTES: &str =
    "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
/// Raises the epoch. In an archive no engine has an epoch, so no run is claimed, no provider called
/// and no mail sent there.
pub(in crate::store) const RAISE_EPOCH: &str = "
    UPDATE engine SET epoch = epoch + 1 WHERE id = 1 AND NOT EXISTS (SELECT 1 FROM archive)
    RETURNING epoch, loop_key, mark";
/// A reader writes nothing, so that it works on a full disk.
pub(in crate::store) const READ_EPOCH: &str =
    "SELECT epoch, loop_key, mark FROM engine WHERE id = 1";

fn write_options(data: &Path) -> SqliteConnectOptions {
    connect_options(data)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
}

fn connect_options(data: &Path) -> SqliteConnectOptions {
    let options = SqliteConnectOptions::new()
        .filename(data.join("attache.db"))
        .busy_timeout(Duration::from_secs(5))
        .statement_cache_capacity(STATEMENTS_CACHED)
        .disable_statement_logging();
    let set = |options: SqliteConnectOptions, (name, value)| options.pragma(name, value);
    pragmas().into_iter().fold(options, set)
}

/// Returns the settings of each connection.
fn pragmas() -> Vec<(&'static str, &'static str)> {
    vec![
        (
            "synchronous",
            if is_unsafe_sync() { "NORMAL" } else { "FULL" },
        ),
        ("foreign_keys", "ON"),
        ("trusted_schema", "OFF"),
        ("cell_size_check", "ON"),
        // A log that began anew keeps its first 16 MiB, because writing over a file costs less than
        // extending it.
        ("journal_size_limit", "16777216"),
        // The log is copied back by the side connection (`log.rs`); this is the bound if that
        // fails: 48 MiB.
        ("wal_autocheckpoint", "12288"),
        ("cache_size", "-8192"),
        // The undo list of a savepoint is a temporary file as soon as it is longer than 64 KiB.
        ("temp_store", "MEMORY"),
    ]
}

/// Makes the folder `data` of a workspace.
pub(in crate::store) fn data_folder(workspace: &Path) -> Result<std::path::PathBuf, OpenError> {
    let data = workspace.join("data");
    let made = std::fs::create_dir_all(&data);
    made.map_err(|source| OpenError::Folder {
        path: data.display().to_string(),
        source,
    })?;
    Ok(data)
}

/// Refuses a damaged database before anything is written into it. A large one is not checked at
/// every start (300 MB/s, decision D-35): `attache doctor` does that while an engine runs.
async fn look_over(conn: &mut SqliteConnection) -> Result<(), OpenError> {
    let bytes: i64 = sqlx::query_scalar(DATABASE_BYTES)
        .fetch_one(&mut *conn)
        .await?;
    if bytes > LOOKED_OVER_BYTES_MAX {
        tracing::debug!(
            bytes,
            "the database is not looked over at the start: it is too large"
        );
        return Ok(());
    }
    require_whole(conn).await
}

/// Reads the pragmas back: they are per connection and may silently not take, and the guarantees
/// depend on them.
async fn read_back(conn: &mut SqliteConnection) -> Result<(), OpenError> {
    let journal: String = sqlx::query_scalar("PRAGMA journal_mode")
        .fetch_one(&mut *conn)
        .await?;
    if !journal.eq_ignore_ascii_case("wal") {
        return Err(OpenError::Unsafe {
            pragma: "journal_mode",
            found: journal,
            wanted: "wal",
        });
    }
    let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous")
        .fetch_one(&mut *conn)
        .await?;
    if synchronous != 2 && !is_unsafe_sync() {
        return Err(OpenError::Unsafe {
            pragma: "synchronous",
            found: synchronous.to_string(),
            wanted: "2 (FULL)",
        });
    }
    conn.ping().await?;
    Ok(())
}
