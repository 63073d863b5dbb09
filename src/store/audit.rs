//! What must be true of a database, as a list of named checks; each is a statement that yields what breaks it.
//!
//! The list is one for everybody: `attache doctor --audit`, and every test that looks after itself. Beside a running
//! engine each check is one statement, so one snapshot: nothing is half written. What an engine that is gone left in its
//! hands is no violation, because its next start takes it back ([`Pending`]); what stays after that is one.

mod mail;
mod runs;
mod whole;
mod hashes;

use super::backup::log_of;
use super::open::{NEWEST_MIGRATION, require_newest};
use super::read_only::only_to_read;
use super::{OpenError, Result};
use futures_util::TryStreamExt;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Row};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What breaks a check, as far as it is listed.
const LISTED_MAX: usize = 20;
/// The database may keep 64 MB of its log (`journal_size_limit`); this much says that something holds it back.
pub const LOG_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// When a check holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// After every commit, beside a working engine too.
    Always,
    /// When an engine that nobody gives anything has worked off what was due.
    AtRest,
}

/// One thing that must be true.
#[derive(Debug)]
pub struct Check {
    /// The group, `AU1` to `AU14`.
    pub group: &'static str,
    /// Stable, in kebab case.
    pub name: &'static str,
    /// What is true of each thing that it lists.
    pub says: &'static str,
    /// What to do about it.
    pub hint: &'static str,
    pub holds: Holds,
    sql: &'static str,
}

/// Every check that is a statement, in the order in which they are made.
pub fn checks() -> impl Iterator<Item = &'static Check> {
    [whole::CHECKS, mail::CHECKS, runs::CHECKS].into_iter().flatten()
}

/// Which checks to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Also read every page and hash all bytes, which takes as long as reading the file does.
    pub bytes: bool,
    /// Also those that hold only at rest.
    pub at_rest: bool,
}

/// A check that is broken.
#[derive(Debug)]
pub struct Broken {
    pub group: &'static str,
    pub name: &'static str,
    pub says: &'static str,
    pub hint: &'static str,
    pub count: u64,
    /// What breaks it, at most twenty: ids, or what SQLite says.
    pub what: Vec<String>,
}

/// What the next start of an engine takes back: an engine is at it now, or it is gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pending {
    pub runs: u64,
    pub deliveries: u64,
    /// Calls of a provider that nobody knows the end of.
    pub calls: u64,
    /// Letters that wait until a name server says who sent them.
    pub letters: u64,
}

/// What an audit found.
#[derive(Debug, Default)]
pub struct Findings {
    /// Checks that were made.
    pub made: usize,
    pub broken: Vec<Broken>,
    pub pending: Pending,
    /// Bytes that were hashed.
    pub bytes_hashed: u64,
}

/// A database that is looked at and not changed: no lock is taken, no migration made, no log folded in.
pub struct Audit {
    conn: SqliteConnection,
    path: PathBuf,
}

pub(super) const PENDING: &str = "
    SELECT (SELECT count(*) FROM runs WHERE state = 'running'),
      (SELECT count(*) FROM deliveries WHERE state IN ('sending', 'committing')),
      (SELECT count(*) FROM purse_reservations), (SELECT count(*) FROM held_letters)";

impl Audit {
    /// Opens the database file at `path`, also beside a running engine.
    ///
    /// Errors: [`OpenError::Older`] and [`OpenError::Newer`] when its tables are not those that this program knows.
    pub async fn open(path: &Path) -> std::result::Result<Self, OpenError> {
        let options = only_to_read(SqliteConnectOptions::new().filename(path))?;
        let options = options.busy_timeout(Duration::from_secs(5)).pragma("cell_size_check", "ON");
        // A row may be a letter of 25 MB: few of them wait for us at a time.
        let options = options.pragma("trusted_schema", "OFF").row_buffer_size(2).disable_statement_logging();
        let mut conn = options.connect().await?;
        let newest: Option<i64> = sqlx::query_scalar(NEWEST_MIGRATION).fetch_one(&mut conn).await?;
        require_newest(newest.unwrap_or(0))?;
        Ok(Self { conn, path: path.to_owned() })
    }

    /// Makes the checks, one after the other.
    pub async fn examine(&mut self, wanted: Wanted) -> Result<Findings> {
        let mut findings = examine(&mut self.conn, wanted).await?;
        findings.made += 1;
        let log = self.log_bytes();
        if log > LOG_BYTES_MAX {
            findings.broken.push(Broken {
                group: "AU12",
                name: "log-too-long",
                says: "the write-ahead log is longer than it should ever be",
                hint: "something keeps the database open and reads: end it, and the engine folds the log in",
                count: 1,
                what: vec![format!("{log} bytes")],
            });
        }
        Ok(findings)
    }

    /// Length of the write-ahead log.
    pub fn log_bytes(&self) -> u64 {
        std::fs::metadata(log_of(&self.path)).map_or(0, |log| log.len())
    }
}

/// Makes the checks that need only a connection.
pub async fn examine(conn: &mut SqliteConnection, wanted: Wanted) -> Result<Findings> {
    let mut findings = Findings::default();
    let is_wanted = |check: &&Check| match check.holds {
        _ if check.name == whole::PAGES => wanted.bytes,
        Holds::Always => true,
        Holds::AtRest => wanted.at_rest,
    };
    for check in checks().filter(is_wanted) {
        findings.made += 1;
        let (count, what) = match broken(conn, check.sql).await {
            Ok(broken) => broken,
            // A page that cannot be read is what an audit is for.
            Err(error) => (1, vec![error.to_string()]),
        };
        if count > 0 {
            let Check { group, name, says, hint, .. } = *check;
            findings.broken.push(Broken { group, name, says, hint, count, what });
        }
    }
    if wanted.bytes {
        hashes::examine(conn, &mut findings).await?;
    }
    let pending = sqlx::query(PENDING).fetch_one(conn).await?;
    let count = |column| pending.get::<i64, _>(column).unsigned_abs();
    findings.pending = Pending { runs: count(0), deliveries: count(1), calls: count(2), letters: count(3) };
    Ok(findings)
}

/// How many rows a statement has, and the first of them.
async fn broken(
    conn: &mut SqliteConnection,
    sql: &'static str,
) -> std::result::Result<(u64, Vec<String>), sqlx::Error> {
    let (mut count, mut what) = (0, Vec::new());
    let mut rows = sqlx::query(sql).fetch(conn);
    while let Some(row) = rows.try_next().await? {
        count += 1;
        if what.len() < LISTED_MAX {
            what.push(row.try_get::<Option<String>, _>(0)?.unwrap_or_else(|| "(no id)".to_owned()));
        }
    }
    Ok((count, what))
}
