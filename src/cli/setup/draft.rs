//! The workspace as it will be: texts of files that are new or change, and new secrets. Nothing is written
//! before all of it is good.

use super::{json_edit, secrets_file};
use crate::cli::init;
use crate::cli::persona::{self, PersonaFiles};
use crate::cli::{Exit, Failure, name_catalog};
use crate::config::{Config, ConfigErrors, KeptFiles, environment, load_staged, write_private};
use crate::domain::PersonaId;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

pub const GATEWAY: &str = init::LAST;
pub const INFERENCE: &str = "configs/inference.json";
pub const SECURITY: &str = "configs/security.json";
pub const SECRETS: &str = ".secrets";

/// A workspace with changes that are not written yet.
#[derive(Clone)]
pub struct WorkspaceDraft {
    pub folder: PathBuf,
    /// By path below the folder.
    texts: BTreeMap<String, String>,
    secrets: BTreeMap<String, SecretString>,
}

/// A file that will be written.
pub struct Change {
    pub path: String,
    /// `None`: it does not exist.
    pub before: Option<String>,
    pub after: String,
}

impl WorkspaceDraft {
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            texts: BTreeMap::new(),
            secrets: BTreeMap::new(),
        }
    }

    /// The text of a file as it will be; `None`: there is none.
    pub fn text(&self, path: &str) -> Result<Option<String>, Failure> {
        match self.texts.get(path) {
            Some(text) => Ok(Some(text.clone())),
            None => self.on_disk(path),
        }
    }

    fn on_disk(&self, path: &str) -> Result<Option<String>, Failure> {
        match std::fs::read_to_string(self.folder.join(path)) {
            Ok(text) => Ok(Some(text)),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Ok(None)
            }
            Err(error) => {
                let message = format!("`{}` cannot be read", self.folder.join(path).display());
                Err(Failure::new(Exit::NoInput, message).because(error))
            }
        }
    }

    /// Adds a file, unless there is one already.
    pub fn add(&mut self, path: &str, text: &str) -> Result<(), Failure> {
        if self.text(path)?.is_none() {
            self.texts.insert(path.to_owned(), text.to_owned());
        }
        Ok(())
    }

    /// The file as JSON; `null` where there is none or it is no JSON.
    pub fn json(&self, path: &str) -> Result<Value, Failure> {
        let text = self.text(path)?.unwrap_or_default();
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }

    /// Sets one value of a file, and leaves the rest of it as it is.
    pub fn set(&mut self, path: &str, pointer: &str, value: &Value) -> Result<(), Failure> {
        let text = self.text(path)?.unwrap_or_else(|| "{}\n".to_owned());
        let changed = json_edit::set(&text, pointer, value).map_err(|source| {
            Failure::new(Exit::BadData, format!("`{path}` cannot be changed"))
                .hint("mend it first: `attache config check` says where")
                .because(source)
        })?;
        if changed != text || self.on_disk(path)?.is_none() {
            self.texts.insert(path.to_owned(), changed);
        }
        Ok(())
    }

    /// Sets a value that an answer names; `None` stands for the engine's own default, which is written only
    /// where the file has another value.
    pub fn set_or_default(
        &mut self,
        path: &str,
        pointer: &str,
        value: Option<Value>,
        usual: Value,
    ) -> Result<(), Failure> {
        let is_there = self.json(path)?.pointer(pointer).is_some();
        match value {
            Some(value) if is_there || value != usual => self.set(path, pointer, &value),
            None if is_there => self.set(path, pointer, &usual),
            _ => Ok(()),
        }
    }

    pub fn set_secret(&mut self, name: &str, secret: SecretString) {
        self.secrets.insert(name.to_owned(), secret);
    }

    /// Reports whether a secret is known: given now, in the environment, or in `.secrets`.
    pub fn has_secret(&self, name: &str) -> bool {
        self.secrets.contains_key(name)
            || crate::config::has_secret(&self.folder, name, &environment)
    }

    /// Names of new secrets that the environment has with other values, which would win.
    pub fn outvoted(&self) -> Vec<&str> {
        let differs = |(name, secret): &(&String, &SecretString)| {
            let there = environment(name).unwrap_or_default();
            !there.trim().is_empty() && there.trim() != secret.expose_secret()
        };
        let outvoted = self.secrets.iter().filter(differs);
        outvoted.map(|(name, _)| name.as_str()).collect()
    }

    /// Reads the workspace as it will be. Errors: every problem of every file.
    pub fn load(&self) -> Result<Config, ConfigErrors> {
        let known = |name: &str| {
            let given = self.secrets.get(name);
            given
                .map(|secret| secret.expose_secret().to_owned())
                .or_else(|| environment(name))
        };
        let staged = self.texts.iter();
        let staged = staged.map(|(path, text)| (path.clone(), Some(text.as_str().into())));
        let staged: KeptFiles = staged.collect();
        load_staged(&self.folder, &name_catalog(), &staged, &known)
    }

    /// Files that will be written, and their texts; without `.secrets`.
    pub fn changes(&self) -> Result<Vec<Change>, Failure> {
        let mut changes = Vec::new();
        for (path, after) in &self.texts {
            let before = self.on_disk(path)?;
            if before.as_ref() != Some(after) {
                changes.push(Change {
                    path: path.clone(),
                    before,
                    after: after.clone(),
                });
            }
        }
        // The file that marks a workspace comes last: until then a run that was cut off is taken up again.
        changes.sort_by_key(|change| change.path == GATEWAY);
        Ok(changes)
    }

    /// Names of secrets that `.secrets` does not have with these values, and its text with them.
    pub fn new_secrets(&self) -> anyhow::Result<(Vec<&str>, String)> {
        let mut text = self.on_disk(SECRETS)?.unwrap_or_default();
        let mut names = Vec::new();
        for (name, secret) in &self.secrets {
            let changed = secrets_file::set(&text, name, secret.expose_secret())
                .map_err(|error| Failure::new(Exit::BadData, error.to_string()))?;
            if changed != text {
                names.push(name.as_str());
                text = changed;
            }
        }
        Ok((names, text))
    }

    /// Writes everything: secrets first, the file that marks a workspace last.
    pub fn write(&self) -> anyhow::Result<()> {
        let cannot = |path: &str, source: io::Error| {
            let message = format!("cannot write `{}`", self.folder.join(path).display());
            Failure::new(Exit::CannotCreate, message).because(source)
        };
        let (names, text) = self.new_secrets()?;
        if !names.is_empty() {
            write_private(&self.folder.join(SECRETS), text.as_bytes())
                .map_err(|source| cannot(SECRETS, source))?;
        }
        for change in self.changes()? {
            let path = self.folder.join(&change.path);
            let written = match change.before {
                None => write_new(&path, &change.after),
                Some(_) => replace(&path, &change.after),
            };
            written.map_err(|source| cannot(&change.path, source))?;
        }
        for folder in self.persona_folders() {
            for inside in ["knowledge", "responsibilities"] {
                let path = folder.join(inside);
                let made = std::fs::create_dir_all(&path);
                made.map_err(|source| cannot(inside, source))?;
            }
        }
        Ok(())
    }

    /// Folders of the personas that are new.
    fn persona_folders(&self) -> Vec<PathBuf> {
        let settings = self
            .texts
            .keys()
            .filter(|path| path.ends_with("/persona.json"));
        let folders = settings.filter_map(|path| Path::new(path).parent());
        folders.map(|folder| self.folder.join(folder)).collect()
    }

    /// Adds the files of a persona that do not exist.
    pub fn add_persona(&mut self, id: &PersonaId, files: &PersonaFiles<'_>) -> anyhow::Result<()> {
        for (file, text) in persona::contents(files)? {
            self.add(&format!("personas/{id}/{file}"), &text)?;
        }
        Ok(())
    }
}

/// Writes a file that does not exist.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Replaces a file whole, with the mode that it has. A link stays one: its target is replaced.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let path = path.canonicalize()?;
    let mode = path.metadata()?.permissions();
    write_private(&path, text.as_bytes())?;
    std::fs::set_permissions(&path, Permissions::clone(&mode))
}
