//! Decoder of chat completion chunks, tolerant of the deviations of servers other than OpenAI's.

use crate::domain::ErrorClass;
use crate::providers::contract::accumulate::{broken, call_id, ended_early, token_count};
use crate::providers::contract::estimate;
use crate::providers::contract::traits::{
    Block, Event, Phase, ProviderError, ProviderState, Response, Stop, TokenUsage, ToolArgs,
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
    calls: Vec<Call>,
    finish_reason: Option<String>,
    /// Stop reason of the vendor behind OpenRouter.
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
            calls: Vec::new(),
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
            self.call(fragment);
        }
        // Snowflake sends the older form, empty, beside every answer.
        let is_said = |function: &&Value| {
            ["name", "arguments"]
                .iter()
                .any(|key| is_filled(function.get(*key)))
        };
        if let Some(function) = delta.get("function_call").filter(is_said) {
            // The older form: one call, without an id.
            let index = Some(0);
            let at = self.calls.iter().position(|call| call.index == index);
            let at = at.unwrap_or_else(|| self.new_call(index));
            self.calls[at].extend(None, function);
        }
        events
    }

    /// Adds a fragment to its call: by `index`, else by `id`, else a name begins a call, else the
    /// last call.
    fn call(&mut self, fragment: &Value) {
        let function = fragment.get("function").unwrap_or(&Value::Null);
        let named = function
            .get("name")
            .and_then(Value::as_str)
            .is_some_and(|name| !name.is_empty());
        let id = fragment
            .get("id")
            .and_then(Value::as_str)
            .filter(|id| !id.is_empty());
        let index = fragment.get("index").and_then(Value::as_u64);
        let position = |test: &dyn Fn(&Call) -> bool| self.calls.iter().rposition(test);
        let found = match (index, id) {
            (Some(_), _) => position(&|call| call.index == index),
            (None, Some(id)) => position(&|call| call.id == id),
            (None, None) if named => None,
            (None, None) => self.calls.len().checked_sub(1),
        };
        // Some gateways number every parallel call 0: a named fragment after a complete call begins
        // another call.
        let found = found.filter(|at| !(named && self.calls[*at].is_succeeded_by(id, function)));
        let at = found.unwrap_or_else(|| self.new_call(index));
        self.calls[at].extend(id, function);
    }

    fn new_call(&mut self, index: Option<u64>) -> usize {
        self.calls.push(Call {
            index,
            ..Call::default()
        });
        self.calls.len() - 1
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
        for (position, call) in (0..).zip(std::mem::take(&mut self.calls)) {
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
                (false, ..) => Some((
                    crate::providers::api::openrouter::ADAPTER.id,
                    Value::Array(details),
                )),
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

    fn finished(&self, blocks: Vec<Block>, stop: Stop, model_served: String) -> Event {
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
        self.calls.clear();
        let (blocks, model) = (self.spoken(), self.model.clone().unwrap_or_default());
        events.push(self.finished(blocks, Stop::MalformedCall, model));
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

impl Call {
    fn extend(&mut self, id: Option<&str>, function: &Value) {
        if self.id.is_empty() {
            self.id = id.unwrap_or_default().to_owned();
        }
        if self.name.is_empty() {
            self.name = function
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned();
        }
        match function.get("arguments") {
            Some(Value::String(piece)) => self.arguments.push_str(piece),
            Some(object @ Value::Object(_)) => self.arguments.push_str(&object.to_string()),
            _ => {}
        }
    }

    /// Reports whether a named fragment begins another call although it has this call's index.
    fn is_succeeded_by(&self, id: Option<&str>, function: &Value) -> bool {
        let other_id = id.is_some_and(|id| !self.id.is_empty() && self.id != id);
        let brings_arguments = is_filled(function.get("arguments"));
        let complete = !self.arguments.is_empty()
            && matches!(ToolArgs::parse(&self.arguments), ToolArgs::Object(_));
        other_id && brings_arguments && complete
    }
}

/// Groq's code for a call of its model that it could not parse.
const UNREAD_CALL: &str = "tool_use_failed";

/// Reports whether the vendor could not parse the model's call, which the model can correct.
pub fn is_unread_call(failure: &ProviderError) -> bool {
    failure.provider_code.as_deref() == Some(UNREAD_CALL)
}

fn is_filled(value: Option<&Value>) -> bool {
    match value {
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Object(_)) => true,
        _ => false,
    }
}

/// Returns the text of a string, of the parts that Mistral sends, or of the object that
/// Cloudflare's JSON mode returns.
fn text_of_content(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part.get("text").and_then(Value::as_str))
            .collect(),
        Value::Object(_) => content.to_string(),
        _ => String::new(),
    }
}

