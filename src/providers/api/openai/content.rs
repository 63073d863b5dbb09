//! Text and reasoning in the content of a chat completion. Pure.

use serde_json::Value;

/// Returns the text of a string, of the parts that Mistral sends, or of the object that
/// Cloudflare's JSON mode returns.
pub fn text_of_content(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part.get("text").and_then(Value::as_str))
            .collect(),
        Value::Object(_) => content.to_string(),
        _ => String::new(),
    }
}

/// Returns Mistral's reasoning: parts of the content, whose `thinking` is a text or parts again.
pub fn thought_of_content(content: &Value) -> String {
    let parts = content.as_array().into_iter().flatten();
    let thoughts =
        parts.filter(|part| part.get("type").and_then(Value::as_str) == Some("thinking"));
    thoughts
        .filter_map(|part| part.get("thinking"))
        .map(text_of_content)
        .collect()
}

/// Adds one of OpenRouter's details. A stream brings them in pieces: text that continues the last
/// one is joined to it, so that what is sent back equals a whole answer's.
pub fn add_detail(details: &mut Vec<Value>, piece: &Value) {
    let same = |last: &&mut Value| {
        ["type", "index"]
            .iter()
            .all(|key| last.get(key) == piece.get(key))
    };
    let grows = ["text", "summary"]
        .iter()
        .any(|key| piece.get(key).is_some_and(Value::is_string));
    let is_end = piece.get("signature").is_some_and(Value::is_string);
    match (details.last_mut().filter(same), piece) {
        (Some(Value::Object(last)), Value::Object(piece)) if grows || is_end => {
            for (key, value) in piece {
                match (last.get_mut(key), value) {
                    (Some(Value::String(whole)), Value::String(more))
                        if key == "text" || key == "summary" =>
                    {
                        whole.push_str(more);
                    }
                    (Some(old), new) if old.is_null() => *old = new.clone(),
                    (None, new) => {
                        last.insert(key.clone(), new.clone());
                    }
                    _ => {}
                }
            }
        }
        _ => details.push(piece.clone()),
    }
}
