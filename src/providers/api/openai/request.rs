//! Body of a chat completion: the request in OpenAI's format, with the deviations of the server
//! that will read it. Pure.

use crate::config::{ChatApi, ChatSwitches, StructuredOutput};
use crate::providers::api::openai::dialect::Dialect;
use crate::providers::contract::normalise;
use crate::providers::contract::traits::{
    Block, Message, Parameter, ProviderError, Request, Role, ToolArgs, ToolChoice, ToolSchema,
    ToolSpec,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Assistant text between results and the user's text, for servers that want one there.
const ASSISTANT_AFTER_TOOLS: &str = "The results are here.";

#[derive(Serialize)]
struct ChatRequest<'a> {
    model: &'a str,
    messages: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<FunctionTool<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<bool>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<Value>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

/// A tool, in the form that all servers of this API have.
#[derive(Serialize)]
pub struct FunctionTool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a ToolSchema,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

impl<'a> FunctionTool<'a> {
    pub fn new(tool: &'a ToolSpec, strict: bool) -> Self {
        Self {
            kind: "function",
            function: Function {
                name: &tool.name,
                description: &tool.description,
                parameters: &tool.input_schema,
                strict: strict.then_some(true),
            },
        }
    }
}

/// Encodes the bytes to send. Errors: class `BadRequest`.
pub fn body(
    asked: &Request,
    dialect: &Dialect,
    switches: &ChatSwitches,
) -> Result<String, ProviderError> {
    let request = normalise::request(asked, dialect.adapter.id)?;
    let without = |parameter| request.without.contains(&parameter);
    let older_name = dialect.legacy_max_tokens || switches.legacy_max_tokens;
    let (legacy, limit) = (
        older_name != without(Parameter::MaxCompletionTokens),
        request.max_output_tokens,
    );
    let strict = switches.strict_schemas && !without(Parameter::Strict);
    let (tools, tool_choice) = tools(asked, &request, switches, strict);
    let mut more = (dialect.routing)(switches);
    if let Some(effort) = switches
        .reasoning_effort
        .filter(|_| !without(Parameter::Reasoning))
    {
        let (name, value) = (dialect.effort)(&json!(effort));
        more.insert(name.to_owned(), value);
    }
    normalise::encode(&ChatRequest {
        model: &request.model,
        messages: messages(&request, switches),
        tools,
        tool_choice,
        max_completion_tokens: (!legacy).then_some(limit),
        max_tokens: legacy.then_some(limit),
        temperature: request
            .temperature
            .filter(|_| !switches.no_temperature && !without(Parameter::Temperature)),
        response_format: response_format(&request, switches, strict),
        prompt_cache_key: dialect.cache_key(&request, switches, ChatApi::Chat),
        store: switches.no_store.then_some(false),
        stream: true,
        stream_options: (!switches.no_stream_usage && !without(Parameter::StreamUsage))
            .then(|| json!({"include_usage": true})),
        more,
    })
}

/// Returns the offered tools. Where none is offered but some were called, the normaliser has
/// described those; LiteLLM's servers refuse that and want an empty list.
fn tools<'a>(
    asked: &Request,
    request: &'a Request,
    switches: &ChatSwitches,
    strict: bool,
) -> (Option<Vec<FunctionTool<'a>>>, Option<&'a str>) {
    if request.tools.is_empty() {
        return (None, None);
    }
    if asked.tools.is_empty() && switches.empty_tools {
        return (Some(Vec::new()), None);
    }
    let choice = match request.tool_choice {
        ToolChoice::Auto => "auto",
        ToolChoice::None => "none",
    };
    let choice = (!request.without.contains(&Parameter::ToolChoice)).then_some(choice);
    (
        Some(
            request
                .tools
                .iter()
                .map(|spec| FunctionTool::new(spec, strict))
                .collect(),
        ),
        choice,
    )
}

/// Encodes the form of the answer; `None` where the schema stands in the prompt alone.
fn response_format(request: &Request, switches: &ChatSwitches, strict: bool) -> Option<Value> {
    let output = request
        .output
        .as_ref()
        .filter(|_| !request.without.contains(&Parameter::OutputSchema))?;
    match switches.structured_output {
        StructuredOutput::JsonSchema => {
            let mut schema = json!({"name": output.name, "schema": output.schema});
            if strict {
                schema["strict"] = Value::Bool(true);
            }
            Some(json!({"type": "json_schema", "json_schema": schema}))
        }
        StructuredOutput::JsonObject => Some(json!({"type": "json_object"})),
        StructuredOutput::None => None,
    }
}

fn messages(request: &Request, switches: &ChatSwitches) -> Vec<Value> {
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        let role = if switches.developer_role {
            "developer"
        } else {
            "system"
        };
        messages.push(json!({"role": role, "content": request.system.join("\n\n")}));
    }
    for message in &request.messages {
        match message.role {
            Role::User => user(message, switches, &mut messages),
            Role::Assistant => messages.push(assistant(message, &request.without)),
        }
    }
    messages
}

