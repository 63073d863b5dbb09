//! Values and problems that the checks of all files share, and the part of a file that is being checked.

use super::name_catalog::NameCatalog;
use crate::config::file::{
    self, ConfigFile, ConfigLocation, ConfigSource, Document, Problem, below, child, is_program,
    spell,
};
use crate::config::secrets::{self, Secrets};
use crate::domain::PersonaId;
use secrecy::SecretString;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

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

impl<'w> CheckContext<'w> {
    /// Returns a part of a file, to be checked.
    pub fn place<'p>(
        &'p mut self,
        file: &'p Document,
        pointer: impl Into<String>,
    ) -> CheckPlace<'p, 'w> {
        CheckPlace {
            file,
            pointer: pointer.into(),
            ctx: self,
        }
    }
    pub fn report(&mut self, problem: Problem) {
        self.problems.push(problem);
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
    /// As [`CheckContext::read`], for a file that is empty where it does not exist or cannot be read.
    pub fn read_optional<T: Default + schemars::JsonSchema + serde::de::DeserializeOwned>(
        &mut self,
        file: &str,
    ) -> ConfigFile<T> {
        self.read_if_there(file).unwrap_or_default()
    }
    /// As [`CheckContext::read`], for an optional file.
    pub fn read_if_there<T: schemars::JsonSchema + serde::de::DeserializeOwned>(
        &mut self,
        file: &str,
    ) -> Option<ConfigFile<T>> {
        self.source.has(file).then(|| self.read(file)).flatten()
    }
}

/// Variables of the engine's environment that every program of the owner sees. Keys of providers are not among them.
const ENVIRONMENT: &[&str] = &["PATH", "HOME", "LANG", "LC_ALL", "TZ"];

/// A part of a file. Paths are relative to it, such as `oauth/token_url`; the empty one is the part itself.
pub struct CheckPlace<'p, 'w> {
    pub file: &'p Document,
    /// JSON pointer of the part.
    pub pointer: String,
    pub ctx: &'p mut CheckContext<'w>,
}

