//! Host names and URLs, as far as configuration must judge them.

use crate::domain::Address;
use std::net::IpAddr;

/// A domain name in lower case, by the rules of mail addresses (RFC 5321 section 4.1.2).
pub fn domain(text: &str) -> Option<String> {
    Address::parse(&format!("postmaster@{text}")).ok().map(|address| address.domain().to_owned())
}

/// Whether a host is this machine by definition: plain text to it crosses no wire.
pub fn is_loopback_host(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let name = bare.to_ascii_lowercase();
    bare.parse::<IpAddr>().map_or(name == "localhost", |address| address.is_loopback())
}

/// Says why a base URL cannot be used.
pub fn check_base_url(text: &str) -> Result<(), (String, &'static str)> {
    let Ok(url) = reqwest::Url::parse(text) else {
        return Err((format!("`{text}` is not a URL"), "write one such as `https://api.example/v1`"));
    };
    if !url.username().is_empty() || url.password().is_some() {
        // The URL holds a secret: it is not shown.
        return Err((
            "a URL must not hold a user name or a password".to_owned(),
            "put the key into `.secrets`",
        ));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(("a base URL ends before `?` and `#`".to_owned(), "leave the rest out"));
    }
    match (url.scheme(), url.host_str()) {
        ("https", Some(_)) => Ok(()),
        ("http", Some(host)) if is_loopback_host(host) => Ok(()),
        ("http", Some(host)) => {
            Err((format!("`http` would send keys and mail in plain text to `{host}`"), "use `https`"))
        }
        _ => Err((format!("`{text}` is not an https URL"), "write one such as `https://api.example/v1`")),
    }
}

/// Whether a base URL leads to this machine, where servers ask for no key.
pub fn is_loopback_url(text: &str) -> bool {
    reqwest::Url::parse(text).is_ok_and(|url| url.host_str().is_some_and(is_loopback_host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_stays_on_this_machine() {
        for good in
            ["https://api.test/v1", "http://127.0.0.1:8080", "http://localhost:11434/v1", "http://[::1]:1"]
        {
            assert_eq!(check_base_url(good), Ok(()), "{good}");
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
        ];
        for bad in evasions {
            assert!(check_base_url(bad).is_err(), "{bad}");
        }
    }
}
