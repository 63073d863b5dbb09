//! Reasons why a run did not complete.

use crate::context::resolvers::ResolveError;
use crate::domain::ErrorClass;
use crate::providers::ProviderError;
use crate::store::{BudgetExhausted, StoreError};
use std::time::Duration;

/// Reason why a run did not complete.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The provider failed, and so did all its fallbacks; `retry_in` says whether a later retry may
    /// help.
    #[error("{source}{others}")]
    Provider {
        #[source]
        source: Box<ProviderError>,
        /// Errors of the fallbacks: `; NAME/MODEL: class: message` each.
        others: String,
        retry_in: Option<Duration>,
    },
    /// A retry would fail alike.
    #[error("{message}")]
    Fatal { class: ErrorClass, message: String },
    /// A standing text is gone; the run waits for it, and the attempt does not count.
    #[error("{message}")]
    WaitsForText { path: String, message: String },
    /// The machine lacks something now, such as a file descriptor; a later retry may find it.
    #[error("{message}")]
    Machine { message: String },
    /// A budget account cannot pay the next call.
    #[error("{0}")]
    BudgetExhausted(Box<BudgetExhausted>),
    #[error("the store failed")]
    Store(#[from] StoreError),
    /// The run is parked until its owner decides; everything of it is committed.
    #[error("it waits for its owner's approval")]
    WaitsForApproval,
    /// Cancelled on request.
    #[error("cancelled")]
    Cancelled,
}

impl RunError {
    pub fn class(&self) -> ErrorClass {
        match self {
            RunError::Provider { source, .. } => source.class,
            RunError::Fatal { class, .. } => *class,
            RunError::Machine { .. } => ErrorClass::Transient,
            RunError::WaitsForText { .. } => ErrorClass::Config,
            RunError::Store(_) => ErrorClass::Store,
            RunError::BudgetExhausted(_) => ErrorClass::Budget,
            // No end of a run: nothing is stored of it.
            RunError::WaitsForApproval => ErrorClass::Transient,
            RunError::Cancelled => ErrorClass::Cancelled,
        }
    }
}

impl From<ResolveError> for RunError {
    fn from(error: ResolveError) -> Self {
        match error {
            ResolveError::Store(error) => RunError::Store(error),
            passing @ ResolveError::Machine { .. } => RunError::Machine {
                message: passing.to_string(),
            },
            ResolveError::NoText { ref path, .. } => RunError::WaitsForText {
                path: path.clone(),
                message: error.to_string(),
            },
            other => RunError::Fatal {
                class: ErrorClass::Config,
                message: other.to_string(),
            },
        }
    }
}
