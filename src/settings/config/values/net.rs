//! Checks of host names and URLs in the configuration.

use crate::domain::Address;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

// No doc comments: they would be in the schemas, where each setting has its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MailTls {
    // Plain text; to mail servers of this machine only.
    None,
    StartTls,
    Implicit,
}

/// Parses a domain name into lower case, by the rules of mail addresses (RFC 5321 section 4.1.2).
pub fn domain(text: &str) -> Option<String> {
    Address::parse(&format!("postmaster@{text}"))
        .ok()
        .map(|address| address.domain().to_owned())
}

/// Hint for a text that is no mail address.
pub fn address_hint(text: &str) -> String {
    let inside = text
        .split_once('<')
        .and_then(|(_, rest)| rest.split_once('>'))
        .map(|(inside, _)| inside.trim());
    let alone = inside.unwrap_or_else(|| text.trim().trim_start_matches("mailto:"));
    match Address::parse(alone) {
        Ok(address) => format!("write the address alone: `{address}`"),
        Err(_) => "write one such as `anna@example.org`".to_owned(),
    }
}

/// Hint for a text that is no domain name.
pub fn domain_hint(text: &str) -> String {
    let text = text.trim();
    let behind = text.split_once("://").map_or(text, |(_, rest)| rest);
    let behind = behind.rsplit_once('@').map_or(behind, |(_, domain)| domain);
    let name = behind.split(['/', ':']).next().unwrap_or_default();
    match domain(name) {
        Some(name) => format!("write the name alone: `{name}`"),
        None => "write one such as `example.org`".to_owned(),
    }
}

/// Suffixes of URLs that belong to a single API call.
const CALLS: &[&str] = &[
    "/chat/completions",
    "/completions",
    "/responses",
    "/messages",
    "/api/chat",
    "/models",
];

/// Reports whether a host is this machine by definition: plain text to it crosses no network.
pub fn is_loopback_host(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let name = bare.to_ascii_lowercase();
    bare.parse::<IpAddr>()
        .map_or(name == "localhost", |address| address.is_loopback())
}

/// Reports whether a host is in a private network by its name: loopback, RFC 1918, unique local
/// (RFC 4193), or `.local` (RFC 6762), which no public name server resolves.
pub fn is_private_host(host: &str) -> bool {
    let bare = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .trim_end_matches('.');
    match bare.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => address.is_loopback() || address.is_private(),
        Ok(IpAddr::V6(address)) => address.is_loopback() || address.is_unique_local(),
        Err(_) => is_loopback_host(bare) || bare.to_ascii_lowercase().ends_with(".local"),
    }
}

/// Reports whether `http` is permitted to a host: on this machine always, in a private network if
/// `plain_http` is set.
pub fn may_speak_http(host: &str, plain_http: bool) -> bool {
    is_loopback_host(host) || (plain_http && is_private_host(host))
}

/// Parses an address of the web; `None`: it is anything else.
pub fn web_url(text: &str) -> Option<reqwest::Url> {
    let url = reqwest::Url::parse(text).ok()?;
    (url.has_host() && matches!(url.scheme(), "http" | "https")).then_some(url)
}

/// Checks a base URL; the error is a message and a hint. `plain_http`: the configuration permits
/// `http` in private networks.
pub fn check_base_url(text: &str, plain_http: bool) -> Result<(), (String, &'static str)> {
    let Ok(url) = reqwest::Url::parse(text) else {
        return Err((
            format!("`{text}` is not a URL"),
            "write one such as `https://api.example/v1`",
        ));
    };
    if !url.username().is_empty() || url.password().is_some() {
        // The URL holds a secret, so it is not shown.
        return Err((
            "a URL must not hold a user name or a password".to_owned(),
            "put the key into `.secrets`",
        ));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err((
            "a base URL ends before `?` and `#`".to_owned(),
            "leave the rest out",
        ));
    }
    if let Some(call) = CALLS
        .iter()
        .find(|call| url.path().trim_end_matches('/').ends_with(*call))
    {
        return Err((
            format!("a base URL ends before `{call}`, which is added for each call"),
            "leave that part out",
        ));
    }
    match (url.scheme(), url.host_str()) {
        ("https", Some(_)) => Ok(()),
        ("http", Some(host)) if may_speak_http(host, plain_http) => Ok(()),
        ("http", Some(host)) => {
            let message = format!("`http` would send keys and mail in plain text to `{host}`");
            let is_near = is_private_host(host) && !plain_http;
            let own = "use `https`, or write `\"plain_http\": true` beside it if everybody in that network may read them";
            Err((message, if is_near { own } else { "use `https`" }))
        }
        _ => Err((
            format!("`{text}` is not an https URL"),
            "write one such as `https://api.example/v1`",
        )),
    }
}

/// Reports whether a base URL points at this machine or, with `plain_http`, at a private network;
/// such servers need no key.
pub fn is_near_url(text: &str, plain_http: bool) -> bool {
    let is_near = |url: &reqwest::Url| {
        let host = url.host_str().unwrap_or_default();
        is_loopback_host(host) || (url.scheme() == "http" && may_speak_http(host, plain_http))
    };
    reqwest::Url::parse(text).is_ok_and(|url| is_near(&url))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_stays_on_this_machine() {
        for good in [
            "https://api.test/v1",
            "http://127.0.0.1:8080",
            "http://localhost:11434/v1",
            "http://[::1]:1",
        ] {
            assert_eq!(check_base_url(good, false), Ok(()), "{good}");
        }
        let evasions = [
            "http://api.test/v1",
            "http://10.0.0.1",
            "http://localhost.evil.test",
            "http://127.0.0.1.evil.test",
            "http://127.0.0.1@evil.test/",
            "https://user:pass@api.test",
            "ftp://localhost",
            "file:///etc/passwd",
            "api.test/v1",
            "https://api.test/?key=x",
            "https://api.test/v1/chat/completions",
        ];
        for bad in evasions {
            assert!(check_base_url(bad, false).is_err(), "{bad}");
        }
    }

    #[test]
    fn plain_http_reaches_private_networks_only_where_permitted() {
        let near = [
            "http://192.168.1.20:11434",
            "http://10.0.0.1/v1",
            "http://172.31.255.254",
            "http://[fd12:3456::1]:8080",
            "http://gpu.local:11434",
            "http://GPU.local.",
        ];
        for url in near {
            assert_eq!(check_base_url(url, true), Ok(()), "{url}");
            let (message, hint) = check_base_url(url, false).expect_err(url);
            assert!(
                message.contains("plain text") && hint.contains("plain_http"),
                "{message}: {hint}"
            );
            assert!(is_near_url(url, true) && !is_near_url(url, false), "{url}");
        }
        let elsewhere = [
            "http://api.test/v1",
            "http://172.32.0.1",
            "http://192.169.1.1",
            "http://169.254.169.254/latest",
            "http://100.64.0.1",
            "http://0.0.0.0",
            "http://[2001:db8::1]",
            "http://[fe80::1]",
            "http://[::ffff:8.8.8.8]",
            "http://gpu.local.evil.test",
            "http://local",
            "http://10.0.0.1.evil.test",
            "http://10.0.0.1@evil.test/",
        ];
        for url in elsewhere {
            assert!(check_base_url(url, true).is_err(), "{url}");
            assert!(!is_near_url(url, true), "{url}");
        }
    }
}
