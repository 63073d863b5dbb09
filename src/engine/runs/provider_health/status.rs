//! Status of every provider: its users, and whether it is available now. No model call is made, and
//! no money spent.

use super::adapters;
use crate::clock::Clock;
use crate::config::{Config, Persona};
use crate::domain::{ErrorClass, PersonaId, Timestamp};
use crate::providers::{
    CallContext, Capture, LoopOwner, Provider, ProviderCheck, ProviderError, RequestEncoder, find,
};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Longest time of one check; agents' programs start slowly.
const CHECK_DURATION_MAX: Duration = Duration::from_secs(30);

/// A provider of the configuration.
pub struct Seat {
    /// Name in the configuration.
    pub name: String,
    /// Personas and defaults that ask it; empty: unused.
    pub users: Vec<User>,
    /// Environment variable of its key; `None`: it needs none.
    pub key_variable: Option<String>,
    pub has_key: bool,
    /// Adapter, or the reason why it cannot be built; no connection is opened.
    pub provider: Result<Box<dyn Provider>, ProviderError>,
    /// Personas whose tools their model would not get.
    pub without_tools: Vec<PersonaId>,
    /// Configured program of an agent.
    pub binary: Option<String>,
    base_url: Option<String>,
}

/// A user of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Role: `default`, `fallback`, `persona ID` or `fallback of persona ID`.
    pub who: String,
    pub model: String,
}

/// Result of a check.
pub struct Finding {
    /// Health of the provider. Errors: those of a call.
    pub health: Result<ProviderCheck, ProviderError>,
    /// Time from the request to its answer.
    pub latency: Duration,
    /// Models in use, where the provider has a list of its models.
    pub models: Vec<Listed>,
    /// Clock of the server, as its answer says it, with the instant here at which it was read.
    pub server_clock: Option<(Timestamp, Timestamp)>,
}

/// Presence of a model in its provider's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub model: String,
    pub is_listed: bool,
    /// Nearest name in the list, when it is near.
    pub near: Option<String>,
}

impl Seat {
    /// Returns the URL that is asked, or the program that is started.
    pub fn endpoint(&self) -> Option<String> {
        let own = self
            .provider
            .as_ref()
            .ok()
            .and_then(|provider| provider.endpoint());
        own.or_else(|| self.base_url.clone())
            .or_else(|| self.binary.clone())
    }

    /// Returns the owner of the tool loop; `None` when the adapter could not be built.
    pub fn loop_owner(&self) -> Option<LoopOwner> {
        let model = self.users.first().map_or("", |user| &user.model);
        self.provider
            .as_ref()
            .ok()
            .map(|provider| provider.capabilities(model).loop_owner)
    }
}

impl Finding {
    /// Reports whether every user of the provider would get an answer, as far as that can be known.
    pub fn is_good(&self) -> bool {
        self.health.is_ok() && self.models.iter().all(|model| model.is_listed)
    }
}

/// Returns every provider of the configuration, by name.
pub fn seats(config: &Config) -> Vec<Seat> {
    let settings = config.inference.providers.iter();
    let seat = settings.map(|(name, settings)| {
        let provider = adapters::build_provider(config, name);
        let deaf = provider
            .as_ref()
            .map(|provider| without_tools(config, name, provider.as_ref()));
        Seat {
            name: name.clone(),
            users: users(config, name),
            key_variable: settings.key_variable.clone(),
            has_key: settings.api_key.is_some(),
            without_tools: deaf
                .unwrap_or_default()
                .iter()
                .map(|persona| persona.id.clone())
                .collect(),
            provider,
            binary: settings.agent.binary.clone(),
            base_url: settings.base_url.clone(),
        }
    });
    seat.collect()
}

/// Returns personas with tools whose calls may go to this provider, although it offers none of our
/// tools to its model.
pub fn without_tools<'a>(
    config: &'a Config,
    name: &str,
    provider: &dyn RequestEncoder,
) -> Vec<&'a Persona> {
    if provider.lists_our_tools() {
        return Vec::new();
    }
    let asks = |persona: &&Persona| {
        let mut choices = config.inference.choices_for(persona).into_iter();
        persona.tools.named().is_none_or(|tools| !tools.is_empty())
            && choices.any(|c| c.provider == name)
    };
    config.personas.iter().filter(asks).collect()
}

/// Returns the users of this provider, each with its model.
pub fn users(config: &Config, provider: &str) -> Vec<User> {
    let inference = &config.inference;
    let mut users = Vec::new();
    let mut add = |who: String, of: &str, model: &str| {
        if of == provider {
            users.push(User {
                who,
                model: model.to_owned(),
            });
        }
    };
    add("default".to_owned(), &inference.provider, &inference.model);
    for choice in &inference.fallback {
        add("fallback".to_owned(), &choice.provider, &choice.model);
    }
    let differs = |persona: &&Persona| persona.provider.is_some() || persona.model.is_some();
    for persona in config.personas.iter().filter(differs) {
        if let Some(first) = inference.choices_for(persona).first() {
            add(
                format!("persona {}", persona.id),
                &first.provider,
                &first.model,
            );
        }
    }
    for persona in config.personas.iter() {
        for choice in persona.fallback.iter().flatten() {
            add(
                format!("fallback of persona {}", persona.id),
                &choice.provider,
                &choice.model,
            );
        }
    }
    users
}

