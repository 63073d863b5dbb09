//! The parts of a request that not every provider reads: the form of the answer, what to leave out, and how an agent may
//! work.

use super::contract::TokenUsage;
use crate::config::Tier;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the final answer must be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputSchema {
    /// `^[a-zA-Z0-9_-]{1,64}$`
    pub name: String,
    /// A JSON Schema object.
    pub schema: Value,
}

impl OutputSchema {
    /// The same demand in words, for a prompt, where the vendor's own way cannot be gone.
    pub fn in_words(&self) -> String {
        format!("Your final answer must be JSON of this schema, and nothing else: {}", self.schema)
    }
}

/// A part of the request without which it may be accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Parameter {
    Temperature,
    /// Usage within the stream (`stream_options`).
    StreamUsage,
    /// The name of the output limit: the other of `max_completion_tokens` and `max_tokens` is said.
    MaxCompletionTokens,
    /// `strict` of tools and schemas.
    Strict,
    /// The schema of the answer: it stands in the prompt instead.
    OutputSchema,
    /// How hard to think.
    Reasoning,
    /// Whether tools may be called (`tool_choice`).
    ToolChoice,
    /// What was thought before a call, sent back with it.
    SentReasoning,
    /// Calls without what was thought before them, as another model made them: a blank stands for it.
    BareCalls,
}

/// How an agent may work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentTerms {
    pub session: Session,
    pub tier: Tier,
    /// Where it works; absolute.
    pub folder: String,
    pub turns_max: u32,
    pub tool_calls_max: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros_max: Option<i64>,
    /// The server that offers our own tools (`attache mcp serve --run ID`); `None` where the persona has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_server: Option<ToolServer>,
}

/// Which conversation of the agent's own a call is part of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Session {
    /// A new one; agents that let us choose take this UUID.
    New(String),
    /// This one goes on: of the request's messages, the agent reads only what came after the last answer.
    /// `used`: the session's sum so far, where the last answer gave one.
    Resume {
        id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        used: Option<TokenUsage>,
    },
}

/// What our own tool server is called: agents call its tools `mcp__attache__send_email`, and adapters that see them under
/// another name report them so.
pub const TOOL_SERVER_NAME: &str = "attache";

/// A program that offers tools to an agent over stdio (Model Context Protocol).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolServer {
    /// What agents prefix its tools with, for example `mcp__attache__send_email`.
    pub name: String,
    /// Absolute path.
    pub program: String,
    pub args: Vec<String>,
}
