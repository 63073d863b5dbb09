//! Files here: compared with what would be written, and written where there is none. A file that exists is never changed.

use super::findings::{FindingKind, MigrationFindings};
use crate::cli::setup::secrets_file;
use crate::cli::{Exit, Failure};
use crate::config::write_private;
use crate::text::line_diff::line_diff;
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

pub const SECRETS: &str = ".secrets";
/// Most lines of a difference that are shown.
const DIFFERENCE_LINES_MAX: usize = 200;

/// What becomes of a file or a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MigrationOutcome {
    /// There is none yet; `--dry-run` writes nothing.
    Written,
    /// It is here with this content.
    Unchanged,
    /// Another one is here, and stays.
    Kept,
}

/// A file of the workspace.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct MigratedFile {
    /// Path below the workspace.
    pub path: String,
    pub outcome: MigrationOutcome,
    /// For a file that is kept: lines that taking it over would add (`+`) and remove (`-`).
    pub difference: Vec<String>,
}

/// A key that the engine reads; its value is told nowhere.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct MigratedSecret {
    pub name: String,
    pub outcome: MigrationOutcome,
}

/// Compares files with those that are here.
pub fn compare(
    workspace: &Path,
    files: &BTreeMap<String, Vec<u8>>,
    findings: &mut MigrationFindings,
) -> Result<Vec<MigratedFile>, Failure> {
    let mut compared = Vec::new();
    for (path, content) in files {
        let (outcome, difference) = match std::fs::read(workspace.join(path)) {
            Ok(here) if here == *content => (MigrationOutcome::Unchanged, Vec::new()),
            Ok(here) => (MigrationOutcome::Kept, difference(&here, content)),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                (MigrationOutcome::Written, Vec::new())
            }
            Err(error) => {
                let message = format!("`{}` cannot be read", workspace.join(path).display());
                return Err(Failure::new(Exit::NoInput, message).because(error));
            }
        };
        if outcome == MigrationOutcome::Kept {
            let remedy = "take over by hand what you want of it, or move your file away and say the command again";
            findings.add(
                FindingKind::Kept,
                path.clone(),
                "another file is here, and stays as it is",
                remedy,
            );
        }
        compared.push(MigratedFile {
            path: path.clone(),
            outcome,
            difference,
        });
    }
    Ok(compared)
}

fn difference(here: &[u8], content: &[u8]) -> Vec<String> {
    let (Ok(here), Ok(content)) = (std::str::from_utf8(here), std::str::from_utf8(content)) else {
        return Vec::new();
    };
    let lines = line_diff(here, content).into_iter();
    lines
        .take(DIFFERENCE_LINES_MAX)
        .map(|line| line.signed())
        .collect()
}

/// Writes a file that does not exist: whole or not at all, so that a repeated command finds no half of one.
pub fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = folder.join(format!(".{name}.migrating"));
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(&draft)
        .and_then(|mut file| {
            file.write_all(content)?;
            file.sync_all()
        })
        .and_then(|()| {
            // Unlike a rename, a link takes no file's place.
            std::fs::hard_link(&draft, path)
        });
    std::fs::remove_file(&draft)?;
    written?;
    File::open(folder)?.sync_all()
}

/// Compares keys with those of `.secrets`. Returns what becomes of each, and the file with the new ones.
pub fn compare_secrets(
    workspace: &Path,
    keys: &BTreeMap<String, SecretString>,
    findings: &mut MigrationFindings,
) -> Result<(Vec<MigratedSecret>, String), Failure> {
    let mut text = match std::fs::read_to_string(workspace.join(SECRETS)) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            String::new()
        }
        Err(error) => {
            return Err(Failure::new(Exit::NoInput, "`.secrets` cannot be read").because(error));
        }
    };
    let mut compared = Vec::new();
    for (name, key) in keys {
        let has_one = text
            .lines()
            .any(|line| line.split_once('=').is_some_and(|(n, _)| n.trim() == name));
        let outcome = match secrets_file::set(&text, name, key.expose_secret()) {
            Ok(changed) if changed == text => MigrationOutcome::Unchanged,
            Ok(_) if has_one => MigrationOutcome::Kept,
            Ok(changed) => {
                text = changed;
                MigrationOutcome::Written
            }
            Err(error) => {
                findings.broken(&format!(".env: {name}"), error.to_string());
                continue;
            }
        };
        if outcome == MigrationOutcome::Kept {
            let what = format!("`{name}` has another value here, which stays");
            findings.add(
                FindingKind::Kept,
                SECRETS,
                what,
                "write the key that is meant into .secrets",
            );
        }
        compared.push(MigratedSecret {
            name: name.clone(),
            outcome,
        });
    }
    Ok((compared, text))
}

/// Writes the file of secrets, readable by this user alone.
pub fn write_secrets(workspace: &Path, text: &str) -> io::Result<()> {
    write_private(&workspace.join(SECRETS), text.as_bytes())
}
