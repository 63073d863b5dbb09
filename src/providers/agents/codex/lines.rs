//! Lines of `codex exec --json`. Pure.
//!
//! Formats by `codex-rs/exec/src/exec_events.rs`; usage, resumption and retries as observed with
//! codex-cli 0.169.0.

use crate::domain::{ErrorClass, Timestamp};
use crate::providers::agents::agent::{
    AgentDecoder, Invocation, Reaction, args_at, object, text_at, used_before,
};
use crate::providers::agents::failure;
use crate::providers::child::process::Ending;
use crate::providers::contract::accumulate::{broken, token_count};
use crate::providers::contract::traits::{
    Block, Event, FinishReason, ProviderError, Response, TokenUsage, ToolArgs,
};
use crate::text::truncated;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Reader of one call's lines.
pub struct CodexDecoder {
    model: String,
    /// Usage of the thread before this call: Codex reports a running total.
    used: TokenUsage,
    now: Timestamp,
    started: bool,
    seen_calls: BTreeSet<String>,
    seen_results: BTreeSet<String>,
    answer: Option<String>,
    /// Total usage of the thread, when the turn is complete.
    total: Option<TokenUsage>,
    failed: Option<ProviderError>,
    /// Newest `error` line: on its own it may be a retry.
    failure: Option<String>,
}

impl CodexDecoder {
    pub fn new(invocation: &Invocation, now: Timestamp) -> Self {
        Self {
            model: invocation.model.clone(),
            used: used_before(&invocation.options.session),
            now,
            started: false,
            seen_calls: BTreeSet::new(),
            seen_results: BTreeSet::new(),
            answer: None,
            total: None,
            failed: None,
            failure: None,
        }
    }

    fn item(&mut self, item: &Value, is_over: bool) -> Vec<Event> {
        let id = text_at(item, "id").to_owned();
        let (name, args) = match text_at(item, "type") {
            "agent_message" if is_over => {
                let text = text_at(item, "text").to_owned();
                self.answer = Some(text.clone());
                return vec![Event::TextDelta(text)];
            }
            "reasoning" if is_over => {
                return vec![Event::ThinkingDelta(text_at(item, "text").to_owned())];
            }
            "error" if is_over => {
                let words: String = truncated(text_at(item, "message"), 300);
                return vec![Event::Notice(format!("codex: {words}"))];
            }
            "agent_message" | "reasoning" | "error" | "todo_list" | "plan" => return Vec::new(),
            "mcp_tool_call" => {
                let name = format!(
                    "mcp__{}__{}",
                    text_at(item, "server"),
                    text_at(item, "tool")
                );
                (name, args_at(item, "arguments"))
            }
            kind => (kind.to_owned(), rest(item)),
        };
        let mut events = Vec::new();
        if self.seen_calls.insert(id.clone()) {
            events.push(Event::ObservedCall {
                id: id.clone(),
                name,
                args,
            });
        }
        if is_over && self.seen_results.insert(id.clone()) {
            let (content, is_error) = outcome(item);
            events.push(Event::ObservedResult {
                id,
                content,
                is_error,
            });
        }
        events
    }
}

impl AgentDecoder for CodexDecoder {
    fn line(&mut self, line: &str) -> Result<Reaction, ProviderError> {
        let Some(line) = object(line)? else {
            return Ok(Reaction::default());
        };
        let kind = text_at(&line, "type");
        if !self.started && (kind.starts_with("item.") || kind == "turn.completed") {
            return Err(broken("the agent worked before its thread began"));
        }
        let item = line.get("item").unwrap_or(&Value::Null);
        let events = match kind {
            "thread.started" if !self.started => {
                self.started = true;
                let started = Event::Started {
                    provider_request_id: None,
                    model: self.model.clone(),
                };
                vec![
                    started,
                    Event::Session(text_at(&line, "thread_id").to_owned()),
                ]
            }
            "item.started" | "item.updated" => self.item(item, false),
            "item.completed" => self.item(item, true),
            "turn.completed" => {
                self.total = Some(total(line.get("usage").unwrap_or(&Value::Null)));
                Vec::new()
            }
            "turn.failed" => {
                let text = text_at(line.get("error").unwrap_or(&Value::Null), "message");
                self.failed = Some(failure::failure(
                    text,
                    None,
                    ErrorClass::Transient,
                    self.now,
                ));
                Vec::new()
            }
            "error" => {
                self.failure = Some(text_at(&line, "message").to_owned());
                let notice = Event::Notice(format!("codex: {}", text_at(&line, "message")));
                if self.started {
                    vec![notice]
                } else {
                    Vec::new()
                }
            }
            _ => Vec::new(),
        };
        Ok(events.into())
    }

