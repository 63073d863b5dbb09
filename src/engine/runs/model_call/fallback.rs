//! Route of calls: a provider and one of its models, what is known of that model, and the chain of fallbacks.

use crate::config::{Inference, ModelChoice, Persona};
use crate::domain::{ErrorClass, RunId, RunOptions, Trigger};
use crate::providers::{Capabilities, LoopOwner, Parameter, Phase, Provider, ProviderError};
use crate::runs::agents::options::AgentState;
use crate::runs::deps::RunDeps;
use crate::runs::error::RunError;
use crate::runs::provider_health::ProviderHealth;
use crate::runs::record::call_record::ModelLimits;
use crate::store::ClaimedRun;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// A provider and one of its models.
#[derive(Clone)]
pub struct Route<'a> {
    /// Name of the provider in the configuration.
    pub name: String,
    pub provider: &'a dyn Provider,
    pub model: String,
    /// Window of its models as its block says it.
    configured_window: Option<u64>,
}

impl fmt::Display for Route<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.model)
    }
}

impl<'a> Route<'a> {
    /// Resolves a choice. Errors: class `Config`, when the provider has no adapter; the reason why
    /// it cannot be built.
    fn to(deps: &'a RunDeps, choice: ModelChoice) -> Result<Self, RunError> {
        let ModelChoice {
            provider: name,
            model,
        } = choice;
        let no_provider = || RunError::Fatal {
            class: ErrorClass::Config,
            message: format!("provider `{name}` is not configured"),
        };
        let provider = match deps.providers.get(&name) {
            Some(provider) => provider.as_ref(),
            None => deps
                .lazy_providers
                .get(&deps.config, &name)
                .ok_or_else(no_provider)??,
        };
        let block = deps.config.inference.providers.get(&name);
        let configured_window = block.and_then(|block| block.context_tokens);
        Ok(Self {
            name,
            provider,
            model,
            configured_window: configured_window.map(u64::from),
        })
    }

    pub fn capabilities(&self) -> Capabilities {
        self.provider.capabilities(&self.model)
    }

    /// Reports whether the engine itself asks the model; else an agent does.
    pub fn is_model(&self) -> bool {
        self.capabilities().loop_owner == LoopOwner::Engine
    }

    /// Returns the window of the model in tokens, input and output together, where it is known
    /// without a request.
    pub fn window_tokens(&self) -> Option<u64> {
        let own = self.capabilities().window_tokens;
        own.into_iter().chain(self.configured_window).min()
    }
}

/// Route of the next call, the routes after it, and what its model does not take.
pub struct RouteState<'a> {
    pub present: Route<'a>,
    untried: VecDeque<Route<'a>>,
    failed: Vec<FailedRoute>,
    pub agent: AgentState,
    /// What was known of the first model when the attempt began.
    pub limits: ModelLimits,
    /// Window of the present model as an error named it, in this run or before.
    pub learnt_window: Option<u64>,
    /// `true`: the next call is made even where its provider is paused.
    pub insists: bool,
    /// Raised output limit, where an answer of this route needed more than is configured.
    pub output_tokens_max: Option<u32>,
    /// Parameters that the last request left out.
    pub without: Vec<Parameter>,
    /// Parts of requests that a provider refused in this run and that other runs may send: kinds of files, which are described
    /// in words from then on, and tools until an answer without them has come.
    pub refused_here: Vec<Parameter>,
}

struct FailedRoute {
    route: String,
    error: ProviderError,
    retry_in: Option<Duration>,
}

impl<'a> RouteState<'a> {
    /// Returns the route of the run's options, the persona's own, or that of
    /// `configs/inference.json`, and the persona's fallbacks. A summary goes to no agent: one would go on with the session of
    /// the thread. Errors: class `Config`.
    pub fn of(
        deps: &'a RunDeps,
        run: &ClaimedRun,
        persona: &Persona,
        options: &RunOptions,
    ) -> Result<Self, RunError> {
        let mut untried = VecDeque::new();
        for choice in deps.config.inference.choices_under(options, persona) {
            untried.push_back(Route::to(deps, choice)?);
        }
        untried.retain(|route| run.trigger != Trigger::Summary || route.is_model());
        let nowhere = || RunError::Fatal {
            class: ErrorClass::Config,
            message: "no provider is configured that can do this".to_owned(),
        };
        let present = untried.pop_front().ok_or_else(nowhere)?;
        let limits = deps.provider_health.limits(&present.name, &present.model);
        Ok(Self {
            present,
            untried,
            failed: Vec::new(),
            agent: AgentState::default(),
            limits,
            learnt_window: limits.window_tokens,
            insists: run.is_retried,
            output_tokens_max: None,
            without: Vec::new(),
            refused_here: Vec::new(),
        })
    }