impl<'w> CheckPlace<'_, 'w> {
    /// Returns the JSON pointer of a path.
    pub fn at(&self, path: &str) -> String {
        match path {
            "" => self.pointer.clone(),
            path => format!("{}/{path}", self.pointer),
        }
    }

    /// Returns the place of a member or an item.
    pub fn under(&mut self, key: impl Display) -> CheckPlace<'_, 'w> {
        CheckPlace {
            file: self.file,
            pointer: child(&self.pointer, key),
            ctx: self.ctx,
        }
    }

    /// Reports whether a path has a non-null value, valid or not.
    pub fn has(&self, path: &str) -> bool {
        self.file.has(&self.at(path))
    }

    /// Reports a problem with the value at a path.
    pub fn complain(&mut self, path: &str, message: impl Into<String>) {
        self.refuse(path, message, "");
    }

    /// Reports a problem with the value at a path, and what to write instead.
    pub fn refuse(&mut self, path: &str, message: impl Into<String>, hint: impl Into<String>) {
        let (at, hint) = (self.at(path), hint.into());
        let problem = self.file.problem_at(&at, message);
        self.ctx.report(match hint.is_empty() {
            true => problem,
            false => problem.hint(hint),
        });
    }

    /// Reports a problem with the key at a path, and what to write instead.
    pub fn refuse_key(&mut self, path: &str, message: impl Into<String>, hint: &str) {
        let problem = self.file.problem_at_key(&self.at(path), message);
        self.ctx.report(match hint {
            "" => problem,
            hint => problem.hint(hint),
        });
    }

    /// Reports a name that is none of these.
    pub fn unknown<'n>(
        &mut self,
        path: &str,
        message: String,
        name: &str,
        known: impl IntoIterator<Item = &'n str>,
    ) {
        let problem = self.file.problem_at(&self.at(path), message);
        self.ctx.report(problem.did_you_mean(name, known));
    }

    /// Reads every text of a list. The problem of one that cannot be read is a message and a hint.
    pub fn each<T>(
        &mut self,
        path: &str,
        texts: &[String],
        read: impl Fn(&str) -> Result<T, (String, String)>,
    ) -> Vec<T> {
        let mut found = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            match read(text) {
                Ok(one) => found.push(one),
                Err((message, hint)) => self.refuse(&format!("{path}/{index}"), message, hint),
            }
        }
        found
    }

    /// Returns the persona of a name; an unknown one is a problem.
    pub fn persona(&mut self, path: &str, name: Option<&str>) -> Option<PersonaId> {
        self.ctx.persona(self.file, &self.at(path), name?)
    }

    /// Returns the personas of the names in `personas`.
    pub fn personas(&mut self, names: &[String]) -> Vec<PersonaId> {
        let mut personas = Vec::new();
        for (index, name) in names.iter().enumerate() {
            personas.extend(self.persona(&format!("personas/{index}"), Some(name)));
        }
        personas
    }

    /// Reports whether there is a tool; `more`: another name that may stand here. An unknown one is a problem.
    pub fn is_tool(&mut self, path: &str, name: &str, more: Option<&str>) -> bool {
        let is_known = more == Some(name) || self.ctx.knows_tool(name);
        if !is_known {
            let problem = self
                .file
                .problem_at(&self.at(path), format!("no tool `{name}`"));
            let problem = problem.did_you_mean(name, self.ctx.tool_names().chain(more));
            self.ctx.report(problem);
        }
        is_known
    }

    /// Returns the value of a secret; one that is not set is a problem.
    pub fn secret(&mut self, path: &str, variable: &str) -> Option<SecretString> {
        let hint = "set it in `.secrets`, or in the engine's environment";
        self.secret_or(path, variable, format!("`{variable}` is not set"), hint)
    }

    /// Returns the value of a secret, or reports this problem.
    pub fn secret_or(
        &mut self,
        path: &str,
        variable: &str,
        message: String,
        hint: impl Into<String>,
    ) -> Option<SecretString> {
        let value = self.ctx.secrets.get(variable);
        if value.is_none() {
            self.refuse(path, message, hint);
        }
        value
    }

    /// Returns all variables that a program of the owner sees: the usual ones, and those in `environment`.
    pub fn environment(&mut self, variables: &[String]) -> Vec<(String, SecretString)> {
        let mut values: Vec<_> = usual_environment()
            .map(|(name, value)| (name, value.into()))
            .collect();
        for (index, variable) in variables.iter().enumerate() {
            let value = self.secret(&format!("environment/{index}"), variable);
            values.extend(value.map(|value| (variable.clone(), value)));
        }
        values
    }

    /// Checks the time of a program or a tool, which a run waits for.
    pub fn check_timeout(&mut self, span: Duration, max: Duration, of: &str) {
        if span.is_zero() || span > max {
            let hint = format!(
                "write a time from `1ms` to `{}`: a run waits for its {of}",
                spell(max)
            );
            self.refuse(
                "timeout",
                format!("`{}` is out of range", spell(span)),
                hint,
            );
        }
    }

    /// Checks the command of a program of the owner, whose paths begin at `folder`: no persona's tools or agents may write its
    /// files. Returns the program's path, if it is one and there is such a program.
    pub fn check_command<'c>(
        &mut self,
        command: &'c [String],
        folder: &Path,
        hints: &CommandHints,
    ) -> Option<&'c str> {
        let personas = self.ctx.workspace.join("personas");
        let is_below = |part: &&String| below(folder, part).starts_with(&personas);
        let Some(program) = command.first().filter(|program| !program.is_empty()) else {
            self.refuse("command", "names no program", hints.example);
            return None;
        };
        if let Some(part) = command.iter().find(is_below) {
            let message = format!("`{part}` is in a persona's folder");
            self.refuse("command", message, hints.elsewhere);
            return None;
        }
        if !program.contains('/') || !self.ctx.source.has_world() {
            return None;
        }
        if !is_program(&folder.join(program)) {
            let hint = format!(
                "its path begins at the {}; `chmod +x` makes a script one",
                hints.folder
            );
            self.refuse("command", format!("`{program}` is not a program"), hint);
            return None;
        }
        Some(program)
    }
}

/// Hints about a command.
pub struct CommandHints {
    pub example: &'static str,
    /// Where its files should be.
    pub elsewhere: &'static str,
    /// Words for the folder at which its paths begin.
    pub folder: &'static str,
}

/// Returns the variables that every program of the owner sees.
pub fn usual_environment() -> impl Iterator<Item = (String, String)> {
    let names = ENVIRONMENT.iter();
    names.filter_map(|name| Some(((*name).to_owned(), secrets::environment(name)?)))
}

/// Formats each value of a list, for `attache config show`.
pub fn texts<'t, T: Display + 't>(values: impl IntoIterator<Item = &'t T>) -> Vec<String> {
    values.into_iter().map(ToString::to_string).collect()
}
