//! Programs of the owner, as own tools reach them.

use super::error::ToolError;
use crate::config::{OwnTool, spell};
use futures_util::future::BoxFuture;
use serde_json::Value;
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
