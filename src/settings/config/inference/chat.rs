//! Forms of OpenAI's API, and deviations of a server from it: one switch for each known deviation.

use crate::config::values::section::*;

/// Deviations of a server; all off is OpenAI's own API.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ChatSwitches {
    pub api: ChatApi,
    /// Send `max_tokens` instead of `max_completion_tokens`.
    pub legacy_max_tokens: bool,
    /// Omit `stream_options`.
    pub no_stream_usage: bool,
    /// Omit `temperature`.
    pub no_temperature: bool,
    /// Send `store: false`: the vendor keeps nothing of the conversation.
    pub no_store: bool,
    /// Give the system prompt the role `developer`.
    pub developer_role: bool,
    /// Send the tool's name with its result.
    pub named_tool_results: bool,
    /// Insert an assistant message between the results of tools and the next user message.
    pub assistant_after_tools: bool,
    /// Send images as parts where the adapter alone would not.
    pub images: bool,
    /// Send the key of the thread where the adapter alone would not.
    pub prompt_cache_key: bool,
    /// Send `tools: []` where tools were called before and none is offered now, instead of their
    /// descriptions.
    pub empty_tools: bool,
    /// Send `strict: true` with tools and schemas.
    pub strict_schemas: bool,
    pub reasoning_effort: Option<Effort>,
    pub structured_output: StructuredOutput,
    /// OpenRouter: permission to choose vendors that keep the data sent to them.
    pub data_collection: Option<DataCollection>,
    /// OpenRouter: URL of the site that is named as the origin of the calls.
    pub attribution_url: Option<String>,
}

/// Form of the API in which a model is asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChatApi {
    /// Chat completions, which every server of OpenAI's dialect has.
    #[default]
    Chat,
    /// The Responses API: reasoning goes back with the calls that it led to, and newer models of
    /// OpenAI are served by nothing else.
    Responses,
}

/// Settings that the Responses API has no place for.
pub const CHAT_ONLY: &[&str] = &[
    "legacy_max_tokens",
    "no_stream_usage",
    "developer_role",
    "named_tool_results",
    "assistant_after_tools",
    "empty_tools",
];

/// Reasoning effort of a model before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    Low,
    Medium,
    High,
}

/// Method by which JSON output is requested.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StructuredOutput {
    /// Sends a JSON schema.
    #[default]
    JsonSchema,
    /// Requires JSON only; the schema is in the prompt.
    JsonObject,
    /// Sends no requirement; the schema is in the prompt.
    None,
}

/// Permission for vendors to keep the data sent to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DataCollection {
    Allow,
    Deny,
}
