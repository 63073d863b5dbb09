//! `data/audit.log`: one JSON line for each event, with kinds, ids, sizes and instants. It may be handed on: nothing in it is of a
//! letter.
//!
//! The number of its last line says where it goes on, so no event is in it twice or missing, whenever the engine was stopped.

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
        match last_of(&self.path)? {
            Some(seq) => Ok(Some(seq)),
            None => last_of(&self.older(1)),
        }
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

fn last_of(path: &Path) -> io::Result<Option<i64>> {
    let mut file = match File::options().read(true).write(true).open(path) {
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
    if whole < end.len() {
        file.set_len(from + whole as u64)?;
    }
    let lines = end[..whole].split(|byte| *byte == b'\n').rev();
    let mut numbers = lines.filter_map(|line| serde_json::from_slice::<Numbered>(line).ok());
    Ok(numbers.next().map(|line| line.seq))
}
