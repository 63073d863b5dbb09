//! `mcp_server` in `configs/security.json`: what other agents may ask for over `attache mcp serve`.

use crate::config::values::section::*;
use crate::domain::{PersonaId, Trust};

/// What other agents may ask for over `attache mcp serve`. Without this section they get nothing.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedMcpServerSettings {
    /// Personas that may be asked and read, by their ids.
    personas: Vec<String>,
    /// Tools that are offered.
    #[serde(default = "usual_tools")]
    tools: Vec<AgentTool>,
    /// Trust of a question, by which the policy decides what its run may do.
    #[serde(default)]
    trust: AgentTrust,
    /// What `list_threads`, `read_run` and `read_thread` show; the other tools that read need `all`.
    #[serde(default)]
    reads: AgentReads,
}

/// Tool for other agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentTool {
    /// Puts a question to a persona.
    Ask,
    /// Lists threads.
    ListThreads,
    /// Reads what became of a run.
    ReadRun,
    /// Reads the letters and the runs of a thread.
    ReadThread,
    /// Searches mail. This and all below need `"reads": "all"`.
    SearchMail,
    /// Lists runs.
    ListRuns,
    /// Tells what happened in a run, and why.
    ExplainRun,
    /// Shows what the model was told in a run.
    ContextOf,
    /// Lists what personas do by the clock.
    ListSchedule,
    /// Sums up what was used, and what it cost.
    Usage,
}

impl AgentTool {
    /// Returns the name that agents call.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::ListThreads => "list_threads",
            Self::ReadRun => "read_run",
            Self::ReadThread => "read_thread",
            Self::SearchMail => "search_mail",
            Self::ListRuns => "list_runs",
            Self::ExplainRun => "explain_run",
            Self::ContextOf => "context_of",
            Self::ListSchedule => "list_schedule",
            Self::Usage => "usage",
        }
    }

    /// Tools that read what no agent has asked.
    pub const OF_READERS: [Self; 6] = [
        Self::SearchMail,
        Self::ListRuns,
        Self::ExplainRun,
        Self::ContextOf,
        Self::ListSchedule,
        Self::Usage,
    ];
}

/// Trust of another agent's questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentTrust {
    /// Like a proven stranger: no web, no mail beyond the owners, no question to an owner.
    #[default]
    Unknown,
    /// Like a known contact: the web, `send_allow`, and questions to an owner.
    Contact,
}

/// What other agents may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentReads {
    /// Their own questions, and the answers to them.
    #[default]
    Asked,
    /// All threads and runs of these personas, whatever mail is in them.
    All,
}

/// What other agents may ask for.
#[derive(Debug, Clone, Serialize)]
pub struct McpServerSettings {
    pub personas: Vec<PersonaId>,
    pub tools: Vec<AgentTool>,
    pub trust: AgentTrust,
    pub reads: AgentReads,
}

impl AgentTrust {
    pub fn trust(self) -> Trust {
        match self {
            Self::Unknown => Trust::Unknown,
            Self::Contact => Trust::Contact,
        }
    }
}

fn usual_tools() -> Vec<AgentTool> {
    vec![AgentTool::Ask]
}

/// Resolves the section. Problems go to the context.
pub fn resolve(
    typed: &TypedMcpServerSettings,
    place: &mut CheckPlace<'_, '_>,
) -> McpServerSettings {
    for (key, is_empty) in [
        ("personas", typed.personas.is_empty()),
        ("tools", typed.tools.is_empty()),
    ] {
        if is_empty {
            let hint = "leave the section `mcp_server` out to offer nothing";
            place.refuse(key, "must not be empty", hint);
        }
    }
    let of_readers = |tool: &AgentTool| AgentTool::OF_READERS.contains(tool);
    if typed.reads == AgentReads::Asked
        && let Some(at) = typed.tools.iter().position(of_readers)
    {
        place.refuse(
            &format!("tools/{at}"),
            "reads what no agent has asked, so `reads` must be `all`",
            "add `\"reads\": \"all\"`, or leave the tool out",
        );
    }
    McpServerSettings {
        personas: place.personas(&typed.personas),
        tools: typed.tools.clone(),
        trust: typed.trust,
        reads: typed.reads,
    }
}
