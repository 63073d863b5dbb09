//! The end of a run that summarises a thread: its text is compared with the letters, and becomes a row instead of a mail.
//!
//! A text that does not pass goes back to the model once, with what is wrong. One that still does not pass is kept for the
//! owner and used by no run.

use crate::config::ContextProfile;
use crate::context::resolvers::summary::request::problems;
use crate::domain::{RunState, StopReason, Trigger};
use crate::providers::{Block, FinishReason, Message, Role, ToolChoice};
use crate::runs::error::RunError;
use crate::runs::model_call::fallback::Route;
use crate::runs::model_call::turn;
use crate::runs::record::outbox::Outbox;
use crate::runs::said::conversation::RunConversation;
use crate::runs::state::{LoopState, RunInput};
use crate::store::{ClaimedRun, JournalEntry, NewThreadSummary};

/// Most problems that the model is told, and that are kept.
const PROBLEMS_MAX: usize = 40;

/// Reports whether the run summarises a thread.
pub fn is_summary(run: &ClaimedRun) -> bool {
    run.trigger == Trigger::Summary
}

/// Queues the run that summarises the thread, with the end of a run whose context has room for a summary. Its history may have
/// fitted: the store looks at the report.
pub fn queue(input: &RunInput<'_>, route: &Route<'_>, outbox: &mut Outbox<'_>, end: RunState) {
    let config = &input.deps.config;
    let profile = config.context.get(&input.run.profile);
    let is_wanted = profile.is_some_and(ContextProfile::has_summaries);
    if end == RunState::Succeeded
        && is_wanted
        && !is_summary(input.run)
        && is_asked_by_us(input, route)
    {
        outbox.pending.push(JournalEntry::QueueSummary);
    }
}

/// Reports whether the model that summarises is asked by the engine itself. An agent would go on with the session of the thread.
fn is_asked_by_us(input: &RunInput<'_>, route: &Route<'_>) -> bool {
    input.deps.config.inference.summary_model.is_some() || route.is_model()
}

/// Checks the text of the run and adds the row of the summary. Returns why the run ended.
///
/// Errors: those of the call that asks for a repair.
pub async fn conclude(
    state: &mut LoopState<'_>,
    text: &str,
    stop: StopReason,
) -> Result<StopReason, RunError> {
    let Some(made_of) = state.conversation.to_summarise.clone() else {
        return Ok(StopReason::NoReply);
    };
    let letters = last_input(&state.conversation);
    let mut text = text.trim().to_owned();
    let mut found = problems(&letters, &text);
    let has_room = state.spending.reached().is_none();
    let is_repaired = state
        .conversation
        .said
        .iter()
        .any(|said| said.role == Role::Assistant);
    if !found.is_empty() && has_room && !is_repaired && stop == StopReason::Answered {
        state
            .conversation
            .said
            .push(Message::assistant(text.clone()));
        let answer = turn::ask(state, ToolChoice::None, Some(note(&found))).await?;
        if answer.stop != FinishReason::Refused {
            text = answer.text().trim().to_owned();
            found = problems(&letters, &text);
        }
    }
    found.truncate(PROBLEMS_MAX);
    let stop = match found.is_empty() {
        true => StopReason::Answered,
        false => StopReason::NoReply,
    };
    state
        .outbox
        .pending
        .push(JournalEntry::Summary(Box::new(NewThreadSummary {
            made_of,
            text,
            problems: found,
        })));
    Ok(stop)
}

fn last_input(conversation: &RunConversation) -> String {
    let input = conversation.first.messages.last();
    let blocks = input
        .map(|input| input.blocks.as_slice())
        .unwrap_or_default();
    let texts = blocks.iter().filter_map(|block| match block {
        Block::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn note(problems: &[String]) -> String {
    let listed: Vec<&str> = problems
        .iter()
        .take(PROBLEMS_MAX)
        .map(String::as_str)
        .collect();
    format!(
        "[engine] Your summary differs from the letters: it {}. Write it again, whole, with every fact exactly as the letters have it.",
        listed.join("; it ")
    )
}
