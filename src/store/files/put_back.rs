//! Comparison of a persona's folder with the copy from before its agent and what its owner has edited since, and its
//! restoration.
//!
//! Every change is noted in the copy before it is undone, so that the owner is told of it also when
//! the engine dies in between. What stood there instead moves to `data/quarantine/`: it may be the
//! owner's own edit by an editor on the machine, and is not lost.

use super::agent_files::ExpectedEffects;
use super::entry::{Entries, FileEntry, is_missing, path_of, read_entry};
use super::guard::{FileGuard, GUARDED_BYTES_MAX, children, copy_of, write};
use super::owner_edits::OwnerEdits;
use crate::domain::{Timestamp, sha256_hex};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Most changed paths that are noted; others are undone without.
const NOTED_MAX: usize = 1_000;
/// Most entries that have one name in one quarantine.
const NAMESAKES_MAX: usize = 1_000;
static NOTES: &str = "changes.jsonl";
/// Key of the persona's folder itself.
const ROOT: &str = "";

/// Changes that were undone, also by an engine that died before it could tell of them.
#[derive(Debug)]
pub struct UndoneChanges {
    /// Paths below the persona's folder; `.` is the folder itself.
    pub paths: Vec<String>,
    /// When the first one was found.
    pub found_at: Timestamp,
    /// Folder of what stood there instead, below the engine's.
    pub quarantine: String,
}

/// A line of the notes.
#[derive(Serialize, Deserialize)]
struct ChangeNote {
    at_ms: i64,
    path: String,
}

impl FileGuard {
    /// Undoes what changed without our tools. Blocking; may be repeated, and goes on where it was
    /// interrupted.
    pub fn put_back(
        &self,
        expected: &ExpectedEffects,
        now: Timestamp,
    ) -> io::Result<UndoneChanges> {
        let edits = OwnerEdits::of(&copy_of(&self.folder)?)?;
        let entries = edits.applied_to(&self.entries, &self.folder)?;
        let mut work = Restoration::begin(self, expected, (&entries, &edits), now)?;
        work.root()?;
        work.new_entries_of(ROOT)?;
        let folders = |entry: &FileEntry| matches!(entry, FileEntry::Folder { .. });
        // A folder comes before its content.
        for (key, was) in entries.iter().filter(|(_, was)| folders(was)) {
            work.folder(key, was)?;
        }
        for (key, was) in entries.iter().filter(|(_, was)| !folders(was)) {
            work.other(key, was)?;
        }
        Ok(work.done())
    }

