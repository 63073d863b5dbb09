//! Token usage of a chat completion, with the vendors' own names for its parts. Pure.

use crate::providers::contract::accumulate::token_count;
use crate::providers::contract::traits::TokenUsage;
use crate::providers::transport::classify::Family;
use serde_json::Value;

/// Converts the counts. `prompt_tokens` includes the cached ones, which are counted apart here.
pub fn usage_of(usage: &Value, family: Family) -> TokenUsage {
    let count = |value: Option<&Value>| token_count(value).unwrap_or(0);
    let detail = |group: &str, name: &str| usage.get(group).and_then(|details| details.get(name));
    let prompt = count(usage.get("prompt_tokens"));
    // DeepSeek, Moonshot and Mistral have names of their own.
    let own_names = [
        "prompt_cache_hit_tokens",
        "cached_tokens",
        "num_cached_tokens",
    ];
    let own_name = || own_names.iter().find_map(|name| usage.get(name));
    let cached = count(detail("prompt_tokens_details", "cached_tokens").or_else(own_name));
    let written = count(detail("prompt_tokens_details", "cache_write_tokens"));
    let completion = count(usage.get("completion_tokens"));
    let stated = count(detail("completion_tokens_details", "reasoning_tokens"));
    // xAI counts reasoning in addition to the completion, Gemini's gateway only in the total, all
    // others within the completion; the total tells which. Mistral counts audio in addition to the
    // prompt.
    let heard = prompt.saturating_add(count(detail("prompt_tokens_details", "audio_tokens")));
    let unsaid = count(usage.get("total_tokens")).saturating_sub(heard.saturating_add(completion));
    let (reasoning, beside) = match stated {
        0 => (unsaid, unsaid),
        stated if stated == unsaid => (stated, stated),
        stated => (stated, 0),
    };
    TokenUsage {
        input_tokens: prompt.saturating_sub(cached).saturating_sub(written),
        cache_read_tokens: cached,
        cache_write_tokens: written,
        // The sum, too, must fit an SQLite integer.
        output_tokens: completion
            .saturating_add(beside)
            .min(i64::MAX.unsigned_abs()),
        reasoning_tokens: reasoning,
        cost_micros: usage
            .get("cost")
            .filter(|_| family == Family::OpenRouter)
            .and_then(micros),
        estimated: false,
    }
}

/// Converts dollars as a vendor wrote them to whole micro-dollars, rounded up: a cost is never
/// counted too low.
#[expect(
    clippy::cast_possible_truncation,
    reason = "between 0 and 10^15, see below"
)]
fn micros(dollars: &Value) -> Option<i64> {
    let dollars = dollars
        .as_f64()
        .filter(|dollars| (0.0..1e9).contains(dollars))?;
    // Vendors write at most ten digits after the point; smaller parts are the error of binary
    // fractions.
    Some((dollars * 1e6 - 1e-4).ceil().max(0.0) as i64)
}
