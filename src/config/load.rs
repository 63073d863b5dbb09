//! The road from files to settings: read every file, check every file, and only then hand out a [`Config`].

use super::check::{self, Page};
use super::document::child;
use super::problem::{ConfigErrors, Problem};
use super::secrets::{self, Secrets};
use super::settings::{Config, Gateway, Inference, ModelChoice, OutOfService, Persona, Personas};
use super::snapshot::{Place, Shelf, Snapshot};
use super::{context, fallback, gateway, inference, persona, prices, providers, security, warnings};
use crate::domain::{LoopKey, PersonaId};
use secrecy::{ExposeSecret, SecretString};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

/// The secret that engines share to know each other's mail.
const LOOP_KEY_VARIABLE: &str = "ATTACHE_LOOP_KEY";
/// Stands for a secret that a process may not know.
const STAND_IN: &str = "not-known-to-this-process";
/// Folders below `personas/` that are read; more are a mistake.
const PERSONAS_MAX: usize = 10_000;

/// The names that files may use; they live on higher floors, so they are an argument.
#[derive(Debug, Clone, Default)]
pub struct Vocabulary {
    pub providers: Vec<&'static str>,
    /// Resolver and how many arguments it takes.
    pub resolvers: Vec<(&'static str, RangeInclusive<usize>)>,
    pub tools: Vec<&'static str>,
    /// Provider and the variable that holds its key. A provider that needs none is not listed.
    pub key_variables: Vec<(&'static str, &'static str)>,
    /// Provider and what it reads of its block in `configs/inference.json`.
    pub settings: Vec<(&'static str, Vec<&'static str>)>,
}

/// Reads and checks `configs/*.json`, `personas/*/persona.json`, `.secrets` and the environment.
///
/// A persona whose own file is wrong is out of service ([`Personas::out_of_service`]) and stops nobody else: its folder may
/// be written by less trusted hands than `configs/`. `workspace` must be absolute. Errors: every problem of every file, at
/// once, when some other file is wrong or no persona is left.
pub fn load(workspace: &Path, vocabulary: &Vocabulary) -> Result<Config, ConfigErrors> {
    load_with(workspace, vocabulary, &secrets::environment)
}

/// [`load`] for a process that calls nobody and therefore has no secrets: the tool server that an agent starts, which
/// sees only what the agent sees of the environment. What is written wrongly is an error all the same.
pub fn load_without_secrets(workspace: &Path, vocabulary: &Vocabulary) -> Result<Config, ConfigErrors> {
    // Only the key by which engines know each other's mail would be used: unless it is in `.secrets`, or among what the
    // agent sees, the database's own takes its place.
    let environment = |name: &str| secrets::environment(name).or_else(|| stand_in(name));
    load_with(workspace, vocabulary, &environment)
}

/// [`load`] for a process that asks one provider, which it chooses itself: what the others lack is not missed. A key that
/// is not there is `None`.
pub fn load_for_one(workspace: &Path, vocabulary: &Vocabulary) -> Result<Config, ConfigErrors> {
    let mut config = load_without_secrets(workspace, vocabulary)?;
    let is_stand_in = |secret: &SecretString| secret.expose_secret() == STAND_IN;
    for settings in config.inference.providers.values_mut() {
        settings.api_key.take_if(|key| is_stand_in(key));
        settings.agent.environment.retain(|(_, value)| !is_stand_in(value));
    }
    config.secrets.retain(|secret| !is_stand_in(secret));
    Ok(config)
}

/// [`load_snapshot`] of somebody else's, to ask a provider in one's own name. Where a provider is, which program an agent is
/// and which variables are read is what that somebody wrote, so it is not followed: our keys go to the vendors' own
/// addresses only.
///
/// Errors: every problem, those of `.secrets` in `workspace` included.
pub fn load_foreign(
    workspace: &Path,
    vocabulary: &Vocabulary,
    snapshot: &Snapshot,
) -> Result<Config, ConfigErrors> {
    let mut config = load_snapshot(workspace, vocabulary, snapshot)?;
    let mut problems = Vec::new();
    let secrets = Secrets::read(workspace, &secrets::environment, &mut problems);
    if let Some(errors) = ConfigErrors::of(problems) {
        return Err(errors);
    }
    for (name, settings) in &mut config.inference.providers {
        let mut usual = vocabulary.key_variables.iter();
        settings.key_variable =
            usual.find(|(provider, _)| provider == name).map(|(_, variable)| (*variable).to_owned());
        settings.api_key = settings.key_variable.as_ref().and_then(|variable| secrets.get(variable));
        settings.base_url = None;
        settings.agent.binary = None;
        settings.agent.environment.clear();
    }
    config.secrets =
        config.inference.providers.values().filter_map(|settings| settings.api_key.clone()).collect();
    Ok(config)
}

/// What an engine was told once, from nothing but its files: without secrets, without keys that sign.
///
/// Errors: every problem, as this version of the program sees it.
pub fn load_snapshot(
    workspace: &Path,
    vocabulary: &Vocabulary,
    snapshot: &Snapshot,
) -> Result<Config, ConfigErrors> {
    load_from(Place::Snapshot(snapshot), workspace, vocabulary, &stand_in)
}

/// Something stands for a secret that this process may not know.
fn stand_in(name: &str) -> Option<String> {
    (name != LOOP_KEY_VARIABLE).then(|| STAND_IN.to_owned())
}

/// [`load`] with another environment: variable name -> value.
pub fn load_with(
    workspace: &Path,
    vocabulary: &Vocabulary,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, ConfigErrors> {
    load_from(Place::Folder(workspace), workspace, vocabulary, environment)
}

/// Secrets, and what is wrong with their file; a snapshot has none.
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
    vocabulary: &Vocabulary,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, ConfigErrors> {
    let (secrets, problems) = secrets_of(place, workspace, environment);
    let mut desk = Desk::of(place, workspace, vocabulary, (&secrets, problems));

    let gateway_page = desk.read::<gateway::Typed>(gateway::FILE);
    let inference_page = desk.read::<inference::Typed>(inference::FILE);
    let prices_page = desk.read_if_there::<prices::Typed>(prices::FILE);
    let context_page = desk.read::<context::Typed>(context::FILE);
    let security_page = desk.read::<security::Typed>(security::FILE);
    if let Some(page) = &inference_page {
        providers::introduce(page.typed.provider_blocks(), &mut desk);
    }
    let known_secrets = desk.known_secrets(gateway_page.as_ref(), inference_page.as_ref());

    let gateway = gateway_page.as_ref().map(|page| gateway::settle(page, &mut desk));
    let inference = inference_page.as_ref().map(|page| inference::settle(page, &mut desk));
    let prices = prices_page.as_ref().map(|page| prices::settle(page, &mut desk));
    let context = context_page.as_ref().map(|page| context::settle(page, &mut desk));
    let security = security_page.as_ref().map(|page| security::settle(page, &mut desk));
    // Without a mail domain, addresses can still be checked in a domain that nobody has (RFC 2606 section 2).
    let domain = gateway.as_ref().map_or("unknown.invalid", |(gateway, _)| gateway.mail_domain.as_str());
    let pages = desk.read_personas(domain);

    check_addresses(gateway_page.as_ref(), gateway.as_ref().map(|(gateway, _)| gateway), &pages, &mut desk);
    if let (Some(page), Some(inference)) = (&inference_page, &inference) {
        check_providers(page, inference, &pages, &mut desk);
    }
    let read = (&gateway_page, &gateway, &inference_page, &inference, &security_page, &security);
    let warnings = match read {
        (
            Some(gateway_page),
            Some((gateway, _)),
            Some(inference_page),
            Some(inference),
            Some(page),
            Some(security),
        ) => warnings::all(&warnings::Seen {
            gateway: (gateway_page, gateway),
            inference: (inference_page, inference),
            security: (page, security),
            personas: &pages,
            desk: &desk,
        }),
        _ => Vec::new(),
    };
    let (personas, out_of_service) = desk.parted(pages, domain)?;
    let personas = Personas::new(personas).map(|personas| personas.without(out_of_service, domain));
    let unsaid = |what: &str| ConfigErrors { problems: vec![Problem::of_file("configs", what)] };
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
        snapshot: Arc::new(desk.shelf.snapshot()),
        loop_key: secrets.get(LOOP_KEY_VARIABLE).map(|key| LoopKey::new(key.expose_secret().as_bytes())),
    })
}

