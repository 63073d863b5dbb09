//! Files of a persona that its agents may read and never change, whatever their tier: copied before
//! an agent starts, compared and restored when it has ended. The tool policy judges what an agent
//! announces; this check finds changes that were not announced.
//!
//! While an agent works the copy is in `data/agents/PERSONA/`, so that the next engine can compare
//! after a crash. The replaced file is moved to `data/quarantine/`: it may be the owner's own edit,
//! and is not lost.

use crate::config::is_protected;
use crate::domain::{PersonaId, RunId, Timestamp, sha256_hex};
use crate::store::PersonaStore;
use crate::store::Result as StoreResult;
use serde::{Deserialize, Serialize};
use sqlx::Row;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most files of a persona that are protected.
const ENTRIES_MAX: usize = 100_000;
static MANIFEST: &str = "manifest.json";
static COPIES: &str = "files";
/// Longest time between the record of a call and its effect.
const BEGUN_BEFORE: Duration = Duration::from_secs(10 * 60);

/// Expected effects of our own tools, from the records that were made before the tools began. The
/// conditions are those of the index `thread_tool_events_of_files`.
pub(in crate::store) const EXPECTED: &str = "
    SELECT run_id, tool_name, payload_json ->> '$.begun.foreseen.after' AS after FROM thread_tool_events
    WHERE persona_id = $1 AND created_at >= $2
      AND event_type = 'tool_call' AND tool_name IN ('update_memory', 'schedule_create')";

/// Changes that our own tools have made, or will make, since an agent began.
#[derive(Debug, Clone, Default)]
pub struct ExpectedEffects {
    /// Digests of `active.md`.
    memory: BTreeSet<String>,
    /// Digests of proposed responsibilities.
    proposals: BTreeSet<String>,
    /// Runs that changed the memory.
    runs: BTreeSet<String>,
}

impl PersonaStore {
    /// Returns the changes of our tools in the persona's folder since that instant.
    pub async fn expected_files(&self, since: Timestamp) -> StoreResult<ExpectedEffects> {
        let since = since.minus(BEGUN_BEFORE).to_string();
        let rows = sqlx::query(EXPECTED);
        let rows = rows
            .bind(self.persona.as_str())
            .bind(since)
            .fetch_all(self.store.readers())
            .await?;
        let mut expected = ExpectedEffects::default();
        for row in rows {
            let after: Option<String> = row.get("after");
            match row.get("tool_name") {
                "update_memory" => {
                    expected.memory.extend(after);
                    expected.runs.insert(row.get("run_id"));
                }
                _ => expected.proposals.extend(after),
            }
        }
        Ok(expected)
    }
}

