//! Dependencies of every run: the configuration, the adapters, the clock, the
//! environment and the provider health.

use super::approvals::plan;
use super::env::RunEnv;
use super::env::live::LiveEnv;
use super::error::RunError;
use super::label::RunLabel;
use super::provider_health::ProviderHealth;
use super::provider_health::adapters::{LazyProviders, build_providers};
use super::provider_health::breakers::CircuitBreakers;
use super::tool_calls::run_facts;
use crate::clock::Clock;
use crate::config::{Config, FetchSettings, Persona, SearchSettings};
use crate::domain::{DeliverTo, ErrorClass, LoopKey, PersonaId, RunOptions, Trigger, Trust};
use crate::embeddings::{Embedder, EmbeddingWorker};
use crate::extract::{ExtractLimits, Extractor};
use crate::mcp_client::McpClients;
use crate::providers::{Provider, ProviderError};
use crate::shell::{CommandLimits, CommandSandbox};
use crate::store::{ClaimedRun, RunOptionsInForce, Store};
use crate::tools::{self, PROPOSE_PLAN, RegisteredTool, ToolRegistry};
use crate::web::{FetchLimits, SystemLookup, WebFetcher, WebSearcher};
use cap_std::fs_utf8::Dir;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Dependencies of the loop. It reads, writes and calls through these values only.
pub struct RunDeps {
    pub config: Arc<Config>,
    pub clock: Arc<dyn Clock>,
    /// Adapters by name; built once, because an adapter owns its connections.
    pub providers: BTreeMap<String, Box<dyn Provider>>,
    /// Adapters that no persona asks but a responsibility may.
    pub lazy_providers: LazyProviders,
    pub env: RunEnv,
    pub provider_health: Arc<dyn ProviderHealth>,
    /// All tools, in the order the model sees them.
    pub tools: ToolRegistry,
    /// Key of the database for the loop token in the header of our mail.
    pub loop_key: LoopKey,
    /// Wakes the outbound worker when a delivery was queued.
    pub mail_queued: Arc<Notify>,
    /// Wakes waiting calls when a call has released the unused part of its reservation.
    pub given_back: Arc<Notify>,
}

/// Dependencies of all runs of an engine, and the store that runs are claimed from.
pub struct WorkerDeps {
    pub store: Store,
    /// Maker of vectors of letters; `None`: none is configured, or it cannot be used.
    embedder: Option<Arc<Embedder>>,
    run_deps: RunDeps,
}

impl Deref for WorkerDeps {
    type Target = RunDeps;
    fn deref(&self) -> &RunDeps {
        &self.run_deps
    }
}

impl DerefMut for WorkerDeps {
    fn deref_mut(&mut self) -> &mut RunDeps {
        &mut self.run_deps
    }
}

/// Reason why the dependencies could not be built.
#[derive(Debug, thiserror::Error)]
pub enum DepsError {
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

impl WorkerDeps {
    /// Builds the adapters that the configuration and the personas name. Opens no connection.
    pub fn set_up(
        store: Store,
        config: Arc<Config>,
        mail_queued: Arc<Notify>,
    ) -> Result<Self, DepsError> {
        Self::without_providers(store, config, mail_queued)?.with_providers()
    }

    /// Builds the dependencies of another configuration of the same engine, for runs that begin from now on. Breakers, what
    /// guards agents' files and the index of knowledge are shared. Opens no connection.
    pub fn renewed(&self, config: Arc<Config>) -> Result<Self, DepsError> {
        let (store, mail_queued) = (self.store.clone(), self.mail_queued.clone());
        let mut deps = Self::without_providers(store, config, mail_queued)?;
        deps.provider_health = self.provider_health.clone();
        deps.given_back = self.given_back.clone();
        if let (RunEnv::Live(env), RunEnv::Live(before)) = (&mut deps.run_deps.env, &self.env) {
            env.share(before);
        }
        let deps = deps.with_providers()?;
        let names = deps.config.inference.providers.keys();
        for name in names.chain(self.config.inference.providers.keys()) {
            let before = self.config.provider_fingerprint(name);
            if deps.config.provider_fingerprint(name) != before {
                let block = deps.config.inference.providers.get(name);
                let base_url = block.and_then(|block| block.base_url.as_deref());
                deps.provider_health.forget(name, base_url);
            }
        }
        Ok(deps)
    }

