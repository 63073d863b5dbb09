//! The token of a request: renewed before it ends, and once after a refusal. One run renews it, the others take what it got,
//! in this process or another; a new refresh token is on the disk before anything is sent with what came beside it.

use super::discovery::fetcher;
use super::error::LoginError;
use super::kept::{KeptLogin, LoginFile};
use crate::clock::Clock;
use crate::config::McpServer;
use crate::web::NoTokens;
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

const REFUSED: &str = "the authorization server refuses to renew the login";
const ANOTHER: &str =
    "the login is at another address, issuer or client than the configuration names now";
const ENDED: &str = "the login is over, and nothing was given to renew it";

/// Login of the owner at a server.
#[derive(Clone)]
pub struct ServerLogin {
    server: McpServer,
    clock: Arc<dyn Clock>,
}

/// Login at a server, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LoginState {
    /// `none`, `logged_in`, `expired` (a request renews it), `over` (only a new login helps).
    pub state: &'static str,
    pub issuer: Option<String>,
    /// End of the token that is in use.
    pub expires_at: Option<String>,
    pub renews: bool,
}

impl ServerLogin {
    pub fn of(server: &McpServer, clock: Arc<dyn Clock>) -> Self {
        Self {
            server: server.clone(),
            clock,
        }
    }

    /// Returns the token for a request; `None`: nobody has logged in. `refused` is one that the server would not take.
    pub async fn token(
        &self,
        refused: Option<SecretString>,
    ) -> Result<Option<SecretString>, LoginError> {
        let (login, handle) = (self.clone(), Handle::current());
        // On a thread of its own, which no dropped call ends: a token that the authorization server has replaced is stored.
        let found = spawn_blocking(move || login.found(refused.as_ref(), &handle)).await;
        found.map_err(|error| LoginError::NotKept(std::io::Error::other(error)))?
    }

    /// Returns the state of the login.
    pub async fn state(&self) -> LoginState {
        let file = LoginFile::of(&self.server);
        let kept = spawn_blocking(move || file.load()).await.ok().flatten();
        let Some(kept) = kept else {
            return LoginState {
                state: "none",
                issuer: None,
                expires_at: None,
                renews: false,
            };
        };
        let is_over = !kept.is_of(&self.server) || kept.is_refused;
        let is_good = kept.is_good(self.clock.now());
        LoginState {
            state: match (is_over, is_good, &kept.refresh_token) {
                (true, ..) | (_, false, None) => "over",
                (_, false, _) => "expired",
                (_, true, _) => "logged_in",
            },
            issuer: Some(kept.issuer),
            expires_at: kept.expires_at,
            renews: kept.refresh_token.is_some(),
        }
    }

    /// Returns the token, if it can be sent as it is.
    fn usable(&self, kept: &KeptLogin, refused: Option<&SecretString>) -> Option<SecretString> {
        let is_refused = refused.is_some_and(|token| token.expose_secret() == kept.access_token);
        let is_usable = !is_refused && kept.is_fresh(self.clock.now());
        is_usable.then(|| kept.access_token.clone().into())
    }

    /// Blocking.
    fn found(
        &self,
        refused: Option<&SecretString>,
        handle: &Handle,
    ) -> Result<Option<SecretString>, LoginError> {
        let file = LoginFile::of(&self.server);
        let Some(kept) = self.checked(&file)? else {
            return Ok(None);
        };
        if let Some(token) = self.usable(&kept, refused) {
            return Ok(Some(token));
        }
        let _lock = file.lock().map_err(LoginError::NotKept)?;
        // Another run may have renewed it meanwhile, or somebody has logged out.
        let Some(kept) = self.checked(&file)? else {
            return Ok(None);
        };
        match self.usable(&kept, refused) {
            Some(token) => Ok(Some(token)),
            None => self.renewed(kept, refused, &file, handle).map(Some),
        }
    }

