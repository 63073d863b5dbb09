//! Versions of the files in a workspace: what a run changed or removed is kept, the oldest goes first.
//!
//! `data/workspaces/PERSONA/` has every content once, under its digest, and an index: the files as
//! they were last seen, and the versions that were replaced since. No agent and no tool may write
//! there. Not kept: what a run made and changed again, files with a second name, links.

use super::entry::{is_missing, path_of};
use super::workspace::{
    self, WorkspaceError, WorkspaceFile, WorkspaceQuota, WorkspaceUsage, fits, list, nanos,
};
use crate::config::AGENT_FOLDER;
use crate::domain::{RunId, Timestamp, hex};
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

static INDEX: &str = "index.json";
static LOCK: &str = "lock";
/// File whose times are those of the file system's clock.
static CLOCK: &str = "clock";
/// More than the step of that clock.
const TICK_NS: i128 = 100_000_000;
/// Stamp of a file that was changed a moment ago: it is read again the next time.
const UNSETTLED: [i64; 5] = [0; 5];
static OBJECTS: &str = "objects";
/// Name under which a content is written before it is whole.
static UNFINISHED: &str = "unfinished";
/// As [`UNFINISHED`], in the workspace.
static RESTORED: &str = ".restored-version";
const PIECE_BYTES: usize = 64 * 1024;

/// A content that a file had before it was changed or removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileVersion {
    /// Counts up within the persona.
    pub number: u64,
    /// Below the workspace.
    pub path: String,
    pub bytes: u64,
    /// When the change was noticed.
    pub replaced_at: String,
    /// Run that changed or removed it; `None`: it was done while no agent worked.
    pub run: Option<String>,
    /// `true`: the file was removed; `false`: it was changed.
    pub removed: bool,
    pub sha256: String,
}

/// A file as it was last seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SeenFile {
    stamp: [i64; 5],
    bytes: u64,
    /// `None`: its content is not kept.
    sha256: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct VersionIndex {
    /// Number of the newest version.
    newest: u64,
    files: BTreeMap<String, SeenFile>,
    /// The oldest first.
    versions: Vec<FileVersion>,
}

/// Versions of one persona's workspace.
pub struct WorkspaceVersions {
    /// Folder of the persona.
    folder: PathBuf,
    place: PathBuf,
    quota: WorkspaceQuota,
}

impl WorkspaceVersions {
    /// Names the versions of a persona's folder; reads nothing.
    pub fn of(folder: &Path, quota: WorkspaceQuota) -> io::Result<Self> {
        let parts = folder.parent().zip(folder.file_name());
        let place = parts.and_then(|(personas, name)| {
            Some(personas.parent()?.join("data/workspaces").join(name))
        });
        Ok(Self {
            folder: folder.to_path_buf(),
            place: place.ok_or_else(|| io::Error::other("the folder is not in a workspace"))?,
            quota,
        })
    }

    /// Returns the present files and what they use. Blocking.
    pub fn files(&self) -> Result<(Vec<WorkspaceFile>, WorkspaceUsage), WorkspaceError> {
        match workspace::open(&self.folder)? {
            Some(dir) => list(&dir, &self.quota),
            None => Ok(Default::default()),
        }
    }

    /// Returns the kept versions, the oldest first. Blocking.
    pub fn versions(&self) -> io::Result<Vec<FileVersion>> {
        Ok(self.index()?.versions)
    }

    /// Keeps what was changed or removed since the last call; `run` has done it. Blocking. Errors:
    /// the workspace holds more than its quota; then nothing is noted, and the next call does it.
    pub fn record(
        &self,
        run: Option<&RunId>,
        now: Timestamp,
    ) -> Result<WorkspaceUsage, WorkspaceError> {
        let _lock = self.lock()?;
        self.record_locked(run, now)
    }

