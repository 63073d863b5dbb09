//! Any other server of chat completions, by the URL and under the name that the configuration gives
//! it: `compat:NAME`.
//!
//! LM Studio, vLLM, llama.cpp, Groq, DeepSeek, Mistral, Together and their like; each deviation of
//! a server is a switch. A server that wants a key has it in the variable that `api_key_variable`
//! names; without one, none is sent.

use crate::config::ProviderSettings;
use crate::providers::Adapter;
use crate::providers::api::openai;
use crate::providers::api::openai::dialect::{self, CacheKey, Dialect};
use crate::providers::contract::traits::{ContentKinds, Provider, ProviderError};
use crate::providers::transport::classify::Family;
use crate::providers::transport::http;

pub const ADAPTER: Adapter = Adapter {
    id: "compat",
    key_variable: None,
    settings: &[
        http::SETTINGS,
        http::API_SETTINGS,
        openai::SETTINGS,
        openai::API,
        &["images", "prompt_cache_key"],
    ],
    bounds: None,
    build,
};

pub(in crate::providers) const COMPAT: Dialect = Dialect {
    adapter: &ADAPTER,
    family: Family::OpenAi,
    base_url: None,
    title: None,
    key_path: None,
    legacy_max_tokens: false,
    // Many of these servers refuse a request with a list of parts.
    content: ContentKinds::TEXT,
    cache_key: CacheKey::Silent,
    effort: dialect::effort,
    routing: dialect::no_members,
};

fn build(settings: &ProviderSettings) -> Result<Box<dyn Provider>, ProviderError> {
    openai::provider(settings, &COMPAT)
}
