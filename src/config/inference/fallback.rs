//! `fallback` in `configs/inference.json` and `persona.json`: the models to call when a provider
//! fails.

use super::providers;
use crate::config::file::{Document, child};
use crate::config::values::check_context::CheckContext;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// A provider and one of its models.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedChoice {
    /// Name of the provider.
    provider: String,
    /// One of its models, by the provider's name for it.
    #[schemars(length(min = 1))]
    model: String,
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
    for (index, choice) in typed
        .iter()
        .enumerate()
        .filter(|(_, choice)| !ctx.knows_provider(&choice.provider))
        .collect::<Vec<_>>()
    {
        let problem = file.problem_at(
            &pointer(index),
            format!("no provider `{}`", choice.provider),
        );
        let problem = providers::explained(problem, &choice.provider, ctx);
        ctx.report(problem);
    }
    let choice = |typed: &TypedChoice| ModelChoice {
        provider: typed.provider.clone(),
        model: typed.model.clone(),
    };
    typed.iter().map(choice).collect()
}

/// JSON pointer of the provider of a choice.
pub fn pointer(index: usize) -> String {
    child(&child("/fallback", index), "provider")
}

/// JSON for `attache config show`.
pub fn show(choices: &[ModelChoice]) -> Value {
    let one = |choice: &ModelChoice| json!({ "provider": choice.provider, "model": choice.model });
    choices.iter().map(one).collect()
}
