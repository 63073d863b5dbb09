//! Items of the Responses API that go back to the model that made them. Pure.
//!
//! An item is kept as the state of a block: reasoning as its own, the phase of a message as that of
//! an empty one before the text.

use crate::providers::contract::traits::{Block, ProviderState};
use serde_json::{Map, Value, json};

/// Members of a reasoning item that a request may hold (`ReasoningItem` of the OpenAPI document).
/// Its `status` is left out: servers differ in which they take.
const REASONING: &[&str] = &["type", "id", "summary", "content", "encrypted_content"];

/// Returns the block of a reasoning item; `None` for one that holds nothing at all. Without its
/// encrypted form, or the text itself, it means nothing to a server that has stored nothing, and
/// does not go back.
pub fn reasoning_block(item: &Value, adapter: &str) -> Option<Block> {
    let texts = |key: &str| -> Vec<String> {
        let parts = item
            .get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let text = |part: &Value| part.get("text").and_then(Value::as_str).map(str::to_owned);
        parts.filter_map(text).collect()
    };
    let (summary, content) = (texts("summary"), texts("content"));
    let said = if summary.is_empty() {
        &content
    } else {
        &summary
    };
    let text = said.join("\n\n");
    let is_encrypted = item
        .get("encrypted_content")
        .and_then(Value::as_str)
        .is_some_and(|bytes| !bytes.is_empty());
    let returns = is_encrypted || !content.is_empty();
    if text.is_empty() && !returns {
        return None;
    }
    let kept = || {
        let is_said = |value: &Value| !value.is_null() && *value != json!([]);
        let member = |key: &&str| Some(((*key).to_owned(), item.get(*key)?.clone()));
        let members = REASONING.iter().filter_map(member);
        let mut kept: Map<String, Value> = members
            .filter(|(key, value)| key == "summary" || is_said(value))
            .collect();
        // Required, even where there is none.
        kept.entry("summary").or_insert_with(|| json!([]));
        Value::Object(kept)
    };
    Some(Block::Thinking {
        text,
        provider_state: returns.then(|| state(adapter, kept())),
    })
}

/// Returns the block that keeps the phase of the message behind it (`commentary`, `final_answer`):
/// the vendor wants it back with the message, or the model takes its own remarks for answers.
pub fn phase_block(message: &Value, adapter: &str) -> Option<Block> {
    let phase = message.get("phase").and_then(Value::as_str)?;
    Some(Block::Thinking {
        text: String::new(),
        provider_state: Some(state(adapter, json!({ "phase": phase }))),
    })
}

fn state(adapter: &str, state: Value) -> ProviderState {
    ProviderState {
        family: adapter.to_owned(),
        model: String::new(),
        state,
    }
}

/// What a kept state is.
pub enum Kept<'a> {
    /// An item of the request.
    Item(&'a Value),
    /// Phase of the next message.
    Phase(&'a str),
}

/// Reads a state back; `None` for one that chat completions left.
pub fn kept(state: &ProviderState) -> Option<Kept<'_>> {
    if let Some(phase) = state.state.get("phase").and_then(Value::as_str) {
        return Some(Kept::Phase(phase));
    }
    let is_item = state
        .state
        .get("type")
        .is_some_and(|kind| kind == "reasoning");
    is_item.then_some(Kept::Item(&state.state))
}
