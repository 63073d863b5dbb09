//! Pieces of an answer while a model makes it: `data/streams/RUN`, one JSON value a line, written by the engine that works on the
//! run and read by other processes of its user.
//!
//! Nothing depends on it. It is written as far as that works, bounded, removed when the attempt ends, and what counts is the text
//! that the run commits. Absent on purpose: calls of tools, which are rows before they begin.

use crate::domain::RunId;
use crate::providers::Event;
use crate::providers::contract::thoughts::ThoughtFilter;
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Folder of the streams, below the workspace.
const FOLDER: &str = "data/streams";
/// Most bytes of one stream.
const BYTES_MAX: usize = 1024 * 1024;

/// One line of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamPiece {
    /// A model is asked: the text before it is not part of the text after it.
    Asked {
        turn: u32,
        /// Number of this try, from 1.
        attempt: u32,
        /// `true`: no tool may be called and no form is wanted, so that the text can be nothing but the answer.
        #[serde(default)]
        is_last: bool,
    },
    Text(String),
    /// An agent called a tool of its own, or the model ended its reasoning: the text before it is not the answer.
    Acted,
    /// The stream is full; what follows is not in it.
    Full,
}

/// Stream of one attempt of a run; removed when it is dropped.
#[derive(Debug, Default)]
pub struct AnswerStream {
    open: Mutex<Option<OpenStream>>,
    path: Option<PathBuf>,
}

#[derive(Debug)]
struct OpenStream {
    file: File,
    bytes_left: usize,
    filter: ThoughtFilter,
}

impl AnswerStream {
    /// Creates the stream of a run. A folder that takes no file is a run without a stream.
    pub fn create(workspace: &Path, run: &RunId) -> Self {
        let path = path_of(workspace, run);
        match new_file(&path) {
            Ok(file) => Self {
                open: Mutex::new(Some(OpenStream {
                    file,
                    bytes_left: BYTES_MAX,
                    filter: ThoughtFilter::default(),
                })),
                path: Some(path),
            },
            Err(error) => {
                tracing::debug!(%run, %error, "the answer is not shown while it is made");
                Self::default()
            }
        }
    }

    /// Notes that a model is asked; for the rest see [`StreamPiece::Asked`].
    pub fn asked(&self, turn: u32, attempt: u32, is_last: bool) {
        if let Some(stream) = self
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_mut()
        {
            stream.filter = ThoughtFilter::default();
        }
        self.write(&StreamPiece::Asked {
            turn,
            attempt,
            is_last,
        });
    }

    /// Notes what a provider's event adds to the answer.
    pub fn see(&self, event: &Event) {
        match event {
            Event::TextDelta(text) if !text.is_empty() => {
                let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
                let Some((was_thought, text)) =
                    open.as_mut().map(|stream| stream.filter.push(text))
                else {
                    return;
                };
                drop(open);
                if was_thought {
                    self.write(&StreamPiece::Acted);
                }
                if !text.is_empty() {
                    self.write(&StreamPiece::Text(text));
                }
            }
            Event::ObservedCall { .. } => self.write(&StreamPiece::Acted),
            _ => {}
        }
    }

    fn write(&self, piece: &StreamPiece) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(stream) = open.as_mut() else {
            return;
        };
        let piece = match line(piece) {
            line if line.len() <= stream.bytes_left => line,
            _ => line(&StreamPiece::Full),
        };
        stream.bytes_left = stream.bytes_left.saturating_sub(piece.len());
        let is_written = stream.file.write_all(piece.as_bytes()).is_ok();
        if !is_written || piece == line(&StreamPiece::Full) {
            *open = None;
        }
    }
}

impl Drop for AnswerStream {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // One that stays is removed at the next start.
            let _gone = std::fs::remove_file(path);
        }
    }
}

/// Removes the streams that an earlier engine left.
pub fn clear(workspace: &Path) {
    match std::fs::remove_dir_all(workspace.join(FOLDER)) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            tracing::warn!(%error, "cannot remove `{FOLDER}`, which is not needed");
        }
        _ => {}
    }
}

fn path_of(workspace: &Path, run: &RunId) -> PathBuf {
    workspace.join(FOLDER).join(run.as_str())
}

