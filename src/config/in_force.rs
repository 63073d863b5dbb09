//! The configuration that the working engine has read, and the files edited since: an edit is in
//! force after a restart.
//!
//! The engine stores the digests of its files in `data/in-force.json`, so that other commands can
//! compare without asking it. Absent on purpose: `PERSONA.md`, knowledge and responsibilities,
//! which are read for each run.

use crate::config::file::{
    ConfigLocation, ConfigSource, HOOKS_FILE, KEEPING_FILE, MCP_FILE, MCP_LOCK_FILE, POLICY_FILE,
    PRICES_FILE, SKILLS_FILE, Snapshot, WEB_FILE, own_tool_file, persona_file, persona_policy_file,
    write_private,
};
use crate::config::secrets;
use crate::domain::sha256_hex;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

const FILE: &str = "data/in-force.json";

/// Files that a workspace need not have.
const OPTIONAL: [&str; 8] = [
    PRICES_FILE,
    POLICY_FILE,
    HOOKS_FILE,
    KEEPING_FILE,
    WEB_FILE,
    SKILLS_FILE,
    MCP_FILE,
    MCP_LOCK_FILE,
];

/// Content of `data/in-force.json`.
#[derive(Serialize, Deserialize)]
struct InForce {
    /// Process id of the engine: a file of another process is ignored.
    pid: String,
    /// Digests of its files, in the format of [`Snapshot::index`].
    index: String,
}

/// Stores the digests of the files that this process has read. Mode for its user alone; written
/// atomically.
pub fn note(snapshot: &Snapshot, workspace: &Path) -> io::Result<()> {
    let said = InForce {
        pid: std::process::id().to_string(),
        index: snapshot.index().to_string(),
    };
    write_private(&workspace.join(FILE), &serde_json::to_vec(&said)?)
}

/// Files that were edited, added or removed since the engine of that process started; `None`
/// without a file of that process.
pub fn edited_since_start(workspace: &Path, engine_pid: &str) -> Option<Vec<String>> {
    let said: InForce = serde_json::from_slice(&std::fs::read(workspace.join(FILE)).ok()?).ok()?;
    let recorded = Snapshot::paths_and_digests(&said.index)
        .ok()
        .filter(|_| said.pid == engine_pid)?;
    Some(edited(workspace, &recorded).into_iter().collect())
}

fn edited(workspace: &Path, recorded: &BTreeMap<String, String>) -> BTreeSet<String> {
    let source = ConfigSource::new(ConfigLocation::Folder(workspace));
    let known = recorded
        .iter()
        .filter(|(path, digest)| match source.read(path) {
            Ok(text) => sha256_hex(&[text.as_bytes()]) != **digest,
            // Removed, or no longer text.
            Err(_) => true,
        });
    let mut edited: BTreeSet<String> = known.map(|(path, _)| path.clone()).collect();
    let names = source.persona_folders().unwrap_or_default();
    let personas = names
        .iter()
        .filter(|name| !name.starts_with('.'))
        .flat_map(|name| [persona_file(name), persona_policy_file(name)]);
    let new = personas
        .chain(OPTIONAL.map(str::to_owned))
        .chain(own_tools(&source))
        .filter(|file| !recorded.contains_key(file));
    edited.extend(new.filter(|file| source.has(file)));
    edited
}

fn own_tools(source: &ConfigSource<'_>) -> Vec<String> {
    let names = source.own_tool_folders();
    names.iter().map(|name| own_tool_file(name)).collect()
}

/// Reports whether rules of calls or hooks are read from a file.
pub fn is_of_rules(file: &str) -> bool {
    let of_persona = || file.starts_with("personas/") && file.ends_with("/policy.json");
    [POLICY_FILE, HOOKS_FILE].contains(&file) || of_persona()
}

/// Modification time and size of a file; `None` when it does not exist.
type FileStamp = Option<(Option<SystemTime>, u64)>;

/// Polls the files of an engine and reports each edit once.
pub struct Edits {
    workspace: PathBuf,
    recorded: BTreeMap<String, String>,
    /// Files that differed at the last poll; at the first, files that were never in force.
    known: BTreeSet<String>,
    looks: BTreeMap<String, FileStamp>,
}

impl Edits {
    /// Starts with the current state of the files.
    pub fn since(snapshot: &Arc<Snapshot>, workspace: &Path) -> Self {
        let recorded = Snapshot::paths_and_digests(snapshot.index()).unwrap_or_default();
        let known = edited(workspace, &recorded);
        let mut edits = Self {
            workspace: workspace.to_owned(),
            recorded,
            known,
            looks: BTreeMap::new(),
        };
        edits.looks = edits.look();
        edits
    }

    /// Files edited since the last call and not in force. Reads files only when a modification time
    /// or a size has changed.
    pub fn new_edits(&mut self) -> Vec<String> {
        let looks = self.look();
        if looks == self.looks {
            return Vec::new();
        }
        let has_changed = |file: &str| looks.get(file) != self.looks.get(file);
        let now = edited(&self.workspace, &self.recorded);
        let is_new = |file: &&String| !self.known.contains(*file) || has_changed(file);
        let mut new_edits: Vec<String> = now.iter().filter(is_new).cloned().collect();
        new_edits.extend(has_changed(secrets::FILE).then(|| secrets::FILE.to_owned()));
        (self.looks, self.known) = (looks, now);
        new_edits
    }

    fn look(&self) -> BTreeMap<String, FileStamp> {
        let source = ConfigSource::new(ConfigLocation::Folder(&self.workspace));
        let personas = source.persona_folders().unwrap_or_default();
        let files = personas
            .iter()
            .flat_map(|name| [persona_file(name), persona_policy_file(name)])
            .chain(self.recorded.keys().cloned());
        let files = files.chain([secrets::FILE.to_owned()]);
        let files = files.chain(OPTIONAL.map(str::to_owned));
        let files = files.chain(own_tools(&source));
        let look = |file: String| {
            let found = std::fs::metadata(self.workspace.join(&file)).ok();
            (
                file,
                found.map(|found| (found.modified().ok(), found.len())),
            )
        };
        files.map(look).collect()
    }
}
