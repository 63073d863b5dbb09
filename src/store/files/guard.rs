//! Copy of everything in a persona's folder but its workspace, kept while an agent works: no agent may
//! change it, whatever its tier. The tool policy judges what an agent announces; the comparison with
//! the copy (`put_back.rs`) finds changes that were not announced.
//!
//! The copy is in `data/agents/PERSONA/`, so that the next engine can compare after a crash. As long
//! as it is there, no responsibility of the persona is read.

use super::entry::{Entries, FileEntry, key_of, path_of, read_entry};
use crate::config::AGENT_FOLDER;
use crate::domain::{PersonaId, RunId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Most entries of a persona's folder outside its workspace.
const ENTRIES_MAX: usize = 100_000;
/// Most bytes of a persona's folder outside its workspace: each agent's start copies them.
pub(super) const GUARDED_BYTES_MAX: u64 = 1024 * 1024 * 1024;
static MANIFEST: &str = "manifest.json";
static COPIES: &str = "files";

/// The protected entries of a persona at the begin of its agent.
#[derive(Debug, Serialize, Deserialize)]
pub struct FileGuard {
    pub(super) folder: PathBuf,
    pub persona: String,
    /// The run whose agent began first.
    pub run: String,
    begun_at_ms: i64,
    /// The folder itself.
    pub(super) root: FileEntry,
    pub(super) entries: Entries,
}

/// Returns the path of the copy of a persona's folder: `personas/` and `data/` are in one
/// workspace.
pub(super) fn copy_of(folder: &Path) -> io::Result<PathBuf> {
    let parts = folder.parent().zip(folder.file_name());
    parts
        .and_then(|(personas, name)| Some(personas.parent()?.join("data/agents").join(name)))
        .ok_or_else(|| io::Error::other("the folder is not in a workspace"))
}

/// Reports whether an agent works in that folder, or did when its engine died.
pub fn is_guarded(folder: &Path) -> bool {
    copy_of(folder).is_ok_and(|copy| copy.join(MANIFEST).exists())
}

/// Copies the protected entries of a persona's folder. Blocking. Errors: a file cannot be read, the
/// disk is full, or an earlier agent's changes are not put back ([`left_in`]): its copy would be
/// lost.
pub fn guard(
    folder: &Path,
    persona: &PersonaId,
    run: &RunId,
    now: Timestamp,
) -> io::Result<FileGuard> {
    if is_guarded(folder) {
        let message = "what an earlier agent changed is not put back yet";
        return Err(io::Error::other(message));
    }
    let copy = copy_of(folder)?;
    // The rest of an unfinished copy.
    remove(&copy)?;
    let copies = copy.join(COPIES);
    fs::create_dir_all(&copies)?;
    let missing = || io::Error::from(ErrorKind::NotFound);
    let root = read_entry(folder, 0, &mut |_| Ok(()))?.ok_or_else(missing)?;
    let guard = FileGuard {
        folder: folder.to_path_buf(),
        persona: persona.to_string(),
        run: run.to_string(),
        begun_at_ms: now.as_millis(),
        root,
        entries: copy_entries(folder, &copies)?,
    };
    let text = serde_json::to_string(&guard).map_err(io::Error::other)?;
    let unfinished = copy.join("manifest.new");
    write(&unfinished, text.as_bytes())?.sync_all()?;
    // From here on the copy is valid.
    fs::rename(unfinished, copy.join(MANIFEST))?;
    fs::File::open(&copy)?.sync_all()?;
    Ok(guard)
}

/// Returns the guard of a folder whose agent is gone and whose changes are not put back. Blocking.
pub fn left_in(folder: &Path) -> io::Result<Option<FileGuard>> {
    read_manifest(&copy_of(folder)?)
}

/// Returns the guards of agents whose engine is gone, and the errors of those that cannot be read.
/// Blocking.
pub fn left_behind(workspace: &Path) -> io::Result<Vec<io::Result<FileGuard>>> {
    let folders = match fs::read_dir(workspace.join("data/agents")) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        folders => folders?,
    };
    let mut guards = Vec::new();
    for folder in folders {
        guards.extend(read_manifest(&folder?.path()).transpose());
    }
    Ok(guards)
}

