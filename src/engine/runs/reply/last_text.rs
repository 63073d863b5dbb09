//! The last text of a run before it is mailed: given back to the model once, kept for the owner, or passed on as a letter.
//!
//! Absent on purpose: what a letter is (`said::letter`).

use crate::context::resolvers::Subject;
use crate::domain::{StopReason, Trigger};
use crate::providers::{Block, Response, Role, ToolChoice};
use crate::runs::agents::partial;
use crate::runs::said::conversation::RunConversation;
use crate::runs::said::letter::{self, LastText};
use crate::runs::state::{LoopState, RunInput};

/// Returns what the model is told about a last text that is none, and what it may do then. Once in a run.
pub fn correction(
    state: &mut LoopState<'_>,
    response: &Response,
) -> Option<(&'static str, ToolChoice)> {
    if state.conversation.is_corrected || !state.owes_letter() {
        return None;
    }
    let text = or_words_before(&state.conversation, state.outbox.replied, response.text());
    let found = match letter::read(&text, asked(&state.input.subject)) {
        LastText::Letter(_) => None,
        LastText::NoLetter(fault) => Some((fault.note(), ToolChoice::Auto)),
        LastText::Nothing if may_be_silent(&state.input, &state.conversation) => None,
        LastText::Nothing => Some((letter::NUDGE, ToolChoice::None)),
    };
    state.conversation.is_corrected |= found.is_some();
    found
}

/// Returns the last text of a run without what is round it, and how the run ended with it. What is no letter is kept for the
/// owner.
pub fn kept_back(state: &mut LoopState<'_>, text: String) -> (String, StopReason) {
    if !state.input.writes_letter() {
        return answered(text);
    }
    match letter::read(&text, asked(&state.input.subject)) {
        LastText::Letter(letter) => (letter, StopReason::Answered),
        LastText::NoLetter(fault) => {
            state.outbox.no_letter = Some(fault);
            (text, StopReason::Answered)
        }
        LastText::Nothing
            if !state.owes_letter() || may_be_silent(&state.input, &state.conversation) =>
        {
            (String::new(), StopReason::NoReply)
        }
        LastText::Nothing => (String::new(), StopReason::Failed),
    }
}

/// Returns the partial answer at a bound, marked as such. A letter of the mark alone is none.
pub fn at_limit(
    state: &mut LoopState<'_>,
    text: String,
    limit: StopReason,
) -> (String, StopReason) {
    if !state.input.writes_letter() {
        return (partial::honest(&text, limit), limit);
    }
    match kept_back(state, text) {
        (text, _) if text.is_empty() => (text, limit),
        (text, _) => (partial::honest(&text, limit), limit),
    }
}

/// Returns the text that a run answers.
fn asked(subject: &Subject) -> &str {
    let message = &subject.message;
    message.fresh_text.as_deref().unwrap_or(&message.text_body)
}

/// Reports whether a duty may end without a word: its calls did what was to be done. Who wrote a letter waits for an answer.
fn may_be_silent(input: &RunInput<'_>, conversation: &RunConversation) -> bool {
    let last = conversation
        .said
        .iter()
        .rev()
        .find(|message| !message.blocks.is_empty());
    let has_failed = last.is_some_and(|message| {
        message
            .blocks
            .iter()
            .any(|block| matches!(block, Block::ToolResult { is_error: true, .. }))
    });
    input.run.trigger != Trigger::Email && !has_failed
}

/// Tools by which a model notes something down.
const NOTE_TAKING: [&str; 4] = ["remember", "update_memory", "correct", "forget"];

/// Returns the text beside the last call, when the end has none: models write their answer, call a tool to note something down,
/// and take the turn for over. Beside any other call stands what the model is about to do, and not what it did. A sender who has
/// an answer already gets no second one.
pub fn or_words_before(conversation: &RunConversation, replied: bool, text: String) -> String {
    if !text.trim().is_empty() || replied {
        return text;
    }
    for message in conversation.said.iter().rev() {
        for block in &message.blocks {
            match block {
                Block::ToolResult { is_error: true, .. } => return text,
                Block::ToolCall { name, .. } if !NOTE_TAKING.contains(&name.as_str()) => {
                    return text;
                }
                _ => {}
            }
        }
        let words = message.blocks.iter().filter_map(|block| match block {
            Block::Text { text } if message.role == Role::Assistant => Some(text.as_str()),
            _ => None,
        });
        let words = words.collect::<String>();
        if !words.trim().is_empty() {
            return words;
        }
    }
    text
}

/// Returns a text with how the run ended with it.
pub fn answered(text: String) -> (String, StopReason) {
    let stop = if text.trim().is_empty() {
        StopReason::NoReply
    } else {
        StopReason::Answered
    };
    (text, stop)
}
