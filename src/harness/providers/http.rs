//! One call of a model API, a POST or a GET: keys in headers only, no redirects, bounded sizes, ends when its guard says so.
//!
//! Absent on purpose: retries, logging of bodies, and proxies. A proxy from the environment would see the mail of
//! every persona without anybody having configured it here, so the environment's proxy settings are ignored.

use super::capture::{Capture, Form};
use super::classify::{self, Family};
use super::contract::{CallContext, Event, Health, Phase, ProviderError};
use super::decode::{self, Decoder, Framing, Pieces};
use super::guard::Guard;
use super::redact;
use crate::config::may_speak_http;
use crate::domain::ErrorClass;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use reqwest::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, ClientBuilder, Response, Url};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

const CONNECT_MAX: Duration = Duration::from_secs(10);
/// A whole answer; far above what `max_output_tokens` lets a model write.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// A list of models; OpenRouter's is the longest, with about half a megabyte.
const DOCUMENT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// What is read of an error page.
const ERROR_BYTES_MAX: usize = 64 * 1024;
/// Settings of every block with an endpoint.
pub const SETTINGS: &[&str] = &["base_url", "plain_http", "api_key_variable"];
const USER_AGENT: &str = concat!("attache/", env!("CARGO_PKG_VERSION"));

/// Where an adapter posts to, and with which connection pool.
pub struct Endpoint {
    client: Client,
    base: Url,
    url: Url,
    headers: HeaderMap,
    key: Option<SecretString>,
    family: Family,
}

/// What an adapter says about its endpoint.
pub struct EndpointSpec<'a> {
    pub adapter: &'a super::Adapter,
    /// As the configuration calls the provider.
    pub name: &'a str,
    pub family: Family,
    pub base_url: &'a str,
    /// `http` may be spoken in private networks too.
    pub plain_http: bool,
    /// Path below the base URL, without a leading slash.
    pub path: &'a str,
    pub key: Option<&'a SecretString>,
    /// The header that carries the key, and what stands before the key in it.
    pub key_header: (HeaderName, &'static str),
    pub extra_headers: &'a [(&'static str, &'a str)],
}

/// Makes the decoder of one response, given the id that the provider gave the request.
pub type MakeDecoder<'a> = Box<dyn FnOnce(Option<String>) -> Box<dyn Decoder + 'a> + Send + 'a>;

/// What every client of ours is: it follows nobody elsewhere, and asks no proxy that the environment names.
pub fn client() -> ClientBuilder {
    Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy().connect_timeout(CONNECT_MAX)
}

/// Errors: why there is no TLS.
pub fn build(client: ClientBuilder) -> Result<Client, String> {
    client.build().map_err(|error| format!("cannot set up TLS: {}", root_cause(&error)))
}

impl Endpoint {
    /// Errors: phase `Config`; class `Auth` without a key, `Config` for a URL that would expose it.
    pub fn new(spec: &EndpointSpec<'_>) -> Result<Self, ProviderError> {
        let name = spec.name;
        let wrong =
            |class, message: String| ProviderError::new(class, Phase::Config, format!("`{name}`: {message}"));
        let base =
            base_url(spec.base_url, spec.plain_http).map_err(|message| wrong(ErrorClass::Config, message))?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
        for (name, value) in spec.extra_headers {
            let unfit = |_| wrong(ErrorClass::Config, format!("no header can hold `{value}`"));
            headers.insert(HeaderName::from_static(name), HeaderValue::from_str(value).map_err(unfit)?);
        }
        match spec.key.map(ExposeSecret::expose_secret).filter(|key| !key.trim().is_empty()) {
            Some(key) => {
                let (name, prefix) = &spec.key_header;
                let mut value = HeaderValue::from_str(&format!("{prefix}{}", key.trim())).map_err(|_| {
                    wrong(ErrorClass::Auth, "the key has characters that no header may hold".into())
                })?;
                value.set_sensitive(true);
                headers.insert(name.clone(), value);
            }
            // Local model servers ask for no key, and some ask for none wherever they are.
            None if is_near(&base, spec.plain_http) || spec.adapter.key_variable.is_none() => {}
            None => {
                let variable = spec.adapter.key_variable.unwrap_or_default();
                return Err(wrong(ErrorClass::Auth, format!("no key: set `{variable}`")));
            }
        }
        let client = build(client().user_agent(USER_AGENT)).map_err(|why| wrong(ErrorClass::Config, why))?;
        let url =
            below(&base, spec.path).map_err(|e| wrong(ErrorClass::Config, format!("`base_url`: {e}")))?;
        Ok(Self { client, base, url, headers, key: spec.key.cloned(), family: spec.family })
    }

