//! OpenRouter: chat completions in front of many vendors, with the cost of each call and reasoning that must go back.
//!
//! Its own members are `provider` (who may be chosen) and `reasoning` (how hard to think); see its pages on provider
//! routing and on reasoning tokens. Absent on purpose: fallback models, which are the engine's affair.

use super::Adapter;
use super::classify::Family;
use super::contract::{Provider, ProviderError};
use super::http;
use super::openai::{self, Dialect};
use crate::config::{ChatSwitches, ProviderSettings};
use serde_json::{Map, Value, json};

pub const ADAPTER: Adapter = Adapter {
    id: "openrouter",
    key_variable: Some("OPENROUTER_API_KEY"),
    settings: &[http::SETTINGS, openai::SETTINGS, &["data_collection", "attribution_url"]],
    build,
};

const OPENROUTER: Dialect = Dialect {
    adapter: &ADAPTER,
    family: Family::OpenRouter,
    base_url: Some("https://openrouter.ai/api/v1"),
    title: Some("Attache"),
    key_path: Some("key"),
    legacy_max_tokens: true,
    effort: |effort| ("reasoning", json!({"effort": effort})),
    routing,
};

fn build(settings: &ProviderSettings) -> Result<Box<dyn Provider>, ProviderError> {
    openai::provider(settings, &OPENROUTER)
}

fn routing(switches: &ChatSwitches) -> Map<String, Value> {
    let mut more = Map::new();
    if let Some(collection) = switches.data_collection {
        more.insert("provider".to_owned(), json!({"data_collection": collection}));
    }
    more
}
