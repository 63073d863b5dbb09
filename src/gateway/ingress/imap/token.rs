//! Access tokens for XOAUTH2: one POST to the token endpoint (RFC 6749 section 6); a token is
//! cached until shortly before it expires.

use super::kept_token::KeptToken;
use crate::clock::Clock;
use crate::config::OAuth;
use futures_util::StreamExt;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;

const ANSWER_MAX: Duration = Duration::from_secs(30);
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Time before the expiry at which a token is renewed.
const MARGIN: Duration = Duration::from_secs(60);
/// Lifetime of a token when the server does not send it.
const LIFETIME_DEFAULT: Duration = Duration::from_secs(3600);

/// Error of requesting an access token. Never holds a secret.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The refresh token or the client is refused: an operator has to act.
    #[error("the token endpoint refuses: {error}")]
    Refused { error: String },
    #[error("the token endpoint answers with status {status}")]
    Status { status: u16 },
    #[error("the token endpoint does not answer")]
    Unreachable(#[source] reqwest::Error),
    #[error("the token endpoint's answer is not the one of RFC 6749")]
    Unreadable,
}

/// The tokens of one mailbox.
pub(super) struct MailboxTokens {
    settings: OAuth,
    clock: Arc<dyn Clock>,
    /// Some servers issue a new refresh token with each access token.
    refresh_token: SecretString,
    /// Storage of the newest refresh token.
    kept: KeptToken,
    access: Option<AccessToken>,
}

struct AccessToken {
    token: SecretString,
    /// Monotonic time.
    good_until: Duration,
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    expires_in: Option<u64>,
    refresh_token: Option<String>,
}

#[derive(Deserialize)]
struct Denied {
    error: String,
}

impl MailboxTokens {
    pub fn new(settings: OAuth, clock: Arc<dyn Clock>, kept: KeptToken) -> Self {
        let refresh_token = kept.load(&settings.refresh_token);
        let refresh_token = refresh_token.unwrap_or_else(|| settings.refresh_token.clone());
        Self {
            settings,
            clock,
            refresh_token,
            kept,
            access: None,
        }
    }

    /// Returns a token that should be valid now.
    pub async fn access(&mut self) -> Result<SecretString, TokenError> {
        match &self.access {
            Some(access) if self.clock.monotonic() < access.good_until => Ok(access.token.clone()),
            _ => self.renew().await,
        }
    }

    /// Requests a new access token. A refused refresh token may not be the newest: another process
    /// may have got a newer one since (`attache mailboxes check`), or the stored one was restored
    /// from a copy.
    async fn renew(&mut self) -> Result<SecretString, TokenError> {
        let first = self.refresh().await;
        if !matches!(first, Err(TokenError::Refused { .. })) {
            return first;
        }
        let refused = self.refresh_token.clone();
        let configured = self.settings.refresh_token.clone();
        let others = [self.kept.load(&configured), Some(configured)]
            .into_iter()
            .flatten();
        for other in others.filter(|other| other.expose_secret() != refused.expose_secret()) {
            self.refresh_token = other;
            let granted = self.refresh().await;
            if granted.is_ok() {
                return granted;
            }
        }
        self.refresh_token = refused;
        first
    }

    /// Discards a token that the server refused.
    pub fn forget(&mut self) {
        self.access = None;
    }

    async fn refresh(&mut self) -> Result<SecretString, TokenError> {
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .timeout(ANSWER_MAX)
            .build()
            .map_err(TokenError::Unreachable)?;
        let asked = self.clock.monotonic();
        let post = client.post(&self.settings.token_url).body(self.form()?);
        let post = post
            .header("content-type", "application/x-www-form-urlencoded")
            .header("accept", "application/json");
        let answer = post
            .send()
            .await
            .map_err(|error| TokenError::Unreachable(error.without_url()))?;
        let status = answer.status();
        let body = read(answer).await?;
        if !status.is_success() {
            return Err(refusal(status.as_u16(), &body));
        }
        let granted: Granted = serde_json::from_slice(&body).map_err(|_| TokenError::Unreadable)?;
        // It becomes part of a line of the IMAP login, before base64.
        if granted.access_token.is_empty() || granted.access_token.contains(char::is_control) {
            return Err(TokenError::Unreadable);
        }
        let token = SecretString::from(granted.access_token);
        let lifetime = granted
            .expires_in
            .map_or(LIFETIME_DEFAULT, Duration::from_secs);
        let good_until = asked.saturating_add(lifetime.saturating_sub(MARGIN));
        self.access = Some(AccessToken {
            token: token.clone(),
            good_until,
        });
        if let Some(next) = granted.refresh_token.filter(|next| !next.is_empty()) {
            self.refresh_token = SecretString::from(next);
            self.keep().await;
        }
        Ok(token)
    }

    /// Stores the newest refresh token on disk before its access token is used.
    async fn keep(&self) {
        let (kept, configured, token) = (
            self.kept.clone(),
            self.settings.refresh_token.clone(),
            self.refresh_token.clone(),
        );
        let done = tokio::task::spawn_blocking(move || kept.keep(&configured, &token)).await;
        if let Err(error) = done.map_err(std::io::Error::other).flatten() {
            tracing::error!(%error, "cannot keep a refresh token: after a restart the mailbox may need a new one in `.secrets`");
        }
    }

    /// Body of the request. `Url` has the percent encoding of forms.
    fn form(&self) -> Result<String, TokenError> {
        let mut url =
            reqwest::Url::parse(&self.settings.token_url).map_err(|_| TokenError::Unreadable)?;
        let settings = &self.settings;
        let mut pairs = url.query_pairs_mut();
        pairs.clear().append_pair("grant_type", "refresh_token");
        pairs.append_pair("refresh_token", self.refresh_token.expose_secret());
        pairs.append_pair("client_id", &settings.client_id);
        if let Some(secret) = &settings.client_secret {
            pairs.append_pair("client_secret", secret.expose_secret());
        }
        if let Some(scope) = &settings.scope {
            pairs.append_pair("scope", scope);
        }
        drop(pairs);
        Ok(url.query().unwrap_or_default().to_owned())
    }
}

async fn read(answer: reqwest::Response) -> Result<Vec<u8>, TokenError> {
    let mut body = Vec::new();
    let mut pieces = answer.bytes_stream();
    while let Some(piece) = pieces.next().await {
        body.extend_from_slice(
            &piece.map_err(|error| TokenError::Unreachable(error.without_url()))?,
        );
        if body.len() > ANSWER_BYTES_MAX {
            return Err(TokenError::Unreadable);
        }
    }
    Ok(body)
}

/// Builds the error of a refusal. RFC 6749 section 5.2: 400 (401 for a client that failed to
/// authenticate) with an error code.
fn refusal(status: u16, body: &[u8]) -> TokenError {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match serde_json::from_slice::<Denied>(body) {
        Ok(Denied { error }) if status < 500 && error.len() <= 64 && error.chars().all(word) => {
            TokenError::Refused { error }
        }
        _ => TokenError::Status { status },
    }
}
