//! Estimated size of a request, in tokens.

use crate::context::resolvers::estimate_tokens;
use crate::context::resolvers::thread_history::message_tokens;
use crate::providers::{Message, Request};

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
pub fn context_tokens_max(first: &Request, said: &[Message], input_tokens_max: u64) -> usize {
    let said: usize = said.iter().map(message_tokens).sum();
    let target = usize::try_from(input_tokens_max).unwrap_or(usize::MAX);
    target.saturating_sub(said + tool_tokens(first))
}
