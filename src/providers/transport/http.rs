//! One call of a model API, a POST or a GET: keys in headers only, no redirects, bounded sizes,
//! cancelled or timed out by its guard.
//!
//! Absent on purpose: retries, logging of bodies, and proxies. A proxy from the environment would
//! see the mail of every persona without being configured here, so the environment's proxy settings
//! are ignored.

use crate::config::{HeaderText, ProviderSettings};
use crate::domain::ErrorClass;
use crate::providers::contract::capture::{Capture, Form};
use crate::providers::contract::traits::{CallContext, Event, Phase, ProviderCheck, ProviderError};
use crate::providers::transport::body::{begun, error_body, framing, pieces};
use crate::providers::transport::classify::{self, Family};
use crate::providers::transport::client::{base_url, below, build, client, is_near};
use crate::providers::transport::decode::{self, Decoder, Framing};
use crate::providers::transport::guard::Guard;
use crate::text::redact;
use crate::text::root_cause;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, Url};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

/// Longest document in bytes. OpenRouter's list of models has about half a megabyte; vectors of 64 texts, with 3,072 numbers
/// of 20 digits each, have four.
const DOCUMENT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Settings of every block with an endpoint.
pub const SETTINGS: &[&str] = &[
    "base_url",
    "plain_http",
    "api_key_variable",
    "model",
    "timeouts",
];
/// Further settings of every block of a model API.
pub const API_SETTINGS: &[&str] = &[
    "headers",
    "max_output_tokens",
    "temperature",
    "context_tokens",
];
const USER_AGENT: &str = concat!("attache/", env!("CARGO_PKG_VERSION"));

/// URL that an adapter posts to, with its connection pool and headers.
pub struct Endpoint {
    client: Client,
    base: Url,
    url: Url,
    headers: HeaderMap,
    /// Texts that no error may hold.
    secrets: Vec<SecretString>,
    family: Family,
    /// Header of the key of a thread.
    cache_header: Option<HeaderName>,
}

/// Parameters of an [`Endpoint`].
pub struct EndpointSpec<'a> {
    pub adapter: &'a crate::providers::Adapter,
    /// Block of the provider: its headers, and the variable of its key.
    pub settings: &'a ProviderSettings,
    /// Name of the provider in the configuration.
    pub name: &'a str,
    pub family: Family,
    pub base_url: &'a str,
    /// `true`: plain `http` is allowed in private networks too.
    pub plain_http: bool,
    /// Path relative to the base URL, without a leading slash.
    pub path: &'a str,
    pub key: Option<&'a SecretString>,
    /// Header that carries the key, and the prefix of the key in it.
    pub key_header: (HeaderName, &'static str),
    pub extra_headers: &'a [(&'static str, &'a str)],
}

/// Constructor of the decoder of one response; its argument is the provider's request id.
pub type MakeDecoder<'a> = Box<dyn FnOnce(Option<String>) -> Box<dyn Decoder + 'a> + Send + 'a>;