    /// The base URL, which has nothing secret in it.
    pub fn base_url(&self) -> String {
        self.base.as_str().trim_end_matches('/').to_owned()
    }

    /// Asks for one JSON document below the base URL, with the same headers as a call; `path` has no leading slash and
    /// nothing secret. Errors: as those of a call; class `Protocol` for what is no JSON.
    pub async fn get(&self, path: &str, context: &CallContext) -> Result<Value, ProviderError> {
        self.document(path, context).await.map_err(|error| self.without_key(error))
    }

    /// What a list of models in OpenAI's form (Anthropic's is the same) says; `path` as in [`Endpoint::get`].
    pub async fn check(&self, path: &str, context: &CallContext) -> Result<Health, ProviderError> {
        let endpoint = Some(self.base_url());
        match self.get(path, context).await {
            Ok(list) => {
                let ids = list.get("data").and_then(Value::as_array).into_iter().flatten();
                let ids = ids.filter_map(|model| model.get("id")?.as_str().map(str::to_owned));
                Ok(Health { endpoint, models: ids.collect(), ..Health::default() })
            }
            // Not every server has a list; one that refused the key would have said so.
            Err(error) if matches!(error.http_status, Some(404 | 405 | 501)) => {
                let note = Some("the server has no list of models, so the key was not tried".to_owned());
                Ok(Health { endpoint, note, ..Health::default() })
            }
            Err(error) => Err(error),
        }
    }

    async fn document(&self, path: &str, context: &CallContext) -> Result<Value, ProviderError> {
        let broken = |message: String| ProviderError::new(ErrorClass::Protocol, Phase::MidStream, message);
        let url = below(&self.base, path)
            .map_err(|e| ProviderError::new(ErrorClass::Config, Phase::Config, e.to_string()))?;
        let mut guard = Guard::start(context);
        let mut headers = self.headers.clone();
        headers.remove(CONTENT_TYPE);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let sent = guard.wait(Phase::BeforeFirstByte, self.client.get(url).headers(headers).send()).await?;
        let response = self.accepted(sent, &mut guard, None).await?;
        framing(response.headers())?;
        let (mut pieces, mut body) = (pieces(response, guard, None), Vec::new());
        while let Some(piece) = pieces.next().await {
            body.extend_from_slice(&piece?);
            if body.len() > DOCUMENT_BYTES_MAX {
                return Err(broken(format!("the answer is longer than {DOCUMENT_BYTES_MAX} bytes")));
            }
        }
        serde_json::from_slice(&body).map_err(|error| broken(format!("the answer is not JSON: {error}")))
    }

