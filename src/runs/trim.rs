//! Trims a request that was too long: results of this run's earlier calls first, then the history
//! of the thread.
//!
//! Always kept: the persona's own texts, the current input, the newest results. A call is never
//! separated from its result, and an exchange of the history is dropped as a whole.

use super::deps::RunError;
use super::work::Work;
use crate::context::resolvers::estimate_tokens;
use crate::context::resolvers::thread_history::message_tokens;
use crate::providers::{Block, Message, Request};
use std::collections::BTreeSet;

/// Shortest result, in tokens, that is worth leaving out.
const STUB_TOKENS_MIN: usize = 100;

/// Estimates the tokens of a whole request.
pub fn tokens(request: &Request) -> u64 {
    let system: usize = request
        .system
        .iter()
        .map(|text| estimate_tokens(text))
        .sum();
    let messages: usize = request.messages.iter().map(message_tokens).sum();
    (system + messages + tool_tokens(request)) as u64
}

fn tool_tokens(request: &Request) -> usize {
    let written = serde_json::to_string(&request.tools).unwrap_or_default();
    estimate_tokens(&written)
}

/// Returns the most tokens that a context may have in a request with this input limit: the limit
/// less the request's other parts.
pub fn context_tokens_max(work: &Work<'_>, input_tokens_max: u64) -> usize {
    let said: usize = work.said_for_model().iter().map(message_tokens).sum();
    let target = usize::try_from(input_tokens_max).unwrap_or(usize::MAX);
    target.saturating_sub(said + tool_tokens(&work.first))
}

/// Trims the input to about that many tokens, and records what was left out and why. Returns
/// whether there was anything to leave out.
pub async fn to_fit(work: &mut Work<'_>, target_tokens: u64, why: &str) -> Result<bool, RunError> {
    let whole = |work: &Work<'_>| {
        let said: usize = work.said_for_model().iter().map(message_tokens).sum();
        tokens(&work.first) + said as u64
    };
    let before = whole(work);
    for id in stubs(&work.said) {
        if whole(work) <= target_tokens {
            break;
        }
        work.stubbed.insert(id);
    }
    let budget = context_tokens_max(work, target_tokens).min(work.budget().context_tokens_max);
    let mut note = format!("made shorter, about {before} to {target_tokens} tokens: {why}");
    if !work.stubbed.is_empty() {
        let ids = work
            .stubbed
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", ");
        note.push_str(&format!("; left out the results of {ids}"));
    }
    work.assemble(budget, Some(note)).await?;
    let after = whole(work);
    tracing::warn!(run = %work.run.id, before, after, target_tokens, "the input was too long and is made shorter");
    Ok(after < before)
}

/// Returns the calls whose results may be left out, oldest first: all but the newest message's.
fn stubs(said: &[Message]) -> Vec<String> {
    let (_, earlier) = said.split_last().unwrap_or((&EMPTY, &[]));
    let results = earlier
        .iter()
        .flat_map(|message| &message.blocks)
        .filter_map(|block| match block {
            Block::ToolResult {
                call_id,
                content,
                is_error: false,
                ..
            } if estimate_tokens(content) >= STUB_TOKENS_MIN => Some(call_id.clone()),
            _ => None,
        });
    results.collect()
}

static EMPTY: Message = Message {
    role: crate::providers::Role::User,
    blocks: Vec::new(),
};

/// Returns the conversation with a line instead of each result that is left out.
pub fn with_stubs(said: &[Message], stubbed: &BTreeSet<String>) -> Vec<Message> {
    let stub = |block: &Block| match block {
        Block::ToolResult {
            call_id,
            name,
            content,
            is_error,
        } if stubbed.contains(call_id) => {
            let missing = content.chars().count();
            let words =
                format!("[{missing} characters, left out for want of room; call the tool again]");
            let content = serde_json::json!({ "ok": true, "result": words }).to_string();
            Block::ToolResult {
                call_id: call_id.clone(),
                name: name.clone(),
                content,
                is_error: *is_error,
            }
        }
        other => other.clone(),
    };
    let message = |said: &Message| Message {
        role: said.role,
        blocks: said.blocks.iter().map(stub).collect(),
    };
    said.iter().map(message).collect()
}
