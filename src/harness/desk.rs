//! What every run is worked on with: the store, the configuration, the adapters, the clock.

use super::providers::{self, Provider, ProviderError};
use super::resolvers::knowledge::KnowledgeSync;
use super::standings::Standings;
use crate::clock::Clock;
use crate::config::{Config, Persona};
use crate::domain::{ErrorClass, PersonaId};
use crate::store::{EmptyPurse, Store, StoreError};
use crate::tools::{TOOLS, Tool};
use cap_std::fs_utf8::Dir;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// One per engine; shared by all runs.
pub struct Desk {
    pub store: Store,
    pub config: Arc<Config>,
    pub clock: Arc<dyn Clock>,
    /// By name; built once, because an adapter owns its connections.
    pub providers: BTreeMap<String, Box<dyn Provider>>,
    /// How the providers behind them are, as far as this process knows.
    pub standings: Standings,
    /// The workspace as a capability.
    pub workspace: Dir,
    /// Keeps the index of knowledge files up to date.
    pub knowledge: KnowledgeSync,
    /// Hint to the outbound worker that a delivery was queued.
    pub mail_queued: Arc<Notify>,
    /// Some call gave back to the purses what it did not use.
    pub given_back: Notify,
}

/// Why a desk could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum DeskError {
    #[error("cannot open the workspace `{path}`")]
    Workspace {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error("provider `{provider}` cannot be used")]
    Provider {
        provider: String,
        #[source]
        source: Box<ProviderError>,
    },
}

impl Desk {
    /// Builds the adapters that the configuration and the personas name. Opens no connection.
    pub fn set_up(store: Store, config: Arc<Config>, mail_queued: Arc<Notify>) -> Result<Self, DeskError> {
        let mut desk = Self::without_providers(store, config, mail_queued)?;
        for (provider, built) in build_providers(&desk.config.clone()) {
            let built = built.map_err(|source| DeskError::Provider {
                provider: provider.clone(),
                source: Box::new(source),
            })?;
            desk.providers.insert(provider, built);
        }
        Ok(desk)
    }

    /// The same for a process that executes tools and asks no model.
    pub fn without_providers(
        store: Store,
        config: Arc<Config>,
        mail_queued: Arc<Notify>,
    ) -> Result<Self, DeskError> {
        let path = config.workspace.display().to_string();
        let workspace = Dir::open_ambient_dir(&path, cap_std::ambient_authority());
        let workspace = workspace.map_err(|source| DeskError::Workspace { path, source })?;
        let clock = store.clock().clone();
        let (knowledge, standings) = (KnowledgeSync::default(), Standings::default());
        let (providers, given_back) = (BTreeMap::new(), Notify::new());
        Ok(Self { store, config, clock, providers, standings, workspace, knowledge, mail_queued, given_back })
    }

    /// A persona and its folder. Errors: class `Config`, when either is gone.
    pub fn persona(&self, id: &PersonaId) -> Result<(&Persona, Dir), RunError> {
        let gone = |what: String| RunError::Fatal { class: ErrorClass::Config, message: what };
        let persona =
            self.config.personas.get(id).ok_or_else(|| gone(format!("no persona `{id}` is configured")))?;
        let folder = self.workspace.open_dir(format!("personas/{id}"));
        let folder = folder.map_err(|error| gone(format!("folder of persona `{id}`: {error}")))?;
        Ok((persona, folder))
    }

    /// The tools a persona may use, in the order of the list.
    pub fn tools(&self, persona: &Persona) -> Vec<&'static dyn Tool> {
        let granted = |tool: &&'static dyn Tool| match &persona.tools {
            None => true,
            Some(names) => names.iter().any(|name| name == tool.name()),
        };
        TOOLS.iter().copied().filter(granted).collect()
    }
}

/// Every adapter that the configuration and the personas name, or why it cannot be had. Opens no connection.
pub fn build_providers(
    config: &Config,
) -> impl Iterator<Item = (String, Result<Box<dyn Provider>, ProviderError>)> {
    let choices = config.personas.iter().flat_map(|persona| config.inference.choices_for(persona));
    let named = choices.map(|choice| choice.provider);
    let named: BTreeSet<String> = named.chain([config.inference.provider.clone()]).collect();
    named.into_iter().map(|provider| {
        let built = build_provider(config, &provider);
        (provider, built)
    })
}

/// One adapter with its settings. Opens no connection.
pub fn build_provider(config: &Config, provider: &str) -> Result<Box<dyn Provider>, ProviderError> {
    let settings = config.inference.providers.get(provider).cloned().unwrap_or_default();
    providers::build(provider, &settings)
}

/// Why a run did not come to its own end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The provider failed, and so did all that stand in for it; `retry_in` says whether a later try may help.
    #[error("{source}{others}")]
    Provider {
        #[source]
        source: Box<ProviderError>,
        /// What became of the others: `; NAME/MODEL: class: message` each.
        others: String,
        retry_in: Option<Duration>,
    },
    /// Trying again would give the same.
    #[error("{message}")]
    Fatal { class: ErrorClass, message: String },
    /// A purse cannot pay the next call.
    #[error("{0}")]
    Purse(Box<EmptyPurse>),
    #[error("the store failed")]
    Store(#[from] StoreError),
    /// Somebody asked for it.
    #[error("cancelled")]
    Cancelled,
}

impl RunError {
    pub fn class(&self) -> ErrorClass {
        match self {
            RunError::Provider { source, .. } => source.class,
            RunError::Fatal { class, .. } => *class,
            RunError::Store(_) => ErrorClass::Store,
            RunError::Purse(_) => ErrorClass::Budget,
            RunError::Cancelled => ErrorClass::Cancelled,
        }
    }
}

impl From<super::resolvers::ResolveError> for RunError {
    fn from(error: super::resolvers::ResolveError) -> Self {
        match error {
            super::resolvers::ResolveError::Store(error) => RunError::Store(error),
            other => RunError::Fatal { class: ErrorClass::Config, message: other.to_string() },
        }
    }
}
