//! One call to a command-line agent: its command line, and the exchange over its standard streams.
//!
//! An adapter brings a [`AgentProtocol`]; framing, limits, time and the end of the process are here.

use crate::config::Tier;
use crate::domain::{ErrorClass, Timestamp};
use crate::providers::agents::transcript;
use crate::providers::child::process::{Ending, Output, Process};
use crate::providers::child::program::Program;
use crate::providers::contract::accumulate::broken;
use crate::providers::contract::capture::{Capture, Form};
use crate::providers::contract::normalise;
use crate::providers::contract::traits::{
    AgentOptions, AgentSession, CallContext, Capabilities, Event, Phase, Provider, ProviderCheck,
    ProviderError, Request, RequestEncoder, Structured, TOOL_SERVER_NAME, TokenUsage, ToolArgs,
};
use crate::providers::transport::guard::Guard;
use crate::text::redact;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

/// Longest prompt, in bytes; a longer history must be trimmed first.
const PROMPT_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Longest argument, in bytes; Linux takes 128 KiB.
const ARGUMENT_BYTES_MAX: usize = 64 * 1024;

/// Everything that decides one call, except the environment: what is stored is what is run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Invocation {
    /// Program, then its arguments. Never text of a letter: every user of the machine can read
    /// arguments.
    pub argv: Vec<String>,
    /// Pieces for standard input: the first is written at once, each other one when the agent asks
    /// for it.
    pub stdin: Vec<String>,
    /// Model of the request.
    pub model: String,
    // The name in recorded requests: a replay compares them byte by byte.
    #[serde(rename = "terms")]
    pub options: AgentOptions,
    /// `true`: the answer must fit a schema that the agent was given.
    #[serde(default)]
    pub structured: bool,
}

impl Invocation {
    /// Encodes the body that is committed. Errors: class `RequestTooLarge` or `BadRequest`.
    pub fn encode(&self) -> Result<String, ProviderError> {
        fits(self.stdin.iter().map(String::len).sum())?;
        if self
            .argv
            .iter()
            .any(|argument| argument.len() > ARGUMENT_BYTES_MAX || argument.contains('\0'))
        {
            let message = "an argument of the agent is too long or holds a null";
            return Err(ProviderError::new(
                ErrorClass::BadRequest,
                Phase::BeforeSend,
                message,
            ));
        }
        normalise::encode(self)
    }
}

/// Checks the length of a prompt. Errors: class `RequestTooLarge`.
pub fn fits(prompt_bytes: usize) -> Result<(), ProviderError> {
    if prompt_bytes <= PROMPT_BYTES_MAX {
        return Ok(());
    }
    let message = "the prompt is longer than 32 MiB; lower `context_tokens_max` of the budget";
    Err(ProviderError::new(
        ErrorClass::RequestTooLarge,
        Phase::BeforeSend,
        message,
    ))
}

/// Returns the agent options of a request. Errors: class `BadRequest`, when there are none: the
/// engine has taken an agent for a model.
pub fn options(request: &Request) -> Result<&AgentOptions, ProviderError> {
    let missing = || {
        let message = "the request does not say how the agent may work";
        ProviderError::new(ErrorClass::BadRequest, Phase::BeforeSend, message)
    };
    request.agent.as_ref().ok_or_else(missing)
}

/// Returns the id of the session to resume. Errors: class `SessionMissing` for an id that no agent
/// can have made: it must never be read as a flag or a path.
pub fn resumed(session: &AgentSession) -> Result<Option<&str>, ProviderError> {
    let AgentSession::Resume { id, .. } = session else {
        return Ok(None);
    };
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if id.starts_with('-') || id.is_empty() || id.len() > 100 || !id.chars().all(legal) {
        let message = format!("`{id}` is not the id of a session");
        return Err(ProviderError::new(
            ErrorClass::SessionMissing,
            Phase::BeforeSend,
            message,
        ));
    }
    Ok(Some(id))
}

/// Returns the usage of the session before this call.
pub fn used_before(session: &AgentSession) -> TokenUsage {
    match session {
        AgentSession::Resume { used, .. } => used.unwrap_or_default(),
        AgentSession::New(_) => TokenUsage::default(),
    }
}

/// Reader of one agent's output. No I/O, no time: lines decide everything.
pub trait AgentDecoder: Send {
    /// Handles one line of standard output. Errors: class `Protocol` for a line that cannot be
    /// read, or the error that the agent reported.
    fn line(&mut self, line: &str) -> Result<Reaction, ProviderError>;
    /// Returns the text to write before the agent is stopped.
    fn final_turn(&mut self) -> Option<String> {
        None
    }
    /// Returns the remaining events after the program has ended; the last is `Finished`. Errors:
    /// the agent's own, or the reason why its output is no complete answer.
    fn end(&mut self, ending: &Ending) -> Result<Vec<Event>, ProviderError>;
}

