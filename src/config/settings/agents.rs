//! What a command-line agent is told about itself.

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The one folder, below its persona's, in which an agent of tier `write` may write.
pub const AGENT_FOLDER: &str = "workspace";
/// What of a persona's folder no agent may change, whatever its tier. In any case, because some file systems know no other.
const PROTECTED: [&str; 7] =
    ["persona.md", "persona.json", "active.md", ".memory", "responsibilities", "schemas", "knowledge"];

/// Whether a path below a persona's folder is one of those that no agent may change.
pub fn is_protected(path: &Path) -> bool {
    let first = path.components().next().map(|part| part.as_os_str().to_string_lossy().to_ascii_lowercase());
    first.is_some_and(|first| PROTECTED.contains(&first.as_str()))
}

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
    /// Write files below `workspace/` of its folder.
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
