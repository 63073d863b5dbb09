//! OpenRouter: chat completions in front of many vendors, with the cost of each call and reasoning
//! that must be sent back.
//!
//! Its own members are `provider` (vendors that may be chosen) and `reasoning` (thinking effort);
//! see its pages on provider routing and on reasoning tokens. Absent on purpose: fallback models,
//! which the engine handles.

use crate::config::{ChatSwitches, ProviderSettings};
use crate::providers::Adapter;
use crate::providers::api::openai;
use crate::providers::api::openai::dialect::{CacheKey, Dialect};
use crate::providers::contract::traits::{ContentKinds, Provider, ProviderError};
use crate::providers::transport::classify::Family;
use crate::providers::transport::http;
use serde_json::{Map, Value, json};

pub const ADAPTER: Adapter = Adapter {
    id: "openrouter",
    key_variable: Some("OPENROUTER_API_KEY"),
    settings: &[
        http::SETTINGS,
        http::API_SETTINGS,
        openai::SETTINGS,
        &["data_collection", "attribution_url"],
    ],
    bounds: None,
    build,
};

pub(in crate::providers) const OPENROUTER: Dialect = Dialect {
    adapter: &ADAPTER,
    family: Family::OpenRouter,
    base_url: Some("https://openrouter.ai/api/v1"),
    title: Some("Attache"),
    key_path: Some("key"),
    legacy_max_tokens: true,
    // Its page on images and PDFs.
    content: ContentKinds::images(&["image/png", "image/jpeg", "image/webp", "image/gif"]),
    cache_key: CacheKey::Silent,
    effort: |effort| ("reasoning", json!({"effort": effort})),
    routing,
};

fn build(settings: &ProviderSettings) -> Result<Box<dyn Provider>, ProviderError> {
    openai::provider(settings, &OPENROUTER)
}

fn routing(switches: &ChatSwitches) -> Map<String, Value> {
    let mut more = Map::new();
    if let Some(collection) = switches.data_collection {
        more.insert(
            "provider".to_owned(),
            json!({"data_collection": collection}),
        );
    }
    more
}