    /// Restores a version of a file, the newest without a number, and keeps what it replaces.
    /// Blocking.
    pub fn restore(
        &self,
        path: &str,
        number: Option<u64>,
        now: Timestamp,
    ) -> Result<FileVersion, WorkspaceError> {
        let _lock = self.lock()?;
        let versions = self.index()?.versions;
        let wanted = |version: &&FileVersion| {
            version.path == path && number.is_none_or(|number| version.number == number)
        };
        let Some(version) = versions.iter().rev().find(wanted) else {
            let of = number.map_or("no version".to_owned(), |number| {
                format!("no version {number}")
            });
            let message = format!("there is {of} of `{path}`");
            return Err(WorkspaceError::NotFound(message));
        };
        // Opened first: what the present version needs may be the room of this one.
        let object = fs::File::open(self.object(&version.sha256))?;
        let usage = self.record_locked(None, now)?;
        let more = WorkspaceUsage {
            bytes: version.bytes,
            files: 1,
        };
        fits(usage, more, &self.quota)?;
        workspace::make(&self.folder, AGENT_FOLDER)?;
        let dir = workspace::open(&self.folder)?.ok_or(ErrorKind::NotFound);
        self.write_file(&dir.map_err(io::Error::from)?, version, object)?;
        self.record_locked(None, now)?;
        Ok(version.clone())
    }

    fn write_file(
        &self,
        dir: &Dir,
        version: &FileVersion,
        mut object: fs::File,
    ) -> Result<(), WorkspaceError> {
        let target = path_of(&version.path);
        if let Some(parent) = target
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
        {
            dir.create_dir_all(parent)?;
        }
        match dir.remove_file(RESTORED) {
            Err(error) if !is_missing(&error) => return Err(error.into()),
            _ => {}
        }
        let options = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .to_owned();
        let mut file = dir.open_with(RESTORED, &options)?;
        io::copy(&mut object, &mut file)?;
        file.sync_all()?;
        // Replaces a link, and does not follow it.
        match dir.rename(RESTORED, dir, &target) {
            Err(error) if error.kind() == ErrorKind::IsADirectory => {
                let path = &version.path;
                let message = format!("`{path}` is a folder now; move it away first");
                Err(WorkspaceError::NotFound(message))
            }
            renamed => Ok(renamed?),
        }
    }

    fn record_locked(
        &self,
        run: Option<&RunId>,
        now: Timestamp,
    ) -> Result<WorkspaceUsage, WorkspaceError> {
        let Some(dir) = workspace::open(&self.folder)? else {
            return self
                .note(Vec::new(), &[], run, now)
                .map(|()| Default::default());
        };
        let (files, usage) = list(&dir, &self.quota)?;
        let (before, settled) = (self.index()?, self.settled_before()?);
        let mut seen = Vec::new();
        for file in &files {
            let known = before.files.get(&file.path);
            let same = known.filter(|known| known.stamp == file.stamp && known.bytes == file.bytes);
            seen.push(match same {
                Some(known) => known.clone(),
                None => SeenFile {
                    stamp: match file.changed_at_ns() < settled {
                        true => file.stamp,
                        false => UNSETTLED,
                    },
                    bytes: file.bytes,
                    sha256: self.keep(&dir, file)?,
                },
            });
        }
        self.note(seen, &files, run, now)?;
        Ok(usage)
    }

    /// Returns the instant, by the clock of the file system, since when a file may have changed again
    /// without another time of its inode.
    fn settled_before(&self) -> io::Result<i128> {
        let path = self.place.join(CLOCK);
        fs::write(&path, b"now")?;
        let metadata = path.metadata()?;
        Ok(nanos(metadata.ctime(), metadata.ctime_nsec()) - TICK_NS)
    }

