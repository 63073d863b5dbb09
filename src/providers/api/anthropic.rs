//! Anthropic's messages API: the body, and the decoder of its event stream.
//!
//! Reasoning is kept as the vendor's own block in `provider_state`, signature included, and is sent
//! back unchanged. Absent on purpose: server-side tools, citations, files; blocks of kinds unknown
//! here are ignored.

use crate::config::ProviderSettings;
use crate::providers::Adapter;
use crate::providers::contract::accumulate::{broken, call_id, ended_early, token_count};
use crate::providers::contract::normalise;
use crate::providers::contract::traits::{
    Block, CallContext, Event, Health, Message, Parameter, Provider, ProviderError, ProviderState,
    Request, RequestEncoder, Response, Role, Stop, TokenUsage, ToolArgs, ToolChoice,
};
use crate::providers::transport::classify::{Family, stream_failure};
use crate::providers::transport::decode::Decoder;
use crate::providers::transport::http::{self, Endpoint, EndpointSpec};
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use reqwest::header::HeaderName;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub const ADAPTER: Adapter = Adapter {
    id: "anthropic",
    key_variable: Some("ANTHROPIC_API_KEY"),
    settings: &[http::SETTINGS],
    build,
};

const DEFAULT_BASE_URL: &str = "https://api.anthropic.com";
const API_VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

struct Anthropic {
    endpoint: Endpoint,
    models_path: String,
}

fn build(settings: &ProviderSettings) -> Result<Box<dyn Provider>, ProviderError> {
    let base_url = settings.base_url.as_deref().unwrap_or(DEFAULT_BASE_URL);
    // The vendor's own libraries take the host; other servers have URLs that end with the version.
    let version = if base_url.trim_end_matches('/').ends_with("/v1") {
        ""
    } else {
        "v1/"
    };
    let endpoint = Endpoint::new(&EndpointSpec {
        adapter: &ADAPTER,
        name: ADAPTER.id,
        family: Family::Anthropic,
        base_url,
        plain_http: settings.plain_http,
        path: &format!("{version}messages"),
        key: settings.api_key.as_ref(),
        key_header: (HeaderName::from_static("x-api-key"), ""),
        extra_headers: &[API_VERSION],
    })?;
    // The largest page that the API allows.
    Ok(Box::new(Anthropic {
        endpoint,
        models_path: format!("{version}models?limit=1000"),
    }))
}

impl RequestEncoder for Anthropic {
    fn id(&self) -> &str {
        ADAPTER.id
    }

    fn encode_request(&self, request: &Request) -> Result<String, ProviderError> {
        body(request)
    }
}

impl Provider for Anthropic {
    fn endpoint(&self) -> Option<String> {
        Some(self.endpoint.base_url())
    }

    fn check(&self, context: CallContext) -> BoxFuture<'_, Result<Health, ProviderError>> {
        Box::pin(async move { self.endpoint.check(&self.models_path, &context).await })
    }

    fn stream<'a>(
        &'a self,
        encoded: &'a str,
        context: CallContext,
    ) -> BoxStream<'a, Result<Event, ProviderError>> {
        self.endpoint.call(
            encoded,
            context,
            Box::new(|request_id| Box::new(StreamDecoder::new(request_id))),
        )
    }
}

#[derive(Serialize)]
struct Body<'a> {
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

