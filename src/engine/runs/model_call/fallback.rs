//! Route of calls: a provider and one of its models, and the chain of fallbacks.

use crate::config::{ModelChoice, Persona};
use crate::domain::{ErrorClass, RunOptions};
use crate::providers::{LoopOwner, Phase, Provider, ProviderError, Structured};
use crate::runs::deps::RunDeps;
use crate::runs::error::RunError;
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

    pub fn loop_owner(&self) -> LoopOwner {
        self.provider.capabilities(&self.model).loop_owner
    }

    /// Returns the provider's support for answers by a schema.
    pub fn structured(&self) -> Structured {
        self.provider.capabilities(&self.model).structured
    }

    /// Returns the window of the model in tokens, input and output together, where it is known
    /// without a request.
    pub fn window_tokens(&self) -> Option<u64> {
        let own = self.provider.capabilities(&self.model).window_tokens;
        own.into_iter().chain(self.configured_window).min()
    }
}

impl Route<'_> {
    /// Reports whether the engine itself asks the model; else an agent does.
    pub fn is_model(&self) -> bool {
        self.provider.capabilities(&self.model).loop_owner == LoopOwner::Engine
    }
}

/// Remaining routes of a run, and the errors of the failed ones.
pub struct FallbackChain<'a> {
    untried: VecDeque<Route<'a>>,
    failed: Vec<FailedRoute>,
}

struct FailedRoute {
    route: String,
    error: ProviderError,
    retry_in: Option<Duration>,
}

impl<'a> FallbackChain<'a> {
    /// Returns the route of the run's options, the persona's own, or that of
    /// `configs/inference.json`, and the persona's fallbacks. Errors: class `Config`.
    pub fn of(
        deps: &'a RunDeps,
        persona: &Persona,
        options: &RunOptions,
    ) -> Result<(Route<'a>, Self), RunError> {
        Self::among(deps, (persona, options), |_| true)
    }

    /// Returns the routes of [`FallbackChain::of`] that lead to no agent: one would go on with the session of the thread.
    /// Errors: class `Config`.
    pub fn of_models(
        deps: &'a RunDeps,
        persona: &Persona,
        options: &RunOptions,
    ) -> Result<(Route<'a>, Self), RunError> {
        Self::among(deps, (persona, options), Route::is_model)
    }

    fn among(
        deps: &'a RunDeps,
        (persona, options): (&Persona, &RunOptions),
        is_usable: impl Fn(&Route<'a>) -> bool,
    ) -> Result<(Route<'a>, Self), RunError> {
        let mut routes = VecDeque::new();
        for choice in deps.config.inference.choices_under(options, persona) {
            routes.push_back(Route::to(deps, choice)?);
        }
        routes.retain(is_usable);
        let nowhere = || RunError::Fatal {
            class: ErrorClass::Config,
            message: "no provider is configured that can do this".to_owned(),
        };
        let first = routes.pop_front().ok_or_else(nowhere)?;
        Ok((
            first,
            Self {
                untried: routes,
                failed: Vec::new(),
            },
        ))
    }

    /// Returns the route that last answered an earlier attempt of the run, when the chain still has
    /// it; the others stay as fallbacks.
    pub fn go_on(&mut self, route: Route<'a>, name: &str, model: &str) -> Route<'a> {
        let is_it = |route: &Route<'_>| route.name == name && route.model == model;
        match self
            .untried
            .iter()
            .position(is_it)
            .and_then(|at| self.untried.remove(at))
        {
            Some(found) => {
                self.untried.push_front(route);
                found
            }
            None => route,
        }
    }

    pub fn has_more(&self) -> bool {
        !self.untried.is_empty()
    }

    /// Returns the route to ask after this failure at `route`: the next one; after an overflow the
    /// next one whose window may be larger.
    pub fn next(&self, route: &Route<'_>, error: &ProviderError) -> Option<&Route<'a>> {
        self.place(route, error).and_then(|at| self.untried.get(at))
    }

    fn place(&self, route: &Route<'_>, error: &ProviderError) -> Option<usize> {
        let window = error.window_tokens.or(route.window_tokens());
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

    /// Takes [`Self::next`], and records the failure of `route`.
    pub fn fail_over(
        &mut self,
        route: &Route<'a>,
        error: ProviderError,
        retry_in: Option<Duration>,
    ) -> Option<Route<'a>> {
        let next = self
            .place(route, &error)
            .and_then(|at| self.untried.remove(at));
        self.failed.push(FailedRoute {
            route: route.to_string(),
            error,
            retry_in,
        });
        next
    }

    /// Returns the run's error when `route` was the last one: the first provider's error, the
    /// others listed, and the shortest wait that any of them asked for. A content filter, a
    /// disallowed tool, the budget or an agent that has acted come before all of them.
    pub fn verdict(
        &mut self,
        route: &Route<'_>,
        error: ProviderError,
        retry_in: Option<Duration>,
    ) -> RunError {
        let is_final = matches!(
            error.class,
            ErrorClass::ContentFilter | ErrorClass::DisallowedTool | ErrorClass::Budget
        ) || error.acted;
        let last = FailedRoute {
            route: route.to_string(),
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
