//! State of each provider in this process: circuit breakers, and the parameters that models refuse.
//!
//! Absent on purpose: memory across restarts; a fresh engine asks at once, and learns of a refused
//! parameter by one call.

use super::{Moment, ProviderHealth};
use crate::clock::Clock;
use crate::domain::{Breaker, BreakerState, ErrorClass, Tolerance};
use crate::providers::{Parameter, Phase, ProviderError};
use futures_util::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const PAUSE: Duration = Duration::from_secs(60);
/// A burst of letters must neither multiply the load of a server that is down, nor repeat a refused
/// key a thousand times.
const TOLERANCE: Tolerance = Tolerance {
    failures_max: 5,
    pause_min: PAUSE,
    pause_max: PAUSE,
    refused_pause: PAUSE,
};

/// Circuit breakers by provider; one value per engine, next to the adapters.
pub struct CircuitBreakers {
    clock: Arc<dyn Clock>,
    of: Mutex<BTreeMap<String, BreakerEntry>>,
    /// Refused parameters by provider and model.
    refusals: Mutex<BTreeMap<(String, String), Vec<Parameter>>>,
}

struct BreakerEntry {
    breaker: Breaker,
    /// Monotonic time at which the pending probe call began.
    probing: Option<Duration>,
    /// Failure that paused the provider.
    last: Option<ProviderError>,
}

impl Default for BreakerEntry {
    fn default() -> Self {
        Self {
            breaker: Breaker::new(TOLERANCE),
            probing: None,
            last: None,
        }
    }
}

impl CircuitBreakers {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            of: Mutex::default(),
            refusals: Mutex::default(),
        }
    }

    /// Admits a call whatever the breaker's state, because an operator asked for it; the call
    /// serves as a probe.
    fn insist(&self, provider: &str, now: Duration) {
        if let Some(entry) = lock(&self.of).get_mut(provider) {
            entry.probing = Some(now);
        }
    }

    fn ended(&self, provider: &str, error: Option<&ProviderError>, now: Duration) {
        let mut breakers = lock(&self.of);
        let entry = match (error, breakers.get_mut(provider)) {
            (None, None) => return,
            (_, Some(entry)) => entry,
            (Some(_), None) => breakers.entry(provider.to_owned()).or_default(),
        };
        entry.probing = None;
        match error.map(|error| (error.class, error.phase)) {
            Some((ErrorClass::Overloaded | ErrorClass::Transient | ErrorClass::Timeout, _)) => {
                entry.last = error.cloned();
                let was_closed = entry.breaker.state(now) == BreakerState::Closed;
                if let (Some(pause), true) = (entry.breaker.unreachable(now), was_closed) {
                    let (failures, pause) = (entry.breaker.failures(), pause.as_secs());
                    tracing::warn!(
                        provider,
                        failures,
                        pause,
                        "the provider fails again and again; it rests"
                    );
                }
            }
            Some((class @ (ErrorClass::Auth | ErrorClass::Billing), _)) => {
                entry.last = error.cloned();
                let pause = entry.breaker.refused(now).as_secs();
                tracing::error!(provider, %class, pause, "the provider is degraded: it refuses the account");
            }
            // The request was not sent, or was cancelled.
            Some((ErrorClass::Cancelled, _) | (_, Phase::Config | Phase::BeforeSend)) => {}
            // Any other error still proves that the server answers.
            _ => entry.breaker.well(),
        }
    }
}

impl ProviderHealth for CircuitBreakers {
    /// Admits one probe call after a pause; other calls wait for its outcome.
    fn admit(&self, provider: &str, insists: bool) -> Result<(), ProviderError> {
        let now = self.clock.monotonic();
        if insists {
            self.insist(provider, now);
            return Ok(());
        }
        let mut breakers = lock(&self.of);
        let Some(entry) = breakers.get_mut(provider) else {
            return Ok(());
        };
        match (entry.breaker.state(now), entry.probing) {
            (BreakerState::Closed, _) => Ok(()),
            (BreakerState::Open(left), _) => Err(entry.resting(provider, left)),
            // After this pause the probe is given up: one whose run was dropped never reports.
            (BreakerState::HalfOpen, Some(began)) if now < began + PAUSE => {
                Err(entry.resting(provider, began + PAUSE - now))
            }
            (BreakerState::HalfOpen, _) => {
                entry.probing = Some(now);
                Ok(())
            }
        }
    }

    fn report(&self, provider: &str, end: Option<Result<(), &ProviderError>>) {
        match end {
            Some(end) => self.ended(provider, end.err(), self.clock.monotonic()),
            None => {
                if let Some(entry) = lock(&self.of).get_mut(provider) {
                    entry.probing = None;
                }
            }
        }
    }

    /// Records the parameter: every later request to that model leaves it out.
    fn refused(&self, provider: &str, model: &str, parameter: Parameter) {
        let mut refusals = lock(&self.refusals);
        let known = refusals
            .entry((provider.to_owned(), model.to_owned()))
            .or_default();
        if !known.contains(&parameter) {
            known.push(parameter);
        }
    }

    fn forget(&self, provider: &str) {
        lock(&self.of).remove(provider);
        lock(&self.refusals).retain(|(of, _), _| of != provider);
    }

    fn without(&self, provider: &str, model: &str) -> Vec<Parameter> {
        let key = (provider.to_owned(), model.to_owned());
        lock(&self.refusals).get(&key).cloned().unwrap_or_default()
    }

    fn worked(&self, since: Duration, _moment: Moment) -> Duration {
        self.clock.monotonic().saturating_sub(since)
    }

    fn unwatched(&self) -> (u32, u32) {
        (0, 0)
    }

    fn wait(&self, span: Duration) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(span))
    }
}

impl BreakerEntry {
    fn resting(&self, provider: &str, left: Duration) -> ProviderError {
        let (class, why) = match &self.last {
            Some(last) => (last.class, last.message.as_str()),
            None => (ErrorClass::Overloaded, "it failed"),
        };
        let message = format!(
            "provider `{provider}` rests for {} s: {why}",
            left.as_secs().max(1)
        );
        ProviderError {
            retry_after: Some(left),
            // No request of this run was sent yet, so even a refused key is worth a later retry.
            should_retry: Some(true),
            ..ProviderError::new(class, Phase::BeforeSend, message)
        }
    }
}

/// A panic while the lock is held leaves these maps whole.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