/// Appends every tool result as a message of its own, right after the calls; the user's text
/// follows.
fn user(message: &Message, switches: &ChatSwitches, messages: &mut Vec<Value>) {
    let mut has_results = false;
    for block in &message.blocks {
        let Block::ToolResult {
            call_id,
            name,
            content,
            ..
        } = block
        else {
            continue;
        };
        let mut result = json!({"role": "tool", "tool_call_id": call_id, "content": content});
        if switches.named_tool_results {
            result["name"] = json!(name);
        }
        messages.push(result);
        has_results = true;
    }
    let Some(content) = content(message) else {
        return;
    };
    if has_results && switches.assistant_after_tools {
        messages.push(json!({"role": "assistant", "content": ASSISTANT_AFTER_TOOLS}));
    }
    messages.push(json!({"role": "user", "content": content}));
}

fn assistant(message: &Message, without: &[Parameter]) -> Value {
    let calls: Vec<Value> = message.blocks.iter().filter_map(call).collect();
    let details: Vec<Value> = message.blocks.iter().flat_map(reasoning).cloned().collect();
    let mut encoded = json!({"role": "assistant", "content": joined(message)});
    if !calls.is_empty() {
        encoded["tool_calls"] = Value::Array(calls);
        with_reasoning(&mut encoded, message, without);
    }
    if !details.is_empty() {
        encoded["reasoning_details"] = Value::Array(details);
    }
    encoded
}

/// Puts the reasoning before calls into the member that it came in. DeepSeek takes no
/// `content: null` beside it.
fn with_reasoning(encoded: &mut Value, message: &Message, without: &[Parameter]) {
    if without.contains(&Parameter::SentReasoning) {
        return;
    }
    let member = |block: &'_ Block| match block {
        Block::Thinking {
            text,
            provider_state: Some(state),
        } => Some((
            state.state.get("member")?.as_str()?.to_owned(),
            text.clone(),
        )),
        _ => None,
    };
    let thoughts: Vec<(String, String)> = message.blocks.iter().filter_map(member).collect();
    if let Some((name, _)) = thoughts.first() {
        let texts: Vec<&str> = thoughts.iter().map(|(_, text)| text.as_str()).collect();
        encoded[name.as_str()] = json!(texts.join("\n\n"));
    } else if without.contains(&Parameter::BareCalls) {
        // An empty text counts as none.
        encoded["reasoning_content"] = json!(" ");
    } else {
        return;
    }
    if encoded["content"].is_null() {
        encoded["content"] = json!("");
    }
}

/// Returns the blocks that OpenRouter wants back unchanged. The normaliser left no other vendor's,
/// and only the decoder of OpenRouter's answers makes any.
fn reasoning(block: &Block) -> &[Value] {
    match block {
        Block::Thinking {
            provider_state: Some(state),
            ..
        } => state.state.as_array().map_or(&[], Vec::as_slice),
        _ => &[],
    }
}

fn call(block: &Block) -> Option<Value> {
    let Block::ToolCall { id, name, args, .. } = block else {
        return None;
    };
    let arguments = match args {
        ToolArgs::Object(map) => Value::Object(map.clone()),
        ToolArgs::Malformed { raw, .. } => json!({"malformed_arguments": raw}),
    };
    let function = json!({"name": name, "arguments": arguments.to_string()});
    Some(json!({"id": id, "type": "function", "function": function}))
}

/// Encodes the user's content: text alone as a string, which every server takes, and with images or
/// files as a list of parts.
fn content(message: &Message) -> Option<Value> {
    let has_file = |block: &Block| matches!(block, Block::Image(_) | Block::Pdf(_));
    if !message.blocks.iter().any(has_file) {
        return joined(message).map(Value::String);
    }
    let part = |block: &Block| match block {
        Block::Text { text } => Some(json!({"type": "text", "text": text})),
        Block::Image(image) => {
            let url = format!("data:{};base64,{}", image.file.media_type, image.base64());
            Some(json!({"type": "image_url", "image_url": {"url": url}}))
        }
        Block::Pdf(pdf) => {
            let data = format!("data:{};base64,{}", pdf.file.media_type, pdf.base64());
            let file = json!({"filename": pdf.file.name, "file_data": data});
            Some(json!({"type": "file", "file": file}))
        }
        _ => None,
    };
    Some(message.blocks.iter().filter_map(part).collect())
}

fn joined(message: &Message) -> Option<String> {
    let text = |block: &Block| match block {
        Block::Text { text } => Some(text.clone()),
        _ => None,
    };
    let texts: Vec<String> = message.blocks.iter().filter_map(text).collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}
