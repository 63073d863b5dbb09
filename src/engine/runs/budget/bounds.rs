//! MailBounds on what a run may spend, each with its origin.

use crate::config::{self, Budget, Persona, SettingsInForce, Spending, dollars};
use crate::domain::{Bound, RunOptions};
use crate::runs::deps::RunDeps;
use crate::store::ClaimedRun;
use serde_json::{Value, json};

/// Returns the spending bounds of a run, each with its origin.
pub fn spending(deps: &RunDeps, run: &ClaimedRun, persona: &Persona) -> Spending {
    let thread = (&run.thread, run.thread_budget);
    config::spending(
        (&deps.config.inference, persona),
        thread,
        run.budget_micros,
        deps.clock.now(),
    )
}

/// Returns the spending bounds of a run, its budget with those bounds applied, and the settings of its
/// calls to a provider.
pub fn bounds(
    deps: &RunDeps,
    run: &ClaimedRun,
    persona: &Persona,
    options: &RunOptions,
    provider: &str,
) -> (Spending, Budget, SettingsInForce) {
    let inference = &deps.config.inference;
    let settings = inference.settings_in_force((persona, options), run.trigger, provider);
    let spending = spending(deps, run, persona);
    let budget = Budget {
        tokens_max: spending.run_tokens_max.value.unsigned_abs(),
        cost_micros_max: spending.run_cost_micros_max.map(|bound| bound.value),
        ..settings.applied(&inference.budget)
    };
    (spending, budget, settings)
}

/// Returns the bounds, and the settings of the first call, in the form of the run's row.
pub fn limits_json(spending: &Spending, settings: &SettingsInForce) -> String {
    let usd =
        |bound: Bound| json!({ "usd": dollars(bound.value), "origin": bound.origin.as_str() });
    let tokens = |bound: Bound| json!({ "tokens": bound.value, "origin": bound.origin.as_str() });
    let accounts = spending
        .accounts
        .iter()
        .filter(|account| account.cost_micros_max.or(account.tokens_max).is_some());
    let accounts = accounts.map(|account| {
        let (cost, most) = (account.cost_micros_max.map(usd), account.tokens_max.map(tokens));
        json!({ "account": account.id.whose(), "span": account.id.span(), "cost_max": cost, "tokens_max": most })
    });
    let run = json!({
        "account": "run", "span": "run", "cost_max": spending.run_cost_micros_max.map(usd),
        "tokens_max": tokens(spending.run_tokens_max),
    });
    let settings = settings.listed().into_iter();
    let settings = settings.map(|(name, value, origin)| json!({ "setting": name, "value": value, "origin": origin.as_str() }));
    let all = std::iter::once(run).chain(accounts).chain(settings);
    Value::Array(all.collect()).to_string()
}
