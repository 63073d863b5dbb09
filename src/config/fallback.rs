//! `fallback` in `configs/inference.json` and `persona.json`: the models to call when a provider
//! fails.

use super::check::ConfigFile;
use super::document::child;
use super::load::CheckContext;
use super::providers;
use super::settings::{Inference, ModelChoice, Persona};
use crate::domain::RunOptions;
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

/// Resolves the choices; a provider that does not exist is a problem.
pub fn resolve<T>(
    file: &ConfigFile<T>,
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

impl Inference {
    /// Models for a persona's runs: its own or the engine's default, then the fallbacks, without
    /// duplicates.
    pub fn choices_for(&self, persona: &Persona) -> Vec<ModelChoice> {
        self.choices_under(&RunOptions::default(), persona)
    }

    /// File below the workspace and JSON pointer at which a choice is configured.
    pub fn place_of(&self, persona: &Persona, choice: &ModelChoice) -> (String, String) {
        let file = |is_own| match is_own {
            true => format!("personas/{}/persona.json", persona.id),
            false => "configs/inference.json".to_owned(),
        };
        if self.choices_for(persona).first() == Some(choice) {
            return match (&persona.model, &persona.provider) {
                (Some(_), _) => (file(true), "/model".to_owned()),
                (None, Some(_)) => (file(true), "/provider".to_owned()),
                (None, None) => (file(false), "/model".to_owned()),
            };
        }
        let fallbacks = persona.fallback.as_ref().unwrap_or(&self.fallback);
        let at = fallbacks
            .iter()
            .position(|other| other == choice)
            .unwrap_or_default();
        (
            file(persona.fallback.is_some()),
            format!("/fallback/{at}/model"),
        )
    }

    /// Models for a run with these options: its own model first, then the persona's fallbacks.
    pub fn choices_under(&self, terms: &RunOptions, persona: &Persona) -> Vec<ModelChoice> {
        let said = |of_run: &Option<String>, of_persona: &Option<String>, of_sample: &String| {
            of_run
                .as_ref()
                .or(of_persona.as_ref())
                .unwrap_or(of_sample)
                .clone()
        };
        let first = ModelChoice {
            provider: said(&terms.provider, &persona.provider, &self.provider),
            model: said(&terms.model, &persona.model, &self.model),
        };
        let mut choices = vec![first];
        for choice in persona.fallback.as_ref().unwrap_or(&self.fallback) {
            if !choices.contains(choice) {
                choices.push(choice.clone());
            }
        }
        choices
    }
}
