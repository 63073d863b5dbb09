//! Results of earlier calls that requests leave out, each with a line in its place.

use crate::context::resolvers::estimate_tokens;
use crate::providers::{Block, Message};
use std::collections::BTreeSet;

/// Shortest result, in tokens, that is worth leaving out.
const STUB_TOKENS_MIN: usize = 100;

/// Returns the calls whose results may be left out, oldest first: all but the newest message's.
pub fn stubs(said: &[Message]) -> Vec<String> {
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
