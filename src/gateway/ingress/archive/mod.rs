//! Archives of letters on disk, read one letter at a time: mbox files, Maildirs, folders of `.eml`
//! files.
//!
//! Memory is bounded by the largest accepted letter, whatever the size of the archive. Absent on
//! purpose: writing, locking (an archive that still changes is imported again), and every judgement
//! about letters.

mod folders;
mod mbox;

use crate::domain::Timestamp;
use crate::mime::Header;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

/// Format of an archive on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One file; a line `From SENDER DATE` begins each letter (RFC 4155).
    Mbox,
    /// A folder with `cur` and `new`.
    Maildir,
    /// A file with one letter, or a folder of such files, including its subfolders.
    Eml,
}

impl Format {
    pub const ALL: [Self; 3] = [Self::Mbox, Self::Maildir, Self::Eml];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mbox => "mbox",
            Self::Maildir => "maildir",
            Self::Eml => "eml",
        }
    }

    /// Detects the format of the archive at `path`.
    pub fn guess(path: &Path) -> io::Result<Self> {
        if path.is_dir() {
            let has = |name: &str| path.join(name).is_dir();
            return Ok(if has("cur") && has("new") {
                Self::Maildir
            } else {
                Self::Eml
            });
        }
        let mut beginning = [0; 5];
        let read = File::open(path)?.take(5).read(&mut beginning)?;
        Ok(if &beginning[..read] == b"From " {
            Self::Mbox
        } else {
            Self::Eml
        })
    }
}

/// One letter of an archive.
#[derive(Debug)]
pub struct ArchiveEntry {
    /// Position of the letter: a file, or a file and the letter's number in it.
    pub place: String,
    /// `None`: the letter exceeds the size limit and was skipped.
    pub bytes: Option<Vec<u8>>,
    /// Arrival according to the archive.
    pub received_at: Option<Timestamp>,
    /// Bytes of the archive up to the next letter, for progress.
    pub archived_bytes: u64,
}

/// The letters of an archive, in its order.
pub struct Archive {
    letters: Box<dyn Iterator<Item = io::Result<ArchiveEntry>> + Send>,
    /// Bytes of all files together.
    pub total_bytes: u64,
}

impl Archive {
    /// Opens an archive; letters larger than `letter_bytes_max` are skipped.
    pub fn open(path: &Path, format: Format, letter_bytes_max: usize) -> io::Result<Self> {
        if format != Format::Mbox {
            return folders::open(path, format, letter_bytes_max);
        }
        let file = File::open(path)?;
        let total_bytes = file.metadata()?.len();
        let reader = BufReader::with_capacity(256 * 1024, file);
        let letters = mbox::MboxLetters::new(reader, path.display().to_string(), letter_bytes_max);
        Ok(Self {
            letters: Box::new(letters),
            total_bytes,
        })
    }
}

impl Iterator for Archive {
    type Item = io::Result<ArchiveEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.letters.next()
    }
}

/// Arrival of a letter by its own header: from the last server's `Received`, else from the sender's
/// `Date`.
fn time_in_header(bytes: &[u8]) -> Option<Timestamp> {
    let header = Header::read(bytes);
    header.arrival().or_else(|| header.date())
}
