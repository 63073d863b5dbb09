//! Settings of a command-line agent.

use crate::config::values::section::*;
use std::path::{Path, PathBuf};

/// Working folder of agents, below their persona's folder: the only one in which agents, and tools
/// that write files, may write.
pub const AGENT_FOLDER: &str = "workspace";
/// Folder below [`AGENT_FOLDER`] with one folder for each group of correspondents.
pub const CORRESPONDENTS_FOLDER: &str = "correspondents";
/// Entries of a persona's folder for its owner alone: its configuration, its responsibilities,
/// its memory, of which each run is shown the lines that are for it, and what was written in runs of
/// the owner.
const OWNERS: [&str; 5] = [
    "persona.json",
    "responsibilities",
    "active.md",
    ".memory",
    AGENT_FOLDER,
];

/// Reports whether a path below a persona's folder is one that no agent may change, in any tier.
/// Another spelling of the workspace is another folder, or the same one where the file system
/// ignores case; then it is only refused.
pub fn is_protected(path: &Path) -> bool {
    let first = path.components().next();
    first.is_none_or(|first| first.as_os_str() != AGENT_FOLDER)
}

/// Reports whether the first name of a path below a persona's folder is for its owner alone. Case is
/// ignored, as some file systems do.
pub fn is_for_owner_alone(first: &str) -> bool {
    OWNERS.iter().any(|name| first.eq_ignore_ascii_case(name))
}

/// Tiers up to which an agent's own program keeps to its folders. Beyond them only a sandbox of the
/// operating system could.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentBounds {
    /// Highest tier at which it cannot be told to write elsewhere.
    pub writes: Tier,
    /// As `writes`, where a server that runs already is used (`base_url`).
    pub writes_of_server: Tier,
    /// Highest tier at which it cannot be told to read elsewhere and to answer with it.
    pub reads: Tier,
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
    /// Highest tier in runs of others than the owner: `None` where nothing bounds what the agent
    /// reads.
    pub tier_for_others: Tier,
    /// `true`: no tier is refused for want of a sandbox.
    pub accept_unsandboxed: bool,
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
    /// Reads and searches files of its persona's folder.
    #[default]
    ReadOnly,
    /// Writes files in its workspace.
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