    /// Goes on with the route that last answered an earlier attempt of the run, when the chain still has
    /// it; the others stay as fallbacks.
    pub fn go_on(&mut self, name: &str, model: &str) {
        let is_it = |route: &Route<'_>| route.name == name && route.model == model;
        let at = self.untried.iter().position(is_it);
        if let Some(found) = at.and_then(|at| self.untried.remove(at)) {
            let first = std::mem::replace(&mut self.present, found);
            self.untried.push_front(first);
        }
    }

    /// Reports whether a refusal goes to a fallback.
    pub fn takes_refusals_elsewhere(&self, inference: &Inference) -> bool {
        inference.fallback_on_refusal && !self.untried.is_empty()
    }

    /// Returns the place of the route to ask after this failure: the next one; after an overflow the
    /// next one whose window may be larger.
    pub fn next(&self, error: &ProviderError) -> Option<usize> {
        let window = error.window_tokens.or(self.present.window_tokens());
        // An unknown window may be larger: one call finds out.
        let is_larger = |other: &Route<'_>| {
            other
                .window_tokens()
                .is_none_or(|of| window.is_none_or(|than| of > than))
        };
        match error.class {
            ErrorClass::ContextOverflow => self.untried.iter().position(is_larger),
            _ => (!self.untried.is_empty()).then_some(0),
        }
    }

    /// Leaves a failed provider for [`Self::next`], for the rest of the run. Reports whether there was one.
    pub fn fall_back(
        &mut self,
        run: &RunId,
        error: ProviderError,
        retry_in: Option<Duration>,
    ) -> bool {
        let next = self.next(&error).and_then(|at| self.untried.remove(at));
        if let Some(to) = &next {
            tracing::warn!(%run, from = %self.present, %to, class = %error.class, error = error.message, "falling back to another provider");
        }
        self.failed.push(FailedRoute {
            route: self.present.to_string(),
            error,
            retry_in,
        });
        let Some(next) = next else {
            return false;
        };
        self.present = next;
        self.output_tokens_max = None;
        self.learnt_window = None;
        self.refused_here.retain(|kind| *kind != Parameter::Tools);
        true
    }

    /// Returns the window of the present model in tokens, as far as it is known.
    pub fn window_tokens(&self) -> Option<u64> {
        let known = self.present.window_tokens().into_iter();
        known.chain(self.learnt_window).min()
    }

    /// Sets the parameters that the next requests leave out. A failure is judged by those of its
    /// own request, whatever other runs learn meanwhile.
    pub fn leave_out(&mut self, provider_health: &dyn ProviderHealth) {
        self.without = provider_health.without(&self.present.name, &self.present.model);
        for kind in &self.refused_here {
            if !self.without.contains(kind) {
                self.without.push(*kind);
            }
        }
    }

    /// Returns the run's error when the present route was the last one: the first provider's error, the
    /// others listed, and the shortest wait that any of them asked for. A content filter, a
    /// disallowed tool, the budget or an agent that has acted come before all of them.
    pub fn verdict(&mut self, error: ProviderError, retry_in: Option<Duration>) -> RunError {
        let is_final = matches!(
            error.class,
            ErrorClass::ContentFilter | ErrorClass::DisallowedTool | ErrorClass::Budget
        ) || error.acted;
        let last = FailedRoute {
            route: self.present.to_string(),
            error,
            retry_in,
        };
        let mut all = std::mem::take(&mut self.failed);
        match is_final {
            true => all.insert(0, last),
            false => all.push(last),
        }
        let waits = all.iter().filter_map(|failed| failed.retry_in).min();
        let mut all = all.into_iter();
        let source = match all.next() {
            Some(first) => first.error,
            None => ProviderError::new(ErrorClass::Config, Phase::Config, "nobody to ask"),
        };
        let others = all.map(|failed| {
            format!(
                "; {}: {}: {}",
                failed.route, failed.error.class, failed.error
            )
        });
        RunError::Provider {
            source: Box::new(source),
            others: others.collect(),
            retry_in: waits.filter(|_| !is_final),
        }
    }
}
