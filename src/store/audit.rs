//! Invariants of a database, as a list of named checks; each is a statement that returns the
//! violations.
//!
//! The same list serves `attache doctor --audit` and the tests that audit their database. While an
//! engine runs each check is one statement, so one snapshot: no transaction is half visible. Rows
//! that an engine left open when it died are no violation, because the next start recovers them
//! ([`PendingWork`]); rows that are still open after that are a violation.

mod mail;
mod memory;
mod runs;
mod whole;
mod hashes;
use crate::store::db::{self, Connection, Sql};
use crate::store::maintenance::versions::require_newest;
use crate::store::postgres::open as server;
use crate::store::postgres::refusal::is_passing;
use crate::store::postgres::url::{DatabaseUrl, Session};
use crate::store::sqlite::files::log_of;
use crate::store::sqlite::mark;
use crate::store::sqlite::open::LOOKED_OVER_BYTES_MAX;
use crate::store::sqlite::open_error::is_damage;
use crate::store::sqlite::read_only::only_to_read;
use crate::store::{OpenError, Result};
use futures_util::TryStreamExt;
use sqlx::ConnectOptions;
use sqlx::error::DatabaseError;
use sqlx::sqlite::SqliteConnectOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Most violations of a check that are listed.
const LISTED_MAX: usize = 20;
/// Length of the write-ahead log, in bytes, above which a reader or a lock must be holding it back;
/// the database may keep 64 MB (`journal_size_limit`).
pub const LOG_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Steps of SQLite that the statements of a quick look share: about a second. A database of some thousand letters needs fewer.
const GLANCE_STEPS: u64 = 12_000_000;
/// Steps between two looks at what is left of them.
const STEPS_BETWEEN_LOOKS: u16 = 1000;
/// The same for a server, which counts no steps: the time of one statement.
const GLANCE_OF_SERVER: Sql = Sql::same("SET statement_timeout = '250ms'");
/// Newest bytes of each kind that a quick look hashes.
const GLANCE_BYTES: u64 = 16 * 1024 * 1024;

/// Condition under which a check holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// After every commit, also while an engine works.
    Always,
    /// At rest: an idle engine has finished all due work.
    AtRest,
}

/// An invariant with its statement.
#[derive(Debug)]
pub struct AuditCheck {
    /// The group, `AU1` to `AU15`.
    pub group: &'static str,
    /// Stable, in kebab case.
    pub name: &'static str,
    /// The invariant, as a sentence about each row.
    pub says: &'static str,
    /// Remedy for the operator.
    pub hint: &'static str,
    pub holds: Holds,
    sql: Sql,
}

impl AuditCheck {
    /// Returns the check as one that failed.
    fn broken(&self, count: u64, what: Vec<String>) -> Broken {
        Broken {
            group: self.group,
            name: self.name,
            says: self.says,
            hint: self.hint,
            count,
            what,
        }
    }
}

/// Returns every check that is a statement, in the order of execution.
pub fn checks() -> impl Iterator<Item = &'static AuditCheck> {
    [whole::CHECKS, mail::CHECKS, runs::CHECKS, memory::CHECKS]
        .into_iter()
        .flatten()
}

/// Selection of checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditScope {
    /// `true`: also read every page and hash all bytes, which takes as long as reading the file.
    pub bytes: bool,
    /// `true`: also the checks that hold only at rest.
    pub at_rest: bool,
}

/// A failed check.
#[derive(Debug)]
pub struct Broken {
    pub group: &'static str,
    pub name: &'static str,
    pub says: &'static str,
    pub hint: &'static str,
    pub count: u64,
    /// Violations, at most twenty: ids, or SQLite's message.
    pub what: Vec<String>,
}

impl Broken {
    /// Returns the number of violations that are not listed.
    pub fn unlisted(&self) -> u64 {
        self.count - self.what.len() as u64
    }
}

/// Rows that the next start of an engine recovers; an engine works on them now, or is gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PendingWork {
    pub runs: u64,
    pub deliveries: u64,
    /// Provider calls whose end is unknown.
    pub calls: u64,
    /// Held letters, which wait until a name server answers about their sender.
    pub letters: u64,
}

/// Result of an audit.
#[derive(Debug, Default)]
pub struct Findings {
    /// Number of checks made.
    pub made: usize,
    pub broken: Vec<Broken>,
    pub pending: PendingWork,
    /// Bytes that were hashed.
    pub bytes_hashed: u64,
    /// Checks that would have read more than a quick look may. What they found before is in `broken`.
    pub unfinished: Vec<&'static str>,
}

/// A read-only connection to a database: it takes no lock, runs no migration and folds no log in.
pub struct Audit {
    conn: Connection,
    /// The file, where the database is one.
    path: Option<PathBuf>,
    manner: Manner,
}

