//! Which configuration the working engine was told, and what was edited since: an edit is in force after a start.
//!
//! The engine leaves the digests of its files in `data/in-force.json`, so that commands beside it can tell without asking
//! it. Absent on purpose: `PERSONA.md`, knowledge and responsibilities, which are read for each run.

use super::persona;
use super::snapshot::{Place, Shelf, Snapshot};
use super::{prices, secrets};
use crate::domain::sha256_hex;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

const FILE: &str = "data/in-force.json";

/// What an engine leaves behind at its start.
#[derive(Serialize, Deserialize)]
struct InForce {
    /// Its process: what another one left behind says nothing.
    pid: String,
    /// The digests of its files, as [`Snapshot::index`] has them.
    index: String,
}

/// Writes down what the engine in this process was told. For its user alone, and whole or not at all.
pub fn note(snapshot: &Snapshot, workspace: &Path) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let said = InForce { pid: std::process::id().to_string(), index: snapshot.index().to_string() };
    let draft = workspace.join(format!("{FILE}.tmp"));
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(&serde_json::to_vec(&said)?)?;
    std::fs::rename(draft, workspace.join(FILE))
}

/// Files that were edited, added or removed since the engine in that process began; `None` when it left no word.
pub fn edited_since_start(workspace: &Path, engine_pid: &str) -> Option<Vec<String>> {
    let said: InForce = serde_json::from_slice(&std::fs::read(workspace.join(FILE)).ok()?).ok()?;
    let told = Snapshot::paths_and_digests(&said.index).ok().filter(|_| said.pid == engine_pid)?;
    Some(edited(workspace, &told).into_iter().collect())
}

fn edited(workspace: &Path, told: &BTreeMap<String, String>) -> BTreeSet<String> {
    let shelf = Shelf::new(Place::Folder(workspace));
    let known = told.iter().filter(|(path, digest)| match shelf.read(path) {
        Ok(text) => sha256_hex(&[text.as_bytes()]) != **digest,
        // Gone, or no text any more.
        Err(_) => true,
    });
    let mut edited: BTreeSet<String> = known.map(|(path, _)| path.clone()).collect();
    let names = shelf.persona_folders().unwrap_or_default();
    let personas = names.iter().filter(|name| !name.starts_with('.')).map(|name| persona::file(name));
    let new = personas.chain([prices::FILE.to_owned()]).filter(|file| !told.contains_key(file));
    edited.extend(new.filter(|file| shelf.has(file)));
    edited
}

/// How a file looks from outside; `None` when it is not there.
type Look = Option<(Option<SystemTime>, u64)>;

/// Looks again and again at the files of an engine, and tells each edit once.
pub struct Edits {
    workspace: PathBuf,
    told: BTreeMap<String, String>,
    /// What was otherwise at the last look; at the first, what never was in force.
    known: BTreeSet<String>,
    looks: BTreeMap<String, Look>,
}

impl Edits {
    /// Begins with what there is now.
    pub fn since(snapshot: &Arc<Snapshot>, workspace: &Path) -> Self {
        let told = Snapshot::paths_and_digests(snapshot.index()).unwrap_or_default();
        let known = edited(workspace, &told);
        let mut edits = Self { workspace: workspace.to_owned(), told, known, looks: BTreeMap::new() };
        edits.looks = edits.look();
        edits
    }

    /// What was edited since the last call and is not in force. Reads files only when one of them looks otherwise.
    pub fn news(&mut self) -> Vec<String> {
        let looks = self.look();
        if looks == self.looks {
            return Vec::new();
        }
        let of_secrets = looks.get(secrets::FILE) != self.looks.get(secrets::FILE);
        self.looks = looks;
        let now = edited(&self.workspace, &self.told);
        let mut news: Vec<String> = now.difference(&self.known).cloned().collect();
        news.extend(of_secrets.then(|| secrets::FILE.to_owned()));
        self.known = now;
        news
    }

    fn look(&self) -> BTreeMap<String, Look> {
        let shelf = Shelf::new(Place::Folder(&self.workspace));
        let personas = shelf.persona_folders().unwrap_or_default();
        let files = personas.iter().map(|name| persona::file(name)).chain(self.told.keys().cloned());
        let files = files.chain([secrets::FILE, prices::FILE].map(str::to_owned));
        let look = |file: String| {
            let found = std::fs::metadata(self.workspace.join(&file)).ok();
            (file, found.map(|found| (found.modified().ok(), found.len())))
        };
        files.map(look).collect()
    }
}
