//! The configuration that the working engine has in force, as other commands see it, and the looks by which it finds edits.
//!
//! The engine stores the digests of its files in `data/in-force.json`, so that other commands can
//! compare without asking it. Absent on purpose: `PERSONA.md`, knowledge and responsibilities,
//! which are read for each run.

pub(in crate::config) mod current;

use crate::config::file::{
    ConfigLocation, ConfigSource, HOOKS_FILE, KEEPING_FILE, MCP_FILE, MCP_LOCK_FILE, POLICY_FILE,
    PRICES_FILE, Problem, SKILLS_FILE, Snapshot, WEB_FILE, own_tool_file, persona_file,
    persona_policy_file, write_private,
};
use crate::config::gateway::Gateway;
use crate::config::secrets;
use crate::config::settings::Config;
use crate::domain::sha256_hex;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

const FILE: &str = "data/in-force.json";
/// Folder of texts that are read for each run, and whose problems are told all the same.
const PROMPTS_FOLDER: &str = "configs/prompts";

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
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct InForce {
    /// Process id of the engine: a file of another process is ignored.
    pub pid: String,
    /// Digests of its files, in the format of [`Snapshot::index`].
    pub index: String,
    /// Number of times that it has read its files since its start.
    pub reads: u64,
    /// Number of those times that somebody had asked before. A reading that had begun before is
    /// no answer: it may have met a file that was being written.
    pub asked: u64,
    /// What was wrong when it read them last: what was in force before stays so.
    pub refused: Vec<String>,
    /// Settings of the files that count after a restart.
    pub after_restart: Vec<String>,
    /// Where it listened at its start.
    pub started: StartedListeners,
    /// Warnings about the files in force.
    pub warnings: Vec<String>,
}

impl InForce {
    /// State of this process with the files of a snapshot.
    pub fn from_snapshot(snapshot: &Snapshot, started: StartedListeners) -> Self {
        Self {
            pid: std::process::id().to_string(),
            index: snapshot.index().to_string(),
            started,
            ..Self::default()
        }
    }

    /// Stores the state. Mode for its user alone; written atomically.
    pub fn note(&self, workspace: &Path) -> io::Result<()> {
        write_private(&workspace.join(FILE), &serde_json::to_vec(self)?)
    }

    /// Reads the state that an engine has stored; `None` without a file of that process.
    pub fn read(workspace: &Path, engine_pid: &str) -> Option<Self> {
        let stored = std::fs::read(workspace.join(FILE)).ok()?;
        let stored: Self = serde_json::from_slice(&stored).ok()?;
        (stored.pid == engine_pid).then_some(stored)
    }

    /// Returns the files whose content is not the one in force.
    pub fn edited(&self, workspace: &Path) -> Vec<String> {
        let recorded = Snapshot::paths_and_digests(&self.index).unwrap_or_default();
        edited(workspace, &recorded).into_iter().collect()
    }
}

/// Addresses on which an engine listens from its start to its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedListeners {
    mail: BTreeSet<String>,
    pages: BTreeSet<String>,
}

impl StartedListeners {
    pub fn from_gateway(gateway: &Gateway) -> Self {
        let mail = gateway.listeners.iter().map(|one| one.address.to_string());
        let pages = gateway.http_listeners.iter();
        let pages = pages.map(|one| one.address.to_string());
        Self {
            mail: mail.collect(),
            pages: pages.collect(),
        }
    }
}

/// Returns the settings of `now` that an engine cannot take up: it listens where it listened at its start.
pub fn after_restart(start: &StartedListeners, now: &Gateway) -> Vec<String> {
    let now = StartedListeners::from_gateway(now);
    let mut found = Vec::new();
    for (name, before, after) in [
        ("listeners", &start.mail, &now.mail),
        ("http_listeners", &start.pages, &now.pages),
    ] {
        let differs = |what: &str, addresses: Vec<&String>| {
            let addresses: Vec<&str> = addresses.into_iter().map(String::as_str).collect();
            let list = addresses.join(", ");
            (!list.is_empty()).then(|| format!("configs/gateway.json: {name}: {what} {list}"))
        };
        found.extend(differs("listening on", after.difference(before).collect()));
        found.extend(differs(
            "no longer listening on",
            before.difference(after).collect(),
        ));
    }
    found
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

/// Modification time, size and number of a file; `None` when it does not exist.
type FileStamp = Option<(Option<SystemTime>, u64, u64)>;

/// Stamps of the files of an engine, by which an edit is noticed without reading them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStamps(BTreeMap<String, FileStamp>);

impl FileStamps {
    /// Looks at all files that a configuration was read from, and at those that would be read now.
    pub fn from_config(config: &Config) -> Self {
        let workspace = &config.workspace;
        let source = ConfigSource::new(ConfigLocation::Folder(workspace));
        let personas = source.persona_folders().unwrap_or_default();
        let files = personas
            .iter()
            .flat_map(|name| [persona_file(name), persona_policy_file(name)])
            .chain(config.snapshot.files().keys().cloned())
            .chain([secrets::FILE.to_owned()])
            .chain(OPTIONAL.map(str::to_owned))
            .chain(own_tools(&source));
        let prompts = std::fs::read_dir(workspace.join(PROMPTS_FOLDER));
        let prompts = prompts.into_iter().flatten().flatten();
        let prompts =
            prompts.map(|file| format!("{PROMPTS_FOLDER}/{}", file.file_name().to_string_lossy()));
        let tls = config.gateway.tls.iter();
        let tls = tls.flat_map(|tls| [&tls.certificate, &tls.key]);
        let tls = tls.map(|path| path.display().to_string());
        let look = |file: String| {
            let found = std::fs::metadata(workspace.join(&file)).ok();
            let stamp = found.map(|found| (found.modified().ok(), found.len(), found.ino()));
            (file, stamp)
        };
        Self(files.chain(prompts).chain(tls).map(look).collect())
    }

    /// Returns the files that differ between two looks.
    pub fn changed_since(&self, before: &Self) -> Vec<String> {
        let files: BTreeSet<&String> = self.0.keys().chain(before.0.keys()).collect();
        let stamp = |of: &Self, file: &String| of.0.get(file).copied().flatten();
        let differs = |file: &&&String| stamp(self, file) != stamp(before, file);
        files
            .iter()
            .filter(differs)
            .map(|file| (*file).clone())
            .collect()
    }
}

/// Reports whether a file is a text that runs read for themselves.
pub fn is_text(file: &str) -> bool {
    Path::new(file).starts_with(PROMPTS_FOLDER)
}

/// Formats problems by their files.
pub fn by_file(problems: &[Problem]) -> BTreeMap<&str, Vec<String>> {
    let mut files: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for problem in problems {
        let of_file = files.entry(&problem.file).or_default();
        of_file.push(problem.to_string());
    }
    files
}
