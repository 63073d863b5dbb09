//! `configs/inference.json`: which model answers, and within which bounds.

use super::budgets::{self, TypedBudget};
use super::check::Page;
use super::fallback::{self, TypedChoice};
use super::load::Desk;
use super::providers::{self, TypedProvider};
use super::settings::Inference;
use super::span::Span;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

pub const FILE: &str = "configs/inference.json";

/// Which model answers, and within which bounds.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "configs/inference.json")]
pub struct Typed {
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    /// Name of the adapter, such as `anthropic`.
    #[schemars(required)]
    provider: Option<String>,
    /// Model name, as the provider spells it.
    #[schemars(required, length(min = 1))]
    model: Option<String>,
    /// Whom to ask, in this order, when the provider fails. Default: nobody.
    fallback: Option<Vec<TypedChoice>>,
    /// Takes a refusal to the next of them too. Default: false.
    fallback_on_refusal: Option<bool>,
    /// Longest answer of one call. Default: 4096.
    #[schemars(range(min = 1))]
    max_output_tokens: Option<u32>,
    /// Left to the provider when it is left out.
    #[schemars(range(min = 0, max = 2))]
    temperature: Option<f32>,
    /// Provider round trips of one run. Default: 8.
    #[schemars(range(min = 1, max = 1000))]
    max_tool_turns: Option<u32>,
    budget: Option<TypedBudget>,
    timeouts: Option<TypedTimeouts>,
    retry: Option<TypedRetry>,
    concurrency: Option<TypedConcurrency>,
    /// One block per provider that needs other than its defaults.
    providers: Option<BTreeMap<String, TypedProvider>>,
}

impl Typed {
    /// The blocks of providers, by name.
    pub fn provider_blocks(&self) -> impl Iterator<Item = (&String, &TypedProvider)> {
        self.providers.iter().flatten()
    }
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedTimeouts {
    /// Longest silence of a provider. Default: 90s.
    idle: Option<Span>,
    /// Longest provider call. Default: 10m.
    call: Option<Span>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedRetry {
    /// Tries of one provider call inside a run. Default: 3.
    #[schemars(range(min = 1, max = 20))]
    call_attempts_max: Option<u32>,
    /// Tries of one run before it fails for good. Default: 5.
    #[schemars(range(min = 1, max = 100))]
    run_attempts_max: Option<u32>,
    /// A wait longer than this parks the run. Default: 20s.
    inline_wait_max: Option<Span>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedConcurrency {
    /// Runs at once, over all personas. Default: 4.
    #[schemars(range(min = 1, max = 1000))]
    runs_max: Option<usize>,
    /// Runs at once of one persona. Default: 2.
    #[schemars(range(min = 1, max = 1000))]
    runs_per_persona_max: Option<usize>,
}

/// What the file means. Problems go to the desk.
pub fn settle(page: &Page<Typed>, desk: &mut Desk<'_>) -> Inference {
    let typed = &page.typed;
    let (no_times, no_retry, no_crowd) = Default::default();
    let times: &TypedTimeouts = typed.timeouts.as_ref().unwrap_or(&no_times);
    let retry: &TypedRetry = typed.retry.as_ref().unwrap_or(&no_retry);
    let crowd: &TypedConcurrency = typed.concurrency.as_ref().unwrap_or(&no_crowd);
    let provider = typed.provider.clone().unwrap_or_default();
    if page.typed.provider.is_some() && !desk.knows_provider(&provider) {
        let problem = page.blame("/provider", format!("no provider `{provider}`"));
        let problem = providers::explained(problem, &provider, desk);
        desk.report(problem);
    }
    Inference {
        provider,
        model: typed.model.clone().unwrap_or_default(),
        fallback: fallback::settle(page, typed.fallback.as_deref().unwrap_or_default(), desk),
        fallback_on_refusal: typed.fallback_on_refusal.unwrap_or(false),
        max_output_tokens: typed.max_output_tokens.unwrap_or(4096),
        temperature: typed.temperature,
        budget: budgets::settle_run(typed.max_tool_turns, typed.budget.as_ref()),
        budgets: budgets::settle(page, typed.budget.as_ref(), desk),
        idle_timeout: positive(page, "/timeouts/idle", times.idle, Duration::from_secs(90), desk),
        call_timeout: positive(page, "/timeouts/call", times.call, Duration::from_secs(600), desk),
        call_attempts_max: retry.call_attempts_max.unwrap_or(3),
        run_attempts_max: retry.run_attempts_max.unwrap_or(5),
        inline_wait_max: retry.inline_wait_max.map_or(Duration::from_secs(20), |span| span.0),
        providers: providers::settle(page, page.typed.provider_blocks(), desk),
        concurrent_runs_max: crowd.runs_max.unwrap_or(4),
        concurrent_runs_per_persona_max: crowd.runs_per_persona_max.unwrap_or(2),
    }
}

fn positive(
    page: &Page<Typed>,
    pointer: &str,
    typed: Option<Span>,
    default: Duration,
    desk: &mut Desk<'_>,
) -> Duration {
    if typed.is_some_and(|span| span.0.is_zero()) {
        desk.report(page.blame(pointer, "must be more than nothing"));
    }
    typed.map_or(default, |span| span.0)
}
