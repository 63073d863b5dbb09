//! Decoder of chat completion chunks, tolerant of the deviations of servers other than OpenAI's.

use crate::domain::ErrorClass;
use crate::providers::api::openai::calls::{PartialCalls, is_filled};
use crate::providers::api::openai::content::{add_detail, text_of_content, thought_of_content};
use crate::providers::api::openai::usage::usage_of;
use crate::providers::contract::accumulate::{broken, call_id, ended_early};
use crate::providers::contract::estimate;
use crate::providers::contract::traits::{
    Block, Event, FinishReason, Phase, ProviderError, ProviderState, Response, TokenUsage, ToolArgs,
};
use crate::providers::transport::classify::{Family, stream_failure};
use crate::providers::transport::decode::Decoder;
use serde_json::{Value, json};

/// Keys under which servers send reasoning: DeepSeek, xAI and vLLM; OpenRouter; some proxies.
const REASONING_KEYS: &[&str] = &["reasoning_content", "reasoning", "reasoning_text"];

/// Members of [`REASONING_KEYS`] that a server may want back with a call: DeepSeek and Moonshot
/// refuse a call without its `reasoning_content`, and Groq takes its `reasoning`.
const RETURNED_KEYS: &[&str] = &["reasoning_content", "reasoning"];

/// Decoder of one stream of chunks, or one whole completion.
pub struct ChunkDecoder {
    request_id: Option<String>,
    family: Family,
    /// Adapter that sends reasoning back; `None` where no adapter does.
    returns_by: Option<&'static str>,
    input_estimate: u64,
    /// `true`: we asked for usage, so a stream without it and without `[DONE]` was cut.
    usage_expected: bool,
    model: Option<String>,
    text: String,
    reasoning: String,
    /// Key of the reasoning.
    reasoning_key: Option<&'static str>,
    /// OpenRouter's `reasoning_details`, which it wants back as they came.
    details: Vec<Value>,
    refused: bool,
    /// `true`: some choice came.
    has_choice: bool,
    calls: PartialCalls,
    finish_reason: Option<String>,
    /// Stop reason of the vendor behind OpenRouter.
    native_reason: Option<String>,
    usage: Option<TokenUsage>,
}

impl ChunkDecoder {
    /// Creates a decoder. `request_id`: the provider's header, if it sent one. `input_estimate`:
    /// tokens, for an answer without counts.
    pub fn new(
        request_id: Option<String>,
        family: Family,
        usage_expected: bool,
        input_estimate: u64,
    ) -> Self {
        Self {
            request_id,
            family,
            returns_by: None,
            input_estimate,
            usage_expected,
            model: None,
            text: String::new(),
            reasoning: String::new(),
            reasoning_key: None,
            details: Vec::new(),
            refused: false,
            has_choice: false,
            calls: PartialCalls::default(),
            finish_reason: None,
            native_reason: None,
            usage: None,
        }
    }

    /// Sets the adapter that sends reasoning back, in the member that it came in.
    #[must_use]
    pub fn returning_reasoning_by(self, adapter: &'static str) -> Self {
        Self {
            returns_by: Some(adapter),
            ..self
        }
    }

    /// Decodes a chunk. `spoken`: the members of a choice that may hold the new content, the
    /// preferred one first.
    fn chunk(&mut self, chunk: &Value, spoken: [&str; 2]) -> Result<Vec<Event>, ProviderError> {
        let choices = chunk.get("choices").and_then(Value::as_array);
        // We ask for one choice; others are ignored.
        let ours = |choice: &&Value| choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0;
        let choice = choices.and_then(|choices| choices.iter().find(ours));
        let inside = |key: &str| [chunk.get(key), choice.and_then(|choice| choice.get(key))];
        if let Some(error) = inside("error")
            .into_iter()
            .flatten()
            .find(|error| !error.is_null())
        {
            let failure = stream_failure(self.family, error);
            return if is_unread_call(&failure) {
                Ok(self.unread_call())
            } else {
                Err(failure)
            };
        }
        // Moonshot has the usage inside the choice.
        let usage = inside("usage")
            .into_iter()
            .flatten()
            .find(|usage| usage.is_object());
        if choices.is_none() && usage.is_none() {
            return Err(broken("a chunk without `choices`"));
        }
        let mut events = self.start(chunk);
        if let Some(usage) = usage {
            self.usage = Some(usage_of(usage, self.family));
        }
        if let Some(choice) = choice {
            self.has_choice = true;
            let delta = spoken
                .into_iter()
                .find_map(|key| choice.get(key))
                .unwrap_or(&Value::Null);
            events.extend(self.delta(delta));
            let reason = choice.get("finish_reason").and_then(Value::as_str);
            if let Some(reason) = reason.filter(|reason| !reason.is_empty()) {
                self.finish_reason = Some(reason.to_owned());
            }
            if let Some(reason) = choice.get("native_finish_reason").and_then(Value::as_str) {
                self.native_reason = Some(reason.to_owned());
            }
        }
        Ok(events)
    }

