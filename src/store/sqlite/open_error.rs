//! Reasons why a database could not be opened.

use crate::domain::Timestamp;
use crate::store::StoreError;
use crate::store::migrations::newest_known;
use crate::store::sqlite::refusal::{FULL, is_one_of};
use sqlx::migrate::MigrateError;

/// Reason why a workspace's database could not be opened.
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
    Unsafe {
        pragma: &'static str,
        found: String,
        wanted: &'static str,
    },
    /// SQLite cannot follow the database from page to page; `found` is where it gave up.
    #[error("the database is damaged: {found}")]
    Damaged { found: String },
    /// What `ATTACHE_DATABASE_URL` or a command names is no address of a database; why. It may hold a password, and is not
    /// repeated.
    #[error("the address of the database cannot be used: {0}")]
    DatabaseUrl(&'static str),
    /// The lease of a node has a length that it may not have.
    #[error("ATTACHE_NODE_LEASE_SECONDS is no number of seconds from 2 to 60")]
    LeaseSeconds,
    /// A database on a server has no tables yet.
    #[error("the database has no tables yet")]
    NotMade,
    /// The workspace has a file, and names a database on a server.
    #[error("`data/attache.db` is there, and ATTACHE_DATABASE_URL names another database, {place}")]
    TwoDatabases { place: String },
    /// The server does not answer, or refuses who asks.
    #[error("cannot use the database {place}")]
    NoServer {
        place: String,
        #[source]
        source: sqlx::Error,
    },
    /// The server of the database does not keep what is promised.
    #[error("the database server has {setting} = {found}, and promises need {wanted}")]
    Server {
        setting: &'static str,
        found: String,
        wanted: String,
        /// Statement, or step, that mends it.
        remedy: String,
    },
    #[error("cannot open the database")]
    Sql(#[source] sqlx::Error),
    /// Another process creates or migrates the database, and has not finished in time.
    #[error("another process ({pid}) is opening the database")]
    Opening { pid: String },
    #[error("cannot bring the database up to date")]
    Migrate(#[source] MigrateError),
    /// The database has a migration of this number, which this program does not know. `version`: who wrote it, if it says so.
    #[error("{}", newer(*migration, version.as_deref()))]
    Newer {
        migration: i64,
        version: Option<String>,
    },
    /// An engine of an earlier version works with the tables as they are.
    #[error(
        "the engine that works here (process {pid}) is of an earlier version than this program, which would change its tables"
    )]
    EngineIsOlder { pid: String },
    /// Nodes of an earlier version work with the tables as they are.
    #[error(
        "nodes of an earlier version work on this database, and this program would change its tables: {nodes}"
    )]
    NodesAreOlder { nodes: String },
    /// Nodes work on a database that is to be had alone.
    #[error("nodes work on this database: {nodes}")]
    NodesAtWork { nodes: String },
    /// A node with the identity of this machine and folder lives, and is another process.
    #[error("a node of this identity is at work: process {pid} of {node}")]
    NodeLives { node: String, pid: i64 },
    /// The copy that is made before an upgrade does not fit.
    #[error(
        "the database is copied before it is brought up to date; that needs {needed} bytes in `{folder}`, and {free} are free"
    )]
    NoRoom {
        needed: u64,
        free: u64,
        folder: String,
    },
    /// The copy that was made before an upgrade is not what it should be.
    #[error(
        "the copy `{file}`, made before the database is brought up to date, is not good: {found}"
    )]
    NotBackedUp { file: String, found: String },
    /// The database was filled by `attache replay import`.
    #[error("this workspace holds runs that were brought from elsewhere; no engine works there")]
    Archive,
    /// All rows were copied to another database.
    #[error("the rows of this database were moved to {to}; no engine works here any more")]
    MovedAway { to: String },
    /// A transfer of all rows into this database began and did not end.
    #[error("a move of all rows from {from} into this database did not end")]
    HalfMoved { from: String },
    /// The database is missing; a new one in its place would have lost every accepted letter.
    #[error("the database is missing, and `{left}` is left of it")]
    Gone { left: String },
    /// A restore began and did not end; `left` is its mark.
    #[error("a restore into this workspace was interrupted: `{left}` is left of it")]
    HalfRestored { left: String },
    /// The database is a file without a byte, which this program leaves behind beside a mark only.
    #[error("the database `{path}` is empty, which no database of attache is")]
    Empty { path: String },
    /// The database replaced another one, whose log is still there.
    #[error("the log `{log}` does not belong to the database beside it")]
    ForeignLog { log: String },
    /// The database lacks what was stored up to that time.
    #[error(
        "the newest commits of this database, up to {at}, are missing: its log `data/attache.db-wal` was removed, or an older copy was put in its place"
    )]
    LogLost { at: Timestamp },
    /// The newest commits are in a log that cannot be read without writing beside it.
    #[error(
        "nothing can be written beside the database, and without that its log `{log}` cannot be read"
    )]
    LogUnread { log: String },
    /// The database lacks migrations, and was opened read-only.
    #[error("the database was written by an older attache (it lacks migration {0})")]
    Older(i64),
    /// The database has the schema of a development version before 0.2.0, from which nothing is brought over.
    #[error(
        "the database was written by a development version before 0.2.0, which this version cannot read"
    )]
    Development,
    /// It has tables, and none of the engine's.
    #[error("`data/attache.db` is a database of another program")]
    Foreign,
}

impl OpenError {
    /// Reports whether the disk has no room for what opening writes.
    pub fn is_for_want_of_room(&self) -> bool {
        matches!(self, OpenError::Sql(error) if is_one_of(error, &[FULL]))
    }
}

/// Names both versions.
fn newer(migration: i64, version: Option<&str>) -> String {
    let by = version.map_or("a newer attache".to_owned(), |version| {
        format!("attache {version}")
    });
    format!(
        "the database was written by {by} (it has migration {migration}), which this program, attache {}, does not \
         know: its newest is {}",
        env!("CARGO_PKG_VERSION"),
        newest_known()
    )
}

impl From<StoreError> for OpenError {
    fn from(error: StoreError) -> Self {
        sqlx::Error::from(error).into()
    }
}

impl From<sqlx::Error> for OpenError {
    fn from(error: sqlx::Error) -> Self {
        match is_damage(&error) {
            true => OpenError::Damaged {
                found: error.to_string(),
            },
            false => OpenError::Sql(error),
        }
    }
}

/// Reports whether SQLite could not follow the database from page to page.
pub fn is_damage(error: &sqlx::Error) -> bool {
    // SQLITE_CORRUPT and SQLITE_NOTADB.
    is_one_of(error, &[11, 26])
}
