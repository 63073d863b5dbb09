//! The token endpoint of an authorization server (RFC 6749 sections 4.1.3 and 6) and revocation (RFC 7009), for MCP servers and for
//! mailboxes.
//!
//! Absent on purpose: a library. `oauth2`, which rmcp uses as well, brings older versions of six crates for these lines (D-95).

use super::api_request::{ApiRequest, form_text};
use super::fetcher::{ApiAnswer, FetchError, WebFetcher};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Longest token that is taken.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Way in which a client shows who it is (RFC 7591 section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuth {
    None,
    ClientSecretPost,
    ClientSecretBasic,
}

/// A client of an authorization server.
#[derive(Clone)]
pub struct RegisteredClient {
    pub id: String,
    pub secret: Option<SecretString>,
    pub auth: ClientAuth,
}

/// Tokens, as they were given.
pub struct GivenTokens {
    pub access: SecretString,
    pub refresh: Option<SecretString>,
    /// Time from the request on.
    pub lifetime: Option<Duration>,
}

/// Reason why there are no tokens. Never holds a secret.
#[derive(Debug, thiserror::Error)]
pub enum NoTokens {
    /// The grant or the client is refused, with the server's own word: an operator has to act.
    #[error("the token endpoint refuses: {0}")]
    Refused(String),
    /// It may be otherwise the next time.
    #[error("{0}")]
    Failed(String),
}

#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
    token_type: Option<String>,
    expires_in: Option<u64>,
    refresh_token: Option<String>,
}

impl RegisteredClient {
    /// Asks an endpoint with this form.
    async fn ask(
        &self,
        endpoint: &str,
        form: &[(&str, &str)],
        fetcher: &WebFetcher,
    ) -> Result<ApiAnswer, FetchError> {
        let secret = self.secret.as_ref().map(ExposeSecret::expose_secret);
        let mut form = form.to_vec();
        if self.auth != ClientAuth::ClientSecretBasic {
            form.push(("client_id", &self.id));
        }
        if let (ClientAuth::ClientSecretPost, Some(secret)) = (self.auth, secret) {
            form.push(("client_secret", secret));
        }
        let mut request = ApiRequest::form(endpoint, &form);
        if self.auth == ClientAuth::ClientSecretBasic {
            // Both are encoded as a form before (RFC 6749 section 2.3.1).
            let encoded = |text: &str| form_text(&[("", text)]).split_off(1);
            let pair = format!(
                "{}:{}",
                encoded(&self.id),
                encoded(secret.unwrap_or_default())
            );
            let value = BASE64_STANDARD.encode(pair);
            request = request.with_secret("Authorization", "Basic ", &value.into());
        }
        fetcher.ask_api(request).await
    }

    /// Asks for tokens. Nothing of the answer is repeated in an error but a word of RFC 6749.
    pub async fn tokens(
        &self,
        endpoint: &str,
        form: &[(&str, &str)],
        fetcher: &WebFetcher,
    ) -> Result<GivenTokens, NoTokens> {
        let answer = self.ask(endpoint, form, fetcher).await;
        let answer = answer.map_err(|error| NoTokens::Failed(error.message))?;
        if answer.status != 200 {
            let is_refusal = (400..500).contains(&answer.status);
            return Err(match refusal(&answer).filter(|_| is_refusal) {
                Some(word) => NoTokens::Refused(word),
                None => NoTokens::Failed(format!("the token endpoint answered {}", answer.status)),
            });
        }
        let read = serde_json::from_slice::<TokenAnswer>(&answer.body);
        let read =
            read.map_err(|_| NoTokens::Failed("the token endpoint gave no token".to_owned()))?;
        let is_bearer = |kind: &String| kind.eq_ignore_ascii_case("bearer");
        if !read.token_type.as_ref().is_none_or(is_bearer) {
            return Err(NoTokens::Failed(
                "the token is not of type `Bearer`".to_owned(),
            ));
        }
        if !is_token(&read.access_token) {
            return Err(NoTokens::Failed(
                "the token endpoint gave no token that can be sent".to_owned(),
            ));
        }
        Ok(GivenTokens {
            access: read.access_token.into(),
            refresh: read
                .refresh_token
                .filter(|token| !token.is_empty() && token.len() <= TOKEN_BYTES_MAX)
                .map(SecretString::from),
            lifetime: read.expires_in.map(Duration::from_secs),
        })
    }

    /// Asks that a token counts no more. Errors: it may still count.
    pub async fn revoke(
        &self,
        endpoint: &str,
        token: &SecretString,
        fetcher: &WebFetcher,
    ) -> Result<(), String> {
        let answer = self
            .ask(endpoint, &[("token", token.expose_secret())], fetcher)
            .await;
        match answer {
            Ok(answer) if answer.status == 200 => Ok(()),
            Ok(answer) => Err(format!(
                "the authorization server answered {}",
                answer.status
            )),
            Err(error) => Err(error.message),
        }
    }
}

/// Reports whether a token can be a header field (RFC 6750 section 2.1).
fn is_token(token: &str) -> bool {
    let is_visible = token.bytes().all(|byte| byte.is_ascii_graphic());
    !token.is_empty() && token.len() <= TOKEN_BYTES_MAX && is_visible
}

#[derive(Deserialize)]
struct OAuthRefusal {
    error: String,
}

/// Returns the word of a refusal (RFC 6749 section 5.2), if it is one.
pub fn refusal(answer: &ApiAnswer) -> Option<String> {
    let read = serde_json::from_slice::<OAuthRefusal>(&answer.body).ok()?;
    error_word(&read.error)
}

/// Returns a server's error code, if it is a word of that kind.
pub fn error_word(text: &str) -> Option<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let fits = !text.is_empty() && text.len() <= 64 && text.chars().all(is_word);
    fits.then(|| text.to_owned())
}
