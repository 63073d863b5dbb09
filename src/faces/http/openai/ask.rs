//! A message is stored with its run, and its answer is waited for.

use super::conversation::{self, RequestForm};
use super::error::ClientError;
use super::fields::RequestFields;
use super::models::{self, Model};
use super::outcome::{self, Extension};
use super::titles;
use crate::domain::{PersonaId, RunId, RunState, ThreadId};
use crate::http::call::Call;
use crate::http::checks::{CallRight, wanted_once};
use crate::http::route::RouteAccess;
use crate::runs::chat::program_message::ProgramMessage;
use crate::runs::chat::program_wait::{ProgramWait, WaitStep};
use crate::runs::chat::question::AskedAt;
use crate::store::{ApiCallState, KeyRight, RunSummary, Store, StoreError};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// Longest wait for an answer: less than after which OpenAI's clients ask again.
const WAIT_MAX: Duration = Duration::from_secs(540);
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
    /// Seconds since 1970 at which it was asked.
    pub created: i64,
    /// State in which its run was found.
    pub state: RunState,
    pub run: RunId,
    pub thread: ThreadId,
    wait: ProgramWait,
    right: CallRight,
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
    let message = conversation::read(fields, form, &key.id, chat)?;
    let files_max = call.context.config.limits.letter_bytes_max;
    if message.new_files_bytes() > files_max {
        let text = format!("the files of a message have {files_max} bytes at most");
        return Err(ClientError {
            status: StatusCode::PAYLOAD_TOO_LARGE,
            ..ClientError::invalid(form.param(), "too_large", text)
        });
    }
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

/// Stores a question with its run; one that was asked before with the same `Idempotency-Key` is found again. Errors: too many are
/// waited for, another request had the key.
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
    let run = reserved(call).await?;
    let found = match stored(store, &run).await? {
        Some(found) => found,
        None => {
            let thread = message.thread(store, &persona, wanted).await?;
            let mut new = message.question(configured, store.clock().as_ref(), thread);
            new.run.id = run.clone();
            let asked = store.persona(&persona).ask(new).await;
            tracing::info!(%run, %persona, key = message.key, "a program asks");
            context.wake();
            // The same request may have come twice at the same time: one of them has stored it.
            match (stored(store, &run).await?, asked) {
                (Some(found), _) => found,
                (None, Err(error)) => return Err(error.into()),
                (None, Ok(_)) => return Err(outcome::out_of_time(&run)),
            }
        }
    };
    let wait = ProgramWait::new(store, &context.config.workspace, &persona, &run, WAIT_MAX);
    Ok(AskedQuestion {
        store: store.clone(),
        created: found.created_at.as_millis() / 1000,
        state: found.state,
        run,
        thread: found.thread,
        wait,
        right: CallRight::of(call, RouteAccess::Key(KeyRight::Chat)),
        _place: place,
    })
}

/// Returns the id for the run of a question: a new one, or the one that an `Idempotency-Key` has already. Errors: another request had
/// the key.
async fn reserved(call: &Call) -> Result<RunId, ClientError> {
    let store = &call.context.store;
    let new = RunId::new(store.clock().new_id());
    let once = wanted_once(call).map_err(|_| {
        let message = "an `Idempotency-Key` has 1 to 200 ASCII characters";
        ClientError::invalid("Idempotency-Key", "invalid_value", message)
    })?;
    let Some(once) = once else {
        return Ok(new);
    };
    match store.reserve_api_call(&once, new.as_str()).await? {
        ApiCallState::New => Ok(new),
        ApiCallState::Answered(run) => Ok(RunId::new(run)),
        ApiCallState::Unknown | ApiCallState::Other => {
            let message =
                "another request had this `Idempotency-Key`: give each request one of its own";
            Err(ClientError {
                status: StatusCode::CONFLICT,
                // OpenAI's clients send a request with this status again.
                is_stored: true,
                ..ClientError::invalid("Idempotency-Key", "idempotency_conflict", message)
            })
        }
    }
}

async fn stored(store: &Store, run: &RunId) -> Result<Option<RunSummary>, StoreError> {
    match store.run_summary(run).await {
        Err(StoreError::Missing { .. }) => Ok(None),
        found => found.map(Some),
    }
}

impl AskedQuestion {
    /// Waits for what is next to be shown. Errors: its key is not good any more, and is told nothing.
    pub async fn next(&mut self) -> Result<WaitStep, ClientError> {
        let step = self.wait.next().await?;
        match self.right.is_good().await {
            true => Ok(step),
            false => Err(outcome::key_ended(&self.run)),
        }
    }

    /// Returns the text that was shown.
    pub fn shown(&self) -> &str {
        self.wait.shown()
    }

    /// Waits until there is nothing more to wait for.
    pub async fn answer(&mut self) -> Result<outcome::ClientAnswer, ClientError> {
        loop {
            match self.next().await? {
                WaitStep::Text(_) | WaitStep::Quiet => {}
                WaitStep::Settled(asked) => return outcome::of(&self.store, &asked).await,
                WaitStep::OutOfTime => return Err(outcome::out_of_time(&self.run)),
            }
        }
    }

    /// Returns what our answers say beside what OpenAI's have, as the run was found.
    pub fn extension(&self) -> Extension {
        Extension {
            run_id: self.run.to_string(),
            thread_id: self.thread.to_string(),
            state: self.state,
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
