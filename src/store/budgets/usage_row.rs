//! Usage of a call as the integers of its columns.

use crate::domain::{TokenUsage, UsageLine};

/// Usage as SQLite integers.
pub struct UsageRow {
    pub input: i64,
    pub cache_read: i64,
    pub cache_write: i64,
    pub output: i64,
    pub reasoning: i64,
    pub cost: Option<i64>,
}

impl UsageRow {
    /// Returns all tokens, cached ones included.
    pub fn total(&self) -> i64 {
        self.input + self.cache_read + self.cache_write + self.output
    }

    /// Returns a row of the ledger.
    pub fn ledger_line(&self, line: &UsageLine) -> serde_json::Value {
        serde_json::json!({
            "model": line.model, "input": self.input, "cache_read": self.cache_read, "cache_write": self.cache_write,
            "output": self.output, "reasoning": self.reasoning, "estimated": u8::from(line.usage.estimated),
            "cost": self.cost, "source": line.source.as_str(), "version": line.price_version,
        })
    }
}

impl From<TokenUsage> for UsageRow {
    fn from(usage: TokenUsage) -> Self {
        // A provider may report nonsense; a trillion tokens is as good as any larger number, and
        // sums do not overflow.
        let clamp = |n: u64| i64::try_from(n.min(1_000_000_000_000)).unwrap_or(0);
        Self {
            input: clamp(usage.input_tokens),
            cache_read: clamp(usage.cache_read_tokens),
            cache_write: clamp(usage.cache_write_tokens),
            output: clamp(usage.output_tokens),
            reasoning: clamp(usage.reasoning_tokens),
            // A million dollars, likewise; a negative bill would add to the budget.
            cost: usage
                .cost_micros
                .map(|cost| cost.clamp(0, 1_000_000_000_000)),
        }
    }
}

from_row!(|row| TokenUsage {
    input_tokens,
    cache_read_tokens,
    cache_write_tokens,
    output_tokens,
    reasoning_tokens,
    cost_micros,
    // The ledger says it of each model's line.
    estimated: { false }
});
