//! Construction of adapters from the configuration. Opens no connection.

use crate::config::Config;
use crate::providers::{self, Provider, ProviderError};
use crate::runs::error::RunError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

type Built = Result<Box<dyn Provider>, ProviderError>;

/// Providers of the configuration that no persona asks; each is built when a run of a
/// responsibility first asks it.
#[derive(Default)]
pub struct LazyProviders(BTreeMap<String, OnceLock<Built>>);

impl LazyProviders {
    /// Collects all providers that are not `in_use`.
    pub fn of(config: &Config, in_use: &BTreeMap<String, Box<dyn Provider>>) -> Self {
        let names = config
            .inference
            .providers
            .keys()
            .filter(|name| !in_use.contains_key(*name));
        Self(names.map(|name| (name.clone(), OnceLock::new())).collect())
    }

    /// Returns the provider, built on first use; `None`: it is not configured. Errors: the reason
    /// why it cannot be built.
    pub fn get(&self, config: &Config, name: &str) -> Option<Result<&dyn Provider, RunError>> {
        let built = self
            .0
            .get(name)?
            .get_or_init(|| build_provider(config, name));
        Some(
            built
                .as_ref()
                .map(Box::as_ref)
                .map_err(|error| RunError::Fatal {
                    class: error.class,
                    message: format!("provider `{name}` cannot be used: {error}"),
                }),
        )
    }
}

/// Builds every adapter that the configuration and the personas name; an error where that fails.
/// Opens no connection.
pub fn build_providers(
    config: &Config,
) -> impl Iterator<Item = (String, Result<Box<dyn Provider>, ProviderError>)> {
    let choices = config
        .personas
        .iter()
        .flat_map(|persona| config.inference.choices_for(persona));
    let named = choices.map(|choice| choice.provider);
    let named: BTreeSet<String> = named.chain([config.inference.provider.clone()]).collect();
    named.into_iter().map(|provider| {
        let built = build_provider(config, &provider);
        (provider, built)
    })
}

/// Builds one adapter with its settings. Opens no connection.
pub fn build_provider(config: &Config, provider: &str) -> Result<Box<dyn Provider>, ProviderError> {
    let settings = config
        .inference
        .providers
        .get(provider)
        .cloned()
        .unwrap_or_default();
    providers::build(provider, &settings)
}
