//! Exit codes of the process, and errors that choose one.

use crate::cli::process::other::{is_stopped, stopped_hint};
use crate::cli::screen::Unwritten;
use crate::config::ConfigErrors;
use crate::store::{OpenError, StoreError, server_remedy};
use std::fmt;
use std::process::ExitCode;

/// Exit codes. From 64 on they follow BSD's `sysexits.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Ok = 0,
    /// Failed for a reason without a code of its own.
    Failed = 1,
    /// The command line was wrong.
    Usage = 2,
    /// No engine serves, as `attache status` found; `systemctl status` gives the same.
    NotServing = 3,
    /// Data was wrong: a configuration file, a letter, a script (`EX_DATAERR`).
    BadData = 65,
    /// A file, a run or a persona that was named does not exist (`EX_NOINPUT`).
    NoInput = 66,
    /// An external service does not answer: a provider, a smarthost; `reload` finds no engine at work (`EX_UNAVAILABLE`).
    Unavailable = 69,
    /// A file or folder cannot be created, or exists already (`EX_CANTCREAT`).
    CannotCreate = 73,
    /// The disk failed (`EX_IOERR`).
    Broken = 74,
    /// A retry may succeed: the database did not commit, or there is no room for the output (`EX_TEMPFAIL`). Also: the engine does
    /// not answer (`ask`, `chat`, `reload`); runs or mails of the person are open, or an erasure is unfinished (`erase`); the file
    /// of the database could not be written anew (`erase`, `memory forget`); no letter can be taken now (`ingest`, `import`,
    /// `migrate`); another program works on what is read (`backup`, `migrate`); a task changed meanwhile (`schedule
    /// resume`).
    TryAgain = 75,
    /// The workspace cannot be used: another engine holds it, or the folder is no workspace
    /// (`EX_CONFIG`).
    Workspace = 78,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// An error with an exit code and, where known, a hint. Its cause goes into `source`.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    message: String,
    hint: Option<String>,
    source: Option<anyhow::Error>,
}

impl Failure {
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            hint: None,
            source: None,
        }
    }
    /// A typing error, in the words of what refused it.
    pub fn usage(error: impl fmt::Display) -> Self {
        Self::new(Exit::Usage, error.to_string())
    }
    /// Sets another exit code.
    #[must_use]
    pub fn with(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }
    /// Sets the remedy for the reader: a sentence in lower case.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
    #[must_use]
    pub fn because(mut self, source: impl Into<anyhow::Error>) -> Self {
        self.source = Some(source.into());
        self
    }
}

