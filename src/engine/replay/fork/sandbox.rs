//! Folder in which a fork's tools work: a copy of the persona's, at `data/forks/ID/`.
//!
//! Only files and folders are copied, through a directory capability: links are not followed, pipes
//! are not opened.

use super::ForkError;
use crate::domain::Timestamp;
use cap_std::ambient_authority;
use cap_std::fs_utf8::Dir;
use chrono::{DateTime, Utc};
use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Most files of a persona's folder, and most bytes of all of them together.
const FILES_MAX: usize = 10_000;
const BYTES_MAX: u64 = 512 * 1024 * 1024;
/// Deepest nesting of folders.
const DEPTH_MAX: usize = 16;

/// Copies a persona's folder for the fork of that id, and opens the copy. Where there is none (an
/// imported run brings no folders), the copy has the files that the run read.
pub(super) fn copy(
    workspace: &Path,
    persona: &str,
    fork: &str,
    read: &[(String, Arc<str>)],
) -> Result<Dir, ForkError> {
    copied(workspace, persona, fork, read).map_err(ForkError::Sandbox)
}

fn copied(
    workspace: &Path,
    persona: &str,
    fork: &str,
    read: &[(String, Arc<str>)],
) -> io::Result<Dir> {
    let workspace = Dir::open_ambient_dir(workspace_path(workspace)?, ambient_authority())?;
    let from = match workspace.open_dir(format!("personas/{persona}")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        found => Some(found?),
    };
    let place = format!("data/forks/{fork}/persona");
    workspace.create_dir_all(&place)?;
    let to = workspace.open_dir(&place)?;
    match from {
        Some(from) => Left {
            files: FILES_MAX,
            bytes: BYTES_MAX,
        }
        .fill(&from, &to, DEPTH_MAX)?,
        None => read
            .iter()
            .try_for_each(|(path, text)| write(&to, path, text))?,
    }
    Ok(to)
}

/// Writes a file in the folder; the capability refuses a path that leads out of it.
fn write(folder: &Dir, path: &str, text: &str) -> io::Result<()> {
    if let Some((parent, _)) = path.rsplit_once('/') {
        folder.create_dir_all(parent)?;
    }
    folder.write(path, text)
}

fn workspace_path(workspace: &Path) -> io::Result<&str> {
    workspace
        .to_str()
        .ok_or_else(|| io::Error::other("the workspace's path is not UTF-8"))
}

/// Removes the folders of forks that are not kept and older than `before`; with `dry` it only
/// counts. Returns bytes.
pub fn sweep(
    workspace: &Path,
    kept: &HashSet<String>,
    before: Timestamp,
    dry: bool,
) -> io::Result<u64> {
    let forks = match Dir::open_ambient_dir(workspace_path(workspace)?, ambient_authority())?
        .open_dir("data/forks")
    {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        forks => forks?,
    };
    let mut bytes = 0;
    for entry in forks.entries()? {
        let entry = entry?;
        let name = entry.file_name()?;
        // A fork's folder is created before its row.
        let made: DateTime<Utc> = entry.metadata()?.modified()?.into_std().into();
        if kept.contains(&name) || made >= before.to_utc() || !entry.file_type()?.is_dir() {
            continue;
        }
        bytes += size(&forks.open_dir(&name)?, DEPTH_MAX + 2)?;
        if !dry {
            forks.remove_dir_all(&name)?;
        }
    }
    Ok(bytes)
}

/// Returns the bytes of all files; deeper folders than a copy can have are not counted.
fn size(folder: &Dir, depth: usize) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in folder.entries()? {
        let entry = entry?;
        match entry.file_type()? {
            kind if kind.is_dir() && depth > 0 => {
                bytes += size(&folder.open_dir(entry.file_name()?)?, depth - 1)?;
            }
            kind if kind.is_file() => bytes += entry.metadata()?.len(),
            _ => {}
        }
    }
    Ok(bytes)
}

/// Remaining allowance of a copy.
struct Left {
    files: usize,
    bytes: u64,
}

impl Left {
    fn fill(&mut self, from: &Dir, to: &Dir, depth: usize) -> io::Result<()> {
        let depth = depth
            .checked_sub(1)
            .ok_or_else(|| io::Error::other("it is too deep"))?;
        for entry in from.entries()? {
            let entry = entry?;
            let (name, kind) = (entry.file_name()?, entry.file_type()?);
            if kind.is_dir() {
                to.create_dir(&name)?;
                self.fill(&from.open_dir(&name)?, &to.open_dir(&name)?, depth)?;
            } else if kind.is_file() {
                let size = entry.metadata()?.len();
                let (Some(files), Some(bytes)) =
                    (self.files.checked_sub(1), self.bytes.checked_sub(size))
                else {
                    return Err(io::Error::other("it has too many files or bytes"));
                };
                (self.files, self.bytes) = (files, bytes);
                from.copy(&name, to, &name)?;
            }
        }
        Ok(())
    }
}
