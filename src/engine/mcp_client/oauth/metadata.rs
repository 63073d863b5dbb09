//! What a server (RFC 9728) and its authorization server (RFC 8414, OpenID Connect Discovery) say of themselves. Pure.

use super::error::LoginError;
use reqwest::Url;
use serde::Deserialize;

/// What a server says of itself: who gives tokens for it.
#[derive(Debug, Deserialize)]
pub struct ResourceMetadata {
    pub resource: String,
    #[serde(default)]
    pub authorization_servers: Vec<String>,
    #[serde(default)]
    pub scopes_supported: Vec<String>,
}

impl ResourceMetadata {
    /// Checks that it speaks of the server at `url`: of that address, or of a path or the origin above it (RFC 9728 section
    /// 3.3 asks for the same text, which servers in use do not keep).
    pub fn check(&self, url: &str) -> Result<(), LoginError> {
        let parsed = (Url::parse(&self.resource), Url::parse(url));
        let (Ok(resource), Ok(server)) = parsed else {
            return Err(LoginError::unusable(
                "the server's metadata name no resource",
            ));
        };
        let above = resource.path().trim_end_matches('/');
        let rest = server.path().strip_prefix(above);
        let is_above = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let is_plain = resource.query().is_none() && resource.fragment().is_none();
        match resource.origin() == server.origin() && is_above && is_plain {
            true => Ok(()),
            false => Err(LoginError::unusable(format!(
                "the server's metadata speak of `{}`, which is another server",
                shown(&self.resource)
            ))),
        }
    }
}

/// What an authorization server says of itself.
#[derive(Debug, Deserialize)]
pub struct IssuerMetadata {
    pub issuer: String,
    pub authorization_endpoint: String,
    pub token_endpoint: String,
    pub registration_endpoint: Option<String>,
    pub revocation_endpoint: Option<String>,
    #[serde(default)]
    pub code_challenge_methods_supported: Vec<String>,
    /// `None`: `client_secret_basic` (RFC 8414 section 2).
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub client_id_metadata_document_supported: bool,
    #[serde(default)]
    pub authorization_response_iss_parameter_supported: bool,
}

impl IssuerMetadata {
    /// Checks that it is the metadata of `issuer`, and that a code is of no use to who intercepts it.
    pub fn check(&self, issuer: &str) -> Result<(), LoginError> {
        if self.issuer != issuer {
            return Err(LoginError::unusable(format!(
                "the metadata of `{issuer}` are those of another issuer, `{}`",
                shown(&self.issuer)
            )));
        }
        let methods = &self.code_challenge_methods_supported;
        match methods.iter().any(|method| method == "S256") {
            true => Ok(()),
            false => Err(LoginError::unusable(format!(
                "`{issuer}` does not say that it supports PKCE with S256, without which no login is begun"
            ))),
        }
    }

    /// Returns all addresses that are asked or opened.
    pub fn endpoints(&self) -> impl Iterator<Item = &str> {
        let always = [&self.authorization_endpoint, &self.token_endpoint];
        let others = [&self.registration_endpoint, &self.revocation_endpoint];
        let others = others.into_iter().flatten();
        always.into_iter().chain(others).map(String::as_str)
    }
}

/// What a refusal of a server says about a login (RFC 6750 section 3, RFC 9728 section 5.1).
#[derive(Debug, Default, PartialEq)]
pub struct BearerChallenge {
    pub resource_metadata: Option<String>,
    pub scope: Option<String>,
}

impl BearerChallenge {
    /// Reads the field `WWW-Authenticate`.
    pub fn read(field: &str) -> Self {
        Self {
            resource_metadata: parameter(field, "resource_metadata"),
            scope: parameter(field, "scope"),
        }
    }
}

/// Returns the value of a parameter, quoted or not. Text within quotes is no name.
fn parameter(field: &str, wanted: &str) -> Option<String> {
    let mut rest = field;
    while let Some(at) = rest.find(['=', '"']) {
        let before = &rest[..at];
        if rest[at..].starts_with('"') {
            // A quoted text without a name before it.
            rest = quoted_text(&rest[at + 1..]).1;
            continue;
        }
        let name = before.rsplit([' ', ',', '\t']).next().unwrap_or_default();
        let after = &rest[at + 1..];
        let (value, behind) = match after.strip_prefix('"') {
            Some(quoted) => quoted_text(quoted),
            None => {
                let end = after.find([' ', ',', '\t']).unwrap_or(after.len());
                (after[..end].to_owned(), &after[end..])
            }
        };
        if name.eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        rest = behind;
    }
    None
}

