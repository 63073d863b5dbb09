//! Adapters to language models: one file each, under the contract of `contract.rs`.
//!
//! A new adapter is one file with an `ADAPTER` constant, and two lines here: its `mod` and its place in
//! [`PROVIDERS`]. `scripted.rs` is the smallest one.

pub mod contract;
pub mod capabilities;
pub mod terms;
pub mod capture;
pub mod accumulate;
pub mod normalise;
pub mod retry;
mod guard;
mod redact;
mod scrub;
mod wait;
mod vendor_error;
mod overflow;
mod refusal;
pub mod classify;
mod sse;
pub mod decode;
mod http;
mod script;
pub mod anthropic;
pub mod openai_chunks;
mod openai_body;
pub mod openai;
mod grok;
mod openrouter;
mod compat;
mod gemini_contents;
pub mod gemini_parts;
pub mod gemini;
mod estimate;
pub mod ollama_lines;
pub mod ollama;
pub mod scripted;
pub mod lines;
pub mod mark;
pub mod places;
pub mod orphans;
pub mod process;
pub mod agent;
mod complaint;
mod transcript;
pub mod claude_lines;
pub mod claude;
pub mod opencode_parts;
mod opencode_server;
pub mod opencode;
pub mod codex_lines;
pub mod codex;
pub mod pi_lines;
pub mod pi;

use crate::config::ProviderSettings;
use crate::domain::ErrorClass;
use std::path::Path;

pub use accumulate::complete;
pub use contract::*;
pub use retry::{Patience, RetryDecision, Size, Tried, retry_decision};
pub use scrub::{ScrubError, scrub};

/// Every adapter, by the name used in `configs/inference.json`.
pub static PROVIDERS: &[Adapter] = &[
    anthropic::ADAPTER,
    openai::ADAPTER,
    grok::ADAPTER,
    openrouter::ADAPTER,
    compat::ADAPTER,
    gemini::ADAPTER,
    ollama::ADAPTER,
    scripted::ADAPTER,
    claude::ADAPTER,
    opencode::ADAPTER,
    codex::ADAPTER,
    pi::ADAPTER,
];

/// What an adapter says about itself.
pub struct Adapter {
    pub id: &'static str,
    /// The environment variable that holds its key, unless the configuration names another; `None` needs no key.
    pub key_variable: Option<&'static str>,
    /// What it reads of its block, in groups; a setting that is in none of them is a mistake of the configuration.
    pub settings: &'static [&'static [&'static str]],
    /// Reads its settings; opens no connection. Errors: phase `Config`.
    pub build: fn(&ProviderSettings) -> Result<Box<dyn Provider>, ProviderError>,
}

/// Builds an adapter. Keep the result: it owns the connection pool, so one per process and provider.
pub fn build(id: &str, settings: &ProviderSettings) -> Result<Box<dyn Provider>, ProviderError> {
    match find(id) {
        Some(adapter) => (adapter.build)(settings),
        None => {
            let known: Vec<_> = PROVIDERS.iter().map(|adapter| adapter.id).collect();
            let message = format!("no provider `{id}`; there are: {}", known.join(", "));
            Err(ProviderError::new(ErrorClass::Unsupported, Phase::Config, message))
        }
    }
}

/// The pure part of an adapter: it writes requests and cannot send them. It is built without what only sending needs: a
/// key, a script, a program that is there. `program` is where an agent's was. Errors: as [`build`].
pub fn wire(id: &str, settings: &ProviderSettings, program: &Path) -> Result<Box<dyn Wire>, ProviderError> {
    if id == scripted::ADAPTER.id {
        return Ok(scripted::wire());
    }
    let mut settings = settings.clone();
    // No key is in a body, and adapters are not made without one.
    settings.api_key = Some("none".into());
    settings.agent.environment.clear();
    settings.agent.found = Some(program.to_owned());
    Ok(build(id, &settings)?)
}

/// The environment variable that holds the key of an adapter; `None` if it needs none or does not exist.
pub fn key_variable(id: &str) -> Option<&'static str> {
    find(id).and_then(|adapter| adapter.key_variable)
}

/// The adapter behind a name of the configuration.
pub fn find(id: &str) -> Option<&'static Adapter> {
    let adapter = id.split_once(':').map_or(id, |(adapter, _)| adapter);
    PROVIDERS.iter().find(|known| known.id == adapter)
}
