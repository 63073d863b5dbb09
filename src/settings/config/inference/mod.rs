//! `configs/inference.json`: the model that answers, and its bounds.
//!
//! - `providers`, `agents`: settings of adapters; `instances`: their names; `headers`: further headers
//! - `chat`, `think`: dialects of chat servers
//! - `fallback`, `model_choices`: which model is asked, and which then; `embeddings`: which makes vectors
//! - `run_settings`: settings of several levels; `settings_in_force`: those of one run
//! - `tool_timeouts`: times of calls of tools
//! - `prices`: `configs/prices.json`; `budgets`, `spending`: bounds, and those in force for one run

pub mod agents;
pub mod budgets;
pub mod chat;
pub mod embeddings;
pub mod fallback;
pub mod headers;
pub mod instances;
pub mod model_choices;
pub mod prices;
pub mod providers;
pub mod run_settings;
pub mod settings_in_force;
pub mod spending;
pub mod think;
pub mod tool_timeouts;

use crate::config::values::section::*;
use budgets::{Budget, Budgets, TypedBudget};
use embeddings::EmbeddingSettings;
use fallback::{ModelChoice, TypedChoice};
use providers::{ProviderSettings, TypedProvider};
use tool_timeouts::ToolTimeouts;

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
    /// Also calls the next model when a model refuses to answer.
    #[serde(default)]
    fallback_on_refusal: bool,
    /// Model that summarises long threads. Default: the persona's. Threads are summarised where a context profile has the
    /// step `thread-summary`.
    summary_model: Option<TypedChoice>,
    /// Model that makes vectors of letters, for the search of mail. Default: none, and nothing is sent. Configured alone it changes
    /// no search: `attache memory bench --switch-on` does, where it measures a gain.
    embeddings: Option<EmbeddingSettings>,
    /// Maximum output tokens of one call.
    #[serde(default = "default_output_tokens")]
    #[schemars(range(min = 1))]
    max_output_tokens: u32,
    /// Sampling temperature. Left out, the provider's default applies.
    #[schemars(range(min = 0, max = 2))]
    temperature: Option<f32>,
    /// Maximum provider calls of one run. Default: 8.
    #[schemars(range(min = 1, max = 1000))]
    max_tool_turns: Option<u32>,
    /// Bounds on the cost of runs, days and months.
    budget: Option<TypedBudget>,
    /// Timeouts of provider calls.
    #[serde(default)]
    timeouts: TypedTimeouts,
    /// Maximum duration of a call of a tool, by its name, instead of the tool's own: `timeout` of its `tool.json` or MCP server,
    /// 20s of `web_fetch`, 15s of `web_search`, 2m of `shell`, 1m of every other.
    #[serde(default)]
    tool_timeouts: BTreeMap<String, TypedDuration>,
    /// Retries of provider calls and runs.
    #[serde(default)]
    retry: TypedCallRetry,
    /// Bounds on concurrent runs.
    #[serde(default)]
    concurrency: TypedConcurrency,
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
    /// Model that summarises long threads; `None`: the persona's.
    pub summary_model: Option<ModelChoice>,
    /// Model that makes vectors of letters; `None`: the search goes by words alone.
    pub embeddings: Option<EmbeddingSettings>,
    pub max_output_tokens: u32,
    pub temperature: Option<f32>,
    pub budget: Budget,
    /// Bounds of days and months.
    pub budgets: Budgets,
    /// Maximum time without data from a provider.
    pub idle_timeout: Duration,
    /// Maximum duration of a provider call.
    pub call_timeout: Duration,
    /// Maximum durations of calls of tools.
    pub tool_timeouts: ToolTimeouts,
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

const fn default_output_tokens() -> u32 {
    4096
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct TypedTimeouts {
    /// Maximum time without data from a provider.
    #[serde(with = "TypedDuration")]
    idle: Duration,
    /// Maximum duration of a provider call.
    #[serde(with = "TypedDuration")]
    call: Duration,
}

impl Default for TypedTimeouts {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(90),
            call: Duration::from_secs(600),
        }
    }
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct TypedCallRetry {
    /// Attempts of one provider call inside a run.
    #[schemars(range(min = 1, max = 20))]
    call_attempts_max: u32,
    /// Attempts of one run before it fails for good.
    #[schemars(range(min = 1, max = 100))]
    run_attempts_max: u32,
    /// A retry delay longer than this parks the run.
    #[serde(with = "TypedDuration")]
    inline_wait_max: Duration,
}

impl Default for TypedCallRetry {
    fn default() -> Self {
        Self {
            call_attempts_max: 3,
            run_attempts_max: 5,
            inline_wait_max: Duration::from_secs(20),
        }
    }
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct TypedConcurrency {
    /// Maximum concurrent runs of all personas.
    #[schemars(range(min = 1, max = 1000))]
    runs_max: usize,
    /// Maximum concurrent runs of one persona.
    #[schemars(range(min = 1, max = 1000))]
    runs_per_persona_max: usize,
}

impl Default for TypedConcurrency {
    fn default() -> Self {
        Self {
            runs_max: 32,
            runs_per_persona_max: 16,
        }
    }
}

/// Resolves the file. Problems go to the context.
pub fn resolve(file: &ConfigFile<TypedInference>, ctx: &mut CheckContext<'_>) -> Inference {
    let typed = &file.typed;
    let (times, retry, crowd) = (&typed.timeouts, &typed.retry, &typed.concurrency);
    let place = &mut ctx.place(file, "");
    if let Some(provider) = &typed.provider {
        instances::is_provider(provider, "provider", place);
    }
    for (path, span) in [("timeouts/idle", times.idle), ("timeouts/call", times.call)] {
        if span.is_zero() {
            place.complain(path, "must be more than nothing");
        }
    }
    if let Some(settings) = &typed.embeddings {
        embeddings::check(settings, &mut place.under("embeddings"));
    }
    let choices = typed.fallback.as_deref().unwrap_or_default();
    let budget = typed.budget.clone().unwrap_or_default();
    Inference {
        provider: typed.provider.clone().unwrap_or_default(),
        model: typed.model.clone().unwrap_or_default(),
        fallback: fallback::resolve(choices, &mut place.under("fallback")),
        fallback_on_refusal: typed.fallback_on_refusal,
        summary_model: typed
            .summary_model
            .as_ref()
            .map(|choice| fallback::resolve_one(choice, &mut place.under("summary_model"))),
        embeddings: typed.embeddings.clone(),
        max_output_tokens: typed.max_output_tokens,
        temperature: typed.temperature,
        budget: budgets::finish_run(typed.max_tool_turns, &budget),
        budgets: budgets::resolve(&budget, &mut place.under("budget")),
        idle_timeout: times.idle,
        call_timeout: times.call,
        tool_timeouts: tool_timeouts::resolve(
            &typed.tool_timeouts,
            &mut place.under("tool_timeouts"),
        ),
        call_attempts_max: retry.call_attempts_max,
        run_attempts_max: retry.run_attempts_max,
        inline_wait_max: retry.inline_wait_max,
        providers: providers::resolve(typed.provider_blocks(), &mut place.under("providers")),
        concurrent_runs_max: crowd.runs_max,
        concurrent_runs_per_persona_max: crowd.runs_per_persona_max,
    }
}