    fn with_providers(self) -> Result<Self, DepsError> {
        let mut deps = self;
        let provider = deps.config.inference.embeddings.as_ref();
        let provider = provider.map(|of| of.provider.clone()).unwrap_or_default();
        Embedder::of(&deps.store, &deps.config).map_err(|source| DepsError::Provider {
            provider,
            source: Box::new(source),
        })?;
        for (provider, built) in build_providers(&deps.config.clone()) {
            let built = built.map_err(|source| DepsError::Provider {
                provider: provider.clone(),
                source: Box::new(source),
            })?;
            deps.providers.insert(provider, built);
        }
        deps.lazy_providers = LazyProviders::of(&deps.config, &deps.providers);
        if let (RunEnv::Live(env), Some(persona)) = (&deps.env, deps.config.personas.iter().next())
        {
            let now = deps.clock.now();
            env.prompts.note_all(&deps.config.workspace, persona, now);
        }
        Ok(deps)
    }

    /// Builds the dependencies of a process that executes tools and asks no model.
    pub fn without_providers(
        store: Store,
        config: Arc<Config>,
        mail_queued: Arc<Notify>,
    ) -> Result<Self, DepsError> {
        let path = config.workspace.display().to_string();
        let workspace = Dir::open_ambient_dir(&path, cap_std::ambient_authority());
        let workspace = workspace.map_err(|source| DepsError::Workspace { path, source })?;
        let documents = Extractor::new(config.program.clone(), ExtractLimits::default());
        let web = config.web.fetch.as_ref().map(web_fetcher);
        let search = config.web.search.as_ref().map(web_searcher);
        // An engine has tried it before; elsewhere a search goes by words without it.
        let embedder = Embedder::of(&store, &config).unwrap_or_default();
        let mut live_env = LiveEnv::new(store.clone(), workspace, documents)
            .with_vectors(embedder.clone())
            .with_web(web, search)
            .with_streams(&config.workspace)
            .with_mcp(Arc::new(McpClients::new(store.clone())));
        let commands = CommandSandbox::new(config.program.clone(), CommandLimits::default());
        live_env.set_commands(commands);
        let clock = store.clock().clone();
        let tools = tools::of_config(&config);
        let provider_health = CircuitBreakers::new(clock.clone()).keeping(&config);
        let run_deps = RunDeps {
            config,
            providers: BTreeMap::new(),
            lazy_providers: LazyProviders::default(),
            env: RunEnv::Live(Box::new(live_env)),
            provider_health: Arc::new(provider_health),
            clock,
            tools,
            loop_key: store.loop_key().clone(),
            mail_queued,
            given_back: Arc::default(),
        };
        Ok(Self {
            store,
            embedder,
            run_deps,
        })
    }

    /// Makes vectors of letters until `stop`, newest first.
    pub async fn keep_vectors(self: Arc<Self>, stop: CancellationToken) {
        if let Some(embedder) = &self.embedder {
            EmbeddingWorker::new(embedder.clone()).run(stop).await;
        }
    }

    /// Makes the vectors of letters that are missing now.
    pub async fn make_vectors(&self) {
        if let Some(embedder) = &self.embedder {
            EmbeddingWorker::new(embedder.clone()).drain().await;
        }
    }
}

impl RunDeps {
    /// Returns the persona of that id. Errors: class `Config`, when it is gone.
    pub fn persona(&self, id: &PersonaId) -> Result<&Persona, RunError> {
        self.config.personas.get(id).ok_or_else(|| RunError::Fatal {
            class: ErrorClass::Config,
            message: format!("no persona `{id}` is configured"),
        })
    }

    /// Returns the options of a run, as they were when its slot fired, its letter came or its program asked.
    pub async fn options_of(&self, run: &ClaimedRun) -> Result<RunOptionsInForce, RunError> {
        match run.trigger {
            Trigger::Chat => {
                let mut options = self.env.options_of_run(run).await?;
                // Whoever asked reads the answer where it is stored.
                options.run_options.deliver_to = DeliverTo::Store;
                Ok(options)
            }
            Trigger::Summary => {
                let model = self.config.inference.summary_model.clone();
                let (provider, model) = model.map(|of| (of.provider, of.model)).unzip();
                Ok(RunOptionsInForce {
                    run_options: RunOptions {
                        profile: run.profile.clone(),
                        provider,
                        model,
                        tools: Some(Vec::new()),
                        deliver_to: DeliverTo::Store,
                        ..RunOptions::default()
                    },
                    ..RunOptionsInForce::default()
                })
            }
            Trigger::Email | Trigger::Schedule | Trigger::Manual => {
                Ok(self.env.options_of_run(run).await?)
            }
        }
    }

