//! Price of a model by the price table, and the texts for a model without one.

use crate::config::Config;
use crate::domain::{Rates, Timestamp};

/// Returns the rates of a model on that day.
pub fn rates(config: &Config, provider: &str, model: &str, now: Timestamp) -> Option<Rates> {
    let day = now
        .to_utc()
        .with_timezone(&config.inference.budgets.zone)
        .date_naive();
    config.prices.find(provider, model, day)
}

pub fn no_price(provider: &str, model: &str) -> String {
    format!("nobody knows what `{model}` of `{provider}` costs, and there is a budget in dollars")
}

pub fn price_to_write(provider: &str, model: &str) -> String {
    let line =
        format!(r#"{{"provider": "{provider}", "model": "{model}", "input": …, "output": …}}"#);
    format!(
        "add `{line}` to `prices` in `configs/prices.json`, in dollars per million tokens (0 if it costs nothing)"
    )
}

pub fn what_to_write(provider: &str, model: &str) -> String {
    format!(
        "{}; if the provider says itself what a call cost, `budget.reserve_usd_per_call` in `configs/inference.json` will do",
        price_to_write(provider, model)
    )
}