/// Refuses with an exit code, what is wrong, and the remedy.
pub fn refuse<T, E: From<Failure>>(
    exit: Exit,
    message: impl Into<String>,
    hint: impl Into<String>,
) -> Result<T, E> {
    Err(Failure::new(exit, message).hint(hint).into())
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// Exit code of an error and its hint, from the outermost cause that has them.
pub fn judge(error: &anyhow::Error) -> (Exit, Option<String>) {
    error
        .chain()
        .find_map(verdict)
        .unwrap_or((Exit::Failed, None))
}

fn verdict(cause: &(dyn std::error::Error + 'static)) -> Option<(Exit, Option<String>)> {
    if let Some(failure) = cause.downcast_ref::<Failure>() {
        return Some((failure.exit, failure.hint.clone()));
    }
    if let Some(unwritten) = cause.downcast_ref::<Unwritten>() {
        return Some(match unwritten {
            Unwritten::PipeClosed => (Exit::Ok, None),
            Unwritten::Failed(_) => (Exit::TryAgain, None),
        });
    }
    if cause.is::<ConfigErrors>() {
        return Some((Exit::BadData, None));
    }
    if let Some(error) = cause.downcast_ref::<StoreError>() {
        return Some(of_store(error));
    }
    cause.downcast_ref::<OpenError>().map(of_open)
}

/// Exit code of a database that cannot be opened, and its hint.
pub fn of_open(error: &OpenError) -> (Exit, Option<String>) {
    let (exit, hint) = match error {
        OpenError::InUse { pid } if is_stopped(pid) => {
            return (Exit::Workspace, Some(stopped_hint(pid)));
        }
        OpenError::InUse { .. } => {
            let hint = "stop that engine, or name another workspace with --workspace; `attache serve --take-over` \
                replaces one that does not answer";
            (Exit::Workspace, hint)
        }
        OpenError::Folder { path, source }
            if source.kind() == std::io::ErrorKind::AlreadyExists =>
        {
            let hint = format!(
                "`{path}` is a file; the engine needs a folder of that name: move the file away"
            );
            return (Exit::CannotCreate, Some(hint));
        }
        OpenError::Folder { .. } => {
            let hint = "the engine needs a folder `data` in which its user may write, on a file system with locks";
            (Exit::CannotCreate, hint)
        }
        OpenError::LeaseSeconds
        | OpenError::NotMade
        | OpenError::DatabaseUrl(_)
        | OpenError::TwoDatabases { .. }
        | OpenError::NoServer { .. }
        | OpenError::Server { .. } => {
            return of_server(error);
        }
        OpenError::Sql(_) if error.is_for_want_of_room() => {
            let hint = "make room on the disk of `data`, and start again: 16 MiB are enough for a start, then `attache gc --older-than 90d` \
                deletes what is old; whatever got a yes is stored";
            (Exit::TryAgain, hint)
        }
        OpenError::Sql(_) => {
            let hint = "`data/attache.db` must be a database of attache in a folder in which this user may write";
            (Exit::TryAgain, hint)
        }
        OpenError::Opening { .. } => {
            let hint =
                "try again in a moment: it may be making the database, or bringing it up to date";
            (Exit::TryAgain, hint)
        }
        OpenError::Migrate(_) => {
            let hint = "see to what it says and start again: what was brought up to date stays, and nothing is half done; \
                `data/backups` has the database as it was";
            (Exit::TryAgain, hint)
        }
        OpenError::Gone { .. }
        | OpenError::HalfRestored { .. }
        | OpenError::Empty { .. }
        | OpenError::LogUnread { .. }
        | OpenError::LogLost { .. }
        | OpenError::ForeignLog { .. } => return of_leftovers(error),
        OpenError::Damaged { .. } => {
            let hint = "keep a copy of `data` as it is, and put a backup in place of `attache.db`, without the `-wal` and `-shm` of the old one; SQLite's `.recover` saves what can be read";
            (Exit::BadData, hint)
        }
        OpenError::Older(_) => {
            let hint = "start the engine once, which brings the database up to date";
            (Exit::Failed, hint)
        }
        OpenError::Foreign => {
            let hint = "move it away: the engine makes a new one, and `attache restore` brings a backup back";
            (Exit::BadData, hint)
        }
        OpenError::Development => {
            let hint = "move the folder `data` away and start anew; the program that wrote it still reads it";
            (Exit::BadData, hint)
        }
        OpenError::Newer { .. }
        | OpenError::EngineIsOlder { .. }
        | OpenError::NodesAreOlder { .. }
        | OpenError::NodesAtWork { .. }
        | OpenError::NodeLives { .. }
        | OpenError::NoRoom { .. }
        | OpenError::NotBackedUp { .. } => return of_upgrade(error),
        OpenError::Archive | OpenError::MovedAway { .. } | OpenError::HalfMoved { .. } => {
            (Exit::Workspace, of_archive(error))
        }
        _ => return (Exit::Failed, None),
    };
    (exit, Some(hint.to_owned()))
}

/// Hint of a database in which no engine works.
fn of_archive(error: &OpenError) -> &'static str {
    match error {
        OpenError::MovedAway { .. } => {
            "give the workspace that database: write its address into `.secrets` as `ATTACHE_DATABASE_URL`, and move `data/attache.db` \
                out of `data`; or take that line out, where the rows are in `data/attache.db`"
        }
        OpenError::HalfMoved { .. } => {
            "begin the move again, by the same `attache migrate --to`; until it ends, the rows are where they were"
        }
        _ => "`attache replay show|diff` work there; name another workspace with --workspace",
    }
}

/// Exit code and hint of a database on a server.
fn of_server(error: &OpenError) -> (Exit, Option<String>) {
    let hint = match error {
        OpenError::NoServer { source, .. } => {
            return (Exit::TryAgain, Some(server_remedy(source).to_owned()));
        }
        OpenError::NotMade => {
            let hint = "the first start of an engine makes them: `attache serve`, or `attache drain`";
            return (Exit::NoInput, Some(hint.to_owned()));
        }
        OpenError::LeaseSeconds => "write a number from 2 to 60 into the environment of every node, the same one, or leave it out \
            for 10"
            .to_owned(),
        OpenError::Server { remedy, .. } => remedy.clone(),
        OpenError::TwoDatabases { .. } => "after a move to the server, move the file out of `data`, with its `-wal` and `-shm`; to go on \
            with the file, take the line out of `.secrets`; a move that was cut off begins anew by the same `attache migrate --to`"
            .to_owned(),
        _ => "write `ATTACHE_DATABASE_URL=postgres://USER:PASSWORD@HOST/NAME` into `.secrets`, with `?sslmode=verify-full` where TLS \
            is wanted, and `/`, `#`, `?`, `@` and `%` of the password as `%2F`, `%23`, `%3F`, `%40` and `%25`; without it the \
            database is the file `data/attache.db`"
            .to_owned(),
    };
    (Exit::Workspace, Some(hint))
}

/// Exit code and hint of what another database or a restore has left.
fn of_leftovers(error: &OpenError) -> (Exit, Option<String>) {
    let hint = match error {
        OpenError::LogUnread { .. } => {
            let hint = "copy the whole folder `data` to where this user may write, and look there";
            return (Exit::NoInput, Some(hint.to_owned()));
        }
        OpenError::Gone { .. } => {
            "put `data/attache.db` back, from a backup for example; to begin anew, move the whole folder `data` away"
        }
        OpenError::HalfRestored { .. } => {
            "restore again: a whole backup into a new folder (`attache restore BACKUP --to DIR`), and remove this one; \
                the copy of a database into this folder (`attache restore FILE`)"
        }
        OpenError::Empty { .. } => {
            "remove the empty file and restore a backup (`attache restore FILE`); where nothing was ever stored here, \
                remove it, and the next start makes a new one"
        }
        OpenError::LogLost { .. } => {
            "put the `-wal` back if it was moved away; a backup may be newer (`attache restore FILE`, after `attache.db`, its `-wal` \
                and its `-shm` were moved out of `data`); to go on without those commits, remove `data/newest`"
        }
        OpenError::ForeignLog { .. } => {
            "if `data/attache.db` was restored from a backup, move its `-wal` and `-shm` away: they hold what the \
                database before it had not taken in, and would undo the restore"
        }
        _ => return (Exit::Failed, None),
    };
    (Exit::Workspace, Some(hint.to_owned()))
}

/// Exit code and hint of a database that is not brought up to date.
fn of_upgrade(error: &OpenError) -> (Exit, Option<String>) {
    let (exit, hint) = match error {
        OpenError::Newer { version, .. } => {
            let newer = version.as_deref().unwrap_or("that was here last");
            let hint = format!(
                "use attache {newer}; to go back, stop the engine and put a copy from before, of `data/backups` for example, \
                 in the place of `data/attache.db`, without the `-wal` and `-shm` beside it"
            );
            return (Exit::Failed, Some(hint));
        }
        OpenError::EngineIsOlder { .. } => {
            let hint = "stop that engine and start it again as this program, which brings the database up to date; \
                `attache upgrade --check` says what that will do";
            (Exit::TryAgain, hint)
        }
        OpenError::NodesAtWork { .. } => {
            let hint = "end them first: `attache nodes drain`, or a signal on their machines";
            (Exit::TryAgain, hint)
        }
        OpenError::NodeLives { .. } => {
            let hint = "this machine is a copy of that one, with its memory: start one of them anew (the machine, not the engine), or end \
                the engine there; neither was ended";
            (Exit::Workspace, hint)
        }
        OpenError::NodesAreOlder { .. } => {
            let hint = "end them first, with `attache nodes drain` of their version or on their machines; letters wait at their \
                senders meanwhile";
            (Exit::TryAgain, hint)
        }
        OpenError::NoRoom { .. } => {
            let hint = "make room, or make that folder a link to one on another disk; `attache upgrade --without-backup` \
                brings the database up to date without a copy";
            (Exit::CannotCreate, hint)
        }
        OpenError::NotBackedUp { .. } => {
            let hint = "nothing was changed: see to the disk and start again; `attache doctor --audit` of the version that was \
                here says whether the database itself is sound";
            (Exit::Broken, hint)
        }
        _ => return (Exit::Failed, None),
    };
    (exit, Some(hint.to_owned()))
}

fn of_store(error: &StoreError) -> (Exit, Option<String>) {
    if error.is_for_want_of_writing() {
        let hint = "the folder `data` must lie on a disk that takes writes, and be this user's; what only looks works all the same";
        return (Exit::TryAgain, Some(hint.to_owned()));
    }
    match error {
        StoreError::Missing { .. } | StoreError::Ambiguous { .. } => (Exit::NoInput, None),
        StoreError::NotCommitted(_) if error.is_locked_out() => {
            let hint = "another process holds the database: `attache status` says whether the engine is stopped, and `kill -CONT` \
                with its number lets it go on";
            (Exit::TryAgain, Some(hint.to_owned()))
        }
        StoreError::NotCommitted(_) if error.is_for_want_of_room() => {
            let hint = "make room on the disk of `data`, by moving a backup elsewhere for example; then `attache gc --older-than 90d` deletes what is old";
            (Exit::TryAgain, Some(hint.to_owned()))
        }
        StoreError::NotCommitted(_) | StoreError::CommitUnanswered(_) => (Exit::TryAgain, None),
        StoreError::ReadsFail(_) => {
            let hint = "see to the disk and start again: whatever got a yes is stored, and what got none comes again";
            (Exit::Broken, Some(hint.to_owned()))
        }
        StoreError::Moved(_) => {
            let hint = "put `data/attache.db` back where it was, with its `-wal` beside it, and start again; stop the engine \
                before you move or restore anything";
            (Exit::Broken, Some(hint.to_owned()))
        }
        StoreError::CommitFailed(_) => {
            let hint = "see to the disk and start again: whatever got a yes is stored, and what got none comes again";
            (Exit::Broken, Some(hint.to_owned()))
        }
        StoreError::NoLease => (Exit::TryAgain, None),
        StoreError::Buried => {
            let hint = "nothing was stored or sent by this node since; started again, it is a node like any other";
            (Exit::TryAgain, Some(hint.to_owned()))
        }
        StoreError::ClockOff { .. } => {
            let hint = "set the clock of this machine, and have it kept by NTP: `timedatectl set-ntp true`";
            (Exit::TryAgain, Some(hint.to_owned()))
        }
        StoreError::Fenced { .. } => {
            let hint = "nothing was stored or sent by this engine since; the other one goes on with its work";
            (Exit::Workspace, Some(hint.to_owned()))
        }
        _ => (Exit::Failed, None),
    }
}
