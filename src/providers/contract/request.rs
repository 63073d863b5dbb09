//! Request of one provider round trip, with the parts that not every provider reads: the form of
//! the answer, the parameters to leave out, and the options of an agent.

use crate::config::Tier;
use crate::domain::TokenUsage;
use crate::providers::contract::message::Message;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use std::ops::Deref;
use std::sync::Arc;

/// One provider round trip, before any vendor's dialect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    pub model: String,
    /// System sections in order; adapters join or mark them as the vendor requires.
    pub system: Vec<String>,
    /// Normalised history: roles alternate, starting with the user; every call has exactly one
    /// result.
    pub messages: Vec<Message>,
    /// Number of the first messages that are the past of the thread: its next letter has them before
    /// its own, so a vendor's cache of them is of use.
    #[serde(default, skip_serializing_if = "is_none")]
    pub past_messages: usize,
    /// Key of the thread, for vendors that send requests of one key to the server that has their beginning in its cache. It tells
    /// nothing about the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_key: Option<String>,
    pub tools: Vec<ToolSpec>,
    pub tool_choice: ToolChoice,
    pub max_output_tokens: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// Schema of the answer, which must be JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputSchema>,
    /// Parameters that this provider has refused before: left out, or sent in their older form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<Parameter>,
    /// Options of a provider that owns its loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentOptions>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    Auto,
    /// The model must answer with text: the final turn at a limit.
    None,
}

/// One tool as the model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    pub input_schema: ToolSchema,
}

/// JSON Schema of a tool's arguments, an object, beside its text: every request has it, and none writes the tree anew.
/// A clone is cheap.
#[derive(Debug, Clone)]
pub struct ToolSchema(Arc<(Value, Option<Box<RawValue>>)>);

impl From<Value> for ToolSchema {
    fn from(schema: Value) -> Self {
        let text = serde_json::value::to_raw_value(&schema).ok();
        Self(Arc::new((schema, text)))
    }
}

impl Deref for ToolSchema {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0.0
    }
}

impl PartialEq for ToolSchema {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || **self == **other
    }
}

impl Serialize for ToolSchema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0.1 {
            Some(text) => text.serialize(serializer),
            None => self.0.0.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ToolSchema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from)
    }
}

/// Form of the final answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputSchema {
    /// Name of the schema: `^[a-zA-Z0-9_-]{1,64}$`.
    pub name: String,
    /// JSON Schema object.
    pub schema: Value,
}

impl OutputSchema {
    /// Renders the requirement as text for a prompt, where the vendor's parameter cannot be used.
    pub fn in_words(&self) -> String {
        format!(
            "Your final answer must be JSON of this schema, and nothing else: {}",
            self.schema
        )
    }
}

fn is_none(count: &usize) -> bool {
    *count == 0
}

/// A part of the request that a provider may refuse; without it the request may be accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Parameter {
    Temperature,
    /// Usage within the stream (`stream_options`).
    StreamUsage,
    /// Name of the output limit: without it, the other of `max_completion_tokens` and `max_tokens`
    /// is sent.
    MaxCompletionTokens,
    /// `strict` of tools and schemas.
    Strict,
    /// Schema of the answer: it stands in the prompt instead.
    OutputSchema,
    /// Thinking effort.
    Reasoning,
    /// Permission to call tools (`tool_choice`).
    ToolChoice,
    /// Reasoning before a call, sent back with it.
    SentReasoning,
    /// Calls of another model, without its reasoning: a blank is sent in its place.
    BareCalls,
    /// Images: a sentence is sent in the place of each.
    Images,
    /// PDF files: as images.
    Pdf,
    /// Key of the thread (`prompt_cache_key`).
    PromptCacheKey,
    /// Tools: none is offered, and earlier calls are described in words.
    Tools,
}

/// Options of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentOptions {
    pub session: AgentSession,
    pub tier: Tier,
    /// Folder of the persona, in which the agent may read; absolute.
    pub folder: String,
    /// Working folder, relative to `folder`: the only one in which the agent may write. Empty for a
    /// test call, and in records of earlier versions: the folder itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub workspace: String,
    pub turns_max: u32,
    pub tool_calls_max: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros_max: Option<i64>,
    /// Server that offers our own tools (`attache mcp serve --run ID`); `None` where the persona
    /// has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_server: Option<ToolServer>,
}

impl AgentOptions {
    /// Returns the absolute path of the folder in which the agent works.
    pub fn working_folder(&self) -> String {
        match self.workspace.as_str() {
            "" => self.folder.clone(),
            workspace => format!("{}/{workspace}", self.folder),
        }
    }
}

/// Conversation of the agent's own that a call is part of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentSession {
    /// A new session; agents that let us choose take this UUID.
    New(String),
    /// Resumes this session: of the request's messages, the agent reads only those after the last
    /// answer. `used`: usage of the session so far, where the last answer reported it.
    Resume {
        id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        used: Option<TokenUsage>,
    },
}

/// Name of our own tool server: agents call its tools `mcp__attache__send_email`, and adapters that
/// see them under another name report them so.
pub const TOOL_SERVER_NAME: &str = "attache";

/// A program that offers tools to an agent over stdio (Model Context Protocol).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolServer {
    /// Prefix that agents give its tools, for example `mcp__attache__send_email`.
    pub name: String,
    /// Absolute path of the program.
    pub program: String,
    pub args: Vec<String>,
}
