//! Connection to a server at an address: streamable HTTP, one request a message. Every request goes through the guard of the
//! web, for which the owner has opened the host and port that the configuration names, and no other.

use super::failure::McpFailure;
use super::stdio::MESSAGE_BYTES_MAX;
use crate::config::{McpServer, origin};
use crate::providers::transport::sse::EventSplitter;
use crate::web::{ApiRequest, ApiStream, FetchError, FetchLimits, SystemLookup, WebFetcher};
use secrecy::SecretString;
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
    pub fn new(server: &McpServer, url: &str) -> Self {
        let opened: Vec<String> = origin(url).into_iter().collect();
        let limits = FetchLimits {
            body_bytes_max: MESSAGE_BYTES_MAX,
            duration_max: server.timeout,
            ..FetchLimits::default()
        };
        let fields = server.headers.iter();
        let fields = fields.filter_map(|field| Some((field.name.clone(), field.value.clone()?)));
        Self {
            fetcher: WebFetcher::new(&opened, Arc::new(SystemLookup), limits),
            url: url.to_owned(),
            fields: fields.collect(),
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
        let request = self.request(ApiRequest::post(&self.url, message.clone()));
        let body = self.fetcher.open_api(request).await.map_err(failure)?;
        let is_request = message.get("method").is_some() && message.get("id").is_some();
        match body.status() {
            200..=299 => {}
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

    /// Answers a request of the server, beside the answer that still comes. Whether it arrives is the server's business.
    pub async fn reply(&mut self, message: &Value) {
        let request = self.request(ApiRequest::post(&self.url, message.clone()));
        let _unheard = tokio::time::timeout(REPLY_TIME, self.fetcher.open_api(request)).await;
    }

    /// Returns the next message of the answer that comes.
    pub async fn receive(&mut self) -> Result<Value, McpFailure> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Ok(message);
            }
            let Some(stream) = &mut self.stream else {
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
                        self.waiting
                            .push_back(serde_json::from_str(&event.data).unwrap_or_default());
                    }
                }
                None => stream.bytes.extend_from_slice(&piece),
            }
            if is_over {
                if stream.events.is_none() {
                    let message = serde_json::from_slice(&stream.bytes);
                    self.waiting.push_back(message.unwrap_or_default());
                }
                self.stream = None;
            }
        }
    }

    /// Ends the session.
    pub async fn close(self) {
        if self.session.is_some() {
            let request = self.request(ApiRequest::delete(&self.url));
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

fn failure(error: FetchError) -> McpFailure {
    match error.code {
        "too_large" => McpFailure::broken(error.message),
        _ => McpFailure::Unreachable(error.message),
    }
}
