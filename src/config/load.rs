//! Loads the configuration: reads every file, checks every file, and only then returns a
//! [`Config`].

use super::check::{self, ConfigFile};
use super::document::child;
use super::problem::{ConfigErrors, Problem};
use super::secrets::{self, Secrets};
use super::settings::{Config, Gateway, Inference, ModelChoice, OutOfService, Persona, Personas};
use super::snapshot::{ConfigSource, Place, Snapshot};
use super::{
    context, fallback, gateway, inference, persona, prices, providers, security, warnings,
};
use crate::domain::{LoopKey, PersonaId};
use secrecy::{ExposeSecret, SecretString};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

/// Variable of the secret by which several engines recognise each other's mail.
const LOOP_KEY_VARIABLE: &str = "ATTACHE_LOOP_KEY";
/// Placeholder for a secret that a process has no access to.
const STAND_IN: &str = "not-known-to-this-process";
/// Maximum number of folders read below `personas/`; more are reported as a problem.
const PERSONAS_MAX: usize = 10_000;

/// The names that files may use. Higher modules define them, so they are an argument.
#[derive(Debug, Clone, Default)]
pub struct NameCatalog {
    pub providers: Vec<&'static str>,
    /// Resolvers with their permitted numbers of arguments.
    pub resolvers: Vec<(&'static str, RangeInclusive<usize>)>,
    pub tools: Vec<String>,
    /// Providers with the variable of their key. A provider without a key is not listed.
    pub key_variables: Vec<(&'static str, &'static str)>,
    /// Providers with the keys that they read from their block in `configs/inference.json`.
    pub settings: Vec<(&'static str, Vec<&'static str>)>,
}

/// Reads and checks `configs/*.json`, `personas/*/persona.json`, `.secrets` and the environment.
///
/// A persona with a faulty file is out of service ([`Personas::out_of_service`]) and stops no other
/// persona: less trusted programs than those that write `configs/` may write its folder.
/// `workspace` must be absolute. Errors: every problem of every file, at once, when any other file
/// is faulty or no persona is left.
pub fn load(workspace: &Path, names: &NameCatalog) -> Result<Config, ConfigErrors> {
    load_with(workspace, names, &secrets::environment)
}

/// [`load`] for a process that calls no provider and therefore has no secrets: the tool server that
/// an agent starts, which sees only the agent's part of the environment. Other problems are errors
/// as in [`load`].
pub fn load_without_secrets(workspace: &Path, names: &NameCatalog) -> Result<Config, ConfigErrors> {
    // Of all secrets only the key by which engines recognise each other's mail would be used:
    // unless it is in `.secrets` or in the agent's environment, the key of the database takes its
    // place.
    let environment = |name: &str| secrets::environment(name).or_else(|| stand_in(name));
    load_with(workspace, names, &environment)
}

/// [`load`] for a process that calls one provider of its own choice: missing secrets of other
/// providers are no error. A missing key is `None`.
pub fn load_for_one(workspace: &Path, names: &NameCatalog) -> Result<Config, ConfigErrors> {
    let mut config = load_without_secrets(workspace, names)?;
    let is_stand_in = |secret: &SecretString| secret.expose_secret() == STAND_IN;
    for settings in config.inference.providers.values_mut() {
        settings.api_key.take_if(|key| is_stand_in(key));
        settings
            .agent
            .environment
            .retain(|(_, value)| !is_stand_in(value));
    }
    config.secrets.retain(|secret| !is_stand_in(secret));
    Ok(config)
}

/// [`load_snapshot`] of an imported run, to call a provider with our own keys. Base URLs, the
/// agents' programs and variable names come from the snapshot's author and are not used: our keys
/// go only to the vendors' own addresses.
///
/// Errors: every problem, including those of `.secrets` in `workspace`.
pub fn load_foreign(
    workspace: &Path,
    names: &NameCatalog,
    snapshot: &Snapshot,
) -> Result<Config, ConfigErrors> {
    let mut config = load_snapshot(workspace, names, snapshot)?;
    let mut problems = Vec::new();
    let secrets = Secrets::read(workspace, &secrets::environment, &mut problems);
    if let Some(errors) = ConfigErrors::of(problems) {
        return Err(errors);
    }
    for (name, settings) in &mut config.inference.providers {
        let mut usual = names.key_variables.iter();
        settings.key_variable = usual
            .find(|(provider, _)| provider == name)
            .map(|(_, variable)| (*variable).to_owned());
        settings.api_key = settings
            .key_variable
            .as_ref()
            .and_then(|variable| secrets.get(variable));
        settings.base_url = None;
        settings.agent.binary = None;
        settings.agent.environment.clear();
    }
    config.secrets = config
        .inference
        .providers
        .values()
        .filter_map(|settings| settings.api_key.clone())
        .collect();
    Ok(config)
}

/// Loads the configuration of a snapshot from its files alone: without secrets and signing keys.
///
/// Errors: every problem, as this version of the program finds it.
pub fn load_snapshot(
    workspace: &Path,
    names: &NameCatalog,
    snapshot: &Snapshot,
) -> Result<Config, ConfigErrors> {
    load_from(Place::Snapshot(snapshot), workspace, names, &stand_in)
}

/// Returns a placeholder for a secret that this process has no access to.
fn stand_in(name: &str) -> Option<String> {
    (name != LOOP_KEY_VARIABLE).then(|| STAND_IN.to_owned())
}

/// [`load`] with another environment, a function from variable names to values.
pub fn load_with(
    workspace: &Path,
    names: &NameCatalog,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, ConfigErrors> {
    load_from(Place::Folder(workspace), workspace, names, environment)
}

/// Reads the secrets and the problems of their file; a snapshot has none.
fn secrets_of<'e>(
    place: Place<'_>,
    workspace: &Path,
    environment: &'e dyn Fn(&str) -> Option<String>,
) -> (Secrets<'e>, Vec<Problem>) {
    let mut problems = Vec::new();
    let secrets = match place {
        Place::Folder(_) => Secrets::read(workspace, environment, &mut problems),
        Place::Snapshot(_) => Secrets::only(environment),
    };
    (secrets, problems)
}

fn load_from(
    place: Place<'_>,
    workspace: &Path,
    names: &NameCatalog,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, ConfigErrors> {
    let (secrets, problems) = secrets_of(place, workspace, environment);
    let mut ctx = CheckContext::of(place, workspace, names, (&secrets, problems));

    let gateway_file = ctx.read::<gateway::Typed>(gateway::FILE);
    let inference_file = ctx.read::<inference::Typed>(inference::FILE);
    let prices_file = ctx.read_if_there::<prices::Typed>(prices::FILE);
    let context_file = ctx.read::<context::Typed>(context::FILE);
    let security_file = ctx.read::<security::Typed>(security::FILE);
    if let Some(file) = &inference_file {
        providers::introduce(file.typed.provider_blocks(), &mut ctx);
    }
    let known_secrets = ctx.known_secrets(gateway_file.as_ref(), inference_file.as_ref());

    let gateway = gateway_file
        .as_ref()
        .map(|file| gateway::resolve(file, &mut ctx));
    let inference = inference_file
        .as_ref()
        .map(|file| inference::resolve(file, &mut ctx));
    let prices = prices_file
        .as_ref()
        .map(|file| prices::resolve(file, &mut ctx));
    let context = context_file
        .as_ref()
        .map(|file| context::resolve(file, &mut ctx));
    let security = security_file
        .as_ref()
        .map(|file| security::resolve(file, &mut ctx));
    // Without a mail domain, addresses are checked in a reserved one (RFC 2606 section 2).
    let domain = gateway.as_ref().map_or("unknown.invalid", |(gateway, _)| {
        gateway.mail_domain.as_str()
    });
    let files = ctx.read_personas(domain);

    check_addresses(
        gateway_file.as_ref(),
        gateway.as_ref().map(|(gateway, _)| gateway),
        &files,
        &mut ctx,
    );
    if let (Some(file), Some(inference)) = (&inference_file, &inference) {
        check_providers(file, inference, &files, &mut ctx);
    }
    let read = (
        &gateway_file,
        &gateway,
        &inference_file,
        &inference,
        &security_file,
        &security,
    );
    let warnings = match read {
        (
            Some(gateway_file),
            Some((gateway, _)),
            Some(inference_file),
            Some(inference),
            Some(file),
            Some(security),
        ) => warnings::all(&warnings::Seen {
            gateway: (gateway_file, gateway),
            inference: (inference_file, inference),
            security: (file, security),
            personas: &files,
            ctx: &ctx,
        }),
        _ => Vec::new(),
    };
    let (personas, out_of_service) = ctx.parted(files, domain)?;
    let personas = Personas::new(personas).map(|personas| personas.without(out_of_service, domain));
    let unsaid = |what: &str| ConfigErrors {
        problems: vec![Problem::of_file("configs", what)],
    };
    let (gateway, limits) = gateway.ok_or_else(|| unsaid("the gateway's file is missing"))?;
    Ok(Config {
        workspace: workspace.to_owned(),
        program: std::env::current_exe().unwrap_or_default(),
        gateway,
        inference: inference.ok_or_else(|| unsaid("the inference file is missing"))?,
        prices: prices.unwrap_or_default(),
        context: context.ok_or_else(|| unsaid("the context file is missing"))?,
        security: security.ok_or_else(|| unsaid("the security file is missing"))?,
        limits,
        personas: personas.map_err(|error| unsaid(&error.to_string()))?,
        warnings,
        secrets: known_secrets,
        snapshot: Arc::new(ctx.source.snapshot()),
        loop_key: secrets
            .get(LOOP_KEY_VARIABLE)
            .map(|key| LoopKey::new(key.expose_secret().as_bytes())),
    })
}

/// Data for the checks of every file, and the list of their problems.
pub struct CheckContext<'a> {
    pub workspace: &'a Path,
    pub source: ConfigSource<'a>,
    pub names: &'a NameCatalog,
    pub secrets: &'a Secrets<'a>,
    pub persona_ids: Vec<PersonaId>,
    /// Providers that only `configs/inference.json` defines: `compat:NAME`.
    pub compat: Vec<String>,
    /// Variables of the providers' keys, where the configuration names them.
    pub key_variables: BTreeMap<String, String>,
    problems: Vec<Problem>,
    /// Problems of personas, by the name of their folder below `personas/`.
    of_personas: BTreeMap<String, Vec<Problem>>,
}

impl<'a> CheckContext<'a> {
    /// A context in which only the list of personas has been read; `problems` are those of the
    /// secrets.
    fn of(
        place: Place<'a>,
        workspace: &'a Path,
        names: &'a NameCatalog,
        (secrets, mut problems): (&'a Secrets<'a>, Vec<Problem>),
    ) -> Self {
        let (source, mut of_personas) = (ConfigSource::new(place), BTreeMap::new());
        let persona_ids = list_personas(&source, &mut problems, &mut of_personas);
        let (compat, key_variables) = Default::default();
        Self {
            workspace,
            source,
            names,
            secrets,
            persona_ids,
            compat,
            key_variables,
            problems,
            of_personas,
        }
    }
}

impl CheckContext<'_> {
    pub fn report(&mut self, problem: Problem) {
        self.problems.push(problem);
    }
    /// Runs a check whose problems count for this persona alone.
    fn on_behalf_of<T>(&mut self, persona: &str, check: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.problems.len();
        let checked = check(self);
        let reported = self.problems.split_off(before);
        if !reported.is_empty() {
            self.of_personas
                .entry(persona.to_owned())
                .or_default()
                .extend(reported);
        }
        checked
    }
    /// Splits the personas into usable ones and those out of service. Errors: another problem
    /// exists, or no persona is usable.
    fn parted(
        &mut self,
        files: Vec<(ConfigFile<persona::Typed>, Persona)>,
        mail_domain: &str,
    ) -> Result<(Vec<Persona>, Vec<OutOfService>), ConfigErrors> {
        let (broken, well): (Vec<_>, Vec<_>) = files
            .into_iter()
            .map(|(_, persona)| persona)
            .partition(|persona| self.of_personas.contains_key(persona.id.as_str()));
        let mut problems = std::mem::take(&mut self.problems);
        if !problems.is_empty() || (well.is_empty() && !self.of_personas.is_empty()) {
            problems.extend(
                std::mem::take(&mut self.of_personas)
                    .into_values()
                    .flatten(),
            );
        }
        if let Some(errors) = ConfigErrors::of(problems) {
            return Err(errors);
        }
        let out = std::mem::take(&mut self.of_personas)
            .into_iter()
            .map(|(name, mut problems)| {
                problems.sort();
                problems.dedup();
                // A file that could be resolved names all its addresses; in any other file each word
                // may be one.
                let is_known = broken.iter().any(|persona| persona.id.as_str() == name);
                let text = self.source.read(&persona::file(&name)).unwrap_or_default();
                let addresses = persona::possible_addresses(&text, mail_domain);
                OutOfService {
                    name,
                    problems,
                    addresses,
                    is_known,
                }
            });
        let out = out.collect();
        Ok((well, out))
    }
    pub fn knows_provider(&self, name: &str) -> bool {
        self.provider_names().iter().any(|known| known == name)
    }
    /// Names of all providers, including those that the configuration defines.
    pub fn provider_names(&self) -> Vec<String> {
        let adapters = self
            .names
            .providers
            .iter()
            .filter(|name| **name != providers::COMPAT);
        adapters
            .map(|name| (*name).to_owned())
            .chain(self.compat.iter().cloned())
            .collect()
    }
    /// The variable that holds a provider's key.
    pub fn key_variable(&self, provider: &str) -> Option<String> {
        let usual = || {
            let mut usual = self.names.key_variables.iter();
            usual
                .find(|(name, _)| *name == provider)
                .map(|(_, variable)| (*variable).to_owned())
        };
        self.key_variables.get(provider).cloned().or_else(usual)
    }
    fn read<T: schemars::JsonSchema + serde::de::DeserializeOwned>(
        &mut self,
        file: &str,
    ) -> Option<ConfigFile<T>> {
        check::read(&self.source, file, &mut self.problems)
    }
    /// As [`CheckContext::read`], for an optional file.
    fn read_if_there<T: schemars::JsonSchema + serde::de::DeserializeOwned>(
        &mut self,
        file: &str,
    ) -> Option<ConfigFile<T>> {
        self.source.has(file).then(|| self.read(file)).flatten()
    }
    /// Values of all secrets that a file names; names in `.secrets` that no file uses are reported.
    fn known_secrets(
        &mut self,
        gateway: Option<&ConfigFile<gateway::Typed>>,
        inference: Option<&ConfigFile<inference::Typed>>,
    ) -> Vec<SecretString> {
        let password = gateway.map_or(gateway::PASSWORD_VARIABLE, |file| {
            file.typed.password_variable()
        });
        let keys = self
            .names
            .key_variables
            .iter()
            .map(|(_, variable)| *variable);
        let mailboxes = gateway
            .iter()
            .flat_map(|file| file.typed.mailbox_variables());
        let submission = gateway
            .into_iter()
            .flat_map(|file| file.typed.submission_variables());
        let blocks = inference
            .into_iter()
            .flat_map(|file| file.typed.provider_blocks());
        let named = blocks.flat_map(|(_, typed)| typed.variables());
        let keys = keys.chain(named);
        let known = keys
            .chain([password, LOOP_KEY_VARIABLE])
            .chain(mailboxes)
            .chain(submission)
            .collect::<Vec<_>>();
        self.problems.extend(self.secrets.unknown(&known));
        known
            .iter()
            .filter_map(|name| self.secrets.get(name))
            .collect()
    }
    fn read_personas(&mut self, domain: &str) -> Vec<(ConfigFile<persona::Typed>, Persona)> {
        let mut read = Vec::new();
        for id in self.persona_ids.clone() {
            read.extend(self.on_behalf_of(id.as_str(), |ctx| {
                let file = ctx.read::<persona::Typed>(&persona::file(id.as_str()))?;
                let resolved = persona::resolve(&file, &id, domain, ctx)?;
                Some((file, resolved))
            }));
        }
        read
    }
}

