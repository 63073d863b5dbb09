//! Token usage in the lines of Claude Code. Pure.

use crate::providers::agents::agent::micros;
use crate::providers::contract::accumulate::token_count;
use crate::providers::contract::traits::{ModelUsage, TokenUsage};
use serde_json::Value;

/// Converts the counts of a message.
pub fn usage_of(usage: &Value) -> TokenUsage {
    let count = |key: &str| token_count(usage.get(key)).unwrap_or(0);
    TokenUsage {
        input_tokens: count("input_tokens"),
        cache_read_tokens: count("cache_read_input_tokens"),
        cache_write_tokens: count("cache_creation_input_tokens"),
        output_tokens: count("output_tokens"),
        ..TokenUsage::default()
    }
}

/// Converts the counts of the last line, by model.
pub fn breakdown(models: Option<&Value>) -> Vec<ModelUsage> {
    let one = |(model, usage): (&String, &Value)| {
        let count = |key: &str| token_count(usage.get(key)).unwrap_or(0);
        let usage = TokenUsage {
            input_tokens: count("inputTokens"),
            cache_read_tokens: count("cacheReadInputTokens"),
            cache_write_tokens: count("cacheCreationInputTokens"),
            output_tokens: count("outputTokens"),
            cost_micros: usage.get("costUSD").and_then(micros),
            ..TokenUsage::default()
        };
        ModelUsage {
            model: model.clone(),
            usage,
        }
    };
    models
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(one)
        .collect()
}

/// Adds all.
pub fn sum(parts: impl Iterator<Item = TokenUsage>) -> TokenUsage {
    parts.fold(TokenUsage::default(), TokenUsage::plus)
}
