//! One login, from the question in a browser to the tokens: an authorization code with PKCE (RFC 7636), for this server alone
//! (RFC 8707), from the issuer that was asked (RFC 9207).

use super::access::store;
use super::client::client_for;
use super::discovery::{FoundIssuer, discover, fetcher};
use super::error::LoginError;
use super::kept::KeptLogin;
use crate::clock::Clock;
use crate::config::McpServer;
use crate::web::{NoTokens, RegisteredClient, error_word};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use reqwest::Url;
use secrecy::SecretString;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Longest code that is taken.
const CODE_BYTES_MAX: usize = 4096;

/// A login that has begun.
pub struct LoginAttempt {
    server: McpServer,
    clock: Arc<dyn Clock>,
    found: FoundIssuer,
    client: RegisteredClient,
    redirect: String,
    verifier: String,
    state: String,
    question: String,
}

/// What a redirected address says.
pub enum RedirectVerdict {
    /// It answers another question, or none; the login goes on.
    Stray,
    Code(String),
    /// It is the answer, and there is no login.
    Failed(LoginError),
}

impl LoginAttempt {
    /// Finds the authorization server and has a client there; `redirect` is where the answer will arrive.
    pub async fn begin(
        server: &McpServer,
        redirect: String,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, LoginError> {
        let Some(url) = &server.url else {
            return Err(LoginError::unusable(
                "a program of this machine has no login",
            ));
        };
        let fetcher = fetcher(server);
        let found = discover(server, url, &fetcher).await?;
        let oauth = server.oauth.clone().unwrap_or_default();
        let client = client_for(&oauth, &found.metadata, &redirect, &fetcher).await?;
        // 80 bits each; a verifier has 43 characters or more (RFC 7636 section 4.1).
        let verifier = [(); 3].map(|()| clock.new_token()).concat();
        let state = [(); 2].map(|()| clock.new_token()).concat();
        let mut attempt = Self {
            server: server.clone(),
            clock,
            found,
            client,
            redirect,
            verifier,
            state,
            question: String::new(),
        };
        attempt.question = attempt.asked()?;
        Ok(attempt)
    }

    /// Returns the address that the owner opens in a browser.
    pub fn question(&self) -> &str {
        &self.question
    }

    pub fn issuer(&self) -> &str {
        &self.found.metadata.issuer
    }

    fn asked(&self) -> Result<String, LoginError> {
        let endpoint = &self.found.metadata.authorization_endpoint;
        let mut url = Url::parse(endpoint)
            .map_err(|_| LoginError::unusable("the authorization endpoint is no address"))?;
        let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier.as_bytes()));
        let mut query = url.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.client.id)
            .append_pair("redirect_uri", &self.redirect)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256")
            .append_pair("state", &self.state)
            .append_pair("resource", &self.found.resource);
        if let Some(scope) = &self.found.scope {
            query.append_pair("scope", scope);
        }
        drop(query);
        Ok(url.into())
    }

    /// Judges a redirected address, whole or from its path on.
    pub fn judge(&self, address: &str) -> RedirectVerdict {
        let base = Url::parse(&self.redirect);
        let Some(url) = base.ok().and_then(|base| base.join(address.trim()).ok()) else {
            return RedirectVerdict::Stray;
        };
        let value = |wanted: &str| {
            let mut pairs = url.query_pairs();
            let found = pairs.find(|(name, _)| name == wanted);
            found.map(|(_, value)| value.into_owned())
        };
        if value("state").as_ref() != Some(&self.state) {
            return RedirectVerdict::Stray;
        }
        let metadata = &self.found.metadata;
        let is_promised = metadata.authorization_response_iss_parameter_supported;
        let is_right = match value("iss") {
            Some(issuer) => issuer == metadata.issuer,
            None => !is_promised,
        };
        if !is_right {
            return RedirectVerdict::Failed(LoginError::unusable(
                "the answer is not of the issuer that was asked, so its code was not used",
            ));
        }
        if let Some(error) = value("error") {
            let word = error_word(&error).unwrap_or_else(|| "without a reason".to_owned());
            return RedirectVerdict::Failed(LoginError::Denied(word));
        }
        match value("code").filter(|code| !code.is_empty() && code.len() <= CODE_BYTES_MAX) {
            Some(code) => RedirectVerdict::Code(code),
            None => RedirectVerdict::Failed(LoginError::unusable("the answer holds no code")),
        }
    }

    /// Exchanges the code for tokens and keeps them.
    pub async fn finish(self, code: &str) -> Result<(), LoginError> {
        let metadata = &self.found.metadata;
        let asked_at = self.clock.now();
        let form = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &self.redirect),
            ("code_verifier", &self.verifier),
            ("resource", &self.found.resource),
        ];
        let way = fetcher(&self.server);
        let given = self
            .client
            .tokens(&metadata.token_endpoint, &form, &way)
            .await;
        let given = given.map_err(|none| match none {
            NoTokens::Refused(word) => LoginError::Denied(word),
            NoTokens::Failed(why) => LoginError::Unusable(why),
        })?;
        let configured = self.server.oauth.as_ref();
        let is_configured = configured.is_some_and(|oauth| oauth.client_id.is_some());
        let secret = self.client.secret.as_ref().filter(|_| !is_configured);
        let mut login = KeptLogin {
            url: self.server.url.clone().unwrap_or_default(),
            resource: self.found.resource.clone(),
            issuer: metadata.issuer.clone(),
            token_endpoint: metadata.token_endpoint.clone(),
            revocation_endpoint: metadata.revocation_endpoint.clone(),
            client_id: self.client.id.clone(),
            registered_secret: secret.map(exposed),
            auth: self.client.auth,
            access_token: String::new(),
            refresh_token: None,
            expires_at: None,
            renew_from: None,
            is_refused: false,
        };
        login.renew(&given, asked_at);
        store(&self.server, login).await
    }
}

fn exposed(secret: &SecretString) -> String {
    secrecy::ExposeSecret::expose_secret(secret).to_owned()
}
