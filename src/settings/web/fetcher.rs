//! Fetches a page: each URL on the way is checked from scratch, and only an address that was checked is connected to.
//!
//! No proxy, no cookie, no password and no header of ours but these few is ever sent: whoever answers learns the URL.

use super::address::is_public;
use super::api_request::{ApiContent, ApiRequest};
use super::page::{WebPage, is_text};
use super::target::{UrlRefusal, WebTarget};
use super::tls::http_client;
use crate::mutants::is_off;
use crate::text::root_cause;
use futures_util::future::{BoxFuture, ready};
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, LOCATION, USER_AGENT,
};
use reqwest::{Client, Response};
use secrecy::ExposeSecret;
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Bounds of one page.
#[derive(Debug, Clone, Copy)]
pub struct FetchLimits {
    pub redirects_max: usize,
    pub body_bytes_max: usize,
    /// Time for all of it, redirects included.
    pub duration_max: Duration,
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self {
            redirects_max: 5,
            body_bytes_max: 2_000_000,
            duration_max: Duration::from_secs(20),
        }
    }
}

/// Finds the addresses of a host.
pub trait Lookup: Send + Sync {
    fn lookup<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The resolver of the machine.
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, port)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Decides whether a page may be asked for that another one redirects to.
pub trait RedirectRule: Send + Sync {
    /// Returns the error of a redirect that is not followed.
    fn judge<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<(), FetchError>>;
}

/// A rule that follows every redirect that the guard permits.
pub struct AnyRedirect;

impl RedirectRule for AnyRedirect {
    fn judge<'a>(&'a self, _url: &'a str) -> BoxFuture<'a, Result<(), FetchError>> {
        Box::pin(ready(Ok(())))
    }
}

/// Reason why a page was not fetched: a stable code, and a sentence for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FetchError {
    pub code: &'static str,
    pub message: String,
}

impl FetchError {
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

impl From<UrlRefusal> for FetchError {
    fn from(refusal: UrlRefusal) -> Self {
        Self::new("url_not_allowed", refusal.0)
    }
}

/// Answer of an interface of programs.
#[derive(Debug)]
pub struct ApiAnswer {
    /// Status of HTTP.
    pub status: u16,
    pub body: Vec<u8>,
}

/// Answer of an interface of programs, whose body is read piece by piece up to the bound of a page.
#[derive(Debug)]
pub struct ApiStream {
    response: Response,
    left_bytes: usize,
}

impl ApiStream {
    /// Returns the status of HTTP.
    pub fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// Returns a header field that is text.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    /// Returns the next piece of the body; `None`: it is over. Errors: `not_reachable`, `too_large`.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, FetchError> {
        let broken = |error: reqwest::Error| {
            let why = format!("the answer broke off: {}", root_cause(&error));
            FetchError::new("not_reachable", why)
        };
        let Some(chunk) = self.response.chunk().await.map_err(broken)? else {
            return Ok(None);
        };
        let Some(left) = self.left_bytes.checked_sub(chunk.len()) else {
            return Err(FetchError::new("too_large", "the answer is too large"));
        };
        self.left_bytes = left;
        Ok(Some(chunk.to_vec()))
    }
}

/// Fetches pages. A clone is cheap; nothing is kept from one page to the next.
#[derive(Clone)]
pub struct WebFetcher {
    /// Private targets that the operator has opened, as `host:port`.
    opened: Arc<[String]>,
    lookup: Arc<dyn Lookup>,
    limits: FetchLimits,
}

impl WebFetcher {
    pub fn new(opened: &[String], lookup: Arc<dyn Lookup>, limits: FetchLimits) -> Self {
        Self {
            opened: opened.into(),
            lookup,
            limits,
        }
    }

    /// Returns a fetcher that takes at most this time for a page.
    #[must_use]
    pub fn within(&self, duration_max: Duration) -> Self {
        let limits = FetchLimits {
            duration_max,
            ..self.limits
        };
        Self {
            limits,
            ..self.clone()
        }
    }