    /// Starts the answer. Azure's first chunk is about the prompt: it names neither the model nor
    /// the request, so later chunks are read for them, too.
    fn start(&mut self, chunk: &Value) -> Vec<Event> {
        let text = |key: &str| {
            let text = chunk.get(key).and_then(Value::as_str);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        self.request_id = self.request_id.take().or_else(|| text("id"));
        let is_first = self.model.is_none();
        if self.model.as_ref().is_none_or(String::is_empty) {
            self.model = Some(text("model").unwrap_or_default());
        }
        let model = self.model.clone().unwrap_or_default();
        is_first
            .then(|| Event::Started {
                provider_request_id: self.request_id.clone(),
                model,
            })
            .into_iter()
            .collect()
    }

    fn delta(&mut self, delta: &Value) -> Vec<Event> {
        let text = |key: &str| {
            delta
                .get(key)
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
        };
        let mut events = Vec::new();
        if self.family == Family::OpenRouter {
            let details = delta
                .get("reasoning_details")
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            details.for_each(|detail| add_detail(&mut self.details, detail));
        }
        if let Some((key, piece)) = REASONING_KEYS
            .iter()
            .find_map(|key| Some((*key, text(key)?)))
        {
            self.reasoning_key.get_or_insert(key);
            self.reasoning.push_str(piece);
            events.push(Event::ThinkingDelta(piece.to_owned()));
        }
        let thought = delta
            .get("content")
            .map(thought_of_content)
            .unwrap_or_default();
        if !thought.is_empty() {
            self.reasoning.push_str(&thought);
            events.push(Event::ThinkingDelta(thought));
        }
        if let Some(piece) = text("refusal") {
            self.refused = true;
            self.text.push_str(piece);
            events.push(Event::TextDelta(piece.to_owned()));
        }
        let content = delta
            .get("content")
            .map(text_of_content)
            .unwrap_or_default();
        if !content.is_empty() {
            self.text.push_str(&content);
            events.push(Event::TextDelta(content));
        }
        for fragment in delta
            .get("tool_calls")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            self.calls.add(fragment);
        }
        // Snowflake sends the older form, empty, beside every answer.
        let is_said = |function: &&Value| {
            ["name", "arguments"]
                .iter()
                .any(|key| is_filled(function.get(*key)))
        };
        if let Some(function) = delta.get("function_call").filter(is_said) {
            self.calls.add_unnumbered(function);
        }
        events
    }

    /// Returns the events of the complete answer.
    fn end(&mut self) -> Result<Vec<Event>, ProviderError> {
        let Some(model) = self.model.clone().filter(|_| self.has_choice) else {
            return Err(broken("the answer ended before it began"));
        };
        // Some gateways give no reason (Novita behind OpenRouter, Snowflake); the content then
        // decides.
        let reason = self
            .finish_reason
            .take()
            .unwrap_or_else(|| "stop".to_owned());
        let native = self.native_reason.take().unwrap_or_default();
        if reason == "error" || [reason.as_str(), native.as_str()].contains(&"network_error") {
            let message = "the provider gave up in the middle of the answer";
            return Err(ProviderError::new(
                ErrorClass::Transient,
                Phase::MidStream,
                message,
            ));
        }
        let mut blocks = self.spoken();
        let mut events = Vec::new();
        for (position, call) in (0..).zip(self.calls.take()) {
            if call.name.is_empty() {
                return Err(broken("a tool call without a name"));
            }
            let has_id = |block: &Block, wanted: &str| matches!(block, Block::ToolCall { id, .. } if id == wanted);
            let id = call_id(&call.id, position, |id| {
                blocks.iter().any(|block| has_id(block, id))
            });
            let (name, args) = (call.name, ToolArgs::parse(&call.arguments));
            events.push(Event::ToolCall {
                id: id.clone(),
                name: name.clone(),
                args: args.clone(),
            });
            blocks.push(Block::ToolCall {
                id,
                name,
                args,
                provider_state: None,
            });
        }
        let stop = stop_of(&reason, &native, !events.is_empty(), self.refused);
        events.push(self.finished(blocks, stop, model));
        Ok(events)
    }
}