    /// Posts a body and reads the answer. Errors never hold the key.
    pub fn call<'a>(
        &'a self,
        wire: &'a str,
        context: CallContext,
        decoder: MakeDecoder<'a>,
    ) -> BoxStream<'a, Result<Event, ProviderError>> {
        self.post(self.url.clone(), wire, context, decoder)
    }

    /// [`Endpoint::call`] at another path below the base URL; `path` as in [`Endpoint::get`], checked by the caller for
    /// what might lead elsewhere.
    pub fn call_at<'a>(
        &'a self,
        path: &str,
        wire: &'a str,
        context: CallContext,
        decoder: MakeDecoder<'a>,
    ) -> BoxStream<'a, Result<Event, ProviderError>> {
        let url = below(&self.base, path)
            .map_err(|e| ProviderError::new(ErrorClass::Config, Phase::Config, e.to_string()));
        match url {
            Ok(url) => self.post(url, wire, context, decoder),
            Err(error) => stream::once(std::future::ready(Err(error))).boxed(),
        }
    }

    fn post<'a>(
        &'a self,
        url: Url,
        wire: &'a str,
        context: CallContext,
        decoder: MakeDecoder<'a>,
    ) -> BoxStream<'a, Result<Event, ProviderError>> {
        let opened = stream::once(self.open(url, wire, context, decoder));
        let events = opened.flat_map(|opened| match opened {
            Ok(events) => events,
            Err(error) => stream::once(std::future::ready(Err(error))).boxed(),
        });
        events.map(|event| event.map_err(|error| self.without_key(error))).boxed()
    }

    async fn open<'a>(
        &'a self,
        url: Url,
        wire: &'a str,
        context: CallContext,
        decoder: MakeDecoder<'a>,
    ) -> Result<BoxStream<'a, Result<Event, ProviderError>>, ProviderError> {
        fits(self.family, wire)?;
        let mut guard = Guard::start(&context);
        let capture = context.capture;
        if let Some(capture) = &capture {
            capture.sent(wire);
        }
        let request = self.client.post(url).headers(self.headers.clone()).body(wire.to_owned());
        let sent = guard.wait(Phase::BeforeFirstByte, request.send()).await?;
        let response = self.accepted(sent, &mut guard, capture.as_deref()).await?;
        let request_id = ["request-id", "x-request-id"].iter().find_map(|name| header(&response, name));
        let said = framing(response.headers())?;
        let body = pieces(response, guard, capture.clone());
        let (framing, body) = match said {
            Some(framing @ (Framing::Lines | Framing::Whole)) => (framing, body),
            said => begun(said, body).await?,
        };
        if let Some(capture) = &capture {
            capture.answering(framing.into());
        }
        Ok(decode::events(body, framing, decoder(request_id)))
    }

    /// A response of status 200; any other is an error in the vendor's words.
    async fn accepted(
        &self,
        sent: reqwest::Result<Response>,
        guard: &mut Guard,
        capture: Option<&Capture>,
    ) -> Result<Response, ProviderError> {
        let response = sent.map_err(|error| self.unreachable(&error))?;
        let status = response.status().as_u16();
        if status == 200 {
            return Ok(response);
        }
        let headers = response.headers().clone();
        let body = error_body(response, guard).await?;
        if let Some(capture) = capture {
            capture.answering(Form::Refusal(status));
            capture.received(body.as_bytes());
        }
        // Without the key before anything is cut, so that no cut leaves half of it.
        Err(classify::http_failure(self.family, status, &headers, &self.mask(&body)))
    }

    fn without_key(&self, error: ProviderError) -> ProviderError {
        ProviderError { message: self.mask(&error.message), ..error }
    }

    fn mask(&self, text: &str) -> String {
        match &self.key {
            Some(key) => redact::exact(text, key.expose_secret().trim()),
            None => text.to_owned(),
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> ProviderError {
        let host = self.url.host_str().unwrap_or_default();
        let cause = root_cause(error);
        let message = format!("cannot reach `{host}`: {cause}");
        // Neither reqwest nor hyper has a kind for it; the words are rustls's. A wrong certificate stays wrong.
        if cause.contains("certificate") {
            return ProviderError::new(ErrorClass::Config, Phase::BeforeSend, message);
        }
        let phase = if error.is_connect() { Phase::BeforeSend } else { Phase::BeforeFirstByte };
        ProviderError::new(ErrorClass::Transient, phase, message)
    }
}

/// Anthropic documents 32 MB for a request and Gemini 20 MB; the others name no number, and would cut or close.
fn fits(family: Family, wire: &str) -> Result<(), ProviderError> {
    let bytes_max = match family {
        Family::Anthropic => 32_000_000,
        Family::OpenAi | Family::Grok | Family::OpenRouter | Family::Gemini | Family::Ollama => 20_000_000,
    };
    if wire.len() <= bytes_max {
        return Ok(());
    }
    let message = format!(
        "the request is {} bytes long and the provider takes {bytes_max}; lower `context_tokens_max` of the budget",
        wire.len()
    );
    Err(ProviderError::new(ErrorClass::RequestTooLarge, Phase::BeforeSend, message))
}

/// Reads a base URL: https, or http to this machine and, with `plain_http`, into a private network; without anything in
/// which a key could hide.
pub(super) fn base_url(text: &str, plain_http: bool) -> Result<Url, String> {
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
        _ => Err(format!("`base_url` must be https, or http to this machine; it is `{url}`")),
    }
}

