//! Values and problems that the checks of all files share.

use super::name_catalog::NameCatalog;
use crate::config::file;
use crate::config::file::{ConfigFile, ConfigLocation, ConfigSource, Document, Problem};
use crate::config::secrets::Secrets;
use crate::domain::PersonaId;
use std::collections::BTreeMap;
use std::path::Path;

/// Adapter whose providers the configuration names: `compat:groq`.
pub const COMPAT: &str = "compat";

/// Returns the adapter of a provider's name: `claude` of `claude:strict`.
pub fn adapter_of(provider: &str) -> &str {
    provider
        .split_once(':')
        .map_or(provider, |(adapter, _)| adapter)
}

/// Data for the checks of every file, and the list of their problems.
pub struct CheckContext<'a> {
    pub workspace: &'a Path,
    pub source: ConfigSource<'a>,
    pub names: &'a NameCatalog,
    pub secrets: &'a Secrets<'a>,
    pub persona_ids: Vec<PersonaId>,
    /// Named instances, which only `configs/inference.json` defines: `claude:strict`, `compat:groq`.
    pub instances: Vec<String>,
    /// Variables of the providers' keys, where the configuration names them.
    pub key_variables: BTreeMap<String, String>,
    /// Models of the providers' blocks.
    pub models: BTreeMap<String, String>,
    pub problems: Vec<Problem>,
    /// Names of secrets that a setting refers to.
    pub known_secrets: Vec<String>,
    /// Warnings about values of secrets.
    pub doubtful_secrets: Vec<Problem>,
    /// Names of the owner's tools.
    pub own_tools: Vec<String>,
    /// Problems of personas, by the name of their folder below `personas/`.
    pub of_personas: BTreeMap<String, Vec<Problem>>,
}

impl<'a> CheckContext<'a> {
    /// A context in which nothing but the secrets has been read; `problems` are theirs.
    pub fn new(
        location: ConfigLocation<'a>,
        workspace: &'a Path,
        names: &'a NameCatalog,
        (secrets, problems): (&'a Secrets<'a>, Vec<Problem>),
    ) -> Self {
        Self {
            workspace,
            source: ConfigSource::new(location),
            names,
            secrets,
            own_tools: Vec::new(),
            persona_ids: Vec::new(),
            instances: Vec::new(),
            key_variables: BTreeMap::new(),
            models: BTreeMap::new(),
            problems,
            known_secrets: Vec::new(),
            doubtful_secrets: Vec::new(),
            of_personas: BTreeMap::new(),
        }
    }
}

impl CheckContext<'_> {
    pub fn report(&mut self, problem: Problem) {
        self.problems.push(problem);
    }
    /// Reports a problem with the value at a JSON pointer.
    pub fn complain(
        &mut self,
        file: &Document,
        pointer: impl AsRef<str>,
        message: impl Into<String>,
    ) {
        self.report(file.problem_at(pointer.as_ref(), message));
    }
    /// Reports a problem with the value at a JSON pointer, and what to write instead.
    pub fn refuse(
        &mut self,
        file: &Document,
        pointer: impl AsRef<str>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.report(file.problem_at(pointer.as_ref(), message).hint(hint));
    }
    /// Runs a check whose problems count for this persona alone.
    pub fn on_behalf_of<T>(&mut self, persona: &str, check: impl FnOnce(&mut Self) -> T) -> T {
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
    /// Returns the persona of a name that stands at `pointer`; an unknown one is a problem.
    pub fn persona(&mut self, file: &Document, pointer: &str, name: &str) -> Option<PersonaId> {
        let known = &self.persona_ids;
        let id = PersonaId::parse(name).ok().filter(|id| known.contains(id));
        if id.is_none() {
            let problem = file.problem_at(pointer, format!("no persona `{name}`"));
            let problem = problem.did_you_mean(name, known.iter().map(PersonaId::as_str));
            self.report(problem);
        }
        id
    }
    /// Hint for a secret that is not set.
    pub fn how_to_set(&self, name: &str) -> String {
        self.secrets.how_to_set(name, &self.known_secrets)
    }
    pub fn knows_tool(&self, name: &str) -> bool {
        self.tool_names().any(|known| known == name)
    }
    /// Names of all tools, including the owner's.
    pub fn tool_names(&self) -> impl Iterator<Item = &str> {
        self.names
            .tools
            .iter()
            .chain(&self.own_tools)
            .map(String::as_str)
    }
    pub fn knows_provider(&self, name: &str) -> bool {
        self.provider_names().iter().any(|known| known == name)
    }
    /// Names of all providers, including those that the configuration defines.
    pub fn provider_names(&self) -> Vec<String> {
        let adapters = self.names.providers.iter().filter(|name| **name != COMPAT);
        adapters
            .map(|name| (*name).to_owned())
            .chain(self.instances.iter().cloned())
            .collect()
    }
    /// The variable that holds a provider's key: an instance without its own has its adapter's. Of
    /// several usual names, the first one that is set, else the first.
    pub fn key_variable(&self, provider: &str) -> Option<String> {
        let own = self.key_variables.get(provider).cloned();
        own.or_else(|| self.usual_key_variable(provider).map(str::to_owned))
    }
    /// The variable that holds the key of a provider that names none of its own.
    pub fn usual_key_variable(&self, provider: &str) -> Option<&'static str> {
        let adapter = adapter_of(provider);
        let usual = self.names.key_variables.iter();
        let usual: Vec<&'static str> = usual
            .filter(|(name, _)| *name == adapter)
            .map(|(_, variable)| *variable)
            .collect();
        let is_set = |variable: &&&str| self.secrets.get(variable).is_some();
        usual.iter().find(is_set).or(usual.first()).copied()
    }
    pub fn read<T: schemars::JsonSchema + serde::de::DeserializeOwned>(
        &mut self,
        file: &str,
    ) -> Option<ConfigFile<T>> {
        file::read(&self.source, file, &mut self.problems)
    }
    /// As [`CheckContext::read`], for an optional file.
    pub fn read_if_there<T: schemars::JsonSchema + serde::de::DeserializeOwned>(
        &mut self,
        file: &str,
    ) -> Option<ConfigFile<T>> {
        self.source.has(file).then(|| self.read(file)).flatten()
    }
}
