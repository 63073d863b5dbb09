//! End of a call: cancellation, the overall deadline and the longest silence, enforced in one
//! place.

use crate::domain::ErrorClass;
use crate::providers::contract::traits::{CallContext, Phase, ProviderError};
use std::pin::Pin;
use std::time::Duration;
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

/// Timeouts of one call. Make it when the call starts, inside the runtime.
pub struct Guard {
    cancel: CancellationToken,
    overall: Pin<Box<Sleep>>,
    deadline: Duration,
    idle: Duration,
}

impl Guard {
    pub fn start(context: &CallContext) -> Self {
        Self {
            cancel: context.cancel.clone(),
            overall: Box::pin(tokio::time::sleep(context.deadline)),
            deadline: context.deadline,
            idle: context.idle,
        }
    }

    /// Waits for the next piece of work, or for the event that ends the call first. Cancellation
    /// wins over a result that is ready, so a cancelled run never acts on an answer. Errors: class
    /// `Cancelled` or `Timeout`.
    pub async fn wait<F: Future>(
        &mut self,
        phase: Phase,
        work: F,
    ) -> Result<F::Output, ProviderError> {
        let failed = |class, message| Err(ProviderError::new(class, phase, message));
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => failed(ErrorClass::Cancelled, "the call was cancelled".to_owned()),
            () = &mut self.overall => {
                let message = format!("no complete answer within {} ms", self.deadline.as_millis());
                failed(ErrorClass::Timeout, message)
            }
            output = work => Ok(output),
            () = tokio::time::sleep(self.idle) => {
                failed(ErrorClass::Timeout, format!("silent for {} ms", self.idle.as_millis()))
            }
        }
    }
}
