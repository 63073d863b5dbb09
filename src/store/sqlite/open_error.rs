//! Reasons why a database could not be opened.

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
    #[error("cannot open the database")]
    Sql(#[source] sqlx::Error),
    /// Another process creates or migrates the database, and has not finished in time.
    #[error("another process ({pid}) is opening the database")]
    Opening { pid: String },
    #[error("cannot bring the database up to date")]
    Migrate(#[source] MigrateError),
    /// The database has a migration of this number, which this program does not know.
    #[error("the database was written by a newer attache (it has migration {0})")]
    Newer(i64),
    /// The database was filled by `attache replay import`.
    #[error("this workspace holds runs that were brought from elsewhere; no engine works there")]
    Archive,
    /// The database is missing; a new one in its place would have lost every accepted letter.
    #[error("the database is missing, and `{left}` is left of it")]
    Gone { left: String },
    /// The database replaced another one, whose log is still there.
    #[error("the log `{log}` does not belong to the database beside it")]
    ForeignLog { log: String },
    /// The newest commits are in a log that cannot be read without writing beside it.
    #[error(
        "nothing can be written beside the database, and without that its log `{log}` cannot be read"
    )]
    LogUnread { log: String },
    /// The database lacks migrations, and was opened read-only.
    #[error("the database was written by an older attache (it lacks migration {0})")]
    Older(i64),
}

impl From<sqlx::Error> for OpenError {
    fn from(error: sqlx::Error) -> Self {
        // SQLITE_CORRUPT and SQLITE_NOTADB, in the low byte of every extended code.
        let code = error
            .as_database_error()
            .and_then(|error| error.code()?.parse::<i64>().ok());
        match code.map(|code| code & 0xff) {
            Some(11 | 26) => OpenError::Damaged {
                found: error.to_string(),
            },
            _ => OpenError::Sql(error),
        }
    }
}