fn new_file(path: &Path) -> std::io::Result<File> {
    if let Some(folder) = path.parent() {
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    // Of an attempt that was killed.
    let _none = std::fs::remove_file(path);
    let mut options = OpenOptions::new();
    options.append(true).create_new(true).mode(0o600).open(path)
}

fn line(piece: &StreamPiece) -> String {
    // Texts and numbers always have a JSON form.
    serde_json::to_string(piece).unwrap_or_default() + "\n"
}

/// Reader of the streams of a run, one after the other.
#[derive(Debug)]
pub struct StreamReader {
    path: PathBuf,
    open: Option<(File, u64)>,
    /// Bytes of a line that is not whole yet.
    rest: Vec<u8>,
}

impl StreamReader {
    pub fn new(workspace: &Path, run: &RunId) -> Self {
        Self {
            path: path_of(workspace, run),
            open: None,
            rest: Vec::new(),
        }
    }

    /// Returns the pieces that were written since the last look. What cannot be read is none.
    pub fn look(&mut self) -> Vec<StreamPiece> {
        let mut pieces = self.read();
        // A stream that was removed is still read to its end; the next attempt has a new one.
        if let Ok(file) = File::open(&self.path)
            && let Ok(is) = file.metadata().map(|metadata| metadata.ino())
            && self.open.as_ref().is_none_or(|(_, inode)| *inode != is)
        {
            self.open = Some((file, is));
            self.rest.clear();
            pieces.extend(self.read());
        }
        pieces
    }

    fn read(&mut self) -> Vec<StreamPiece> {
        let Some((file, _)) = &mut self.open else {
            return Vec::new();
        };
        let most = u64::try_from(BYTES_MAX).unwrap_or(u64::MAX);
        let _what_was_read_counts = file.take(most).read_to_end(&mut self.rest);
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else {
            return Vec::new();
        };
        let rest = self.rest.split_off(end + 1);
        let whole = std::mem::replace(&mut self.rest, rest);
        let lines = whole.split(|byte| *byte == b'\n');
        lines
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn text(text: &str) -> Event {
        Event::TextDelta(text.to_owned())
    }

    #[test]
    fn a_stream_is_read_while_it_is_written_and_gone_at_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("data")).expect("data");
        let run = RunId::new("r-1");
        let mut reader = StreamReader::new(folder.path(), &run);
        assert_eq!(reader.look(), []);
        let stream = AnswerStream::create(folder.path(), &run);
        let path = path_of(folder.path(), &run);
        let mode = path.metadata().expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        stream.asked(0, 1, true);
        stream.see(&text("Forty\n"));
        let asked = |attempt| StreamPiece::Asked {
            turn: 0,
            attempt,
            is_last: true,
        };
        assert_eq!(
            reader.look(),
            [asked(1), StreamPiece::Text("Forty\n".to_owned())]
        );
        stream.see(&text("seats"));
        drop(stream);
        assert!(!path.exists());
        // The next attempt begins before the reader looks again.
        let stream = AnswerStream::create(folder.path(), &run);
        stream.asked(0, 2, true);
        assert_eq!(
            reader.look(),
            [StreamPiece::Text("seats".to_owned()), asked(2)]
        );
        clear(folder.path());
        assert!(!path.exists());
    }

    #[test]
    fn a_stream_has_an_end_and_a_folder_that_takes_none_is_no_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let run = RunId::new("r-1");
        // There is no `data`.
        AnswerStream::create(folder.path(), &run).see(&text("x"));
        std::fs::create_dir(folder.path().join("data")).expect("data");
        let stream = AnswerStream::create(folder.path(), &run);
        let kilobyte = "x".repeat(1000);
        for _ in 0..2000 {
            stream.see(&text(&kilobyte));
        }
        let size = path_of(folder.path(), &run)
            .metadata()
            .expect("a file")
            .len();
        assert!(size <= 1024 * 1024 + 16, "{size}");
        let mut reader = StreamReader::new(folder.path(), &run);
        let mut pieces = reader.look();
        pieces.extend(reader.look());
        assert_eq!(pieces.last(), Some(&StreamPiece::Full));
    }
}
