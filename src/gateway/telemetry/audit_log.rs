//! `data/audit.log`: one JSON line for each event, with kinds, ids, sizes and instants. It may be handed on: nothing in it is of a
//! letter.
//!
//! The number of its last line says where it goes on, so no event is in it twice or missing, whenever the engine was stopped.
//! It is opened for each group of lines, so another program may rename it at any time; of a log that was renamed the number is
//! read as long as the name begins as before and nothing has packed it.

use crate::store::SizedEvent;
use serde::Deserialize;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Name of the log within `data`.
const FILE: &str = "audit.log";
/// Size at which it becomes `audit.log.1`.
const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Number of older logs that are kept.
const OLDER_MAX: u32 = 9;
/// Longest line that is looked for at the end.
const LINE_BYTES_MAX: u64 = 16 * 1024;

/// The log of a workspace.
pub(super) struct AuditLog {
    path: PathBuf,
}

/// The member of a line that says where to go on.
#[derive(Deserialize)]
struct Numbered {
    seq: i64,
}

impl AuditLog {
    pub(super) fn new(workspace: &Path) -> Self {
        Self {
            path: workspace.join("data").join(FILE),
        }
    }

    /// Returns the number of the last event that it has; `None`: it has none. A line that was cut by a crash is taken off.
    pub(super) fn last(&self) -> io::Result<Option<i64>> {
        match last_of(&self.path, CutLine::TakenOff)? {
            Some(seq) => Ok(Some(seq)),
            None => self.last_of_renamed(),
        }
    }

    /// Returns the same of the logs that were renamed, by this program or another, which calls them as it likes.
    fn last_of_renamed(&self) -> io::Result<Option<i64>> {
        let mut last = None;
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let ending = name.as_encoded_bytes().strip_prefix(FILE.as_bytes());
            if ending.is_some_and(|ending| !ending.is_empty()) && entry.file_type()?.is_file() {
                last = last.max(last_of(&entry.path(), CutLine::Left)?);
            }
        }
        Ok(last)
    }

    /// Adds events; they are on disk when it returns.
    pub(super) fn append(&self, events: &[SizedEvent]) -> io::Result<()> {
        let mut lines = Vec::new();
        for event in events {
            serde_json::to_writer(&mut lines, event)?;
            lines.push(b'\n');
        }
        let size = self.path.metadata().map_or(0, |file| file.len());
        if size > 0 && size.saturating_add(lines.len() as u64) > BYTES_MAX {
            self.rotate()?;
        }
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&self.path)?;
        file.write_all(&lines)?;
        file.sync_data()
    }

    fn older(&self, number: u32) -> PathBuf {
        self.path.with_file_name(format!("{FILE}.{number}"))
    }

    fn rotate(&self) -> io::Result<()> {
        for number in (1..OLDER_MAX).rev() {
            let older = self.older(number);
            if older.exists() {
                std::fs::rename(older, self.older(number + 1))?;
            }
        }
        std::fs::rename(&self.path, self.older(1))
    }
}

/// What becomes of a line without an end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CutLine {
    TakenOff,
    /// The file may be no log at all.
    Left,
}

fn last_of(path: &Path, cut: CutLine) -> io::Result<Option<i64>> {
    let writes = cut == CutLine::TakenOff;
    let mut file = match File::options().read(true).write(writes).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let size = file.metadata()?.len();
    let from = size.saturating_sub(2 * LINE_BYTES_MAX);
    file.seek(SeekFrom::Start(from))?;
    let mut end = Vec::new();
    file.read_to_end(&mut end)?;
    let whole = end.iter().rposition(|byte| *byte == b'\n');
    let whole = whole.map_or(0, |at| at + 1);
    if writes && whole < end.len() {
        file.set_len(from + whole as u64)?;
    }
    let lines = end[..whole].split(|byte| *byte == b'\n').rev();
    let mut numbers = lines.filter_map(|line| serde_json::from_slice::<Numbered>(line).ok());
    Ok(numbers.next().map(|line| line.seq))
}
