//! Decoder of Ollama's answers: one JSON object a line, the last of them with `done`.

use crate::domain::ErrorClass;
use crate::providers::contract::accumulate::{broken, call_id, ended_early, token_count};
use crate::providers::contract::estimate;
use crate::providers::contract::traits::{
    Block, Event, FinishReason, Phase, ProviderError, ProviderState, Response, TokenUsage, ToolArgs,
};
use crate::providers::transport::classify::{Family, stream_failure};
use crate::providers::transport::decode::Decoder;
use serde_json::{Map, Value, json};

/// Decoder of one answer, streamed or whole.
pub struct OllamaDecoder {
    request_id: Option<String>,
    input_estimate: u64,
    window_tokens: u64,
    model: Option<String>,
    thought: String,
    text: String,
    calls: Vec<Block>,
    is_done: bool,
}

impl OllamaDecoder {
    /// Creates a decoder. `request_id`: a header of a proxy, for the server itself gives none.
    /// `input_estimate`: tokens, for an answer without counts. `window_tokens`: the request's
    /// `num_ctx`.
    pub fn new(request_id: Option<String>, input_estimate: u64, window_tokens: u64) -> Self {
        let (thought, text, calls) = Default::default();
        Self {
            request_id,
            input_estimate,
            window_tokens,
            model: None,
            thought,
            text,
            calls,
            is_done: false,
        }
    }

    fn line(&mut self, line: &Value) -> Result<Vec<Event>, ProviderError> {
        if let Some(error) = line.get("error").filter(|error| !error.is_null()) {
            return Err(stream_failure(Family::Ollama, error));
        }
        if self.is_done {
            return Err(broken("a line came after the last one"));
        }
        let done = line.get("done").and_then(Value::as_bool);
        let message = line.get("message").filter(|message| message.is_object());
        if done.is_none() && message.is_none() {
            return Err(broken("a line with neither `message` nor `done`"));
        }
        let mut events = self.start(line);
        if let Some(message) = message {
            self.message(message, &mut events)?;
        }
        if done == Some(true) {
            self.is_done = true;
            self.remembered(line)?;
            events.push(self.end(line));
        }
        Ok(events)
    }

    fn start(&mut self, line: &Value) -> Vec<Event> {
        if self.model.is_some() {
            return Vec::new();
        }
        let model = line
            .get("model")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        self.model = Some(model.clone());
        vec![Event::Started {
            provider_request_id: self.request_id.clone(),
            model,
        }]
    }