impl ExpectedEffects {
    /// Reports whether our own tools explain a changed path.
    fn explains(
        &self,
        path: &str,
        was: Option<&FileEntry>,
        is: Option<&FileEntry>,
        memory_before: Option<&str>,
    ) -> bool {
        let digest = match is {
            Some(FileEntry::File { sha256, .. }) => Some(sha256.as_str()),
            _ => None,
        };
        let (is_folder, has_memory) =
            (matches!(is, Some(FileEntry::Folder)), !self.runs.is_empty());
        // Two runs that append at the same time leave a memory that neither could expect.
        let is_memory = |digest: &str| self.memory.contains(digest) || self.runs.len() > 1;
        match path.split_once('/') {
            None if path == "active.md" => digest.is_some_and(is_memory),
            None if path == ".memory" => was.is_none() && is_folder && has_memory,
            None if path == "responsibilities" => {
                was.is_none() && is_folder && !self.proposals.is_empty()
            }
            Some((".memory", "lock" | "active.tmp")) => has_memory,
            // The oldest versions are deleted for the newest.
            Some((".memory", _)) => {
                let is_version = |digest| is_memory(digest) || memory_before == Some(digest);
                has_memory && (is.is_none() || (was.is_none() && digest.is_some_and(is_version)))
            }
            Some(("responsibilities", ".proposals.lock" | ".proposal.tmp")) => {
                !self.proposals.is_empty()
            }
            Some(("responsibilities", _)) => {
                was.is_none() && digest.is_some_and(|digest| self.proposals.contains(digest))
            }
            _ => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FileEntry {
    Folder,
    File {
        sha256: String,
        mode: u32,
    },
    Link(PathBuf),
    /// A pipe, a socket, a device; listed, and not copied.
    Other,
}

/// Path below the persona's folder -> entry; a folder comes before its content.
type Entries = BTreeMap<String, FileEntry>;

/// The protected files of a persona at the begin of its agent.
#[derive(Debug, Serialize, Deserialize)]
pub struct FileGuard {
    folder: PathBuf,
    pub persona: String,
    /// The run whose agent began first.
    pub run: String,
    begun_at_ms: i64,
    entries: Entries,
}

/// Returns the path of the copy of a persona's folder: `personas/` and `data/` are in one
/// workspace.
fn copy_of(folder: &Path) -> Option<PathBuf> {
    let (personas, name) = (folder.parent()?, folder.file_name()?);
    Some(personas.parent()?.join("data/agents").join(name))
}

/// Reports whether an agent works in that folder, or did when its engine died.
pub fn is_guarded(folder: &Path) -> bool {
    copy_of(folder).is_some_and(|copy| copy.join(MANIFEST).exists())
}

/// Copies the protected files of a persona's folder. Blocking. Errors: a file cannot be read, or
/// the disk is full.
pub fn guard(
    folder: &Path,
    persona: &PersonaId,
    run: &RunId,
    now: Timestamp,
) -> io::Result<FileGuard> {
    let copy =
        copy_of(folder).ok_or_else(|| io::Error::other("the folder is not in a workspace"))?;
    // The rest of an unfinished copy.
    remove(&copy)?;
    let copies = copy.join(COPIES);
    fs::create_dir_all(&copies)?;
    let entries = list(folder, &mut |path, bytes| {
        write(&copies.join(path), bytes).map(drop)
    })?;
    let guard = FileGuard {
        folder: folder.to_path_buf(),
        persona: persona.to_string(),
        run: run.to_string(),
        begun_at_ms: now.as_millis(),
        entries,
    };
    let text = serde_json::to_string(&guard).map_err(io::Error::other)?;
    let unfinished = copy.join("manifest.new");
    write(&unfinished, text.as_bytes())?.sync_all()?;
    // From here on the copy is valid.
    fs::rename(unfinished, copy.join(MANIFEST))?;
    fs::File::open(&copy)?.sync_all()?;
    Ok(guard)
}

/// Returns the guards of agents whose engine is gone. Blocking.
pub fn left_behind(workspace: &Path) -> io::Result<Vec<FileGuard>> {
    let folders = match fs::read_dir(workspace.join("data/agents")) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        folders => folders?,
    };
    let mut guards = Vec::new();
    for folder in folders {
        match fs::read_to_string(folder?.path().join(MANIFEST)) {
            Ok(text) => guards.push(serde_json::from_str(&text).map_err(io::Error::other)?),
            // An agent starts only after its manifest is written.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(guards)
}

impl FileGuard {
    pub fn begun_at(&self) -> Timestamp {
        Timestamp::from_millis(self.begun_at_ms)
    }

    /// Restores the files that changed without our tools, and returns their paths. Blocking; may be
    /// repeated.
    pub fn put_back(&self, expected: &ExpectedEffects, now: Timestamp) -> io::Result<Vec<String>> {
        let (before, is) = (&self.entries, list(&self.folder, &mut |_, _| Ok(()))?);
        let memory_before = match before.get("active.md") {
            Some(FileEntry::File { sha256, .. }) => Some(sha256.as_str()),
            _ => None,
        };
        let mut changed: Vec<String> = Vec::new();
        let paths: BTreeSet<&String> = before.keys().chain(is.keys()).collect();
        for path in paths {
            let (was, is) = (before.get(path), is.get(path));
            // The content of a quarantined folder was moved with the folder.
            let went_along = was.is_none()
                && changed.iter().any(|folder| {
                    path.strip_prefix(folder)
                        .is_some_and(|rest| rest.starts_with('/'))
                });
            if was == is || went_along || expected.explains(path, was, is, memory_before) {
                continue;
            }
            if let Some(FileEntry::File { sha256, .. }) = was
                && fs::read(self.copied(path)?)
                    .map_or(true, |bytes| sha256_hex(&[&bytes]) != *sha256)
            {
                // The machine lost power before the copy was on disk: the changed file is better
                // than none.
                tracing::error!(
                    persona = self.persona,
                    path,
                    "the copy of a changed file is damaged; it is left as it is"
                );
            } else {
                self.restore(path, was, is, now)?;
            }
            changed.push(path.clone());
        }
        Ok(changed)
    }

    /// Returns the path of the quarantine of that instant, below the workspace.
    pub fn quarantine(&self, now: Timestamp) -> String {
        format!(
            "data/quarantine/{}-{}",
            self.persona,
            now.to_utc().format("%Y%m%dT%H%M%S%3f")
        )
    }

    /// Ends the guard of an agent: removes the copy. Blocking.
    pub fn end(&self) -> io::Result<()> {
        copy_of(&self.folder).map_or(Ok(()), |copy| remove(&copy))
    }

    fn copied(&self, path: &str) -> io::Result<PathBuf> {
        let copy = copy_of(&self.folder)
            .ok_or_else(|| io::Error::other("the folder is not in a workspace"))?;
        Ok(copy.join(COPIES).join(path))
    }

    fn restore(
        &self,
        path: &str,
        was: Option<&FileEntry>,
        is: Option<&FileEntry>,
        now: Timestamp,
    ) -> io::Result<()> {
        let missing = || io::Error::other("the folder is not in a workspace");
        let copy = copy_of(&self.folder).ok_or_else(missing)?;
        let workspace = copy.ancestors().nth(3).ok_or_else(missing)?;
        let target = self.folder.join(path);
        if is.is_some() && target.symlink_metadata().is_ok() {
            quarantine_file(&target, &workspace.join(self.quarantine(now)).join(path))?;
        }
        match was {
            None | Some(FileEntry::Other) => Ok(()),
            Some(FileEntry::Folder) => fs::create_dir(&target),
            Some(FileEntry::Link(to)) => symlink(to, &target),
            Some(FileEntry::File { mode, .. }) => {
                let unfinished = copy.join("restored");
                write(&unfinished, &fs::read(self.copied(path)?)?)?.sync_all()?;
                fs::set_permissions(&unfinished, fs::Permissions::from_mode(*mode))?;
                match fs::rename(&unfinished, &target) {
                    Err(error) if error.kind() == ErrorKind::CrossesDevices => {
                        fs::copy(&unfinished, &target).map(|_bytes| ())
                    }
                    renamed => renamed,
                }
            }
        }
    }
}

/// Lists the protected entries of a folder; `each` is given every file's path and bytes. Links are
/// not followed.
fn list(folder: &Path, each: &mut dyn FnMut(&str, &[u8]) -> io::Result<()>) -> io::Result<Entries> {
    let mut entries = Entries::new();
    let mut left: Vec<String> = names(folder)?;
    left.retain(|name| is_protected(Path::new(name)));
    while let Some(path) = left.pop() {
        let at = folder.join(&path);
        let metadata = match at.symlink_metadata() {
            // The file was removed after its folder was listed.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            metadata => metadata?,
        };
        let entry = if metadata.is_dir() {
            left.extend(names(&at)?.into_iter().map(|name| format!("{path}/{name}")));
            FileEntry::Folder
        } else if metadata.is_symlink() {
            FileEntry::Link(fs::read_link(&at)?)
        } else if metadata.is_file() {
            let bytes = fs::read(&at)?;
            each(&path, &bytes)?;
            FileEntry::File {
                sha256: sha256_hex(&[&bytes]),
                mode: metadata.permissions().mode() & 0o7777,
            }
        } else {
            FileEntry::Other
        };
        entries.insert(path, entry);
        if entries.len() > ENTRIES_MAX {
            return Err(io::Error::other(format!(
                "`{}` holds more than {ENTRIES_MAX} files",
                folder.display()
            )));
        }
    }
    Ok(entries)
}

/// Returns the names in a folder; a name that is not UTF-8 is skipped, because no file of ours has
/// one and nothing reads such a file.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.file_name().into_string().ok()));
    Ok(entries
        .collect::<io::Result<Vec<_>>>()?
        .into_iter()
        .flatten()
        .collect())
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<fs::File> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut file = fs::File::create(path)?;
    file.write_all(bytes)?;
    Ok(file)
}

fn quarantine_file(from: &Path, to: &Path) -> io::Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::rename(from, to)
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
