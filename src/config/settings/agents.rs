//! What a command-line agent is told about itself.

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// One agent's block.
#[derive(Debug, Clone, Default)]
pub struct AgentSettings {
    /// A path, or a name to look for on `PATH`; `None`: the agent's own name.
    pub binary: Option<String>,
    /// Where the program was; nothing is looked for then. For whoever writes its requests and starts nothing.
    pub found: Option<PathBuf>,
    pub tier: Tier,
    /// All that the program sees of the environment: name and value.
    pub environment: Vec<(String, SecretString)>,
    /// The workspace that it works for, by which what it leaves behind is found.
    pub workspace: Option<PathBuf>,
    /// Time between asking it to end and killing it; `None`: five seconds.
    pub stop_grace: Option<Duration>,
}

/// What an agent may do by itself, beside the tools that we offer it. Each tier includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Nothing.
    None,
    /// Read and search files of its folder.
    #[default]
    ReadOnly,
    /// Write files of its folder.
    Write,
    /// Run commands and reach the network.
    Full,
}

impl Tier {
    pub fn as_str(self) -> &'static str {
        match self {
            Tier::None => "none",
            Tier::ReadOnly => "read_only",
            Tier::Write => "write",
            Tier::Full => "full",
        }
    }
}
