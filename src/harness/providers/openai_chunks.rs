//! The decoder of chat completion chunks, forgiving about what servers other than OpenAI's do differently.

use super::accumulate::{broken, call_id, ended_early, token_count};
use super::classify::{Family, stream_failure};
use super::contract::{
    Block, Event, Phase, ProviderError, ProviderState, Response, Stop, TokenUsage, ToolArgs,
};
use super::decode::Decoder;
use super::estimate;
use crate::domain::ErrorClass;
use serde_json::Value;

/// The keys under which servers send reasoning: DeepSeek, xAI and vLLM; OpenRouter; some proxies.
const REASONING_KEYS: &[&str] = &["reasoning_content", "reasoning", "reasoning_text"];

/// Reads one stream of chunks, or one whole completion.
pub struct ChunkDecoder {
    request_id: Option<String>,
    family: Family,
    input_estimate: u64,
    /// We asked for usage, so a stream without it and without `[DONE]` was cut.
    usage_expected: bool,
    model: Option<String>,
    text: String,
    reasoning: String,
    /// OpenRouter's `reasoning_details`, which it wants back as they came.
    details: Vec<Value>,
    refused: bool,
    calls: Vec<Call>,
    finish_reason: Option<String>,
    /// The reason of the vendor behind OpenRouter.
    native_reason: Option<String>,
    usage: Option<TokenUsage>,
}

#[derive(Default)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

impl ChunkDecoder {
    /// `request_id`: the provider's header, if it sent one. `input_estimate`: tokens, for an answer that says nothing of
    /// them.
    pub fn new(
        request_id: Option<String>,
        family: Family,
        usage_expected: bool,
        input_estimate: u64,
    ) -> Self {
        Self {
            request_id,
            family,
            input_estimate,
            usage_expected,
            model: None,
            text: String::new(),
            reasoning: String::new(),
            details: Vec::new(),
            refused: false,
            calls: Vec::new(),
            finish_reason: None,
            native_reason: None,
            usage: None,
        }
    }

