//! `oauth` of a server: what is wrong with the client by which its owner logs in.

use super::origin;
use super::typed::TypedMcpServer;
use crate::config::values::check_context::CheckPlace;

/// Reports what is wrong with `oauth` of a server.
pub fn check(server: &TypedMcpServer, place: &mut CheckPlace<'_, '_>) {
    let Some(oauth) = &server.oauth else {
        return;
    };
    if server.url.is_none() {
        place.refuse(
            "oauth",
            "`oauth` has no meaning for a program",
            "give the program what it needs by `environment`, or name a `url`",
        );
    }
    let is_fixed = |name: &str| name.eq_ignore_ascii_case("authorization");
    if server.headers.iter().any(|header| is_fixed(&header.name)) {
        place.refuse(
            "oauth",
            "`oauth` has no meaning beside a header `Authorization`",
            "keep one of both: a fixed key, or a login with `attache mcp login`",
        );
    }
    if oauth.client_secret_variable.is_some() && oauth.client_id.is_none() {
        place.refuse(
            "oauth/client_secret_variable",
            "a client's secret without the client",
            "name the client in `client_id`, or leave the secret out",
        );
    }
    if oauth.client_id.is_some() && oauth.client_metadata_url.is_some() {
        place.refuse(
            "oauth/client_metadata_url",
            "names two clients",
            "keep one of `client_id` and `client_metadata_url`",
        );
    }
    if let Some(url) = &oauth.client_metadata_url {
        let parsed = reqwest::Url::parse(url).ok();
        let is_document = |url: reqwest::Url| url.scheme() == "https" && url.path().len() > 1;
        if !parsed.is_some_and(is_document) {
            place.refuse(
                "oauth/client_metadata_url",
                format!("`{url}` is no address of a Client ID Metadata Document"),
                "write `https://`, a host, and a path, such as `https://example.com/client.json`",
            );
        }
    }
    // An issuer is a URL without query and fragment (RFC 8414 section 2).
    if let Some(issuer) = &oauth.issuer {
        let is_plain = |url: &str| url.starts_with("http://");
        if origin(issuer).is_none() || issuer.contains(['?', '#']) {
            place.refuse(
                "oauth/issuer",
                format!("`{issuer}` is no issuer"),
                "copy the `issuer` of the authorization server's metadata, such as `https://login.example.com`",
            );
        } else if is_plain(issuer) && !server.url.as_deref().is_some_and(is_plain) {
            let what = format!("`{issuer}` would send the login in plain text");
            place.refuse("oauth/issuer", what, "use `https`");
        }
    }
}
