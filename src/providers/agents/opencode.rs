//! OpenCode, an agent that is a server: `opencode serve`, started for the call, or a running one
//! (`base_url`).
//!
//! The synchronous request for an answer decides when the turn is over; the event stream adds tool
//! calls and permission requests while they happen, and the list of messages what the stream
//! missed. A running server serves several runs, so only a server that is started here offers our
//! own tools.

use crate::clock::{Clock, SystemClock};
use crate::config::{ProviderSettings, Tier};
use crate::domain::ErrorClass;
use crate::providers::Adapter;
use crate::providers::agents::agent::{self, options, resumed, text_at};
use crate::providers::agents::opencode_parts::{self as parts, Parts, Permission};
use crate::providers::agents::opencode_server::{Frames, Server};
use crate::providers::agents::transcript;
use crate::providers::child::process::{self, Output, Process, Program};
use crate::providers::contract::accumulate::ended_early;
use crate::providers::contract::capture::{Capture, Form};
use crate::providers::contract::normalise;
use crate::providers::contract::traits::{
    AgentOptions, Block, CallContext, Capabilities, Event, Health, Phase, Provider, ProviderError,
    Request, RequestEncoder, Response, Session, ToolArgs,
};
use crate::providers::transport::guard::Guard;
use crate::providers::transport::http;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub const ADAPTER: Adapter = Adapter {
    id: "opencode",
    key_variable: None,
    settings: &[http::SETTINGS, process::SETTINGS],
    build,
};

const INSTALL: &str = "npm install --global opencode-ai";
const LISTENING: &str = "opencode server listening on ";
/// Timeout of the request that aborts a session's work.
const ABORT_MAX: Duration = Duration::from_millis(800);
/// Consecutive event streams that end without a frame, after which the call continues with the
/// answer alone.
const LOST_MAX: u32 = 5;

fn build(settings: &ProviderSettings) -> Result<Box<dyn Provider>, ProviderError> {
    if let Some(url) = &settings.base_url {
        Server::new(url, settings.api_key.as_ref(), "/")?;
    } else {
        Program::find(settings, ADAPTER.id, INSTALL)?;
    }
    Ok(Box::new(OpenCode {
        settings: settings.clone(),
    }))
}

struct OpenCode {
    settings: ProviderSettings,
}

/// Everything that decides a call.
#[derive(Serialize, Deserialize)]
struct Body {
    // As in recorded requests, which a replay compares byte by byte.
    #[serde(rename = "terms")]
    options: AgentOptions,
    /// Body of `POST /session/:id/message`.
    message: Value,
    /// Value of `OPENCODE_CONFIG_CONTENT` for a server that is started for the call.
    config: Value,
}

impl RequestEncoder for OpenCode {
    fn id(&self) -> &str {
        ADAPTER.id
    }

    fn capabilities(&self, _model: &str) -> Capabilities {
        Capabilities {
            reports_cost: true,
            ..Capabilities::AGENT
        }
    }

    fn lists_our_tools(&self) -> bool {
        self.settings.base_url.is_none()
    }

    fn ends_when_dropped(&self) -> bool {
        self.settings.base_url.is_none()
    }

    fn needs(&self, name: &str, _args: &ToolArgs) -> Tier {
        parts::needs(name)
    }

    fn encode_request(&self, request: &Request) -> Result<String, ProviderError> {
        let options = options(request)?;
        resumed(&options.session)?;
        let Some((provider, model)) = request.model.split_once('/') else {
            let message = format!(
                "`{}` is not `PROVIDER/MODEL`, as OpenCode names models",
                request.model
            );
            return Err(ProviderError::new(
                ErrorClass::BadRequest,
                Phase::BeforeSend,
                message,
            ));
        };
        let tools: serde_json::Map<String, Value> = parts::tools(options.tier)
            .into_iter()
            .map(|(name, is_on)| (name, is_on.into()))
            .collect();
        let text = transcript::prompt(request, &options.session, false);
        agent::fits(text.len())?;
        let message = json!({
            "model": { "providerID": provider, "modelID": model },
            "system": request.system.join("\n\n"),
            "tools": tools,
            "parts": [{ "type": "text", "text": text }],
        });
        let mut config = json!({ "share": "disabled", "autoupdate": false });
        if options.tier == Tier::Write {
            // Asked before each edit, the adapter can check its path.
            config["permission"] = json!({ "edit": "ask" });
        }
        if let Some(server) = &options.tool_server {
            let command: Vec<&String> = std::iter::once(&server.program)
                .chain(&server.args)
                .collect();
            config["mcp"] =
                json!({ &server.name: { "type": "local", "command": command, "enabled": true } });
        }
        normalise::encode(&Body {
            options: options.clone(),
            message,
            config,
        })
    }
}

