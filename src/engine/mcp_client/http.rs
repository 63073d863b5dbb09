//! Connection to a server at an address: streamable HTTP, one request a message. Every request goes through the guard of the
//! web, for which the owner has opened the host and port that the configuration names, and no other.

use super::failure::McpFailure;
use super::oauth::{LoginError, ServerLogin};
use super::stdio::MESSAGE_BYTES_MAX;
use crate::config::{McpServer, origin};
use crate::providers::scrub;
use crate::providers::transport::sse::EventSplitter;
use crate::web::{ApiRequest, ApiStream, FetchError, FetchLimits, SystemLookup, WebFetcher};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

const ACCEPT: &str = "application/json, text/event-stream";
/// Longest id of a session that is repeated to its server.
const SESSION_CHARS_MAX: usize = 512;
/// Time for a farewell, or for an answer to a request of the server.
const REPLY_TIME: Duration = Duration::from_secs(2);

/// A server at an address.
pub struct HttpConnection {
    fetcher: WebFetcher,
    url: String,
    fields: Vec<(String, SecretString)>,
    /// `None`: the owner has written a fixed `Authorization`.
    login: Option<ServerLogin>,
    /// Tokens that the server has been sent: it could repeat them.
    sent_tokens: Vec<SecretString>,
    session: Option<String>,
    version: Option<String>,
    stream: Option<AnswerBody>,
    /// Messages that have come.
    waiting: VecDeque<Value>,
}

/// A body that is still coming.
struct AnswerBody {
    body: ApiStream,
    /// `None`: one JSON text, gathered until its end.
    events: Option<EventSplitter>,
    bytes: Vec<u8>,
}

impl HttpConnection {
    /// Opens nothing yet.
    pub fn new(server: &McpServer, url: &str, login: ServerLogin) -> Self {
        let opened: Vec<String> = origin(url).into_iter().collect();
        let limits = FetchLimits {
            body_bytes_max: MESSAGE_BYTES_MAX,
            duration_max: server.timeout,
            ..FetchLimits::default()
        };
        let is_fixed = |name: &str| name.eq_ignore_ascii_case("authorization");
        let has_key = server.headers.iter().any(|field| is_fixed(&field.name));
        let fields = server.headers.iter();
        let fields = fields.filter_map(|field| Some((field.name.clone(), field.value.clone()?)));
        Self {
            fetcher: WebFetcher::new(&opened, Arc::new(SystemLookup), limits),
            url: url.to_owned(),
            fields: fields.collect(),
            login: (!has_key).then_some(login),
            sent_tokens: Vec::new(),
            session: None,
            version: None,
            stream: None,
            waiting: VecDeque::new(),
        }
    }

    /// Names the version of the protocol in all requests from here on.
    pub fn agree(&mut self, version: &str) {
        self.version = Some(version.to_owned());
    }

    /// Sends a message; what the server answers comes from [`HttpConnection::receive`].
    pub async fn send(&mut self, message: &Value) -> Result<(), McpFailure> {
        let mut token = self.token(None).await?;
        let mut body = self.asked(message, token.as_ref()).await?;
        if body.status() == 401 && token.is_some() {
            // It may have ended before its time.
            token = self.token(token).await?;
            body = self.asked(message, token.as_ref()).await?;
        }
        let is_request = message.get("method").is_some() && message.get("id").is_some();
        match body.status() {
            200..=299 => {}
            401 if self.login.is_some() && token.is_none() => {
                return Err(McpFailure::LoginNeeded("nobody has logged in".to_owned()));
            }
            status @ (401 | 403) => {
                return Err(McpFailure::Refused(format!("it answered {status}")));
            }
            status => return Err(McpFailure::Ended(format!("it answered {status}"))),
        }
        let session = body.field("mcp-session-id").map(str::to_owned);
        if let Some(session) = session.filter(|id| id.len() <= SESSION_CHARS_MAX) {
            self.session = Some(session);
        }
        if is_request {
            let media_type = body.field("content-type").unwrap_or_default();
            let is_stream = media_type.trim_start().starts_with("text/event-stream");
            self.waiting.clear();
            self.stream = Some(AnswerBody {
                events: is_stream.then(EventSplitter::default),
                body,
                bytes: Vec::new(),
            });
        }
        Ok(())
    }

