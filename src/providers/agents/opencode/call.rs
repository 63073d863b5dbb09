//! One call of OpenCode: a message to a session, with the events of that session until its answer.

use crate::config::ProviderSettings;
use crate::domain::ErrorClass;
use crate::providers::agents::agent::text_at;
use crate::providers::agents::opencode::connection::connect;
use crate::providers::agents::opencode::parts::{self, Parts, Permission};
use crate::providers::agents::opencode::server::{EventStream, Server};
use crate::providers::child::process::{Output, Process};
use crate::providers::contract::accumulate::ended_early;
use crate::providers::contract::capture::{Capture, Form};
use crate::providers::contract::traits::{
    AgentOptions, AgentSession, Block, CallContext, Event, Phase, ProviderError, Response,
};
use crate::providers::transport::guard::Guard;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Timeout of the request that aborts a session's work.
const ABORT_MAX: Duration = Duration::from_millis(800);
/// Consecutive event streams that end without a frame, after which the call continues with the
/// answer alone.
const LOST_MAX: u32 = 5;

/// Everything that decides a call.
#[derive(Serialize, Deserialize)]
pub struct OpenCodeInvocation {
    // As in recorded requests, which a replay compares byte by byte.
    #[serde(rename = "terms")]
    pub options: AgentOptions,
    /// Body of `POST /session/:id/message`.
    pub message: Value,
    /// Value of `OPENCODE_CONFIG_CONTENT` for a server that is started for the call.
    pub config: Value,
}

/// A call under way.
pub struct SessionCall {
    /// Server process; it and all that it started are killed when this is dropped.
    process: Option<Process>,
    server: Server,
    session: String,
    model: String,
    parts: Parts,
    frames: Option<EventStream>,
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

impl SessionCall {
    /// Starts the call.
    pub async fn begin(
        settings: &ProviderSettings,
        encoded: &str,
        context: CallContext,
    ) -> Result<Self, ProviderError> {
        let (mut guard, capture) = (Guard::start(&context), context.capture.clone());
        if let Some(capture) = &capture {
            capture.sent(encoded);
        }
        let encoded: OpenCodeInvocation = serde_json::from_str(encoded).map_err(|error| {
            let message = format!("the body is not one of ours: {error}");
            ProviderError::new(ErrorClass::BadRequest, Phase::BeforeSend, message)
        })?;
        let (phase, folder) = (Phase::BeforeFirstByte, encoded.options.working_folder());
        let (server, process) = guard
            .wait(phase, connect(settings, &folder, &encoded.config))
            .await??;
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

    /// Returns the next event; `None` after the last one.
    pub async fn next(&mut self) -> Option<Result<Event, ProviderError>> {
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

async fn next_frame(frames: &mut Option<EventStream>) -> Option<Value> {
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

/// Opens the session of the call, with its messages of earlier calls, and subscribes to its events
/// before anything is requested.
async fn open_session(
    server: &Server,
    options: &AgentOptions,
) -> Result<(String, Parts, EventStream), ProviderError> {
    let session = match &options.session {
        AgentSession::New(_) => {
            let made = server
                .post("session", &json!({ "title": "attache" }))
                .await?;
            text_at(&made, "id").to_owned()
        }
        AgentSession::Resume { id, .. } => id.clone(),
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
    if matches!(options.session, AgentSession::Resume { .. }) {
        parts.knows(&server.get(&format!("session/{session}/message")).await?);
    }
    let frames = server.events().await?;
    Ok((session, parts, frames))
}
