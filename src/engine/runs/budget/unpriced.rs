//! Models in use without a price: problems where a bound on money is configured, else warnings.

use super::prices::{no_price, price_to_write, rates, what_to_write};
use crate::config::{self, Config, ModelChoice, Persona, Problem};
use crate::domain::{RunOptions, ThreadBudget, ThreadId, Timestamp};
use std::collections::BTreeSet;

/// Reports models in use without a price although a bound on money is configured, as problems of
/// the configuration. `reports_cost` tells by provider and model whether calls return their cost.
pub fn unpriced(
    config: &Config,
    now: Timestamp,
    reports_cost: impl Fn(&str, &str) -> bool,
) -> Vec<Problem> {
    let counts = |persona: &&Persona| counts_money(config, persona, None, now);
    let mut problems: Vec<Problem> = unpriced_vectors(config, now, no_price)
        .filter(|_| config.personas.iter().any(|persona| counts(&persona)))
        .into_iter()
        .collect();
    for persona in config.personas.iter().filter(counts) {
        let choices = config.inference.choices_for(persona);
        for choice in choices
            .iter()
            .filter(|choice| is_unpriced(config, choice, now, &reports_cost))
        {
            let (file, pointer) = config.inference.place_of(persona, choice);
            let message = no_price(&choice.provider, &choice.model);
            let problem = config.snapshot.problem_at(&file, &pointer, message);
            problems.push(problem.hint(what_to_write(&choice.provider, &choice.model)));
        }
    }
    problems
}

/// Reports models in use without a price where no bound on money needs one, as warnings, each model
/// once: `attache usage` shows `?` for them.
pub fn unpriced_uncounted(
    config: &Config,
    now: Timestamp,
    reports_cost: impl Fn(&str, &str) -> bool,
) -> Vec<Problem> {
    let mut warned = BTreeSet::new();
    let counts = |persona: &Persona| counts_money(config, persona, None, now);
    let is_counted = config.personas.iter().any(counts);
    let uncounted = |persona: &&Persona| !counts_money(config, persona, None, now);
    let of_vectors = unpriced_vectors(config, now, shows_nothing).filter(|_| !is_counted);
    let mut warnings: Vec<Problem> = of_vectors.into_iter().collect();
    for persona in config.personas.iter().filter(uncounted) {
        for choice in config.inference.choices_for(persona) {
            let ModelChoice { provider, model } = &choice;
            let is_priced =
                reports_cost(provider, model) || rates(config, provider, model, now).is_some();
            if is_priced || !warned.insert((provider.clone(), model.clone())) {
                continue;
            }
            let (file, pointer) = config.inference.place_of(persona, &choice);
            let message = shows_nothing(provider, model);
            let warning = config.snapshot.problem_at(&file, &pointer, message);
            warnings.push(warning.hint(price_to_write(provider, model)));
        }
    }
    warnings
}

fn shows_nothing(provider: &str, model: &str) -> String {
    format!(
        "nobody knows what `{model}` of `{provider}` costs: `attache usage` will show `?` for it"
    )
}

/// Reports the model that makes vectors, if it has no price. No provider reports the cost of vectors.
fn unpriced_vectors(
    config: &Config,
    now: Timestamp,
    what: fn(&str, &str) -> String,
) -> Option<Problem> {
    let of = config.inference.embeddings.as_ref()?;
    let (provider, model) = (&of.provider, &of.model);
    if rates(config, provider, model, now).is_some() {
        return None;
    }
    let place = ("configs/inference.json", "/embeddings/model");
    let problem = config
        .snapshot
        .problem_at(place.0, place.1, what(provider, model));
    Some(problem.hint(price_to_write(provider, model)))
}

/// Reports an unpriced model that a responsibility asks first; `file` is the responsibility's.
pub fn unpriced_schedule(
    config: &Config,
    now: Timestamp,
    file: &str,
    persona: &Persona,
    options: &RunOptions,
    budget_micros: Option<i64>,
    reports_cost: impl Fn(&str, &str) -> bool,
) -> Option<Problem> {
    let choice = config
        .inference
        .choices_under(options, persona)
        .into_iter()
        .next()?;
    let is_unpriced = counts_money(config, persona, budget_micros, now)
        && is_unpriced(config, &choice, now, &reports_cost);
    is_unpriced.then(|| {
        let problem = Problem::in_file(file, no_price(&choice.provider, &choice.model));
        problem.hint(what_to_write(&choice.provider, &choice.model))
    })
}

fn counts_money(
    config: &Config,
    persona: &Persona,
    budget_micros: Option<i64>,
    now: Timestamp,
) -> bool {
    let (thread, budget) = (ThreadId::new(""), ThreadBudget::default());
    config::spending(
        (&config.inference, persona),
        (&thread, budget),
        budget_micros,
        now,
    )
    .counts_money()
}

fn is_unpriced(
    config: &Config,
    choice: &ModelChoice,
    now: Timestamp,
    reports_cost: &impl Fn(&str, &str) -> bool,
) -> bool {
    let ModelChoice { provider, model } = choice;
    let has_reserve = config.inference.budgets.reserve_micros_per_call.is_some();
    let is_bounded = has_reserve && reports_cost(provider, model);
    !is_bounded && rates(config, provider, model, now).is_none()
}
