//! OpenCode, an agent that is a server: `opencode serve`, started for the call, or one that runs already (`base_url`).
//!
//! The synchronous request for an answer is the base, because it knows by itself when the turn is over; the event
//! stream beside it brings tool calls and permissions while they happen, and the list of messages what it missed.
//! A server that runs already serves several runs, so our own tools are offered only by one that is started here.

use super::accumulate::ended_early;
use super::agent::{self, resumed, terms, text_at};
use super::capture::{Capture, Form};
use super::contract::{
    AgentTerms, Block, CallContext, Capabilities, Event, Health, Phase, Provider, ProviderError, Request,
    Response, Session, ToolArgs, Wire,
};
use super::guard::Guard;
use super::opencode_parts::{self as parts, Parts, Permission};
use super::opencode_server::{Frames, Server};
use super::process::{self, Output, Process, Program};
use super::{Adapter, http, normalise, transcript};
use crate::clock::{Clock, SystemClock};
use crate::config::{ProviderSettings, Tier};
use crate::domain::ErrorClass;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub const ADAPTER: Adapter =
    Adapter { id: "opencode", key_variable: None, settings: &[http::SETTINGS, process::SETTINGS], build };

const INSTALL: &str = "npm install --global opencode-ai";
const LISTENING: &str = "opencode server listening on ";
/// Time for the word that ends a session's work.
const ABORT_MAX: Duration = Duration::from_millis(800);
/// Event streams in a row that end without a frame, after which the answer alone must do.
const LOST_MAX: u32 = 5;

fn build(settings: &ProviderSettings) -> Result<Box<dyn Provider>, ProviderError> {
    if let Some(url) = &settings.base_url {
        Server::new(url, settings.api_key.as_ref(), "/")?;
    } else {
        Program::find(settings, ADAPTER.id, INSTALL)?;
    }
    Ok(Box::new(OpenCode { settings: settings.clone() }))
}

struct OpenCode {
    settings: ProviderSettings,
}

/// All that decides a call.
#[derive(Serialize, Deserialize)]
struct Body {
    terms: AgentTerms,
    /// The body of `POST /session/:id/message`.
    message: Value,
    /// What a server that is started for the call is told in `OPENCODE_CONFIG_CONTENT`.
    config: Value,
}

impl Wire for OpenCode {
    fn id(&self) -> &str {
        ADAPTER.id
    }

    fn capabilities(&self, _model: &str) -> Capabilities {
        Capabilities { reports_cost: true, ..Capabilities::AGENT }
    }

    fn offers_our_tools(&self) -> bool {
        self.settings.base_url.is_none()
    }

    fn ends_when_dropped(&self) -> bool {
        self.settings.base_url.is_none()
    }

    fn needs(&self, name: &str, _args: &ToolArgs) -> Tier {
        parts::needs(name)
    }

    fn wire_request(&self, request: &Request) -> Result<String, ProviderError> {
        let terms = terms(request)?;
        resumed(&terms.session)?;
        let Some((provider, model)) = request.model.split_once('/') else {
            let message = format!("`{}` is not `PROVIDER/MODEL`, as OpenCode names models", request.model);
            return Err(ProviderError::new(ErrorClass::BadRequest, Phase::BeforeSend, message));
        };
        let tools: serde_json::Map<String, Value> =
            parts::tools(terms.tier).into_iter().map(|(name, is_on)| (name, is_on.into())).collect();
        let text = transcript::prompt(request, &terms.session, false);
        agent::fits(text.len())?;
        let message = json!({
            "model": { "providerID": provider, "modelID": model },
            "system": request.system.join("\n\n"),
            "tools": tools,
            "parts": [{ "type": "text", "text": text }],
        });
        let mut config = json!({ "share": "disabled", "autoupdate": false });
        if terms.tier == Tier::Write {
            // Asked before each one, it can be told where.
            config["permission"] = json!({ "edit": "ask" });
        }
        if let Some(server) = &terms.tool_server {
            let command: Vec<&String> = std::iter::once(&server.program).chain(&server.args).collect();
            config["mcp"] = json!({ &server.name: { "type": "local", "command": command, "enabled": true } });
        }
        normalise::wire(&Body { terms: terms.clone(), message, config })
    }
}

impl Provider for OpenCode {
    fn check(&self, context: CallContext) -> BoxFuture<'_, Result<Health, ProviderError>> {
        Box::pin(async move {
            let Some(url) = &self.settings.base_url else {
                return Program::find(&self.settings, ADAPTER.id, INSTALL)?.version().await;
            };
            let server = Server::new(url, self.settings.api_key.as_ref(), "/")?;
            let health = server.get("global/health");
            let health = Guard::start(&context).wait(Phase::BeforeFirstByte, health).await??;
            let version = health["version"].as_str().map(str::to_owned);
            Ok(Health { endpoint: Some(server.url().to_string()), version, ..Health::default() })
        })
    }

    fn stream<'a>(
        &'a self,
        wire: &'a str,
        context: CallContext,
    ) -> BoxStream<'a, Result<Event, ProviderError>> {
        let begun = stream::once(Call::begin(&self.settings, wire, context));
        let events = begun.flat_map(|begun| match begun {
            Ok(call) => {
                stream::unfold(call, |mut call| async { call.next().await.map(|event| (event, call)) })
                    .boxed()
            }
            Err(error) => stream::once(std::future::ready(Err(error))).boxed(),
        });
        events.boxed()
    }
}

