//! Where calls go: a provider and one of its models, and the chain of those to ask when it fails.

use super::desk::{self, Bench, RunError};
use super::providers::{LoopOwner, Provider, ProviderError, Structured};
use crate::config::{Config, ModelChoice, Persona};
use crate::domain::{ErrorClass, RunTerms};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

type Built = Result<Box<dyn Provider>, ProviderError>;

/// Providers of the configuration that no persona asks; each is built when a run of a responsibility asks it first.
#[derive(Default)]
pub struct Spares(BTreeMap<String, OnceLock<Built>>);

impl Spares {
    /// All that are not `in_use`.
    pub fn of(config: &Config, in_use: &BTreeMap<String, Box<dyn Provider>>) -> Self {
        let names = config.inference.providers.keys().filter(|name| !in_use.contains_key(*name));
        Self(names.map(|name| (name.clone(), OnceLock::new())).collect())
    }

    /// `None`: there is no such provider. Errors: why it cannot be built.
    fn get(&self, config: &Config, name: &str) -> Option<Result<&dyn Provider, RunError>> {
        let built = self.0.get(name)?.get_or_init(|| desk::build_provider(config, name));
        Some(built.as_ref().map(Box::as_ref).map_err(|error| RunError::Fatal {
            class: error.class,
            message: format!("provider `{name}` cannot be used: {error}"),
        }))
    }
}

/// A provider and one of its models.
#[derive(Clone)]
pub struct Route<'a> {
    /// As the configuration calls it.
    pub name: String,
    pub provider: &'a dyn Provider,
    pub model: String,
}

impl fmt::Display for Route<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.model)
    }
}

impl<'a> Route<'a> {
    /// Errors: class `Config`, when the provider has no adapter; why it cannot be built.
    fn to(desk: &'a Bench, choice: ModelChoice) -> Result<Self, RunError> {
        let ModelChoice { provider: name, model } = choice;
        let no_provider = || RunError::Fatal {
            class: ErrorClass::Config,
            message: format!("provider `{name}` is not configured"),
        };
        let provider = match desk.providers.get(&name) {
            Some(provider) => provider.as_ref(),
            None => desk.spares.get(&desk.config, &name).ok_or_else(no_provider)??,
        };
        Ok(Self { name, provider, model })
    }

    pub fn loop_owner(&self) -> LoopOwner {
        self.provider.capabilities(&self.model).loop_owner
    }

    /// How far the provider keeps an answer to a schema.
    pub fn structured(&self) -> Structured {
        self.provider.capabilities(&self.model).structured
    }

    /// Tokens of input and output together that the model takes, where that is known without asking it.
    pub fn window_tokens(&self) -> Option<u64> {
        self.provider.capabilities(&self.model).window_tokens
    }
}

/// The routes of a run that are left, and what became of the others.
pub struct Chain<'a> {
    untried: VecDeque<Route<'a>>,
    failed: Vec<Failed>,
}

struct Failed {
    route: String,
    error: ProviderError,
    retry_in: Option<Duration>,
}

impl<'a> Chain<'a> {
    /// The route of the run's terms, the persona's own, or that of `configs/inference.json`, and the persona's fallbacks.
    /// Errors: class `Config`.
    pub fn of(desk: &'a Bench, persona: &Persona, terms: &RunTerms) -> Result<(Route<'a>, Self), RunError> {
        let mut routes = VecDeque::new();
        for choice in desk.config.inference.choices_under(terms, persona) {
            routes.push_back(Route::to(desk, choice)?);
        }
        let nowhere =
            || RunError::Fatal { class: ErrorClass::Config, message: "no provider is configured".to_owned() };
        let first = routes.pop_front().ok_or_else(nowhere)?;
        Ok((first, Self { untried: routes, failed: Vec::new() }))
    }

    /// The route on which an earlier attempt of the run was answered last, when it is still one of the chain's; the
    /// others stay to fall back to.
    pub fn go_on(&mut self, route: Route<'a>, name: &str, model: &str) -> Route<'a> {
        let is_it = |route: &Route<'_>| route.name == name && route.model == model;
        match self.untried.iter().position(is_it).and_then(|at| self.untried.remove(at)) {
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

    /// Whom to ask after this failure at `route`: the next in line; after an overflow the next that may take more.
    pub fn next(&self, route: &Route<'_>, error: &ProviderError) -> Option<&Route<'a>> {
        self.place(route, error).and_then(|at| self.untried.get(at))
    }

    fn place(&self, route: &Route<'_>, error: &ProviderError) -> Option<usize> {
        let window = error.window_tokens.or(route.window_tokens());
        // A window that nobody knows may be larger: one call finds out.
        let is_larger =
            |other: &Route<'_>| other.window_tokens().is_none_or(|of| window.is_none_or(|than| of > than));
        match error.class {
            ErrorClass::ContextOverflow => self.untried.iter().position(is_larger),
            _ => (!self.untried.is_empty()).then_some(0),
        }
    }

    /// Takes [`Self::next`], and remembers what became of `route`.
    pub fn advance(
        &mut self,
        route: &Route<'a>,
        error: ProviderError,
        retry_in: Option<Duration>,
    ) -> Option<Route<'a>> {
        let next = self.place(route, &error).and_then(|at| self.untried.remove(at));
        self.failed.push(Failed { route: route.to_string(), error, retry_in });
        next
    }

    /// How the run ends when `route` was the last: with the first provider's error, the others named, and the shortest
    /// wait that any of them asked for. What somebody decided about this very run stands above them all.
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
        let last = Failed { route: route.to_string(), error, retry_in };
        let mut all = std::mem::take(&mut self.failed);
        match is_final {
            true => all.insert(0, last),
            false => all.push(last),
        }
        let waits = all.iter().filter_map(|failed| failed.retry_in).min();
        let mut all = all.into_iter();
        let source = match all.next() {
            Some(first) => first.error,
            None => ProviderError::new(ErrorClass::Config, super::providers::Phase::Config, "nobody to ask"),
        };
        let others =
            all.map(|failed| format!("; {}: {}: {}", failed.route, failed.error.class, failed.error));
        RunError::Provider {
            source: Box::new(source),
            others: others.collect(),
            retry_in: waits.filter(|_| !is_final),
        }
    }
}
