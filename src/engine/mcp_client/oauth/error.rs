//! Reasons why there is no login, for the owner. None of them holds a secret.

use crate::web::FetchError;

/// Reason why there is no login.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    #[error("`{url}` was not fetched: {why}")]
    NotFetched { url: String, why: String },
    /// What a server says of itself cannot be used.
    #[error("{0}")]
    Unusable(String),
    /// The authorization server's own word, such as `access_denied`.
    #[error("the authorization server refuses: {0}")]
    Denied(String),
    #[error("the login cannot be kept: {0}")]
    NotKept(#[source] std::io::Error),
    /// There was a login, and there is none any more.
    #[error("{0}")]
    Over(&'static str),
}

impl LoginError {
    pub fn unusable(what: impl Into<String>) -> Self {
        Self::Unusable(what.into())
    }

    /// Words a refusal of the guard for somebody who can change the configuration.
    pub(super) fn not_fetched(url: &str, error: &FetchError) -> Self {
        let why = match error.code {
            "address_not_allowed" | "url_not_allowed" => format!(
                "{}; only what `url` and `oauth.issuer` of the server name in `configs/mcp.json` may be in a private network, or at another port",
                private_network(error)
            ),
            _ => error.message.clone(),
        };
        Self::NotFetched {
            url: url.to_owned(),
            why,
        }
    }
}

fn private_network(error: &FetchError) -> &str {
    match error.code {
        "address_not_allowed" => "it is no address of the public internet",
        _ => &error.message,
    }
}