    /// Writes the index: the versions that these files replace, and the files.
    fn note(
        &self,
        seen: Vec<SeenFile>,
        files: &[WorkspaceFile],
        run: Option<&RunId>,
        now: Timestamp,
    ) -> Result<(), WorkspaceError> {
        let mut index = self.index()?;
        let after: BTreeMap<String, SeenFile> = files
            .iter()
            .map(|file| file.path.clone())
            .zip(seen)
            .collect();
        if after == index.files {
            return Ok(());
        }
        for (path, was) in &index.files {
            let is = after.get(path);
            let Some(sha256) = was.sha256.clone() else {
                continue;
            };
            if is.is_some_and(|is| is.sha256.as_ref() == Some(&sha256)) {
                continue;
            }
            index.newest += 1;
            index.versions.push(FileVersion {
                number: index.newest,
                path: path.clone(),
                bytes: was.bytes,
                replaced_at: now.to_string(),
                run: run.map(ToString::to_string),
                removed: is.is_none(),
                sha256,
            });
        }
        index.files = after;
        let mut bytes: u64 = index.versions.iter().map(|version| version.bytes).sum();
        let mut too_many = 0;
        for version in &index.versions {
            let left = index.versions.len() - too_many;
            if left <= self.quota.versions_max && bytes <= self.quota.versions_bytes_max {
                break;
            }
            bytes -= version.bytes;
            too_many += 1;
        }
        index.versions.drain(..too_many);
        self.write_index(&index)?;
        self.sweep(&index)?;
        Ok(())
    }

    /// Keeps the present content of a file and returns its digest; `None`: it cannot be kept.
    fn keep(&self, dir: &Dir, file: &WorkspaceFile) -> io::Result<Option<String>> {
        if file.is_linked {
            return Ok(None);
        }
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
        let options = OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits().cast_signed())
            .to_owned();
        let Ok(mut source) = dir.open_with(path_of(&file.path), &options) else {
            // It was removed or replaced meanwhile, or may not be read.
            return Ok(None);
        };
        if !source.metadata()?.is_file() {
            return Ok(None);
        }
        fs::create_dir_all(self.place.join(OBJECTS))?;
        let unfinished = self.place.join(UNFINISHED);
        let mut copy = fs::File::create(&unfinished)?;
        let (mut digest, mut bytes) = (Sha256::new(), 0);
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let count = source.read(&mut piece)?;
            if count == 0 {
                break;
            }
            bytes += count as u64;
            if bytes > file.bytes {
                // It grows while it is read; the next call sees the whole.
                return Ok(None);
            }
            digest.update(&piece[..count]);
            copy.write_all(&piece[..count])?;
        }
        copy.sync_data()?;
        let digest = hex(&digest.finalize());
        fs::rename(&unfinished, self.object(&digest))?;
        Ok(Some(digest))
    }

    /// Removes contents that neither a file nor a version has any more.
    fn sweep(&self, index: &VersionIndex) -> io::Result<()> {
        let of_files = index.files.values().filter_map(|file| file.sha256.as_ref());
        let of_versions = index.versions.iter().map(|version| &version.sha256);
        let used: BTreeSet<&String> = of_files.chain(of_versions).collect();
        let listed = match fs::read_dir(self.place.join(OBJECTS)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            listed => listed?,
        };
        for entry in listed {
            let entry = entry?;
            let name = entry.file_name().into_string().unwrap_or_default();
            if !used.contains(&name) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    fn object(&self, sha256: &str) -> PathBuf {
        self.place.join(OBJECTS).join(sha256)
    }

    /// Locks the versions against other processes until the file is dropped.
    fn lock(&self) -> io::Result<fs::File> {
        fs::create_dir_all(&self.place)?;
        let file = fs::File::create(self.place.join(LOCK))?;
        file.lock()?;
        Ok(file)
    }

    fn index(&self) -> io::Result<VersionIndex> {
        match fs::read_to_string(self.place.join(INDEX)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(VersionIndex::default()),
            text => serde_json::from_str(&text?).map_err(io::Error::other),
        }
    }

    fn write_index(&self, index: &VersionIndex) -> io::Result<()> {
        let text = serde_json::to_string(index).map_err(io::Error::other)?;
        let unfinished = self.place.join("index.new");
        let mut file = fs::File::create(&unfinished)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(unfinished, self.place.join(INDEX))
    }
}
