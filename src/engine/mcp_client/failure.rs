//! Reasons why a server gave no answer, for the owner and for the model.

use crate::config::spell;
use crate::tools::ToolError;
use std::time::Duration;

/// Reason why a server gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum McpFailure {
    #[error("it cannot be started or reached: {0}")]
    Unreachable(String),
    #[error("it ended: {0}")]
    Ended(String),
    #[error("it gave no answer within {}", spell(*.0))]
    Late(Duration),
    /// It sent more than it may, or what the protocol does not know.
    #[error("it broke the protocol: {0}")]
    Broken(String),
    /// It wants a login or a key that it was not given.
    #[error("it refuses us: {0}")]
    Refused(String),
    /// Its owner has to log in.
    #[error("it wants a login: {0}")]
    LoginNeeded(String),
    /// Its program or a script of it is not the one that was approved.
    #[error("{0}")]
    FilesChanged(String),
}

impl McpFailure {
    pub fn broken(what: impl Into<String>) -> Self {
        Self::Broken(what.into())
    }

    /// Words the failure of a call for the model, without words of the server; `called`: the call may have been carried out.
    pub fn for_model(&self, called: bool) -> ToolError {
        let (code, what) = match self {
            Self::Late(within) => (
                "tool_timeout",
                format!(
                    "the server gave no answer within {} and was stopped",
                    spell(*within)
                ),
            ),
            Self::Broken(_) => (
                "server_failed",
                "the server broke the protocol and was stopped".to_owned(),
            ),
            Self::Ended(_) => ("server_failed", "the server ended".to_owned()),
            Self::LoginNeeded(_) => (
                "server_failed",
                "the server wants your owner to log in".to_owned(),
            ),
            Self::Unreachable(_) | Self::Refused(_) | Self::FilesChanged(_) => {
                ("server_failed", "the server cannot be used".to_owned())
            }
        };
        let so = match called {
            true => "; the call may or may not have been carried out",
            false => "; nothing was called",
        };
        let hint =
            format!("{what}{so}. Your owner can see why; finish without it, or try it otherwise");
        ToolError::mendable(code, hint)
    }
}
