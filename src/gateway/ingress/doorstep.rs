//! Who stood on the doorstep when the engine died: a letter that ends engine after engine is set aside.
//!
//! Whoever fetches letters by themselves would fetch the same one at every start, and it has no row before it is stored.
//! So the letter at hand is written down first, in a plain file that nobody syncs: what ends a process leaves the
//! kernel's memory alone, and a power cut is no letter's doing. Absent on purpose: letters by SMTP, which their senders
//! bring again in their own time.

use crate::domain::sha256_hex;
use crate::store::{SetAside, Store, StoreError};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Engines in a row that a letter takes along before it is set aside.
const FATAL: u32 = 3;
/// Engines in a row after which the next one lives for a while before it takes that letter.
const IN_DOUBT: u32 = 2;
/// How long it lives; somebody who kills engines as they start does it meanwhile.
const WITHOUT: Duration = Duration::from_secs(10);

/// Where the letters of one source stand while they are taken, one at a time.
pub struct Doorstep {
    store: Store,
    file: PathBuf,
    left: Mutex<Option<Left>>,
}

/// A letter whose fate an engine did not live to see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Left {
    /// As its source names it.
    letter: String,
    /// Engines in a row.
    engines: u32,
}

impl Doorstep {
    /// Of a folder or mailbox; `source` tells it from all others. Call once per life of an engine.
    pub fn open(store: Store, workspace: &Path, source: &str) -> Self {
        let mut name = sha256_hex(&[source.as_bytes()]);
        name.truncate(16);
        let file = workspace.join("data/doorstep").join(name);
        let left = std::fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Self { store, file, left: Mutex::new(left) }
    }

    /// Waits before the first letter is taken, if there is a reason to. False: stopped meanwhile.
    pub async fn waited(doorstep: Option<&Self>, stop: &CancellationToken) -> bool {
        tokio::select! {
            () = stop.cancelled() => false,
            () = tokio::time::sleep(doorstep.map_or(Duration::ZERO, Self::wait)) => true,
        }
    }

    fn wait(&self) -> Duration {
        let in_doubt = |left: &Left| (IN_DOUBT..FATAL).contains(&left.engines);
        if self.left().as_ref().is_some_and(in_doubt) { WITHOUT } else { Duration::ZERO }
    }

    /// Whether an engine died here, so that letters are to be taken one by one.
    pub fn is_marked(&self) -> bool {
        self.left().is_some()
    }

    pub fn is_fatal(&self, letter: &str) -> bool {
        self.left().as_ref().is_some_and(|left| left.letter == letter && left.engines >= FATAL)
    }

    /// Writes down that a letter is being taken, until the answer is dropped: after its fate is known, or when the engine
    /// stops orderly in between. Another letter that was left stays in memory meanwhile: should the engine die now, it was
    /// not that one.
    #[must_use]
    pub fn enter<'d>(&'d self, letter: &'d str) -> Standing<'d> {
        let before = self.left().as_ref().filter(|left| left.letter == letter).map_or(0, |left| left.engines);
        self.write(Some(&Left { letter: letter.to_owned(), engines: before + 1 }));
        Standing { doorstep: self, letter }
    }

    /// Whatever was left is gone, or has its fate.
    pub fn clear(&self) {
        if self.left().take().is_some() {
            self.write(None);
        }
    }

    /// Forgets a letter that is no longer there.
    pub fn retain(&self, is_there: impl Fn(&str) -> bool) {
        let is_gone = self.left().as_ref().is_some_and(|left| !is_there(&left.letter));
        if is_gone {
            self.clear();
        }
    }

    /// Notes for good that a letter is not taken, and tells the owner.
    pub async fn set_aside(&self, letter: SetAside) -> Result<(), StoreError> {
        self.store.set_aside_letter(letter).await
    }

    /// Letters are taken all the same when there is no room for a note.
    fn write(&self, left: Option<&Left>) {
        let written = match left {
            Some(left) => self.write_file(left),
            None => std::fs::remove_file(&self.file).or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            }),
        };
        if let Err(error) = written {
            tracing::debug!(%error, "the letter at the door is not written down");
        }
    }

    fn write_file(&self, left: &Left) -> io::Result<()> {
        let bytes = serde_json::to_vec(left)?;
        std::fs::write(&self.file, &bytes).or_else(|_no_folder| {
            std::fs::create_dir_all(self.file.parent().unwrap_or(Path::new(".")))?;
            std::fs::write(&self.file, &bytes)
        })
    }

    fn left(&self) -> MutexGuard<'_, Option<Left>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A letter that is being taken.
pub struct Standing<'d> {
    doorstep: &'d Doorstep,
    letter: &'d str,
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        let mut left = self.doorstep.left();
        left.take_if(|left| left.letter == self.letter);
        self.doorstep.write(left.as_ref());
    }
}