    /// Forgets the noted changes after the owner was told of them. Blocking.
    pub fn forget_changes(&self) -> io::Result<()> {
        match fs::remove_file(copy_of(&self.folder)?.join(NOTES)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

/// One pass over a persona's folder.
struct Restoration<'a> {
    guard: &'a FileGuard,
    expected: &'a ExpectedEffects,
    /// What the folder is to hold.
    entries: &'a Entries,
    edits: &'a OwnerEdits,
    /// Digests of the memory before a tool of ours changed it.
    memory_before: Vec<&'a str>,
    copy: PathBuf,
    noted: BTreeSet<String>,
    found_at: Timestamp,
}

impl<'a> Restoration<'a> {
    fn begin(
        guard: &'a FileGuard,
        expected: &'a ExpectedEffects,
        (entries, edits): (&'a Entries, &'a OwnerEdits),
        now: Timestamp,
    ) -> io::Result<Self> {
        let copy = copy_of(&guard.folder)?;
        let text = match fs::read_to_string(copy.join(NOTES)) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            text => text?,
        };
        // A line that a crash cut short belongs to a change that was not undone.
        let notes: Vec<ChangeNote> = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let found_at = notes
            .first()
            .map_or(now, |note| Timestamp::from_millis(note.at_ms));
        Ok(Self {
            guard,
            expected,
            entries,
            edits,
            memory_before: [&guard.entries, entries]
                .into_iter()
                .filter_map(|entries| entries.get("active.md")?.digest())
                .collect(),
            copy,
            noted: notes.into_iter().map(|note| note.path).collect(),
            found_at,
        })
    }

    fn done(self) -> UndoneChanges {
        UndoneChanges {
            quarantine: self.quarantine(),
            paths: self.noted.into_iter().collect(),
            found_at: self.found_at,
        }
    }

    fn quarantine(&self) -> String {
        let at = self.found_at.to_utc().format("%Y%m%dT%H%M%S%3f");
        format!("data/quarantine/{}-{at}", self.guard.persona)
    }

    fn path(&self, key: &str) -> PathBuf {
        self.guard.folder.join(path_of(key))
    }

    fn now_at(&self, key: &str) -> io::Result<Option<FileEntry>> {
        let path = match key {
            ROOT => self.guard.folder.clone(),
            key => self.path(key),
        };
        read_entry(&path, GUARDED_BYTES_MAX, &mut |_| Ok(()))
    }

    /// Notes a change before it is undone.
    fn note(&mut self, key: &str) -> io::Result<()> {
        let path = if key == ROOT { "." } else { key }.to_owned();
        if self.noted.len() >= NOTED_MAX || !self.noted.insert(path.clone()) {
            return Ok(());
        }
        let note = ChangeNote {
            at_ms: self.found_at.as_millis(),
            path,
        };
        let text = serde_json::to_string(&note).map_err(io::Error::other)?;
        let notes = self.copy.join(NOTES);
        let mut file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(notes)?;
        // One write: also the end of a line that a crash cut short.
        file.write_all(format!("\n{text}\n").as_bytes())?;
        file.sync_data()
    }

    /// Restores the persona's folder itself.
    fn root(&mut self) -> io::Result<()> {
        let (was, is) = (&self.guard.root, self.now_at(ROOT)?);
        if is.as_ref() == Some(was) {
            return Ok(());
        }
        self.note(ROOT)?;
        if let (FileEntry::Folder { mode }, Some(FileEntry::Folder { .. })) = (was, &is) {
            return set_mode(&self.guard.folder, *mode);
        }
        if is.is_some() {
            self.move_away(&self.guard.folder.clone(), Path::new("folder"))?;
        }
        self.make(&self.guard.folder.clone(), was)
    }

    /// Restores a folder, and removes what is new in it.
    fn folder(&mut self, key: &str, was: &FileEntry) -> io::Result<()> {
        let (is, path) = (self.now_at(key)?, self.path(key));
        let is_folder = matches!(is, Some(FileEntry::Folder { .. }));
        if is.as_ref() != Some(was) {
            self.note(key)?;
            match was {
                FileEntry::Folder { mode } if is_folder => set_mode(&path, *mode)?,
                was => {
                    if is.is_some() {
                        self.move_away(&path, &path_of(key))?;
                    }
                    self.make(&path, was)?;
                }
            }
        }
        self.new_entries_of(key)
    }

    /// Moves away what is new in a folder. A new folder goes whole, unless one of our tools made it.
    fn new_entries_of(&mut self, parent: &str) -> io::Result<()> {
        for (key, path) in children(&self.guard.folder, parent)? {
            if self.entries.contains_key(&key) {
                continue;
            }
            let is = read_entry(&path, GUARDED_BYTES_MAX, &mut |_| Ok(()))?;
            if self
                .expected
                .explains(&key, None, is.as_ref(), &self.memory_before)
            {
                if let Some(FileEntry::Folder { .. }) = is {
                    self.new_entries_of(&key)?;
                }
            } else if is.is_some() {
                self.note(&key)?;
                self.move_away(&path, &path_of(&key))?;
            }
        }
        Ok(())
    }

    /// Restores a file or a link.
    fn other(&mut self, key: &str, was: &FileEntry) -> io::Result<()> {
        let is = self.now_at(key)?;
        if is.as_ref().is_some_and(|is| is.is_as_before(was))
            || self
                .expected
                .explains(key, Some(was), is.as_ref(), &self.memory_before)
        {
            return Ok(());
        }
        self.note(key)?;
        if let FileEntry::File { sha256, .. } = was
            && fs::read(self.copied(key)?).map_or(true, |bytes| sha256_hex(&[&bytes]) != *sha256)
        {
            // The machine lost power before the copy was on disk: the changed file is better than
            // none.
            tracing::error!(
                persona = self.guard.persona,
                path = key,
                "the copy of a changed file is damaged; it is left as it is"
            );
            return Ok(());
        }
        let path = self.path(key);
        if is.is_some() {
            self.move_away(&path, &path_of(key))?;
        }
        match was {
            FileEntry::File { mode, .. } => self.restore_file(key, &path, *mode),
            was => self.make(&path, was),
        }
    }

    fn make(&self, path: &Path, was: &FileEntry) -> io::Result<()> {
        match was {
            FileEntry::Folder { mode } => {
                fs::create_dir(path)?;
                set_mode(path, *mode)
            }
            FileEntry::Link(target) => symlink(path_of(target), path),
            // The bytes of a device or a socket are not its entry's.
            FileEntry::File { .. } | FileEntry::Other => Ok(()),
        }
    }

    /// Returns where the bytes of a file are that is to be there.
    fn copied(&self, key: &str) -> io::Result<PathBuf> {
        match self.edits.files.get(key) {
            Some(edit) => Ok(edit.clone()),
            None => self.guard.copied(key),
        }
    }

    /// Writes a file anew, so that no second name of the old one leads to it.
    fn restore_file(&self, key: &str, path: &Path, mode: u32) -> io::Result<()> {
        let unfinished = self.copy.join("restored");
        write(&unfinished, &fs::read(self.copied(key)?)?)?.sync_all()?;
        set_mode(&unfinished, mode)?;
        match fs::rename(&unfinished, path) {
            Err(error) if error.kind() == ErrorKind::CrossesDevices => {
                fs::copy(&unfinished, path).map(|_bytes| ())
            }
            renamed => renamed,
        }
    }

    /// Moves an entry to the quarantine, under a name that is free there.
    fn move_away(&self, from: &Path, below: &Path) -> io::Result<()> {
        let workspace = self.copy.ancestors().nth(3);
        let workspace = workspace.ok_or_else(|| io::Error::other("no workspace"))?;
        let wanted = workspace.join(self.quarantine()).join(below);
        if let Some(parent) = wanted.parent() {
            fs::create_dir_all(parent)?;
        }
        // The content of a folder without permissions cannot be moved.
        if from.symlink_metadata()?.is_dir() {
            set_mode(from, 0o700)?;
        }
        for count in 0..NAMESAKES_MAX {
            let mut to = wanted.clone().into_os_string();
            if count > 0 {
                to.push(format!(".{count}"));
            }
            let to = PathBuf::from(to);
            match to.symlink_metadata() {
                Err(error) if is_missing(&error) => return fs::rename(from, to),
                _ => {}
            }
        }
        Err(io::Error::other("the quarantine is full of this name"))
    }
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}
