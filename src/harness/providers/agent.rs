//! One call to a command-line agent: what it is started with, and the conversation over its standard streams.
//!
//! An adapter brings a [`Speaker`]; framing, limits, time and the end of the process are here.

use super::accumulate::broken;
use super::capture::{Capture, Form};
use super::contract::{
    AgentTerms, CallContext, Capabilities, Event, Health, Phase, Provider, ProviderError, Request, Session,
    Structured, TOOL_SERVER_NAME, TokenUsage, ToolArgs, Wire,
};
use super::guard::Guard;
use super::process::{Ending, Output, Process, Program};
use super::{normalise, redact, transcript};
use crate::config::Tier;
use crate::domain::{ErrorClass, Timestamp};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

/// Longest prompt; a longer history is for trimming, not for an agent.
const PROMPT_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Longest argument; Linux takes 128 KiB.
const ARGUMENT_BYTES_MAX: usize = 64 * 1024;

/// All that decides one call, except the environment: what is stored is what is run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Invocation {
    /// The program first. Never a word of a letter: arguments can be read by everybody on the machine.
    pub argv: Vec<String>,
    /// Written to standard input piece by piece: the first at once, the next when the agent asks for it.
    pub stdin: Vec<String>,
    /// As it was asked for.
    pub model: String,
    pub terms: AgentTerms,
    /// The answer must fit a schema that the agent was given.
    #[serde(default)]
    pub structured: bool,
}

impl Invocation {
    /// The body that is committed. Errors: class `RequestTooLarge` or `BadRequest`.
    pub fn wire(&self) -> Result<String, ProviderError> {
        fits(self.stdin.iter().map(String::len).sum())?;
        if self.argv.iter().any(|argument| argument.len() > ARGUMENT_BYTES_MAX || argument.contains('\0')) {
            let message = "an argument of the agent is too long or holds a null";
            return Err(ProviderError::new(ErrorClass::BadRequest, Phase::BeforeSend, message));
        }
        normalise::wire(self)
    }
}

/// Whether an agent is given a prompt of so many bytes. Errors: class `RequestTooLarge`.
pub fn fits(prompt_bytes: usize) -> Result<(), ProviderError> {
    if prompt_bytes <= PROMPT_BYTES_MAX {
        return Ok(());
    }
    let message = "the prompt is longer than 32 MiB; lower `context_tokens_max` of the budget";
    Err(ProviderError::new(ErrorClass::RequestTooLarge, Phase::BeforeSend, message))
}

/// The request's terms. Errors: class `BadRequest`, when there are none: the engine has taken an agent for a model.
pub fn terms(request: &Request) -> Result<&AgentTerms, ProviderError> {
    let missing = || {
        let message = "the request does not say how the agent may work";
        ProviderError::new(ErrorClass::BadRequest, Phase::BeforeSend, message)
    };
    request.agent.as_ref().ok_or_else(missing)
}

/// The id of the session that goes on. Errors: class `SessionMissing` for one that no agent can have made: it must
/// never be read as a flag or a path.
pub fn resumed(session: &Session) -> Result<Option<&str>, ProviderError> {
    let Session::Resume { id, .. } = session else { return Ok(None) };
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if id.starts_with('-') || id.is_empty() || id.len() > 100 || !id.chars().all(legal) {
        let message = format!("`{id}` is not the id of a session");
        return Err(ProviderError::new(ErrorClass::SessionMissing, Phase::BeforeSend, message));
    }
    Ok(Some(id))
}

/// What the session that goes on had used before.
pub fn used_before(session: &Session) -> TokenUsage {
    match session {
        Session::Resume { used, .. } => used.unwrap_or_default(),
        Session::New(_) => TokenUsage::default(),
    }
}