/// What every file's checks may look at, and where they report.
pub struct Desk<'a> {
    pub workspace: &'a Path,
    pub shelf: Shelf<'a>,
    pub vocabulary: &'a Vocabulary,
    pub secrets: &'a Secrets<'a>,
    pub persona_ids: Vec<PersonaId>,
    /// Providers that `configs/inference.json` names itself: `compat:NAME`.
    pub compat: Vec<String>,
    /// Provider and the variable that holds its key, where the configuration says so.
    pub key_variables: BTreeMap<String, String>,
    problems: Vec<Problem>,
    /// Name of a folder below `personas/` and what is wrong with its persona.
    of_personas: BTreeMap<String, Vec<Problem>>,
}

impl<'a> Desk<'a> {
    /// With nothing read yet but who lives in the workspace; `problems` are those of the secrets.
    fn of(
        place: Place<'a>,
        workspace: &'a Path,
        vocabulary: &'a Vocabulary,
        (secrets, mut problems): (&'a Secrets<'a>, Vec<Problem>),
    ) -> Self {
        let (shelf, mut of_personas) = (Shelf::new(place), BTreeMap::new());
        let persona_ids = list_personas(&shelf, &mut problems, &mut of_personas);
        let (compat, key_variables) = Default::default();
        Self {
            workspace,
            shelf,
            vocabulary,
            secrets,
            persona_ids,
            compat,
            key_variables,
            problems,
            of_personas,
        }
    }
}

