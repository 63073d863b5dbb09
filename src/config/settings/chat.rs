//! In what a server of OpenAI's chat completions differs from OpenAI's own: one switch for each known habit.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a server wants otherwise; all off is OpenAI's own way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ChatSwitches {
    /// `max_tokens` instead of `max_completion_tokens`.
    pub legacy_max_tokens: bool,
    /// No `stream_options`.
    pub no_stream_usage: bool,
    /// No `temperature`.
    pub no_temperature: bool,
    /// `store: false`: the vendor keeps nothing of the conversation.
    pub no_store: bool,
    /// The system prompt has the role `developer`.
    pub developer_role: bool,
    /// A tool's result also has the tool's name.
    pub named_tool_results: bool,
    /// The assistant speaks between the results of tools and the user's next message.
    pub assistant_after_tools: bool,
    /// `tools: []` where tools were called before and none is offered now, instead of a description of those.
    pub empty_tools: bool,
    /// `strict: true` with tools and schemas.
    pub strict_schemas: bool,
    pub reasoning_effort: Option<Effort>,
    pub structured_output: StructuredOutput,
    /// OpenRouter: whether vendors that keep what they are sent may be chosen.
    pub data_collection: Option<DataCollection>,
    /// OpenRouter: the site that is named as the origin of the calls.
    pub attribution_url: Option<String>,
}

/// How hard a model thinks before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    Low,
    Medium,
    High,
}

/// How a server is told that the answer must be JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StructuredOutput {
    /// By a schema.
    #[default]
    JsonSchema,
    /// That it must be JSON; the schema stands in the prompt.
    JsonObject,
    /// Not at all; the schema stands in the prompt.
    None,
}

/// Whether what is sent may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DataCollection {
    Allow,
    Deny,
}