impl ChunkDecoder {
    /// Takes the reasoning and the text, without calls.
    fn spoken(&mut self) -> Vec<Block> {
        let mut blocks = Vec::new();
        if !self.reasoning.is_empty() || !self.details.is_empty() {
            let text = std::mem::take(&mut self.reasoning);
            let details = std::mem::take(&mut self.details);
            let returned = self.reasoning_key.filter(|key| RETURNED_KEYS.contains(key));
            let kept = match (details.is_empty(), self.returns_by, returned) {
                (false, ..) => Some((Family::OpenRouter.as_str(), Value::Array(details))),
                (true, Some(adapter), Some(key)) => Some((adapter, json!({ "member": key }))),
                _ => None,
            };
            let provider_state = kept.map(|(family, state)| ProviderState {
                family: family.to_owned(),
                model: String::new(),
                state,
            });
            blocks.push(Block::Thinking {
                text,
                provider_state,
            });
        }
        if !self.text.is_empty() {
            blocks.push(Block::text(std::mem::take(&mut self.text)));
        }
        blocks
    }

    fn finished(&self, blocks: Vec<Block>, stop: FinishReason, model_served: String) -> Event {
        Event::Finished(Response {
            stop,
            usage: self.usage.unwrap_or_else(|| self.estimate(&blocks)),
            blocks,
            model_served,
            provider_request_id: self.request_id.clone(),
            breakdown: Vec::new(),
            session_usage: None,
        })
    }

    /// Returns the events of an answer whose call the vendor could not parse: the text before the
    /// call, without the call.
    fn unread_call(&mut self) -> Vec<Event> {
        let mut events = self.start(&Value::Null);
        self.calls.take();
        let (blocks, model) = (self.spoken(), self.model.clone().unwrap_or_default());
        events.push(self.finished(blocks, FinishReason::MalformedCall, model));
        events
    }

    fn estimate(&self, blocks: &[Block]) -> TokenUsage {
        let (input_tokens, output_tokens) = (self.input_estimate, estimate::answer(blocks));
        TokenUsage {
            input_tokens,
            output_tokens,
            estimated: true,
            ..TokenUsage::default()
        }
    }
}

impl Decoder for ChunkDecoder {
    fn feed(&mut self, _event: &str, data: &str) -> Result<Vec<Event>, ProviderError> {
        if data.trim() == "[DONE]" {
            return self.end();
        }
        let chunk: Value =
            serde_json::from_str(data).map_err(|e| broken(format!("a chunk is not JSON: {e}")))?;
        // Perplexity repeats the text so far in `message`.
        self.chunk(&chunk, ["delta", "message"])
    }

    fn whole(&mut self, body: &str) -> Result<Vec<Event>, ProviderError> {
        let completion: Value = serde_json::from_str(body)
            .map_err(|e| broken(format!("the answer is not JSON: {e}")))?;
        let mut events = self.chunk(&completion, ["message", "delta"])?;
        if !events
            .iter()
            .any(|event| matches!(event, Event::Finished(_)))
        {
            events.extend(self.end()?);
        }
        Ok(events)
    }

    /// Handles the end of the body. Some servers close without `[DONE]`; the answer is complete
    /// only if nothing that we asked for is missing.
    fn finish(&mut self) -> Result<Vec<Event>, ProviderError> {
        if self.finish_reason.is_none() {
            return Err(ended_early());
        }
        if self.usage_expected && self.usage.is_none() {
            let message = "the answer ended before its usage: if the server never sends one, set `no_stream_usage`";
            return Err(ProviderError::new(
                ErrorClass::Transient,
                Phase::MidStream,
                message,
            ));
        }
        self.end()
    }
}

/// Groq's code for a call of its model that it could not parse.
const UNREAD_CALL: &str = "tool_use_failed";

/// Reports whether the vendor could not parse the model's call, which the model can correct.
pub fn is_unread_call(failure: &ProviderError) -> bool {
    failure.provider_code.as_deref() == Some(UNREAD_CALL)
}

/// Maps the finish reason. Some gateways send `stop` although there are calls; at `length` the
/// arguments of the last call are cut. The reason of the vendor behind a gateway is more precise
/// than the gateway's own.
fn stop_of(reason: &str, native: &str, has_calls: bool, refused: bool) -> FinishReason {
    match (reason, native) {
        (_, "MALFORMED_FUNCTION_CALL") => FinishReason::MalformedCall,
        (_, "model_context_window_exceeded") => FinishReason::ContextExhausted,
        (_, "refusal" | "SAFETY" | "PROHIBITED_CONTENT" | "BLOCKLIST" | "RECITATION" | "SPII") => {
            FinishReason::Refused
        }
        ("length", _) => FinishReason::MaxTokens,
        // `sensitive` is z.ai's.
        ("content_filter" | "sensitive", _) | (_, "sensitive") => FinishReason::Refused,
        _ if refused => FinishReason::Refused,
        _ if has_calls => FinishReason::ToolUse,
        ("stop", "stop_sequence") => FinishReason::StopSequence,
        ("stop", _) => FinishReason::EndTurn,
        (other, _) => FinishReason::Other(other.to_owned()),
    }
}
