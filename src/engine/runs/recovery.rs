//! Recovery of an interrupted run from its journal.

use super::checkpoint::{ContextCheckpoint, from_json};
use super::state::LoopState;
use crate::providers::{FinishReason, Message, Response};
use crate::runs::approvals::reply;
use crate::runs::error::RunError;
use crate::runs::reply::last_text;
use crate::runs::said::letter::{self, LastText};
use crate::runs::tool_calls::dispatch;
use crate::store::JournalSoFar;

/// Resumes an earlier attempt at its last commit. Model and tools are today's: an operator who
/// edits `configs/inference.json` and retries the run wants the new settings.
pub fn resume(
    state: &mut LoopState<'_>,
    first_json: &str,
    journal: &JournalSoFar,
) -> Result<(), RunError> {
    let ContextCheckpoint {
        request,
        stubbed,
        unoffered,
        words,
        to_summarise,
    } = from_json(first_json)?;
    state.leave_tools(unoffered);
    state.input.label = state.input.label.clone().having_read(words);
    (
        state.conversation.first.system,
        state.conversation.first.messages,
    ) = (request.system, request.messages);
    state.conversation.first.past_messages = request.past_messages;
    state.conversation.first.cache_key = request.cache_key;
    state.conversation.attach_files(&state.input.subject.files);
    state.conversation.stubbed = stubbed;
    state.conversation.to_summarise = to_summarise;
    if let Some((name, model)) = &journal.answered_by {
        state.route.go_on(name, model);
    }
    state.conversation.known_steps.clone_from(&journal.steps);
    state.conversation.approvals.clone_from(&journal.approvals);
    state.outbox.found_calls = journal.calls;
    state.outbox.turn_attempts = journal.attempts.iter().copied().collect();
    state.outbox.mails_sent = journal.mails as usize;
    state.outbox.replied = journal.replied;
    state.spending.counters.turns = u32::try_from(journal.answers.len()).unwrap_or(u32::MAX);
    let mut answers = journal.answers.iter().zip(1..).peekable();
    while let Some(((_, json), number)) = answers.next() {
        let response: Response = from_json(json)?;
        state.spending.counters.usage = state.spending.counters.usage.plus(response.usage);
        if let Some(note) = reply::edit_note(&journal.steps, number) {
            state.append(response, Vec::new());
            state.conversation.said.push(Message::user(note));
            continue;
        }
        match answers.peek() {
            // Every earlier answer has all its results, or the next turn would not have
            // started.
            Some(_) => {
                let results = dispatch::known_blocks(state, &response);
                let note = match state.input.form.as_mut() {
                    Some(form) => form.replayed(&response),
                    None => corrected(state, &response).map(Message::user),
                };
                state.append(response, results);
                state.conversation.said.extend(note);
            }
            // A refusal ended the run with its own commit: a retry asks again.
            None if response.stop == FinishReason::Refused => {}
            // So did an end without a word.
            None if state.input.run.is_retried
                && is_wordless(&response)
                && state.input.writes_letter() => {}
            None if state
                .input
                .form
                .as_mut()
                .is_some_and(|form| form.is_given_up(&response)) => {}
            None => state.conversation.resumed = Some(response),
        }
    }
    Ok(())
}

fn is_wordless(response: &Response) -> bool {
    response.calls().next().is_none() && letter::read(&response.text(), "") == LastText::Nothing
}

/// Returns what the model was told about that answer: another one came after it, although it has no calls.
fn corrected(state: &mut LoopState<'_>, response: &Response) -> Option<&'static str> {
    let goes_on = matches!(
        response.stop,
        FinishReason::MaxTokens
            | FinishReason::Paused
            | FinishReason::MalformedCall
            | FinishReason::Refused
    );
    if goes_on || response.calls().next().is_some() {
        return None;
    }
    last_text::correction(state, response).map(|(note, _)| note)
}
