//! `fallback` in `configs/inference.json` and `persona.json`: whom to ask when a provider fails.

use super::check::Page;
use super::document::child;
use super::load::Desk;
use super::providers;
use super::settings::{Inference, ModelChoice, Persona};
use crate::domain::RunTerms;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// A provider and one of its models.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedChoice {
    /// Name of the provider.
    provider: String,
    /// One of its models, as it spells it.
    #[schemars(length(min = 1))]
    model: String,
}

/// The choices as meant; a provider that does not exist is a problem.
pub fn settle<T>(page: &Page<T>, typed: &[TypedChoice], desk: &mut Desk<'_>) -> Vec<ModelChoice> {
    for (index, choice) in typed
        .iter()
        .enumerate()
        .filter(|(_, choice)| !desk.knows_provider(&choice.provider))
        .collect::<Vec<_>>()
    {
        let problem = page.blame(&pointer(index), format!("no provider `{}`", choice.provider));
        let problem = providers::explained(problem, &choice.provider, desk);
        desk.report(problem);
    }
    let choice =
        |typed: &TypedChoice| ModelChoice { provider: typed.provider.clone(), model: typed.model.clone() };
    typed.iter().map(choice).collect()
}

/// Where the provider of a choice stands in its file.
pub fn pointer(index: usize) -> String {
    child(&child("/fallback", index), "provider")
}

/// For `config show`.
pub fn show(choices: &[ModelChoice]) -> Value {
    let one = |choice: &ModelChoice| json!({ "provider": choice.provider, "model": choice.model });
    choices.iter().map(one).collect()
}

impl Inference {
    /// Whom a persona's runs ask: its own provider or the house's first, then the fallbacks, none twice.
    pub fn choices_for(&self, persona: &Persona) -> Vec<ModelChoice> {
        self.choices_under(&RunTerms::default(), persona)
    }

    /// Where one of them is said: a file below the workspace, and a JSON pointer.
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
        let at = fallbacks.iter().position(|other| other == choice).unwrap_or_default();
        (file(persona.fallback.is_some()), format!("/fallback/{at}/model"))
    }

    /// The same for a run that is held to these terms: its own model comes first, the persona's fallbacks stay behind it.
    pub fn choices_under(&self, terms: &RunTerms, persona: &Persona) -> Vec<ModelChoice> {
        let said = |of_run: &Option<String>, of_persona: &Option<String>, of_house: &String| {
            of_run.as_ref().or(of_persona.as_ref()).unwrap_or(of_house).clone()
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