impl Provider for OpenCode {
    fn check(&self, context: CallContext) -> BoxFuture<'_, Result<Health, ProviderError>> {
        Box::pin(async move {
            let Some(url) = &self.settings.base_url else {
                return Program::find(&self.settings, ADAPTER.id, INSTALL)?
                    .version()
                    .await;
            };
            let server = Server::new(url, self.settings.api_key.as_ref(), "/")?;
            let health = server.get("global/health");
            let health = Guard::start(&context)
                .wait(Phase::BeforeFirstByte, health)
                .await??;
            let version = health["version"].as_str().map(str::to_owned);
            Ok(Health {
                endpoint: Some(server.url().to_string()),
                version,
                ..Health::default()
            })
        })
    }

    fn stream<'a>(
        &'a self,
        encoded: &'a str,
        context: CallContext,
    ) -> BoxStream<'a, Result<Event, ProviderError>> {
        let begun = stream::once(Call::begin(&self.settings, encoded, context));
        let events = begun.flat_map(|begun| match begun {
            Ok(call) => stream::unfold(call, |mut call| async {
                call.next().await.map(|event| (event, call))
            })
            .boxed(),
            Err(error) => stream::once(std::future::ready(Err(error))).boxed(),
        });
        events.boxed()
    }
}

/// A call under way.
struct Call {
    /// Server process; it and all that it started are killed when this is dropped.
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

/// Next event of a call.
enum SessionEvent {
    Reply(Result<Value, ProviderError>),
    Frame(Option<Value>),
    Process(Result<Output, ProviderError>),
}

impl Call {
    async fn begin(
        settings: &ProviderSettings,
        encoded: &str,
        context: CallContext,
    ) -> Result<Self, ProviderError> {
        let (mut guard, capture) = (Guard::start(&context), context.capture.clone());
        if let Some(capture) = &capture {
            capture.sent(encoded);
        }
        let encoded: Body = serde_json::from_str(encoded).map_err(|error| {
            let message = format!("the body is not one of ours: {error}");
            ProviderError::new(ErrorClass::BadRequest, Phase::BeforeSend, message)
        })?;
        let phase = Phase::BeforeFirstByte;
        let (server, process) = guard.wait(phase, connect(settings, &encoded)).await??;
        let opened = guard
            .wait(phase, open_session(&server, &encoded.options))
            .await??;
        let (session, parts, frames) = opened;
        let (asked, path, body) = (
            server.clone(),
            format!("session/{session}/message"),
            encoded.message,
        );
        let model = text_at(&body["model"], "modelID").to_owned();
        let reply = Box::pin(async move { asked.post(&path, &body).await });
        let started = Event::Started {
            provider_request_id: None,
            model: model.clone(),
        };
        let out = VecDeque::from([Ok(started), Ok(Event::Session(session.clone()))]);
        let (frames, lost, is_over) = (Some(frames), 0, false);
        if let Some(capture) = &capture {
            capture.answering(Form::Lines);
        }
        Ok(Self {
            process,
            server,
            session,
            model,
            parts,
            frames,
            lost,
            reply,
            guard,
            capture,
            out,
            is_over,
        })
    }

