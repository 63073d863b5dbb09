//! The refresh token that a server gave instead of the configured one, kept over restarts.
//!
//! Servers that rotate refresh tokens (RFC 6749 section 6, RFC 9700 section 4.14.2) take the old one no more, so a new one
//! that is only in memory locks the mailbox at the next start. It is kept in a file that only the engine's user can read,
//! beside the digest of the configured token that it descends from: whoever configures another token is believed.
//! Absent on purpose: the database, because backups and exports of it travel, and secrets must not travel with them.

use crate::domain::sha256_hex;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Below the workspace.
const FOLDER: &str = "data/tokens";

/// Where the newest refresh token of one mailbox is kept.
#[derive(Debug, Clone)]
pub struct KeptToken {
    /// `None`: nowhere.
    file: Option<PathBuf>,
}

/// What the file holds.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// SHA-256 of the configured refresh token, hexadecimal.
    configured_sha256: String,
    refresh_token: String,
}

impl KeptToken {
    /// Keeps nothing.
    pub fn nowhere() -> Self {
        Self { file: None }
    }

    /// Keeps the token of the mailbox that `source` tells from all others.
    pub fn of(workspace: &Path, source: &str) -> Self {
        let mut name = sha256_hex(&[source.as_bytes()]);
        name.truncate(16);
        Self { file: Some(workspace.join(FOLDER).join(name)) }
    }

    /// The newest token that descends from the configured one, if one is kept. A file that cannot be read is none.
    pub fn load(&self, configured: &SecretString) -> Option<SecretString> {
        let kept: Kept = serde_json::from_slice(&std::fs::read(self.file.as_ref()?).ok()?).ok()?;
        let is_its_own = kept.configured_sha256 == digest(configured) && !kept.refresh_token.is_empty();
        is_its_own.then(|| SecretString::from(kept.refresh_token))
    }

    /// Keeps a token, on the disk before this returns. Blocking.
    pub fn keep(&self, configured: &SecretString, token: &SecretString) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let folder = file.parent().unwrap_or(Path::new("."));
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let kept =
            Kept { configured_sha256: digest(configured), refresh_token: token.expose_secret().to_owned() };
        let unfinished = file.with_extension("new");
        let mut options = std::fs::OpenOptions::new();
        let mut written = options.write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        written.write_all(&serde_json::to_vec(&kept)?)?;
        written.sync_all()?;
        std::fs::rename(&unfinished, file)?;
        std::fs::File::open(folder)?.sync_all()
    }
}

fn digest(token: &SecretString) -> String {
    sha256_hex(&[token.expose_secret().as_bytes()])
}
