//! Contract between the harness and every language model or command-line agent.
//!
//! Typed blocks rather than one vendor's messages, because signatures, stop reasons and error flags
//! must survive the round trip. The serde forms here are what `run_turns.response_json` holds.

use crate::config::Tier;
use crate::domain::{ErrorClass, Timestamp, Usage};
pub use crate::providers::contract::capabilities::{
    Capabilities, LoopOwner, ProviderCheck, Structured,
};
pub use crate::providers::contract::capture::{Capture, CapturedCall, Form};
pub use crate::providers::contract::options::{
    AgentOptions, AgentSession, OutputSchema, Parameter, TOOL_SERVER_NAME, ToolServer,
};
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Encoder of an adapter's requests. Pure: this trait alone can reach no server and needs no key.
pub trait RequestEncoder: Send + Sync {
    /// Returns the name used in `configs/inference.json`.
    fn id(&self) -> &str;
    /// Returns the capabilities for a model, known without a request.
    fn capabilities(&self, _model: &str) -> Capabilities {
        Capabilities::MODEL
    }
    /// Returns the tier that an agent needs to call this tool of its own; an unknown tool needs
    /// `Full`.
    fn needs(&self, _name: &str, _args: &ToolArgs) -> Tier {
        Tier::Full
    }
    /// Reports whether the persona's own tools reach its model.
    fn lists_our_tools(&self) -> bool {
        true
    }
    /// Reports whether an agent stops when the stream of its call is dropped; else it must be asked
    /// to end.
    fn ends_when_dropped(&self) -> bool {
        true
    }
    /// Encodes the exact body of a request: equal requests have equal bodies. Errors: class
    /// `Unsupported`, `BadRequest`, or `ContextOverflow` where a server would truncate the input
    /// silently.
    fn encode_request(&self, request: &Request) -> Result<String, ProviderError>;
}

/// Adapter to one language model or command-line agent.
///
/// An adapter translates; it never retries, never stores, never decides. The caller commits the
/// bytes that [`RequestEncoder::encode_request`] returned and then hands these bytes to
/// [`Provider::stream`], so what is stored is what was sent (for an agent: its arguments and what
/// it reads on stdin, as one JSON object). The stream yields `Started` first and ends with exactly
/// one `Finished` or one `Err`; a connection or a process that ends early is an error, never a
/// silent success. Dropping the stream closes the connection, or kills the whole process group.
pub trait Provider: RequestEncoder {
    /// Returns the URL of the server, without secrets, or the program of the agent.
    fn endpoint(&self) -> Option<String> {
        None
    }
    /// Checks whether the provider is available, without a model call: binary and version, key
    /// accepted, models. Errors: those of a call.
    fn check(&self, _context: CallContext) -> BoxFuture<'_, Result<ProviderCheck, ProviderError>> {
        Box::pin(async { Ok(ProviderCheck::default()) })
    }
    /// Sends a body made by [`RequestEncoder::encode_request`].
    fn stream<'a>(
        &'a self,
        encoded: &'a str,
        context: CallContext,
    ) -> BoxStream<'a, Result<Event, ProviderError>>;
}

/// Limits and identity of a call; nothing here changes the request.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// Ends the call with class `Cancelled`.
    pub cancel: CancellationToken,
    /// Time until the call fails with class `Timeout`, headers and body together.
    pub deadline: Duration,
    /// Longest silence between two pieces of the response, after which it fails with class
    /// `Timeout`.
    pub idle: Duration,
    /// Id of the calling run, for the scripted provider's per-run cursor and for logs.
    pub run_id: String,
    /// Index of the turn in its run, counted from 0.
    pub turn_index: u32,
    /// Model of the request, for vendors that have it in the URL; equal to the body's.
    pub model: String,
    /// Start of the call, for waits that a provider gives as an instant.
    pub now: Timestamp,
    /// Recorder of the bytes of the call, both ways; `None`: no capture was requested.
    pub capture: Option<Arc<Capture>>,
}

/// One provider round trip, before any vendor's dialect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    pub model: String,
    /// System sections in order; adapters join or mark them as the vendor requires.
    pub system: Vec<String>,
    /// Normalised history: roles alternate, starting with the user; every call has exactly one
    /// result.
    pub messages: Vec<Message>,
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

/// One tool as the model sees it. `input_schema` is a JSON Schema object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    pub input_schema: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    User,
    Assistant,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    pub role: Role,
    pub blocks: Vec<Block>,
}

