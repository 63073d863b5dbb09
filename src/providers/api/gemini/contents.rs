//! History in Gemini's format: contents of parts, calls matched with results by the vendor's id or
//! by order. Pure.
//!
//! The decoder writes `provider_state`; this module reads it. Of a tool call:
//! `{"id", "signature"}`, each only if Gemini gave it. Of a thinking block:
//! `{"part", "signature"}`, where `part` names the part that the signature belongs to: `thought` is
//! the block's own, `text` that of the text that follows, `empty` that of a part without text.

use crate::providers::contract::traits::{Block, Message, ProviderState, Role, ToolArgs};
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// Value that the vendor takes in place of a signature for a call that another model made
/// (ai.google.dev/gemini-api/docs/thought-signatures).
const FOREIGN_SIGNATURE: &str = "skip_thought_signature_validator";

/// Encodes a normalised history. `signs`: the model refuses a message whose first call has no
/// signature.
pub fn contents(messages: &[Message], signs: bool) -> Vec<Value> {
    let mut ids = HashMap::new();
    let mut contents = Vec::new();
    for Message { role, blocks } in messages {
        contents.push(match role {
            Role::User => {
                let parts: Vec<Value> = blocks
                    .iter()
                    .filter_map(|block| user_part(block, &ids))
                    .collect();
                json!({"role": "user", "parts": parts})
            }
            Role::Assistant => {
                ids.extend(blocks.iter().filter_map(given_id));
                json!({"role": "model", "parts": model_parts(blocks, signs)})
            }
        });
    }
    contents
}

/// Returns our id of a call and Gemini's.
fn given_id(block: &Block) -> Option<(&str, &str)> {
    match block {
        Block::ToolCall {
            id, provider_state, ..
        } => Some((id.as_str(), word(provider_state.as_ref()?, "id")?)),
        _ => None,
    }
}

fn word<'a>(state: &'a ProviderState, key: &str) -> Option<&'a str> {
    state.state.get(key).and_then(Value::as_str)
}

fn user_part(block: &Block, ids: &HashMap<&str, &str>) -> Option<Value> {
    match block {
        Block::Text { text } => Some(json!({"text": text})),
        Block::ToolResult {
            call_id,
            name,
            content,
            is_error,
        } => {
            let content =
                serde_json::from_str(content).unwrap_or_else(|_| Value::String(content.clone()));
            // The vendor wants an object, with these names for output and error.
            let response = if *is_error {
                json!({"error": content})
            } else {
                json!({"output": content})
            };
            let mut result = with_id(ids.get(call_id.as_str()).copied());
            result.insert("name".to_owned(), json!(lettered(name)));
            result.insert("response".to_owned(), response);
            Some(json!({"functionResponse": result}))
        }
        Block::Image(image) => Some(json!({
            "inlineData": {"mimeType": image.file.media_type, "data": image.base64()},
        })),
        Block::Pdf(pdf) => Some(json!({
            "inlineData": {"mimeType": pdf.file.media_type, "data": pdf.base64()},
        })),
        // The normaliser leaves neither thoughts nor calls in a user's message, and the adapter
        // does not declare files.
        Block::Thinking { .. } | Block::ToolCall { .. } | Block::FileReference(_) => None,
    }
}

/// Prefixes a name that does not begin with a letter or `_` (the reference of
/// `FunctionDeclaration`): ours do, those that models make up may not.
fn lettered(name: &str) -> String {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if begins {
        name.to_owned()
    } else {
        format!("_{name}").chars().take(64).collect()
    }
}

fn with_id(id: Option<&str>) -> Map<String, Value> {
    id.map(|id| ("id".to_owned(), json!(id)))
        .into_iter()
        .collect()
}

fn model_parts(blocks: &[Block], signs: bool) -> Vec<Value> {
    let mut parts = Vec::new();
    // Signature of the text block that follows.
    let mut waiting: Option<&str> = None;
    let mut has_call = false;
    for block in blocks {
        if let (Some(signature), false) = (waiting, matches!(block, Block::Text { .. })) {
            // Its text was blank, and the normaliser dropped it.
            parts.push(json!({"text": "", "thoughtSignature": signature}));
            waiting = None;
        }
        match block {
            Block::Text { text } => parts.push(signed(json!({"text": text}), waiting.take())),
            Block::Thinking {
                text,
                provider_state: Some(state),
            } => {
                let signature = word(state, "signature");
                match word(state, "part") {
                    Some("text") => waiting = signature,
                    Some("thought") => {
                        parts.push(signed(json!({"text": text, "thought": true}), signature));
                    }
                    _ => parts.push(signed(json!({"text": ""}), signature)),
                }
            }
            Block::ToolCall {
                id: _,
                name,
                args,
                provider_state,
            } => {
                let own = provider_state.as_ref();
                let mut call = with_id(own.and_then(|state| word(state, "id")));
                call.insert("name".to_owned(), json!(lettered(name)));
                call.insert("args".to_owned(), Value::Object(object(args)));
                let foreign = (own.is_none() && signs && !has_call).then_some(FOREIGN_SIGNATURE);
                let signature = own.and_then(|state| word(state, "signature")).or(foreign);
                parts.push(signed(json!({"functionCall": call}), signature));
                has_call = true;
            }
            // The normaliser has dropped reasoning without our `provider_state`, and an assistant's
            // message has neither results nor files.
            Block::Thinking { .. }
            | Block::ToolResult { .. }
            | Block::Image(_)
            | Block::Pdf(_)
            | Block::FileReference(_) => {}
        }
    }
    parts
}

fn signed(mut part: Value, signature: Option<&str>) -> Value {
    if let Some(signature) = signature {
        part["thoughtSignature"] = json!(signature);
    }
    part
}

fn object(args: &ToolArgs) -> Map<String, Value> {
    match args {
        ToolArgs::Object(map) => map.clone(),
        // The normaliser has put these into an object already.
        ToolArgs::Malformed { .. } => Map::new(),
    }
}
