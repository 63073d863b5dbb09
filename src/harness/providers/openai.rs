//! OpenAI's chat completions, and the many servers that speak them: the body, and the decoder of their chunks.
//!
//! Reasoning that some servers send beside the answer is kept apart from the text and never sent back: OpenAI has no
//! place for it and DeepSeek refuses it. Absent on purpose: the responses API, images, structured output.

use super::Adapter;
use super::classify::Family;
use super::contract::{
    Block, CallContext, Event, Health, Message, Provider, ProviderError, Request, Role, ToolArgs, ToolChoice,
};
use super::http::{Endpoint, EndpointSpec};
use super::normalise;
use super::openai_chunks::ChunkDecoder;
use crate::config::ProviderSettings;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use reqwest::header::AUTHORIZATION;
use serde::Serialize;
use serde_json::{Value, json};

pub const ADAPTER: Adapter = Adapter { id: "openai", key_variable: Some("OPENAI_API_KEY"), build };

const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";

struct OpenAi {
    endpoint: Endpoint,
    models_path: String,
    legacy_max_tokens: bool,
    stream_usage: bool,
}

fn build(settings: &ProviderSettings) -> Result<Box<dyn Provider>, ProviderError> {
    let base_url = settings.base_url.as_deref().unwrap_or(DEFAULT_BASE_URL);
    // Servers of this dialect stand below `/v1`; a URL that names no path at all leaves that to us.
    let version = if has_path(base_url) { "" } else { "v1/" };
    let endpoint = Endpoint::new(&EndpointSpec {
        adapter: &ADAPTER,
        family: Family::OpenAi,
        base_url,
        path: &format!("{version}chat/completions"),
        key: settings.api_key.as_ref(),
        key_header: (AUTHORIZATION, "Bearer "),
        extra_headers: &[],
    })?;
    let (legacy_max_tokens, stream_usage) = (settings.legacy_max_tokens, !settings.no_stream_usage);
    let models_path = format!("{version}models");
    Ok(Box::new(OpenAi { endpoint, models_path, legacy_max_tokens, stream_usage }))
}

fn has_path(base_url: &str) -> bool {
    let after_scheme = base_url.split_once("://").map_or(base_url, |(_, rest)| rest);
    after_scheme.split_once('/').is_some_and(|(_, path)| !path.trim_matches('/').is_empty())
}

impl Provider for OpenAi {
    fn id(&self) -> &str {
        ADAPTER.id
    }

    fn check(&self, context: CallContext) -> BoxFuture<'_, Result<Health, ProviderError>> {
        Box::pin(async move { self.endpoint.check(&self.models_path, &context).await })
    }

    fn wire_request(&self, request: &Request) -> Result<String, ProviderError> {
        let request = normalise::request(request, ADAPTER.id)?;
        let (legacy, limit) = (self.legacy_max_tokens, request.max_output_tokens);
        let choice = match request.tool_choice {
            ToolChoice::Auto => "auto",
            ToolChoice::None => "none",
        };
        let body = Body {
            model: &request.model,
            messages: messages(&request),
            tools: request.tools.iter().map(tool).collect(),
            tool_choice: (!request.tools.is_empty()).then_some(choice),
            max_completion_tokens: (!legacy).then_some(limit),
            max_tokens: legacy.then_some(limit),
            temperature: request.temperature,
            stream: true,
            stream_options: self.stream_usage.then(|| json!({"include_usage": true})),
        };
        normalise::wire(&body)
    }

    fn stream<'a>(
        &'a self,
        wire: &'a str,
        context: CallContext,
    ) -> BoxStream<'a, Result<Event, ProviderError>> {
        let usage_expected = self.stream_usage;
        let decoder = move |request_id| -> Box<dyn super::decode::Decoder + 'a> {
            Box::new(ChunkDecoder::new(request_id, usage_expected))
        };
        self.endpoint.call(wire, context, Box::new(decoder))
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<Value>,
}

fn tool(tool: &super::contract::ToolSpec) -> Value {
    let function =
        json!({"name": tool.name, "description": tool.description, "parameters": tool.input_schema});
    json!({"type": "function", "function": function})
}

fn messages(request: &Request) -> Vec<Value> {
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(json!({"role": "system", "content": request.system.join("\n\n")}));
    }
    for message in &request.messages {
        match message.role {
            Role::User => user(message, &mut messages),
            Role::Assistant => messages.push(assistant(message)),
        }
    }
    messages
}

/// Every tool result is a message of its own, right after the calls; the user's words follow.
fn user(message: &Message, messages: &mut Vec<Value>) {
    for block in &message.blocks {
        if let Block::ToolResult { call_id, content, .. } = block {
            messages.push(json!({"role": "tool", "tool_call_id": call_id, "content": content}));
        }
    }
    if let Some(text) = joined(message) {
        messages.push(json!({"role": "user", "content": text}));
    }
}

fn assistant(message: &Message) -> Value {
    let calls: Vec<Value> = message.blocks.iter().filter_map(call).collect();
    let mut wire = json!({"role": "assistant", "content": joined(message)});
    if !calls.is_empty() {
        wire["tool_calls"] = Value::Array(calls);
    }
    wire
}

fn call(block: &Block) -> Option<Value> {
    let Block::ToolCall { id, name, args, .. } = block else { return None };
    let arguments = match args {
        ToolArgs::Object(map) => Value::Object(map.clone()),
        ToolArgs::Malformed { raw, .. } => json!({"malformed_arguments": raw}),
    };
    let function = json!({"name": name, "arguments": arguments.to_string()});
    Some(json!({"id": id, "type": "function", "function": function}))
}

fn joined(message: &Message) -> Option<String> {
    let text = |block: &Block| match block {
        Block::Text { text } => Some(text.clone()),
        _ => None,
    };
    let texts: Vec<String> = message.blocks.iter().filter_map(text).collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}
