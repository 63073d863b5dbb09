//! Source of configuration files: the workspace's folder or a recorded snapshot. Records what was
//! read.

use super::document::Document;
use super::paths::{OWN_TOOLS_FOLDER, own_tool_file};
use super::problem::Problem;
use super::snapshot::Snapshot;
use super::text_file::{self, Unreadable};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Maximum bytes of a configuration file; a larger one is a mistake.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Location from which the loader reads files.
#[derive(Clone, Copy)]
pub enum ConfigLocation<'a> {
    Folder(&'a Path),
    /// The folder, but for these files: their text is what stands here, `None`: they do not exist.
    FolderWith(&'a Path, &'a KeptFiles),
    /// Reads no disk.
    Snapshot(&'a Snapshot),
}

/// Texts that stand for files, by path below the workspace.
pub type KeptFiles = BTreeMap<String, Option<Arc<str>>>;

/// Reads the files of a place and records those that were read.
pub struct ConfigSource<'a> {
    place: ConfigLocation<'a>,
    read: RefCell<BTreeMap<String, Arc<str>>>,
}

impl<'a> ConfigSource<'a> {
    pub fn new(place: ConfigLocation<'a>) -> Self {
        Self {
            place,
            read: RefCell::default(),
        }
    }

    /// Reports whether the files beside the configuration exist: keys, certificates, `.secrets`.
    pub fn has_world(&self) -> bool {
        !matches!(self.place, ConfigLocation::Snapshot(_))
    }

    /// Reports whether a file exists, readable or not.
    pub fn has(&self, file: &str) -> bool {
        match self.place {
            ConfigLocation::Folder(workspace) => is_there(workspace, file),
            ConfigLocation::FolderWith(workspace, kept) => match kept.get(file) {
                Some(text) => text.is_some(),
                None => is_there(workspace, file),
            },
            ConfigLocation::Snapshot(snapshot) => snapshot.files().contains_key(file),
        }
    }

    /// The text of a file.
    pub fn read(&self, file: &str) -> Result<Arc<str>, Unreadable> {
        let text: Arc<str> = match self.place {
            ConfigLocation::Folder(workspace) => read_text(workspace, file)?,
            ConfigLocation::FolderWith(workspace, kept) => match kept.get(file) {
                Some(text) => text.clone().ok_or(Unreadable::Missing)?,
                None => read_text(workspace, file)?,
            },
            ConfigLocation::Snapshot(snapshot) => snapshot
                .files()
                .get(file)
                .cloned()
                .ok_or(Unreadable::Missing)?,
        };
        self.read.borrow_mut().insert(file.to_owned(), text.clone());
        Ok(text)
    }

    /// Reads `file`. Errors: the file is missing, too large, not UTF-8 or not JSON.
    pub fn document(&self, file: &str) -> Result<Document, Box<Problem>> {
        let text = self.read(file).map_err(|error| {
            let hint = error.hint().or_else(|| {
                matches!(error, Unreadable::Missing).then(|| format!("write it: {}", least(file)))
            });
            let problem = Problem::in_file(file, error.to_string());
            Box::new(match hint {
                Some(hint) => problem.hint(hint),
                None => problem,
            })
        })?;
        // Some editors write a byte order mark, which is not part of JSON (RFC 8259 section 8.1
        // lets readers ignore it).
        Document::parse(file, text.strip_prefix('\u{feff}').unwrap_or(&text))
    }

    /// Names of the folders below `personas/`, unsorted.
    pub fn persona_folders(&self) -> io::Result<Vec<String>> {
        match self.place {
            ConfigLocation::Folder(workspace) => folders_of_personas(workspace),
            ConfigLocation::FolderWith(workspace, kept) => {
                let kept = kept.iter().filter(|(_, text)| text.is_some());
                let mut names = personas_of(kept.map(|(file, _)| file));
                match folders_of_personas(workspace) {
                    Ok(there) => names.extend(there),
                    Err(error) if names.is_empty() => return Err(error),
                    Err(_) => {}
                }
                Ok(names.into_iter().collect())
            }
            ConfigLocation::Snapshot(snapshot) => {
                Ok(personas_of(snapshot.files().keys()).into_iter().collect())
            }
        }
    }

    /// Names of the folders of the owner's tools, sorted: those with a `tool.json`.
    pub fn own_tool_folders(&self) -> Vec<String> {
        let mut names: Vec<String> = match self.place {
            ConfigLocation::Folder(workspace) | ConfigLocation::FolderWith(workspace, _) => {
                let entries = std::fs::read_dir(workspace.join(OWN_TOOLS_FOLDER));
                let entries = entries.into_iter().flatten().flatten();
                let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
                names
                    .filter(|name| self.has(&own_tool_file(name)))
                    .collect()
            }
            ConfigLocation::Snapshot(snapshot) => {
                let files = snapshot.files().keys();
                let names = files.filter_map(|file| {
                    let below = file.strip_prefix(OWN_TOOLS_FOLDER)?.strip_prefix('/')?;
                    below.strip_suffix("/tool.json")
                });
                names.map(str::to_owned).collect()
            }
        };
        names.sort();
        names
    }

    /// Returns everything that was read as a snapshot.
    pub fn snapshot(self) -> Snapshot {
        Snapshot::from_files(self.read.into_inner())
    }
}

fn folders_of_personas(workspace: &Path) -> io::Result<Vec<String>> {
    let entries = std::fs::read_dir(workspace.join("personas"))?;
    let folders = entries.flatten().filter(|entry| entry.path().is_dir());
    Ok(folders
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect())
}

/// Returns the personas to which these files belong.
fn personas_of<'f>(files: impl Iterator<Item = &'f String>) -> BTreeSet<String> {
    let below = files.filter_map(|file| file.strip_prefix("personas/"));
    below
        .filter_map(|file| file.split_once('/'))
        .map(|(name, _)| name.to_owned())
        .collect()
}

fn is_there(workspace: &Path, file: &str) -> bool {
    workspace.join(file).symlink_metadata().is_ok()
}

fn read_text(workspace: &Path, file: &str) -> Result<Arc<str>, Unreadable> {
    Ok(text_file::read(&workspace.join(file), FILE_BYTES_MAX)?.into())
}

/// The smallest valid content of a file, for the hint about a missing one.
fn least(file: &str) -> &'static str {
    match file {
        "configs/gateway.json" => "the least is `{ \"mail_domain\": \"example.org\" }`",
        "configs/inference.json" => {
            "the least is a provider and a model: `{ \"provider\": \"anthropic\", \"model\": \"claude-sonnet-4-5\" }`"
        }
        "configs/context.json" => {
            "the least is `{ \"thread\": [\"persona\", \"thread-history\", \"current-input\"], \"responsibility\": [\"persona\", \"current-input\"] }`"
        }
        file if file.ends_with("persona.json") => {
            "the least is `{ \"name\": \"Paul\", \"address\": \"paul\" }`"
        }
        _ => "the least is `{}`",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_personas_of_a_snapshot_are_the_folders_of_its_files() {
        let files = [
            ("configs/a.json", "{}"),
            ("personas/ada/persona.json", "{\"name\": \"Ada\"}"),
        ];
        let files = files.map(|(path, text)| (path.to_owned(), Arc::from(text)));
        let snapshot = Snapshot::from_files(files.into_iter().collect());
        let source = ConfigSource::new(ConfigLocation::Snapshot(&snapshot));
        assert_eq!(source.persona_folders().expect("names"), ["ada"]);
    }
}