    fn chunk(&mut self, chunk: &Value) -> Result<Vec<Event>, ProviderError> {
        let choices = chunk.get("choices").and_then(Value::as_array);
        // We ask for one answer; others, were they to come, are not ours.
        let ours = |choice: &&Value| choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0;
        let choice = choices.and_then(|choices| choices.iter().find(ours));
        let inside = |key: &str| [chunk.get(key), choice.and_then(|choice| choice.get(key))];
        if let Some(error) = inside("error").into_iter().flatten().find(|error| !error.is_null()) {
            return Err(stream_failure(self.family, error));
        }
        // Moonshot has the usage inside the choice.
        let usage = inside("usage").into_iter().flatten().find(|usage| usage.is_object());
        if choices.is_none() && usage.is_none() {
            return Err(broken("a chunk without `choices`"));
        }
        let mut events = self.start(chunk);
        if let Some(usage) = usage {
            self.usage = Some(usage_of(usage, self.family));
        }
        if let Some(choice) = choice {
            let delta = choice.get("delta").or_else(|| choice.get("message")).unwrap_or(&Value::Null);
            events.extend(self.delta(delta));
            if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
                self.finish_reason = Some(reason.to_owned());
            }
            if let Some(reason) = choice.get("native_finish_reason").and_then(Value::as_str) {
                self.native_reason = Some(reason.to_owned());
            }
        }
        Ok(events)
    }

    fn start(&mut self, chunk: &Value) -> Vec<Event> {
        if self.model.is_some() {
            return Vec::new();
        }
        let text = |key: &str| chunk.get(key).and_then(Value::as_str).map(str::to_owned);
        let model = text("model").unwrap_or_default();
        self.request_id = self.request_id.take().or_else(|| text("id"));
        self.model = Some(model.clone());
        vec![Event::Started { provider_request_id: self.request_id.clone(), model }]
    }

    fn delta(&mut self, delta: &Value) -> Vec<Event> {
        let text = |key: &str| delta.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let mut events = Vec::new();
        if self.family == Family::OpenRouter {
            let details = delta.get("reasoning_details").and_then(Value::as_array).into_iter().flatten();
            details.for_each(|detail| add_detail(&mut self.details, detail));
        }
        if let Some(piece) = REASONING_KEYS.iter().find_map(|key| text(key)) {
            self.reasoning.push_str(piece);
            events.push(Event::ThinkingDelta(piece.to_owned()));
        }
        if let Some(piece) = text("refusal") {
            self.refused = true;
            self.text.push_str(piece);
            events.push(Event::TextDelta(piece.to_owned()));
        }
        let content = delta.get("content").map(text_of_content).unwrap_or_default();
        if !content.is_empty() {
            self.text.push_str(&content);
            events.push(Event::TextDelta(content));
        }
        for fragment in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            self.call(fragment);
        }
        if let Some(function) = delta.get("function_call").filter(|function| function.is_object()) {
            // The older form: one call, without an id.
            let index = Some(0);
            let at = self.calls.iter().position(|call| call.index == index);
            let at = at.unwrap_or_else(|| self.new_call(index));
            self.calls[at].extend(None, function);
        }
        events
    }

    /// Adds a fragment to the call it belongs to: by `index`, else by `id`, else a name begins a call, else the last.
    fn call(&mut self, fragment: &Value) {
        let function = fragment.get("function").unwrap_or(&Value::Null);
        let named = function.get("name").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
        let id = fragment.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
        let index = fragment.get("index").and_then(Value::as_u64);
        let position = |test: &dyn Fn(&Call) -> bool| self.calls.iter().rposition(test);
        let found = match (index, id) {
            (Some(_), _) => position(&|call| call.index == index),
            (None, Some(id)) => position(&|call| call.id == id),
            (None, None) if named => None,
            (None, None) => self.calls.len().checked_sub(1),
        };
        // Some gateways number every parallel call 0: a named call after a complete one is another call.
        let found = found.filter(|at| !(named && self.calls[*at].is_succeeded_by(id, function)));
        let at = found.unwrap_or_else(|| self.new_call(index));
        self.calls[at].extend(id, function);
    }

    fn new_call(&mut self, index: Option<u64>) -> usize {
        self.calls.push(Call { index, ..Call::default() });
        self.calls.len() - 1
    }

    /// The end of the answer.
    fn end(&mut self) -> Result<Vec<Event>, ProviderError> {
        let (Some(model), Some(reason)) = (self.model.clone(), self.finish_reason.take()) else {
            return Err(broken("the answer ended without a finish reason"));
        };
        if reason == "error" {
            let message = "the provider gave up in the middle of the answer";
            return Err(ProviderError::new(ErrorClass::Transient, Phase::MidStream, message));
        }
        let mut blocks = Vec::new();
        if !self.reasoning.is_empty() || !self.details.is_empty() {
            let text = std::mem::take(&mut self.reasoning);
            let state = Value::Array(std::mem::take(&mut self.details));
            let kept = state.as_array().is_some_and(|details| !details.is_empty());
            let family = super::openrouter::ADAPTER.id.to_owned();
            let provider_state = kept.then_some(ProviderState { family, model: String::new(), state });
            blocks.push(Block::Thinking { text, provider_state });
        }
        if !self.text.is_empty() {
            blocks.push(Block::text(std::mem::take(&mut self.text)));
        }
        let mut events = Vec::new();
        for (position, call) in (0..).zip(std::mem::take(&mut self.calls)) {
            if call.name.is_empty() {
                return Err(broken("a tool call without a name"));
            }
            let has_id =
                |block: &Block, wanted: &str| matches!(block, Block::ToolCall { id, .. } if id == wanted);
            let id = call_id(&call.id, position, |id| blocks.iter().any(|block| has_id(block, id)));
            let (name, args) = (call.name, ToolArgs::parse(&call.arguments));
            events.push(Event::ToolCall { id: id.clone(), name: name.clone(), args: args.clone() });
            blocks.push(Block::ToolCall { id, name, args, provider_state: None });
        }
        events.push(Event::Finished(Response {
            stop: stop_of(&reason, self.native_reason.as_deref(), !events.is_empty(), self.refused),
            usage: self.usage.unwrap_or_else(|| self.estimate(&blocks)),
            blocks,
            model_served: model,
            provider_request_id: self.request_id.clone(),
            breakdown: Vec::new(),
            session_usage: None,
        }));
        Ok(events)
    }
}

impl ChunkDecoder {
    fn estimate(&self, blocks: &[Block]) -> TokenUsage {
        let (input_tokens, output_tokens) = (self.input_estimate, estimate::answer(blocks));
        TokenUsage { input_tokens, output_tokens, estimated: true, ..TokenUsage::default() }
    }
}

impl Decoder for ChunkDecoder {
    fn feed(&mut self, _event: &str, data: &str) -> Result<Vec<Event>, ProviderError> {
        if data.trim() == "[DONE]" {
            return self.end();
        }
        let chunk: Value =
            serde_json::from_str(data).map_err(|e| broken(format!("a chunk is not JSON: {e}")))?;
        self.chunk(&chunk)
    }

    fn whole(&mut self, body: &str) -> Result<Vec<Event>, ProviderError> {
        let completion: Value =
            serde_json::from_str(body).map_err(|e| broken(format!("the answer is not JSON: {e}")))?;
        let mut events = self.chunk(&completion)?;
        events.extend(self.end()?);
        Ok(events)
    }

    /// Some servers close without `[DONE]`. That is the end only if nothing that we asked for is missing.
    fn finish(&mut self) -> Result<Vec<Event>, ProviderError> {
        if self.finish_reason.is_none() {
            return Err(ended_early());
        }
        if self.usage_expected && self.usage.is_none() {
            let message =
                "the answer ended before its usage: if the server never sends one, set `no_stream_usage`";
            return Err(ProviderError::new(ErrorClass::Transient, Phase::MidStream, message));
        }
        self.end()
    }
}