/// The ids of all personas: the folders below `personas/`, sorted. Plain files and dot folders are
/// no personas.
fn list_personas(
    source: &ConfigSource<'_>,
    problems: &mut Vec<Problem>,
    of_personas: &mut BTreeMap<String, Vec<Problem>>,
) -> Vec<PersonaId> {
    let mut names = match source.persona_folders() {
        Ok(names) => names,
        Err(error) => {
            problems.push(Problem::of_file(
                "personas",
                format!("cannot be read: {error}"),
            ));
            return Vec::new();
        }
    };
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    if names.len() > PERSONAS_MAX {
        problems.push(Problem::of_file(
            "personas",
            format!("holds more than {PERSONAS_MAX} folders"),
        ));
        names.truncate(PERSONAS_MAX);
    }
    let mut ids = Vec::new();
    for name in names {
        match PersonaId::parse(&name) {
            Ok(id) => ids.push(id),
            Err(error) => {
                let problem = Problem::of_file(&format!("personas/{name}"), error.to_string());
                of_personas.insert(
                    name,
                    vec![problem.hint("rename the folder, or take it out of `personas/`")],
                );
            }
        }
    }
    ids
}

/// Checks that no two personas share an address, that a DKIM key covers the domain of each, and
/// that no owner has a persona's address: the engine would answer itself. A shared address is a
/// problem of both personas, because the faulty file cannot be determined.
fn check_addresses(
    file: Option<&ConfigFile<gateway::Typed>>,
    gateway: Option<&Gateway>,
    personas: &[(ConfigFile<persona::Typed>, Persona)],
    ctx: &mut CheckContext<'_>,
) {
    let mut taken: BTreeMap<String, &PersonaId> = BTreeMap::new();
    for (file, persona) in personas {
        let own = std::iter::once(("/address".to_owned(), &persona.address));
        let aliases = persona
            .aliases
            .iter()
            .enumerate()
            .map(|(i, a)| (child("/aliases", i), a));
        for (pointer, address) in own.chain(aliases) {
            if let Some(other) = taken.insert(address.key(), &persona.id) {
                let message = format!("`{address}` belongs to persona `{other}` already");
                let problem = file
                    .problem_at(&pointer, message)
                    .hint("give one of the two another address");
                ctx.on_behalf_of(other.as_str(), |ctx| ctx.report(problem.clone()));
                ctx.on_behalf_of(persona.id.as_str(), |ctx| ctx.report(problem));
            }
        }
    }
    let Some((file, gateway)) = file.zip(gateway) else {
        return;
    };
    let unsigned = |persona: &&Persona| !gateway.signers.covers(persona.address.domain());
    let all = personas.iter().map(|(_, persona)| persona);
    for persona in all.filter(|_| !gateway.signers.is_empty()).filter(unsigned) {
        let message = format!("no key signs the mail of `{}`", persona.address);
        let problem = file
            .problem_at("/outbound/dkim", message)
            .hint("add one of its domain");
        ctx.on_behalf_of(persona.id.as_str(), |ctx| ctx.report(problem));
    }
    for owner in &gateway.owners {
        let Some(persona) = taken.get(&owner.key()) else {
            continue;
        };
        let pointer = file.typed.owner_pointer(owner);
        let problem = file.problem_at(
            &pointer,
            format!("`{owner}` is a persona's address, not an owner's"),
        );
        ctx.on_behalf_of(persona.as_str(), |ctx| ctx.report(problem));
    }
}