/// One call under way.
struct Call {
    /// Killed with everything that it started when this is dropped.
    process: Option<Process>,
    server: Server,
    session: String,
    model: String,
    parts: Parts,
    frames: Option<Frames>,
    lost: u32,
    reply: BoxFuture<'static, Result<Value, ProviderError>>,
    guard: Guard,
    capture: Option<Arc<Capture>>,
    out: VecDeque<Result<Event, ProviderError>>,
    is_over: bool,
}

/// What happened next.
enum News {
    Reply(Result<Value, ProviderError>),
    Frame(Option<Value>),
    Process(Result<Output, ProviderError>),
}

impl Call {
    async fn begin(
        settings: &ProviderSettings,
        wire: &str,
        context: CallContext,
    ) -> Result<Self, ProviderError> {
        let (mut guard, capture) = (Guard::start(&context), context.capture.clone());
        if let Some(capture) = &capture {
            capture.sent(wire);
        }
        let wire: Body = serde_json::from_str(wire).map_err(|error| {
            let message = format!("the body is not one of ours: {error}");
            ProviderError::new(ErrorClass::BadRequest, Phase::BeforeSend, message)
        })?;
        let phase = Phase::BeforeFirstByte;
        let (server, process) = guard.wait(phase, connect(settings, &wire)).await??;
        let opened = guard.wait(phase, open_session(&server, &wire.terms)).await??;
        let (session, parts, frames) = opened;
        let (asked, path, body) = (server.clone(), format!("session/{session}/message"), wire.message);
        let model = text_at(&body["model"], "modelID").to_owned();
        let reply = Box::pin(async move { asked.post(&path, &body).await });
        let started = Event::Started { provider_request_id: None, model: model.clone() };
        let out = VecDeque::from([Ok(started), Ok(Event::Session(session.clone()))]);
        let (frames, lost, is_over) = (Some(frames), 0, false);
        if let Some(capture) = &capture {
            capture.answering(Form::Lines);
        }
        Ok(Self { process, server, session, model, parts, frames, lost, reply, guard, capture, out, is_over })
    }

