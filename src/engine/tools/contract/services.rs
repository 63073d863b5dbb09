//! What a higher unit does for tools: programs of the owner, servers of the Model Context Protocol, vectors of questions for the
//! search of mail.

use super::error::ToolError;
use crate::config::{McpServer, OwnTool, spell};
use crate::domain::RunId;
use crate::store::{PersonaStore, QuestionVector};
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use std::time::Duration;

/// Way to the programs of own tools. A higher unit starts them.
pub trait OwnerPrograms: Send + Sync {
    /// Gives a tool's program one line of JSON, and returns what it writes until it ends, or its time is over. Errors: worded for the model, without
    /// the program's own complaints, which may hold paths and keys.
    fn run<'a>(
        &'a self,
        tool: &'a OwnTool,
        input: &'a Value,
        within: Duration,
    ) -> BoxFuture<'a, Result<String, ToolError>>;
}

/// Failure of a program, for the owner.
#[derive(Debug, thiserror::Error)]
pub enum ProgramFailure {
    #[error("it gave no answer within {}", spell(*.0))]
    Late(Duration),
    #[error("{0}")]
    Failed(String),
}

impl ProgramFailure {
    /// Words the failure for the model.
    pub fn for_model(&self) -> ToolError {
        match self {
            Self::Late(within) => ToolError::mendable(
                "tool_timeout",
                format!(
                    "the tool gave no answer within {} and was stopped; it may or may not have done its work",
                    spell(*within)
                ),
            ),
            Self::Failed(_) => ToolError::mendable(
                "tool_failed",
                "the tool failed, and your owner can see why; finish without it, or try it otherwise",
            ),
        }
    }
}

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

/// Maker of vectors of questions. A higher unit has the connection.
pub trait QuestionVectors: Send + Sync {
    /// Returns the vector of a question; `None`: the persona's search goes by words alone, or there is no vector just now.
    fn vector<'a>(
        &'a self,
        persona: &'a PersonaStore,
        run: &'a RunId,
        question: &'a str,
    ) -> BoxFuture<'a, Option<QuestionVector>>;
}
