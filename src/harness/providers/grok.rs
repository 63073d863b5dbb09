//! xAI's Grok: chat completions, with wrong keys refused as bad requests and reasoning counted apart from the answer.
//!
//! Tested against documented formats only (docs.x.ai). Absent on purpose: live search, deferred completions.

use super::Adapter;
use super::classify::Family;
use super::contract::{Provider, ProviderError};
use super::http;
use super::openai::{self, Dialect};
use crate::config::ProviderSettings;

pub const ADAPTER: Adapter = Adapter {
    id: "grok",
    key_variable: Some("XAI_API_KEY"),
    settings: &[http::SETTINGS, openai::SETTINGS],
    build,
};

const GROK: Dialect = Dialect {
    adapter: &ADAPTER,
    family: Family::Grok,
    base_url: Some("https://api.x.ai/v1"),
    title: None,
    key_path: None,
    legacy_max_tokens: false,
    effort: openai::effort,
    routing: openai::nothing,
};

fn build(settings: &ProviderSettings) -> Result<Box<dyn Provider>, ProviderError> {
    openai::provider(settings, &GROK)
}
