//! Body of a request to the Responses API. Pure.

use crate::config::{ChatApi, ChatSwitches, StructuredOutput};
use crate::providers::api::openai::dialect::Dialect;
use crate::providers::api::openai::responses::items::{Kept, kept};
use crate::providers::contract::normalise;
use crate::providers::contract::traits::{
    Block, Message, Parameter, ProviderError, Request, Role, ToolArgs, ToolChoice, ToolSchema,
};
use serde::Serialize;
use serde_json::{Value, json};

/// Least output limit that OpenAI takes (`integer_below_min_value` below it).
const OUTPUT_TOKENS_MIN: u32 = 16;

#[derive(Serialize)]
struct ResponsesRequest<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
    input: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<ResponsesTool<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    max_output_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    include: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
    store: bool,
    stream: bool,
}

/// A tool. `strict` is always said: where it is not, OpenAI turns it on and changes the schema.
#[derive(Serialize)]
struct ResponsesTool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a ToolSchema,
    strict: bool,
}

/// Encodes the bytes to send. Errors: class `BadRequest`.
pub fn body(
    asked: &Request,
    dialect: &Dialect,
    switches: &ChatSwitches,
) -> Result<String, ProviderError> {
    let request = normalise::request(asked, dialect.adapter.id)?;
    let without = |parameter| request.without.contains(&parameter);
    let strict = switches.strict_schemas && !without(Parameter::Strict);
    let returns_reasoning = !without(Parameter::SentReasoning);
    let tool_choice = match request.tool_choice {
        ToolChoice::Auto => "auto",
        ToolChoice::None => "none",
    };
    let has_tools = !request.tools.is_empty();
    normalise::encode(&ResponsesRequest {
        model: &request.model,
        instructions: (!request.system.is_empty()).then(|| request.system.join("\n\n")),
        input: input(&request.messages, returns_reasoning),
        tools: has_tools.then(|| {
            request
                .tools
                .iter()
                .map(|tool| ResponsesTool {
                    kind: "function",
                    name: &tool.name,
                    description: &tool.description,
                    parameters: &tool.input_schema,
                    strict,
                })
                .collect()
        }),
        tool_choice: (has_tools && !without(Parameter::ToolChoice)).then_some(tool_choice),
        max_output_tokens: request.max_output_tokens.max(OUTPUT_TOKENS_MIN),
        temperature: request
            .temperature
            .filter(|_| !switches.no_temperature && !without(Parameter::Temperature)),
        reasoning: switches
            .reasoning_effort
            .filter(|_| !without(Parameter::Reasoning))
            .map(|effort| json!({ "effort": effort })),
        text: format(&request, switches, strict).map(|format| json!({ "format": format })),
        include: returns_reasoning.then_some(["reasoning.encrypted_content"]),
        prompt_cache_key: dialect.cache_key(&request, switches, ChatApi::Responses),
        store: false,
        stream: true,
    })
}

/// Encodes the form of the answer; `None` where the schema stands in the prompt alone.
fn format(request: &Request, switches: &ChatSwitches, strict: bool) -> Option<Value> {
    let output = request
        .output
        .as_ref()
        .filter(|_| !request.without.contains(&Parameter::OutputSchema))?;
    match switches.structured_output {
        StructuredOutput::JsonSchema => Some(json!({
            "type": "json_schema", "name": output.name, "schema": output.schema, "strict": strict,
        })),
        StructuredOutput::JsonObject => Some(json!({"type": "json_object"})),
        StructuredOutput::None => None,
    }
}

fn input(messages: &[Message], returns_reasoning: bool) -> Vec<Value> {
    let mut items = Vec::new();
    for message in messages {
        match message.role {
            Role::User => user(message, &mut items),
            Role::Assistant => assistant(message, returns_reasoning, &mut items),
        }
    }
    items
}

/// Appends the results of tools, then what the user says.
fn user(message: &Message, items: &mut Vec<Value>) {
    let mut parts = Vec::new();
    for block in &message.blocks {
        match block {
            Block::ToolResult {
                call_id, content, ..
            } => items.push(json!({
                "type": "function_call_output", "call_id": call_id, "output": content,
            })),
            Block::Text { text } => parts.push(json!({"type": "input_text", "text": text})),
            Block::Image(image) => {
                let url = format!("data:{};base64,{}", image.file.media_type, image.base64());
                // OpenAI's document requires `detail`; `auto` is its default.
                parts.push(json!({"type": "input_image", "image_url": url, "detail": "auto"}));
            }
            Block::Pdf(pdf) => {
                let data = format!("data:{};base64,{}", pdf.file.media_type, pdf.base64());
                let name = &pdf.file.name;
                parts.push(json!({"type": "input_file", "filename": name, "file_data": data}));
            }
            _ => {}
        }
    }
    if !parts.is_empty() {
        items.push(json!({"type": "message", "role": "user", "content": parts}));
    }
}

/// Appends what the model said, as it said it: reasoning, texts and calls in their order.
fn assistant(message: &Message, returns_reasoning: bool, items: &mut Vec<Value>) {
    let mut phase = None;
    for block in &message.blocks {
        match block {
            Block::Thinking {
                provider_state: Some(state),
                ..
            } => match kept(state) {
                Some(Kept::Item(item)) if returns_reasoning => items.push(item.clone()),
                Some(Kept::Phase(named)) => phase = Some(named),
                _ => {}
            },
            Block::Text { text } => {
                let text = text.trim_start_matches('\n');
                let mut said = json!({"type": "message", "role": "assistant", "content": text});
                if let Some(phase) = phase.take() {
                    said["phase"] = json!(phase);
                }
                items.push(said);
            }
            Block::ToolCall { id, name, args, .. } => {
                let arguments = match args {
                    ToolArgs::Object(map) => Value::Object(map.clone()),
                    ToolArgs::Malformed { raw, .. } => json!({"malformed_arguments": raw}),
                };
                items.push(json!({
                    "type": "function_call", "call_id": id, "name": name,
                    "arguments": arguments.to_string(),
                }));
            }
            _ => {}
        }
    }
}
