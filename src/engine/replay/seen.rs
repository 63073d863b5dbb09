//! What a model was told in a turn, as text: the texts of the system, the messages with their blocks, the tools. Pure.

use serde_json::Value;

/// Returns a block of a message as people read it: its text, or its arguments or result, laid out.
pub fn block_text(block: &Value) -> String {
    if let Some(text) = block["text"].as_str() {
        return text.to_owned();
    }
    let inner = match block["content"].as_str() {
        Some(content) => serde_json::from_str(content).unwrap_or_else(|_| block["content"].clone()),
        None => block["args"]["object"].clone(),
    };
    let shown = if inner.is_null() { block } else { &inner };
    let name = block["name"].as_str().unwrap_or_default();
    let laid_out = serde_json::to_string_pretty(shown).unwrap_or_default();
    format!("{name} {laid_out}").trim_start().to_owned()
}

/// Renders a request in the order in which the model read it. `None`: it is no request.
pub fn request_text(context_json: &str) -> Option<String> {
    let request: Value = serde_json::from_str(context_json).ok()?;
    let mut text = String::new();
    for system in request["system"].as_array().into_iter().flatten() {
        section(&mut text, "system", system.as_str().unwrap_or_default());
    }
    for message in request["messages"].as_array().into_iter().flatten() {
        let role = message["role"].as_str().unwrap_or_default();
        for block in message["blocks"].as_array().into_iter().flatten() {
            let kind = block["type"].as_str().unwrap_or_default();
            section(&mut text, &format!("{role}, {kind}"), &block_text(block));
        }
    }
    let tools = request["tools"].as_array().into_iter().flatten();
    let tools: Vec<&str> = tools.filter_map(|tool| tool["name"].as_str()).collect();
    section(&mut text, "tools", &tools.join(", "));
    Some(text)
}

/// Renders the body of a request as it was sent, which alone is kept of later turns. `None`: it is gone.
pub fn body_text(request_json: &str) -> Option<String> {
    let body: Value = serde_json::from_str(request_json).ok()?;
    let laid_out = serde_json::to_string_pretty(&body).ok()?;
    let has_members = body.as_object().is_some_and(|body| !body.is_empty());
    has_members.then(|| format!("\n== request, as it was sent ==\n{laid_out}\n"))
}

fn section(text: &mut String, head: &str, body: &str) {
    text.push_str("\n== ");
    text.push_str(&head.replace('_', " "));
    text.push_str(" ==\n");
    text.push_str(body.trim_end());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_request_reads_in_the_order_of_the_model() {
        let request = json!({ "system": ["Be brief."], "tools": [{ "name": "glob" }], "messages": [
            { "role": "user", "blocks": [{ "type": "text", "text": "Hello" }] },
            { "role": "assistant", "blocks": [{ "type": "tool_call", "name": "glob", "args": { "object": { "a": 1 } } }] },
            { "role": "user", "blocks": [{ "type": "tool_result", "name": "glob", "content": "none" }] }] });
        let text = request_text(&request.to_string()).expect("a text");
        assert_eq!(
            text,
            "\n== system ==\nBe brief.\n\n== user, text ==\nHello\n\n== assistant, tool call ==\nglob {\n  \"a\": 1\n}\n\
             \n== user, tool result ==\nglob \"none\"\n\n== tools ==\nglob\n"
        );
        assert_eq!(request_text("no JSON"), None);
        assert_eq!(body_text("{}"), None);
        let body = body_text(r#"{"model":"m"}"#).expect("a text");
        assert!(body.ends_with("{\n  \"model\": \"m\"\n}\n"), "{body}");
    }
}
