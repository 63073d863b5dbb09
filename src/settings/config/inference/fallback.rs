//! `fallback` in `configs/inference.json` and `persona.json`: the models to call when a provider
//! fails.

use super::instances::is_provider;
use crate::config::values::section::*;

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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelChoice {
    pub provider: String,
    pub model: String,
}

/// Resolves the choices; a provider that does not exist is a problem.
pub fn resolve(typed: &[TypedChoice], place: &mut CheckPlace<'_, '_>) -> Vec<ModelChoice> {
    let choices = typed.iter().enumerate();
    let choices = choices.map(|(index, choice)| resolve_one(choice, &mut place.under(index)));
    choices.collect()
}

/// Resolves one choice.
pub fn resolve_one(typed: &TypedChoice, place: &mut CheckPlace<'_, '_>) -> ModelChoice {
    let provider = &typed.provider;
    is_provider(provider, "provider", place);
    let model = typed.model.as_ref().or(place.ctx.models.get(provider));
    let model = model.cloned();
    if model.is_none() {
        let hint = "write `model` beside it, or into the provider's block";
        place.refuse("provider", NO_MODEL, hint);
    }
    ModelChoice {
        provider: provider.clone(),
        model: model.unwrap_or_default(),
    }
}