    /// Returns the tools that a run with these options may use, of those that its persona, its
    /// label and the policy permit, in the order of `tools`.
    pub fn tools(
        &self,
        run: &ClaimedRun,
        persona: &Persona,
        options: &RunOptions,
        label: &RunLabel,
    ) -> Vec<Arc<RegisteredTool>> {
        let lists = [persona.tools.named(), options.tools.as_deref()];
        let granted = |tool: &&Arc<RegisteredTool>| {
            lists
                .into_iter()
                .flatten()
                .all(|names| names.iter().any(|name| name == tool.name()))
        };
        let web = &self.config.web;
        let open = |tool: &&Arc<RegisteredTool>| {
            label.closed(tool).is_none()
                && self.has_own_tool(persona, tool)
                && (web.fetch.is_some() || !tool.declaration().capabilities.web)
                && (web.search.is_some() || !tool.declaration().capabilities.web_search)
                && self.may_run_commands(persona, label, tool)
                && (!persona.skills.is_empty() || !tool.declaration().capabilities.skills)
                && self.may_ask(persona, options, label, tool)
                && may_tidy_memory(run, options, label, tool)
                && run_facts::is_offered(&self.config, run, persona, label, tool)
        };
        self.tools
            .iter()
            .filter(granted)
            .filter(open)
            .cloned()
            .collect()
    }

    /// Reports whether a tool of the owner's is for the persona; `true` for every other tool.
    fn has_own_tool(&self, persona: &Persona, tool: &RegisteredTool) -> bool {
        let config = &self.config;
        let own = config.own_tools.iter().find(|own| own.name == tool.name());
        let server = config.server_of(tool.name());
        let personas = own
            .map(|own| &own.personas)
            .or(server.map(|server| &server.personas));
        personas.is_none_or(|personas| personas.is_empty() || personas.contains(&persona.id))
    }

    /// Reports whether a run may be offered a tool that runs commands; `true` for every other tool. It is for runs of the owner
    /// and of schedules that begin with nothing of others, of personas whose file says so, where there is a sandbox.
    fn may_run_commands(&self, persona: &Persona, label: &RunLabel, tool: &RegisteredTool) -> bool {
        if !tool.declaration().capabilities.commands {
            return true;
        }
        persona.shell && label.runs_commands() && self.env.runs_commands()
    }

    /// Reports whether a run may use a tool that asks the owner; `true` for every other tool. Strangers put no questions before
    /// an owner.
    fn may_ask(
        &self,
        persona: &Persona,
        options: &RunOptions,
        label: &RunLabel,
        tool: &RegisteredTool,
    ) -> bool {
        if !tool.declaration().capabilities.owner {
            return true;
        }
        let is_wanted = tool.name() != PROPOSE_PLAN || plan::is_first(persona, options);
        is_wanted && label.sender >= Trust::Contact && !self.config.gateway.owners.is_empty()
    }
}

/// Reports whether a run may use a tool that reads the memory of all people; `true` for every other tool. It is for duties
/// that name it, and no persona can propose such a one.
fn may_tidy_memory(
    run: &ClaimedRun,
    options: &RunOptions,
    label: &RunLabel,
    tool: &RegisteredTool,
) -> bool {
    if !tool.declaration().capabilities.whole_memory {
        return true;
    }
    let is_named = options
        .tools
        .iter()
        .flatten()
        .any(|name| name == tool.name());
    let is_scheduled = matches!(run.trigger, Trigger::Schedule | Trigger::Manual);
    is_named && is_scheduled && label.sender.min(label.floor) >= Trust::Owner
}

fn web_fetcher(settings: &FetchSettings) -> WebFetcher {
    let opened = &settings.private_targets;
    WebFetcher::new(opened, Arc::new(SystemLookup), FetchLimits::default())
}

fn web_searcher(settings: &SearchSettings) -> WebSearcher {
    let key = settings.key.clone();
    WebSearcher::new(
        settings.service,
        &settings.base_url,
        key,
        Arc::new(SystemLookup),
    )
}