fn read_manifest(copy: &Path) -> io::Result<Option<FileGuard>> {
    match fs::read_to_string(copy.join(MANIFEST)) {
        Ok(text) => serde_json::from_str(&text).map(Some).map_err(|error| {
            io::Error::other(format!("`{}`: {error}", copy.join(MANIFEST).display()))
        }),
        // An agent starts only after its manifest is written.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl FileGuard {
    /// Returns the folder of the persona.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn begun_at(&self) -> Timestamp {
        Timestamp::from_millis(self.begun_at_ms)
    }

    /// Ends the guard of an agent: removes the copy. Blocking.
    pub fn end(&self) -> io::Result<()> {
        let copy = copy_of(&self.folder)?;
        // The manifest goes first: a copy without files must never be compared with.
        match fs::remove_file(copy.join(MANIFEST)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => remove(&copy),
        }
    }

    /// Returns the path of the copy of an entry.
    pub(super) fn copied(&self, key: &str) -> io::Result<PathBuf> {
        Ok(copy_of(&self.folder)?.join(COPIES).join(path_of(key)))
    }
}

/// Lists the protected entries of a folder, and copies the files among them. Links are not followed.
fn copy_entries(folder: &Path, copies: &Path) -> io::Result<Entries> {
    let (mut entries, mut left) = (BTreeMap::new(), vec![String::new()]);
    let mut bytes_left = GUARDED_BYTES_MAX;
    while let Some(parent) = left.pop() {
        for (key, path) in children(folder, &parent)? {
            let target = copies.join(path_of(&key));
            let entry = read_entry(&path, bytes_left, &mut |bytes| {
                write(&target, bytes).map(drop)
            })?;
            // It was removed after its folder was listed.
            let Some(entry) = entry else { continue };
            match &entry {
                FileEntry::Folder { .. } => left.push(key.clone()),
                FileEntry::File { sha256, bytes, .. } => {
                    if sha256.is_empty() {
                        return Err(not_copied(&path, *bytes, bytes_left));
                    }
                    bytes_left = bytes_left.saturating_sub(*bytes);
                }
                FileEntry::Link(_) | FileEntry::Other => {}
            }
            entries.insert(key, entry);
            if entries.len() > ENTRIES_MAX {
                let shown = folder.display();
                let message = format!(
                    "`{shown}` holds more than {ENTRIES_MAX} files outside `{AGENT_FOLDER}`"
                );
                return Err(io::Error::other(message));
            }
        }
    }
    Ok(entries)
}

fn not_copied(path: &Path, bytes: u64, bytes_left: u64) -> io::Error {
    let shown = path.display();
    if bytes <= bytes_left {
        return io::Error::other(format!("`{shown}` cannot be read"));
    }
    io::Error::other(format!(
        "with `{shown}`, the persona's folder has more than {GUARDED_BYTES_MAX} bytes outside `{AGENT_FOLDER}`, which are \
         copied for each agent; keep large files elsewhere"
    ))
}

/// Returns the protected entries of a folder below the persona's: key and path of each.
pub(super) fn children(folder: &Path, parent: &str) -> io::Result<Vec<(String, PathBuf)>> {
    let listed = match fs::read_dir(folder.join(path_of(parent))) {
        // It was removed after its parent was listed.
        Err(error) if error.kind() == ErrorKind::NotFound && !parent.is_empty() => {
            return Ok(Vec::new());
        }
        listed => listed?,
    };
    let mut children = Vec::new();
    for entry in listed {
        let entry = entry?;
        let name = key_of(&entry.file_name());
        let is_workspace = parent.is_empty() && name == AGENT_FOLDER;
        // A link in its place would lead what is written there elsewhere.
        if is_workspace && entry.file_type()?.is_dir() {
            continue;
        }
        let key = match parent {
            "" => name,
            parent => format!("{parent}/{name}"),
        };
        children.push((key, entry.path()));
    }
    Ok(children)
}

pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<fs::File> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut file = fs::File::create(path)?;
    file.write_all(bytes)?;
    Ok(file)
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
