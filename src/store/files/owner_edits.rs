//! Edits that the owner makes in a persona's folder while an agent works there: from a page, by the API or by a command.
//!
//! Each is written beside the copy of the folder (`guard`) before the file itself is replaced. When the agent has ended, the
//! folder is compared with the copy as the owner has changed it: an edit stays, and what an agent made of it afterwards is put
//! back to the edit. An editor on the machine leaves no such note, and is put back as an agent's change would be.

use super::entry::{Entries, FileEntry, is_missing, key_of, path_of, read_entry};
use super::guard::{copy_of, write};
use super::persona_files::PERSONA_FILE_BYTES_MAX;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

static EDITS: &str = "edits";
/// Name of an edit that is not whole yet, beside the folder of edits.
static UNFINISHED: &str = "edit.new";
/// Mode of a folder that an edit made and that is not there any more.
const FOLDER_MODE: u32 = 0o700;
/// Mode of a file that was replaced.
const FILE_MODE: u32 = 0o600;

/// A note of an edit, to be taken back when the file is not replaced after all.
pub(super) struct EditNote {
    path: PathBuf,
    /// Edit of the same file before this one.
    before: Option<Vec<u8>>,
}

/// Notes an edit, if an agent works in the folder or is about to. Blocking.
pub(super) fn note(folder: &Path, name: &str, text: &str) -> io::Result<Option<EditNote>> {
    let copy = copy_of(folder)?;
    if !copy.is_dir() {
        return Ok(None);
    }
    let path = copy.join(EDITS).join(path_of(name));
    let before = match fs::read(&path) {
        Err(error) if is_missing(&error) => None,
        bytes => Some(bytes?),
    };
    put(&copy, &path, text.as_bytes())?;
    Ok(Some(EditNote { path, before }))
}

fn put(copy: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = copy.join(UNFINISHED);
    write(&unfinished, bytes)?.sync_all()?;
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::rename(unfinished, path)
}

impl EditNote {
    /// Takes the note back.
    pub(super) fn undo(self, folder: &Path) -> io::Result<()> {
        match self.before {
            Some(bytes) => put(&copy_of(folder)?, &self.path, &bytes),
            None => fs::remove_file(&self.path),
        }
    }
}

/// Edits since an agent began: what their files are to be, and where their bytes are.
#[derive(Default)]
pub(super) struct OwnerEdits {
    pub files: BTreeMap<String, PathBuf>,
}

impl OwnerEdits {
    /// Reads the notes beside a copy. Blocking.
    pub(super) fn of(copy: &Path) -> io::Result<Self> {
        let mut edits = Self::default();
        edits.gather(&copy.join(EDITS), "")?;
        Ok(edits)
    }

    fn gather(&mut self, folder: &Path, parent: &str) -> io::Result<()> {
        let entries = match fs::read_dir(folder) {
            Err(error) if is_missing(&error) => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let name = key_of(&entry.file_name());
            let key = match parent {
                "" => name,
                parent => format!("{parent}/{name}"),
            };
            match entry.file_type()?.is_dir() {
                true => self.gather(&entry.path(), &key)?,
                false => {
                    self.files.insert(key, entry.path());
                }
            }
        }
        Ok(())
    }

    /// Returns the entries of a folder as its owner has changed them. `folder`: the folder as it is, which says the modes of
    /// folders that an edit made.
    pub(super) fn applied_to(&self, entries: &Entries, folder: &Path) -> io::Result<Entries> {
        let mut entries = entries.clone();
        for (key, path) in &self.files {
            let edit = read_entry(path, PERSONA_FILE_BYTES_MAX, &mut |_| Ok(()))?;
            let Some(FileEntry::File { sha256, bytes, .. }) = edit else {
                continue;
            };
            let parents = key.match_indices('/').map(|(at, _)| &key[..at]);
            for parent in parents {
                if entries.contains_key(parent) {
                    continue;
                }
                let mode = match read_entry(&folder.join(path_of(parent)), 0, &mut |_| Ok(()))? {
                    // Nobody else may write into it, whoever made it.
                    Some(FileEntry::Folder { mode }) => mode & !0o022,
                    _ => FOLDER_MODE,
                };
                entries.insert(parent.to_owned(), FileEntry::Folder { mode });
            }
            let file = FileEntry::File {
                sha256,
                bytes,
                mode: FILE_MODE,
                links: 1,
            };
            entries.insert(key.clone(), file);
        }
        Ok(entries)
    }
}
