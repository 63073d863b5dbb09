//! Lines of `pi --mode json`. Pure, except for the targets of links (`paths.rs`).
//!
//! Formats by `packages/coding-agent/docs/json.md` and `packages/ai/src/types.ts` of
//! badlogic/pi-mono, and as observed with pi 0.74.2. An `agent_end` may be followed by a retry of
//! its turn: only the program's end is the end, and its exit code says nothing about the model.

use crate::config::Tier;
use crate::domain::{ErrorClass, Timestamp};
use crate::providers::agents::agent::{
    AgentDecoder, Invocation, Reaction, args_at, flat_text, micros, object, text_at,
};
use crate::providers::agents::failure;
use crate::providers::agents::paths;
use crate::providers::child::process::Ending;
use crate::providers::contract::accumulate::{broken, token_count};
use crate::providers::contract::traits::{
    AgentOptions, Block, Event, FinishReason, Phase, ProviderError, Response, TokenUsage,
};
use serde_json::Value;

/// Reader of one call's lines.
pub struct PiDecoder {
    options: AgentOptions,
    now: Timestamp,
    session: Option<String>,
    model: Option<String>,
    usage: TokenUsage,
    /// Newest complete message of the model.
    last: Option<Value>,
    /// `true`: the loop has ended since that message.
    ended: bool,
}

impl PiDecoder {
    pub fn new(invocation: &Invocation, now: Timestamp) -> Self {
        let options = invocation.options.clone();
        Self {
            options,
            now,
            session: None,
            model: None,
            usage: TokenUsage::default(),
            last: None,
            ended: false,
        }
    }

    /// Emits `Started`: the model is known with its first message.
    fn begin(&mut self, message: &Value) -> Vec<Event> {
        if self.model.is_some() {
            return Vec::new();
        }
        let model = text_at(message, "model").to_owned();
        self.model = Some(model.clone());
        let started = Event::Started {
            provider_request_id: None,
            model,
        };
        [started]
            .into_iter()
            .chain(self.session.take().map(Event::Session))
            .collect()
    }

    fn message_end(&mut self, message: &Value) -> Vec<Event> {
        let mut events = self.begin(message);
        let usage = message.get("usage").unwrap_or(&Value::Null);
        let count = |key: &str| token_count(usage.get(key)).unwrap_or(0);
        let usage = TokenUsage {
            input_tokens: count("input"),
            cache_read_tokens: count("cacheRead"),
            cache_write_tokens: count("cacheWrite"),
            output_tokens: count("output"),
            cost_micros: usage
                .get("cost")
                .and_then(|cost| cost.get("total"))
                .and_then(micros),
            ..TokenUsage::default()
        };
        self.usage = self.usage.plus(usage);
        events.push(Event::Round {
            usage,
            goes_on: text_at(message, "stopReason") == "toolUse",
        });
        self.last = Some(message.clone());
        self.ended = false;
        events
    }

    /// Handles a call. Errors: class `DisallowedTool`, for a path outside the folder: Pi itself has
    /// no permission requests.
    fn call(&self, line: &Value) -> Result<Vec<Event>, ProviderError> {
        if self.model.is_none() {
            return Err(broken("the agent called a tool before its model spoke"));
        }
        let (id, name) = (
            text_at(line, "toolCallId").to_owned(),
            text_at(line, "toolName").to_owned(),
        );
        let args = args_at(line, "args");
        if needs(&name) != Tier::Full
            && let Some(reason) = paths::refusal(&name, needs(&name), &args, &self.options, &[])
        {
            let message = format!("the agent went on although {reason}");
            return Err(ProviderError::new(
                ErrorClass::DisallowedTool,
                Phase::MidStream,
                message,
            ));
        }
        Ok(vec![Event::ObservedCall { id, name, args }])
    }

    fn delta(&self, line: &Value) -> Vec<Event> {
        let event = line.get("assistantMessageEvent").unwrap_or(&Value::Null);
        let piece = || text_at(event, "delta").to_owned();
        match text_at(event, "type") {
            "text_delta" if self.model.is_some() => vec![Event::TextDelta(piece())],
            "thinking_delta" if self.model.is_some() => vec![Event::ThinkingDelta(piece())],
            _ => Vec::new(),
        }
    }
}

impl AgentDecoder for PiDecoder {
    fn line(&mut self, line: &str) -> Result<Reaction, ProviderError> {
        let Some(line) = object(line)? else {
            return Ok(Reaction::default());
        };
        let message = line
            .get("message")
            .filter(|message| text_at(message, "role") == "assistant");
        let events = match (text_at(&line, "type"), message) {
            ("session", _) => {
                self.session = Some(text_at(&line, "id").to_owned()).filter(|id| !id.is_empty());
                Vec::new()
            }
            ("message_start", Some(message)) => self.begin(message),
            ("message_update", _) => self.delta(&line),
            ("message_end", Some(message)) => self.message_end(message),
            ("tool_execution_start", _) => self.call(&line)?,
            ("tool_execution_end", _) if self.model.is_some() => {
                let result = line.get("result").unwrap_or(&Value::Null);
                vec![Event::ObservedResult {
                    id: text_at(&line, "toolCallId").to_owned(),
                    content: flat_text(result.get("content").unwrap_or(result)),
                    is_error: line
                        .get("isError")
                        .and_then(Value::as_bool)
                        .unwrap_or(false),
                }]
            }
            ("agent_end", _) => {
                self.ended = true;
                Vec::new()
            }
            (kind @ ("auto_retry_start" | "auto_compaction_start" | "compaction_start"), _)
                if self.model.is_some() =>
            {
                vec![Event::Notice(format!("pi: {kind}"))]
            }
            _ => Vec::new(),
        };
        Ok(events.into())
    }

    fn end(&mut self, ending: &Ending) -> Result<Vec<Event>, ProviderError> {
        let Some(last) = self
            .last
            .take()
            .filter(|_| self.ended && ending.code == Some(0))
        else {
            return Err(failure::no_answer("pi", ending, self.now));
        };
        let stop = match text_at(&last, "stopReason") {
            "stop" => FinishReason::EndTurn,
            "length" => FinishReason::MaxTokens,
            "error" | "aborted" => {
                let text = text_at(&last, "errorMessage");
                let text = if text.is_empty() {
                    "the agent's model failed"
                } else {
                    text
                };
                return Err(failure::failure(
                    text,
                    None,
                    ErrorClass::Transient,
                    self.now,
                ));
            }
            // The loop ended although the model waits for a tool.
            "toolUse" => return Err(broken("the agent ended in the middle of a tool call")),
            other => FinishReason::Other(other.to_owned()),
        };
        let blocks = last
            .get("content")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let text: String = blocks
            .filter(|block| text_at(block, "type") == "text")
            .map(|b| text_at(b, "text"))
            .collect();
        Ok(vec![Event::Finished(Response {
            blocks: if text.is_empty() {
                Vec::new()
            } else {
                vec![Block::text(text)]
            },
            stop,
            usage: self.usage,
            model_served: self.model.clone().unwrap_or_default(),
            provider_request_id: None,
            breakdown: Vec::new(),
            session_usage: None,
        })])
    }
}

/// Returns the tier that a tool of Pi's needs.
pub fn needs(name: &str) -> Tier {
    match name {
        "read" | "grep" | "find" | "ls" => Tier::ReadOnly,
        "edit" | "write" => Tier::Write,
        _ => Tier::Full,
    }
}
