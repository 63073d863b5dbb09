//! State of each provider in this process: circuit breakers, and what its models lack.
//!
//! Absent on purpose: breakers across restarts; a fresh engine asks at once.

use super::learnt::{self, LearntModel};
use super::{Moment, ProviderHealth};
use crate::clock::Clock;
use crate::config::Config;
use crate::domain::{Breaker, BreakerState, ErrorClass, Timestamp, Tolerance};
use crate::providers::{Parameter, Phase, ProviderError};
use crate::runs::record::call_record::ModelLimits;
use futures_util::future::BoxFuture;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

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
    learnt: Mutex<LearntState>,
}

/// What models were found to lack, and where it is kept.
#[derive(Default)]
struct LearntState {
    models: Vec<LearntModel>,
    /// Servers of the providers, where their blocks name one.
    base_urls: BTreeMap<String, String>,
    /// Workspace of the file; `None`: nothing is kept.
    workspace: Option<PathBuf>,
    /// When the file was written that `models` was read from.
    read: Option<SystemTime>,
}

impl LearntState {
    /// Reads the file again where a command beside the engine has changed it.
    fn refresh(&mut self) {
        let Some(workspace) = &self.workspace else {
            return;
        };
        let written = learnt::written_at(workspace);
        if written != self.read {
            self.models = learnt::read(workspace);
            self.models
                .retain(|of| of.base_url.as_ref() == self.base_urls.get(&of.provider));
            self.read = written;
        }
    }

    fn change(
        &mut self,
        provider: &str,
        model: &str,
        now: Timestamp,
        change: impl FnOnce(&mut LearntModel),
    ) {
        self.refresh();
        self.models.retain(|of| of.is_in_force(now));
        let at = self.models.iter().position(|of| of.is_of(provider, model));
        let at = at.unwrap_or_else(|| {
            self.models.push(LearntModel {
                provider: provider.to_owned(),
                model: model.to_owned(),
                base_url: self.base_urls.get(provider).cloned(),
                learnt_ms: 0,
                without: Vec::new(),
                window_tokens: None,
            });
            self.models.len() - 1
        });
        let of = &mut self.models[at];
        of.learnt_ms = now.as_millis();
        change(of);
        self.keep();
    }

    fn keep(&mut self) {
        let Some(workspace) = &self.workspace else {
            return;
        };
        if let Err(error) = learnt::write(workspace, &self.models) {
            tracing::warn!(%error, "what models lack is not kept: after a restart it is learnt again");
        }
        self.read = learnt::written_at(workspace);
    }
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
            learnt: Mutex::default(),
        }
    }

    /// Keeps what is learnt of models in the workspace, and begins with what is kept there.
    #[must_use]
    pub fn keeping(self, config: &Config) -> Self {
        let blocks = config.inference.providers.iter();
        let base_urls = blocks.filter_map(|(name, of)| Some((name.clone(), of.base_url.clone()?)));
        let learnt = LearntState {
            base_urls: base_urls.collect(),
            workspace: Some(config.workspace.clone()),
            ..LearntState::default()
        };
        Self {
            learnt: Mutex::new(learnt),
            ..self
        }
    }

    /// Returns what is known of a model.
    fn known(&self, provider: &str, model: &str) -> Option<LearntModel> {
        let now = self.clock.now();
        let mut learnt = lock(&self.learnt);
        learnt.refresh();
        let mut known = learnt.models.iter();
        known
            .find(|of| of.is_of(provider, model) && of.is_in_force(now))
            .cloned()
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
        let now = self.clock.now();
        lock(&self.learnt).change(provider, model, now, |known| {
            if !known.without.contains(&parameter) {
                known.without.push(parameter);
            }
        });
    }

    fn has_window(&self, provider: &str, model: &str, tokens: u64) {
        let now = self.clock.now();
        lock(&self.learnt).change(provider, model, now, |known| {
            known.window_tokens = Some(tokens);
        });
    }

    fn forget(&self, provider: &str, base_url: Option<&str>) {
        lock(&self.of).remove(provider);
        let mut learnt = lock(&self.learnt);
        learnt.refresh();
        match base_url {
            Some(url) => learnt.base_urls.insert(provider.to_owned(), url.to_owned()),
            None => learnt.base_urls.remove(provider),
        };
        let before = learnt.models.len();
        learnt.models.retain(|of| of.provider != provider);
        if learnt.models.len() < before {
            learnt.keep();
        }
    }

    fn without(&self, provider: &str, model: &str) -> Vec<Parameter> {
        self.known(provider, model)
            .map(|known| known.without)
            .unwrap_or_default()
    }

    fn limits(&self, provider: &str, model: &str) -> ModelLimits {
        let known = self.known(provider, model);
        ModelLimits {
            no_tools: known.as_ref().is_some_and(LearntModel::takes_no_tools),
            window_tokens: known.and_then(|known| known.window_tokens),
        }
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
