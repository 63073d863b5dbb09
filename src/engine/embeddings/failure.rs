//! Reasons why there are no vectors.

use crate::domain::PersonaId;
use crate::providers::ProviderError;
use crate::store::{BudgetExhausted, StoreError};

/// Reason why texts got no vectors.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddingFailure {
    #[error("provider `{provider}` made no vectors")]
    Provider {
        provider: String,
        #[source]
        source: Box<ProviderError>,
    },
    /// A budget account cannot pay the call.
    #[error(transparent)]
    Budget(Box<BudgetExhausted>),
    #[error(
        "nobody knows what `{model}` of `{provider}` costs, and there is a budget in dollars; add its price to `configs/prices.json`"
    )]
    Unpriced { provider: String, model: String },
    #[error("no persona `{0}` is configured")]
    NoPersona(PersonaId),
    #[error("the call was given up")]
    GivenUp,
    #[error(transparent)]
    Store(StoreError),
}

impl From<StoreError> for EmbeddingFailure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::BudgetExhausted(empty) => EmbeddingFailure::Budget(empty),
            error => EmbeddingFailure::Store(error),
        }
    }
}