impl Desk<'_> {
    pub fn report(&mut self, problem: Problem) {
        self.problems.push(problem);
    }
    /// What is reported meanwhile is that persona's problem and nobody else's.
    fn on_behalf_of<T>(&mut self, persona: &str, check: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.problems.len();
        let checked = check(self);
        let reported = self.problems.split_off(before);
        if !reported.is_empty() {
            self.of_personas.entry(persona.to_owned()).or_default().extend(reported);
        }
        checked
    }
    /// Parts the personas that can work from those that cannot. Errors: something else is wrong, or none can.
    fn parted(
        &mut self,
        pages: Vec<(Page<persona::Typed>, Persona)>,
        mail_domain: &str,
    ) -> Result<(Vec<Persona>, Vec<OutOfService>), ConfigErrors> {
        let (broken, well): (Vec<_>, Vec<_>) = pages
            .into_iter()
            .map(|(_, persona)| persona)
            .partition(|persona| self.of_personas.contains_key(persona.id.as_str()));
        let mut problems = std::mem::take(&mut self.problems);
        if !problems.is_empty() || (well.is_empty() && !self.of_personas.is_empty()) {
            problems.extend(std::mem::take(&mut self.of_personas).into_values().flatten());
        }
        if let Some(errors) = ConfigErrors::of(problems) {
            return Err(errors);
        }
        let out = std::mem::take(&mut self.of_personas).into_iter().map(|(name, mut problems)| {
            problems.sort();
            problems.dedup();
            // A file that was rightly read has named its addresses; of any other each word may be one.
            let is_known = broken.iter().any(|persona| persona.id.as_str() == name);
            let text = self.shelf.read(&persona::file(&name)).unwrap_or_default();
            let addresses = persona::possible_addresses(&text, mail_domain);
            OutOfService { name, problems, addresses, is_known }
        });
        let out = out.collect();
        Ok((well, out))
    }
    pub fn knows_provider(&self, name: &str) -> bool {
        self.provider_names().iter().any(|known| known == name)
    }
    /// Every provider that may be named, those of the configuration included.
    pub fn provider_names(&self) -> Vec<String> {
        let adapters = self.vocabulary.providers.iter().filter(|name| **name != providers::COMPAT);
        adapters.map(|name| (*name).to_owned()).chain(self.compat.iter().cloned()).collect()
    }
    /// The variable that holds a provider's key.
    pub fn key_variable(&self, provider: &str) -> Option<String> {
        let usual = || {
            let mut usual = self.vocabulary.key_variables.iter();
            usual.find(|(name, _)| *name == provider).map(|(_, variable)| (*variable).to_owned())
        };
        self.key_variables.get(provider).cloned().or_else(usual)
    }
    fn read<T: schemars::JsonSchema + serde::de::DeserializeOwned>(&mut self, file: &str) -> Option<Page<T>> {
        check::read(&self.shelf, file, &mut self.problems)
    }
    /// As [`Desk::read`], for a file that may be left out.
    fn read_if_there<T: schemars::JsonSchema + serde::de::DeserializeOwned>(
        &mut self,
        file: &str,
    ) -> Option<Page<T>> {
        self.shelf.has(file).then(|| self.read(file)).flatten()
    }
    /// The values of all secrets that some file names; those in `.secrets` that none names are reported.
    fn known_secrets(
        &mut self,
        gateway: Option<&Page<gateway::Typed>>,
        inference: Option<&Page<inference::Typed>>,
    ) -> Vec<SecretString> {
        let password = gateway.map_or(gateway::PASSWORD_VARIABLE, |page| page.typed.password_variable());
        let keys = self.vocabulary.key_variables.iter().map(|(_, variable)| *variable);
        let mailboxes = gateway.iter().flat_map(|page| page.typed.mailbox_variables());
        let submission = gateway.into_iter().flat_map(|page| page.typed.submission_variables());
        let blocks = inference.into_iter().flat_map(|page| page.typed.provider_blocks());
        let named = blocks.flat_map(|(_, typed)| typed.variables());
        let keys = keys.chain(named);
        let known =
            keys.chain([password, LOOP_KEY_VARIABLE]).chain(mailboxes).chain(submission).collect::<Vec<_>>();
        self.problems.extend(self.secrets.unknown(&known));
        known.iter().filter_map(|name| self.secrets.get(name)).collect()
    }
    fn read_personas(&mut self, domain: &str) -> Vec<(Page<persona::Typed>, Persona)> {
        let mut read = Vec::new();
        for id in self.persona_ids.clone() {
            read.extend(self.on_behalf_of(id.as_str(), |desk| {
                let page = desk.read::<persona::Typed>(&persona::file(id.as_str()))?;
                let settled = persona::settle(&page, &id, domain, desk)?;
                Some((page, settled))
            }));
        }
        read
    }
}