/// One agent's side of the conversation. No I/O, no time: lines decide everything.
pub trait Dialogue: Send {
    /// One line of standard output. Errors: class `Protocol` for what cannot be read, or what the agent reported.
    fn line(&mut self, line: &str) -> Result<Reaction, ProviderError>;
    /// What to write before the agent is stopped.
    fn last_words(&mut self) -> Option<String> {
        None
    }
    /// The program has ended: the remaining events, of which the last is `Finished`. Errors: what the agent reported, or
    /// why its silence cannot stand for an answer.
    fn end(&mut self, ending: &Ending) -> Result<Vec<Event>, ProviderError>;
}

/// What follows from a line.
#[derive(Debug, Default)]
pub struct Reaction {
    pub events: Vec<Event>,
    /// To be written to standard input.
    pub say: String,
    /// The agent may be given the next piece of its standard input.
    pub next_piece: bool,
    /// The agent has said its last: it is given a little time to end.
    pub is_over: bool,
}

impl From<Vec<Event>> for Reaction {
    fn from(events: Vec<Event>) -> Self {
        Self { events, ..Self::default() }
    }
}

/// One line as JSON; `None` for talk that is not of the protocol. Errors: class `Protocol` for a broken object.
pub fn object(line: &str) -> Result<Option<Value>, ProviderError> {
    if !line.trim_start().starts_with('{') {
        return Ok(None);
    }
    serde_json::from_str(line).map(Some).map_err(|error| broken(format!("a line is not JSON: {error}")))
}

/// What one agent that speaks lines is like; all the rest is the same for all of them.
pub trait Speaker: Send + Sync {
    /// The name used in `configs/inference.json`.
    fn id(&self) -> &'static str;
    fn capabilities(&self) -> Capabilities;
    /// As [`Wire::offers_our_tools`].
    fn offers_our_tools(&self) -> bool {
        true
    }
    /// As [`Wire::needs`].
    fn needs(&self, name: &str) -> Tier;
    /// The program and its arguments; the request is normalised.
    fn argv(
        &self,
        program: String,
        request: &Request,
        terms: &AgentTerms,
    ) -> Result<Vec<String>, ProviderError>;
    /// What is written to its standard input: everything, with the instructions in front.
    fn stdin(&self, request: &Request, terms: &AgentTerms) -> Vec<String> {
        vec![transcript::prompt(request, &terms.session, true)]
    }
    fn dialogue(&self, invocation: &Invocation, now: Timestamp) -> Box<dyn Dialogue>;
}

/// A program that is an agent.
pub struct Agent<S> {
    pub program: Program,
    pub speaker: S,
}

impl<S: Speaker> Wire for Agent<S> {
    fn id(&self) -> &str {
        self.speaker.id()
    }

    fn capabilities(&self, _model: &str) -> Capabilities {
        self.speaker.capabilities()
    }

    fn offers_our_tools(&self) -> bool {
        self.speaker.offers_our_tools()
    }

    fn needs(&self, name: &str, _args: &ToolArgs) -> Tier {
        self.speaker.needs(name)
    }

    fn wire_request(&self, request: &Request) -> Result<String, ProviderError> {
        let terms = terms(request)?;
        let request = normalise::request(request, self.speaker.id())?;
        let is_bound = self.speaker.capabilities().structured == Structured::Native;
        let invocation = Invocation {
            argv: self.speaker.argv(self.program.path(), &request, terms)?,
            stdin: self.speaker.stdin(&request, terms),
            model: request.model.clone(),
            terms: terms.clone(),
            structured: is_bound && request.output.is_some(),
        };
        invocation.wire()
    }
}

impl<S: Speaker> Provider for Agent<S> {
    fn endpoint(&self) -> Option<String> {
        Some(self.program.path())
    }

