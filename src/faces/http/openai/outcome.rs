//! What became of a question, for a program: its answer, or why there is none.

use super::error::ClientError;
use crate::domain::{ErrorClass, RunId, RunState, TokenUsage};
use crate::runs::chat::outcome::AskedRun;
use crate::runs::chat::program_message::waiting_text;
use crate::store::{Store, StoreError};
use axum::http::StatusCode;
use serde::Serialize;

/// An answer as the forms of the API need it.
pub(super) struct ClientAnswer {
    pub text: String,
    pub usage: TokenUsage,
    pub state: RunState,
    /// `true`: the text ends where the client wanted no more of it.
    pub is_cut: bool,
}

impl ClientAnswer {
    /// Returns an answer for which no model was asked.
    pub fn of_no_model(text: String) -> Self {
        Self {
            text,
            usage: TokenUsage::default(),
            state: RunState::Succeeded,
            is_cut: false,
        }
    }
}

/// What our answers say beside what OpenAI's have.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Extension {
    pub run_id: String,
    pub thread_id: String,
    pub state: RunState,
}

/// Returns the answer of a run that is settled. Errors: it has none.
pub(super) async fn of(store: &Store, asked: &AskedRun) -> Result<ClientAnswer, ClientError> {
    let text = match (asked.state, &asked.answer) {
        _ if asked.is_halted() => return Err(halted(&asked.run)),
        // It is settled, so it waits for money.
        (RunState::WaitingRetry, _) => return Err(out_of_money(store, asked).await?),
        (RunState::Succeeded, answer) => answer.clone().unwrap_or_default(),
        (RunState::WaitingApproval, _) => waiting_text(&asked.run),
        _ => return Err(failed(asked)),
    };
    Ok(ClientAnswer {
        text,
        usage: store.run_summary(&asked.run).await?.usage,
        state: asked.state,
        is_cut: asked.is_cut,
    })
}

/// Cancels a run that waits for money: whoever asked is told so now, and reads no answer of tomorrow.
async fn out_of_money(store: &Store, asked: &AskedRun) -> Result<ClientError, StoreError> {
    match store.request_cancel(&asked.run).await {
        Ok(_) | Err(StoreError::WrongState { .. }) => {}
        Err(error) => return Err(error),
    }
    let now = store.clock().now();
    let wait = asked.next_attempt_at().map(|at| at.since(now));
    Ok(ClientError {
        kind: "insufficient_quota",
        retry_after: wait,
        ..stored(
            StatusCode::TOO_MANY_REQUESTS,
            "insufficient_quota",
            format!(
                "a budget is used up, so run {} was cancelled; `attache usage` shows budgets",
                asked.run
            ),
        )
    })
}

fn halted(run: &RunId) -> ClientError {
    let message = format!("runs are halted here: run {run} is worked on after `attache resume`");
    stored(StatusCode::SERVICE_UNAVAILABLE, "halted", message)
}

/// The text is for a program that may show it to anybody: it has the class of the error, and no more.
fn failed(asked: &AskedRun) -> ClientError {
    let class = asked
        .error_class()
        .map_or(asked.state.as_str(), ErrorClass::as_str);
    let message = format!(
        "no answer: {class}; `attache runs show {}` tells the owner more",
        asked.run
    );
    stored(StatusCode::INTERNAL_SERVER_ERROR, "run_failed", message)
}

pub(super) fn out_of_time(run: &RunId) -> ClientError {
    let message = format!(
        "run {run} is still worked on; `GET /v1/responses/{run}` gives its answer when it has one"
    );
    stored(StatusCode::GATEWAY_TIMEOUT, "still_running", message)
}

/// The run goes on: it was asked while the key was good.
pub(super) fn key_ended(run: &RunId) -> ClientError {
    let message = format!("this key is not good any more; run {run} goes on without it");
    ClientError {
        kind: super::error::INVALID,
        ..stored(StatusCode::UNAUTHORIZED, "invalid_api_key", message)
    }
}

/// The answer is another text than what a stream has shown of it.
pub(super) fn replaced(run: &RunId) -> ClientError {
    let message = format!("the answer was made anew; `GET /v1/responses/{run}` gives it");
    stored(
        StatusCode::INTERNAL_SERVER_ERROR,
        "answer_replaced",
        message,
    )
}

fn stored(status: StatusCode, code: &'static str, message: String) -> ClientError {
    ClientError {
        is_stored: true,
        ..ClientError::server(status, code, message)
    }
}
