//! Body of a call of Anthropic's messages API. Pure.

use crate::providers::contract::normalise;
use crate::providers::contract::traits::{
    Block, Message, Parameter, ProviderError, Request, Role, ToolArgs, ToolChoice, ToolSchema,
};
use crate::providers::transport::classify::Family;
use serde::Serialize;
use serde_json::{Value, json};

/// A mark of the vendor's cache.
#[derive(Serialize)]
#[serde(tag = "type", rename = "ephemeral")]
struct CacheControl {}

#[derive(Serialize)]
struct AnthropicTool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a ToolSchema,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
struct AnthropicRequest<'a> {
    model: &'a str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Value>,
    messages: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<AnthropicTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    stream: bool,
}

/// Encodes the body of one request. Errors: class `BadRequest`.
pub fn body(request: &Request) -> Result<String, ProviderError> {
    let family = Family::Anthropic.as_str();
    let asked = request;
    let request = normalise::request(asked, family)?;
    let past = normalise::past_parts(asked, &request.messages, family);
    let goes_on = !request.tools.is_empty() && request.tool_choice == ToolChoice::Auto;
    let choice = match request.tool_choice {
        ToolChoice::Auto => "auto",
        ToolChoice::None => "none",
    };
    let last = request.tools.len().saturating_sub(1);
    let tools = request
        .tools
        .iter()
        .enumerate()
        .map(|(at, tool)| AnthropicTool {
            name: &tool.name,
            description: &tool.description,
            input_schema: &tool.input_schema,
            cache_control: (at == last).then_some(CacheControl {}),
        });
    let body = AnthropicRequest {
        model: &request.model,
        max_tokens: request.max_output_tokens,
        temperature: request
            .temperature
            .filter(|_| !request.without.contains(&Parameter::Temperature)),
        system: marked(system(&request.system)),
        messages: messages(&request.messages, past, goes_on),
        tools: tools.collect(),
        tool_choice: (!request.tools.is_empty()).then(|| json!({"type": choice})),
        stream: true,
    };
    normalise::encode(&body)
}

/// Encodes one block per section.
fn system(sections: &[String]) -> Vec<Value> {
    let block = |text: &String| json!({"type": "text", "text": text});
    sections.iter().map(block).collect()
}

/// Marks the last of these: the vendor caches everything up to it, in the order of tools, system and
/// messages (docs.anthropic.com, prompt caching). At most four marks are allowed: tools and system
/// serve other threads, the past serves the thread's next letter, the end serves the next turn.
fn marked(mut blocks: Vec<Value>) -> Vec<Value> {
    blocks.last_mut().into_iter().for_each(mark);
    blocks
}

fn mark(block: &mut Value) {
    // The vendor refuses a mark on reasoning.
    let kind = block.get("type").and_then(Value::as_str);
    if matches!(kind, Some("thinking" | "redacted_thinking")) {
        return;
    }
    if let Value::Object(block) = block {
        block.insert("cache_control".to_owned(), json!({"type": "ephemeral"}));
    }
}

/// Encodes the messages, of which the first `past` parts are the thread's past. The end is marked only
/// where another turn may follow: a mark makes its part dearer by a quarter.
fn messages(ready: &[Message], past: usize, goes_on: bool) -> Vec<Value> {
    let mut messages: Vec<Value> = ready.iter().map(message).collect();
    let parts = messages
        .iter_mut()
        .filter_map(|message| message.get_mut("content")?.as_array_mut());
    let mut parts: Vec<&mut Value> = parts.flatten().collect();
    let end = if goes_on { parts.len() } else { 0 };
    for place in [past, end] {
        let part = place.checked_sub(1).and_then(|at| parts.get_mut(at));
        part.into_iter().for_each(|part| mark(part));
    }
    messages
}

fn message(message: &Message) -> Value {
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let content: Vec<Value> = message.blocks.iter().filter_map(block).collect();
    json!({"role": role, "content": content})
}

/// Encodes a part; `None` for a kind that the adapter does not declare.
fn block(block: &Block) -> Option<Value> {
    Some(match block {
        Block::Text { text } => json!({"type": "text", "text": text}),
        // The normaliser has dropped reasoning without `provider_state`.
        Block::Thinking { provider_state, .. } => provider_state
            .as_ref()
            .map(|s| s.state.clone())
            .unwrap_or_default(),
        Block::ToolCall { id, name, args, .. } => {
            let input = match args {
                ToolArgs::Object(map) => Value::Object(map.clone()),
                ToolArgs::Malformed { raw, .. } => json!({"malformed_arguments": raw}),
            };
            json!({"type": "tool_use", "id": id, "name": name, "input": input})
        }
        Block::ToolResult {
            call_id,
            content,
            is_error,
            ..
        } => {
            let mut result =
                json!({"type": "tool_result", "tool_use_id": call_id, "content": content});
            if *is_error {
                result["is_error"] = Value::Bool(true);
            }
            result
        }
        Block::Image(image) => {
            let source = json!({
                "type": "base64", "media_type": image.file.media_type, "data": image.base64(),
            });
            json!({"type": "image", "source": source})
        }
        Block::Pdf(pdf) => {
            let source = json!({
                "type": "base64", "media_type": pdf.file.media_type, "data": pdf.base64(),
            });
            json!({"type": "document", "source": source, "title": pdf.file.name})
        }
        Block::FileReference(_) => return None,
    })
}
