//! Decoder of the Responses API: events of a stream, or one whole response.
//!
//! The finished items decide; deltas only show the progress. Formats by OpenAI's OpenAPI document
//! 2.3.0; ChatGPT's server leaves `output` of the last event empty, and its items must do.

use crate::domain::ErrorClass;
use crate::providers::api::openai::responses::items::{phase_block, reasoning_block};
use crate::providers::contract::accumulate::{broken, call_id, ended_early, token_count};
use crate::providers::contract::estimate;
use crate::providers::contract::traits::{
    Block, Event, FinishReason, Phase, ProviderError, Response, TokenUsage, ToolArgs,
};
use crate::providers::transport::classify::{Family, stream_failure};
use crate::providers::transport::decode::Decoder;
use serde_json::Value;
use std::collections::BTreeMap;

/// Decoder of one stream, or one whole response.
pub struct ResponsesDecoder {
    request_id: Option<String>,
    family: Family,
    /// Adapter that sends reasoning back.
    adapter: &'static str,
    input_estimate: u64,
    /// Model that serves; `None`: the answer has not begun.
    model: Option<String>,
    /// Finished items, by their place in the output.
    items: BTreeMap<u64, Value>,
    /// Text of the deltas so far.
    said: String,
    /// Item of the newest text delta.
    speaking: Option<u64>,
}

impl ResponsesDecoder {
    /// Creates a decoder. `request_id`: the provider's header, if it sent one. `input_estimate`:
    /// tokens, for an answer without counts.
    pub fn new(
        request_id: Option<String>,
        family: Family,
        adapter: &'static str,
        input_estimate: u64,
    ) -> Self {
        Self {
            request_id,
            family,
            adapter,
            input_estimate,
            model: None,
            items: BTreeMap::new(),
            said: String::new(),
            speaking: None,
        }
    }

    fn event(&mut self, kind: &str, event: &Value) -> Result<Vec<Event>, ProviderError> {
        let response = event.get("response").unwrap_or(&Value::Null);
        let place = event.get("output_index").and_then(Value::as_u64);
        let delta = event.get("delta").and_then(Value::as_str);
        Ok(match kind {
            "response.created" | "response.queued" | "response.in_progress" => {
                self.start(response).into_iter().collect()
            }
            "response.output_text.delta" | "response.refusal.delta" => {
                let mut events: Vec<Event> = self.start(&Value::Null).into_iter().collect();
                let piece = self.spoken(place, delta.unwrap_or_default());
                events.extend(piece.map(Event::TextDelta));
                events
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                let mut events: Vec<Event> = self.start(&Value::Null).into_iter().collect();
                events.extend(delta.map(|piece| Event::ThinkingDelta(piece.to_owned())));
                events
            }
            "response.output_item.done" => {
                let place = place.unwrap_or(self.items.len() as u64);
                let item = event.get("item").cloned().unwrap_or_default();
                self.items.insert(place, item);
                Vec::new()
            }
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled" => self.end(response)?,
            "error" => return Err(self.failure(event)),
            _ if event.get("error").is_some_and(Value::is_object) => {
                return Err(self.failure(event));
            }
            _ => Vec::new(),
        })
    }

    /// Returns the error of an event, which has its parts beside its type or in a member.
    fn failure(&self, event: &Value) -> ProviderError {
        let error = event.get("error").filter(|error| !error.is_null());
        if let Some(error) = error {
            return stream_failure(self.family, error);
        }
        // Its `type` is the event's, not the error's.
        let mut error = event.clone();
        if let Some(error) = error.as_object_mut() {
            error.remove("type");
        }
        stream_failure(self.family, &error)
    }

