//! Decoder of Anthropic's event stream, and of a whole message.
//!
//! Reasoning is kept as the vendor's own block in `provider_state`, signature included. Blocks of
//! kinds unknown here are ignored.

use crate::providers::contract::accumulate::{broken, call_id, ended_early, token_count};
use crate::providers::contract::traits::{
    Block, Event, FinishReason, ProviderError, ProviderState, Response, TokenUsage, ToolArgs,
};
use crate::providers::transport::classify::{Family, stream_failure};
use crate::providers::transport::decode::Decoder;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Reads one event stream: `message_start`, blocks by index, `message_delta`, `message_stop`.
pub struct AnthropicDecoder {
    request_id: Option<String>,
    model: Option<String>,
    blocks: BTreeMap<u64, ContentBlock>,
    stop: Option<String>,
    usage: TokenUsage,
}

struct ContentBlock {
    kind: ContentKind,
    closed: bool,
}

enum ContentKind {
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

impl AnthropicDecoder {
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
                ContentKind::Text(text("text"))
            }
            "thinking" => {
                events.extend(
                    (!text("thinking").is_empty()).then(|| Event::ThinkingDelta(text("thinking"))),
                );
                ContentKind::Thinking {
                    text: text("thinking"),
                    signature: text("signature"),
                }
            }
            "redacted_thinking" => ContentKind::Redacted(block.clone()),
            "tool_use" => {
                let input = block
                    .get("input")
                    .and_then(Value::as_object)
                    .cloned()
                    .unwrap_or_default();
                let id = call_id(text_at(block, "id"), index, |id| {
                    self.blocks.values().any(|p| p.kind.has_id(id))
                });
                ContentKind::Call {
                    id,
                    name: text("name"),
                    input,
                    json: String::new(),
                }
            }
            _ => ContentKind::Ignored,
        };
        if self
            .blocks
            .insert(
                index,
                ContentBlock {
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
            ("text_delta", ContentKind::Text(text)) => {
                text.push_str(&piece("text"));
                vec![Event::TextDelta(piece("text"))]
            }
            ("thinking_delta", ContentKind::Thinking { text, .. }) => {
                text.push_str(&piece("thinking"));
                vec![Event::ThinkingDelta(piece("thinking"))]
            }
            ("signature_delta", ContentKind::Thinking { signature, .. }) => {
                signature.push_str(&piece("signature"));
                Vec::new()
            }
            ("input_json_delta", ContentKind::Call { json, .. }) => {
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

impl Decoder for AnthropicDecoder {
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

impl ContentKind {
    fn has_id(&self, wanted: &str) -> bool {
        matches!(self, ContentKind::Call { id, .. } if id == wanted)
    }

    fn block(&self) -> Option<Block> {
        let state = |state: Value| {
            Some(ProviderState {
                family: Family::Anthropic.as_str().to_owned(),
                model: String::new(),
                state,
            })
        };
        match self {
            ContentKind::Text(text) => Some(Block::text(text)),
            ContentKind::Thinking { text, signature } => {
                let whole = json!({"type": "thinking", "thinking": text, "signature": signature});
                Some(Block::Thinking {
                    text: text.clone(),
                    provider_state: state(whole),
                })
            }
            ContentKind::Redacted(whole) => Some(Block::Thinking {
                text: String::new(),
                provider_state: state(whole.clone()),
            }),
            ContentKind::Call {
                id,
                name,
                input,
                json,
            } => {
                let args = if json.is_empty() {
                    ToolArgs::from_object(input.clone())
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
            ContentKind::Ignored => None,
        }
    }
}

fn stop_of(reason: &str, has_calls: bool) -> FinishReason {
    match reason {
        "end_turn" | "tool_use" if has_calls => FinishReason::ToolUse,
        "end_turn" => FinishReason::EndTurn,
        "max_tokens" => FinishReason::MaxTokens,
        "stop_sequence" => FinishReason::StopSequence,
        "model_context_window_exceeded" => FinishReason::ContextExhausted,
        "refusal" => FinishReason::Refused,
        "pause_turn" => FinishReason::Paused,
        other => FinishReason::Other(other.to_owned()),
    }
}

fn text_at<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
