//! The models that a run may call, in order, and where each is configured.

use super::fallback::ModelChoice;
use crate::config::file::{INFERENCE_FILE, persona_file};
use crate::config::inference::Inference;
use crate::config::persona::Persona;
use crate::domain::RunOptions;

impl Inference {
    /// Models for a persona's runs: its own or the engine's default, then the fallbacks, without
    /// duplicates.
    pub fn choices_for(&self, persona: &Persona) -> Vec<ModelChoice> {
        self.choices_under(&RunOptions::default(), persona)
    }

    /// File below the workspace and JSON pointer at which a choice is configured.
    pub fn place_of(&self, persona: &Persona, choice: &ModelChoice) -> (String, String) {
        let file = |is_own| match is_own {
            true => persona_file(persona.id.as_str()),
            false => INFERENCE_FILE.to_owned(),
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
    pub fn choices_under(&self, options: &RunOptions, persona: &Persona) -> Vec<ModelChoice> {
        let levels = [
            (&options.provider, &options.model),
            (&persona.provider, &persona.model),
        ];
        let provider = levels.iter().find_map(|(provider, _)| provider.as_ref());
        // A level that names a provider alone means the model of its block.
        let block = |provider: &String| self.providers.get(provider)?.model.as_ref();
        let model = levels
            .iter()
            .find_map(|(provider, model)| model.as_ref().or(provider.as_ref().and_then(block)));
        let first = ModelChoice {
            provider: provider.unwrap_or(&self.provider).clone(),
            model: model.unwrap_or(&self.model).clone(),
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