/// Reads a quoted text from behind its first quotation mark; returns it, and what is behind it.
fn quoted_text(text: &str) -> (String, &str) {
    let (mut value, mut is_escaped) = (String::new(), false);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => {
                value.push(c);
                is_escaped = false;
            }
            '\\' => is_escaped = true,
            '"' => return (value, &text[at + 1..]),
            c => value.push(c),
        }
    }
    (value, "")
}

/// Returns where a server's own metadata are, where its refusal does not say it: for its path, then for its origin.
pub fn resource_places(server: &str) -> Vec<String> {
    const NAME: &str = "/.well-known/oauth-protected-resource";
    let Ok(url) = Url::parse(server) else {
        return Vec::new();
    };
    let path = url.path().trim_end_matches('/').to_owned();
    let mut places = vec![at_path(&url, &format!("{NAME}{path}"))];
    if !path.is_empty() {
        places.push(at_path(&url, NAME));
    }
    places
}

/// Returns where the metadata of an issuer are, in the order of the authorization part of the protocol.
pub fn issuer_places(issuer: &str) -> Vec<String> {
    const OAUTH: &str = "/.well-known/oauth-authorization-server";
    const OPENID: &str = "/.well-known/openid-configuration";
    let Ok(url) = Url::parse(issuer) else {
        return Vec::new();
    };
    let path = url.path().trim_end_matches('/').to_owned();
    let mut places = vec![
        at_path(&url, &format!("{OAUTH}{path}")),
        at_path(&url, &format!("{OPENID}{path}")),
    ];
    if !path.is_empty() {
        places.push(at_path(&url, &format!("{path}{OPENID}")));
    }
    places
}

fn at_path(url: &Url, path: &str) -> String {
    let mut url = url.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url.into()
}

/// Shortens a server's word for the screen.
fn shown(text: &str) -> String {
    crate::text::shortened(&crate::text::one_line(text), 200)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_read_however_it_is_written() {
        let url = "https://a.test/.well-known/oauth-protected-resource";
        for field in [
            format!("Bearer resource_metadata=\"{url}\", scope=\"a b\""),
            format!(
                "Bearer realm=\"x, resource_metadata=\\\"y\\\"\", scope=\"a b\", resource_metadata={url}"
            ),
            format!(
                "Basic realm=\"r\", Bearer error=\"invalid_token\", Scope=\"a b\",resource_metadata=\"{url}\""
            ),
        ] {
            let read = BearerChallenge::read(&field);
            assert_eq!(read.resource_metadata.as_deref(), Some(url), "{field}");
            assert_eq!(read.scope.as_deref(), Some("a b"), "{field}");
        }
        for field in [
            "",
            "Bearer",
            "Bearer \"",
            "Bearer =",
            "Bearer resource_metadata",
        ] {
            assert_eq!(BearerChallenge::read(field), BearerChallenge::default());
        }
    }

    #[test]
    fn metadata_are_looked_for_in_the_order_of_the_protocol() {
        assert_eq!(
            resource_places("https://a.test/x/mcp?y"),
            [
                "https://a.test/.well-known/oauth-protected-resource/x/mcp",
                "https://a.test/.well-known/oauth-protected-resource",
            ]
        );
        assert_eq!(
            issuer_places("https://a.test/tenant1"),
            [
                "https://a.test/.well-known/oauth-authorization-server/tenant1",
                "https://a.test/.well-known/openid-configuration/tenant1",
                "https://a.test/tenant1/.well-known/openid-configuration",
            ]
        );
        assert_eq!(
            issuer_places("https://a.test"),
            [
                "https://a.test/.well-known/oauth-authorization-server",
                "https://a.test/.well-known/openid-configuration",
            ]
        );
    }

    #[test]
    fn metadata_of_another_server_are_none() {
        let of = |resource: &str| ResourceMetadata {
            resource: resource.to_owned(),
            authorization_servers: Vec::new(),
            scopes_supported: Vec::new(),
        };
        for resource in [
            "https://a.test/x/mcp",
            "https://a.test/x/",
            "https://a.test",
        ] {
            assert!(
                of(resource).check("https://a.test/x/mcp").is_ok(),
                "{resource}"
            );
        }
        for resource in [
            "https://b.test/x/mcp",
            "http://a.test/x/mcp",
            "https://a.test:8443/x/mcp",
            "https://a.test/x/m",
            "https://a.test/x/mcp/more",
            "https://a.test/?x",
            "nothing",
        ] {
            assert!(
                of(resource).check("https://a.test/x/mcp").is_err(),
                "{resource}"
            );
        }
    }
}