    async fn next(&mut self) -> Option<Result<Event, ProviderError>> {
        loop {
            if let Some(event) = self.out.pop_front() {
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            if let Err(error) = self.advance().await {
                self.is_over = true;
                self.abort().await;
                self.out.push_back(Err(error));
            }
        }
    }

    /// Waits for the next piece of news and takes it in.
    async fn advance(&mut self) -> Result<(), ProviderError> {
        let Self { reply, frames, process, guard, .. } = self;
        let news = async {
            tokio::select! {
                biased;
                frame = next_frame(frames) => News::Frame(frame),
                said = next_line(process) => News::Process(said),
                replied = reply => News::Reply(replied),
            }
        };
        match guard.wait(Phase::MidStream, news).await? {
            News::Frame(Some(frame)) => {
                self.lost = 0;
                // A server that runs already tells of other people's sessions, too.
                if self.parts.concerns(&frame) {
                    self.keep(&frame);
                }
                let (events, permission) = self.parts.frame(&frame);
                self.tell(events);
                self.stay_inside()?;
                self.grant(permission).await
            }
            News::Frame(None) => self.reconnect().await,
            News::Process(Ok(Output::Line(_))) => Ok(()),
            News::Process(Ok(Output::End(ending))) => {
                let message = format!("opencode ended in the middle: {ending}");
                Err(ProviderError::new(ErrorClass::Transient, Phase::MidStream, message))
            }
            News::Process(Err(error)) | News::Reply(Err(error)) => Err(error),
            News::Reply(Ok(reply)) => self.finish(&reply).await,
        }
    }

    /// Writes down a frame, a list of messages or the one that answers us, where somebody asked for it.
    fn keep(&self, said: &Value) {
        if let Some(capture) = &self.capture {
            capture.received(format!("{said}\n").as_bytes());
        }
    }

    /// Errors: class `DisallowedTool`, when a tool was used where it may not be.
    fn stay_inside(&self) -> Result<(), ProviderError> {
        self.parts.trespass().map_or(Ok(()), |reason| {
            let message = format!("the agent went on although {reason}");
            Err(ProviderError::new(ErrorClass::DisallowedTool, Phase::MidStream, message))
        })
    }

    fn tell(&mut self, events: Vec<Event>) {
        self.out.extend(events.into_iter().map(Ok));
    }

    async fn grant(&mut self, permission: impl IntoIterator<Item = Permission>) -> Result<(), ProviderError> {
        for Permission { id, is_granted } in permission {
            let reply = json!({ "reply": if is_granted { "once" } else { "reject" } });
            let path = format!("permission/{id}/reply");
            self.guard.wait(Phase::MidStream, self.server.post(&path, &reply)).await??;
        }
        Ok(())
    }

    /// A lost event stream has no replay: listen again first, then ask for all that was missed.
    async fn reconnect(&mut self) -> Result<(), ProviderError> {
        self.frames = None;
        self.lost += 1;
        if self.lost > LOST_MAX {
            self.tell(vec![Event::Notice(
                "opencode's event stream is gone; waiting for the answer alone".to_owned(),
            )]);
            return Ok(());
        }
        if let Ok(frames) = self.guard.wait(Phase::MidStream, self.server.events()).await? {
            self.frames = Some(frames);
        }
        self.catch_up().await?;
        let asked = self.guard.wait(Phase::MidStream, self.server.get("permission")).await?;
        let (events, answers) = self.parts.pending(&asked.unwrap_or_default());
        self.tell(events);
        self.grant(answers).await
    }

    async fn catch_up(&mut self) -> Result<(), ProviderError> {
        let path = format!("session/{}/message", self.session);
        let messages = self.guard.wait(Phase::MidStream, self.server.get(&path)).await??;
        self.keep(&messages);
        let events = self.parts.catch_up(&messages);
        self.tell(events);
        self.stay_inside()
    }

    /// The answer is here: what the events did not tell is in the list of messages.
    async fn finish(&mut self, reply: &Value) -> Result<(), ProviderError> {
        self.catch_up().await?;
        if !(reply["info"].is_object() && reply["parts"].is_array()) {
            // A proxy that gives up, or a server that stops, may end an answer where it began.
            return Err(ended_early());
        }
        self.keep(reply);
        let events = self.parts.catch_up(&json!([reply]));
        self.tell(events);
        let stop = parts::stop(&reply["info"])?;
        let served = text_at(&reply["info"], "modelID");
        self.is_over = true;
        self.out.push_back(Ok(Event::Finished(Response {
            blocks: vec![Block::text(parts::answer(reply))],
            stop,
            usage: self.parts.usage(),
            model_served: if served.is_empty() { self.model.clone() } else { served.to_owned() },
            provider_request_id: Some(text_at(&reply["info"], "id").to_owned()).filter(|id| !id.is_empty()),
            breakdown: Vec::new(),
            session_usage: None,
        })));
        Ok(())
    }

    /// A server of its own ends with the call; one that runs already goes on working unless it is told.
    async fn abort(&mut self) {
        let path = format!("session/{}/abort", self.session);
        let _best_effort = tokio::time::timeout(ABORT_MAX, self.server.post(&path, &json!({}))).await;
    }
}

async fn next_frame(frames: &mut Option<Frames>) -> Option<Value> {
    match frames {
        Some(frames) => frames.next().await,
        None => std::future::pending().await,
    }
}

async fn next_line(process: &mut Option<Process>) -> Result<Output, ProviderError> {
    match process {
        Some(process) => process.next().await,
        None => std::future::pending().await,
    }
}

/// The server that runs already, or one of our own with a password that nobody else has.
async fn connect(
    settings: &ProviderSettings,
    wire: &Body,
) -> Result<(Server, Option<Process>), ProviderError> {
    let folder = &wire.terms.folder;
    if let Some(url) = &settings.base_url {
        return Ok((Server::new(url, settings.api_key.as_ref(), folder)?, None));
    }
    let mut program = Program::find(settings, ADAPTER.id, INSTALL)?;
    let password = SecretString::from(SystemClock::new().new_token());
    program.set("OPENCODE_SERVER_PASSWORD", password.clone());
    program.set("OPENCODE_CONFIG_CONTENT", SecretString::from(wire.config.to_string()));
    let args = ["serve", "--hostname", "127.0.0.1", "--port", "0"].map(str::to_owned);
    let mut process = program.start(&args, Path::new(folder))?;
    loop {
        match process.next().await? {
            Output::Line(line) => {
                if let Some(url) = line.split_once(LISTENING).map(|(_, url)| url.trim()) {
                    return Ok((Server::new(url, Some(&password), folder)?, Some(process)));
                }
            }
            Output::End(ending) => {
                let message = format!("opencode ended before it listened: {ending}");
                return Err(ProviderError::new(ErrorClass::Transient, Phase::BeforeSend, message));
            }
        }
    }
}

/// The session of the call, what it has of earlier calls, and its events, listened to before anything is asked.
async fn open_session(server: &Server, terms: &AgentTerms) -> Result<(String, Parts, Frames), ProviderError> {
    let session = match &terms.session {
        Session::New(_) => {
            let made = server.post("session", &json!({ "title": "attache" })).await?;
            text_at(&made, "id").to_owned()
        }
        Session::Resume { id, .. } => id.clone(),
    };
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if session.is_empty() || !session.chars().all(legal) {
        let message = "opencode gave a session no id that could be used";
        return Err(ProviderError::new(ErrorClass::Protocol, Phase::BeforeFirstByte, message));
    }
    let mut parts = Parts::new(&session, terms);
    if matches!(terms.session, Session::Resume { .. }) {
        parts.knows(&server.get(&format!("session/{session}/message")).await?);
    }
    let frames = server.events().await?;
    Ok((session, parts, frames))
}
