//! Contract between the run loop and every language model or command-line agent.
//!
//! Typed blocks rather than one vendor's messages, because signatures, stop reasons and error flags
//! must survive the round trip.

use crate::config::Tier;
use crate::domain::Timestamp;
pub use crate::domain::TokenUsage;
pub use crate::providers::contract::capabilities::{
    Capabilities, LoopOwner, ProviderCheck, Structured,
};
pub use crate::providers::contract::capture::{Capture, CapturedCall, Form};
pub use crate::providers::contract::content::{
    ContentKinds, FileBytes, FileReference, IMAGE_TOKENS, Image, ImageLimits, PDF_BYTES_MAX,
    PDF_PAGES_MAX, PdfFile,
};
pub use crate::providers::contract::error::{Phase, ProviderError};
pub use crate::providers::contract::message::{Block, Message, ProviderState, Role, ToolArgs};
pub use crate::providers::contract::request::{
    AgentOptions, AgentSession, OutputSchema, Parameter, Request, TOOL_SERVER_NAME, ToolChoice,
    ToolSchema, ToolServer, ToolSpec,
};
pub use crate::providers::contract::response::{FinishReason, ModelUsage, Response};
use crate::providers::contract::substitute;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
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
    /// Encodes the exact body of a request: equal requests have equal bodies. Parts of messages
    /// that the provider does not take are described in words. Errors: class `Unsupported`,
    /// `BadRequest`, or `ContextOverflow` where a server would truncate the input silently.
    fn encode_request(&self, request: &Request) -> Result<String, ProviderError> {
        let mut kinds = self.capabilities(&request.model).content;
        if request.without.contains(&Parameter::Images) {
            kinds.images = None;
        }
        if request.without.contains(&Parameter::Pdf) {
            kinds.pdf = false;
        }
        self.encode(&substitute::request(request, kinds))
    }
    /// Encodes a request whose messages have only parts that [`Capabilities::content`] declares.
    /// Called by [`RequestEncoder::encode_request`] alone. Errors: its own.
    fn encode(&self, request: &Request) -> Result<String, ProviderError>;
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
    /// Key of the request's thread, for a vendor that has it in a header; equal to the request's.
    pub cache_key: Option<String>,
    /// Start of the call, for waits that a provider gives as an instant.
    pub now: Timestamp,
    /// Recorder of the bytes of the call, both ways; `None`: no capture was requested.
    pub capture: Option<Arc<Capture>>,
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
