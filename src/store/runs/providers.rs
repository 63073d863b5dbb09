//! Statistics of provider calls, kept by triggers: one row for each provider, whatever the number
//! of its calls.

use crate::domain::Timestamp;
use crate::store::db::{self, Row};
use crate::store::sql::optional_timestamp;
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

pub(in crate::store) const PROVIDER_CALLS: &str = "SELECT * FROM provider_calls ORDER BY provider";

impl Store {
    /// Returns every provider that was ever called, by name.
    pub async fn provider_calls(&self) -> Result<Vec<ProviderCalls>> {
        db::query(PROVIDER_CALLS)
            .fetch_all(self.readers())
            .await?
            .iter()
            .map(provider_calls)
            .collect()
    }
}

fn provider_calls(row: &Row) -> Result<ProviderCalls> {
    Ok(ProviderCalls {
        provider: row.get("provider"),
        calls: row.get("calls"),
        failures: row.get("failures"),
        last_success_at: optional_timestamp(row, "last_success_at")?,
        last_model: row.get("last_model"),
        last_latency_ms: row.get("last_latency_ms"),
        last_failure_at: optional_timestamp(row, "last_failure_at")?,
        last_failure_class: row.get("last_failure_class"),
        last_failure_message: row.get("last_failure_message"),
    })
}