/// Checks whether one provider is available now.
pub async fn check(seat: &Seat, clock: &dyn Clock) -> Finding {
    let (began, capture) = (clock.monotonic(), Arc::new(Capture::default()));
    let context = CallContext {
        cancel: CancellationToken::new(),
        deadline: CHECK_DURATION_MAX,
        idle: CHECK_DURATION_MAX,
        run_id: "check".to_owned(),
        turn_index: 0,
        model: seat
            .users
            .first()
            .map(|user| user.model.clone())
            .unwrap_or_default(),
        cache_key: None,
        now: clock.now(),
        capture: Some(capture.clone()),
    };
    let health = match &seat.provider {
        Ok(provider) => provider.check(context).await,
        Err(error) => Err(error.clone()),
    };
    let latency = clock.monotonic().saturating_sub(began);
    let date = capture.kept().date;
    let server_clock = date.and_then(|date| Timestamp::parse_http_date(&date));
    let known = health.as_ref().map_or(&[][..], |health| &health.models);
    let mut models: Vec<Listed> = Vec::new();
    for user in seat.users.iter().filter(|_| !known.is_empty()) {
        if models.iter().all(|listed| listed.model != user.model) {
            models.push(listed(&user.model, known));
        }
    }
    Finding {
        health,
        latency,
        models,
        server_clock: server_clock.map(|server| (server, clock.now())),
    }
}

fn listed(model: &str, known: &[String]) -> Listed {
    let is_listed = known.iter().any(|listed| is_named(model, listed));
    let near = known
        .iter()
        .map(|name| (strsim::jaro_winkler(model, name), name));
    let near = near
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    Listed {
        model: model.to_owned(),
        is_listed,
        near: near.filter(|_| !is_listed).map(|(_, name)| name.clone()),
    }
}

/// Reports whether a list entry names the model. Lists hold what aliases stand for (`claude-x` for
/// `claude-x-20260101`, Ollama's `llama` for `llama:latest`), and leave out suffixes (OpenRouter's
/// `model:free`).
fn is_named(model: &str, listed: &str) -> bool {
    let rest = listed.strip_prefix(model);
    let stands_for = rest.is_some_and(|rest| {
        rest.is_empty() || rest.starts_with(':') || rest.strip_prefix('-').is_some_and(is_date)
    });
    stands_for
        || model
            .split_once(':')
            .is_some_and(|(name, _)| name == listed)
}

/// Reports whether the text is a date or `latest`: `20260101`, `2026-01-01`.
fn is_date(text: &str) -> bool {
    text == "latest" || (text.len() >= 8 && text.chars().all(|c| c.is_ascii_digit() || c == '-'))
}

/// Returns advice for the operator on a failure of this provider.
pub fn advice(seat: &Seat, class: ErrorClass) -> String {
    let variable = seat.key_variable.as_deref().unwrap_or("its key");
    match class {
        ErrorClass::Auth if seat.key_variable.is_none() => {
            "log in with the program itself".to_owned()
        }
        ErrorClass::Auth => {
            format!("put a good key into {variable}, in the environment or in `.secrets`")
        }
        ErrorClass::Billing => "pay the account, or raise its limit, at the provider".to_owned(),
        ErrorClass::Permission => {
            format!("the account of {variable} may not do this: ask the provider")
        }
        ErrorClass::BinaryMissing => {
            let binary = seat.binary.as_deref().unwrap_or(adapter(&seat.name));
            format!("install `{binary}`, or name its path as `binary` in configs/inference.json")
        }
        ErrorClass::Config | ErrorClass::Protocol
            if seat.loop_owner() == Some(LoopOwner::Agent) =>
        {
            "start the program by hand and see what it says".to_owned()
        }
        ErrorClass::Config | ErrorClass::Protocol | ErrorClass::ModelNotFound => {
            "look at its `base_url`: it must be the URL of this API".to_owned()
        }
        ErrorClass::RateLimited | ErrorClass::Overloaded => "try again later".to_owned(),
        ErrorClass::Transient | ErrorClass::Timeout => {
            "see that the provider is up and that this machine reaches it".to_owned()
        }
        _ => "see what the provider says".to_owned(),
    }
}

/// Returns the adapter's own name: `compat` of `compat:groq`.
pub fn adapter(name: &str) -> &str {
    find(name).map_or(name, |adapter| adapter.id)
}