    /// Fetches a page. Errors: `url_not_allowed`, `address_not_allowed`, `too_many_redirects`, `not_reachable`, `http_status`,
    /// `not_text`, `too_large`, `timed_out`, and those of the rule, which is asked about every further host.
    pub async fn fetch(&self, url: &str, rule: &dyn RedirectRule) -> Result<WebPage, FetchError> {
        let target = WebTarget::parse(url, &self.opened)?;
        let seconds = self.limits.duration_max.as_secs();
        let late = |_| {
            FetchError::new(
                "timed_out",
                format!("the page did not come whole within {seconds} s"),
            )
        };
        let fetched = tokio::time::timeout(self.limits.duration_max, self.follow(target, rule));
        fetched.await.map_err(late)?
    }

    async fn follow(
        &self,
        mut target: WebTarget,
        rule: &dyn RedirectRule,
    ) -> Result<WebPage, FetchError> {
        let mut hosts = BTreeSet::from([target.host.clone()]);
        for _ in 0..=self.limits.redirects_max {
            let response = self.ask(&target).await?;
            let status = response.status();
            if !status.is_redirection() {
                return self.read(target, response).await;
            }
            let location = response.headers().get(LOCATION);
            let Some(location) = location.and_then(|value| value.to_str().ok()) else {
                let message =
                    format!("the server answered {status} without saying where the page is");
                return Err(FetchError::new("http_status", message));
            };
            target = match is_off("G18") {
                true => target.followed_blindly(location)?,
                false => target.redirected(location, &self.opened)?,
            };
            if hosts.insert(target.host.clone()) && !is_off("G18.rules") {
                rule.judge(target.url.as_str()).await?;
            }
        }
        let message = format!(
            "the page redirects more than {} times",
            self.limits.redirects_max
        );
        Err(FetchError::new("too_many_redirects", message))
    }

    /// Sends one request for a page, to an address that was checked.
    async fn ask(&self, target: &WebTarget) -> Result<Response, FetchError> {
        let request = |client: &Client| {
            client.get(target.url.clone()).header(
                ACCEPT,
                "text/html, text/plain, application/json;q=0.9, text/*;q=0.8",
            )
        };
        self.send(target, request).await
    }

    /// Sends a request to an interface of programs and returns what it answers, whatever the status. It follows no redirect: a
    /// key would go with it. Errors: as [`WebFetcher::fetch`].
    pub async fn ask_api(&self, request: ApiRequest) -> Result<ApiAnswer, FetchError> {
        let seconds = self.limits.duration_max.as_secs();
        let answered = tokio::time::timeout(self.limits.duration_max, self.answered(request));
        answered.await.map_err(|_| {
            FetchError::new(
                "timed_out",
                format!("no whole answer came within {seconds} s"),
            )
        })?
    }

    async fn answered(&self, request: ApiRequest) -> Result<ApiAnswer, FetchError> {
        let response = self.asked(&request).await?;
        let status = response.status().as_u16();
        let body = self.body(response).await?;
        Ok(ApiAnswer { status, body })
    }

    /// Sends a request to an interface of programs.
    async fn asked(&self, request: &ApiRequest) -> Result<Response, FetchError> {
        let target = WebTarget::parse(&request.url, &self.opened)?;
        let build = |client: &Client| {
            let url = target.url.clone();
            let built = match &request.content {
                ApiContent::Get => client.get(url),
                ApiContent::Json(body) => client.post(url).json(body),
                ApiContent::JsonText(body) => client
                    .post(url)
                    .header(CONTENT_TYPE, "application/json")
                    .body(body.clone()),
                ApiContent::Form(form) => client
                    .post(url)
                    .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                    .body(form.expose_secret().to_owned()),
                ApiContent::Delete => client.delete(url),
            };
            let built = built.header(ACCEPT, request.accept);
            request.fields.iter().fold(built, |built, (name, value)| {
                built.header(name, value.expose_secret())
            })
        };
        self.send(&target, build).await
    }

    /// Sends a request as [`WebFetcher::ask_api`] does, and returns its answer before its body has come. The caller bounds the
    /// time. Errors: as [`WebFetcher::fetch`].
    pub async fn open_api(&self, request: ApiRequest) -> Result<ApiStream, FetchError> {
        Ok(ApiStream {
            response: self.asked(&request).await?,
            left_bytes: self.limits.body_bytes_max,
        })
    }