impl Call {
    fn extend(&mut self, id: Option<&str>, function: &Value) {
        if self.id.is_empty() {
            self.id = id.unwrap_or_default().to_owned();
        }
        if self.name.is_empty() {
            self.name = function.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        }
        match function.get("arguments") {
            Some(Value::String(piece)) => self.arguments.push_str(piece),
            Some(object @ Value::Object(_)) => self.arguments.push_str(&object.to_string()),
            _ => {}
        }
    }

    /// Whether a named fragment begins another call although it has this call's place.
    fn is_succeeded_by(&self, id: Option<&str>, function: &Value) -> bool {
        let other_id = id.is_some_and(|id| !self.id.is_empty() && self.id != id);
        let brings_arguments = match function.get("arguments") {
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Object(_)) => true,
            _ => false,
        };
        let complete =
            !self.arguments.is_empty() && matches!(ToolArgs::parse(&self.arguments), ToolArgs::Object(_));
        other_id && brings_arguments && complete
    }
}

/// A string, or the parts that Mistral sends.
fn text_of_content(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
        }
        _ => String::new(),
    }
}

/// Adds one of OpenRouter's details. A stream brings them in pieces: text that goes on the last one is joined to it, so
/// that what goes back is what a whole answer would have had.
fn add_detail(details: &mut Vec<Value>, piece: &Value) {
    let same = |last: &&mut Value| ["type", "index"].iter().all(|key| last.get(key) == piece.get(key));
    let grows = ["text", "summary"].iter().any(|key| piece.get(key).is_some_and(Value::is_string));
    let is_end = piece.get("signature").is_some_and(Value::is_string);
    match (details.last_mut().filter(same), piece) {
        (Some(Value::Object(last)), Value::Object(piece)) if grows || is_end => {
            for (key, value) in piece {
                match (last.get_mut(key), value) {
                    (Some(Value::String(whole)), Value::String(more))
                        if key == "text" || key == "summary" =>
                    {
                        whole.push_str(more);
                    }
                    (Some(old), new) if old.is_null() => *old = new.clone(),
                    (None, new) => {
                        last.insert(key.clone(), new.clone());
                    }
                    _ => {}
                }
            }
        }
        _ => details.push(piece.clone()),
    }
}

/// `prompt_tokens` includes the cached ones, which are counted apart here.
fn usage_of(usage: &Value, family: Family) -> TokenUsage {
    let count = |value: Option<&Value>| token_count(value).unwrap_or(0);
    let detail = |group: &str, name: &str| usage.get(group).and_then(|details| details.get(name));
    let prompt = count(usage.get("prompt_tokens"));
    // DeepSeek and Moonshot have names of their own.
    let cached = detail("prompt_tokens_details", "cached_tokens").or(usage.get("prompt_cache_hit_tokens"));
    let cached = count(cached.or(usage.get("cached_tokens")));
    let written = count(detail("prompt_tokens_details", "cache_write_tokens"));
    let completion = count(usage.get("completion_tokens"));
    let reasoning = count(detail("completion_tokens_details", "reasoning_tokens"));
    // xAI counts reasoning beside the completion, all others within it; the total tells which.
    let beside =
        count(usage.get("total_tokens")) == prompt.saturating_add(completion).saturating_add(reasoning);
    TokenUsage {
        input_tokens: prompt.saturating_sub(cached).saturating_sub(written),
        cache_read_tokens: cached,
        cache_write_tokens: written,
        output_tokens: if beside { completion.saturating_add(reasoning) } else { completion },
        reasoning_tokens: reasoning,
        cost_micros: usage.get("cost").filter(|_| family == Family::OpenRouter).and_then(micros),
        estimated: false,
    }
}

/// Dollars as a vendor wrote them -> whole micro-dollars, rounded up: what was spent is never counted as less.
#[expect(clippy::cast_possible_truncation, reason = "between 0 and 10^15, see below")]
fn micros(dollars: &Value) -> Option<i64> {
    let dollars = dollars.as_f64().filter(|dollars| (0.0..1e9).contains(dollars))?;
    // Ten digits behind the point are a vendor's; what lies below is the error of binary fractions.
    Some((dollars * 1e6 - 1e-4).ceil().max(0.0) as i64)
}

/// Some gateways say `stop` although there are calls; a length that was reached cuts the last call's arguments. The
/// reason of the vendor behind a gateway says more than the gateway's own few words.
fn stop_of(reason: &str, native: Option<&str>, has_calls: bool, refused: bool) -> Stop {
    match (reason, native.unwrap_or_default()) {
        (_, "MALFORMED_FUNCTION_CALL") => Stop::MalformedCall,
        (_, "model_context_window_exceeded") => Stop::ContextExhausted,
        (_, "refusal" | "SAFETY" | "PROHIBITED_CONTENT" | "BLOCKLIST" | "RECITATION" | "SPII") => {
            Stop::Refused
        }
        ("length", _) => Stop::MaxTokens,
        ("content_filter", _) => Stop::Refused,
        _ if refused => Stop::Refused,
        _ if has_calls => Stop::ToolUse,
        ("stop", "stop_sequence") => Stop::StopSequence,
        ("stop", _) => Stop::EndTurn,
        (other, _) => Stop::Other(other.to_owned()),
    }
}
