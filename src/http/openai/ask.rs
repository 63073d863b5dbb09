//! A message is stored with its run, and its answer is waited for.

use super::conversation::{self, RequestForm};
use super::error::ClientError;
use super::fields::RequestFields;
use super::models::{self, Model};
use super::outcome::{self, Extension};
use super::titles;
use crate::domain::{PersonaId, RunId, RunState, ThreadId};
use crate::http::call::Call;
use crate::runs::chat::program_message::ProgramMessage;
use crate::runs::chat::program_wait::{ProgramWait, WaitStep};
use crate::runs::chat::question::AskedAt;
use crate::store::{KeyRight, RunSummary, Store, StoreError};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// Longest wait for an answer: less than after which OpenAI's clients ask again.
const WAIT_MAX: Duration = Duration::from_secs(540);
/// Longest silence towards a client that reads a stream.
pub(super) const QUIET_MAX: Duration = Duration::from_secs(15);
/// Time after which a client that found no place may ask again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

const IGNORED: &str = "x-attache-ignored";

/// A request that was understood.
pub(super) enum ClientQuestion {
    /// Answered at once, by no model.
    Titles(String),
    Persona(Box<PersonaQuestion>),
}

pub(super) struct PersonaQuestion {
    persona: PersonaId,
    message: ProgramMessage,
    /// Thread that the client names.
    wanted: Option<ThreadId>,
}

/// A question whose run is stored.
pub(super) struct AskedQuestion {
    pub store: Store,
    pub run: RunId,
    pub thread: ThreadId,
    pub wait: ProgramWait,
    _place: OwnedSemaphorePermit,
}

/// Reads whom a request asks, and what.
pub(super) async fn understood(
    call: &Call,
    fields: &RequestFields,
    form: RequestForm,
) -> Result<ClientQuestion, ClientError> {
    let Some(key) = call.key() else {
        return Err(ClientError::invalid(
            "",
            "invalid_api_key",
            "a key is needed",
        ));
    };
    let chat = header(call, "x-openwebui-chat-id");
    let model = models::model(call, fields.text("model"))?;
    let message = conversation::read(fields, form, (&key.id, chat))?;
    match model {
        Model::Titles => Ok(ClientQuestion::Titles(titles::answer(&message.new_text()))),
        Model::Persona(persona) => {
            let wanted = wanted_thread(call, fields, &persona).await?;
            Ok(ClientQuestion::Persona(Box::new(PersonaQuestion {
                persona,
                message,
                wanted,
            })))
        }
    }
}

/// Returns the thread that a client names. Errors: it is none of this key and this persona.
async fn wanted_thread(
    call: &Call,
    fields: &RequestFields,
    persona: &PersonaId,
) -> Result<Option<ThreadId>, ClientError> {
    let named = header(call, "x-attache-thread");
    let in_metadata = fields
        .get("metadata")
        .and_then(|all| all["thread_id"].as_str());
    let previous = fields.text("previous_response_id");
    let thread = match (named, in_metadata, previous) {
        ("", None, "") => return Ok(None),
        ("", None, previous) => {
            let run = run_of_key(call, previous).await?;
            let run = run.filter(|run| run.persona == *persona);
            let missing = || {
                not_found(
                    "previous_response_id",
                    "previous_response_not_found",
                    "no such response of this key and model",
                )
            };
            return Ok(Some(run.ok_or_else(missing)?.thread));
        }
        ("", Some(thread), _) => thread,
        (thread, _, _) => thread,
    };
    let thread = ThreadId::new(thread);
    match is_of_key(call, persona, &thread).await? {
        true => Ok(Some(thread)),
        false => Err(not_found(
            "metadata.thread_id",
            "thread_not_found",
            "no such thread of this key and model",
        )),
    }
}

/// Finds a run that a question of this key caused.
pub(super) async fn run_of_key(call: &Call, id: &str) -> Result<Option<RunSummary>, ClientError> {
    let run = match call.context.store.run_summary(&RunId::new(id)).await {
        Err(StoreError::Missing { .. }) => return Ok(None),
        run => run?,
    };
    let may = call
        .key()
        .is_some_and(|key| key.may_for(KeyRight::Chat, &run.persona));
    let is_own = may && is_of_key(call, &run.persona, &run.thread).await?;
    Ok(is_own.then_some(run))
}