    /// Sends one request, to an address that was checked.
    async fn send(
        &self,
        target: &WebTarget,
        request: impl FnOnce(&Client) -> reqwest::RequestBuilder,
    ) -> Result<Response, FetchError> {
        let mut addresses = self.addresses(target).await?;
        if is_off("G17") {
            // A client that is not pinned asks its name server a second time.
            addresses = self.looked_up(target).await?;
        }
        let unreachable = |error: reqwest::Error| {
            FetchError::new(
                "not_reachable",
                format!(
                    "`{}` cannot be reached: {}",
                    target.host,
                    root_cause(&error)
                ),
            )
        };
        let client = http_client()
            .pool_max_idle_per_host(0)
            .resolve_to_addrs(&target.host, &addresses);
        let client = match is_off("G16.proxy") {
            true => client,
            false => client.no_proxy(),
        };
        let client = client.build().map_err(unreachable)?;
        let request = request(&client)
            .header(USER_AGENT, concat!("attache/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT_ENCODING, "identity");
        let response = request.send().await.map_err(unreachable)?;
        let is_pinned =
            |peer: SocketAddr| addresses.iter().any(|address| address.ip() == peer.ip());
        match response.remote_addr() {
            Some(peer) if is_pinned(peer) => Ok(response),
            _ => Err(not_public(target)),
        }
    }

    /// Returns the addresses of a host. Errors: one of them is not public, and the operator has not opened it.
    async fn addresses(&self, target: &WebTarget) -> Result<Vec<SocketAddr>, FetchError> {
        let found = self.looked_up(target).await?;
        let are_public = || found.iter().all(|address| is_public(address.ip()));
        if !target.is_opened && !are_public() && !is_off("G16") {
            return Err(not_public(target));
        }
        Ok(found)
    }

    /// Returns the addresses that a host has now.
    async fn looked_up(&self, target: &WebTarget) -> Result<Vec<SocketAddr>, FetchError> {
        let found = match target.host.parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) => {
                let found = self.lookup.lookup(&target.host, target.port).await;
                let found = found.unwrap_or_default();
                if found.is_empty() {
                    let message = format!("`{}` has no address", target.host);
                    return Err(FetchError::new("not_reachable", message));
                }
                found
            }
        };
        let with_port = found
            .into_iter()
            .map(|address| SocketAddr::new(address, target.port));
        Ok(with_port.collect())
    }

    async fn read(&self, target: WebTarget, response: Response) -> Result<WebPage, FetchError> {
        let status = response.status();
        if !status.is_success() {
            return Err(FetchError::new(
                "http_status",
                format!("the server answered {status}"),
            ));
        }
        let header = |name| {
            response
                .headers()
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        let media_type = header(CONTENT_TYPE).unwrap_or("text/plain");
        let media_type = media_type
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase();
        let encoding = header(CONTENT_ENCODING).unwrap_or("identity");
        if !is_text(&media_type) || !encoding.eq_ignore_ascii_case("identity") {
            let shown: String = format!("{media_type} {encoding}")
                .chars()
                .take(80)
                .collect();
            let message = format!("it is no text that can be read: `{shown}`");
            return Err(FetchError::new("not_text", message));
        }
        let bytes = self.body(response).await?;
        let read = move || WebPage::read(target.url.into(), media_type, &bytes);
        let page = tokio::task::spawn_blocking(read).await.ok().flatten();
        page.ok_or_else(|| FetchError::new("not_text", "its bytes are no text"))
    }

    /// Reads a body up to its bound.
    async fn body(&self, mut response: Response) -> Result<Vec<u8>, FetchError> {
        let mut bytes = Vec::new();
        let broken = |error: reqwest::Error| {
            FetchError::new(
                "not_reachable",
                format!("the page broke off: {}", root_cause(&error)),
            )
        };
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            if bytes.len() + chunk.len() > self.limits.body_bytes_max {
                let message = format!(
                    "the page is larger than {} bytes",
                    self.limits.body_bytes_max
                );
                return Err(FetchError::new("too_large", message));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }
}

fn not_public(target: &WebTarget) -> FetchError {
    let message = format!(
        "`{}` is not an address of the public internet; only the operator can open it, in `private_targets`",
        target.host
    );
    FetchError::new("address_not_allowed", message)
}