/// Returns Mistral's reasoning: parts of the content, whose `thinking` is a text or parts again.
fn thought_of_content(content: &Value) -> String {
    let parts = content.as_array().into_iter().flatten();
    let thoughts =
        parts.filter(|part| part.get("type").and_then(Value::as_str) == Some("thinking"));
    thoughts
        .filter_map(|part| part.get("thinking"))
        .map(text_of_content)
        .collect()
}

/// Adds one of OpenRouter's details. A stream brings them in pieces: text that continues the last
/// one is joined to it, so that what is sent back equals a whole answer's.
fn add_detail(details: &mut Vec<Value>, piece: &Value) {
    let same = |last: &&mut Value| {
        ["type", "index"]
            .iter()
            .all(|key| last.get(key) == piece.get(key))
    };
    let grows = ["text", "summary"]
        .iter()
        .any(|key| piece.get(key).is_some_and(Value::is_string));
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

/// Converts the counts. `prompt_tokens` includes the cached ones, which are counted apart here.
fn usage_of(usage: &Value, family: Family) -> TokenUsage {
    let count = |value: Option<&Value>| token_count(value).unwrap_or(0);
    let detail = |group: &str, name: &str| usage.get(group).and_then(|details| details.get(name));
    let prompt = count(usage.get("prompt_tokens"));
    // DeepSeek, Moonshot and Mistral have names of their own.
    let own_names = [
        "prompt_cache_hit_tokens",
        "cached_tokens",
        "num_cached_tokens",
    ];
    let own_name = || own_names.iter().find_map(|name| usage.get(name));
    let cached = count(detail("prompt_tokens_details", "cached_tokens").or_else(own_name));
    let written = count(detail("prompt_tokens_details", "cache_write_tokens"));
    let completion = count(usage.get("completion_tokens"));
    let stated = count(detail("completion_tokens_details", "reasoning_tokens"));
    // xAI counts reasoning in addition to the completion, Gemini's gateway only in the total, all
    // others within the completion; the total tells which. Mistral counts audio in addition to the
    // prompt.
    let heard = prompt.saturating_add(count(detail("prompt_tokens_details", "audio_tokens")));
    let unsaid = count(usage.get("total_tokens")).saturating_sub(heard.saturating_add(completion));
    let (reasoning, beside) = match stated {
        0 => (unsaid, unsaid),
        stated if stated == unsaid => (stated, stated),
        stated => (stated, 0),
    };
    TokenUsage {
        input_tokens: prompt.saturating_sub(cached).saturating_sub(written),
        cache_read_tokens: cached,
        cache_write_tokens: written,
        // The sum, too, must fit an SQLite integer.
        output_tokens: completion
            .saturating_add(beside)
            .min(i64::MAX.unsigned_abs()),
        reasoning_tokens: reasoning,
        cost_micros: usage
            .get("cost")
            .filter(|_| family == Family::OpenRouter)
            .and_then(micros),
        estimated: false,
    }
}

/// Converts dollars as a vendor wrote them to whole micro-dollars, rounded up: a cost is never
/// counted too low.
#[expect(
    clippy::cast_possible_truncation,
    reason = "between 0 and 10^15, see below"
)]
fn micros(dollars: &Value) -> Option<i64> {
    let dollars = dollars
        .as_f64()
        .filter(|dollars| (0.0..1e9).contains(dollars))?;
    // Vendors write at most ten digits after the point; smaller parts are the error of binary
    // fractions.
    Some((dollars * 1e6 - 1e-4).ceil().max(0.0) as i64)
}

/// Maps the finish reason. Some gateways send `stop` although there are calls; at `length` the
/// arguments of the last call are cut. The reason of the vendor behind a gateway is more precise
/// than the gateway's own.
fn stop_of(reason: &str, native: &str, has_calls: bool, refused: bool) -> Stop {
    match (reason, native) {
        (_, "MALFORMED_FUNCTION_CALL") => Stop::MalformedCall,
        (_, "model_context_window_exceeded") => Stop::ContextExhausted,
        (_, "refusal" | "SAFETY" | "PROHIBITED_CONTENT" | "BLOCKLIST" | "RECITATION" | "SPII") => {
            Stop::Refused
        }
        ("length", _) => Stop::MaxTokens,
        // `sensitive` is z.ai's.
        ("content_filter" | "sensitive", _) | (_, "sensitive") => Stop::Refused,
        _ if refused => Stop::Refused,
        _ if has_calls => Stop::ToolUse,
        ("stop", "stop_sequence") => Stop::StopSequence,
        ("stop", _) => Stop::EndTurn,
        (other, _) => Stop::Other(other.to_owned()),
    }
}
