//! The database's files: whether they are those of one database that this program can open.

use super::finding::{ExaminedArea, FindingArea, FindingSeverity, InstallFinding};
use crate::cli::process::exit::of_open;
use crate::cli::screen::one_line;
use crate::clock::SystemClock;
use crate::config::{Config, ImapMailbox};
use crate::gateway::failing::{FailingServer, failing_servers};
use crate::keeping::newest_good_backup;
use crate::store::{InstallRecords, OpenError, Store, StoreError};
use crate::text::with_causes;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Size from which free pages are worth a smaller copy, in bytes.
const FREE_BYTES_MIN: u64 = 256 * 1024 * 1024;
/// What a rollback journal ends with, of a program that has opened the database in another mode.
const JOURNAL: &str = "data/attache.db-journal";

/// The database of a workspace as far as it can be read.
pub enum DatabaseState {
    /// There is none, and nothing is left of one.
    Missing,
    Opened {
        records: Box<InstallRecords>,
        /// Reason why no engine starts in it.
        refusal: Option<OpenError>,
        /// Servers that fail, as the engine has recorded them.
        failing: Vec<FailingServer>,
    },
    Unopened(OpenError),
    Unread(StoreError),
}

impl DatabaseState {
    /// Opens the database to read it; no migration is made. `mailboxes`: those of the configuration.
    pub async fn of(workspace: &Path, mailboxes: &[ImapMailbox]) -> Self {
        let data = workspace.join("data");
        if data.exists() && !data.is_dir() {
            let source = io::Error::from(io::ErrorKind::AlreadyExists);
            let path = "data".to_owned();
            return Self::Unopened(OpenError::Folder { path, source });
        }
        let store = match Store::open_to_read(workspace, Arc::new(SystemClock::new())).await {
            Ok(store) => store,
            // What another database has left is told before SQLite is asked.
            Err(OpenError::Sql(_)) if !data.join("attache.db").exists() => return Self::Missing,
            Err(OpenError::NotMade) => return Self::Missing,
            Err(error) => return Self::Unopened(error),
        };
        let read = async {
            let records = Box::new(store.install_records().await?);
            let refusal = store.engine_refusal().await?;
            let failing = failing_servers(&store, mailboxes).await?;
            Ok(Self::Opened {
                records,
                refusal,
                failing,
            })
        };
        let read = read.await;
        store.close().await;
        match read {
            Ok(opened) => opened,
            Err(error) => Self::Unread(error),
        }
    }

    fn is_damaged(&self) -> bool {
        match self {
            Self::Unopened(error) => matches!(error, OpenError::Damaged { .. }),
            Self::Unread(error) => error.is_damage(),
            Self::Missing | Self::Opened { .. } => false,
        }
    }

    /// Returns what the records tell; `None`: they cannot be read.
    pub fn records(&self) -> Option<&InstallRecords> {
        match self {
            Self::Opened { records, .. } => Some(records),
            _ => None,
        }
    }

    /// Returns the reason why no engine starts in a database that can be read.
    pub fn refusal(&self) -> Option<&OpenError> {
        match self {
            Self::Opened { refusal, .. } => refusal.as_ref(),
            _ => None,
        }
    }
}

/// The database's files as they are found.
pub struct DatabaseFacts<'a> {
    pub state: &'a DatabaseState,
    pub has_journal: bool,
    /// What to do with the file, where it is damaged.
    pub repair: Option<String>,
}

