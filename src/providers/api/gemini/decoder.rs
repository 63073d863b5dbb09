//! Decoder of Gemini's responses: each is whole, with new parts; the last has the reason why the
//! model stopped.
//!
//! There is no end marker: the body ends, and it is complete if a reason came. Fields of a part
//! that must be sent back with it are kept in `provider_state`, in the form that
//! `contents.rs` describes.

use crate::domain::ErrorClass;
use crate::providers::contract::accumulate::{broken, call_id, ended_early, token_count};
use crate::providers::contract::estimate;
use crate::providers::contract::traits::{
    Block, Event, FinishReason, Phase, ProviderError, ProviderState, Response, TokenUsage, ToolArgs,
};
use crate::providers::transport::classify::{Family, stream_failure};
use crate::providers::transport::decode::Decoder;
use serde_json::{Map, Value, json};

/// Decoder of one stream of responses, one response, or an array of them (a server that ignored
/// `alt=sse`).
pub struct GeminiDecoder {
    request_id: Option<String>,
    input_estimate: u64,
    model: Option<String>,
    blocks: Vec<Block>,
    /// Text and thought that the next part of their kind continues.
    text: String,
    thought: String,
    calls: u64,
    finish_reason: Option<String>,
    /// `true`: the prompt itself was refused.
    blocked: bool,
    usage: Option<TokenUsage>,
}

impl GeminiDecoder {
    /// Creates a decoder. `request_id`: the provider's header, if it sent one. `input_estimate`:
    /// tokens, for an answer without counts.
    pub fn new(request_id: Option<String>, input_estimate: u64) -> Self {
        Self {
            request_id,
            input_estimate,
            model: None,
            blocks: Vec::new(),
            text: String::new(),
            thought: String::new(),
            calls: 0,
            finish_reason: None,
            blocked: false,
            usage: None,
        }
    }

    fn response(&mut self, response: &Value) -> Result<Vec<Event>, ProviderError> {
        if let Some(error) = response.get("error").filter(|error| !error.is_null()) {
            return Err(stream_failure(Family::Gemini, error));
        }
        let known = ["candidates", "promptFeedback", "usageMetadata"];
        if !known.iter().any(|key| response.get(key).is_some()) {
            return Err(broken("a response without `candidates`"));
        }
        let mut events = self.start(response);
        // Counts are cumulative: the last ones count.
        if let Some(usage) = response
            .get("usageMetadata")
            .filter(|usage| usage.is_object())
        {
            self.usage = Some(usage_of(usage));
        }
        let feedback = response
            .get("promptFeedback")
            .and_then(|feedback| feedback.get("blockReason"));
        self.blocked |= feedback.and_then(Value::as_str).is_some();
        // We ask for one candidate; others are ignored.
        let ours = |one: &&Value| one.get("index").and_then(Value::as_u64).unwrap_or(0) == 0;
        let candidates = response.get("candidates").and_then(Value::as_array);
        let Some(candidate) = candidates.into_iter().flatten().find(ours) else {
            return Ok(events);
        };
        let parts = candidate
            .get("content")
            .and_then(|content| content.get("parts"));
        for part in parts.and_then(Value::as_array).into_iter().flatten() {
            events.extend(self.part(part)?);
        }
        if let Some(reason) = candidate.get("finishReason").and_then(Value::as_str) {
            self.finish_reason = Some(reason.to_owned());
        }
        Ok(events)
    }

    fn start(&mut self, response: &Value) -> Vec<Event> {
        if self.model.is_some() {
            return Vec::new();
        }
        let text = |key: &str| response.get(key).and_then(Value::as_str).map(str::to_owned);
        let model = text("modelVersion").unwrap_or_default();
        self.request_id = self.request_id.take().or_else(|| text("responseId"));
        self.model = Some(model.clone());
        vec![Event::Started {
            provider_request_id: self.request_id.clone(),
            model,
        }]
    }

    fn part(&mut self, part: &Value) -> Result<Vec<Event>, ProviderError> {
        let signature = part
            .get("thoughtSignature")
            .and_then(Value::as_str)
            .filter(|s| !s.is_empty());
        if let Some(call) = part.get("functionCall").filter(|call| call.is_object()) {
            self.close_all();
            return Ok(vec![self.call(call, signature)?]);
        }
        // Pictures, code that ran at the vendor's, and later kinds of parts are ignored.
        let Some(text) = part.get("text").and_then(Value::as_str) else {
            return Ok(Vec::new());
        };
        let piece = (!text.is_empty()).then(|| text.to_owned());
        if part.get("thought").and_then(Value::as_bool) == Some(true) {
            self.close_text(None);
            self.thought.push_str(text);
            if signature.is_some() {
                self.close_thought(signature);
            }
            return Ok(piece.map(Event::ThinkingDelta).into_iter().collect());
        }
        self.close_thought(None);
        self.text.push_str(text);
        if signature.is_some() {
            self.close_text(signature);
        }
        Ok(piece.map(Event::TextDelta).into_iter().collect())
    }

