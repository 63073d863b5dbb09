//! Arguments of the tools for other agents, and what these are told of them.

use crate::config::AgentTool;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskArgs {
    /// Id of the persona.
    pub persona: String,
    /// The question.
    pub text: String,
    /// Thread of an earlier question, to go on with.
    pub thread: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListThreadsArgs {
    /// Id of the persona.
    pub persona: String,
    /// Most threads of a page, 1 to 100. Default: 20. A page may hold fewer.
    pub limit: Option<u32>,
    /// `next` of the page before.
    pub cursor: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadRunArgs {
    /// Whole id of the run.
    pub id: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadThreadArgs {
    /// Whole id of the thread.
    pub id: String,
    /// Most letters and most runs, the newest, 1 to 50. Default: 20.
    pub limit: Option<u32>,
}

impl AgentTool {
    /// Returns the name that agents call.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::ListThreads => "list_threads",
            Self::ReadRun => "read_run",
            Self::ReadThread => "read_thread",
        }
    }
}

/// Returns the tool as agents see it.
pub fn described(tool: AgentTool) -> Tool {
    let (text, schema, is_read_only) = match tool {
        AgentTool::Ask => (
            "Put a question to a persona and wait for its answer. Returns JSON with `answer`, `state`, `run` and `thread`.",
            schemars::schema_for!(AskArgs),
            false,
        ),
        AgentTool::ListThreads => (
            "List threads of a persona, the last active first, in pages. Returns JSON with `threads` and `next`.",
            schemars::schema_for!(ListThreadsArgs),
            true,
        ),
        AgentTool::ReadRun => (
            "Read what became of a run. Returns JSON with its `state`, and its `answer` if there is one.",
            schemars::schema_for!(ReadRunArgs),
            true,
        ),
        AgentTool::ReadThread => (
            "Read the letters and the runs of a thread, oldest first. Returns JSON with `letters`, `runs`, and `more` if there are older ones.",
            schemars::schema_for!(ReadThreadArgs),
            true,
        ),
    };
    let schema = match Value::from(schema) {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    };
    let hints = ToolAnnotations::new().read_only(is_read_only);
    Tool::new(tool.name(), text, schema).with_annotations(hints)
}

/// Reads arguments. Errors: what is wrong with them, for the agent.
pub fn read_args<T: DeserializeOwned>(args: JsonObject) -> Result<T, String> {
    serde_json::from_value(Value::Object(args)).map_err(|error| format!("bad arguments: {error}"))
}
