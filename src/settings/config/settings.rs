//! Resolved settings: complete, typed, checked against each other. The typed files are the
//! loader's.

use super::gateway::limits::Limits;
use super::inference::prices::Prices;
use crate::config::context::ContextProfile;
use crate::config::file::{Problem, Snapshot};
use crate::config::gateway::Gateway;
use crate::config::hooks::Hook;
use crate::config::inference::Inference;
use crate::config::keeping::KeepingSettings;
use crate::config::mcp::McpServer;
use crate::config::own_tools::OwnTool;
use crate::config::persona::Persona;
use crate::config::personas::Personas;
use crate::config::policy::PolicySettings;
use crate::config::security::Security;
use crate::config::skills::PinnedSkill;
use crate::config::values::name_catalog::NameCatalog;
use crate::config::web::WebSettings;
use crate::domain::{LoopKey, Trigger, sha256_hex};
use chrono_tz::Tz;
use secrecy::{ExposeSecret, SecretString};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

impl Config {
    /// Returns the MCP server of a tool, by the name that the model calls it by.
    pub fn server_of(&self, tool: &str) -> Option<&McpServer> {
        let has = |server: &&McpServer| server.tools.values().any(|own| own.offered == tool);
        self.mcp.iter().find(has)
    }

    /// Returns a digest of a part of these settings and of all secrets, to find out whether it has changed.
    pub fn fingerprint(&self, part: impl Debug) -> String {
        digest(part, self.secrets.iter())
    }

    /// Returns a digest of a provider's settings and of its own secrets; `None`: there is no such provider.
    pub fn provider_fingerprint(&self, name: &str) -> Option<String> {
        let provider = self.inference.providers.get(name)?;
        Some(digest(provider, provider.secrets()))
    }

    /// Returns the context profile of a run.
    pub fn profile_of(&self, profile: &str, trigger: Trigger) -> Option<Cow<'_, ContextProfile>> {
        let profile = self.context.get(profile)?;
        Some(match trigger {
            Trigger::Summary => Cow::Owned(profile.summary_profile()),
            _ => Cow::Borrowed(profile),
        })
    }
}

fn digest<'a>(part: impl Debug, secrets: impl Iterator<Item = &'a SecretString>) -> String {
    let text = format!("{part:?}");
    let secrets = secrets.map(|secret| secret.expose_secret().as_bytes());
    let parts: Vec<&[u8]> = std::iter::once(text.as_bytes()).chain(secrets).collect();
    sha256_hex(&parts)
}

/// All settings of an engine.
#[derive(Debug, Clone)]
pub struct Config {
    /// Absolute path of the workspace.
    pub workspace: PathBuf,
    /// Absolute path of this program, which agents start for the tool server; empty where the
    /// system does not tell.
    pub program: PathBuf,
    pub gateway: Gateway,
    pub inference: Inference,
    /// Empty without `configs/prices.json`.
    pub prices: Prices,
    /// Steps by profile name; `thread` and `responsibility` always exist.
    pub context: BTreeMap<String, ContextProfile>,
    pub security: Security,
    /// Without rules when there is no `configs/policy.json`.
    pub policy: PolicySettings,
    /// Programs of the owner that are asked, in order.
    pub hooks: Vec<Hook>,
    /// Backups and retention; neither when there is no `configs/keeping.json`.
    pub keeping: KeepingSettings,
    /// What may be fetched from the web; nothing when there is no `configs/web.json`.
    pub web: WebSettings,
    /// Skills that the owner has approved.
    pub skills: Vec<PinnedSkill>,
    /// Tools that are programs of the owner's.
    pub own_tools: Vec<OwnTool>,
    /// Servers whose tools may be offered; none when there is no `configs/mcp.json`.
    pub mcp: Vec<McpServer>,
    pub limits: Limits,
    pub personas: Personas,
    /// Key by which several engines recognise each other's mail; `None`: each database has its own.
    pub loop_key: Option<LoopKey>,
    /// Values that are valid but probably unintended.
    pub warnings: Vec<Problem>,
    /// Values of all secrets that the configuration names, for masking them in records.
    pub secrets: Vec<SecretString>,
    /// Names that the files may use.
    pub names: NameCatalog,
    /// The files from which these settings were read.
    pub snapshot: Arc<Snapshot>,
}

impl Config {
    /// Returns the persona in whose name the engine itself speaks to its owners: the one of `notices`, else the first.
    pub fn speaker(&self) -> Option<&Persona> {
        let named = self.gateway.notices.persona.as_ref();
        let named = named.and_then(|id| self.personas.get(id));
        named.or_else(|| self.personas.iter().next())
    }

    /// Returns the zone in which owners read times that are of no single persona: that of the speaker.
    pub fn zone(&self) -> Tz {
        self.speaker().map_or(Tz::UTC, |persona| persona.timezone)
    }
}
