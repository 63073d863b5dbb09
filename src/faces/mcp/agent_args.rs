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
    /// `next` of the answer before, whose text was cut there.
    pub cursor: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadThreadArgs {
    /// Whole id of the thread.
    pub id: String,
    /// Most letters and most runs, the newest, 1 to 100. Default: 20.
    pub limit: Option<u32>,
    /// `next` of the answer before, which was cut there.
    pub cursor: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchMailArgs {
    /// Id of the persona whose mail is searched.
    pub persona: String,
    /// Words of which some must occur in subject, sender or text.
    pub query: Option<String>,
    /// Words that must all occur in the sender.
    pub from: Option<String>,
    /// Words that must all occur in the subject.
    pub subject: Option<String>,
    /// Only what was received then or later, such as `2026-11-20T00:00:00Z`.
    pub since: Option<String>,
    /// Only what was received before then.
    pub before: Option<String>,
    /// Most letters of a page, 1 to 50. Default: 20. A page may hold fewer.
    pub limit: Option<u32>,
    /// `next` of the page before.
    pub cursor: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListRunsArgs {
    /// Id of the persona.
    pub persona: String,
    /// Only runs in this state: `queued`, `running`, `waiting_approval`, `waiting_retry`, `succeeded`, `failed` or `cancelled`.
    pub state: Option<String>,
    /// Most runs of a page, 1 to 100. Default: 20. A page may hold fewer.
    pub limit: Option<u32>,
    /// `next` of the page before.
    pub cursor: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainRunArgs {
    /// Whole id of the run.
    pub id: String,
    /// Whole texts and values, not only their beginnings. Default: false.
    #[serde(default)]
    pub full: bool,
    /// `next` of the answer before, which was cut there.
    pub cursor: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContextOfArgs {
    /// Whole id of the run.
    pub id: String,
    /// Number of the turn whose request is shown. Default: 0, the first.
    #[serde(default)]
    pub turn: u32,
    /// `next` of the answer before, which was cut there.
    pub cursor: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListScheduleArgs {
    /// Id of a persona. Default: all that may be read.
    pub persona: Option<String>,
    /// `next` of the page before.
    pub cursor: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UsageArgs {
    /// Days that are summed up, 1 to 3660. Default: 30.
    pub days: Option<u32>,
    /// What each sum is of: `day`, `persona`, `model`, `provider`, `thread` or `run`. Default: `persona`.
    pub by: Option<String>,
    /// `next` of the page before.
    pub cursor: Option<String>,
}

/// Returns what it is for, as agents read it.
fn words(tool: AgentTool) -> &'static str {
    match tool {
        AgentTool::Ask => {
            "Put a question to a persona and wait for its answer. Returns JSON with `answer`, `state`, `run` and `thread`."
        }
        AgentTool::ListThreads => {
            "List threads of a persona, the last active first, in pages. Returns JSON with `threads` and `next`."
        }
        AgentTool::ReadRun => {
            "Read what became of a run. Returns JSON with its `state`, and its `answer` if there is one."
        }
        AgentTool::ReadThread => {
            "Read the letters and the runs of a thread, oldest first. Returns JSON with `letters`, `runs`, `more` if there are older ones, and `next` if it was cut."
        }
        AgentTool::SearchMail => {
            "Search the letters of a persona; without words, the newest. Returns JSON with `letters`, each with a `snippet` and its `thread`, and `next`."
        }
        AgentTool::ListRuns => {
            "List runs of a persona, the newest first, in pages. Returns JSON with `runs` and `next`."
        }
        AgentTool::ExplainRun => {
            "Tell what happened in a run and why: its letter, context, model calls, tool calls with the rules that decided on them, errors, mails. Returns JSON with `text`, and `next` if it was cut."
        }
        AgentTool::ContextOf => {
            "Show what the model was told in a turn of a run, and where each part came from. Returns JSON with `text`, and `next` if it was cut."
        }
        AgentTool::ListSchedule => {
            "List what personas do by the clock, and when next. Returns JSON with `schedule` and `next`."
        }
        AgentTool::Usage => {
            "Sum up calls, tokens and cost of the last days. Returns JSON with `sums` and `next`."
        }
    }
}

fn schema(tool: AgentTool) -> schemars::Schema {
    match tool {
        AgentTool::Ask => schemars::schema_for!(AskArgs),
        AgentTool::ListThreads => schemars::schema_for!(ListThreadsArgs),
        AgentTool::ReadRun => schemars::schema_for!(ReadRunArgs),
        AgentTool::ReadThread => schemars::schema_for!(ReadThreadArgs),
        AgentTool::SearchMail => schemars::schema_for!(SearchMailArgs),
        AgentTool::ListRuns => schemars::schema_for!(ListRunsArgs),
        AgentTool::ExplainRun => schemars::schema_for!(ExplainRunArgs),
        AgentTool::ContextOf => schemars::schema_for!(ContextOfArgs),
        AgentTool::ListSchedule => schemars::schema_for!(ListScheduleArgs),
        AgentTool::Usage => schemars::schema_for!(UsageArgs),
    }
}

/// Returns the tool as agents see it.
pub fn described(tool: AgentTool) -> Tool {
    let schema = match Value::from(schema(tool)) {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    };
    let hints = ToolAnnotations::new().read_only(tool != AgentTool::Ask);
    Tool::new(tool.name(), words(tool), schema).with_annotations(hints)
}

/// Reads arguments. Errors: what is wrong with them, for the agent.
pub fn read_args<T: DeserializeOwned>(args: JsonObject) -> Result<T, String> {
    serde_json::from_value(Value::Object(args)).map_err(|error| format!("bad arguments: {error}"))
}
