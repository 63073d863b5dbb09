//! Statistics of provider calls, kept by triggers: one row for each provider, whatever the number
//! of its calls. On PostgreSQL it has one for each last digit of the ids of runs, so that nodes do not
//! wait for each other's commits.

use crate::domain::Timestamp;
use crate::store::{Result, Store};

/// Statistics of a provider from the calls of runs; cancelled calls do not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderCalls {
    /// Name of the provider in the configuration.
    pub provider: String,
    pub calls: u64,
    pub failures: u64,
    pub last_success_at: Option<Timestamp>,
    /// Model of the last success.
    pub last_model: Option<String>,
    /// Milliseconds from the commit of its request to the commit of its answer.
    pub last_latency_ms: Option<u64>,
    pub last_failure_at: Option<Timestamp>,
    pub last_failure_class: Option<String>,
    pub last_failure_message: Option<String>,
}

const PROVIDER_CALLS: &str = "SELECT * FROM provider_calls ORDER BY provider, part";

impl Store {
    /// Returns every provider that was ever called, by name.
    pub async fn provider_calls(&self) -> Result<Vec<ProviderCalls>> {
        let parts: Vec<ProviderCalls> = self.all(PROVIDER_CALLS, ()).await?;
        let mut providers: Vec<ProviderCalls> = Vec::new();
        for part in parts {
            match providers.last_mut() {
                Some(sum) if sum.provider == part.provider => sum.add(part),
                _ => providers.push(part),
            }
        }
        Ok(providers)
    }
}

impl ProviderCalls {
    /// Adds a part of the same provider: its counts, and its last calls where they are later.
    fn add(&mut self, part: ProviderCalls) {
        self.calls += part.calls;
        self.failures += part.failures;
        if part.last_success_at > self.last_success_at {
            self.last_success_at = part.last_success_at;
            self.last_model = part.last_model;
            self.last_latency_ms = part.last_latency_ms;
        }
        if part.last_failure_at > self.last_failure_at {
            self.last_failure_at = part.last_failure_at;
            self.last_failure_class = part.last_failure_class;
            self.last_failure_message = part.last_failure_message;
        }
    }
}

from_row!(ProviderCalls {
    provider,
    calls,
    failures,
    last_success_at,
    last_model,
    last_latency_ms,
    last_failure_at,
    last_failure_class,
    last_failure_message
});