impl Endpoint {
    /// Creates an endpoint. Errors: phase `Config`; class `Auth` without a key, `Config` for a URL
    /// that would expose it.
    pub fn new(spec: &EndpointSpec<'_>) -> Result<Self, ProviderError> {
        let name = spec.name;
        let wrong = |class, message: String| {
            ProviderError::new(class, Phase::Config, format!("`{name}`: {message}"))
        };
        let base = base_url(spec.base_url, spec.plain_http)
            .map_err(|message| wrong(ErrorClass::Config, message))?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(
            ACCEPT,
            HeaderValue::from_static("text/event-stream, application/json"),
        );
        for (name, value) in spec.extra_headers {
            let unfit = |_| wrong(ErrorClass::Config, format!("no header can hold `{value}`"));
            headers.insert(
                HeaderName::from_static(name),
                HeaderValue::from_str(value).map_err(unfit)?,
            );
        }
        match spec
            .key
            .map(ExposeSecret::expose_secret)
            .filter(|key| !key.trim().is_empty())
        {
            Some(key) => {
                let (name, prefix) = &spec.key_header;
                let mut value =
                    HeaderValue::from_str(&format!("{prefix}{}", key.trim())).map_err(|_| {
                        wrong(
                            ErrorClass::Auth,
                            "the key has characters that no header may hold".into(),
                        )
                    })?;
                value.set_sensitive(true);
                headers.insert(name.clone(), value);
            }
            // Local model servers want no key, and some servers want none anywhere.
            None if is_near(&base, spec.plain_http) || spec.adapter.key_variable.is_none() => {}
            None => {
                let variable = spec.settings.key_variable.as_deref();
                let variable = variable.or(spec.adapter.key_variable).unwrap_or_default();
                return Err(wrong(ErrorClass::Auth, format!("no key: set `{variable}`")));
            }
        }
        let secrets = add_headers(&mut headers, spec)
            .map_err(|message| wrong(ErrorClass::Config, message))?;
        let client =
            build(client().user_agent(USER_AGENT)).map_err(|why| wrong(ErrorClass::Config, why))?;
        let url = below(&base, spec.path)
            .map_err(|e| wrong(ErrorClass::Config, format!("`base_url`: {e}")))?;
        Ok(Self {
            client,
            base,
            url,
            headers,
            secrets,
            family: spec.family,
            cache_header: None,
        })
    }

    /// Returns the base URL, which has no secret in it.
    pub fn base_url(&self) -> String {
        self.base.as_str().trim_end_matches('/').to_owned()
    }

    /// Sends the key of a thread in this header, too.
    #[must_use]
    pub fn with_cache_header(self, name: &'static str) -> Self {
        let cache_header = Some(HeaderName::from_static(name));
        Self {
            cache_header,
            ..self
        }
    }

    /// Requests one JSON document relative to the base URL, with the headers of a call; `path` has
    /// no leading slash and no secret. Errors: as those of a call; class `Protocol` for a body that
    /// is no JSON.
    pub async fn get(&self, path: &str, context: &CallContext) -> Result<Value, ProviderError> {
        self.document(path, context)
            .await
            .map_err(|error| self.without_key(error))
    }

    /// Requests a list of models in OpenAI's form, which Anthropic's equals; `path` as in
    /// [`Endpoint::get`].
    pub async fn check(
        &self,
        path: &str,
        context: &CallContext,
    ) -> Result<ProviderCheck, ProviderError> {
        let endpoint = Some(self.base_url());
        match self.get(path, context).await {
            Ok(list) => {
                let ids = list
                    .get("data")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten();
                let ids = ids.filter_map(|model| model.get("id")?.as_str().map(str::to_owned));
                Ok(ProviderCheck {
                    endpoint,
                    models: ids.collect(),
                    ..ProviderCheck::default()
                })
            }
            // Not every server has a list; a server that refused the key would have answered
            // otherwise.
            Err(error) if matches!(error.http_status, Some(404 | 405 | 501)) => {
                let note =
                    Some("the server has no list of models, so the key was not tried".to_owned());
                Ok(ProviderCheck {
                    endpoint,
                    note,
                    ..ProviderCheck::default()
                })
            }
            Err(error) => Err(error),
        }
    }

    async fn document(&self, path: &str, context: &CallContext) -> Result<Value, ProviderError> {
        let url = below(&self.base, path)
            .map_err(|e| ProviderError::new(ErrorClass::Config, Phase::Config, e.to_string()))?;
        let mut guard = Guard::start(context);
        let mut headers = self.headers.clone();
        headers.remove(CONTENT_TYPE);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let request = self.client.get(url).headers(headers).send();
        let sent = guard.wait(Phase::BeforeFirstByte, request).await?;
        if let (Some(capture), Ok(response)) = (&context.capture, &sent) {
            capture.dated(header(response, "date"));
        }
        let response = self.accepted(sent, &mut guard, None).await?;
        json_of(response, guard).await
    }

