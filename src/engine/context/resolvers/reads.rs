//! Sources of the resolvers, and nothing else: files of the workspace and of the persona, the
//! persona's knowledge, the past of a thread.
//!
//! A resolver sees a `dyn Reads` and no folder, no store: the input of a run can therefore be
//! recorded whole, and replayed.

use super::ResolveError;
use crate::domain::{MemoryCircle, MessageId, ThreadId};
use crate::store::{
    KnowledgeContents, KnowledgeHit, MemoryEntry, PastMessage, PastStep, ShownInstruction,
    StoreError, SummarySoFar,
};
use cap_std::fs_utf8::Dir;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;

/// Folder that a path is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BaseFolder {
    Workspace,
    Persona,
}

/// Text files.
pub trait Files: Send + Sync {
    /// Reads a file as text: UTF-8, line ends as `\n`, no byte order mark; `None` when there is no
    /// such file. A file larger than `bytes_max` is an error, because half a text may mean
    /// something else than the whole.
    fn text(
        &self,
        place: BaseFolder,
        path: &str,
        bytes_max: u64,
    ) -> Result<Option<Arc<str>>, ReadError>;
}

/// Everything that a resolver may read.
pub trait Reads: Files {
    /// Returns the pieces of the persona's knowledge in which at least one term occurs, best first.
    fn knowledge<'a>(
        &'a self,
        terms: &'a [String],
        limit: u32,
    ) -> ReadFuture<'a, Vec<KnowledgeHit>>;
    /// Returns what the persona's knowledge holds; all of its pieces if they have at most `chars_max` characters together.
    fn knowledge_contents(&self, chars_max: usize) -> ReadFuture<'_, KnowledgeContents>;
    /// Reports whether the answers are those that a past run got.
    fn is_record(&self) -> bool {
        false
    }
    /// Returns files of the persona's knowledge that are in no index, with the reason.
    fn knowledge_left_out(&self) -> Vec<(String, String)>;
    /// Returns the entries of memory that may be shown to the people around the run, those that were confirmed last first.
    fn memory<'a>(&'a self, circle: &'a MemoryCircle) -> ReadFuture<'a, Vec<MemoryEntry>>;
    /// Returns the last messages of a thread that the run and all of `readers` may see, oldest
    /// first, each text cut at `chars_max` characters. `window`: the number of the run's own
    /// message, and how many messages before it.
    fn past_messages<'a>(
        &'a self,
        thread: &'a ThreadId,
        window: (i64, u32),
        chars_max: u32,
        readers: &'a [String],
    ) -> ReadFuture<'a, Vec<PastMessage>>;
    /// Returns the summary of a thread up to some message before `before_seq`, if all of `readers` may read it.
    fn summary_so_far<'a>(
        &'a self,
        thread: &'a ThreadId,
        before_seq: i64,
        readers: &'a [String],
    ) -> ReadFuture<'a, SummarySoFar>;
    /// Returns the owner's instructions for a thread and for its correspondent, oldest first.
    fn instructions<'a>(
        &'a self,
        thread: &'a ThreadId,
        contact: Option<&'a str>,
    ) -> ReadFuture<'a, Vec<ShownInstruction>>;
    /// Returns letters to summarise with their answers, oldest first: those after the first number of `between` and before
    /// the second, for a run on the message with the third. `bounds`: how many letters, and characters of each text.
    fn letters_to_summarise<'a>(
        &'a self,
        thread: &'a ThreadId,
        between: (i64, i64, i64),
        bounds: (u32, u32),
        readers: &'a [String],
    ) -> ReadFuture<'a, Vec<PastMessage>>;
    /// Returns the tool traces under these messages, each payload cut at `chars_max` characters.
    fn past_steps<'a>(
        &'a self,
        messages: &'a [&'a MessageId],
        chars_max: u32,
    ) -> ReadFuture<'a, Vec<PastStep>>;
}

/// Future of a read.
pub type ReadFuture<'a, T> = BoxFuture<'a, Result<T, ReadError>>;

/// Reason why a read failed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] io::Error),
    #[error("the store failed")]
    Store(#[from] StoreError),
    /// A read of a past run that is not in its record.
    #[error("{what} was not read then")]
    NotRecorded { what: String },
}

impl ReadError {
    /// Converts to the error of a resolver; `what` is the file, for the operator.
    pub fn of(self, resolver: impl Into<String>, what: &str) -> ResolveError {
        match self {
            ReadError::File(error) => {
                let problem = if what.is_empty() {
                    error.to_string()
                } else {
                    format!("{what}: {error}")
                };
                if is_passing(&error) {
                    return ResolveError::Machine {
                        resolver: resolver.into(),
                        problem,
                    };
                }
                ResolveError::Config {
                    resolver: resolver.into(),
                    problem,
                }
            }
            ReadError::Store(error) => ResolveError::Store(error),
            ReadError::NotRecorded { what } => ResolveError::NotRecorded {
                resolver: resolver.into(),
                what,
            },
        }
    }
}

/// Folders as capabilities.
#[derive(Clone, Copy)]
pub struct Folders<'a> {
    pub workspace: &'a Dir,
    pub persona: &'a Dir,
}

impl Files for Folders<'_> {
    fn text(
        &self,
        place: BaseFolder,
        path: &str,
        bytes_max: u64,
    ) -> Result<Option<Arc<str>>, ReadError> {
        let folder = match place {
            BaseFolder::Workspace => self.workspace,
            BaseFolder::Persona => self.persona,
        };
        Ok(read_text(folder, path, bytes_max)?.map(Arc::from))
    }
}

/// Reports whether the machine failed, out of descriptors or memory for example, and not the file:
/// then a later retry may succeed without a change.
pub(crate) fn is_passing(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let passing = [
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOMEM,
        Errno::NOBUFS,
        Errno::AGAIN,
        Errno::NOSPC,
        Errno::IO,
    ];
    passing
        .into_iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Reads a text file through a folder's capability, by the rules of [`Files::text`].
pub(crate) fn read_text(folder: &Dir, path: &str, bytes_max: u64) -> io::Result<Option<String>> {
    use std::io::Read;
    // Checked before it is opened: opening a pipe would wait for a writer.
    match folder.metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut bytes = Vec::new();
    folder
        .open(path)?
        .take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::other(format!("larger than {bytes_max} bytes")));
    }
    Ok(Some(
        String::from_utf8_lossy(&bytes)
            .trim_start_matches('\u{feff}')
            .replace("\r\n", "\n"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the result of a read that fails with `errno`.
    fn read(errno: i32) -> ResolveError {
        ReadError::from(io::Error::from_raw_os_error(errno)).of("persona", "PERSONA.md")
    }

    #[test]
    fn a_machine_without_descriptors_needs_no_change_by_an_operator() {
        let full = read(rustix::io::Errno::MFILE.raw_os_error());
        assert!(matches!(full, ResolveError::Machine { .. }), "{full}");
        let forbidden = read(rustix::io::Errno::ACCESS.raw_os_error());
        assert!(
            matches!(forbidden, ResolveError::Config { .. }),
            "{forbidden}"
        );
    }
}