/// How the checks are made.
pub(in crate::store) struct Manner {
    glance: Option<Glance>,
    /// Told which check is made.
    tell: Box<dyn Fn(String) + Send + Sync>,
}

impl Default for Manner {
    fn default() -> Self {
        Self {
            glance: None,
            tell: Box::new(|_| {}),
        }
    }
}

/// Work that a quick look may still do. It counts steps and bytes, not time: two looks at one database find the same.
struct Glance {
    /// Steps that no statement has yet.
    steps: u64,
    /// Those that the current statement may still make.
    current: Arc<AtomicU64>,
    /// `true`: the file is small enough to read all its pages.
    reads_pages: bool,
}

impl Glance {
    /// Gives the next of so many checks its share of what is left: what one does not need, the others have.
    fn share(&mut self, checks: usize) {
        self.steps += self.current.swap(0, Ordering::Relaxed);
        let share = self.steps / (checks as u64).max(1);
        self.steps -= share;
        self.current.store(share, Ordering::Relaxed);
    }

    /// Lets statements end that are bounded by themselves.
    fn unbounded(&mut self) {
        self.current.store(u64::MAX, Ordering::Relaxed);
    }
}

pub(super) const PENDING: &str = "
    SELECT (SELECT count(*) FROM runs WHERE state = 'running') AS runs,
      (SELECT count(*) FROM deliveries WHERE state IN ('sending', 'committing')) AS deliveries,
      (SELECT count(*) FROM budget_reservations)
        + (SELECT count(*) FROM embedding_calls WHERE state = 'open') AS calls, (SELECT count(*) FROM held_letters) AS letters";

impl Findings {
    /// Reports whether the file itself is damaged: what the other checks found may come of that, and their remedies do not help.
    pub fn is_damaged(&self) -> bool {
        self.broken.iter().any(|broken| broken.name == whole::PAGES)
    }

    /// Adds what could not be read to the check of pages.
    fn unread(&mut self, mut what: Vec<String>) {
        if what.is_empty() {
            return;
        }
        let is_pages = |broken: &&mut Broken| broken.name == whole::PAGES;
        if let Some(known) = self.broken.iter_mut().find(is_pages) {
            known.count += what.len() as u64;
            known.what.append(&mut what);
            known.what.truncate(LISTED_MAX);
            return;
        }
        let count = what.len() as u64;
        what.truncate(LISTED_MAX);
        self.broken.insert(0, whole::CHECKS[0].broken(count, what));
    }
}

impl Audit {
    /// Opens the database file at `path`, also while an engine runs.
    ///
    /// Errors: [`OpenError::Older`] and [`OpenError::Newer`] when its schema is not the one of this
    /// program.
    pub async fn open(path: &Path) -> std::result::Result<Self, OpenError> {
        Self::open_noted(path, None).await
    }

    async fn open_noted(
        path: &Path,
        noted: Option<mark::Noted>,
    ) -> std::result::Result<Self, OpenError> {
        let options = only_to_read(SqliteConnectOptions::new().filename(path))?;
        let options = options
            .busy_timeout(Duration::from_secs(5))
            .pragma("cell_size_check", "ON");
        // A row may be a letter of 25 MB: few of them are buffered at a time.
        let options = options
            .pragma("trusted_schema", "OFF")
            .row_buffer_size(2)
            .disable_statement_logging();
        let mut conn = mark::require_whole_log(options.connect().await?, noted).await?;
        require_newest(&mut conn).await?;
        Ok(Self {
            conn: conn.into(),
            path: Some(path.to_owned()),
            manner: Manner::default(),
        })
    }

    /// Opens the database of a workspace, which is a file or on a server.
    pub async fn of_workspace(workspace: &Path) -> std::result::Result<Self, OpenError> {
        match DatabaseUrl::of(workspace)? {
            None => {
                let data = workspace.join("data");
                Self::open_noted(&data.join("attache.db"), mark::noted(&data)).await
            }
            Some(url) => Ok(Self {
                conn: server::connect_to_read(&url, Session::ReadAll).await?,
                path: None,
                manner: Manner::default(),
            }),
        }
    }

    /// Bounds the audit to a quick look: some seconds, however large the database is. Each check reads as much as its share
    /// allows, and the newest bytes are hashed.
    pub async fn at_a_glance(mut self) -> std::result::Result<Self, OpenError> {
        let current = Arc::new(AtomicU64::new(GLANCE_STEPS));
        match &mut self.conn {
            Connection::Sqlite(conn) => {
                let left = current.clone();
                let take = move |left: u64| left.checked_sub(STEPS_BETWEEN_LOOKS.into());
                let go_on = move || {
                    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                        .is_ok()
                };
                conn.lock_handle()
                    .await?
                    .set_progress_handler(STEPS_BETWEEN_LOOKS.into(), go_on);
            }
            conn => {
                db::raw_sql(GLANCE_OF_SERVER).execute(conn).await?;
            }
        }
        let bytes = self
            .path
            .as_deref()
            .map_or(Ok(0), |path| std::fs::metadata(path).map(|file| file.len()));
        self.manner.glance = Some(Glance {
            steps: 0,
            current,
            reads_pages: bytes.is_ok_and(|bytes| bytes <= LOOKED_OVER_BYTES_MAX.unsigned_abs()),
        });
        Ok(self)
    }