async fn is_of_key(
    call: &Call,
    persona: &PersonaId,
    thread: &ThreadId,
) -> Result<bool, ClientError> {
    let Some(key) = call.key() else {
        return Ok(false);
    };
    let rows = call.context.store.persona(persona);
    let word = AskedAt::Program(&key.id).word();
    Ok(rows.is_asked_at(thread, &word).await?)
}

/// Stores a question with its run. Errors: too many are waited for, the engine is halted.
pub(super) async fn ask(
    call: &Call,
    question: PersonaQuestion,
) -> Result<AskedQuestion, ClientError> {
    let context = &call.context;
    let Ok(place) = context.answers.clone().try_acquire_owned() else {
        return Err(ClientError {
            kind: "rate_limit_error",
            retry_after: Some(RETRY_AFTER),
            ..ClientError::server(
                StatusCode::TOO_MANY_REQUESTS,
                "rate_limit_exceeded",
                "too many answers are waited for here; ask again when one is there",
            )
        });
    };
    let store = &context.store;
    let PersonaQuestion {
        persona,
        message,
        wanted,
    } = question;
    let Some(configured) = context.config.personas.get(&persona) else {
        return Err(not_found(
            "model",
            "model_not_found",
            "this persona is out of service",
        ));
    };
    let thread = message.thread(store, &persona, wanted).await?;
    let new = message.question(configured, store.clock().as_ref(), thread);
    let run = new.run.id.clone();
    let thread = store.persona(&persona).ask(new).await?;
    tracing::info!(%run, %persona, key = message.key, "a program asks");
    context.wake();
    let wait = ProgramWait::new(store, &context.config.workspace, (&persona, &run), WAIT_MAX);
    Ok(AskedQuestion {
        store: store.clone(),
        run,
        thread,
        wait,
        _place: place,
    })
}

impl AskedQuestion {
    /// Waits until there is nothing more to wait for.
    pub async fn answer(&mut self) -> Result<outcome::ClientAnswer, ClientError> {
        loop {
            match self.wait.next(QUIET_MAX).await? {
                WaitStep::Text(_) | WaitStep::Quiet => {}
                WaitStep::Settled(asked) => return outcome::of(&self.store, &asked).await,
                WaitStep::OutOfTime => return Err(outcome::out_of_time(&self.run)),
            }
        }
    }

    /// Returns what our answers say beside what OpenAI's have, before the run has begun.
    pub fn extension(&self) -> Extension {
        Extension {
            run_id: self.run.to_string(),
            thread_id: self.thread.to_string(),
            state: RunState::Queued,
        }
    }

    /// Returns the header fields of its answer.
    pub fn headers(&self, fields: &RequestFields) -> AnswerHeaders {
        let ids = [
            ("x-attache-thread", self.thread.as_str()),
            ("x-attache-run", self.run.as_str()),
        ];
        let ids = ids.map(|(name, id)| HeaderValue::from_str(id).ok().map(|id| (name, id)));
        let ignored = fields.ignored().map(|names| (IGNORED, names));
        AnswerHeaders(ids.into_iter().chain([ignored]).flatten().collect())
    }
}

/// Header fields of an answer: in which thread it stands, and which members of the request counted for nothing.
pub(super) struct AnswerHeaders(Vec<(&'static str, HeaderValue)>);

impl AnswerHeaders {
    pub fn on(self, mut response: Response) -> Response {
        for (name, value) in self.0 {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

/// Adds to an answer which members of the request counted for nothing.
pub(super) fn marked(mut response: Response, fields: &RequestFields) -> Response {
    if let Some(ignored) = fields.ignored() {
        response.headers_mut().insert(IGNORED, ignored);
    }
    response
}

/// Returns an answer, or the refusal of a request whose members were read.
pub(super) fn or_refused(
    answered: Result<Response, ClientError>,
    fields: &RequestFields,
) -> Response {
    match answered {
        Ok(response) => response,
        Err(error) => marked(error.response(), fields),
    }
}

fn header<'a>(call: &'a Call, name: &str) -> &'a str {
    let value = call.headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().trim()
}

pub(super) fn not_found(param: &str, code: &'static str, message: &str) -> ClientError {
    ClientError {
        status: StatusCode::NOT_FOUND,
        ..ClientError::invalid(param, code, message)
    }
}
