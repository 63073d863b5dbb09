//! The signal that something was committed. A worker waits for it, and asks the database when there may be something to find.
//!
//! The writer tells of its own commits. A command beside the engine writes to [`FILE`] after each of its commits, and the system
//! tells the engine (inotify(7)). Where it does not, and for programs that are not ours, the engine looks at the database's log
//! every [`LOOK`]. A server tells nothing of the kind: there, the signal comes by time.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

/// File in `data` that commands write to after a commit; its content says nothing.
static FILE: &str = "commits";
/// Time between two looks at the log.
const LOOK: Duration = Duration::from_secs(2);
/// Time between two signals on a server.
const BEAT_OF_SERVER: Duration = Duration::from_millis(500);

/// Number of commits that were told so far; it says only that there is more.
pub type CommitReceiver = watch::Receiver<u64>;

/// Waits for a pause, in which more may come, and then until something was committed since the last call; at most so long.
pub async fn next_commit(commits: &mut CommitReceiver, pause: Duration, at_most: Duration) {
    tokio::time::sleep(pause).await;
    let _seen = tokio::time::timeout(at_most, commits.changed()).await;
}

/// What one process knows of commits.
#[derive(Clone, Default)]
pub struct CommitSignal {
    /// Commits of this process and of others.
    all: watch::Sender<u64>,
    /// Those of others.
    others: watch::Sender<u64>,
    /// Folder of the database; `None`: it is on a server.
    data: Option<Arc<Path>>,
    is_engine: bool,
}

impl CommitSignal {
    /// Those of a database in a file.
    pub fn of_file(data: &Path, is_engine: bool) -> Self {
        Self {
            data: Some(data.into()),
            is_engine,
            ..Self::default()
        }
    }

    pub fn all(&self) -> CommitReceiver {
        self.all.subscribe()
    }

    pub fn others(&self) -> CommitReceiver {
        self.others.subscribe()
    }

    /// Tells of a commit of this process.
    pub fn tell(&self) {
        tell(&self.all);
        if let (Some(data), false) = (&self.data, self.is_engine) {
            // Without an engine there is no such file, and nobody to tell.
            let file = std::fs::OpenOptions::new()
                .write(true)
                .open(data.join(FILE));
            let _it_looks_itself = file.and_then(|file| file.write_all_at(b"\n", 0));
        }
    }

    /// Tells of the commits of other processes, without an end.
    pub async fn watch(&self) {
        let Some(data) = &self.data else {
            loop {
                tokio::time::sleep(BEAT_OF_SERVER).await;
                tell(&self.all);
            }
        };
        let notified = SignalFile::of(data);
        if let Err(error) = &notified {
            tracing::debug!(%error, "commands cannot wake the engine; it looks for what they commit every other second");
        }
        let mut notified = notified.ok();
        let log = data.join("attache.db-wal");
        let mut seen = LogStamp::of(&log);
        loop {
            tokio::select! {
                came = next_of(&mut notified) => if let Err(error) = came {
                    tracing::debug!(%error, "commands can no longer wake the engine");
                    notified = None;
                    continue;
                },
                () = tokio::time::sleep(LOOK) => {
                    let now = LogStamp::of(&log);
                    if std::mem::replace(&mut seen, now) == now {
                        continue;
                    }
                }
            }
            tell(&self.all);
            tell(&self.others);
        }
    }
}

fn tell(commits: &watch::Sender<u64>) {
    commits.send_modify(|number| *number += 1);
}

/// When the log of the database was written, and how long it was.
#[derive(Clone, Copy, PartialEq, Eq)]
struct LogStamp(Option<(i64, i64, u64)>);

impl LogStamp {
    fn of(log: &PathBuf) -> Self {
        let found = std::fs::metadata(log).ok();
        Self(found.map(|log| (log.mtime(), log.mtime_nsec(), log.len())))
    }
}

/// The file that commands write to.
struct SignalFile(AsyncFd<OwnedFd>);

impl SignalFile {
    fn of(data: &Path) -> io::Result<Self> {
        let file = data.join(FILE);
        let mut made = std::fs::OpenOptions::new();
        made.write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&file)?;
        #[expect(
            deprecated,
            reason = "what it warns of are descriptors that are closed early; this one is owned"
        )]
        let watched = AsyncFd::new(watched(&file)?)?;
        Ok(Self(watched))
    }

    async fn next(&self) -> io::Result<()> {
        let mut ready = self.0.readable().await?;
        let mut events = [0; 4096];
        // Many events are one signal.
        while rustix::io::read(ready.get_inner(), &mut events).is_ok() {}
        ready.clear_ready();
        Ok(())
    }
}

/// Returns a descriptor that is readable when the file was written to.
#[cfg(target_os = "linux")]
fn watched(file: &Path) -> io::Result<OwnedFd> {
    use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
    let watched = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    add_watch(&watched, file, WatchFlags::MODIFY)?;
    Ok(watched)
}

#[cfg(not(target_os = "linux"))]
fn watched(_file: &Path) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

async fn next_of(notified: &mut Option<SignalFile>) -> io::Result<()> {
    match notified {
        Some(notified) => notified.next().await,
        None => std::future::pending().await,
    }
}