    /// Posts a body and reads one JSON document, at the endpoint's own path or at another one relative to the base URL
    /// (`path` as in [`Endpoint::call_at`]). Errors: as [`Endpoint::get`].
    pub async fn ask(
        &self,
        path: Option<&str>,
        encoded: &str,
        context: &CallContext,
    ) -> Result<Value, ProviderError> {
        let asked = self.answer_to(path, encoded, context).await;
        asked.map_err(|error| self.without_key(error))
    }

    async fn answer_to(
        &self,
        path: Option<&str>,
        encoded: &str,
        context: &CallContext,
    ) -> Result<Value, ProviderError> {
        fits(self.family, encoded)?;
        let url = match path {
            None => self.url.clone(),
            Some(path) => below(&self.base, path).map_err(|e| {
                ProviderError::new(ErrorClass::Config, Phase::Config, e.to_string())
            })?,
        };
        let mut guard = Guard::start(context);
        let mut headers = self.headers.clone();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let request = self.client.post(url).headers(headers);
        let request = request.body(encoded.to_owned()).send();
        let sent = guard.wait(Phase::BeforeFirstByte, request).await?;
        let response = self.accepted(sent, &mut guard, None).await?;
        json_of(response, guard).await
    }

    /// Posts a body and reads the answer. Errors never hold the key.
    pub fn call<'a>(
        &'a self,
        encoded: &'a str,
        context: CallContext,
        decoder: MakeDecoder<'a>,
    ) -> BoxStream<'a, Result<Event, ProviderError>> {
        self.post(self.url.clone(), encoded, context, decoder)
    }

    /// Calls as [`Endpoint::call`], at another path relative to the base URL; `path` as in
    /// [`Endpoint::get`], checked by the caller for parts that might lead elsewhere.
    pub fn call_at<'a>(
        &'a self,
        path: &str,
        encoded: &'a str,
        context: CallContext,
        decoder: MakeDecoder<'a>,
    ) -> BoxStream<'a, Result<Event, ProviderError>> {
        let url = below(&self.base, path)
            .map_err(|e| ProviderError::new(ErrorClass::Config, Phase::Config, e.to_string()));
        match url {
            Ok(url) => self.post(url, encoded, context, decoder),
            Err(error) => stream::once(std::future::ready(Err(error))).boxed(),
        }
    }

    fn post<'a>(
        &'a self,
        url: Url,
        encoded: &'a str,
        context: CallContext,
        decoder: MakeDecoder<'a>,
    ) -> BoxStream<'a, Result<Event, ProviderError>> {
        let opened = stream::once(self.open(url, encoded, context, decoder));
        let events = opened.flat_map(|opened| match opened {
            Ok(events) => events,
            Err(error) => stream::once(std::future::ready(Err(error))).boxed(),
        });
        events
            .map(|event| event.map_err(|error| self.without_key(error)))
            .boxed()
    }

    async fn open<'a>(
        &'a self,
        url: Url,
        encoded: &'a str,
        context: CallContext,
        decoder: MakeDecoder<'a>,
    ) -> Result<BoxStream<'a, Result<Event, ProviderError>>, ProviderError> {
        fits(self.family, encoded)?;
        let mut guard = Guard::start(&context);
        let capture = context.capture;
        if let Some(capture) = &capture {
            capture.sent(encoded);
        }
        let mut headers = self.headers.clone();
        if let (Some(name), Some(key)) = (&self.cache_header, &context.cache_key)
            && let Ok(key) = HeaderValue::from_str(key)
        {
            headers.insert(name.clone(), key);
        }
        let request = self
            .client
            .post(url)
            .headers(headers)
            .body(encoded.to_owned());
        let sent = guard.wait(Phase::BeforeFirstByte, request.send()).await?;
        let response = self.accepted(sent, &mut guard, capture.as_deref()).await?;
        let request_id = ["request-id", "x-request-id"]
            .iter()
            .find_map(|name| header(&response, name));
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

    /// Returns a response of status 200; any other becomes the vendor's error.
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
        // The key is masked before the text is shortened, so that no half of it remains.
        Err(classify::http_failure(
            self.family,
            status,
            &headers,
            &self.mask(&body),
        ))
    }

    fn without_key(&self, error: ProviderError) -> ProviderError {
        ProviderError {
            message: self.mask(&error.message),
            ..error
        }
    }

    fn mask(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| {
            redact::exact(&text, secret.expose_secret().trim())
        })
    }

    fn unreachable(&self, error: &reqwest::Error) -> ProviderError {
        let host = self.url.host_str().unwrap_or_default();
        let cause = root_cause(error);
        let message = format!("cannot reach `{host}`: {cause}");
        // Neither reqwest nor hyper has a kind for it; the text is rustls's. A retry with a wrong
        // certificate fails alike.
        if cause.contains("certificate") {
            return ProviderError::new(ErrorClass::Config, Phase::BeforeSend, message);
        }
        let phase = if error.is_connect() {
            Phase::BeforeSend
        } else {
            Phase::BeforeFirstByte
        };
        ProviderError::new(ErrorClass::Transient, phase, message)
    }
}