    fn check(&self, _context: CallContext) -> BoxFuture<'_, Result<Health, ProviderError>> {
        Box::pin(async { self.program.version().await.map_err(|error| self.without_secrets(error)) })
    }

    /// Runs what [`Invocation::wire`] gave. Dropping the stream kills the agent and all that it started.
    fn stream<'a>(
        &'a self,
        wire: &'a str,
        context: CallContext,
    ) -> BoxStream<'a, Result<Event, ProviderError>> {
        let opened = stream::once(async move { self.open(wire, &context) });
        let events = opened.flat_map(|opened| match opened {
            Ok(call) => stream::unfold(call, Call::next).fuse().boxed(),
            Err(error) => stream::once(std::future::ready(Err(error))).boxed(),
        });
        events.map(|event| event.map_err(|error| self.without_secrets(error))).boxed()
    }
}

impl<S: Speaker> Agent<S> {
    fn open(&self, wire: &str, context: &CallContext) -> Result<Call, ProviderError> {
        let invocation: Invocation = serde_json::from_str(wire)
            .map_err(|error| broken(format!("the body is no invocation: {error}")))?;
        let (guard, capture) = (Guard::start(context), context.capture.clone());
        if let Some(capture) = &capture {
            capture.sent(wire);
            capture.answering(Form::Lines);
        }
        let dialogue = self.speaker.dialogue(&invocation, context.now);
        let args = invocation.argv.get(1..).unwrap_or_default();
        let mut process = self.program.start(args, Path::new(&invocation.terms.folder))?;
        let mut pieces: VecDeque<String> = invocation.stdin.into();
        process.say(&pieces.pop_front().unwrap_or_default());
        let keeps_open = !pieces.is_empty();
        if !keeps_open {
            process.close_stdin();
        }
        let (ready, phase) = (VecDeque::new(), Phase::BeforeFirstByte);
        Ok(Call { process, dialogue, guard, capture, pieces, ready, phase, over: false })
    }

    fn without_secrets(&self, error: ProviderError) -> ProviderError {
        let message = self.program.secrets().fold(error.message, |text, secret| redact::exact(&text, secret));
        ProviderError { message: redact::key_shapes(&message), ..error }
    }
}

struct Call {
    process: Process,
    dialogue: Box<dyn Dialogue>,
    guard: Guard,
    capture: Option<Arc<Capture>>,
    /// What is still to be written, when the agent asks for it.
    pieces: VecDeque<String>,
    ready: VecDeque<Event>,
    phase: Phase,
    /// A terminal event was given out.
    over: bool,
}

impl Call {
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
                let words = self.dialogue.last_words();
                self.process.say(&words.unwrap_or_default());
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
                let reaction = self.dialogue.line(&line)?;
                self.ready.extend(reaction.events);
                self.process.say(&reaction.say);
                if reaction.next_piece {
                    self.process.say(&self.pieces.pop_front().unwrap_or_default());
                }
                if reaction.is_over {
                    self.process.dismiss();
                }
            }
            Output::End(ending) => self.ready.extend(self.dialogue.end(&ending)?),
        }
        Ok(())
    }
}

/// Whether a tool is one of those that we offer, by the name under which adapters report it.
pub fn is_ours(name: &str) -> bool {
    let rest = name.strip_prefix("mcp__").and_then(|name| name.strip_prefix(TOOL_SERVER_NAME));
    rest.is_some_and(|rest| rest.starts_with("__"))
}

/// What a value of a line says, where it is text.
pub fn text_at<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Arguments as an agent tells them: an object, or nothing.
pub fn args_at(value: &Value, key: &str) -> ToolArgs {
    match value.get(key) {
        Some(Value::Object(map)) => ToolArgs::of(map.clone()),
        None | Some(Value::Null) => ToolArgs::Object(Map::new()),
        Some(other) => ToolArgs::parse(&other.to_string()),
    }
}

/// Dollars to millionths, as vendors write them; `as` saturates.
pub fn micros(dollars: &Value) -> Option<i64> {
    dollars.as_f64().filter(|dollars| *dollars >= 0.0).map(|dollars| (dollars * 1e6).round() as i64)
}

/// A tool's result: text, or blocks of which only the text is kept.
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
