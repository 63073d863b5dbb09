//! HTTP clients of all adapters, and the URLs that they may call.

use crate::config::may_speak_http;
use crate::text::root_cause;
use crate::web::http_client;
use reqwest::{Client, ClientBuilder, Url};
use std::time::Duration;

const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Returns the settings of all our clients: they follow no redirect, and use no proxy of the
/// environment.
pub fn client() -> ClientBuilder {
    http_client().no_proxy().connect_timeout(CONNECT_MAX)
}

/// Builds a client. Errors: the reason why TLS is unavailable.
pub fn build(client: ClientBuilder) -> Result<Client, String> {
    client
        .build()
        .map_err(|error| format!("cannot set up TLS: {}", root_cause(&error)))
}

/// Parses a base URL: https, or http to this machine and, with `plain_http`, into a private
/// network; without any part that could hold a key.
pub fn base_url(text: &str, plain_http: bool) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|e| format!("`base_url` is not a URL: {e}"))?;
    if !url.username().is_empty()
        || url.password().is_some()
        || url.query().is_some()
        || url.fragment().is_some()
    {
        return Err("`base_url` must have no user name, password, query or fragment".to_owned());
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_near(&url, plain_http) => Ok(url),
        _ => Err(format!(
            "`base_url` must be https, or http to this machine; it is `{url}`"
        )),
    }
}

/// Returns the URL of a path below the base URL.
pub fn below(base: &Url, path: &str) -> Result<Url, impl std::fmt::Display + use<>> {
    Url::parse(&format!("{}/{path}", base.as_str().trim_end_matches('/')))
}

/// Reports whether plain `http` may be spoken to the host of a URL.
pub fn is_near(url: &Url, plain_http: bool) -> bool {
    may_speak_http(url.host_str().unwrap_or_default(), plain_http)
}
