//! `fallback` in `configs/inference.json` and `persona.json`: the models to call when a provider
//! fails.

use super::instances;
use crate::config::file::{Document, child};
use crate::config::values::check_context::CheckContext;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Problem of a provider beside which no model stands, nor in its block.
pub const NO_MODEL: &str = "a provider without a model";

/// A provider and one of its models.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedChoice {
    /// Name of the provider.
    provider: String,
    /// One of its models, by the provider's name for it. Default: the `model` of its block.
    #[schemars(length(min = 1))]
    model: Option<String>,
}

/// A provider and one of its models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelChoice {
    pub provider: String,
    pub model: String,
}

/// Resolves the choices; a provider that does not exist is a problem.
pub fn resolve(
    file: &Document,
    typed: &[TypedChoice],
    ctx: &mut CheckContext<'_>,
) -> Vec<ModelChoice> {
    let choices = typed.iter().enumerate();
    let choices = choices.map(|(index, choice)| resolve_at(file, &pointer(index), choice, ctx));
    choices.collect()
}

/// Resolves `summary_model`.
pub fn resolve_one(
    file: &Document,
    typed: Option<&TypedChoice>,
    ctx: &mut CheckContext<'_>,
) -> Option<ModelChoice> {
    Some(resolve_at(file, "/summary_model/provider", typed?, ctx))
}

fn resolve_at(
    file: &Document,
    pointer: &str,
    choice: &TypedChoice,
    ctx: &mut CheckContext<'_>,
) -> ModelChoice {
    let provider = &choice.provider;
    if !ctx.knows_provider(provider) {
        let problem = file.problem_at(pointer, format!("no provider `{provider}`"));
        let problem = instances::explained(problem, provider, ctx);
        ctx.report(problem);
    }
    let model = choice.model.as_ref().or(ctx.models.get(provider)).cloned();
    if model.is_none() {
        ctx.refuse(
            file,
            pointer,
            NO_MODEL,
            "write `model` beside it, or into the provider's block",
        );
    }
    ModelChoice {
        provider: provider.clone(),
        model: model.unwrap_or_default(),
    }
}

/// JSON pointer of the provider of a choice.
pub fn pointer(index: usize) -> String {
    child(&child("/fallback", index), "provider")
}

/// JSON for `attache config show`.
pub fn show(choices: &[ModelChoice]) -> Value {
    choices.iter().map(show_one).collect()
}

/// JSON of one choice for `attache config show`.
pub fn show_one(choice: &ModelChoice) -> Value {
    json!({ "provider": choice.provider, "model": choice.model })
}
