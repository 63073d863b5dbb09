//! What this process has learnt of its providers: which of them rest, and which parameters their models refuse.
//!
//! Absent on purpose: memory across restarts; a fresh engine asks at once, and learns a refusal again by one call.

use super::ledger::{Circumstances, Moment};
use super::providers::{Parameter, Phase, ProviderError};
use super::route::Route;
use crate::clock::Clock;
use crate::domain::{Breaker, ErrorClass, Gate, Tolerance};
use futures_util::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const PAUSE: Duration = Duration::from_secs(60);
/// A burst of letters must neither multiply the load of a server that is down, nor knock a thousand times with a key that
/// was refused.
const TOLERANCE: Tolerance =
    Tolerance { failures_max: 5, pause_min: PAUSE, pause_max: PAUSE, refused_pause: PAUSE };

/// One per engine, beside the adapters.
pub struct Standings {
    clock: Arc<dyn Clock>,
    of: Mutex<BTreeMap<String, Standing>>,
    /// By provider and model.
    refusals: Mutex<BTreeMap<(String, String), Vec<Parameter>>>,
}

struct Standing {
    breaker: Breaker,
    /// Monotonic time at which a probe began that has said nothing yet.
    probing: Option<Duration>,
    /// The failure that made it rest.
    last: Option<ProviderError>,
}

impl Default for Standing {
    fn default() -> Self {
        Self { breaker: Breaker::new(TOLERANCE), probing: None, last: None }
    }
}

impl Standings {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, of: Mutex::default(), refusals: Mutex::default() }
    }

    /// Lets a call in whatever is known, because a person wants it; it finds out how the provider is.
    fn insist(&self, provider: &str, now: Duration) {
        if let Some(standing) = lock(&self.of).get_mut(provider) {
            standing.probing = Some(now);
        }
    }

    fn ended(&self, provider: &str, error: Option<&ProviderError>, now: Duration) {
        let mut standings = lock(&self.of);
        let standing = match (error, standings.get_mut(provider)) {
            (None, None) => return,
            (_, Some(standing)) => standing,
            (Some(_), None) => standings.entry(provider.to_owned()).or_default(),
        };
        standing.probing = None;
        match error.map(|error| (error.class, error.phase)) {
            Some((ErrorClass::Overloaded | ErrorClass::Transient | ErrorClass::Timeout, _)) => {
                standing.last = error.cloned();
                let was_open = standing.breaker.gate(now) == Gate::Open;
                if let (Some(pause), true) = (standing.breaker.unreachable(now), was_open) {
                    let (failures, pause) = (standing.breaker.failures(), pause.as_secs());
                    tracing::warn!(provider, failures, pause, "the provider fails again and again; it rests");
                }
            }
            Some((class @ (ErrorClass::Auth | ErrorClass::Billing), _)) => {
                standing.last = error.cloned();
                let pause = standing.breaker.refused(now).as_secs();
                tracing::error!(provider, %class, pause, "the provider is degraded: it refuses the account");
            }
            // It was never asked, or was not let finish.
            Some((ErrorClass::Cancelled, _) | (_, Phase::Config | Phase::BeforeSend)) => {}
            // Whatever else it says, it answers.
            _ => standing.breaker.well(),
        }
    }
}

impl Circumstances for Standings {
    /// After a pause, one call is let in and the others wait for its outcome.
    fn admit(&self, provider: &str, insists: bool) -> Result<(), ProviderError> {
        let now = self.clock.monotonic();
        if insists {
            self.insist(provider, now);
            return Ok(());
        }
        let mut standings = lock(&self.of);
        let Some(standing) = standings.get_mut(provider) else { return Ok(()) };
        match (standing.breaker.gate(now), standing.probing) {
            (Gate::Open, _) => Ok(()),
            (Gate::Paused(left), _) => Err(standing.resting(provider, left)),
            // A probe whose run was dropped never reports.
            (Gate::Probe, Some(began)) if now < began + PAUSE => {
                Err(standing.resting(provider, began + PAUSE - now))
            }
            (Gate::Probe, _) => {
                standing.probing = Some(now);
                Ok(())
            }
        }
    }

    fn report(&self, provider: &str, end: Option<Result<(), &ProviderError>>) {
        match end {
            Some(end) => self.ended(provider, end.err(), self.clock.monotonic()),
            None => {
                if let Some(standing) = lock(&self.of).get_mut(provider) {
                    standing.probing = None;
                }
            }
        }
    }

    /// It is left out of every later request to that model.
    fn refused(&self, route: &Route<'_>, parameter: Parameter) {
        let mut refusals = lock(&self.refusals);
        let known = refusals.entry((route.name.clone(), route.model.clone())).or_default();
        if !known.contains(&parameter) {
            known.push(parameter);
        }
    }

    fn without(&self, route: &Route<'_>) -> Vec<Parameter> {
        let key = (route.name.clone(), route.model.clone());
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

impl Standing {
    fn resting(&self, provider: &str, left: Duration) -> ProviderError {
        let (class, why) = match &self.last {
            Some(last) => (last.class, last.message.as_str()),
            None => (ErrorClass::Overloaded, "it failed"),
        };
        let message = format!("provider `{provider}` rests for {} s: {why}", left.as_secs().max(1));
        ProviderError {
            retry_after: Some(left),
            // Nobody has asked for this run yet, so even a refused key is worth a later look.
            should_retry: Some(true),
            ..ProviderError::new(class, Phase::BeforeSend, message)
        }
    }
}

/// A panic elsewhere leaves these maps whole.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
