//! Names that a responsibility may use: tools, profiles, providers, addresses. Files are checked
//! against them, so that no run begins that cannot end.

use crate::config::{Config, Persona};
use crate::domain::{Address, ReplyMode, is_listed};
use chrono_tz::Tz;

/// Names of a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkspaceNames {
    /// Names of all tools.
    pub tools: Vec<String>,
    /// Context profiles.
    pub profiles: Vec<String>,
    /// Providers that are configured.
    pub providers: Vec<String>,
    /// Those of them whose block names a model.
    pub with_model: Vec<String>,
    pub owners: Vec<Address>,
    /// Permitted recipients beside the owners: exact addresses or `*@domain`.
    pub send_allow: Vec<String>,
}

impl WorkspaceNames {
    /// Collects the names of a workspace; the tools' names are an argument, because a higher unit
    /// defines them.
    pub fn from_config<'a>(config: &Config, tools: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            tools: tools.into_iter().map(str::to_owned).collect(),
            profiles: config.context.keys().cloned().collect(),
            providers: config.inference.providers.keys().cloned().collect(),
            with_model: (config.inference.providers.iter())
                .filter(|(_, settings)| settings.model.is_some())
                .map(|(name, _)| name.clone())
                .collect(),
            owners: config.gateway.owners.clone(),
            send_allow: config.security.send_allow.clone(),
        }
    }

    /// Reports whether a responsibility may mail its answers to an address.
    pub fn reaches(&self, address: &Address) -> bool {
        let is_owner = self.owners.iter().any(|owner| owner.key() == address.key());
        is_owner || is_listed(&self.send_allow, address)
    }
}

/// Parameters for parsing one persona's files.
#[derive(Debug, Clone, Copy)]
pub struct ParseContext<'a> {
    /// Default time zone.
    pub zone: Tz,
    /// Names of the tools that the persona may use; `None`: all.
    pub tools: Option<&'a [String]>,
    pub names: &'a WorkspaceNames,
    /// `true`: the persona's final texts are mailed, so that a file without another recipient needs
    /// an owner.
    pub mails_answers: bool,
}

impl<'a> ParseContext<'a> {
    pub fn for_persona(persona: &'a Persona, names: &'a WorkspaceNames) -> Self {
        let mails_answers = persona.reply != ReplyMode::ToolOnly;
        Self {
            zone: persona.timezone,
            tools: persona.tools.named(),
            names,
            mails_answers,
        }
    }
}
