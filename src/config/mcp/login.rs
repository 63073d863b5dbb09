//! `oauth` of a server: the client by which its owner logs in.

use super::typed::{TypedMcpOAuth, TypedMcpServer};
use secrecy::SecretString;
use serde::Serialize;

/// A client of an authorization server, as far as the owner has named it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct McpOAuth {
    /// `None`: the first that the server names.
    pub issuer: Option<String>,
    pub client_id: Option<String>,
    pub client_secret_variable: Option<String>,
    pub client_metadata_url: Option<String>,
    pub scope: Option<String>,
    #[serde(skip)]
    pub client_secret: Option<SecretString>,
}

impl McpOAuth {
    pub(super) fn of(typed: &TypedMcpOAuth, client_secret: Option<SecretString>) -> Self {
        Self {
            issuer: typed.issuer.clone(),
            client_id: typed.client_id.clone(),
            client_secret_variable: typed.client_secret_variable.clone(),
            client_metadata_url: typed.client_metadata_url.clone(),
            scope: typed.scope.clone(),
            client_secret,
        }
    }
}

/// Mistake in `oauth`: the member of the server, what is wrong, what to do.
pub type OAuthMistake = (&'static str, String, &'static str);

/// Finds what is wrong with `oauth` of a server.
pub fn mistakes(server: &TypedMcpServer) -> Vec<OAuthMistake> {
    let Some(oauth) = &server.oauth else {
        return Vec::new();
    };
    let mut found = Vec::new();
    if server.url.is_none() {
        let what = "`oauth` has no meaning for a program".to_owned();
        let hint = "give the program what it needs by `environment`, or name a `url`";
        found.push(("oauth", what, hint));
    }
    let is_fixed = |name: &str| name.eq_ignore_ascii_case("authorization");
    if server.headers.iter().any(|header| is_fixed(&header.name)) {
        let what = "`oauth` has no meaning beside a header `Authorization`".to_owned();
        found.push((
            "oauth",
            what,
            "keep one of both: a fixed key, or a login with `attache mcp login`",
        ));
    }
    if oauth.client_secret_variable.is_some() && oauth.client_id.is_none() {
        let what = "a client's secret without the client".to_owned();
        found.push((
            "oauth/client_secret_variable",
            what,
            "name the client in `client_id`, or leave the secret out",
        ));
    }
    if oauth.client_id.is_some() && oauth.client_metadata_url.is_some() {
        let what = "names two clients".to_owned();
        found.push((
            "oauth/client_metadata_url",
            what,
            "keep one of `client_id` and `client_metadata_url`",
        ));
    }
    if let Some(url) = &oauth.client_metadata_url {
        let parsed = reqwest::Url::parse(url).ok();
        let is_document = |url: &reqwest::Url| url.scheme() == "https" && url.path().len() > 1;
        if !parsed.is_some_and(|url| is_document(&url)) {
            let what = format!("`{url}` is no address of a Client ID Metadata Document");
            let hint =
                "write `https://`, a host, and a path, such as `https://example.com/client.json`";
            found.push(("oauth/client_metadata_url", what, hint));
        }
    }
    if let Some(issuer) = &oauth.issuer {
        found.extend(issuer_mistake(issuer, server.url.as_deref()));
    }
    found
}

/// An issuer is a URL without query and fragment (RFC 8414 section 2).
fn issuer_mistake(issuer: &str, server: Option<&str>) -> Option<OAuthMistake> {
    let is_plain = |url: &str| url.starts_with("http://");
    if super::origin(issuer).is_none() || issuer.contains(['?', '#']) {
        let what = format!("`{issuer}` is no issuer");
        let hint = "copy the `issuer` of the authorization server's metadata, such as `https://login.example.com`";
        return Some(("oauth/issuer", what, hint));
    }
    (is_plain(issuer) && !server.is_some_and(is_plain)).then(|| {
        let what = format!("`{issuer}` would send the login in plain text");
        ("oauth/issuer", what, "use `https`")
    })
}