fn below(base: &Url, path: &str) -> Result<Url, impl std::fmt::Display + use<>> {
    Url::parse(&format!("{}/{path}", base.as_str().trim_end_matches('/')))
}

fn is_near(url: &Url, plain_http: bool) -> bool {
    may_speak_http(url.host_str().unwrap_or_default(), plain_http)
}

fn header(response: &Response, name: &str) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}

const WEB_PAGE: &str = "the provider answered with a web page: is `base_url` right?";

/// Servers that ignore `stream` say JSON; proxies that answer instead of the model say HTML, or compress what nobody asked
/// them to (we send no Accept-Encoding). `None`: the header is missing, or names nothing that we know.
fn framing(headers: &HeaderMap) -> Result<Option<Framing>, ProviderError> {
    let word = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let broken = |message| Err(ProviderError::new(ErrorClass::Protocol, Phase::BeforeFirstByte, message));
    if !matches!(word(CONTENT_ENCODING), "" | "identity") {
        return broken("the provider answered in a compressed form that was not asked for");
    }
    let media = word(CONTENT_TYPE).split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    Ok(match media.as_str() {
        "text/html" => return broken(WEB_PAGE),
        "text/event-stream" => Some(Framing::ServerSent),
        "application/x-ndjson" | "application/ndjson" | "application/jsonl" => Some(Framing::Lines),
        media if media.ends_with("/json") || media.ends_with("+json") => Some(Framing::Whole),
        _ => None,
    })
}

/// Reads a body up to the byte that tells its framing where nothing is said of it, or that it is a page whatever is said;
/// gives it back whole.
async fn begun(said: Option<Framing>, mut body: Pieces<'_>) -> Result<(Framing, Pieces<'_>), ProviderError> {
    let (mut first, mut seen) = (Vec::new(), None);
    while seen.is_none() {
        let Some(piece) = body.next().await else { break };
        first.extend_from_slice(&piece?);
        seen = Framing::of_first_byte(&first);
    }
    if first.trim_ascii_start().starts_with(b"<") {
        return Err(ProviderError::new(ErrorClass::Protocol, Phase::MidStream, WEB_PAGE));
    }
    let whole = stream::iter([Ok(first)]).chain(body).boxed();
    Ok((said.or(seen).unwrap_or(Framing::ServerSent), whole))
}

/// The body, watched by its guard and cut at the size limit.
fn pieces<'a>(response: Response, guard: Guard, capture: Option<Arc<Capture>>) -> Pieces<'a> {
    let state = Some((response, guard, capture, 0_usize));
    let next = |state: Option<(Response, Guard, Option<Arc<Capture>>, usize)>| async move {
        let (mut response, mut guard, capture, seen) = state?;
        let failed = |class, message: String| Err(ProviderError::new(class, Phase::MidStream, message));
        match guard.wait(Phase::MidStream, response.chunk()).await {
            Err(ended) => Some((Err(ended), None)),
            Ok(Err(error)) => {
                let message = format!("the answer broke off: {}", root_cause(&error));
                Some((failed(ErrorClass::Transient, message), None))
            }
            Ok(Ok(None)) => None,
            Ok(Ok(Some(piece))) => {
                let seen = seen.saturating_add(piece.len());
                if seen > ANSWER_BYTES_MAX {
                    let message = format!("the answer is longer than {ANSWER_BYTES_MAX} bytes");
                    return Some((failed(ErrorClass::Protocol, message), None));
                }
                if let Some(capture) = &capture {
                    capture.received(&piece);
                }
                Some((Ok(piece.to_vec()), Some((response, guard, capture, seen))))
            }
        }
    };
    stream::unfold(state, next).fuse().boxed()
}

/// The beginning of an error's body; one that breaks off is still an error's body.
async fn error_body(mut response: Response, guard: &mut Guard) -> Result<String, ProviderError> {
    let mut body = Vec::new();
    while body.len() < ERROR_BYTES_MAX {
        match guard.wait(Phase::BeforeFirstByte, response.chunk()).await? {
            Ok(Some(piece)) => body.extend_from_slice(&piece),
            Ok(None) | Err(_) => break,
        }
    }
    body.truncate(ERROR_BYTES_MAX);
    Ok(String::from_utf8_lossy(&body).into_owned())
}

/// The innermost cause: the outer ones only repeat the URL.
pub(super) fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
