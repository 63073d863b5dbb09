//! A session with a server: the handshake, its tools as they are now, and calls.

use super::connection::McpConnection;
use super::failure::McpFailure;
use super::message;
use crate::clock::Clock;
use crate::config::McpServer;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Versions whose tools are listed and called in the same way.
const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const PAGES_MAX: usize = 20;
const TOOLS_MAX: usize = 500;

/// Tools of a server as they are now, by their own names; more than one definition of a name is kept.
pub type ListedTools = BTreeMap<String, Vec<Value>>;

/// A session that has begun.
pub struct McpSession {
    connection: McpConnection,
    within: Duration,
    /// Gives ids that cannot be guessed.
    clock: Arc<dyn Clock>,
}

impl McpSession {
    /// Starts or reaches the server. Errors: nothing of the server is left.
    pub async fn begin(server: &McpServer, clock: Arc<dyn Clock>) -> Result<Self, McpFailure> {
        let mut session = Self {
            connection: McpConnection::open(server, &clock)?,
            within: server.timeout,
            clock,
        };
        match session.initialize().await {
            Ok(()) => Ok(session),
            Err(failure) => {
                session.close().await;
                Err(failure)
            }
        }
    }

    async fn initialize(&mut self) -> Result<(), McpFailure> {
        let begun = self.request("initialize", message::greeting()).await?;
        let version = begun["protocolVersion"].as_str().unwrap_or_default();
        if !VERSIONS.contains(&version) {
            let version: String = version
                .chars()
                .filter(|c| !c.is_control())
                .take(40)
                .collect();
            return Err(McpFailure::broken(format!(
                "it speaks version `{version}`, which we do not"
            )));
        }
        self.connection.agree(version);
        self.connection
            .notify("notifications/initialized", self.within)
            .await
    }

    /// Returns the tools as they are now. Errors: the session is not to be used again.
    pub async fn tools(&mut self) -> Result<ListedTools, McpFailure> {
        let (mut listed, mut count, mut cursor) = (ListedTools::new(), 0, None);
        for _ in 0..PAGES_MAX {
            let params = match &cursor {
                Some(cursor) => json!({ "cursor": cursor }),
                None => json!({}),
            };
            let page = self.request("tools/list", params).await?;
            let Some(tools) = page["tools"].as_array() else {
                return Err(McpFailure::broken("its list of tools is none"));
            };
            for tool in tools {
                let name = tool["name"].as_str().unwrap_or_default().to_owned();
                listed.entry(name).or_default().push(tool.clone());
                count += 1;
            }
            if count > TOOLS_MAX {
                return Err(McpFailure::broken(format!(
                    "it lists more than {TOOLS_MAX} tools"
                )));
            }
            match page["nextCursor"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => return Ok(listed),
            }
        }
        Err(McpFailure::broken(format!(
            "its list of tools has more than {PAGES_MAX} pages"
        )))
    }

    /// Calls a tool, within this time, and returns the result, or the server's own error as `Ok(Err(…))`.
    pub async fn call(
        &mut self,
        tool: &str,
        args: &Map<String, Value>,
        within: Duration,
    ) -> Result<Result<Value, String>, McpFailure> {
        let params = json!({ "name": tool, "arguments": args });
        let id = self.clock.new_id();
        self.connection
            .request(&id, "tools/call", params, within)
            .await
    }

    pub async fn close(self) {
        self.connection.close().await;
    }

    async fn request(&mut self, method: &str, params: Value) -> Result<Value, McpFailure> {
        let id = self.clock.new_id();
        let answered = self.connection.request(&id, method, params, self.within);
        answered
            .await?
            .map_err(|_| McpFailure::broken(format!("it refuses `{method}`")))
    }
}