impl Message {
    pub fn user(text: impl Into<String>) -> Self {
        Self {
            role: Role::User,
            blocks: vec![Block::text(text)],
        }
    }
    pub fn assistant(text: impl Into<String>) -> Self {
        Self {
            role: Role::Assistant,
            blocks: vec![Block::text(text)],
        }
    }
}

/// One piece of a message. Tool results are blocks of a user message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    Text {
        text: String,
    },
    /// Reasoning that must be sent back unchanged to the provider family that made it, and to no
    /// other.
    Thinking {
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider_state: Option<ProviderState>,
    },
    ToolCall {
        /// Our id, unique inside the request; adapters map it to the vendor's.
        id: String,
        name: String,
        args: ToolArgs,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider_state: Option<ProviderState>,
    },
    ToolResult {
        call_id: String,
        name: String,
        /// Result as the model reads it: JSON text.
        content: String,
        is_error: bool,
    },
}

impl Block {
    pub fn text(text: impl Into<String>) -> Self {
        Block::Text { text: text.into() }
    }
}

/// Opaque to us, tagged by the family that may have it back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProviderState {
    /// Name of the family, for example `anthropic`.
    pub family: String,
    /// Model that made it, the only one that may have it back; filled in by the engine, empty in an
    /// adapter.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    pub state: Value,
}

/// Arguments of a tool call. Malformed ones are data: the loop answers them with a failure that the
/// model can correct.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolArgs {
    Object(Map<String, Value>),
    Malformed { raw: String, error: String },
}

/// Deepest nesting of lists and objects in arguments. They are stored inside other values and must
/// be readable again; serde_json reads 128 levels.
const ARGS_DEPTH_MAX: usize = 64;

impl ToolArgs {
    /// Wraps arguments that came as an object.
    pub fn of(args: Map<String, Value>) -> Self {
        if args
            .values()
            .all(|value| nests_within(value, ARGS_DEPTH_MAX - 1))
        {
            return ToolArgs::Object(args);
        }
        let error = format!("nested deeper than {ARGS_DEPTH_MAX} levels");
        ToolArgs::Malformed {
            raw: Value::Object(args).to_string(),
            error,
        }
    }

    /// Parses a model's text; empty text is an empty object.
    pub fn parse(raw: &str) -> Self {
        if raw.trim().is_empty() {
            return ToolArgs::Object(Map::new());
        }
        match serde_json::from_str::<Value>(raw) {
            Ok(Value::Object(map)) => ToolArgs::of(map),
            Ok(_) => ToolArgs::Malformed {
                raw: raw.to_owned(),
                error: "not a JSON object".to_owned(),
            },
            Err(error) => ToolArgs::Malformed {
                raw: raw.to_owned(),
                error: error.to_string(),
            },
        }
    }
}

fn nests_within(value: &Value, levels: usize) -> bool {
    match (value, levels.checked_sub(1)) {
        (Value::Array(items), Some(left)) => items.iter().all(|item| nests_within(item, left)),
        (Value::Object(members), Some(left)) => {
            members.values().all(|member| nests_within(member, left))
        }
        (Value::Array(_) | Value::Object(_), None) => false,
        _ => true,
    }
}

/// Event of a provider call.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// First event. `model` is the model that serves.
    Started {
        provider_request_id: Option<String>,
        model: String,
    },
    TextDelta(String),
    ThinkingDelta(String),
    /// A whole tool call, its arguments complete.
    ToolCall {
        id: String,
        name: String,
        args: ToolArgs,
    },
    /// Id by which an agent's conversation can be resumed.
    Session(String),
    /// Call of an agent to a tool of its own; we record it and may stop the agent.
    ObservedCall {
        id: String,
        name: String,
        args: ToolArgs,
    },
    /// Result of an observed call; `content` is what the agent's model reads.
    ObservedResult {
        id: String,
        content: String,
        is_error: bool,
    },
    /// Call that the agent's own rules refused.
    Denied {
        name: String,
        args: ToolArgs,
        reason: String,
    },
    /// Answer of a model inside an agent's call; sent where the agent does not enforce our bounds
    /// itself.
    Round {
        /// Usage of that answer.
        usage: TokenUsage,
        /// `true`: the agent will ask a model again.
        goes_on: bool,
    },
    /// Message for the log that changes nothing: a retry inside the agent, a compaction.
    Notice(String),
    /// Last event, with everything folded.
    Finished(Response),
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Response {
    pub blocks: Vec<Block>,
    pub stop: FinishReason,
    pub usage: TokenUsage,
    pub model_served: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_request_id: Option<String>,
    /// Usage by model, where one call used several; empty when all of `usage` is `model_served`'s.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub breakdown: Vec<ModelUsage>,
    /// Usage of the agent's whole session, this call included, where the agent reports only that
    /// sum; `usage` is then what this call added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_usage: Option<TokenUsage>,
}

