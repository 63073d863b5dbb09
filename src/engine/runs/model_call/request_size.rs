//! Estimated size of a request, in tokens.

use crate::context::resolvers::estimate_tokens;
use crate::context::resolvers::thread_history::message_tokens;
use crate::providers::{Request, ToolSpec};

/// Estimates the tokens of a whole request.
pub fn tokens(request: &Request) -> u64 {
    let system: usize = request
        .system
        .iter()
        .map(|text| estimate_tokens(text))
        .sum();
    let messages: usize = request.messages.iter().map(message_tokens).sum();
    (system + messages + tool_tokens(&request.tools)) as u64
}

/// Estimates the tokens of the descriptions of tools.
pub fn tool_tokens(tools: &[ToolSpec]) -> usize {
    estimate_tokens(&serde_json::to_string(tools).unwrap_or_default())
}