    fn end(&mut self, ending: &Ending) -> Result<Vec<Event>, ProviderError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let Some(total) = self.total.take() else {
            return Err(
                match self.failure.take().filter(|_| ending.code != Some(0)) {
                    Some(text) => failure::failure(&text, None, ErrorClass::Transient, self.now),
                    None => failure::no_answer("codex", ending, self.now),
                },
            );
        };
        let text = self.answer.take().filter(|text| !text.is_empty());
        let usage = added(total, self.used);
        // Codex drops the words of a refusal. Where nothing was done and yet words were paid for, it
        // was one.
        let is_refused = text.is_none()
            && self.seen_calls.is_empty()
            && usage.output_tokens > usage.reasoning_tokens;
        Ok(vec![Event::Finished(Response {
            blocks: text.map(Block::text).into_iter().collect(),
            stop: if is_refused {
                FinishReason::Refused
            } else {
                FinishReason::EndTurn
            },
            usage,
            model_served: self.model.clone(),
            provider_request_id: None,
            breakdown: Vec::new(),
            session_usage: Some(total),
        })])
    }
}

/// Converts the total. `cached_input_tokens` are part of `input_tokens`, `reasoning_output_tokens`
/// of `output_tokens`.
fn total(usage: &Value) -> TokenUsage {
    let count = |key: &str| token_count(usage.get(key)).unwrap_or(0);
    let (read, write) = (
        count("cached_input_tokens"),
        count("cache_write_input_tokens"),
    );
    TokenUsage {
        input_tokens: count("input_tokens")
            .saturating_sub(read)
            .saturating_sub(write),
        cache_read_tokens: read,
        cache_write_tokens: write,
        output_tokens: count("output_tokens"),
        reasoning_tokens: count("reasoning_output_tokens"),
        ..TokenUsage::default()
    }
}

/// Returns the usage that this call added; the whole total, where the thread has restarted its
/// count.
fn added(total: TokenUsage, before: TokenUsage) -> TokenUsage {
    if total.output_tokens < before.output_tokens {
        return total;
    }
    TokenUsage {
        input_tokens: total.input_tokens.saturating_sub(before.input_tokens),
        cache_read_tokens: total
            .cache_read_tokens
            .saturating_sub(before.cache_read_tokens),
        cache_write_tokens: total
            .cache_write_tokens
            .saturating_sub(before.cache_write_tokens),
        output_tokens: total.output_tokens.saturating_sub(before.output_tokens),
        reasoning_tokens: total
            .reasoning_tokens
            .saturating_sub(before.reasoning_tokens),
        ..total
    }
}

/// Returns the input of a step, without its outcome.
fn rest(item: &Value) -> ToolArgs {
    const ABOUT: [&str; 6] = [
        "id",
        "type",
        "status",
        "aggregated_output",
        "exit_code",
        "result",
    ];
    let fields = item.as_object().into_iter().flatten();
    let args = fields.filter(|(key, _)| !ABOUT.contains(&key.as_str()));
    ToolArgs::from_object(
        args.map(|(key, value)| (key.clone(), value.clone()))
            .collect::<Map<_, _>>(),
    )
}

/// Returns the result of a step as the model reads it, and whether it failed.
fn outcome(item: &Value) -> (String, bool) {
    let status = text_at(item, "status");
    let failure = item.get("error").filter(|error| !error.is_null());
    let content = match (failure, item.get("result"), item.get("aggregated_output")) {
        (Some(error), _, _) => text_at(error, "message").to_owned(),
        (None, Some(result), _) if !result.is_null() => {
            crate::providers::agents::agent::flat_text(result.get("content").unwrap_or(result))
        }
        (None, _, Some(output)) => crate::providers::agents::agent::flat_text(output),
        _ => status.to_owned(),
    };
    (
        content,
        failure.is_some() || matches!(status, "failed" | "declined"),
    )
}
