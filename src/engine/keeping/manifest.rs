//! `manifest.json` of a backup: its files with their digests, and what it is a backup of.

use super::contents::{BackupFile, MANIFEST};
use super::failure::KeepingError;
use crate::domain::Timestamp;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Form of the manifest that this program writes, and the newest that it reads.
pub const FORM: u32 = 1;
/// Most bytes of a manifest that is read.
const BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Content of `manifest.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupManifest {
    pub form: u32,
    /// Version of the program that made it.
    pub program: String,
    /// Instant of its beginning: what was stored before is in it.
    pub made_at: Timestamp,
    /// Newest migration of its database.
    pub migration: i64,
    pub messages: u64,
    pub runs: u64,
    pub deliveries: u64,
    /// Checks of the database that found something.
    pub broken_checks: Vec<String>,
    pub files: Vec<BackupFile>,
    /// Links, sockets, and names that are no text, which are not in the backup.
    pub left_out: Vec<String>,
}

impl BackupManifest {
    /// Returns the bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Reads the manifest of a backup.
    pub fn read(folder: &Path) -> Result<Self, KeepingError> {
        let path = folder.join(MANIFEST);
        let not_readable = |what: String| KeepingError::NoManifest {
            folder: folder.display().to_string(),
            what,
        };
        let length = std::fs::metadata(&path).map_err(|error| not_readable(error.to_string()))?;
        if length.len() > BYTES_MAX {
            return Err(not_readable("it is too long".to_owned()));
        }
        let text = std::fs::read(&path).map_err(|error| not_readable(error.to_string()))?;
        let manifest: Self =
            serde_json::from_slice(&text).map_err(|error| not_readable(error.to_string()))?;
        if manifest.form > FORM {
            return Err(not_readable(format!(
                "it was made by attache {}, which is newer",
                manifest.program
            )));
        }
        let leads_out = |file: &BackupFile| {
            let mut parts = file.path.split('/');
            file.path.is_empty() || parts.any(|part| matches!(part, "" | "." | ".."))
        };
        match manifest.files.iter().find(|file| leads_out(file)) {
            Some(file) => Err(not_readable(format!("`{}` leads elsewhere", file.path))),
            None => Ok(manifest),
        }
    }

    /// Writes it into a backup, and syncs it.
    pub fn write(&self, folder: &Path) -> Result<(), KeepingError> {
        let path = folder.join(MANIFEST);
        let written = || {
            let mut made = OpenOptions::new();
            let made = made.write(true).create_new(true).mode(0o600);
            let mut file: File = made.open(&path)?;
            serde_json::to_writer_pretty(&mut file, self)?;
            file.write_all(b"\n")?;
            file.sync_all()
        };
        written().map_err(KeepingError::at(&path))
    }
}
