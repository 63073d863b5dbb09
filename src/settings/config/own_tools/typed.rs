//! `tool.json` as it is typed.

use crate::config::values::section::*;
use crate::domain::Trust;
use serde_json::Map;

const TIMEOUT: Duration = Duration::from_secs(30);

/// A tool that is a program of the owner's. Its name is the name of its folder.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "configs/tools/NAME/tool.json")]
pub struct TypedOwnTool {
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    /// Text that the model reads: what the tool does, and when to use it.
    #[schemars(length(min = 1))]
    pub(super) description: String,
    /// JSON Schema of the arguments: an object. Other members than those that it names are refused.
    pub(super) arguments: Map<String, Value>,
    /// Program and its arguments, started without a shell in the tool's folder. A program with a slash is a path, relative to
    /// that folder; another is looked up on `PATH`.
    #[schemars(length(min = 1))]
    pub(super) command: Vec<String>,
    /// What happens to a call that was under way when the engine ended.
    pub(super) class: OwnToolClass,
    /// What a call does beyond its result; the policy decides by it. `{}`: nothing.
    pub(super) effects: OwnToolEffects,
    /// Lowest trust of a sender, and of all that a run has read, with which a call that has effects is made without asking.
    #[serde(default)]
    pub(super) senders: ToolSenders,
    /// The result is the owner's own word. Without it, whoever reads the result has read an unknown author's words.
    #[serde(default)]
    pub(super) trusted_result: bool,
    /// Personas that may have it. Default: all.
    #[serde(default)]
    pub(super) personas: Vec<String>,
    /// Names of further variables that the program sees, from `.secrets` or the engine's environment.
    #[serde(default)]
    pub(super) environment: Vec<String>,
    /// Time after which it is stopped.
    #[serde(default = "default_timeout", with = "TypedDuration")]
    #[schemars(default = "timeout_text")]
    pub(super) timeout: Duration,
}

impl TypedOwnTool {
    /// Returns the names of the variables that the program sees.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.environment.iter().map(String::as_str)
    }
}

fn default_timeout() -> Duration {
    TIMEOUT
}

fn timeout_text() -> String {
    spell(TIMEOUT)
}

/// What happens to an interrupted call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OwnToolClass {
    /// It only reads: it is run again.
    Repeatable,
    /// It is never run again; the model learns that its outcome is unknown.
    Once,
}

/// Lowest trust with which a call that has effects is made without asking its owner.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolSenders {
    /// The owner and schedules, in runs that have read nothing of others.
    Owner,
    /// Contacts, too.
    #[default]
    Contact,
    /// Everybody who has proved an address, in runs that have read anything.
    Unknown,
}

impl From<ToolSenders> for Trust {
    fn from(senders: ToolSenders) -> Self {
        match senders {
            ToolSenders::Owner => Trust::Owner,
            ToolSenders::Contact => Trust::Contact,
            ToolSenders::Unknown => Trust::Unknown,
        }
    }
}

/// Effects of a call beyond its result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OwnToolEffects {
    /// It returns what not everybody who writes to the persona may see.
    pub reads_private: bool,
    /// It sends its arguments to somebody outside.
    pub sends_out: bool,
    /// It leaves something that later runs or others find.
    pub changes_state: bool,
    /// It executes code that the model wrote.
    pub runs_code: bool,
}
