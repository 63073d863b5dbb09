//! Health of the providers: which are asked, which are paused, what their models lack.

pub mod adapters;
pub mod learnt;
pub mod breakers;
pub mod status;
pub mod probe;

use crate::providers::{Parameter, ProviderError};
use crate::runs::record::call_record::ModelLimits;
use futures_util::future::BoxFuture;
use std::time::Duration;

/// Inputs of a decision that are not in the rows: the health of the providers, and the time.
pub trait ProviderHealth: Send + Sync {
    /// Admits a call to a provider, or refuses it; a call that `insists` is always admitted. Every
    /// admitted call is followed by [`Self::report`]. Errors: the reason why the provider is
    /// paused, and for how long.
    fn admit(&self, provider: &str, insists: bool) -> Result<(), ProviderError>;
    /// Reports the end of an admitted call; `None`: it tells nothing about the provider.
    fn report(&self, provider: &str, end: Option<Result<(), &ProviderError>>);
    /// Records that a model refuses a parameter.
    fn refused(&self, provider: &str, model: &str, parameter: Parameter);
    /// Records the window that a model's error named, in tokens.
    fn has_window(&self, provider: &str, model: &str, tokens: u64);
    /// Forgets what is known of a provider whose settings are others now; `base_url`: its server from now on.
    fn forget(&self, provider: &str, base_url: Option<&str>) {
        let _nothing_is_known = (provider, base_url);
    }
    /// Returns the parameters that requests to this model leave out.
    fn without(&self, provider: &str, model: &str) -> Vec<Parameter>;
    /// Returns what is known of the model that an attempt asks first, before its context is assembled.
    fn limits(&self, provider: &str, model: &str) -> ModelLimits;
    /// Returns the working time of this attempt, where `since` is the monotonic time of its
    /// beginning.
    fn worked(&self, since: Duration, moment: Moment) -> Duration;
    /// Returns the number of tool calls, and of failed ones, that came with the last provider call
    /// without being observed in this process; 0 unless replayed.
    fn unwatched(&self) -> (u32, u32);
    /// Waits for that time.
    fn wait(&self, span: Duration) -> BoxFuture<'_, ()>;
}

/// Reason for reading the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before the next call of the provider.
    Asking,
    /// A call has ended.
    Answered,
}
