//! Any other server of chat completions, by the URL and under the name that the configuration gives it: `compat:NAME`.
//!
//! LM Studio, vLLM, llama.cpp, Groq, DeepSeek, Mistral, Together and their like; what each wants otherwise is a switch.
//! A server that wants a key has it in the variable that `api_key_variable` names; without one, none is sent.

use super::Adapter;
use super::classify::Family;
use super::contract::{Provider, ProviderError};
use super::http;
use super::openai::{self, Dialect};
use crate::config::ProviderSettings;

pub const ADAPTER: Adapter =
    Adapter { id: "compat", key_variable: None, settings: &[http::SETTINGS, openai::SETTINGS], build };

const COMPAT: Dialect = Dialect {
    adapter: &ADAPTER,
    family: Family::OpenAi,
    base_url: None,
    title: None,
    key_path: None,
    legacy_max_tokens: false,
    effort: openai::effort,
    routing: openai::nothing,
};

fn build(settings: &ProviderSettings) -> Result<Box<dyn Provider>, ProviderError> {
    openai::provider(settings, &COMPAT)
}