static CHECKS: &[fn(&DatabaseFacts<'_>) -> Vec<InstallFinding>] = &[
    missing,
    unopened,
    journal,
    free_pages,
    half_erased,
    without_engine,
];

/// Says what to do with a damaged database, with the newest good backup that lies here.
pub fn repair(workspace: &Path, config: Option<&Config>, state: &DatabaseState) -> String {
    let known = state
        .records()
        .and_then(|records| records.last_backup.as_ref())
        .map(|backup| workspace.join(&backup.file));
    let scheduled = config.and_then(|config| config.keeping.backup.as_ref());
    let here = workspace.join("data/backups");
    let folders: Vec<&Path> = scheduled
        .map(|backup| backup.folder.as_path())
        .into_iter()
        .chain([here.as_path()])
        .collect();
    let backup = known
        .filter(|file| file.exists())
        .or_else(|| newest_good_backup(&folders));
    let backup = match backup {
        Some(backup) => format!(
            "restore the newest good backup, `{0}` (`attache restore {0} --to DIR`)",
            backup.display()
        ),
        None => {
            "restore the newest good backup (`attache restore BACKUP --to DIR`): none is known here"
                .to_owned()
        }
    };
    format!(
        "stop the engine, keep a copy of `data` as it is, and {backup}; without one, `sqlite3 data/attache.db .recover` saves what \
         can be read"
    )
}

pub fn examine(workspace: &Path, state: &DatabaseState, config: Option<&Config>) -> ExaminedArea {
    let facts = DatabaseFacts {
        state,
        has_journal: workspace.join(JOURNAL).exists(),
        repair: state.is_damaged().then(|| repair(workspace, config, state)),
    };
    ExaminedArea::of(CHECKS, &facts)
}

fn finding(severity: FindingSeverity, what: String, remedy: &str) -> InstallFinding {
    InstallFinding::new(FindingArea::Database, severity, what, remedy)
}

fn missing(facts: &DatabaseFacts<'_>) -> Vec<InstallFinding> {
    if !matches!(facts.state, DatabaseState::Missing) {
        return Vec::new();
    }
    let what = "there is no database yet".to_owned();
    let remedy = "the first start of an engine makes it: `attache serve`, or `attache drain`";
    vec![finding(FindingSeverity::Note, what, remedy).of_file("data/attache.db")]
}

fn unopened(facts: &DatabaseFacts<'_>) -> Vec<InstallFinding> {
    let usual = || "see whose files in `data` are, and that the disk is well".to_owned();
    let (severity, what, remedy) = match facts.state {
        // The journal is the reason, and a finding of its own.
        DatabaseState::Unopened(OpenError::Sql(_)) if facts.has_journal => return Vec::new(),
        DatabaseState::Unopened(error @ OpenError::Damaged { .. }) => (
            FindingSeverity::Fault,
            one_line(&error.to_string()),
            facts.repair.clone(),
        ),
        DatabaseState::Unread(error) if error.is_damage() => (
            FindingSeverity::Fault,
            format!("the database is damaged: {}", with_causes(error)),
            facts.repair.clone(),
        ),
        DatabaseState::Unopened(error) => {
            (severity_of(error), with_causes(error), of_open(error).1)
        }
        DatabaseState::Unread(error) => (FindingSeverity::Fault, with_causes(error), None),
        _ => return Vec::new(),
    };
    let found = finding(severity, what, &remedy.unwrap_or_else(usual));
    vec![found.of_file("data/attache.db")]
}

/// What a move or an import left in it: it can be read, and no engine starts.
fn without_engine(facts: &DatabaseFacts<'_>) -> Vec<InstallFinding> {
    let Some(error) = facts.state.refusal() else {
        return Vec::new();
    };
    let what = format!("no engine starts here: {}", with_causes(error));
    let remedy = of_open(error).1.unwrap_or_default();
    let found = finding(severity_of(error), what, &remedy);
    vec![found.of_file("data/attache.db")]
}

fn severity_of(error: &OpenError) -> FindingSeverity {
    match error {
        OpenError::Older(_) | OpenError::Archive | OpenError::MovedAway { .. } => {
            FindingSeverity::Warning
        }
        _ => FindingSeverity::Fault,
    }
}

fn journal(facts: &DatabaseFacts<'_>) -> Vec<InstallFinding> {
    if !facts.has_journal {
        return Vec::new();
    }
    let what = "a rollback journal lies beside the database, which this program never makes: another has changed the database, \
                or it belongs to another database"
        .to_owned();
    let remedy = "if the database was restored from a backup, move the journal away; else stop the engine, keep a copy of the \
                  folder `data`, and have SQLite undo what was not finished: `sqlite3 data/attache.db .tables`";
    vec![finding(FindingSeverity::Fault, what, remedy).of_file(JOURNAL)]
}

fn half_erased(facts: &DatabaseFacts<'_>) -> Vec<InstallFinding> {
    let count = facts.state.records();
    let what = match count.map_or(0, |opened| opened.interrupted_erasures) {
        0 => return Vec::new(),
        1 => "an erasure of a person was interrupted: words that were to go may still be there"
            .to_owned(),
        some => format!(
            "{some} erasures of persons were interrupted: words that were to go may still be there"
        ),
    };
    let remedy = "stop the engine, then `attache erase --resume` finishes it";
    vec![finding(FindingSeverity::Warning, what, remedy).of_file("data/attache.db")]
}

fn free_pages(facts: &DatabaseFacts<'_>) -> Vec<InstallFinding> {
    let Some(opened) = facts.state.records() else {
        return Vec::new();
    };
    let is_hollow = opened.free_bytes >= FREE_BYTES_MIN && opened.free_bytes > opened.bytes / 2;
    if !is_hollow {
        return Vec::new();
    }
    let what = format!(
        "{} of {} bytes of it are free pages",
        opened.free_bytes, opened.bytes
    );
    let remedy = "`attache backup FILE` writes a copy without them; put it in the place of the database while no engine works";
    vec![finding(FindingSeverity::Note, what, remedy).of_file("data/attache.db")]
}