/// Reads a body that is one JSON document.
async fn json_of(response: Response, guard: Guard) -> Result<Value, ProviderError> {
    let broken =
        |message: String| ProviderError::new(ErrorClass::Protocol, Phase::MidStream, message);
    framing(response.headers())?;
    let (mut pieces, mut body) = (pieces(response, guard, None), Vec::new());
    while let Some(piece) = pieces.next().await {
        body.extend_from_slice(&piece?);
        if body.len() > DOCUMENT_BYTES_MAX {
            let message = format!("the answer is longer than {DOCUMENT_BYTES_MAX} bytes");
            return Err(broken(message));
        }
    }
    serde_json::from_slice(&body)
        .map_err(|error| broken(format!("the answer is not JSON: {error}")))
}

/// Adds the headers of the configuration; returns all secrets of the headers. Errors: a sentence.
fn add_headers(
    headers: &mut HeaderMap,
    spec: &EndpointSpec<'_>,
) -> Result<Vec<SecretString>, String> {
    let mut secrets: Vec<SecretString> = spec.key.cloned().into_iter().collect();
    for header in &spec.settings.headers {
        let unfit = || format!("no header can hold the value of `{}`", header.name);
        let (text, is_secret) = match &header.value {
            HeaderText::Public(text) => (text.as_str(), false),
            HeaderText::Secret { value, .. } => (value.expose_secret().trim(), true),
        };
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| unfit())?;
        let mut value = HeaderValue::from_str(text).map_err(|_| unfit())?;
        value.set_sensitive(is_secret);
        headers.insert(name, value);
        secrets.extend(header.secret().cloned());
    }
    Ok(secrets)
}

/// Checks the size of a body. Anthropic documents 32 MB for a request and Gemini 20 MB; the others
/// name no number, and would truncate it or close the connection.
fn fits(family: Family, encoded: &str) -> Result<(), ProviderError> {
    let bytes_max = match family {
        Family::Anthropic => 32_000_000,
        Family::OpenAi | Family::Grok | Family::OpenRouter | Family::Gemini | Family::Ollama => {
            20_000_000
        }
    };
    if encoded.len() <= bytes_max {
        return Ok(());
    }
    let message = format!(
        "the request is {} bytes long and the provider takes {bytes_max}; lower `context_tokens_max` of the budget",
        encoded.len()
    );
    Err(ProviderError::new(
        ErrorClass::RequestTooLarge,
        Phase::BeforeSend,
        message,
    ))
}

fn header(response: &Response, name: &str) -> Option<String> {
    response
        .headers()
        .get(name)?
        .to_str()
        .ok()
        .map(str::to_owned)
}