    fn message(&mut self, message: &Value, events: &mut Vec<Event>) -> Result<(), ProviderError> {
        let text = |key: &str| message.get(key).and_then(Value::as_str).unwrap_or_default();
        if !text("thinking").is_empty() {
            self.thought.push_str(text("thinking"));
            events.push(Event::ThinkingDelta(text("thinking").to_owned()));
        }
        if !text("content").is_empty() {
            self.text.push_str(text("content"));
            events.push(Event::TextDelta(text("content").to_owned()));
        }
        for call in message
            .get("tool_calls")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            events.push(self.call(call)?);
        }
        Ok(())
    }

    /// Decodes a call, which comes whole. Ids came late to this server and mean nothing to it:
    /// results are matched by name and order.
    fn call(&mut self, call: &Value) -> Result<Event, ProviderError> {
        let function = call.get("function").unwrap_or(&Value::Null);
        let name = function
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        if name.is_empty() {
            return Err(broken("a tool call without a name"));
        }
        let given = call.get("id").and_then(Value::as_str).unwrap_or_default();
        let is_taken = |wanted: &str| {
            self.calls
                .iter()
                .any(|b| matches!(b, Block::ToolCall { id, .. } if id == wanted))
        };
        let id = call_id(
            given,
            u64::try_from(self.calls.len()).unwrap_or(u64::MAX),
            is_taken,
        );
        let args = match function.get("arguments") {
            None | Some(Value::Null) => ToolArgs::Object(Map::new()),
            Some(Value::Object(map)) => ToolArgs::from_object(map.clone()),
            // Servers that imitate this one send OpenAI's text.
            Some(Value::String(raw)) => ToolArgs::parse(raw),
            Some(other) => ToolArgs::parse(&other.to_string()),
        };
        let event = Event::ToolCall {
            id: id.clone(),
            name: name.clone(),
            args: args.clone(),
        };
        self.calls.push(Block::ToolCall {
            id,
            name,
            args,
            provider_state: None,
        });
        Ok(event)
    }

    fn end(&mut self, line: &Value) -> Event {
        let mut blocks = Vec::new();
        if !self.thought.is_empty() {
            // Ollama signs nothing; the state records that the reasoning is this model's, the only
            // one that may have it back.
            let family = Family::Ollama.as_str().to_owned();
            let state = ProviderState {
                family,
                model: String::new(),
                state: json!({}),
            };
            let text = std::mem::take(&mut self.thought);
            blocks.push(Block::Thinking {
                text,
                provider_state: Some(state),
            });
        }
        if !self.text.is_empty() {
            blocks.push(Block::text(std::mem::take(&mut self.text)));
        }
        let has_calls = !self.calls.is_empty();
        blocks.append(&mut self.calls);
        let reason = line.get("done_reason").and_then(Value::as_str);
        Event::Finished(Response {
            stop: stop_of(reason, has_calls),
            usage: self.usage(line, &blocks),
            blocks,
            model_served: self.model.clone().unwrap_or_default(),
            provider_request_id: self.request_id.clone(),
            breakdown: Vec::new(),
            session_usage: None,
        })
    }

    /// Detects truncation by the counts. Servers before 0.12.6 do not know `truncate` and `shift`:
    /// they cut the input to the window, or push it out with the answer, and show it only there.
    fn remembered(&self, line: &Value) -> Result<(), ProviderError> {
        let count = |name: &str| token_count(line.get(name)).unwrap_or(0);
        let (input, answer) = (count("prompt_eval_count"), count("eval_count"));
        let window = self.window_tokens;
        if input < window && input.saturating_add(answer) <= window {
            return Ok(());
        }
        let message = format!(
            "the model forgot the beginning: {input} tokens of input and {answer} of answer filled its {window}: raise \
             `context_tokens`"
        );
        let error = ProviderError::new(ErrorClass::ContextOverflow, Phase::MidStream, message);
        Err(ProviderError {
            window_tokens: Some(window),
            ..error
        })
    }

    /// Converts the counts. A missing count (the prompt's is, where the server still had it in its
    /// cache) is estimated, never 0.
    fn usage(&self, line: &Value, blocks: &[Block]) -> TokenUsage {
        let input = token_count(line.get("prompt_eval_count")).filter(|count| *count > 0);
        let output = token_count(line.get("eval_count"));
        TokenUsage {
            input_tokens: input.unwrap_or(self.input_estimate),
            output_tokens: output.unwrap_or_else(|| estimate::answer(blocks)),
            estimated: input.is_none() || output.is_none(),
            ..TokenUsage::default()
        }
    }
}

impl Decoder for OllamaDecoder {
    fn feed(&mut self, _event: &str, data: &str) -> Result<Vec<Event>, ProviderError> {
        let line: Value =
            serde_json::from_str(data).map_err(|e| broken(format!("a line is not JSON: {e}")))?;
        self.line(&line)
    }

    /// Decodes one object, or the lines of a server that names them JSON.
    fn whole(&mut self, body: &str) -> Result<Vec<Event>, ProviderError> {
        let mut events = Vec::new();
        for value in serde_json::Deserializer::from_str(body).into_iter::<Value>() {
            let value = value.map_err(|e| broken(format!("the answer is not JSON: {e}")))?;
            events.extend(self.line(&value)?);
        }
        match (self.is_done, self.model.is_some()) {
            (true, _) => Ok(events),
            (false, true) => Err(ended_early()),
            (false, false) => Err(broken("the answer is empty")),
        }
    }

    fn finish(&mut self) -> Result<Vec<Event>, ProviderError> {
        Err(ended_early())
    }
}

/// Maps the done reason. `stop` comes with calls, too; older servers give no reason at all.
fn stop_of(reason: Option<&str>, has_calls: bool) -> FinishReason {
    match reason {
        Some("length") => FinishReason::MaxTokens,
        _ if has_calls => FinishReason::ToolUse,
        None | Some("stop") => FinishReason::EndTurn,
        Some(other) => FinishReason::Other(other.to_owned()),
    }
}
