//! One request to a server over its connection, bounded by time and by what it may say meanwhile.

use super::failure::McpFailure;
use super::http::HttpConnection;
use super::message::{self, Incoming};
use super::oauth::ServerLogin;
use super::stdio::StdioConnection;
use crate::clock::Clock;
use crate::config::McpServer;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Most messages that a server may send before it answers.
const MESSAGES_MAX: usize = 1000;
/// Most requests of its own that it may make before it answers.
const REQUESTS_MAX: usize = 50;

/// A connection of either kind.
pub enum McpConnection {
    Stdio(Box<StdioConnection>),
    Http(Box<HttpConnection>),
}

impl McpConnection {
    /// Starts the server's program, or names its address; nothing is sent yet.
    pub fn open(server: &McpServer, clock: &Arc<dyn Clock>) -> Result<Self, McpFailure> {
        match &server.url {
            Some(url) => {
                let login = ServerLogin::of(server, clock.clone());
                Ok(Self::Http(Box::new(HttpConnection::new(
                    server, url, login,
                ))))
            }
            None => StdioConnection::start(server).map(|stdio| Self::Stdio(Box::new(stdio))),
        }
    }

    /// Names the version of the protocol that was agreed on.
    pub fn agree(&mut self, version: &str) {
        if let Self::Http(http) = self {
            http.agree(version);
        }
    }

    /// Asks, and returns the result, or the server's own error as `Ok(Err(…))`. After an error the connection is not to be
    /// used again.
    pub async fn request(
        &mut self,
        id: &str,
        method: &str,
        params: Value,
        within: Duration,
    ) -> Result<Result<Value, String>, McpFailure> {
        let request = message::request(id, method, params);
        let answered = timeout(within, self.answered(&request, id)).await;
        answered.map_err(|_| McpFailure::Late(within))?
    }

    async fn answered(
        &mut self,
        request: &Value,
        id: &str,
    ) -> Result<Result<Value, String>, McpFailure> {
        self.send(request).await?;
        let mut requests = 0;
        for _ in 0..MESSAGES_MAX {
            match message::incoming(&self.receive().await?, id) {
                Incoming::Answer(answer) => return Ok(answer),
                Incoming::Request { .. } if requests == REQUESTS_MAX => break,
                Incoming::Request { reply } => {
                    requests += 1;
                    self.reply(&reply).await;
                }
                Incoming::Other => {}
            }
        }
        Err(McpFailure::broken(
            "it sends messages without end and no answer",
        ))
    }

    /// Announces something; no answer is waited for.
    pub async fn notify(&mut self, method: &str, within: Duration) -> Result<(), McpFailure> {
        let sent = timeout(within, self.send(&message::notification(method))).await;
        sent.map_err(|_| McpFailure::Late(within))?
    }

    pub async fn close(self) {
        match self {
            Self::Stdio(stdio) => stdio.close().await,
            Self::Http(http) => http.close().await,
        }
    }

    async fn send(&mut self, message: &Value) -> Result<(), McpFailure> {
        match self {
            Self::Stdio(stdio) => {
                stdio.send(message);
                Ok(())
            }
            Self::Http(http) => http.send(message).await,
        }
    }

    async fn reply(&mut self, message: &Value) {
        match self {
            Self::Stdio(stdio) => stdio.send(message),
            Self::Http(http) => http.reply(message).await,
        }
    }

    async fn receive(&mut self) -> Result<Value, McpFailure> {
        match self {
            Self::Stdio(stdio) => stdio.receive().await,
            Self::Http(http) => http.receive().await,
        }
    }
}