fn check_fallbacks<T>(
    file: &ConfigFile<T>,
    choices: &[ModelChoice],
    inference: &Inference,
    ctx: &mut CheckContext<'_>,
) {
    for (index, choice) in choices.iter().enumerate() {
        if let Some((message, hint)) = providers::unready(&choice.provider, inference, ctx) {
            ctx.report(
                file.problem_at(&fallback::pointer(index), message)
                    .hint(hint),
            );
        }
    }
}

/// Checks that every provider in use can answer, and that a persona with another provider names a
/// model of it.
fn check_providers(
    file: &ConfigFile<inference::Typed>,
    inference: &Inference,
    personas: &[(ConfigFile<persona::Typed>, Persona)],
    ctx: &mut CheckContext<'_>,
) {
    if let Some((message, hint)) = providers::unready(&inference.provider, inference, ctx) {
        ctx.report(file.problem_at("/provider", message).hint(hint));
    }
    check_fallbacks(file, &inference.fallback, inference, ctx);
    for (file, persona) in personas {
        ctx.on_behalf_of(persona.id.as_str(), |ctx| {
            check_own_provider(file, inference, persona, ctx)
        });
    }
}

fn check_own_provider(
    file: &ConfigFile<persona::Typed>,
    inference: &Inference,
    persona: &Persona,
    ctx: &mut CheckContext<'_>,
) {
    check_fallbacks(
        file,
        persona.fallback.as_deref().unwrap_or_default(),
        inference,
        ctx,
    );
    let Some(provider) = persona
        .provider
        .as_deref()
        .filter(|name| *name != inference.provider)
    else {
        return;
    };
    if let Some((message, hint)) = providers::unready(provider, inference, ctx) {
        ctx.report(file.problem_at("/provider", message).hint(hint));
    }
    if persona.model.is_none() && !file.has("/model") {
        let message = format!("provider `{provider}` needs a `model` beside it");
        let hint = format!(
            "`{}` is a model of `{}`",
            inference.model, inference.provider
        );
        ctx.report(file.problem_at("/provider", message).hint(hint));
    }
}
