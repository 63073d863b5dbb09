//! Servers of the Model Context Protocol, as their tools reach them.

use super::error::ToolError;
use crate::config::McpServer;
use crate::domain::RunId;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use std::time::Duration;

/// Way to MCP servers. A higher unit starts and asks them.
pub trait McpServers: Send + Sync {
    /// Calls a tool of a server, if it still is as its owner approved it. Errors: worded for the model, without words of the
    /// server.
    fn call<'a>(&'a self, call: McpCall<'a>) -> BoxFuture<'a, Result<McpResult, ToolError>>;
}

/// One call of a server's tool.
#[derive(Clone, Copy)]
pub struct McpCall<'a> {
    pub run: &'a RunId,
    pub server: &'a McpServer,
    /// Name that the server gives it.
    pub tool: &'a str,
    pub args: &'a Map<String, Value>,
    /// Longest text of the result.
    pub result_bytes_max: usize,
    /// Time of the call, behind the beginning of the session.
    pub within: Duration,
}

/// Result of a call, in the server's words.
#[derive(Debug, PartialEq)]
pub struct McpResult {
    /// Value that the model reads.
    pub content: Value,
    /// `true`: the tool says that it failed.
    pub is_error: bool,
}