/// Effects of a line.
#[derive(Debug, Default)]
pub struct Reaction {
    pub events: Vec<Event>,
    /// Text for standard input.
    pub stdin: String,
    /// `true`: the agent may be given the next piece of its standard input.
    pub next_piece: bool,
    /// `true`: the agent has sent its last line and gets a grace period to end.
    pub is_over: bool,
}

impl From<Vec<Event>> for Reaction {
    fn from(events: Vec<Event>) -> Self {
        Self {
            events,
            ..Self::default()
        }
    }
}

/// Parses one line as JSON; `None` for output outside the protocol. Errors: class `Protocol` for a
/// broken object.
pub fn object(line: &str) -> Result<Option<Value>, ProviderError> {
    if !line.trim_start().starts_with('{') {
        return Ok(None);
    }
    serde_json::from_str(line)
        .map(Some)
        .map_err(|error| broken(format!("a line is not JSON: {error}")))
}

/// Particulars of one agent with a line protocol; the rest is common to all agents.
pub trait AgentProtocol: Send + Sync {
    /// Returns the name of the adapter.
    fn id(&self) -> &'static str;
    fn capabilities(&self) -> Capabilities;
    /// As [`RequestEncoder::lists_our_tools`].
    fn lists_our_tools(&self) -> bool {
        true
    }
    /// As [`RequestEncoder::needs`].
    fn needs(&self, name: &str) -> Tier;
    /// Returns the program and its arguments; the request is normalised.
    fn argv(
        &self,
        program: String,
        request: &Request,
        options: &AgentOptions,
    ) -> Result<Vec<String>, ProviderError>;
    /// Returns the pieces for standard input: the whole prompt, instructions first.
    fn stdin(&self, request: &Request, options: &AgentOptions) -> Vec<String> {
        vec![transcript::prompt(request, &options.session, true)]
    }
    fn decoder(&self, invocation: &Invocation, now: Timestamp) -> Box<dyn AgentDecoder>;
}

/// A program that is an agent.
pub struct Agent<S> {
    /// Name in the configuration.
    pub name: String,
    pub program: Program,
    pub protocol: S,
}

impl<S: AgentProtocol> RequestEncoder for Agent<S> {
    fn id(&self) -> &str {
        &self.name
    }

    fn capabilities(&self, _model: &str) -> Capabilities {
        self.protocol.capabilities()
    }

    fn lists_our_tools(&self) -> bool {
        self.protocol.lists_our_tools()
    }

    fn needs(&self, name: &str, _args: &ToolArgs) -> Tier {
        self.protocol.needs(name)
    }

    fn encode(&self, request: &Request) -> Result<String, ProviderError> {
        let options = options(request)?;
        let request = normalise::request(request, self.protocol.id())?;
        let is_bound = self.protocol.capabilities().structured == Structured::Native;
        let invocation = Invocation {
            argv: self.protocol.argv(self.program.path(), &request, options)?,
            stdin: self.protocol.stdin(&request, options),
            model: request.model.clone(),
            options: options.clone(),
            structured: is_bound && request.output.is_some(),
        };
        invocation.encode()
    }
}

impl<S: AgentProtocol> Provider for Agent<S> {
    fn endpoint(&self) -> Option<String> {
        Some(self.program.path())
    }

    fn check(&self, _context: CallContext) -> BoxFuture<'_, Result<ProviderCheck, ProviderError>> {
        Box::pin(async {
            self.program
                .version()
                .await
                .map_err(|error| self.without_secrets(error))
        })
    }

    /// Runs an encoded [`Invocation`]. Dropping the stream kills the agent and all processes that
    /// it started.
    fn stream<'a>(
        &'a self,
        encoded: &'a str,
        context: CallContext,
    ) -> BoxStream<'a, Result<Event, ProviderError>> {
        let opened = stream::once(async move { self.open(encoded, &context) });
        let events = opened.flat_map(|opened| match opened {
            Ok(call) => stream::unfold(call, AgentCall::next).fuse().boxed(),
            Err(error) => stream::once(std::future::ready(Err(error))).boxed(),
        });
        events
            .map(|event| event.map_err(|error| self.without_secrets(error)))
            .boxed()
    }
}