    fn call(&mut self, call: &Value, signature: Option<&str>) -> Result<Event, ProviderError> {
        let text = |key: &str| call.get(key).and_then(Value::as_str).unwrap_or_default();
        let name = text("name").to_owned();
        if name.is_empty() {
            return Err(broken("a tool call without a name"));
        }
        let is_taken = |wanted: &str| {
            self.blocks
                .iter()
                .any(|block| matches!(block, Block::ToolCall { id, .. } if id == wanted))
        };
        let id = call_id(text("id"), self.calls, is_taken);
        self.calls += 1;
        let args = match call.get("args") {
            None | Some(Value::Null) => ToolArgs::Object(Map::new()),
            Some(Value::Object(map)) => ToolArgs::from_object(map.clone()),
            // Against the vendor's schema; the model gets to correct what cannot be parsed.
            Some(Value::String(raw)) => ToolArgs::parse(raw),
            Some(other) => ToolArgs::parse(&other.to_string()),
        };
        let mut kept = Map::new();
        if !text("id").is_empty() {
            kept.insert("id".to_owned(), json!(text("id")));
        }
        if let Some(signature) = signature {
            kept.insert("signature".to_owned(), json!(signature));
        }
        let event = Event::ToolCall {
            id: id.clone(),
            name: name.clone(),
            args: args.clone(),
        };
        // Kept even when empty: it says that the call is Gemini's own and needs no signature.
        let provider_state = Some(state(Value::Object(kept)));
        self.blocks.push(Block::ToolCall {
            id,
            name,
            args,
            provider_state,
        });
        Ok(event)
    }

    fn close_all(&mut self) {
        self.close_thought(None);
        self.close_text(None);
    }

    fn close_thought(&mut self, signature: Option<&str>) {
        let text = std::mem::take(&mut self.thought);
        if !text.is_empty() || signature.is_some() {
            let kept =
                signature.map(|signature| json!({"part": "thought", "signature": signature}));
            self.blocks.push(Block::Thinking {
                text,
                provider_state: kept.map(state),
            });
        }
    }

    fn close_text(&mut self, signature: Option<&str>) {
        let text = std::mem::take(&mut self.text);
        if let Some(signature) = signature {
            let part = if text.is_empty() { "empty" } else { "text" };
            let kept = json!({"part": part, "signature": signature});
            self.blocks.push(Block::Thinking {
                text: String::new(),
                provider_state: Some(state(kept)),
            });
        }
        if !text.is_empty() {
            self.blocks.push(Block::Text { text });
        }
    }

    fn end(&mut self) -> Result<Vec<Event>, ProviderError> {
        self.close_all();
        let stop = match (self.finish_reason.take(), self.blocked) {
            // The request lacked a signature, and so would every retry of it.
            (Some(reason), _) if reason == "MISSING_THOUGHT_SIGNATURE" => {
                let message = "the vendor misses a thought's signature in the request";
                return Err(ProviderError::new(
                    ErrorClass::BadRequest,
                    Phase::MidStream,
                    message,
                ));
            }
            (Some(reason), _) => stop_of(&reason, self.calls > 0),
            (None, true) => FinishReason::Refused,
            (None, false) => return Err(ended_early()),
        };
        let blocks = std::mem::take(&mut self.blocks);
        let usage = self.usage.unwrap_or_else(|| self.estimate(&blocks));
        Ok(vec![Event::Finished(Response {
            blocks,
            stop,
            usage,
            model_served: self.model.clone().unwrap_or_default(),
            provider_request_id: self.request_id.clone(),
            breakdown: Vec::new(),
            session_usage: None,
        })])
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

impl Decoder for GeminiDecoder {
    fn feed(&mut self, _event: &str, data: &str) -> Result<Vec<Event>, ProviderError> {
        let response: Value = serde_json::from_str(data)
            .map_err(|e| broken(format!("a response is not JSON: {e}")))?;
        self.response(&response)
    }

    fn whole(&mut self, body: &str) -> Result<Vec<Event>, ProviderError> {
        let body: Value = serde_json::from_str(body)
            .map_err(|e| broken(format!("the answer is not JSON: {e}")))?;
        let mut events = Vec::new();
        match body {
            Value::Array(responses) if !responses.is_empty() => {
                for response in &responses {
                    events.extend(self.response(response)?);
                }
            }
            other => events.extend(self.response(&other)?),
        }
        events.extend(self.end()?);
        Ok(events)
    }

    fn finish(&mut self) -> Result<Vec<Event>, ProviderError> {
        self.end()
    }
}

fn state(state: Value) -> ProviderState {
    ProviderState {
        family: Family::Gemini.as_str().to_owned(),
        model: String::new(),
        state,
    }
}

/// Converts the counts. The prompt's count includes the cached ones; tool use and thoughts are
/// counted apart.
fn usage_of(usage: &Value) -> TokenUsage {
    let count = |name: &str| token_count(usage.get(name)).unwrap_or(0);
    let (cached, thoughts) = (
        count("cachedContentTokenCount"),
        count("thoughtsTokenCount"),
    );
    let prompt = count("promptTokenCount").saturating_sub(cached);
    // The sum, too, must fit an SQLite integer.
    let sum = |one: u64, other: u64| one.saturating_add(other).min(i64::MAX.unsigned_abs());
    TokenUsage {
        input_tokens: sum(prompt, count("toolUsePromptTokenCount")),
        cache_read_tokens: cached,
        output_tokens: sum(count("candidatesTokenCount"), thoughts),
        reasoning_tokens: thoughts,
        ..TokenUsage::default()
    }
}

/// Maps the finish reason. `STOP` comes with calls, too.
fn stop_of(reason: &str, has_calls: bool) -> FinishReason {
    match reason {
        "STOP" if has_calls => FinishReason::ToolUse,
        "STOP" => FinishReason::EndTurn,
        "MAX_TOKENS" => FinishReason::MaxTokens,
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => FinishReason::Refused,
        "MALFORMED_FUNCTION_CALL"
        | "UNEXPECTED_TOOL_CALL"
        | "TOO_MANY_TOOL_CALLS"
        | "MALFORMED_RESPONSE" => FinishReason::MalformedCall,
        other => FinishReason::Other(other.to_owned()),
    }
}
