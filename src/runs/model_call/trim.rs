//! Trims a request that was too long: results of this run's earlier calls first, then the history
//! of the thread.
//!
//! Always kept: the persona's own texts, the current input, the newest results. A call is never
//! separated from its result, and an exchange of the history is dropped as a whole.

use super::request_size;
use crate::context::resolvers::thread_history::message_tokens;
use crate::runs::assembly::assemble;
use crate::runs::error::RunError;
use crate::runs::state::LoopState;
use crate::runs::stubs::stubs;

/// Trims the input to about that many tokens, and records what was left out and why. Returns
/// whether there was anything to leave out.
pub async fn to_fit(
    state: &mut LoopState<'_>,
    target_tokens: u64,
    why: &str,
) -> Result<bool, RunError> {
    let whole = |state: &LoopState<'_>| {
        let said: usize = state.said_for_model().iter().map(message_tokens).sum();
        request_size::tokens(&state.first) + said as u64
    };
    let before = whole(state);
    for id in stubs(&state.said) {
        if whole(state) <= target_tokens {
            break;
        }
        state.stubbed.insert(id);
    }
    let budget = state
        .context_tokens_max(target_tokens)
        .min(state.budget().context_tokens_max);
    let mut note = format!("made shorter, about {before} to {target_tokens} tokens: {why}");
    if !state.stubbed.is_empty() {
        let ids = state
            .stubbed
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", ");
        note.push_str(&format!("; left out the results of {ids}"));
    }
    assemble(state, budget, Some(note)).await?;
    let after = whole(state);
    tracing::warn!(run = %state.run.id, before, after, target_tokens, "the input was too long and is made shorter");
    Ok(after < before)
}
