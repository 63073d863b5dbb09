//! Trims a request that was too long: tools that are rarely used, then results of this run's earlier calls, then what the
//! context has besides the persona's own texts and the letter (`context::assemble_beside`).
//!
//! Always kept: the persona's own texts, the current input, the newest results, tools that this run has called. A call is never
//! separated from its result, and an exchange of the history is dropped as a whole.

use super::request_size;
use crate::context::resolvers::thread_history::message_tokens;
use crate::runs::assembly::{assemble, spare_tools};
use crate::runs::error::RunError;
use crate::runs::said::conversation::RunConversation;
use crate::runs::state::LoopState;
use crate::runs::stubs::stubs;

/// Trims the input to about that many tokens, and records what was left out and why. Returns
/// whether there was anything to leave out.
pub async fn to_fit(
    state: &mut LoopState<'_>,
    target_tokens: u64,
    why: &str,
) -> Result<bool, RunError> {
    let whole = |conversation: &RunConversation| {
        let said: usize = conversation.for_model().iter().map(message_tokens).sum();
        request_size::tokens(&conversation.first) + said as u64
    };
    let before = whole(&state.conversation);
    let rare: usize = spare_tools(state).rare.iter().map(|tool| tool.tokens).sum();
    for id in stubs(&state.conversation.said) {
        if whole(&state.conversation).saturating_sub(rare as u64) <= target_tokens {
            break;
        }
        state.conversation.stubbed.insert(id);
    }
    let mut note = format!("made shorter, about {before} to {target_tokens} tokens: {why}");
    if !state.conversation.stubbed.is_empty() {
        let ids = state
            .conversation
            .stubbed
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", ");
        note.push_str(&format!("; left out the results of {ids}"));
    }
    assemble(state, Some(target_tokens), Some(note)).await?;
    let after = whole(&state.conversation);
    tracing::warn!(run = %state.input.run.id, before, after, target_tokens, "the input was too long and is made shorter");
    Ok(after < before)
}
