//! Body of a call of Anthropic's messages API. Pure.

use crate::providers::contract::normalise;
use crate::providers::contract::traits::{
    Block, Message, Parameter, ProviderError, Request, Role, ToolArgs, ToolChoice, ToolSpec,
};
use crate::providers::transport::classify::Family;
use serde::Serialize;
use serde_json::{Value, json};

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
    tools: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    stream: bool,
}

/// Encodes the body of one request. Errors: class `BadRequest`.
pub fn body(request: &Request) -> Result<String, ProviderError> {
    let request = normalise::request(request, Family::Anthropic.as_str())?;
    let choice = match request.tool_choice {
        ToolChoice::Auto => "auto",
        ToolChoice::None => "none",
    };
    let tool = |t: &ToolSpec| json!({"name": t.name, "description": t.description, "input_schema": t.input_schema});
    let body = AnthropicRequest {
        model: &request.model,
        max_tokens: request.max_output_tokens,
        temperature: request
            .temperature
            .filter(|_| !request.without.contains(&Parameter::Temperature)),
        system: system(&request.system),
        messages: request.messages.iter().map(message).collect(),
        tools: request.tools.iter().map(tool).collect(),
        tool_choice: (!request.tools.is_empty()).then(|| json!({"type": choice})),
        stream: true,
    };
    normalise::encode(&body)
}

/// Encodes one block per section; the cache mark on the last one caches tools and system together,
/// which change rarely.
fn system(sections: &[String]) -> Vec<Value> {
    let mut blocks: Vec<Value> = sections
        .iter()
        .map(|text| json!({"type": "text", "text": text}))
        .collect();
    if let Some(Value::Object(last)) = blocks.last_mut() {
        last.insert("cache_control".to_owned(), json!({"type": "ephemeral"}));
    }
    blocks
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
        Block::FileReference(_) => return None,
    })
}
