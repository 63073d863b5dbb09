//! `configs/inference.json`: which model answers, and within which bounds.

use super::check::Page;
use super::fallback::{self, TypedChoice};
use super::load::Desk;
use super::providers::{self, TypedProvider};
use super::settings::{Budget, Inference};
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

/// The bounds of one run, besides its turns.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedBudget {
    /// Default: 50.
    #[schemars(range(min = 1))]
    tool_calls_max: Option<u32>,
    /// Default: 10.
    #[schemars(range(min = 1))]
    tool_failures_max: Option<u32>,
    /// Input and output together, cached ones included. Default: 500000.
    #[schemars(range(min = 1))]
    tokens_max: Option<u64>,
    /// US dollars; without it there is no bound on money.
    #[schemars(range(min = 0, max = 1_000_000))]
    cost_usd_max: Option<f64>,
    /// Default: 10m.
    duration_max: Option<Span>,
    /// Tokens that the assembled context may take. Default: 60000.
    #[schemars(range(min = 1000))]
    context_tokens_max: Option<usize>,
    /// Mails that one run may send. Default: 5.
    mails_max: Option<usize>,
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
        desk.report(problem.did_you_mean(&provider, desk.provider_names().iter().map(String::as_str)));
    }
    Inference {
        provider,
        model: typed.model.clone().unwrap_or_default(),
        fallback: fallback::settle(page, typed.fallback.as_deref().unwrap_or_default(), desk),
        fallback_on_refusal: typed.fallback_on_refusal.unwrap_or(false),
        max_output_tokens: typed.max_output_tokens.unwrap_or(4096),
        temperature: typed.temperature,
        budget: settle_budget(typed),
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

fn settle_budget(typed: &Typed) -> Budget {
    let none = TypedBudget::default();
    let budget = typed.budget.as_ref().unwrap_or(&none);
    Budget {
        turns_max: typed.max_tool_turns.unwrap_or(8),
        tool_calls_max: budget.tool_calls_max.unwrap_or(50),
        tool_failures_max: budget.tool_failures_max.unwrap_or(10),
        tokens_max: budget.tokens_max.unwrap_or(500_000),
        cost_micros_max: budget.cost_usd_max.map(micros),
        duration_max: budget.duration_max.map_or(Duration::from_secs(600), |span| span.0),
        context_tokens_max: budget.context_tokens_max.unwrap_or(60_000),
        mails_max: budget.mails_max.unwrap_or(5),
    }
}

/// Whole micro-dollars. The schema keeps the sum between 0 and 10^6 dollars, so nothing is cut off.
#[expect(clippy::cast_possible_truncation, reason = "at most 10^12, see above")]
fn micros(usd: f64) -> i64 {
    (usd * 1_000_000.0).round() as i64
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
