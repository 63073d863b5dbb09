//! xAI's Grok: chat completions or the Responses API, with wrong keys refused as bad requests; chat
//! completions count reasoning apart from the answer.
//!
//! Tested against documented formats only (docs.x.ai). Absent on purpose: live search, deferred
//! completions.

use crate::config::ProviderSettings;
use crate::providers::Adapter;
use crate::providers::api::openai;
use crate::providers::api::openai::dialect::{self, CacheKey, Dialect};
use crate::providers::contract::traits::{ContentKinds, Provider, ProviderError};
use crate::providers::transport::classify::Family;
use crate::providers::transport::http;

pub const ADAPTER: Adapter = Adapter {
    id: "grok",
    key_variable: Some("XAI_API_KEY"),
    settings: &[
        http::SETTINGS,
        http::API_SETTINGS,
        openai::SETTINGS,
        openai::API,
    ],
    bounds: None,
    build,
};

const GROK: Dialect = Dialect {
    adapter: &ADAPTER,
    family: Family::Grok,
    base_url: Some("https://api.x.ai/v1"),
    title: None,
    key_path: None,
    legacy_max_tokens: false,
    // docs.x.ai, image understanding.
    content: ContentKinds::images(&["image/png", "image/jpeg"]),
    // docs.x.ai, maximizing cache hits.
    cache_key: CacheKey::Header("x-grok-conv-id"),
    effort: dialect::effort,
    routing: dialect::no_members,
};

fn build(settings: &ProviderSettings) -> Result<Box<dyn Provider>, ProviderError> {
    openai::provider(settings, &GROK)
}
