//! The login at a server, kept over restarts in a file that only the engine's user can read.
//!
//! One file a server: a new login takes the place of the one before it. The file names the issuer and the address for which the
//! tokens were given, and they are used with no other. Absent on purpose: the database, because its backups and exports are
//! copied elsewhere, and must not contain secrets.

use crate::config::{McpServer, write_private};
use crate::domain::Timestamp;
use crate::web::{ClientAuth, GivenTokens, RegisteredClient};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Path below the workspace, beside the tokens of mailboxes.
const FOLDER: &str = "data/tokens/mcp";
/// Time before the end of a token at which it is renewed; half of its time, if that is less.
const MARGIN: Duration = Duration::from_secs(60);
/// Most bytes of a file that is read.
const FILE_BYTES_MAX: u64 = 256 * 1024;

/// Content of the file. It has no `Debug`: most of it is secret.
#[derive(Clone, Serialize, Deserialize)]
pub struct KeptLogin {
    /// Address of the server, as it was configured.
    pub url: String,
    pub resource: String,
    pub issuer: String,
    pub token_endpoint: String,
    pub revocation_endpoint: Option<String>,
    pub client_id: String,
    /// Secret of a client that was registered for this login; one of the configuration is not kept here.
    pub registered_secret: Option<String>,
    pub auth: ClientAuth,
    pub access_token: String,
    pub refresh_token: Option<String>,
    /// Wall-clock time; `None`: the server does not say.
    pub expires_at: Option<String>,
    /// Wall-clock time from which on it is renewed.
    pub renew_from: Option<String>,
    /// `true`: the authorization server has refused to renew it.
    #[serde(default)]
    pub is_refused: bool,
}

impl KeptLogin {
    /// Takes new tokens. A server that gives no new refresh token means the one before it (RFC 6749 section 6).
    pub fn renew(&mut self, tokens: &GivenTokens, asked_at: Timestamp) {
        self.access_token = tokens.access.expose_secret().to_owned();
        if let Some(refresh) = &tokens.refresh {
            self.refresh_token = Some(refresh.expose_secret().to_owned());
        }
        let at = |span: Duration| asked_at.plus(span).to_string();
        let soon = |lifetime: Duration| lifetime - MARGIN.min(lifetime / 2);
        self.expires_at = tokens.lifetime.map(at);
        self.renew_from = tokens.lifetime.map(soon).map(at);
        self.is_refused = false;
    }

    /// Reports whether the token counts at an instant, as far as its server says.
    pub fn is_good(&self, now: Timestamp) -> bool {
        is_before(now, self.expires_at.as_deref())
    }

    /// Reports whether it is too early to renew the token.
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        is_before(now, self.renew_from.as_deref())
    }

    /// Returns the client; `server` has its secret, unless it was registered.
    pub fn client(&self, server: &McpServer) -> RegisteredClient {
        let configured = server.oauth.as_ref();
        let configured = configured.and_then(|oauth| oauth.client_secret.clone());
        let registered = self.registered_secret.clone().map(SecretString::from);
        RegisteredClient {
            id: self.client_id.clone(),
            secret: registered.or(configured),
            auth: self.auth,
        }
    }

    /// Reports whether it is a login at what is configured now.
    pub fn is_of(&self, server: &McpServer) -> bool {
        let oauth = server.oauth.clone().unwrap_or_default();
        let client = oauth.client_id.or(oauth.client_metadata_url);
        server.url.as_ref() == Some(&self.url)
            && oauth.issuer.is_none_or(|issuer| issuer == self.issuer)
            && client.is_none_or(|client| client == self.client_id)
    }

    fn secrets(&self) -> impl Iterator<Item = SecretString> {
        let access = Some(&self.access_token);
        let others = [&self.refresh_token, &self.registered_secret];
        let others = others.into_iter().filter_map(Option::as_ref);
        let all = access.into_iter().chain(others);
        all.cloned().map(SecretString::from)
    }
}

/// Place of a login. All of it is blocking.
#[derive(Clone)]
pub struct LoginFile {
    file: PathBuf,
}

impl LoginFile {
    /// Names the file of a server, whose name is a word.
    pub fn of(server: &McpServer) -> Self {
        let file = server.folder.join(FOLDER).join(&server.name);
        Self {
            file: file.with_extension("json"),
        }
    }

    /// Returns the login, if there is one. A file that cannot be read counts as none.
    pub fn load(&self) -> Option<KeptLogin> {
        read(&self.file)
    }

    /// Stores a login on the disk before it returns.
    pub fn keep(&self, login: &KeptLogin) -> io::Result<()> {
        write_private(&self.file, &serde_json::to_vec_pretty(login)?)
    }

    /// Forgets the login; `false`: there was none.
    pub fn remove(&self) -> io::Result<bool> {
        match std::fs::remove_file(&self.file) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits until no other run and no other process renews, replaces or forgets the login; until the lock is dropped, none
    /// does.
    pub fn lock(&self) -> io::Result<File> {
        let folder = self.file.parent().unwrap_or(Path::new("."));
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).write(true).mode(0o600);
        let lock = options.open(self.file.with_extension("lock"))?;
        lock.lock()?;
        Ok(lock)
    }
}

fn is_before(now: Timestamp, end: Option<&str>) -> bool {
    let end = end.and_then(Timestamp::parse);
    end.is_none_or(|end| now < end)
}

fn read(file: &Path) -> Option<KeptLogin> {
    let size = std::fs::metadata(file).ok()?.len();
    let bytes = std::fs::read(file)
        .ok()
        .filter(|_| size <= FILE_BYTES_MAX)?;
    serde_json::from_slice(&bytes).ok()
}

/// Returns the secrets of all logins of a workspace: none of them may stand in a file that is given to others. Blocking.
pub fn kept_secrets(workspace: &Path) -> Vec<SecretString> {
    let entries = std::fs::read_dir(workspace.join(FOLDER));
    let entries = entries.into_iter().flatten().flatten();
    let logins = entries.filter_map(|entry| read(&entry.path()));
    logins
        .flat_map(|login| login.secrets().collect::<Vec<_>>())
        .collect()
}
