//! `configs/inference.json`: the model that answers, and its bounds.
//!
//! - `providers`, `agents`: settings of adapters; `chat`, `think`: dialects of chat servers
//! - `fallback`, `model_choices`: which model is asked, and which then
//! - `prices`: `configs/prices.json`; `budgets`, `spending`: bounds, and those in force for one run

pub mod agents;
pub mod budgets;
pub mod chat;
pub mod fallback;
pub mod model_choices;
pub mod prices;
pub mod providers;
pub mod spending;
pub mod think;

use super::values::check_context::CheckContext;
use crate::config::file::ConfigFile;
use crate::config::file::duration::TypedDuration;
use budgets::{Budget, Budgets, TypedBudget};
use fallback::{ModelChoice, TypedChoice};
use providers::{ProviderSettings, TypedProvider};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// The model that answers, and its bounds.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "configs/inference.json")]
pub struct TypedInference {
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    /// Name of the adapter, such as `anthropic`.
    #[schemars(required)]
    provider: Option<String>,
    /// Model, by the provider's name for it.
    #[schemars(required, length(min = 1))]
    model: Option<String>,
    /// Models to call, in this order, when the provider fails. Default: none.
    fallback: Option<Vec<TypedChoice>>,
    /// Also calls the next model when a model refuses to answer. Default: false.
    fallback_on_refusal: Option<bool>,
    /// Maximum output tokens of one call. Default: 4096.
    #[schemars(range(min = 1))]
    max_output_tokens: Option<u32>,
    /// Sampling temperature. Left out, the provider's default applies.
    #[schemars(range(min = 0, max = 2))]
    temperature: Option<f32>,
    /// Maximum provider calls of one run. Default: 8.
    #[schemars(range(min = 1, max = 1000))]
    max_tool_turns: Option<u32>,
    /// Bounds on the cost of runs, days and months.
    budget: Option<TypedBudget>,
    /// Timeouts of provider calls.
    timeouts: Option<TypedTimeouts>,
    /// Retries of provider calls and runs.
    retry: Option<TypedCallRetry>,
    /// Bounds on concurrent runs.
    concurrency: Option<TypedConcurrency>,
    /// Settings of providers that differ from their defaults, by provider name.
    providers: Option<BTreeMap<String, TypedProvider>>,
}

/// `configs/inference.json`.
#[derive(Debug, Clone)]
pub struct Inference {
    pub provider: String,
    pub model: String,
    /// Models to call, in this order, when the provider fails.
    pub fallback: Vec<ModelChoice>,
    /// `true`: the next model is also called when a model refuses to answer.
    pub fallback_on_refusal: bool,
    pub max_output_tokens: u32,
    pub temperature: Option<f32>,
    pub budget: Budget,
    /// Bounds of days and months.
    pub budgets: Budgets,
    /// Maximum time without data from a provider.
    pub idle_timeout: Duration,
    /// Maximum duration of a provider call.
    pub call_timeout: Duration,
    /// Attempts of one provider call inside a run.
    pub call_attempts_max: u32,
    /// Attempts of one run before it fails for good.
    pub run_attempts_max: u32,
    /// A retry delay longer than this parks the run.
    pub inline_wait_max: Duration,
    pub providers: BTreeMap<String, ProviderSettings>,
    /// Maximum concurrent runs of all personas.
    pub concurrent_runs_max: usize,
    /// Maximum concurrent runs of one persona.
    pub concurrent_runs_per_persona_max: usize,
}

impl TypedInference {
    /// The blocks of providers, by name.
    pub fn provider_blocks(&self) -> impl Iterator<Item = (&String, &TypedProvider)> {
        self.providers.iter().flatten()
    }
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedTimeouts {
    /// Maximum time without data from a provider. Default: 90s.
    idle: Option<TypedDuration>,
    /// Maximum duration of a provider call. Default: 10m.
    call: Option<TypedDuration>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedCallRetry {
    /// Attempts of one provider call inside a run. Default: 3.
    #[schemars(range(min = 1, max = 20))]
    call_attempts_max: Option<u32>,
    /// Attempts of one run before it fails for good. Default: 5.
    #[schemars(range(min = 1, max = 100))]
    run_attempts_max: Option<u32>,
    /// A retry delay longer than this parks the run. Default: 20s.
    inline_wait_max: Option<TypedDuration>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedConcurrency {
    /// Maximum concurrent runs of all personas. Default: 4.
    #[schemars(range(min = 1, max = 1000))]
    runs_max: Option<usize>,
    /// Maximum concurrent runs of one persona. Default: 2.
    #[schemars(range(min = 1, max = 1000))]
    runs_per_persona_max: Option<usize>,
}

/// Resolves the file. Problems go to the context.
pub fn resolve(file: &ConfigFile<TypedInference>, ctx: &mut CheckContext<'_>) -> Inference {
    let typed = &file.typed;
    let (no_times, no_retry, no_crowd) = Default::default();
    let times: &TypedTimeouts = typed.timeouts.as_ref().unwrap_or(&no_times);
    let retry: &TypedCallRetry = typed.retry.as_ref().unwrap_or(&no_retry);
    let crowd: &TypedConcurrency = typed.concurrency.as_ref().unwrap_or(&no_crowd);
    let provider = typed.provider.clone().unwrap_or_default();
    if file.typed.provider.is_some() && !ctx.knows_provider(&provider) {
        let problem = file.problem_at("/provider", format!("no provider `{provider}`"));
        let problem = providers::explained(problem, &provider, ctx);
        ctx.report(problem);
    }
    Inference {
        provider,
        model: typed.model.clone().unwrap_or_default(),
        fallback: fallback::resolve(
            &file.document,
            typed.fallback.as_deref().unwrap_or_default(),
            ctx,
        ),
        fallback_on_refusal: typed.fallback_on_refusal.unwrap_or(false),
        max_output_tokens: typed.max_output_tokens.unwrap_or(4096),
        temperature: typed.temperature,
        budget: budgets::finish_run(typed.max_tool_turns, typed.budget.as_ref()),
        budgets: budgets::resolve(&file.document, typed.budget.as_ref(), ctx),
        idle_timeout: positive(
            file,
            "/timeouts/idle",
            times.idle,
            Duration::from_secs(90),
            ctx,
        ),
        call_timeout: positive(
            file,
            "/timeouts/call",
            times.call,
            Duration::from_secs(600),
            ctx,
        ),
        call_attempts_max: retry.call_attempts_max.unwrap_or(3),
        run_attempts_max: retry.run_attempts_max.unwrap_or(5),
        inline_wait_max: retry
            .inline_wait_max
            .map_or(Duration::from_secs(20), |span| span.0),
        providers: providers::resolve(&file.document, file.typed.provider_blocks(), ctx),
        concurrent_runs_max: crowd.runs_max.unwrap_or(4),
        concurrent_runs_per_persona_max: crowd.runs_per_persona_max.unwrap_or(2),
    }
}

fn positive(
    file: &ConfigFile<TypedInference>,
    pointer: &str,
    typed: Option<TypedDuration>,
    default: Duration,
    ctx: &mut CheckContext<'_>,
) -> Duration {
    if typed.is_some_and(|span| span.0.is_zero()) {
        ctx.report(file.problem_at(pointer, "must be more than nothing"));
    }
    typed.map_or(default, |span| span.0)
}
