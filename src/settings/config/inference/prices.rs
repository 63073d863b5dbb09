//! `configs/prices.json`: prices of models. Without the file no price is known, and an unknown
//! price never counts as zero.

use crate::config::values::section::*;
use crate::domain::Rates;
use chrono::NaiveDate;

/// Prices of models.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "configs/prices.json")]
pub struct TypedPrices {
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    /// Version of the prices, recorded with every cost computed from this file; change it when you
    /// change a price.
    #[schemars(required, length(min = 1, max = 40))]
    version: Option<String>,
    /// Comment, ignored by the engine.
    #[serde(rename = "note")]
    _note: Option<String>,
    #[schemars(required)]
    prices: Option<Vec<TypedPrice>>,
}

/// Price of one model, or of all models whose names match a pattern. Prices are US dollars per
/// million tokens, with at most six decimals.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedPrice {
    /// Name of the provider, as in `configs/inference.json`; a `*` at its end matches any text. The
    /// price of `openai` is also that of `openai:NAME`, unless that one has its own.
    #[schemars(length(min = 1))]
    provider: String,
    /// Name of the model; a `*` at its end matches any text. The longest matching name has
    /// priority.
    #[schemars(length(min = 1))]
    model: String,
    /// Input tokens that were not cached.
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
    /// First day of this price, such as `2026-11-01`. Default: always. The latest price that has
    /// begun applies.
    since: Option<String>,
    /// Source of the price, ignored by the engine.
    #[serde(rename = "source")]
    _source: Option<String>,
    /// Day on which the source was read, ignored by the engine.
    #[serde(rename = "checked")]
    _checked: Option<String>,
}

/// The price table.
#[derive(Debug, Clone, Default)]
pub struct Prices {
    /// Version from the file; empty without a file.
    pub version: String,
    prices: Vec<Price>,
}

#[derive(Debug, Clone)]
struct Price {
    provider: String,
    model: String,
    /// First day of the price; `None`: always.
    since: Option<NaiveDate>,
    rates: Rates,
}

impl Prices {
    /// Rates of a provider's model on a day; `None` means unknown, not free. An instance without a
    /// price of its own has its adapter's.
    pub fn find(&self, provider: &str, model: &str, on: NaiveDate) -> Option<Rates> {
        let is_own = |price: &Price| matches(&price.provider, provider);
        let fits = |price: &&Price| {
            (is_own(price) || matches(&price.provider, adapter_of(provider)))
                && matches(&price.model, model)
                && price.since.is_none_or(|since| since <= on)
        };
        // `max_by_key` returns the last of equal elements: an entry that a user appends has
        // priority.
        let best = self.prices.iter().filter(fits).max_by_key(|price| {
            (
                is_own(price),
                specificity(&price.model),
                specificity(&price.provider),
                price.since,
            )
        });
        best.map(|price| price.rates)
    }
}

/// Order of patterns: an exact name before every pattern, a long pattern before a short one.
fn specificity(pattern: &str) -> (bool, usize) {
    (!pattern.ends_with('*'), pattern.len())
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => pattern == name,
    }
}

/// Resolves the file. Problems go to the context.
pub fn resolve(file: &ConfigFile<TypedPrices>, ctx: &mut CheckContext<'_>) -> Prices {
    let place = &mut ctx.place(file, "/prices");
    let typed = file.typed.prices.iter().flatten().enumerate();
    let prices = typed.map(|(index, typed)| one(typed, &mut place.under(index)));
    Prices {
        version: file.typed.version.clone().unwrap_or_default(),
        prices: prices.collect(),
    }
}

fn one(typed: &TypedPrice, place: &mut CheckPlace<'_, '_>) -> Price {
    for (key, pattern) in [("provider", &typed.provider), ("model", &typed.model)] {
        if pattern[..pattern.len().saturating_sub(1)].contains('*') {
            let message = format!("`{pattern}` has a `*` that is not its end");
            place.refuse(key, message, "write the beginning of the name and a `*`");
        }
    }
    let mut rate = |key: &str, dollars: f64| {
        let picos = picos(dollars);
        if picos.is_none() {
            let message = format!("`{dollars}` has more than six decimals");
            place.refuse(key, message, "prices are dollars per million tokens");
        }
        picos.unwrap_or_default()
    };
    let input = rate("input", typed.input);
    let mut or_input = |key: &str, typed: Option<f64>| typed.map_or(input, |usd| rate(key, usd));
    let rates = Rates {
        input,
        cache_read: or_input("cache_read", typed.cache_read),
        cache_write: or_input("cache_write", typed.cache_write),
        output: rate("output", typed.output),
    };
    let since = typed.since.as_deref().and_then(|typed| {
        let day = NaiveDate::parse_from_str(typed, "%Y-%m-%d").ok();
        if day.is_none() {
            let message = format!("`{typed}` is not a day");
            place.refuse("since", message, "write it as `2026-11-01`");
        }
        day
    });
    Price {
        provider: typed.provider.clone(),
        model: typed.model.clone(),
        since,
        rates,
    }
}

/// Pico-dollars per token; `None` when that is no whole number. A decimal with six digits after the
/// point survives the conversion to a binary fraction, because it is rounded to the nearest whole
/// number at once.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and 10^12 by the schema"
)]
fn picos(dollars_per_million: f64) -> Option<u64> {
    let picos = dollars_per_million * 1_000_000.0;
    ((picos - picos.round()).abs() < 1e-3).then(|| picos.round() as u64)
}

/// JSON of the prices and their version.
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
