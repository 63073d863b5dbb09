//! Marks the letter that is being taken: a letter during which several engines in a row died is
//! quarantined.
//!
//! An engine that fetches letters itself would fetch one letter again at every start, and a letter
//! has no row before it is stored. So the letter is first written to a plain file without a sync:
//! the death of a process leaves the kernel's page cache intact, and a power cut is not caused by a
//! letter. Absent on purpose: letters by SMTP, whose senders retry later.

use crate::domain::sha256_hex;
use crate::store::{Quarantined, Store, StoreError};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Number of consecutive engines that may die during a letter before it is quarantined.
const FATAL: u32 = 3;
/// Number of consecutive deaths after which the next engine waits before it takes that letter.
const IN_DOUBT: u32 = 2;
/// Time that it waits; an operator who kills engines as they start would do so within it.
const WITHOUT: Duration = Duration::from_secs(10);

/// The marker of the letter of one source that is being taken; one letter at a time.
pub struct InFlightMarker {
    store: Store,
    file: PathBuf,
    left: Mutex<Option<InterruptedLetter>>,
}

/// A letter during which an engine died.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct InterruptedLetter {
    /// Name of the letter in its source.
    letter: String,
    /// Number of consecutive engines that died.
    engines: u32,
}

impl InFlightMarker {
    /// Opens the marker of a folder or mailbox; `source` identifies it. Call once per start of an
    /// engine.
    pub fn open(store: Store, workspace: &Path, source: &str) -> Self {
        let mut name = sha256_hex(&[source.as_bytes()]);
        name.truncate(16);
        let file = workspace.join("data/in-flight").join(name);
        let left = std::fs::read(&file)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Self {
            store,
            file,
            left: Mutex::new(left),
        }
    }

    /// Waits before the first letter is taken, if an engine died repeatedly. `false`: stopped
    /// meanwhile.
    pub async fn waited(in_flight: Option<&Self>, stop: &CancellationToken) -> bool {
        tokio::select! {
            () = stop.cancelled() => false,
            () = tokio::time::sleep(in_flight.map_or(Duration::ZERO, Self::wait)) => true,
        }
    }

    fn wait(&self) -> Duration {
        let in_doubt = |left: &InterruptedLetter| (IN_DOUBT..FATAL).contains(&left.engines);
        if self.left().as_ref().is_some_and(in_doubt) {
            WITHOUT
        } else {
            Duration::ZERO
        }
    }

    /// Reports whether an engine died during a letter, so that letters must be taken one by one.
    pub fn is_marked(&self) -> bool {
        self.left().is_some()
    }

    pub fn is_fatal(&self, letter: &str) -> bool {
        self.left()
            .as_ref()
            .is_some_and(|left| left.letter == letter && left.engines >= FATAL)
    }

    /// Marks a letter as being taken until the returned value is dropped: after its outcome is
    /// known, or when the engine stops in an orderly way. Another marked letter stays in memory
    /// meanwhile: if the engine dies now, that letter is not the cause.
    #[must_use]
    pub fn enter<'d>(&'d self, letter: &'d str) -> InFlight<'d> {
        let before = self
            .left()
            .as_ref()
            .filter(|left| left.letter == letter)
            .map_or(0, |left| left.engines);
        self.write(Some(&InterruptedLetter {
            letter: letter.to_owned(),
            engines: before + 1,
        }));
        InFlight {
            in_flight: self,
            letter,
        }
    }

    /// Removes the mark: the letter is gone or has its outcome.
    pub fn clear(&self) {
        if self.left().take().is_some() {
            self.write(None);
        }
    }

    /// Removes the mark of a letter that no longer exists.
    pub fn retain(&self, is_there: impl Fn(&str) -> bool) {
        let is_gone = self
            .left()
            .as_ref()
            .is_some_and(|left| !is_there(&left.letter));
        if is_gone {
            self.clear();
        }
    }

    /// Records permanently that a letter is quarantined, and notifies the owner.
    pub async fn quarantined(&self, letter: Quarantined) -> Result<(), StoreError> {
        self.store.quarantine_letter(letter).await
    }

    /// Writes the marker. A full disk does not prevent letters from being taken.
    fn write(&self, left: Option<&InterruptedLetter>) {
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

    fn write_file(&self, left: &InterruptedLetter) -> io::Result<()> {
        let bytes = serde_json::to_vec(left)?;
        std::fs::write(&self.file, &bytes).or_else(|_no_folder| {
            std::fs::create_dir_all(self.file.parent().unwrap_or(Path::new(".")))?;
            std::fs::write(&self.file, &bytes)
        })
    }

    fn left(&self) -> MutexGuard<'_, Option<InterruptedLetter>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A letter that is being taken.
pub struct InFlight<'d> {
    in_flight: &'d InFlightMarker,
    letter: &'d str,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let mut left = self.in_flight.left();
        left.take_if(|left| left.letter == self.letter);
        self.in_flight.write(left.as_ref());
    }
}