    fn start(&mut self, response: &Value) -> Option<Event> {
        let text = |key: &str| {
            let text = response.get(key).and_then(Value::as_str);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        self.request_id = self.request_id.take().or_else(|| text("id"));
        let is_first = self.model.is_none();
        if self.model.as_ref().is_none_or(String::is_empty) {
            self.model = Some(text("model").unwrap_or_default());
        }
        is_first.then(|| Event::Started {
            provider_request_id: self.request_id.clone(),
            model: self.model.clone().unwrap_or_default(),
        })
    }

    /// Adds a piece of text; a second message is a paragraph of its own.
    fn spoken(&mut self, place: Option<u64>, piece: &str) -> Option<String> {
        if piece.is_empty() {
            return None;
        }
        let is_next = self.speaking.is_some() && self.speaking != place;
        self.speaking = place;
        let gap = if is_next && !self.said.is_empty() {
            PARAGRAPH
        } else {
            ""
        };
        let piece = format!("{gap}{piece}");
        self.said.push_str(&piece);
        Some(piece)
    }

    /// Returns the events of a response that has ended. Errors: the vendor's.
    fn end(&mut self, response: &Value) -> Result<Vec<Event>, ProviderError> {
        let mut events: Vec<Event> = self.start(response).into_iter().collect();
        let status = response.get("status").and_then(Value::as_str);
        let error = response.get("error").filter(|error| !error.is_null());
        if let Some(error) = error {
            return Err(stream_failure(self.family, error));
        }
        match status.unwrap_or_default() {
            // `complete` is what some gateways say.
            "completed" | "complete" | "incomplete" => {}
            status => {
                let message = format!("the provider ended the answer as `{status}`");
                return Err(ProviderError::new(
                    ErrorClass::Transient,
                    Phase::MidStream,
                    message,
                ));
            }
        }
        let whole = response.get("output").and_then(Value::as_array);
        let items: Vec<Value> = match whole.filter(|items| !items.is_empty()) {
            Some(items) => items.clone(),
            None => std::mem::take(&mut self.items).into_values().collect(),
        };
        let (mut blocks, is_refused) = self.blocks(&items)?;
        let text = joined(&blocks);
        events.extend(self.unsaid(&text, &mut blocks));
        let calls: Vec<Event> = blocks.iter().filter_map(call_event).collect();
        let has_calls = !calls.is_empty();
        events.extend(calls);
        let usage = response.get("usage").filter(|usage| usage.is_object());
        events.push(Event::Finished(Response {
            stop: stop_of(response, has_calls, is_refused),
            usage: usage.map_or_else(|| self.estimate(&blocks), usage_of),
            blocks,
            model_served: self.model.clone().unwrap_or_default(),
            provider_request_id: self.request_id.clone(),
            breakdown: Vec::new(),
            session_usage: None,
        }));
        Ok(events)
    }

    /// Returns the blocks of the output, and whether the model refused.
    fn blocks(&self, items: &[Value]) -> Result<(Vec<Block>, bool), ProviderError> {
        let (mut blocks, mut is_refused) = (Vec::new(), false);
        for (position, item) in (0..).zip(items) {
            let text = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default();
            match text("type") {
                "reasoning" => blocks.extend(reasoning_block(item, self.adapter)),
                "message" => {
                    let (said, refused) = spoken_of(item);
                    is_refused |= refused;
                    if said.is_empty() {
                        continue;
                    }
                    let is_next = blocks
                        .iter()
                        .any(|block| matches!(block, Block::Text { .. }));
                    let gap = if is_next { PARAGRAPH } else { "" };
                    blocks.extend(phase_block(item, self.adapter));
                    blocks.push(Block::text(format!("{gap}{said}")));
                }
                "function_call" => {
                    if text("name").is_empty() {
                        return Err(broken("a tool call without a name"));
                    }
                    let is_taken = |id: &str| {
                        let mut taken = blocks.iter();
                        taken.any(|block| matches!(block, Block::ToolCall { id: other, .. } if other == id))
                    };
                    let id = call_id(text("call_id"), position, is_taken);
                    blocks.push(Block::ToolCall {
                        id,
                        name: text("name").to_owned(),
                        args: ToolArgs::parse(text("arguments")),
                        provider_state: None,
                    });
                }
                // A tool of the vendor's, which no request of ours offers.
                _ => {}
            }
        }
        Ok((blocks, is_refused))
    }

    /// Returns the text that no delta brought. Where the deltas brought another text than the
    /// items hold, the deltas are what was seen, and they stand.
    fn unsaid(&self, text: &str, blocks: &mut Vec<Block>) -> Option<Event> {
        if let Some(rest) = text.strip_prefix(self.said.as_str()) {
            return (!rest.is_empty()).then(|| Event::TextDelta(rest.to_owned()));
        }
        // Something was said, or it would begin every text. Before the first text stands no other.
        let is_text = |block: &Block| matches!(block, Block::Text { .. });
        let at = blocks.iter().position(is_text).unwrap_or(blocks.len());
        blocks.retain(|block| !is_text(block));
        blocks.insert(at, Block::text(self.said.clone()));
        None
    }

    fn estimate(&self, blocks: &[Block]) -> TokenUsage {
        TokenUsage {
            input_tokens: self.input_estimate,
            output_tokens: estimate::answer(blocks),
            estimated: true,
            ..TokenUsage::default()
        }
    }
}

/// Gap between two messages of one answer.
const PARAGRAPH: &str = "\n\n";

fn joined(blocks: &[Block]) -> String {
    let text = |block: &Block| match block {
        Block::Text { text } => Some(text.clone()),
        _ => None,
    };
    blocks.iter().filter_map(text).collect()
}

fn call_event(block: &Block) -> Option<Event> {
    match block {
        Block::ToolCall { id, name, args, .. } => Some(Event::ToolCall {
            id: id.clone(),
            name: name.clone(),
            args: args.clone(),
        }),
        _ => None,
    }
}

/// Returns the text of a message, and whether part of it is a refusal.
fn spoken_of(message: &Value) -> (String, bool) {
    let parts = message.get("content").and_then(Value::as_array);
    let (mut said, mut is_refused) = (String::new(), false);
    for part in parts.into_iter().flatten() {
        let refusal = part.get("refusal").and_then(Value::as_str);
        is_refused |= refusal.is_some();
        let text = part.get("text").and_then(Value::as_str);
        said.push_str(refusal.or(text).unwrap_or_default());
    }
    (said, is_refused)
}

/// Maps the end. A call that was cut by the output limit is part of the answer, as elsewhere.
fn stop_of(response: &Value, has_calls: bool, is_refused: bool) -> FinishReason {
    let reason = response.pointer("/incomplete_details/reason");
    match reason.and_then(Value::as_str) {
        Some("max_output_tokens" | "max_tokens") => FinishReason::MaxTokens,
        Some("content_filter") => FinishReason::Refused,
        Some(other) => FinishReason::Other(other.to_owned()),
        None if response
            .get("status")
            .is_some_and(|status| status == "incomplete") =>
        {
            FinishReason::Other("incomplete".to_owned())
        }
        None if is_refused => FinishReason::Refused,
        None if has_calls => FinishReason::ToolUse,
        None => FinishReason::EndTurn,
    }
}

/// Converts the counts. `input_tokens` includes those of the cache, `output_tokens` the reasoning.
fn usage_of(usage: &Value) -> TokenUsage {
    let count = |pointer: &str| token_count(usage.pointer(pointer)).unwrap_or(0);
    let read = count("/input_tokens_details/cached_tokens");
    let written = count("/input_tokens_details/cache_write_tokens");
    TokenUsage {
        input_tokens: count("/input_tokens")
            .saturating_sub(read)
            .saturating_sub(written),
        cache_read_tokens: read,
        cache_write_tokens: written,
        output_tokens: count("/output_tokens"),
        reasoning_tokens: count("/output_tokens_details/reasoning_tokens"),
        cost_micros: None,
        estimated: false,
    }
}

impl Decoder for ResponsesDecoder {
    fn feed(&mut self, name: &str, data: &str) -> Result<Vec<Event>, ProviderError> {
        // A gateway's habit from chat completions; the answer has ended before it, or it has not.
        if data.trim() == "[DONE]" {
            return Ok(Vec::new());
        }
        let event: Value =
            serde_json::from_str(data).map_err(|e| broken(format!("an event is not JSON: {e}")))?;
        let kind = event.get("type").and_then(Value::as_str).unwrap_or(name);
        self.event(kind, &event)
    }

    fn whole(&mut self, body: &str) -> Result<Vec<Event>, ProviderError> {
        let response: Value = serde_json::from_str(body)
            .map_err(|e| broken(format!("the answer is not JSON: {e}")))?;
        if response.get("status").is_none() && response.get("output").is_none() {
            return Err(
                match response.get("error").filter(|error| !error.is_null()) {
                    Some(error) => stream_failure(self.family, error),
                    None => broken("a response without `output`"),
                },
            );
        }
        self.end(&response)
    }

    /// Handles the end of the body: the last event is the answer, so without it there is none.
    fn finish(&mut self) -> Result<Vec<Event>, ProviderError> {
        Err(ended_early())
    }
}