    /// Tells `tell` what the audit does.
    pub fn telling(mut self, tell: impl Fn(String) + Send + Sync + 'static) -> Self {
        self.manner.tell = Box::new(tell);
        self
    }

    /// Makes the checks in order.
    pub async fn examine(&mut self, wanted: AuditScope) -> Result<Findings> {
        let mut findings = examine(&mut self.conn, wanted, &mut self.manner).await?;
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

    /// Returns the length of the write-ahead log, in bytes.
    pub fn log_bytes(&self) -> u64 {
        let log = self.path.as_deref().map(log_of);
        let found = log.and_then(|log| std::fs::metadata(log).ok());
        found.map_or(0, |log| log.len())
    }
}

/// Makes the checks that need only a connection.
pub(in crate::store) async fn examine(
    conn: &mut Connection,
    wanted: AuditScope,
    manner: &mut Manner,
) -> Result<Findings> {
    let (mut findings, mut unread) = (Findings::default(), Vec::new());
    let is_server = conn.postgres().is_some();
    let is_wanted = |check: &&AuditCheck| match check.holds {
        _ if is_server && whole::OF_SQLITE.contains(&check.name) => false,
        _ if check.name == whole::PAGES => wanted.bytes,
        Holds::Always => true,
        Holds::AtRest => wanted.at_rest,
    };
    let mut wanted_checks: Vec<&AuditCheck> = checks().filter(is_wanted).collect();
    if manner.glance.is_some() {
        // Those of the whole file read most: they have what the others did not need.
        wanted_checks.reverse();
    }
    for (at, check) in wanted_checks.iter().enumerate() {
        let of = wanted_checks.len();
        (manner.tell)(format!("check {} of {of}, {}", at + 1, check.name));
        match &mut manner.glance {
            Some(glance) if check.name == whole::PAGES && !glance.reads_pages => {
                findings.unfinished.push(check.name);
                continue;
            }
            Some(glance) if check.name == whole::PAGES => glance.unbounded(),
            Some(glance) => glance.share(of - at),
            None => {}
        }
        let (mut count, mut what) = (0, Vec::new());
        match broken(conn, &check.sql, &mut count, &mut what).await {
            Ok(()) => findings.made += 1,
            Err(error) if manner.glance.is_some() && is_cut_short(&error) => {
                findings.unfinished.push(check.name);
            }
            // It says nothing of the rows that the check is about.
            Err(error) if is_damage(&error) => {
                findings.made += 1;
                unread.push(format!("`{}`: {error}", check.name));
                continue;
            }
            // Of a server that is away nothing is known, and nothing is broken.
            Err(error) if is_server && is_passing(&error) => return Err(error.into()),
            // A page that cannot be read is a finding of the audit, not its failure.
            Err(error) => {
                findings.made += 1;
                (count, what) = (1, vec![error.to_string()]);
            }
        }
        if count > 0 {
            findings.broken.push(check.broken(count, what));
        }
    }
    if let Some(glance) = &mut manner.glance {
        findings.broken.reverse();
        glance.unbounded();
    }
    if wanted.bytes {
        hashes::examine(conn, &mut findings, &mut unread, manner).await?;
    }
    findings.unread(unread);
    let pending = match conn.row(PENDING, ()).await {
        Err(_) if findings.is_damaged() => return Ok(findings),
        pending => pending?,
    };
    let count = |column: &str| pending.get::<i64>(column).unsigned_abs();
    findings.pending = PendingWork {
        runs: count("runs"),
        deliveries: count("deliveries"),
        calls: count("calls"),
        letters: count("letters"),
    };
    Ok(findings)
}

/// Counts the rows of a statement, and returns the first of them, those before an error too.
async fn broken(
    conn: &mut Connection,
    sql: &Sql,
    count: &mut u64,
    what: &mut Vec<String>,
) -> std::result::Result<(), db::Error> {
    let mut rows = db::query(sql).fetch(conn);
    while let Some(row) = rows.try_next().await? {
        *count += 1;
        if what.len() < LISTED_MAX {
            let id: Option<String> = row.to()?;
            what.push(id.unwrap_or_else(|| "(no id)".to_owned()));
        }
    }
    Ok(())
}

/// Reports whether a statement ended because a quick look may do no more.
fn is_cut_short(error: &db::Error) -> bool {
    let code = error.as_database_error().and_then(DatabaseError::code);
    // SQLITE_INTERRUPT, and `query_canceled` of a server.
    code.is_some_and(|code| code == "9" || code == "57014")
}
