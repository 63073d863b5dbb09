//! Client of one OpenCode server: requests with its password and a folder, and its event stream.
//!
//! Absent on purpose: redirects and proxies, as in `client.rs`.

use crate::domain::ErrorClass;
use crate::providers::contract::traits::{Phase, ProviderError};
use crate::providers::transport::client;
use crate::text::root_cause;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Client, Method, Response, Url};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

const DOCUMENT_BYTES_MAX: usize = 64 * 1024 * 1024;
const FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Default user name of a server.
const USER: &str = "opencode";

#[derive(Clone)]
pub struct Server {
    client: Client,
    base: Url,
    headers: HeaderMap,
}

impl Server {
    /// Creates a client. Errors: class `Config` for a URL that would expose the password.
    pub fn new(
        base_url: &str,
        password: Option<&SecretString>,
        folder: &str,
    ) -> Result<Self, ProviderError> {
        let wrong =
            |message: String| ProviderError::new(ErrorClass::Config, Phase::Config, message);
        let base = client::base_url(base_url, false).map_err(wrong)?;
        let mut headers = HeaderMap::new();
        let folder = HeaderValue::from_str(folder);
        headers.insert(
            "x-opencode-directory",
            folder.map_err(|_| wrong("no header can hold the folder".into()))?,
        );
        if let Some(password) = password {
            let pair =
                BASE64_STANDARD.encode(format!("{USER}:{}", password.expose_secret().trim()));
            let mut value = HeaderValue::from_str(&format!("Basic {pair}"))
                .map_err(|_| wrong("no header can hold the password".into()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let client = client::build(client::client()).map_err(wrong)?;
        Ok(Self {
            client,
            base,
            headers,
        })
    }

    pub fn url(&self) -> &Url {
        &self.base
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Response, ProviderError> {
        let url = format!("{}/{path}", self.base.as_str().trim_end_matches('/'));
        let mut request = self
            .client
            .request(method, url)
            .headers(self.headers.clone());
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.map_err(|error| {
            let message = format!("cannot reach opencode: {}", root_cause(&error));
            let phase = if error.is_connect() {
                Phase::BeforeSend
            } else {
                Phase::MidStream
            };
            ProviderError::new(ErrorClass::Transient, phase, message)
        })?;
        let status = response.status().as_u16();
        if (200..300).contains(&status) {
            return Ok(response);
        }
        let said = document(response).await.unwrap_or_default();
        let said = String::from_utf8_lossy(&said)
            .chars()
            .take(300)
            .collect::<String>();
        let is_session = path.starts_with("session/");
        let class = match status {
            401 => ErrorClass::Auth,
            403 => ErrorClass::Permission,
            404 if is_session => ErrorClass::SessionMissing,
            409 if is_session => ErrorClass::SessionBusy,
            400..=499 => ErrorClass::BadRequest,
            _ if said.contains("BusyError") => ErrorClass::SessionBusy,
            _ => ErrorClass::Transient,
        };
        let message =
            crate::text::redact::key_shapes(&format!("opencode answers {status}: {said}"));
        Err(ProviderError {
            http_status: Some(status),
            ..ProviderError::new(class, Phase::BeforeFirstByte, message)
        })
    }

    pub async fn get(&self, path: &str) -> Result<Value, ProviderError> {
        read(self.send(Method::GET, path, None).await?).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, ProviderError> {
        read(self.send(Method::POST, path, Some(body)).await?).await
    }

    /// Subscribes to the events of the folder.
    pub async fn events(&self) -> Result<EventStream, ProviderError> {
        let mut listening = self.clone();
        listening
            .headers
            .insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        Ok(EventStream {
            response: listening.send(Method::GET, "event", None).await?,
            held: Vec::new(),
        })
    }
}

async fn document(mut response: Response) -> Result<Vec<u8>, ProviderError> {
    let broke =
        |message: String| ProviderError::new(ErrorClass::Transient, Phase::MidStream, message);
    let mut bytes = Vec::new();
    while let Some(piece) = response
        .chunk()
        .await
        .map_err(|error| broke(format!("the answer broke off: {}", root_cause(&error))))?
    {
        bytes.extend_from_slice(&piece);
        if bytes.len() > DOCUMENT_BYTES_MAX {
            return Err(broke(format!(
                "the answer is longer than {DOCUMENT_BYTES_MAX} bytes"
            )));
        }
    }
    Ok(bytes)
}

/// Reads a response; some have no body.
async fn read(response: Response) -> Result<Value, ProviderError> {
    let bytes = document(response).await?;
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&bytes).map_err(|error| {
        let message = format!("opencode answered with something that is no JSON: {error}");
        ProviderError::new(ErrorClass::Protocol, Phase::MidStream, message)
    })
}

/// An event stream; it has no ids, so events that were missed must be requested.
pub struct EventStream {
    response: Response,
    held: Vec<u8>,
}

impl EventStream {
    /// Returns the next frame; `None` when the stream is lost. Cancel-safe.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(frame) = self.take() {
                return Some(frame);
            }
            let piece = self.response.chunk().await.ok().flatten()?;
            self.held
                .extend(piece.iter().filter(|byte| **byte != b'\r'));
            if self.held.len() > FRAME_BYTES_MAX {
                return None;
            }
        }
    }

    /// Takes the next frame; frames that are no JSON are comments or irrelevant.
    fn take(&mut self) -> Option<Value> {
        while let Some(end) = self.held.windows(2).position(|pair| pair == b"\n\n") {
            let block: Vec<u8> = self.held.drain(..end + 2).collect();
            let text = String::from_utf8_lossy(&block);
            let data: Vec<&str> = text
                .lines()
                .filter_map(|line| line.strip_prefix("data:"))
                .collect();
            if let Ok(frame) = serde_json::from_str(data.join("\n").trim()) {
                return Some(frame);
            }
        }
        None
    }
}