/// Encodes the body of one request. Pure.
fn body(request: &Request) -> Result<String, ProviderError> {
    let request = normalise::request(request, ADAPTER.id)?;
    let choice = match request.tool_choice {
        ToolChoice::Auto => "auto",
        ToolChoice::None => "none",
    };
    let tool = |t: &crate::providers::contract::traits::ToolSpec| json!({"name": t.name, "description": t.description, "input_schema": t.input_schema});
    let body = Body {
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
    json!({"role": role, "content": message.blocks.iter().map(block).collect::<Vec<_>>()})
}

fn block(block: &Block) -> Value {
    match block {
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
    }
}

/// Reads one event stream: `message_start`, blocks by index, `message_delta`, `message_stop`.
pub struct StreamDecoder {
    request_id: Option<String>,
    model: Option<String>,
    blocks: BTreeMap<u64, Part>,
    stop: Option<String>,
    usage: TokenUsage,
}

struct Part {
    kind: PartKind,
    closed: bool,
}

enum PartKind {
    Text(String),
    Thinking {
        text: String,
        signature: String,
    },
    Redacted(Value),
    Call {
        id: String,
        name: String,
        input: Map<String, Value>,
        json: String,
    },
    Ignored,
}

impl StreamDecoder {
    /// Creates a decoder. `request_id`: the provider's header, if it sent one.
    pub fn new(request_id: Option<String>) -> Self {
        let (model, stop, usage) = (None, None, TokenUsage::default());
        Self {
            request_id,
            model,
            blocks: BTreeMap::new(),
            stop,
            usage,
        }
    }

    fn start(&mut self, message: &Value) -> Result<Vec<Event>, ProviderError> {
        if self.model.is_some() {
            return Err(broken("the answer started twice"));
        }
        let model = text_at(message, "model").to_owned();
        if self.request_id.is_none() {
            self.request_id = message.get("id").and_then(Value::as_str).map(str::to_owned);
        }
        self.count(message.get("usage"));
        self.model = Some(model.clone());
        Ok(vec![Event::Started {
            provider_request_id: self.request_id.clone(),
            model,
        }])
    }

    /// Merges token counts. They are cumulative; only those that are given overwrite.
    /// `input_tokens` excludes the cached ones already.
    fn count(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage else { return };
        let mut set = |name: &str, field: fn(&mut TokenUsage) -> &mut u64| {
            if let Some(count) = token_count(usage.get(name)) {
                *field(&mut self.usage) = count;
            }
        };
        set("input_tokens", |u| &mut u.input_tokens);
        set("output_tokens", |u| &mut u.output_tokens);
        set("cache_read_input_tokens", |u| &mut u.cache_read_tokens);
        set("cache_creation_input_tokens", |u| &mut u.cache_write_tokens);
        // Part of `output_tokens`.
        let details = usage.get("output_tokens_details");
        if let Some(count) = details.and_then(|details| token_count(details.get("thinking_tokens")))
        {
            self.usage.reasoning_tokens = count;
        }
    }

    fn open(&mut self, index: u64, block: &Value) -> Result<Vec<Event>, ProviderError> {
        let text = |key: &str| text_at(block, key).to_owned();
        let mut events = Vec::new();
        let kind = match text_at(block, "type") {
            "text" => {
                events.extend((!text("text").is_empty()).then(|| Event::TextDelta(text("text"))));
                PartKind::Text(text("text"))
            }
            "thinking" => {
                events.extend(
                    (!text("thinking").is_empty()).then(|| Event::ThinkingDelta(text("thinking"))),
                );
                PartKind::Thinking {
                    text: text("thinking"),
                    signature: text("signature"),
                }
            }
            "redacted_thinking" => PartKind::Redacted(block.clone()),
            "tool_use" => {
                let input = block
                    .get("input")
                    .and_then(Value::as_object)
                    .cloned()
                    .unwrap_or_default();
                let id = call_id(text_at(block, "id"), index, |id| {
                    self.blocks.values().any(|p| p.kind.has_id(id))
                });
                PartKind::Call {
                    id,
                    name: text("name"),
                    input,
                    json: String::new(),
                }
            }
            _ => PartKind::Ignored,
        };
        if self
            .blocks
            .insert(
                index,
                Part {
                    kind,
                    closed: false,
                },
            )
            .is_some()
        {
            return Err(broken(format!("block {index} started twice")));
        }
        Ok(events)
    }

    fn grow(&mut self, index: u64, delta: &Value) -> Result<Vec<Event>, ProviderError> {
        let part = self.blocks.get_mut(&index).filter(|part| !part.closed);
        let part =
            part.ok_or_else(|| broken(format!("a delta for block {index}, which is not open")))?;
        let piece = |key: &str| text_at(delta, key).to_owned();
        Ok(match (text_at(delta, "type"), &mut part.kind) {
            ("text_delta", PartKind::Text(text)) => {
                text.push_str(&piece("text"));
                vec![Event::TextDelta(piece("text"))]
            }
            ("thinking_delta", PartKind::Thinking { text, .. }) => {
                text.push_str(&piece("thinking"));
                vec![Event::ThinkingDelta(piece("thinking"))]
            }
            ("signature_delta", PartKind::Thinking { signature, .. }) => {
                signature.push_str(&piece("signature"));
                Vec::new()
            }
            ("input_json_delta", PartKind::Call { json, .. }) => {
                json.push_str(&piece("partial_json"));
                Vec::new()
            }
            _ => Vec::new(),
        })
    }

    fn close(&mut self, index: u64) -> Result<Vec<Event>, ProviderError> {
        let part = self.blocks.get_mut(&index).filter(|part| !part.closed);
        let part =
            part.ok_or_else(|| broken(format!("the end of block {index}, which is not open")))?;
        part.closed = true;
        match part.kind.block() {
            Some(Block::ToolCall { name, .. }) if name.is_empty() => {
                Err(broken("a tool call without a name"))
            }
            Some(Block::ToolCall { id, name, args, .. }) => {
                Ok(vec![Event::ToolCall { id, name, args }])
            }
            _ => Ok(Vec::new()),
        }
    }

    fn end(&mut self) -> Result<Vec<Event>, ProviderError> {
        if let Some((index, _)) = self.blocks.iter().find(|(_, part)| !part.closed) {
            return Err(broken(format!("the answer ended inside block {index}")));
        }
        let stop = self
            .stop
            .take()
            .ok_or_else(|| broken("the answer ended without a stop reason"))?;
        let blocks: Vec<Block> = self
            .blocks
            .values()
            .filter_map(|part| part.kind.block())
            .collect();
        let has_calls = blocks
            .iter()
            .any(|block| matches!(block, Block::ToolCall { .. }));
        Ok(vec![Event::Finished(Response {
            stop: stop_of(&stop, has_calls),
            blocks,
            usage: self.usage,
            model_served: self.model.clone().unwrap_or_default(),
            provider_request_id: self.request_id.clone(),
            breakdown: Vec::new(),
            session_usage: None,
        })])
    }

    fn step(&mut self, kind: &str, event: &Value) -> Result<Vec<Event>, ProviderError> {
        let index = || {
            event
                .get("index")
                .and_then(Value::as_u64)
                .ok_or_else(|| broken("a block without an index"))
        };
        let part = |key: &str| event.get(key).unwrap_or(&Value::Null);
        match kind {
            "error" => Err(stream_failure(Family::Anthropic, part("error"))),
            "message_start" => self.start(part("message")),
            "content_block_start"
            | "content_block_delta"
            | "content_block_stop"
            | "message_delta"
            | "message_stop"
                if self.model.is_none() =>
            {
                Err(broken("the answer did not begin with its start"))
            }
            "content_block_start" => self.open(index()?, part("content_block")),
            "content_block_delta" => self.grow(index()?, part("delta")),
            "content_block_stop" => self.close(index()?),
            "message_delta" => {
                let stop = part("delta").get("stop_reason").and_then(Value::as_str);
                self.stop = stop.map(str::to_owned).or(self.stop.take());
                self.count(event.get("usage"));
                Ok(Vec::new())
            }
            "message_stop" => self.end(),
            // `ping`, and event types that the vendor adds.
            _ => Ok(Vec::new()),
        }
    }
}

impl Decoder for StreamDecoder {
    fn feed(&mut self, event: &str, data: &str) -> Result<Vec<Event>, ProviderError> {
        if event == "ping" {
            return Ok(Vec::new());
        }
        let value: Value = serde_json::from_str(data)
            .map_err(|e| broken(format!("event `{event}` is not JSON: {e}")))?;
        let kind = value
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or(event)
            .to_owned();
        self.step(&kind, &value)
    }

    fn whole(&mut self, body: &str) -> Result<Vec<Event>, ProviderError> {
        let message: Value = serde_json::from_str(body)
            .map_err(|e| broken(format!("the answer is not JSON: {e}")))?;
        if let Some(error) = message.get("error").filter(|error| !error.is_null()) {
            return Err(stream_failure(Family::Anthropic, error));
        }
        let content = message.get("content").and_then(Value::as_array);
        let content = content.ok_or_else(|| broken("the answer has no `content`"))?;
        let mut events = self.start(&message)?;
        for (index, block) in (0..).zip(content) {
            events.extend(self.open(index, block)?);
            events.extend(self.close(index)?);
        }
        self.stop = message
            .get("stop_reason")
            .and_then(Value::as_str)
            .map(str::to_owned);
        events.extend(self.end()?);
        Ok(events)
    }

    fn finish(&mut self) -> Result<Vec<Event>, ProviderError> {
        Err(ended_early())
    }
}

impl PartKind {
    fn has_id(&self, wanted: &str) -> bool {
        matches!(self, PartKind::Call { id, .. } if id == wanted)
    }

    fn block(&self) -> Option<Block> {
        let state = |state: Value| {
            Some(ProviderState {
                family: ADAPTER.id.to_owned(),
                model: String::new(),
                state,
            })
        };
        match self {
            PartKind::Text(text) => Some(Block::text(text)),
            PartKind::Thinking { text, signature } => {
                let whole = json!({"type": "thinking", "thinking": text, "signature": signature});
                Some(Block::Thinking {
                    text: text.clone(),
                    provider_state: state(whole),
                })
            }
            PartKind::Redacted(whole) => Some(Block::Thinking {
                text: String::new(),
                provider_state: state(whole.clone()),
            }),
            PartKind::Call {
                id,
                name,
                input,
                json,
            } => {
                let args = if json.is_empty() {
                    ToolArgs::of(input.clone())
                } else {
                    ToolArgs::parse(json)
                };
                Some(Block::ToolCall {
                    id: id.clone(),
                    name: name.clone(),
                    args,
                    provider_state: None,
                })
            }
            PartKind::Ignored => None,
        }
    }
}

fn stop_of(reason: &str, has_calls: bool) -> Stop {
    match reason {
        "end_turn" | "tool_use" if has_calls => Stop::ToolUse,
        "end_turn" => Stop::EndTurn,
        "max_tokens" => Stop::MaxTokens,
        "stop_sequence" => Stop::StopSequence,
        "model_context_window_exceeded" => Stop::ContextExhausted,
        "refusal" => Stop::Refused,
        "pause_turn" => Stop::Paused,
        other => Stop::Other(other.to_owned()),
    }
}

fn text_at<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