/// The ids of all personas: the folders below `personas/`, in order. Plain files and dot folders are no personas.
fn list_personas(
    shelf: &Shelf<'_>,
    problems: &mut Vec<Problem>,
    of_personas: &mut BTreeMap<String, Vec<Problem>>,
) -> Vec<PersonaId> {
    let mut names = match shelf.persona_folders() {
        Ok(names) => names,
        Err(error) => {
            problems.push(Problem::of_file("personas", format!("cannot be read: {error}")));
            return Vec::new();
        }
    };
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    if names.len() > PERSONAS_MAX {
        problems.push(Problem::of_file("personas", format!("holds more than {PERSONAS_MAX} folders")));
        names.truncate(PERSONAS_MAX);
    }
    let mut ids = Vec::new();
    for name in names {
        match PersonaId::parse(&name) {
            Ok(id) => ids.push(id),
            Err(error) => {
                let problem = Problem::of_file(&format!("personas/{name}"), error.to_string());
                of_personas
                    .insert(name, vec![problem.hint("rename the folder, or take it out of `personas/`")]);
            }
        }
    }
    ids
}

/// No two personas share an address, and no owner writes from one: the engine would talk to itself. Whose file is wrong
/// then nobody can tell, so both are.
fn check_addresses(
    page: Option<&Page<gateway::Typed>>,
    gateway: Option<&Gateway>,
    personas: &[(Page<persona::Typed>, Persona)],
    desk: &mut Desk<'_>,
) {
    let mut taken: BTreeMap<String, &PersonaId> = BTreeMap::new();
    for (page, persona) in personas {
        let own = std::iter::once(("/address".to_owned(), &persona.address));
        let aliases = persona.aliases.iter().enumerate().map(|(i, a)| (child("/aliases", i), a));
        for (pointer, address) in own.chain(aliases) {
            if let Some(other) = taken.insert(address.key(), &persona.id) {
                let message = format!("`{address}` belongs to persona `{other}` already");
                let problem = page.blame(&pointer, message).hint("give one of the two another address");
                desk.on_behalf_of(other.as_str(), |desk| desk.report(problem.clone()));
                desk.on_behalf_of(persona.id.as_str(), |desk| desk.report(problem));
            }
        }
    }
    let Some((page, gateway)) = page.zip(gateway) else { return };
    let unsigned = |persona: &&Persona| !gateway.signers.covers(persona.address.domain());
    let all = personas.iter().map(|(_, persona)| persona);
    for persona in all.filter(|_| !gateway.signers.is_empty()).filter(unsigned) {
        let message = format!("no key signs the mail of `{}`", persona.address);
        let problem = page.blame("/outbound/dkim", message).hint("add one of its domain");
        desk.on_behalf_of(persona.id.as_str(), |desk| desk.report(problem));
    }
    for owner in &gateway.owners {
        let Some(persona) = taken.get(&owner.key()) else { continue };
        let pointer = page.typed.owner_pointer(owner);
        let problem = page.blame(&pointer, format!("`{owner}` is a persona's address, not an owner's"));
        desk.on_behalf_of(persona.as_str(), |desk| desk.report(problem));
    }
}

