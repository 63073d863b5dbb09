//! The signed report of an erasure: numbers, ids and paths, and nothing that the person wrote.

use super::failure::KeepingError;
use crate::config::write_private;
use crate::domain::{LoopKey, Timestamp};
use crate::store::QuotingMessage;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Folder of the reports, below the workspace.
pub const REPORTS: &str = "data/erasures";

/// Report of an erasure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErasureReport {
    pub form: u32,
    pub id: String,
    /// Version of the program.
    pub program: String,
    /// Digest of the address that was named.
    pub contact_sha256: String,
    /// Addresses of the person that were followed.
    pub addresses: usize,
    /// Letters and mails of others that quote the person lost their words, too.
    pub with_quotes: bool,
    pub by: String,
    pub started_at: Timestamp,
    pub finished_at: Timestamp,
    /// Rows and files by kind.
    pub counts: BTreeMap<String, u64>,
    /// Letters and mails of others that quote the person and were left.
    pub quoting: Vec<QuotingMessage>,
    /// Held letters of others that quote or name the person and were left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quoting_held: Vec<QuotingMessage>,
    /// Notes of personas that lost the lines that quote.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_changed: Vec<String>,
    /// Files of programs that quoted the person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_removed: Vec<String>,
    /// Files of the owner that quote the person and were left.
    pub files_left: Vec<String>,
    /// Rows in which words of the person still stand, as `table.column`; `None`: it was interrupted when the rows were gone, so
    /// nobody knew any more what to look for.
    pub remains: Option<BTreeMap<String, u64>>,
    /// The database file was written anew, so that no page of it holds what was there before.
    pub is_rewritten: bool,
    /// Backups that were made before, and hold what was erased until they are removed.
    pub backups: Vec<NamedBackup>,
    /// It was interrupted, and finished later: what was found before is not listed, only counted.
    pub was_interrupted: bool,
    /// HMAC-SHA256 of the rest, with the key of this database.
    pub signature: String,
}

/// A backup that holds what was erased.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedBackup {
    pub path: PathBuf,
    /// How it goes.
    pub goes: String,
}

impl ErasureReport {
    /// Signs the report.
    #[must_use]
    pub fn signed(mut self, key: &LoopKey) -> Self {
        self.signature = String::new();
        self.signature = key.sign_report(&self.text());
        self
    }

    /// Reports whether this database signed it, and nothing was changed since.
    pub fn is_genuine(&self, key: &LoopKey) -> bool {
        let unsigned = Self {
            signature: String::new(),
            ..self.clone()
        };
        key.has_signed_report(&unsigned.text(), &self.signature)
    }

    /// Writes it into the folder of the reports; returns its file.
    pub fn write(&self, workspace: &Path) -> Result<PathBuf, KeepingError> {
        let path = workspace.join(REPORTS).join(format!("{}.json", self.id));
        super::contents::make_folders(workspace, &format!("{REPORTS}/x"))
            .map_err(KeepingError::at(&path))?;
        let text = serde_json::to_vec_pretty(self).unwrap_or_default();
        write_private(&path, &text).map_err(KeepingError::at(&path))?;
        Ok(path)
    }

    /// Reads a report.
    pub fn read(path: &Path) -> Result<Self, KeepingError> {
        let text = std::fs::read(path).map_err(KeepingError::at(path))?;
        serde_json::from_slice(&text).map_err(|error| KeepingError::NotAsMade {
            found: vec![format!(
                "`{}` is no report of an erasure: {error}",
                path.display()
            )],
        })
    }

    fn text(&self) -> String {
        // Its keys are strings and its numbers are whole.
        serde_json::to_string(self).unwrap_or_default()
    }
}