/// Usage of one model within a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelUsage {
    pub model: String,
    pub usage: TokenUsage,
}

impl Response {
    /// Returns all text blocks, joined.
    pub fn text(&self) -> String {
        let texts = self.blocks.iter().filter_map(|b| match b {
            Block::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("")
    }
    /// Returns the tool calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = (&str, &str, &ToolArgs)> {
        self.blocks.iter().filter_map(|b| match b {
            Block::ToolCall { id, name, args, .. } => Some((id.as_str(), name.as_str(), args)),
            _ => None,
        })
    }
}

/// Reason why the model stopped, in one catalogue of names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    EndTurn,
    ToolUse,
    MaxTokens,
    StopSequence,
    ContextExhausted,
    Refused,
    /// The vendor paused a long turn; send the conversation again unchanged.
    Paused,
    /// An agent reached a bound that we gave it.
    LimitTurns,
    LimitCost,
    /// We stopped an agent at a bound of the run.
    LimitToolCalls,
    LimitToolFailures,
    /// The model wrote a tool call that its own vendor could not parse; ask once again.
    MalformedCall,
    Other(String),
}

/// Serde form of [`Usage`], field for field; `None` where the provider reported nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TokenUsage {
    pub input_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    pub output_tokens: u64,
    pub reasoning_tokens: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<i64>,
    /// `true`: the provider reported no tokens; these are our estimates.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

impl TokenUsage {
    /// Adds both; the cost is known if either is.
    #[must_use]
    pub fn plus(self, other: TokenUsage) -> TokenUsage {
        let cost = match (self.cost_micros, other.cost_micros) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        TokenUsage {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            cache_read_tokens: self
                .cache_read_tokens
                .saturating_add(other.cache_read_tokens),
            cache_write_tokens: self
                .cache_write_tokens
                .saturating_add(other.cache_write_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_add(other.reasoning_tokens),
            cost_micros: cost,
            estimated: self.estimated || other.estimated,
        }
    }
}

impl From<TokenUsage> for Usage {
    fn from(u: TokenUsage) -> Self {
        Usage {
            input_tokens: u.input_tokens,
            cache_read_tokens: u.cache_read_tokens,
            cache_write_tokens: u.cache_write_tokens,
            output_tokens: u.output_tokens,
            reasoning_tokens: u.reasoning_tokens,
            cost_micros: u.cost_micros,
        }
    }
}

/// Progress of a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Config,
    BeforeSend,
    BeforeFirstByte,
    MidStream,
}

/// A failed call. `message` has no key, no prompt text and at most 500 characters.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    pub class: ErrorClass,
    pub phase: Phase,
    pub http_status: Option<u16>,
    /// The vendor's own code or type, for example `rate_limit_error`.
    pub provider_code: Option<String>,
    /// Wait that the provider asked for.
    pub retry_after: Option<Duration>,
    /// Provider's own hint whether a retry makes sense (`x-should-retry`).
    pub should_retry: Option<bool>,
    /// Parameter that the provider refuses, when the request may be accepted without it.
    pub refused: Option<Parameter>,
    /// Window of the model in tokens, where an overflow error named it.
    pub window_tokens: Option<u64>,
    /// `true`: an agent had called tools that may have changed something; the call must not simply
    /// be retried.
    pub acted: bool,
    /// Usage of the call before it failed, where it is known.
    pub used: Option<Box<TokenUsage>>,
    pub message: String,
}

impl ProviderError {
    pub fn new(class: ErrorClass, phase: Phase, message: impl Into<String>) -> Self {
        let message: String = message.into();
        let message = message.chars().take(500).collect();
        Self {
            class,
            phase,
            http_status: None,
            provider_code: None,
            retry_after: None,
            should_retry: None,
            refused: None,
            window_tokens: None,
            acted: false,
            used: None,
            message,
        }
    }
}