fn check_fallbacks<T>(page: &Page<T>, choices: &[ModelChoice], inference: &Inference, desk: &mut Desk<'_>) {
    for (index, choice) in choices.iter().enumerate() {
        if let Some((message, hint)) = providers::unready(&choice.provider, inference, desk) {
            desk.report(page.blame(&fallback::pointer(index), message).hint(hint));
        }
    }
}

/// Every provider that is in use can answer, and a persona that changes it names a model of it.
fn check_providers(
    page: &Page<inference::Typed>,
    inference: &Inference,
    personas: &[(Page<persona::Typed>, Persona)],
    desk: &mut Desk<'_>,
) {
    if let Some((message, hint)) = providers::unready(&inference.provider, inference, desk) {
        desk.report(page.blame("/provider", message).hint(hint));
    }
    check_fallbacks(page, &inference.fallback, inference, desk);
    for (page, persona) in personas {
        desk.on_behalf_of(persona.id.as_str(), |desk| check_own_provider(page, inference, persona, desk));
    }
}

fn check_own_provider(
    page: &Page<persona::Typed>,
    inference: &Inference,
    persona: &Persona,
    desk: &mut Desk<'_>,
) {
    check_fallbacks(page, persona.fallback.as_deref().unwrap_or_default(), inference, desk);
    let Some(provider) = persona.provider.as_deref().filter(|name| *name != inference.provider) else {
        return;
    };
    if let Some((message, hint)) = providers::unready(provider, inference, desk) {
        desk.report(page.blame("/provider", message).hint(hint));
    }
    if persona.model.is_none() && !page.has("/model") {
        let message = format!("provider `{provider}` needs a `model` beside it");
        let hint = format!("`{}` is a model of `{}`", inference.model, inference.provider);
        desk.report(page.blame("/provider", message).hint(hint));
    }
}