impl<S: AgentProtocol> Agent<S> {
    fn open(&self, encoded: &str, context: &CallContext) -> Result<AgentCall, ProviderError> {
        let invocation: Invocation = serde_json::from_str(encoded)
            .map_err(|error| broken(format!("the body is no invocation: {error}")))?;
        let (guard, capture) = (Guard::start(context), context.capture.clone());
        if let Some(capture) = &capture {
            capture.sent(encoded);
            capture.answering(Form::Lines);
        }
        let decoder = self.protocol.decoder(&invocation, context.now);
        let args = invocation.argv.get(1..).unwrap_or_default();
        let mut process = self
            .program
            .start(args, Path::new(&invocation.options.working_folder()))?;
        let mut pieces: VecDeque<String> = invocation.stdin.into();
        process.send(&pieces.pop_front().unwrap_or_default());
        let keeps_open = !pieces.is_empty();
        if !keeps_open {
            process.close_stdin();
        }
        let (ready, phase) = (VecDeque::new(), Phase::BeforeFirstByte);
        Ok(AgentCall {
            process,
            decoder,
            guard,
            capture,
            pieces,
            ready,
            phase,
            over: false,
        })
    }

    fn without_secrets(&self, error: ProviderError) -> ProviderError {
        let message = self
            .program
            .secrets()
            .fold(error.message, |text, secret| redact::exact(&text, secret));
        ProviderError {
            message: redact::key_shapes(&message),
            ..error
        }
    }
}

struct AgentCall {
    process: Process,
    decoder: Box<dyn AgentDecoder>,
    guard: Guard,
    capture: Option<Arc<Capture>>,
    /// Pieces still to be written, each when the agent asks for it.
    pieces: VecDeque<String>,
    ready: VecDeque<Event>,
    phase: Phase,
    /// `true`: a terminal event was yielded.
    over: bool,
}

impl AgentCall {
    async fn next(mut self) -> Option<(Result<Event, ProviderError>, Self)> {
        loop {
            if self.over {
                return None;
            }
            if let Some(event) = self.ready.pop_front() {
                self.over = matches!(event, Event::Finished(_));
                return Some((Ok(event), self));
            }
            if let Err(error) = self.read().await {
                self.over = true;
                self.process.stop().await;
                return Some((Err(error), self));
            }
        }
    }

    async fn read(&mut self) -> Result<(), ProviderError> {
        let output = match self.guard.wait(self.phase, self.process.next()).await {
            Ok(output) => output?,
            Err(ended) => {
                let words = self.decoder.final_turn();
                self.process.send(&words.unwrap_or_default());
                return Err(ended);
            }
        };
        self.phase = Phase::MidStream;
        match output {
            Output::Line(line) => {
                if let Some(capture) = &self.capture {
                    capture.received(line.as_bytes());
                    capture.received(b"\n");
                }
                let reaction = self.decoder.line(&line)?;
                self.ready.extend(reaction.events);
                self.process.send(&reaction.stdin);
                if reaction.next_piece {
                    self.process
                        .send(&self.pieces.pop_front().unwrap_or_default());
                }
                if reaction.is_over {
                    self.process.dismiss();
                }
            }
            Output::End(ending) => self.ready.extend(self.decoder.end(&ending)?),
        }
        Ok(())
    }
}

/// Reports whether a tool is one of ours, by the name under which adapters report it.
pub fn is_ours(name: &str) -> bool {
    let rest = name
        .strip_prefix("mcp__")
        .and_then(|name| name.strip_prefix(TOOL_SERVER_NAME));
    rest.is_some_and(|rest| rest.starts_with("__"))
}

/// Returns the text at a key; empty where the value is no text.
pub fn text_at<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a call's arguments as an agent reports them: an object, or none.
pub fn args_at(value: &Value, key: &str) -> ToolArgs {
    match value.get(key) {
        Some(Value::Object(map)) => ToolArgs::from_object(map.clone()),
        None | Some(Value::Null) => ToolArgs::Object(Map::new()),
        Some(other) => ToolArgs::parse(&other.to_string()),
    }
}

/// Converts dollars, as vendors write them, to micro-dollars; `as` saturates.
pub fn micros(dollars: &Value) -> Option<i64> {
    dollars
        .as_f64()
        .filter(|dollars| *dollars >= 0.0)
        .map(|dollars| (dollars * 1e6).round() as i64)
}

/// Flattens a tool's result: text, or blocks of which only the text is kept.
pub fn flat_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let text = |block: &Value| match text_at(block, "type") {
                "text" => text_at(block, "text").to_owned(),
                kind => format!("[{kind}]"),
            };
            blocks.iter().map(text).collect::<Vec<_>>().join("\n")
        }
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
