//! Reason why a prompt cannot be used.

/// Error of an unusable prompt.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{problem}")]
pub struct PromptError {
    /// Line of the body, counted from 1; `None` when the fault has no position.
    pub line: Option<usize>,
    pub problem: String,
}
