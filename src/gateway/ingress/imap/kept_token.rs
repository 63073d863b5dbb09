//! The newest refresh token that a server issued in place of the configured one, kept over
//! restarts.
//!
//! Servers that rotate refresh tokens (RFC 6749 section 6, RFC 9700 section 4.14.2) refuse the old
//! one, so that a new one that is only in memory would lock the mailbox at the next start. It is
//! stored in a file that only the engine's user can read, with the digest of the configured token
//! from which it descends: after an operator configures another token, the file is ignored. Absent
//! on purpose: the database, because its backups and exports are copied elsewhere, and must not
//! contain secrets.

use crate::config::write_private;
use crate::domain::sha256_hex;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// Path below the workspace.
const FOLDER: &str = "data/tokens";

/// Storage of the newest refresh token of one mailbox.
#[derive(Debug, Clone)]
pub struct KeptToken {
    /// `None`: nothing is stored.
    file: Option<PathBuf>,
}

/// Content of the file.
#[derive(Serialize, Deserialize)]
struct TokenFile {
    /// SHA-256 of the configured refresh token, hexadecimal.
    configured_sha256: String,
    refresh_token: String,
}

impl KeptToken {
    /// Stores nothing.
    pub fn nowhere() -> Self {
        Self { file: None }
    }

    /// Stores the token of the mailbox that `source` identifies.
    pub fn for_mailbox(workspace: &Path, source: &str) -> Self {
        let mut name = sha256_hex(&[source.as_bytes()]);
        name.truncate(16);
        Self {
            file: Some(workspace.join(FOLDER).join(name)),
        }
    }

    /// The newest token that descends from the configured one, if it was stored. An unreadable file
    /// counts as none.
    pub fn load(&self, configured: &SecretString) -> Option<SecretString> {
        let kept: TokenFile =
            serde_json::from_slice(&std::fs::read(self.file.as_ref()?).ok()?).ok()?;
        let is_its_own =
            kept.configured_sha256 == digest(configured) && !kept.refresh_token.is_empty();
        is_its_own.then(|| SecretString::from(kept.refresh_token))
    }

    /// Stores a token and syncs it to disk before returning. Blocking.
    pub fn keep(&self, configured: &SecretString, token: &SecretString) -> io::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let kept = TokenFile {
            configured_sha256: digest(configured),
            refresh_token: token.expose_secret().to_owned(),
        };
        write_private(file, &serde_json::to_vec(&kept)?)
    }
}

fn digest(token: &SecretString) -> String {
    sha256_hex(&[token.expose_secret().as_bytes()])
}
