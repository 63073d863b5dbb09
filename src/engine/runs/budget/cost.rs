//! Actual cost of a call: as the provider reports it, else by the price table.

use super::prices::rates;
use crate::domain::{CostSource, TokenUsage, UsageLine};
use crate::providers::{ProviderError, Response};
use crate::runs::deps::RunDeps;
use crate::runs::model_call::fallback::Route;
use crate::store::Billing;

/// Characters of a model's name in the ledger, whose keys it is part of: a server may call its model anything.
const MODEL_CHARS_MAX: usize = 200;

/// Reports whether a failed call may still be billed.
pub fn billing(error: &ProviderError) -> Billing {
    match error.may_be_billed() {
        true => Billing::Unknown,
        false => Billing::None,
    }
}

/// Returns the usage and cost of an answer, in total and by model: as the provider reports them,
/// else by the price table.
pub fn priced(
    deps: &RunDeps,
    route: &Route<'_>,
    response: &Response,
) -> (TokenUsage, Vec<UsageLine>) {
    let lines = lines_of(response, &route.model);
    price(deps, route, response.usage, lines)
}

/// Returns the usage and cost of a failed call that reported its usage.
pub fn priced_failure(
    deps: &RunDeps,
    route: &Route<'_>,
    used: TokenUsage,
) -> (TokenUsage, Vec<UsageLine>) {
    price(deps, route, used, vec![line(route.model.clone(), used)])
}

fn price(
    deps: &RunDeps,
    route: &Route<'_>,
    whole: TokenUsage,
    mut lines: Vec<UsageLine>,
) -> (TokenUsage, Vec<UsageLine>) {
    let config = &deps.config;
    let total = whole.cost_micros;
    let of_lines = lines
        .iter()
        .filter_map(|line| line.usage.cost_micros)
        .fold(0, i64::saturating_add);
    for (index, line) in lines.iter_mut().enumerate() {
        let now = deps.clock.now();
        let known = || {
            let asked = || rates(config, &route.name, &route.model, now);
            // The price of the requested model does not apply to another model that helped it.
            rates(config, &route.name, &line.model, now).or_else(|| asked().filter(|_| index == 0))
        };
        match (total, line.usage.cost_micros) {
            // The provider's total counts; what its parts leave of it is added to the first line.
            (Some(total), own) => {
                let rest = if index == 0 {
                    total.saturating_sub(of_lines).max(0)
                } else {
                    0
                };
                line.usage.cost_micros = Some(own.unwrap_or(0).saturating_add(rest));
                line.source = CostSource::Provider;
            }
            (None, Some(_)) => line.source = CostSource::Provider,
            (None, None) => {
                if let Some(rates) = known() {
                    line.usage.cost_micros = Some(rates.cost_micros(line.usage));
                    line.source = CostSource::PriceTable;
                    line.price_version = Some(config.prices.version.clone());
                }
            }
        }
    }
    let cost = lines
        .iter()
        .fold(TokenUsage::default(), |sum, line| sum.plus(line.usage))
        .cost_micros;
    (
        TokenUsage {
            cost_micros: cost,
            ..whole
        },
        lines,
    )
}

/// Returns one line per model, none priced yet.
fn lines_of(response: &Response, asked: &str) -> Vec<UsageLine> {
    let served = if response.model_served.is_empty() {
        asked
    } else {
        &response.model_served
    };
    let whole = [(served, response.usage)];
    let parts: Vec<(&str, TokenUsage)> = match response.breakdown.is_empty() {
        true => whole.to_vec(),
        false => response
            .breakdown
            .iter()
            .map(|part| (part.model.as_str(), part.usage))
            .collect(),
    };
    let mut lines: Vec<UsageLine> = Vec::new();
    for (model, used) in parts {
        let model: String = model.chars().take(MODEL_CHARS_MAX).collect();
        match lines.iter_mut().find(|line| line.model == model) {
            Some(line) => line.usage = line.usage.plus(used),
            None => lines.push(line(model, used)),
        }
    }
    lines
}

fn line(model: String, used: TokenUsage) -> UsageLine {
    UsageLine {
        model,
        usage: used,
        source: CostSource::Unknown,
        price_version: None,
    }
}
