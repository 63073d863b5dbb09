//! Usage and cost of a provider call, in tokens and integer micro-dollars.

use super::run::word_enum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

word_enum!(
    /// Source of a cost; an unknown price is visible, never zero.
    CostSource {
        /// The provider reported it.
        Provider = "provider",
        /// `configs/prices.json`.
        PriceTable = "price_table",
        Unknown = "unknown",
    }
);

/// Usage of one model within a call, and its cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageLine {
    pub model: String,
    pub usage: TokenUsage,
    pub source: CostSource,
    /// Version of the price table, when the table gave the price.
    pub price_version: Option<String>,
}

/// Prices of one model in pico-dollars per token, which are micro-dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rates {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

impl Rates {
    /// Returns the cost of these tokens in micro-dollars, rounded up, so that sums are never less
    /// than the bill.
    pub fn cost_micros(self, usage: TokenUsage) -> i64 {
        let parts = [
            (usage.input_tokens, self.input),
            (usage.cache_read_tokens, self.cache_read),
            (usage.cache_write_tokens, self.cache_write),
            (usage.output_tokens, self.output),
        ];
        let picos: u128 = parts
            .iter()
            .map(|(tokens, rate)| u128::from(*tokens) * u128::from(*rate))
            .sum();
        i64::try_from(picos.div_ceil(1_000_000)).unwrap_or(i64::MAX)
    }

    /// Returns the highest price of one input token: the provider decides whether it is cached.
    pub fn dearest_input(self) -> u64 {
        self.input.max(self.cache_read).max(self.cache_write)
    }
}

/// Tokens of one call, normalised: `input` excludes cached tokens, `reasoning` is part of `output`.
///
/// The serde form is that of recorded answers (`run_turns.response_json`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct TokenUsage {
    /// Uncached input tokens.
    pub input_tokens: u64,
    /// Input tokens read from the provider's prompt cache.
    pub cache_read_tokens: u64,
    /// Input tokens written to the provider's prompt cache.
    pub cache_write_tokens: u64,
    /// Output tokens, reasoning included.
    pub output_tokens: u64,
    /// The part of `output_tokens` spent on reasoning.
    pub reasoning_tokens: u64,
    /// Cost in micro-dollars, when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<i64>,
    /// `true`: the provider reported no tokens; these are our estimates.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

impl TokenUsage {
    /// Adds the usage of two calls; saturating, because a provider may report nonsense. The cost is
    /// known if either is known.
    #[must_use]
    pub fn plus(self, other: TokenUsage) -> TokenUsage {
        TokenUsage {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            cache_read_tokens: self
                .cache_read_tokens
                .saturating_add(other.cache_read_tokens),
            cache_write_tokens: self
                .cache_write_tokens
                .saturating_add(other.cache_write_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_add(other.reasoning_tokens),
            cost_micros: match (self.cost_micros, other.cost_micros) {
                (Some(a), Some(b)) => Some(a.saturating_add(b)),
                (a, b) => a.or(b),
            },
            estimated: self.estimated || other.estimated,
        }
    }
    /// Returns all tokens of the call, cached ones included.
    pub fn total_tokens(self) -> u64 {
        self.input_tokens
            .saturating_add(self.cache_read_tokens)
            .saturating_add(self.cache_write_tokens)
            .saturating_add(self.output_tokens)
    }
}
