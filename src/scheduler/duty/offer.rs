//! What a responsibility may name: tools, profiles, providers, people. Files are checked against it, so that no run begins
//! that could not end.

use crate::config::{Config, Persona, ReplyMode};
use crate::domain::Address;
use chrono_tz::Tz;

/// What a workspace has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offer {
    /// Names of all tools.
    pub tools: Vec<String>,
    /// Context profiles.
    pub profiles: Vec<String>,
    /// Providers that are configured.
    pub providers: Vec<String>,
    pub owners: Vec<Address>,
    /// Who may be written to beside the owners: exact addresses or `*@domain`.
    pub send_allow: Vec<String>,
}

impl Offer {
    /// Of a workspace, with the names of the tools, which live on a higher floor.
    pub fn of<'a>(config: &Config, tools: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            tools: tools.into_iter().map(str::to_owned).collect(),
            profiles: config.context.keys().cloned().collect(),
            providers: config.inference.providers.keys().cloned().collect(),
            owners: config.gateway.owners.clone(),
            send_allow: config.security.send_allow.clone(),
        }
    }

    /// Whether a responsibility may mail its answers to somebody.
    pub fn reaches(&self, address: &Address) -> bool {
        let is_owner = self.owners.iter().any(|owner| owner.key() == address.key());
        // As `send_email` reads these patterns; it lives on a higher floor.
        let is_meant = |pattern: &String| match pattern.strip_prefix("*@") {
            Some(domain) => domain.eq_ignore_ascii_case(address.domain()),
            None => pattern.eq_ignore_ascii_case(&address.key()),
        };
        is_owner || self.send_allow.iter().any(is_meant)
    }
}

/// What one persona's files are read by.
#[derive(Debug, Clone, Copy)]
pub struct Bounds<'a> {
    /// Of files that name none.
    pub zone: Tz,
    /// The tools that the persona may use; `None`: all.
    pub tools: Option<&'a [String]>,
    pub offer: &'a Offer,
    /// The persona's final texts are mailed, so that a file that names nobody else needs an owner.
    pub mails_answers: bool,
}

impl<'a> Bounds<'a> {
    pub fn of(persona: &'a Persona, offer: &'a Offer) -> Self {
        let mails_answers = persona.reply == ReplyMode::Final;
        Self { zone: persona.timezone, tools: persona.tools.as_deref(), offer, mails_answers }
    }
}
