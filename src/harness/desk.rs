//! What every run is worked on with: the configuration, the adapters, the clock, and whoever answers for the rest.

use super::label::RunLabel;
use super::ledger::{Circumstances, Hands, Ledger};
use super::providers::{self, Provider, ProviderError};
use super::route::Spares;
use super::standings::Standings;
use super::workshop::Workshop;
use crate::clock::Clock;
use crate::config::{Config, Persona};
use crate::domain::{ErrorClass, LoopKey, PersonaId, RunTerms, Trigger};
use crate::store::{ClaimedRun, EmptyPurse, HeldTo, Store, StoreError};
use crate::tools::{TOOLS, Tool};
use cap_std::fs_utf8::Dir;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// What the loop works with. It can do nothing by itself: what it may read, write and call is what it was given.
pub struct Bench {
    pub config: Arc<Config>,
    pub clock: Arc<dyn Clock>,
    /// By name; built once, because an adapter owns its connections.
    pub providers: BTreeMap<String, Box<dyn Provider>>,
    /// Those that no persona asks but a responsibility may.
    pub spares: Spares,
    pub ledger: Box<dyn Ledger>,
    pub hands: Box<dyn Hands>,
    pub circumstances: Box<dyn Circumstances>,
    /// Every tool there is, in the order the model sees them.
    pub tools: Vec<&'static dyn Tool>,
    /// The database's own key for the note in the header of our mail.
    pub loop_key: LoopKey,
    /// Hint to the outbound worker that a delivery was queued.
    pub mail_queued: Arc<Notify>,
    /// Some call gave back to the purses what it did not use.
    pub given_back: Notify,
}

/// One per engine, shared by all runs: the bench, and the store that runs are claimed from.
pub struct Desk {
    pub store: Store,
    bench: Bench,
}

impl Deref for Desk {
    type Target = Bench;
    fn deref(&self) -> &Bench {
        &self.bench
    }
}

impl DerefMut for Desk {
    fn deref_mut(&mut self) -> &mut Bench {
        &mut self.bench
    }
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
        desk.spares = Spares::of(&desk.config, &desk.providers);
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
        let workshop = Workshop::new(store.clone(), workspace);
        let clock = store.clock().clone();
        let bench = Bench {
            config,
            providers: BTreeMap::new(),
            spares: Spares::default(),
            ledger: Box::new(workshop.clone()),
            hands: Box::new(workshop),
            circumstances: Box::new(Standings::new(clock.clone())),
            clock,
            tools: TOOLS.to_vec(),
            loop_key: store.loop_key().clone(),
            mail_queued,
            given_back: Notify::new(),
        };
        Ok(Self { store, bench })
    }
}

impl Bench {
    /// The persona of that id. Errors: class `Config`, when it is gone.
    pub fn persona(&self, id: &PersonaId) -> Result<&Persona, RunError> {
        self.config.personas.get(id).ok_or_else(|| RunError::Fatal {
            class: ErrorClass::Config,
            message: format!("no persona `{id}` is configured"),
        })
    }

    /// What a run is held to. One that a letter or a word in a chat began has no terms of its own.
    pub async fn terms_of(&self, run: &ClaimedRun) -> Result<HeldTo, RunError> {
        match run.trigger {
            Trigger::Schedule | Trigger::Manual => Ok(self.ledger.terms_of_run(run).await?),
            Trigger::Email | Trigger::Chat => Ok(HeldTo::default()),
        }
    }

    /// The tools that a run under these terms may use, of those that its persona may and that its label leaves open, in the
    /// order of the list.
    pub fn tools(&self, persona: &Persona, terms: &RunTerms, label: RunLabel) -> Vec<&'static dyn Tool> {
        let lists = [&persona.tools, &terms.tools];
        let granted = |tool: &&'static dyn Tool| {
            lists.into_iter().flatten().all(|names| names.iter().any(|name| name == tool.name()))
        };
        let open = |tool: &&'static dyn Tool| label.closed(tool.effects()).is_none();
        self.tools.iter().copied().filter(granted).filter(open).collect()
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
    /// The machine lacks something now, such as a file descriptor; a later try may find it.
    #[error("{message}")]
    Machine { message: String },
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
            RunError::Machine { .. } => ErrorClass::Transient,
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
            passing @ super::resolvers::ResolveError::Machine { .. } => {
                RunError::Machine { message: passing.to_string() }
            }
            other => RunError::Fatal { class: ErrorClass::Config, message: other.to_string() },
        }
    }
}
