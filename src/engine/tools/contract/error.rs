//! Reasons why a call failed, by who must act: the model, or the operator.

/// Reason why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The model may correct the call. `code` is a stable word such as `recipient_not_allowed`.
    #[error("{message}")]
    Mendable { code: &'static str, message: String },
    /// This engine does not offer the action: the run ends.
    #[error("this engine does not offer {0}")]
    UnsupportedAction(&'static str),
    /// A mail was to be sent and no outbound transport is configured: the run ends.
    #[error("no outbound transport is configured")]
    OutboundNotConfigured,
    /// The database failed; the run is retried.
    #[error("the store failed")]
    Store(#[from] crate::store::StoreError),
}

impl ToolError {
    pub fn mendable(code: &'static str, message: impl Into<String>) -> Self {
        ToolError::Mendable {
            code,
            message: message.into(),
        }
    }
}

/// Refuses a call with a text that tells the model what would work.
pub fn refuse<T>(code: &'static str, message: impl Into<String>) -> Result<T, ToolError> {
    Err(ToolError::mendable(code, message))
}
