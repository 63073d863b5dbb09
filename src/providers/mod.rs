//! Adapters to language models and agents, under the contract of `contract/traits.rs`.
//!
//! A new adapter is a file or folder of `api` or `agents` with an `ADAPTER` constant, its `mod` and
//! its place in `ADAPTERS` of that folder. `api/grok.rs` is the smallest adapter to a model.

pub mod contract;
pub mod transport;
mod script;
pub mod api;
pub mod scripted;
pub mod agents;
pub mod child;
pub mod embeddings;

use crate::config::{AgentBounds, ProviderSettings};
use crate::domain::ErrorClass;
use std::path::Path;

pub use contract::accumulate::{complete, complete_seen};
pub use contract::retry::{PriorAttempts, RetryDecision, RetryLimits, Size, retry_decision};
pub use contract::scrub::{ScrubError, scrub};
pub use contract::traits::*;

/// Adapters, by the name used in `configs/inference.json`.
pub fn adapters() -> impl Iterator<Item = &'static Adapter> {
    api::ADAPTERS
        .iter()
        .chain([&scripted::ADAPTER])
        .chain(agents::ADAPTERS)
}

/// Further usual names of key variables, by adapter: those of the vendors' own programs.
pub const KEY_ALIASES: &[(&str, &str)] = &[("gemini", "GOOGLE_API_KEY"), ("grok", "GROK_API_KEY")];

/// Description of an adapter.
pub struct Adapter {
    pub id: &'static str,
    /// Environment variable that holds its key, unless the configuration names another; `None`
    /// needs no key.
    pub key_variable: Option<&'static str>,
    /// Settings that it reads of its block, in groups; any other setting is an error of the
    /// configuration.
    pub settings: &'static [&'static [&'static str]],
    /// Tiers that an agent's program holds; `None`: it is no agent with tools of its own.
    pub bounds: Option<AgentBounds>,
    /// Reads its settings; opens no connection. Errors: phase `Config`.
    pub build: fn(&ProviderSettings) -> Result<Box<dyn Provider>, ProviderError>,
}

/// Builds an adapter. Keep the result: it owns the connection pool, so one per process and
/// provider.
pub fn build(id: &str, settings: &ProviderSettings) -> Result<Box<dyn Provider>, ProviderError> {
    match find(id) {
        Some(adapter) => (adapter.build)(settings),
        None => {
            let known: Vec<_> = adapters().map(|adapter| adapter.id).collect();
            let message = format!("no provider `{id}`; there are: {}", known.join(", "));
            Err(ProviderError::new(
                ErrorClass::Unsupported,
                Phase::Config,
                message,
            ))
        }
    }
}

/// Builds the pure part of an adapter, which encodes requests and cannot send them. It needs
/// nothing that only sending needs: no key, no script, no installed program. `program` is the
/// recorded path of an agent. Errors: as [`build`].
pub fn encoder(
    id: &str,
    settings: &ProviderSettings,
    program: &Path,
) -> Result<Box<dyn RequestEncoder>, ProviderError> {
    if find(id).is_some_and(|adapter| adapter.id == scripted::ADAPTER.id) {
        return Ok(scripted::encoder(id));
    }
    let mut settings = settings.clone();
    // No key is in a body, and adapters are not made without one.
    settings.api_key = Some("none".into());
    settings.headers.clear();
    settings.agent.environment.clear();
    settings.agent.found = Some(program.to_owned());
    Ok(build(id, &settings)?)
}

/// Returns the environment variable of an adapter's key; `None` if it needs none or does not exist.
pub fn key_variable(id: &str) -> Option<&'static str> {
    find(id).and_then(|adapter| adapter.key_variable)
}

/// Returns the adapter behind a name of the configuration.
pub fn find(id: &str) -> Option<&'static Adapter> {
    let adapter = id.split_once(':').map_or(id, |(adapter, _)| adapter);
    adapters().find(|known| known.id == adapter)
}