    /// Returns the token of the owner's login, if there is one; `refused` is one that the server would not take.
    async fn token(
        &mut self,
        refused: Option<SecretString>,
    ) -> Result<Option<SecretString>, McpFailure> {
        let Some(login) = &self.login else {
            return Ok(None);
        };
        let token = login.token(refused).await.map_err(|error| match error {
            LoginError::Over(why) => McpFailure::LoginNeeded(why.to_owned()),
            error => McpFailure::Unreachable(format!("its login cannot be renewed: {error}")),
        })?;
        if let Some(token) = &token {
            let is_it = |sent: &SecretString| sent.expose_secret() == token.expose_secret();
            if !self.sent_tokens.iter().any(is_it) {
                self.sent_tokens.push(token.clone());
            }
        }
        Ok(token)
    }

    /// Sends a message with a token. It goes to the address that the owner wrote, and no redirect is followed with it.
    async fn asked(
        &self,
        message: &Value,
        token: Option<&SecretString>,
    ) -> Result<ApiStream, McpFailure> {
        let request = self.request(ApiRequest::post(&self.url, message.clone()));
        let request = with_token(request, token);
        self.fetcher.open_api(request).await.map_err(failure)
    }

    /// Reads a message, without tokens of ours that the server repeats.
    fn read(&self, text: &[u8]) -> Result<Value, McpFailure> {
        if self.sent_tokens.is_empty() {
            return Ok(serde_json::from_slice(text).unwrap_or_default());
        }
        let clean = scrub(text, &self.sent_tokens);
        let clean = clean.map_err(|_| McpFailure::broken("it repeats our token in pieces"))?;
        Ok(serde_json::from_slice(&clean).unwrap_or_default())
    }

    /// Answers a request of the server, beside the answer that still comes. Whether it arrives is the server's business.
    pub async fn reply(&mut self, message: &Value) {
        let request = self.request(ApiRequest::post(&self.url, message.clone()));
        let request = with_token(request, self.sent_tokens.last());
        let _unheard = tokio::time::timeout(REPLY_TIME, self.fetcher.open_api(request)).await;
    }

    /// Returns the next message of the answer that comes.
    pub async fn receive(&mut self) -> Result<Value, McpFailure> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Ok(message);
            }
            let Some(mut stream) = self.stream.take() else {
                return Err(McpFailure::Ended(
                    "its answer ended without a result".to_owned(),
                ));
            };
            let piece = stream.body.next().await.map_err(failure)?;
            let is_over = piece.is_none();
            let piece = piece.unwrap_or_default();
            match &mut stream.events {
                Some(events) => {
                    events.push(&piece);
                    while let Some(event) = events.take() {
                        let message = self.read(event.data.as_bytes())?;
                        self.waiting.push_back(message);
                    }
                }
                None => stream.bytes.extend_from_slice(&piece),
            }
            match is_over {
                true if stream.events.is_none() => {
                    let message = self.read(&stream.bytes)?;
                    self.waiting.push_back(message);
                }
                true => {}
                false => self.stream = Some(stream),
            }
        }
    }

    /// Ends the session.
    pub async fn close(self) {
        if self.session.is_some() {
            let request = self.request(ApiRequest::delete(&self.url));
            let request = with_token(request, self.sent_tokens.last());
            let _unheard = tokio::time::timeout(REPLY_TIME, self.fetcher.open_api(request)).await;
        }
    }

    fn request(&self, request: ApiRequest) -> ApiRequest {
        let own = [
            ("Mcp-Session-Id", &self.session),
            ("MCP-Protocol-Version", &self.version),
        ];
        let own = own.into_iter().filter_map(|(name, value)| {
            value
                .clone()
                .map(|value| (name.to_owned(), SecretString::from(value)))
        });
        let fields = self.fields.iter().cloned().chain(own);
        fields.fold(request.accepting(ACCEPT), |request, (name, value)| {
            request.with_field(&name, value)
        })
    }
}

fn with_token(request: ApiRequest, token: Option<&SecretString>) -> ApiRequest {
    match token {
        Some(token) => request.with_secret("Authorization", "Bearer ", token),
        None => request,
    }
}

fn failure(error: FetchError) -> McpFailure {
    match error.code {
        "too_large" => McpFailure::broken(error.message),
        _ => McpFailure::Unreachable(error.message),
    }
}
