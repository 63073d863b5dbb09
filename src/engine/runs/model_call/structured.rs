//! Structured answers: the schema goes with the request or into the prompt, the final text is
//! validated against it, and a model that misses it gets the faults and is asked again, at most
//! twice.
//!
//! The number of repairs is read from the journal, so that a crash neither forgets nor repeats one.

use super::answer_form::{AnswerForm, REPAIRS_MAX, canonical, note, shown};
use super::turn;
use crate::domain::{ErrorClass, StopReason, sha256_hex};
use crate::providers::{FinishReason, Message, ToolChoice};
use crate::runs::budget::exhausted;
use crate::runs::error::RunError;
use crate::runs::state::LoopState;
use crate::store::{JournalEntry, NewOutput};

/// Validates the final answer of a run, with repairs where it misses its form. Returns the text
/// that people read; a run whose answer never fits stops with [`StopReason::Failed`].
pub async fn hold(
    state: &mut LoopState<'_>,
    mut text: String,
    stop: StopReason,
) -> Result<(String, StopReason), RunError> {
    if state.input.form.is_none() || stop == StopReason::Refused {
        return Ok((text, stop));
    }
    loop {
        let spent = state.spending.reached();
        let Some(form) = state.input.form.as_mut() else {
            return Ok((text, stop));
        };
        let fault = match form.read(&text, form.is_cut) {
            Ok(value) => {
                let schema_sha256 = sha256_hex(&[form.text.as_bytes()]);
                let output = NewOutput {
                    schema_sha256,
                    json: canonical(&value),
                    repairs: form.repairs,
                };
                state.outbox.pending.push(JournalEntry::Output(output));
                let stop = if stop == StopReason::NoReply {
                    StopReason::Answered
                } else {
                    stop
                };
                return Ok((shown(&value), stop));
            }
            Err(fault) => fault,
        };
        if let Some(limit) = spent {
            form.give_up(&fault, &format!("and `{limit}` leaves no repair"));
            return Ok((text, StopReason::Failed));
        }
        if form.repairs >= REPAIRS_MAX {
            form.give_up(&fault, &format!("after {REPAIRS_MAX} repairs"));
            return Ok((text, StopReason::Failed));
        }
        form.repairs += 1;
        state
            .conversation
            .said
            .push(Message::assistant(text.clone()));
        let asked = turn::ask(state, ToolChoice::None, Some(note(&fault))).await;
        if let Err(RunError::BudgetExhausted(empty)) = &asked
            && exhausted::ends(&state.input, empty).await?
        {
            state
                .input
                .form
                .iter_mut()
                .for_each(|form| form.give_up(&fault, "and the money leaves no repair"));
            return Ok((text, StopReason::Failed));
        }
        let answer = asked?;
        state.conversation.said.push(Message::user(note(&fault)));
        state
            .input
            .form
            .iter_mut()
            .for_each(|form| form.is_cut = answer.stop == FinishReason::MaxTokens);
        text = answer.text();
    }
}

/// Returns the error of a run whose answer never fitted.
pub fn failure(form: &mut AnswerForm) -> Option<(ErrorClass, String)> {
    let failure = form.failure.take()?;
    Some((ErrorClass::OutputInvalid, failure))
}
