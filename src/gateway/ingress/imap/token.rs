//! Access tokens for XOAUTH2: one POST to the token endpoint (RFC 6749 section 6); a token is
//! cached until shortly before it expires.

use super::kept_token::KeptToken;
use crate::clock::Clock;
use crate::config::{OAuth, origin};
use crate::web::{ClientAuth, FetchLimits, NoTokens, RegisteredClient, SystemLookup, WebFetcher};
use secrecy::{ExposeSecret, SecretString};
use std::sync::Arc;
use std::time::Duration;

const ANSWER_MAX: Duration = Duration::from_secs(30);
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Time before the expiry at which a token is renewed.
const MARGIN: Duration = Duration::from_secs(60);
/// Lifetime of a token when the server does not send it.
const LIFETIME_DEFAULT: Duration = Duration::from_secs(3600);

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
    pub async fn access(&mut self) -> Result<SecretString, NoTokens> {
        match &self.access {
            Some(access) if self.clock.monotonic() < access.good_until => Ok(access.token.clone()),
            _ => self.renew().await,
        }
    }

    /// Requests a new access token. A refused refresh token may not be the newest: another process
    /// may have got a newer one since (`attache mailboxes check`), or the stored one was restored
    /// from a copy.
    async fn renew(&mut self) -> Result<SecretString, NoTokens> {
        let first = self.refresh().await;
        if !matches!(first, Err(NoTokens::Refused(_))) {
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

    async fn refresh(&mut self) -> Result<SecretString, NoTokens> {
        let settings = &self.settings;
        let client = RegisteredClient {
            id: settings.client_id.clone(),
            secret: settings.client_secret.clone(),
            auth: match settings.client_secret {
                Some(_) => ClientAuth::ClientSecretPost,
                None => ClientAuth::None,
            },
        };
        let mut form = vec![
            ("grant_type", "refresh_token"),
            ("refresh_token", self.refresh_token.expose_secret()),
        ];
        form.extend(settings.scope.as_deref().map(|scope| ("scope", scope)));
        // The host and port that the operator wrote may be private; no other.
        let opened: Vec<String> = origin(&settings.token_url).into_iter().collect();
        let limits = FetchLimits {
            body_bytes_max: ANSWER_BYTES_MAX,
            duration_max: ANSWER_MAX,
            ..FetchLimits::default()
        };
        let way = WebFetcher::new(&opened, Arc::new(SystemLookup), limits);
        let asked = self.clock.monotonic();
        let given = client.tokens(&settings.token_url, &form, &way).await?;
        let lifetime = given.lifetime.unwrap_or(LIFETIME_DEFAULT);
        self.access = Some(AccessToken {
            token: given.access.clone(),
            good_until: asked.saturating_add(lifetime.saturating_sub(MARGIN)),
        });
        if let Some(next) = given.refresh {
            self.refresh_token = next;
            self.keep().await;
        }
        Ok(given.access)
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
}
