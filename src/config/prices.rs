//! `configs/prices.json`: what models cost. Without the file no price is known, and what is not known is never zero.

use super::check::Page;
use super::document::child;
use super::load::Desk;
use crate::domain::Rates;
use chrono::NaiveDate;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

pub const FILE: &str = "configs/prices.json";

/// What models cost.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "configs/prices.json")]
pub struct Typed {
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    /// Stands beside every cost that was computed from this file; change it when you change a price.
    #[schemars(required, length(min = 1, max = 40))]
    version: Option<String>,
    /// For people.
    #[serde(rename = "note")]
    _note: Option<String>,
    #[schemars(required)]
    prices: Option<Vec<TypedPrice>>,
}

/// One model, or all whose names fit a pattern. Prices are US dollars per million tokens, with at most six decimals.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedPrice {
    /// Name of the provider, as in `configs/inference.json`; a `*` at its end stands for anything.
    #[schemars(length(min = 1))]
    provider: String,
    /// Name of the model; a `*` at its end stands for anything. The longest name that fits wins.
    #[schemars(length(min = 1))]
    model: String,
    /// Input tokens that no cache had.
    #[schemars(range(min = 0, max = 1_000_000))]
    input: f64,
    /// Output tokens, reasoning included.
    #[schemars(range(min = 0, max = 1_000_000))]
    output: f64,
    /// Input tokens from the provider's cache. Default: as `input`.
    #[schemars(range(min = 0, max = 1_000_000))]
    cache_read: Option<f64>,
    /// Input tokens written to the provider's cache. Default: as `input`.
    #[schemars(range(min = 0, max = 1_000_000))]
    cache_write: Option<f64>,
    /// First day of this price, such as `2026-11-01`. Default: always. The latest that has begun wins.
    since: Option<String>,
    /// Where the price was read, for people.
    #[serde(rename = "source")]
    _source: Option<String>,
    /// When it was read, for people.
    #[serde(rename = "checked")]
    _checked: Option<String>,
}

/// The price table.
#[derive(Debug, Clone, Default)]
pub struct Prices {
    /// As the file says; empty without a file.
    pub version: String,
    prices: Vec<Price>,
}

#[derive(Debug, Clone)]
struct Price {
    provider: String,
    model: String,
    /// `None`: always.
    since: Option<NaiveDate>,
    rates: Rates,
}

impl Prices {
    /// What a model of a provider costs on a day; `None` is unknown, which is not free.
    pub fn find(&self, provider: &str, model: &str, on: NaiveDate) -> Option<Rates> {
        let fits = |price: &&Price| {
            matches(&price.provider, provider)
                && matches(&price.model, model)
                && price.since.is_none_or(|since| since <= on)
        };
        // `max_by_key` takes the last of equals: what a user adds at the end wins.
        let best = self
            .prices
            .iter()
            .filter(fits)
            .max_by_key(|price| (specificity(&price.model), specificity(&price.provider), price.since));
        best.map(|price| price.rates)
    }
}

/// An exact name before every pattern, a long pattern before a short one.
fn specificity(pattern: &str) -> (bool, usize) {
    (!pattern.ends_with('*'), pattern.len())
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => pattern == name,
    }
}

/// What the file means. Problems go to the desk.
pub fn settle(page: &Page<Typed>, desk: &mut Desk<'_>) -> Prices {
    let typed = page.typed.prices.iter().flatten().enumerate();
    let prices = typed.map(|(index, typed)| one(page, &child("/prices", index), typed, desk)).collect();
    Prices { version: page.typed.version.clone().unwrap_or_default(), prices }
}

fn one(page: &Page<Typed>, pointer: &str, typed: &TypedPrice, desk: &mut Desk<'_>) -> Price {
    for (key, pattern) in [("provider", &typed.provider), ("model", &typed.model)] {
        if pattern[..pattern.len().saturating_sub(1)].contains('*') {
            let problem =
                page.blame(&child(pointer, key), format!("`{pattern}` has a `*` that is not its end"));
            desk.report(problem.hint("write the beginning of the name and a `*`"));
        }
    }
    let mut rate = |key: &str, dollars: f64| {
        let picos = picos(dollars);
        if picos.is_none() {
            let problem = page.blame(&child(pointer, key), format!("`{dollars}` has more than six decimals"));
            desk.report(problem.hint("prices are dollars per million tokens"));
        }
        picos.unwrap_or_default()
    };
    let input = rate("input", typed.input);
    let rates = Rates {
        input,
        output: rate("output", typed.output),
        cache_read: typed.cache_read.map_or(input, |dollars| rate("cache_read", dollars)),
        cache_write: typed.cache_write.map_or(input, |dollars| rate("cache_write", dollars)),
    };
    let since = typed.since.as_deref().map(|day| NaiveDate::parse_from_str(day, "%Y-%m-%d"));
    if let Some(Err(_)) = since {
        let typed = typed.since.as_deref().unwrap_or_default();
        let problem = page.blame(&child(pointer, "since"), format!("`{typed}` is not a day"));
        desk.report(problem.hint("write it as `2026-11-01`"));
    }
    Price {
        provider: typed.provider.clone(),
        model: typed.model.clone(),
        since: since.and_then(Result::ok),
        rates,
    }
}

/// Pico-dollars per token; `None` when that is no whole number. A decimal with six digits behind the point survives the
/// way through a binary fraction, because it is rounded to the nearest whole number at once.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and 10^12 by the schema"
)]
fn picos(dollars_per_million: f64) -> Option<u64> {
    let picos = dollars_per_million * 1_000_000.0;
    ((picos - picos.round()).abs() < 1e-3).then(|| picos.round() as u64)
}

/// How many prices of which version.
pub fn show(prices: &Prices) -> Value {
    let entries = prices.prices.iter().map(|price| {
        let usd = |picos: u64| super::budgets::dollars(i64::try_from(picos).unwrap_or(i64::MAX));
        json!({
            "provider": price.provider,
            "model": price.model,
            "input": usd(price.rates.input),
            "output": usd(price.rates.output),
            "cache_read": usd(price.rates.cache_read),
            "cache_write": usd(price.rates.cache_write),
            "since": price.since.map(|day| day.to_string()),
        })
    });
    json!({ "version": prices.version, "prices": entries.collect::<Vec<_>>() })
}
