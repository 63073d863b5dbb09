//! Settings of a command-line agent.

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The only folder, below its persona's, in which an agent of tier `write` may write.
pub const AGENT_FOLDER: &str = "workspace";
/// Entries of a persona's folder that no agent may change, in any tier. Compared in lower case,
/// because some file systems ignore case.
const PROTECTED: [&str; 7] = [
    "persona.md",
    "persona.json",
    "active.md",
    ".memory",
    "responsibilities",
    "schemas",
    "knowledge",
];

/// Reports whether a path below a persona's folder is one that no agent may change.
pub fn is_protected(path: &Path) -> bool {
    let first = path
        .components()
        .next()
        .map(|part| part.as_os_str().to_string_lossy().to_ascii_lowercase());
    first.is_some_and(|first| PROTECTED.contains(&first.as_str()))
}

/// Settings of one agent.
#[derive(Debug, Clone, Default)]
pub struct AgentSettings {
    /// Path, or a name to look up on `PATH`; `None`: the agent's own name.
    pub binary: Option<String>,
    /// Recorded path of the program, which disables the lookup; for a process that encodes its
    /// requests without starting it.
    pub found: Option<PathBuf>,
    pub tier: Tier,
    /// Complete environment of the program: names and values.
    pub environment: Vec<(String, SecretString)>,
    /// The workspace of the agent's run, by which its leftover processes are found.
    pub workspace: Option<PathBuf>,
    /// Time between the request to end and the kill; `None`: five seconds.
    pub stop_grace: Option<Duration>,
}

/// Permissions of an agent in addition to our tools. Each tier includes the lower tiers.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// No permissions.
    None,
    /// Reads and searches files of its folder.
    #[default]
    ReadOnly,
    /// Writes files below `workspace/` of its folder.
    Write,
    /// Runs commands and reaches the network.
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