    /// Returns what is kept, if it is a login that counts.
    fn checked(&self, file: &LoginFile) -> Result<Option<KeptLogin>, LoginError> {
        match file.load() {
            Some(kept) if !kept.is_of(&self.server) => Err(LoginError::Over(ANOTHER)),
            Some(kept) if kept.is_refused => Err(LoginError::Over(REFUSED)),
            kept => Ok(kept),
        }
    }

    /// Renews a login. The file is locked.
    fn renewed(
        &self,
        mut kept: KeptLogin,
        refused: Option<&SecretString>,
        file: &LoginFile,
        handle: &Handle,
    ) -> Result<SecretString, LoginError> {
        let has_time = refused.is_none() && kept.is_good(self.clock.now());
        let Some(refresh) = kept.refresh_token.clone() else {
            return match has_time {
                true => Ok(kept.access_token.into()),
                false => Err(LoginError::Over(ENDED)),
            };
        };
        let form = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh.as_str()),
            ("resource", kept.resource.as_str()),
        ];
        let (client, way, asked_at) = (
            kept.client(&self.server),
            fetcher(&self.server),
            self.clock.now(),
        );
        let given = handle.block_on(client.tokens(&kept.token_endpoint, &form, &way));
        match given {
            Ok(given) => {
                kept.renew(&given, asked_at);
                file.keep(&kept).map_err(LoginError::NotKept)?;
                tracing::info!(
                    server = self.server.name,
                    "a login at an MCP server was renewed"
                );
                Ok(given.access)
            }
            Err(NoTokens::Refused(error)) => {
                tracing::warn!(
                    server = self.server.name,
                    error,
                    "a login at an MCP server is over"
                );
                kept.is_refused = true;
                file.keep(&kept).map_err(LoginError::NotKept)?;
                Err(LoginError::Over(REFUSED))
            }
            // The token has some seconds left, and the next call tries again.
            Err(NoTokens::Failed(_)) if has_time => Ok(kept.access_token.into()),
            Err(NoTokens::Failed(why)) => Err(LoginError::NotFetched {
                url: kept.token_endpoint,
                why,
            }),
        }
    }
}

/// Stores a new login in place of the one before it.
pub(super) async fn store(server: &McpServer, login: KeptLogin) -> Result<(), LoginError> {
    let file = LoginFile::of(server);
    let stored = spawn_blocking(move || {
        let _lock = file.lock()?;
        file.keep(&login)
    });
    let stored = stored.await.map_err(std::io::Error::other).flatten();
    stored.map_err(LoginError::NotKept)
}

/// What became of a logout.
#[derive(Debug, PartialEq, Eq)]
pub enum LogOut {
    NotLoggedIn,
    /// The tokens count no more.
    Revoked,
    /// They are forgotten here, and may count until their end; with the reason.
    Forgotten(String),
}

/// Forgets the login at a server, and has its tokens revoked where the authorization server can do so.
pub async fn log_out(server: &McpServer) -> Result<LogOut, LoginError> {
    let (server, handle) = (server.clone(), Handle::current());
    let done = spawn_blocking(move || {
        let file = LoginFile::of(&server);
        let _lock = file.lock()?;
        let kept = file.load();
        if !file.remove()? {
            return Ok(LogOut::NotLoggedIn);
        }
        let Some(kept) = kept else {
            return Ok(LogOut::Forgotten("their file could not be read".to_owned()));
        };
        let Some(endpoint) = &kept.revocation_endpoint else {
            return Ok(LogOut::Forgotten(
                "the authorization server revokes none".to_owned(),
            ));
        };
        // Who revokes a refresh token revokes what came with it (RFC 7009 section 2.1).
        let token = kept.refresh_token.as_ref().unwrap_or(&kept.access_token);
        let token = SecretString::from(token.as_str());
        let (client, way) = (kept.client(&server), fetcher(&server));
        let revoked = client.revoke(endpoint, &token, &way);
        Ok(match handle.block_on(revoked) {
            Ok(()) => LogOut::Revoked,
            Err(why) => LogOut::Forgotten(why),
        })
    });
    let done = done.await.map_err(std::io::Error::other).flatten();
    done.map_err(LoginError::NotKept)
}