    async fn next(&mut self) -> Option<Result<Event, ProviderError>> {
        loop {
            if let Some(event) = self.out.pop_front() {
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            if let Err(error) = self.handle_next().await {
                self.is_over = true;
                self.abort().await;
                self.out.push_back(Err(error));
            }
        }
    }

    /// Waits for the next event and handles it.
    async fn handle_next(&mut self) -> Result<(), ProviderError> {
        let Self {
            reply,
            frames,
            process,
            guard,
            ..
        } = self;
        let event = async {
            tokio::select! {
                biased;
                frame = next_frame(frames) => SessionEvent::Frame(frame),
                said = next_line(process) => SessionEvent::Process(said),
                replied = reply => SessionEvent::Reply(replied),
            }
        };
        match guard.wait(Phase::MidStream, event).await? {
            SessionEvent::Frame(Some(frame)) => {
                self.lost = 0;
                // A running server reports sessions of other clients, too.
                if self.parts.concerns(&frame) {
                    self.keep(&frame);
                }
                let (events, permission) = self.parts.frame(&frame);
                self.tell(events);
                self.stay_inside()?;
                self.grant(permission).await
            }
            SessionEvent::Frame(None) => self.reconnect().await,
            SessionEvent::Process(Ok(Output::Line(_))) => Ok(()),
            SessionEvent::Process(Ok(Output::End(ending))) => {
                let message = format!("opencode ended in the middle: {ending}");
                Err(ProviderError::new(
                    ErrorClass::Transient,
                    Phase::MidStream,
                    message,
                ))
            }
            SessionEvent::Process(Err(error)) | SessionEvent::Reply(Err(error)) => Err(error),
            SessionEvent::Reply(Ok(reply)) => self.finish(&reply).await,
        }
    }

    /// Captures a frame, a list of messages or the reply, if a capture was requested.
    fn keep(&self, said: &Value) {
        if let Some(capture) = &self.capture {
            capture.received(format!("{said}\n").as_bytes());
        }
    }

    /// Checks the calls so far. Errors: class `DisallowedTool`, when a tool was used where it may
    /// not be.
    fn stay_inside(&self) -> Result<(), ProviderError> {
        self.parts.trespass().map_or(Ok(()), |reason| {
            let message = format!("the agent went on although {reason}");
            Err(ProviderError::new(
                ErrorClass::DisallowedTool,
                Phase::MidStream,
                message,
            ))
        })
    }

    fn tell(&mut self, events: Vec<Event>) {
        self.out.extend(events.into_iter().map(Ok));
    }

    async fn grant(
        &mut self,
        permission: impl IntoIterator<Item = Permission>,
    ) -> Result<(), ProviderError> {
        for Permission { id, is_granted } in permission {
            let reply = json!({ "reply": if is_granted { "once" } else { "reject" } });
            let path = format!("permission/{id}/reply");
            self.guard
                .wait(Phase::MidStream, self.server.post(&path, &reply))
                .await??;
        }
        Ok(())
    }

    /// Reconnects a lost event stream. It has no replay: first subscribe again, then request
    /// everything that was missed.
    async fn reconnect(&mut self) -> Result<(), ProviderError> {
        self.frames = None;
        self.lost += 1;
        if self.lost > LOST_MAX {
            self.tell(vec![Event::Notice(
                "opencode's event stream is gone; waiting for the answer alone".to_owned(),
            )]);
            return Ok(());
        }
        if let Ok(frames) = self
            .guard
            .wait(Phase::MidStream, self.server.events())
            .await?
        {
            self.frames = Some(frames);
        }
        self.catch_up().await?;
        let asked = self
            .guard
            .wait(Phase::MidStream, self.server.get("permission"))
            .await?;
        let (events, answers) = self.parts.pending(&asked.unwrap_or_default());
        self.tell(events);
        self.grant(answers).await
    }

    async fn catch_up(&mut self) -> Result<(), ProviderError> {
        let path = format!("session/{}/message", self.session);
        let messages = self
            .guard
            .wait(Phase::MidStream, self.server.get(&path))
            .await??;
        self.keep(&messages);
        let events = self.parts.catch_up(&messages);
        self.tell(events);
        self.stay_inside()
    }

    /// Handles the reply: parts that the events missed are in the list of messages.
    async fn finish(&mut self, reply: &Value) -> Result<(), ProviderError> {
        self.catch_up().await?;
        if !(reply["info"].is_object() && reply["parts"].is_array()) {
            // A proxy that gives up, or a server that stops, may send an empty answer.
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
            model_served: if served.is_empty() {
                self.model.clone()
            } else {
                served.to_owned()
            },
            provider_request_id: Some(text_at(&reply["info"], "id").to_owned())
                .filter(|id| !id.is_empty()),
            breakdown: Vec::new(),
            session_usage: None,
        })));
        Ok(())
    }

    /// Aborts the session. A server of the call's own ends with the call; a running one would go on
    /// working.
    async fn abort(&mut self) {
        let path = format!("session/{}/abort", self.session);
        let _best_effort =
            tokio::time::timeout(ABORT_MAX, self.server.post(&path, &json!({}))).await;
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

/// Connects to the running server, or starts one with a random password.
async fn connect(
    settings: &ProviderSettings,
    encoded: &Body,
) -> Result<(Server, Option<Process>), ProviderError> {
    let folder = &encoded.options.folder;
    if let Some(url) = &settings.base_url {
        return Ok((Server::new(url, settings.api_key.as_ref(), folder)?, None));
    }
    let mut program = Program::find(settings, ADAPTER.id, INSTALL)?;
    let password = SecretString::from(SystemClock::new().new_token());
    program.set("OPENCODE_SERVER_PASSWORD", password.clone());
    program.set(
        "OPENCODE_CONFIG_CONTENT",
        SecretString::from(encoded.config.to_string()),
    );
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
                return Err(ProviderError::new(
                    ErrorClass::Transient,
                    Phase::BeforeSend,
                    message,
                ));
            }
        }
    }
}

/// Opens the session of the call, with its messages of earlier calls, and subscribes to its events
/// before anything is requested.
async fn open_session(
    server: &Server,
    options: &AgentOptions,
) -> Result<(String, Parts, Frames), ProviderError> {
    let session = match &options.session {
        Session::New(_) => {
            let made = server
                .post("session", &json!({ "title": "attache" }))
                .await?;
            text_at(&made, "id").to_owned()
        }
        Session::Resume { id, .. } => id.clone(),
    };
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if session.is_empty() || !session.chars().all(legal) {
        let message = "opencode gave a session no id that could be used";
        return Err(ProviderError::new(
            ErrorClass::Protocol,
            Phase::BeforeFirstByte,
            message,
        ));
    }
    let mut parts = Parts::new(&session, options);
    if matches!(options.session, Session::Resume { .. }) {
        parts.knows(&server.get(&format!("session/{session}/message")).await?);
    }
    let frames = server.events().await?;
    Ok((session, parts, frames))
}
