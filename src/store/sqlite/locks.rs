//! Locks of a workspace: the lock of its engine, and the lock for opening.

use crate::domain::Timestamp;
use crate::store::sqlite::open_error::OpenError;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// Number of tries to take the lock for opening, and the pause between them: ten seconds in all.
const OPENING_LOOKS_MAX: usize = 1000;
const OPENING_PAUSE: Duration = Duration::from_millis(10);

const LOCK_LOOKS_MAX: usize = 1000;
/// Begin of the line of a lock that says which program holds it.
pub static VERSION: &str = "attache ";

/// Takes a lock. Errors: [`OpenError::InUse`] with the process that has it.
pub fn acquire(path: &Path) -> std::result::Result<File, OpenError> {
    let failed = |source| OpenError::Folder {
        path: path.display().to_string(),
        source,
    };
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path);
    let mut file = opened.map_err(failed)?;
    let mut looks = 0;
    while let Err(held) = file.try_lock() {
        looks += 1;
        match held {
            // No process holds it exclusively: another one has just tested it, as `working_engine`
            // does.
            TryLockError::WouldBlock
                if looks < LOCK_LOOKS_MAX && file.try_lock_shared().is_ok() =>
            {
                file.unlock().map_err(failed)?;
                std::thread::yield_now();
            }
            TryLockError::WouldBlock => {
                return Err(OpenError::InUse {
                    pid: pid_in(&mut file),
                });
            }
            TryLockError::Error(source) => return Err(failed(source)),
        }
    }
    // Written over what stands there: room that is given up on a full disk goes to somebody else.
    let line = format!("{}\n", std::process::id());
    let written = file
        .rewind()
        .and_then(|()| file.write_all(line.as_bytes()))
        .and_then(|()| file.set_len(line.len() as u64));
    written.map_err(failed)?;
    Ok(file)
}

/// Waits for the lock for opening: two processes that create or migrate the database at once would
/// each see it half done.
///
/// Errors: [`OpenError::Opening`] when another process takes too long.
pub async fn turn_to_open(data: &Path) -> std::result::Result<File, OpenError> {
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

/// Takes a lock even if another process holds it: a new file gets its name, and the old lock stays
/// with a file that has no name any more.
pub fn replace(path: &Path) -> std::result::Result<File, OpenError> {
    let unnamed = path.with_extension("lock.new");
    let file = acquire(&unnamed)?;
    let renamed = std::fs::rename(&unnamed, path);
    renamed.map_err(|source| OpenError::Folder {
        path: path.display().to_string(),
        source,
    })?;
    Ok(file)
}

fn pid_in(file: &mut File) -> String {
    let mut text = String::new();
    let _unknown_pid = file.read_to_string(&mut text);
    first_line(&text)
}

/// Returns the process that has a lock, or had it last.
pub fn pid_before(path: &Path) -> Option<i64> {
    let mut file = File::open(path).ok()?;
    pid_in(&mut file).parse().ok()
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_owned()
}

/// Returns the process that works on a workspace; `None` when there is none.
pub fn working_engine(workspace: &Path) -> Option<String> {
    engine_at_work(workspace).map(|engine| engine.pid)
}

/// The engine that holds the lock of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineAtWork {
    pub pid: String,
    /// When it took the workspace.
    pub since: Option<Timestamp>,
    /// Version of its program; `None`: one that does not note it, or one that is still opening.
    pub version: Option<String>,
}

/// Returns the process that opens the database of a workspace now, or hangs while it does; `None` when there is none.
pub fn opening_process(workspace: &Path) -> Option<String> {
    let mut file = File::open(workspace.join("data/opening.lock")).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Some(pid_in(&mut file)),
        _ => None,
    }
}

/// Returns the engine that works on a workspace; `None` when there is none.
pub fn engine_at_work(workspace: &Path) -> Option<EngineAtWork> {
    let mut file = File::open(workspace.join("data/engine.lock")).ok()?;
    let Err(TryLockError::WouldBlock) = file.try_lock_shared() else {
        return None;
    };
    let mut text = String::new();
    let _unknown_pid = file.read_to_string(&mut text);
    let version = text.lines().find_map(|line| line.strip_prefix(VERSION));
    // The lock is written when it is taken, and not again.
    let written = file.metadata().ok();
    Some(EngineAtWork {
        pid: first_line(&text),
        since: written.map(|file| Timestamp::from_millis(file.mtime() * 1000)),
        version: version.map(str::to_owned),
    })
}
