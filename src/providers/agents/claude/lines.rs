//! Lines of Claude Code: their meaning, and the answers to them. Pure, except for the targets of
//! links (`paths.rs`).
//!
//! Formats by its own SDK (`anthropics/claude-agent-sdk-python`, `message_parser.py`, `query.py`).
//! One message comes as several lines with one id, and again as stream events; only events make
//! deltas, only whole blocks make calls.

use crate::domain::{ErrorClass, Timestamp};
use crate::providers::agents::agent::{
    AgentDecoder, Invocation, Reaction, args_at, flat_text, micros, object, text_at,
};
use crate::providers::agents::claude::permissions::{needs, refusal};
use crate::providers::agents::claude::usage::{breakdown, sum, usage_of};
use crate::providers::agents::failure;
use crate::providers::child::process::Ending;
use crate::providers::contract::accumulate::broken;
use crate::providers::contract::traits::{
    AgentOptions, Block, Event, FinishReason, ModelUsage, Phase, ProviderError, Response,
    TokenUsage,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Id of our first request.
pub const INITIALIZE: &str = "init_1";

/// Reader of one call's lines.
pub struct ClaudeDecoder {
    options: AgentOptions,
    structured: bool,
    now: Timestamp,
    model: Option<String>,
    seen_calls: BTreeSet<String>,
    seen_results: BTreeSet<String>,
    seen_denials: BTreeSet<String>,
    /// Usage by message id, because every line of a message repeats it.
    usage: BTreeMap<String, TokenUsage>,
    /// Id and text of the newest message that is no sub-agent's.
    said: (String, String),
    /// Error class that the newest message reports.
    failing: Option<ErrorClass>,
    /// Set when the plan is used up; the time until it is reset.
    limit: Option<Option<Duration>>,
    outcome: Option<Result<Response, ProviderError>>,
}

impl ClaudeDecoder {
    pub fn new(invocation: &Invocation, now: Timestamp) -> Self {
        Self {
            options: invocation.options.clone(),
            structured: invocation.structured,
            now,
            model: None,
            seen_calls: BTreeSet::new(),
            seen_results: BTreeSet::new(),
            seen_denials: BTreeSet::new(),
            usage: BTreeMap::new(),
            said: Default::default(),
            failing: None,
            limit: None,
            outcome: None,
        }
    }

    fn system(&mut self, line: &Value) -> Result<Vec<Event>, ProviderError> {
        match text_at(line, "subtype") {
            "init" if self.model.is_none() => self.begin(line),
            "init" => Ok(Vec::new()),
            subtype @ ("compact_boundary" | "api_retry" | "mirror_error") => {
                Ok(self.notice(format!("claude: {subtype}")))
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Checks the `init` line. Errors: class `DisallowedTool`, when the agent has a tool that it
    /// must not have.
    fn begin(&mut self, line: &Value) -> Result<Vec<Event>, ProviderError> {
        let tools = line.get("tools").and_then(Value::as_array);
        let tools = tools.ok_or_else(|| broken("the agent did not say which tools it has"))?;
        let names = tools.iter().map(|tool| tool.as_str().unwrap_or("?"));
        if let Some(name) = names
            .into_iter()
            .find(|name| needs(name) > self.options.tier)
        {
            let message = format!(
                "the agent has the tool `{name}`, which tier `{}` excludes",
                self.options.tier.as_str()
            );
            return Err(ProviderError::new(
                ErrorClass::DisallowedTool,
                Phase::MidStream,
                message,
            ));
        }
        let model = text_at(line, "model").to_owned();
        self.model = Some(model.clone());
        let mut events = vec![Event::Started {
            provider_request_id: None,
            model,
        }];
        let session = text_at(line, "session_id");
        events.extend((!session.is_empty()).then(|| Event::Session(session.to_owned())));
        for server in line
            .get("mcp_servers")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let status = text_at(server, "status");
            if !matches!(status, "connected" | "pending") {
                events.push(Event::Notice(format!("claude: tool server is {status}")));
            }
        }
        Ok(events)
    }

    fn notice(&self, text: String) -> Vec<Event> {
        // No event may come before `Started`.
        if self.model.is_some() {
            vec![Event::Notice(text)]
        } else {
            Vec::new()
        }
    }

    fn assistant(&mut self, line: &Value) -> Result<Vec<Event>, ProviderError> {
        let message = line.get("message").unwrap_or(&Value::Null);
        let id = text_at(message, "id").to_owned();
        let own = line.get("parent_tool_use_id").is_none_or(Value::is_null);
        if let Some(usage) = message.get("usage") {
            self.usage.insert(id.clone(), usage_of(usage));
        }
        if own {
            self.failing = line.get("error").and_then(Value::as_str).map(class_of_kind);
            if self.said.1 != id {
                self.said = (String::new(), id);
            }
            let model = text_at(message, "model");
            if !model.is_empty() && !model.starts_with('<') && self.model.is_some() {
                self.model = Some(model.to_owned());
            }
        }
        let mut events = Vec::new();
        for block in message
            .get("content")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            match text_at(block, "type") {
                "text" if own => self.said.0.push_str(text_at(block, "text")),
                "tool_use" | "server_tool_use" => {
                    let id = text_at(block, "id").to_owned();
                    if self.seen_calls.insert(id.clone()) {
                        let (name, args) =
                            (text_at(block, "name").to_owned(), args_at(block, "input"));
                        events.push(Event::ObservedCall { id, name, args });
                    }
                }
                _ => {}
            }
        }
        if self.model.is_none() && !events.is_empty() {
            return Err(broken(
                "the agent called a tool before it said which it has",
            ));
        }
        Ok(events)
    }

    fn user(&mut self, line: &Value) -> Vec<Event> {
        let content = line
            .get("message")
            .and_then(|message| message.get("content"));
        let mut events = Vec::new();
        for block in content.and_then(Value::as_array).into_iter().flatten() {
            let id = text_at(block, "tool_use_id").to_owned();
            let known = text_at(block, "type") == "tool_result" && self.seen_calls.contains(&id);
            if known && self.seen_results.insert(id.clone()) {
                let content = flat_text(block.get("content").unwrap_or(&Value::Null));
                let is_error = block
                    .get("is_error")
                    .and_then(Value::as_bool)
                    .unwrap_or(false);
                events.push(Event::ObservedResult {
                    id,
                    content,
                    is_error,
                });
            }
        }
        events
    }

    fn delta(&self, line: &Value) -> Vec<Event> {
        let own = line.get("parent_tool_use_id").is_none_or(Value::is_null);
        let delta = line.get("event").and_then(|event| event.get("delta"));
        let Some(delta) = delta.filter(|_| own && self.model.is_some()) else {
            return Vec::new();
        };
        let piece = |key| text_at(delta, key).to_owned();
        match text_at(delta, "type") {
            "text_delta" => vec![Event::TextDelta(piece("text"))],
            "thinking_delta" => vec![Event::ThinkingDelta(piece("thinking"))],
            _ => Vec::new(),
        }
    }

    fn rate_limit(&mut self, line: &Value) -> Vec<Event> {
        let info = line.get("rate_limit_info").unwrap_or(&Value::Null);
        match text_at(info, "status") {
            "rejected" => {
                let resets = info.get("resetsAt").and_then(Value::as_i64);
                self.limit = Some(resets.and_then(|at| failure::until(at, self.now)));
                Vec::new()
            }
            "allowed_warning" => self.notice(format!(
                "claude: limit {} is near",
                text_at(info, "rateLimitType")
            )),
            _ => Vec::new(),
        }
    }

    /// Answers a permission request at once: a process must not wait for a person.
    fn asked(&mut self, line: &Value) -> Reaction {
        let (id, request) = (
            text_at(line, "request_id"),
            line.get("request").unwrap_or(&Value::Null),
        );
        let subtype = text_at(request, "subtype");
        if subtype != "can_use_tool" {
            let answer = json!({"subtype": "error", "request_id": id, "error": format!("`{subtype}` is not offered")});
            return reply(&json!({"type": "control_response", "response": answer}));
        }
        let (name, args) = (text_at(request, "tool_name"), args_at(request, "input"));
        let refusal = refusal(name, &args, &self.options);
        let mut reaction = match &refusal {
            None => {
                let input = request.get("input").cloned().unwrap_or_else(|| json!({}));
                answer(id, &json!({"behavior": "allow", "updatedInput": input}))
            }
            Some(reason) => answer(
                id,
                &json!({"behavior": "deny", "message": reason, "interrupt": false}),
            ),
        };
        if let Some(reason) = refusal {
            self.seen_denials
                .insert(text_at(request, "tool_use_id").to_owned());
            if self.model.is_some() {
                reaction.events.push(Event::Denied {
                    name: name.to_owned(),
                    args,
                    reason,
                });
            }
        }
        reaction
    }

    fn answered(&self, line: &Value) -> Result<Reaction, ProviderError> {
        let response = line.get("response").unwrap_or(&Value::Null);
        match (
            text_at(response, "request_id"),
            text_at(response, "subtype"),
        ) {
            (INITIALIZE, "success") => Ok(Reaction {
                next_piece: true,
                ..Reaction::default()
            }),
            (INITIALIZE, _) => Err(broken(format!(
                "the agent refused to begin: {}",
                text_at(response, "error")
            ))),
            _ => Ok(Reaction::default()),
        }
    }

    fn result(&mut self, line: &Value) -> Reaction {
        // Only the answer to our own message ends the call.
        let origin = line.get("origin").filter(|origin| !origin.is_null());
        if origin.is_some_and(|origin| text_at(origin, "kind") != "human") {
            return Reaction::default();
        }
        let mut events = Vec::new();
        for denial in line
            .get("permission_denials")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            if self.model.is_some()
                && self
                    .seen_denials
                    .insert(text_at(denial, "tool_use_id").to_owned())
            {
                let (name, args) = (
                    text_at(denial, "tool_name").to_owned(),
                    args_at(denial, "tool_input"),
                );
                events.push(Event::Denied {
                    name,
                    args,
                    reason: "refused by the agent's own rules".to_owned(),
                });
            }
        }
        if self.outcome.is_none() {
            self.outcome = Some(self.outcome_of(line));
        }
        Reaction {
            events,
            is_over: true,
            ..Reaction::default()
        }
    }

    fn outcome_of(&self, line: &Value) -> Result<Response, ProviderError> {
        let is_error = line
            .get("is_error")
            .and_then(Value::as_bool)
            .unwrap_or(false);
        let subtype = text_at(line, "subtype");
        let stop = match subtype {
            "error_max_turns" => FinishReason::LimitTurns,
            "error_max_budget_usd" => FinishReason::LimitCost,
            // A failure of the API is `success` with `is_error`.
            "success" if !is_error => stop_of(text_at(line, "stop_reason")),
            _ => {
                let used = line
                    .get("total_cost_usd")
                    .is_some()
                    .then(|| Box::new(self.used(line).0));
                return Err(ProviderError {
                    used,
                    ..self.failure(line, subtype)
                });
            }
        };
        let structured = line
            .get("structured_output")
            .filter(|value| self.structured && !value.is_null());
        let text = match (structured, text_at(line, "result")) {
            (Some(value), _) => value.to_string(),
            (None, "") => self.said.0.clone(),
            (None, text) => text.to_owned(),
        };
        let Some(model) = self.model.clone() else {
            return Err(broken("the agent did not say which tools it has"));
        };
        let (usage, breakdown) = self.used(line);
        Ok(Response {
            blocks: if text.is_empty() {
                Vec::new()
            } else {
                vec![Block::text(text)]
            },
            stop,
            usage,
            model_served: model,
            provider_request_id: None,
            breakdown,
            session_usage: None,
        })
    }

    /// Returns the usage of the call as the last line reports it, in total and by model.
    fn used(&self, line: &Value) -> (TokenUsage, Vec<ModelUsage>) {
        let breakdown = breakdown(line.get("modelUsage"));
        let mut usage = match (breakdown.is_empty(), line.get("usage")) {
            (false, _) => sum(breakdown.iter().map(|one| one.usage)),
            (true, Some(usage)) => usage_of(usage),
            (true, None) => sum(self.usage.values().copied()),
        };
        usage.cost_micros = line
            .get("total_cost_usd")
            .and_then(micros)
            .or(usage.cost_micros);
        (usage, breakdown)
    }

    fn failure(&self, line: &Value, subtype: &str) -> ProviderError {
        let errors = line
            .get("errors")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let errors: Vec<_> = errors.filter_map(Value::as_str).collect();
        let text = if errors.is_empty() {
            text_at(line, "result").to_owned()
        } else {
            errors.join("; ")
        };
        let status = line.get("api_error_status").and_then(Value::as_u64);
        let status = status.and_then(|status| u16::try_from(status).ok());
        let otherwise = match subtype {
            "error_max_structured_output_retries" => ErrorClass::OutputInvalid,
            "error_during_execution" => ErrorClass::Transient,
            _ => self.failing.unwrap_or(ErrorClass::Protocol),
        };
        let text = if text.is_empty() {
            format!("the agent failed: `{subtype}`")
        } else {
            text
        };
        let mut error = failure::failure(&text, status, otherwise, self.now);
        if let Some(wait) = self.limit {
            error.class = ErrorClass::RateLimited;
            error.retry_after = wait.or(error.retry_after);
        }
        error.provider_code = Some(subtype.to_owned()).filter(|subtype| subtype != "success");
        error
    }
}

impl AgentDecoder for ClaudeDecoder {
    fn line(&mut self, line: &str) -> Result<Reaction, ProviderError> {
        let Some(line) = object(line)? else {
            return Ok(Reaction::default());
        };
        match text_at(&line, "type") {
            "system" => self.system(&line).map(Reaction::from),
            "assistant" => self.assistant(&line).map(Reaction::from),
            "user" => Ok(self.user(&line).into()),
            "stream_event" => Ok(self.delta(&line).into()),
            "rate_limit_event" => Ok(self.rate_limit(&line).into()),
            "control_request" => Ok(self.asked(&line)),
            "control_response" => self.answered(&line),
            "result" => Ok(self.result(&line)),
            // Progress, mirrors, and message types of later versions.
            _ => Ok(Reaction::default()),
        }
    }

    fn final_turn(&mut self) -> Option<String> {
        let request = json!({"subtype": "interrupt"});
        Some(format!(
            "{}\n",
            json!({"type": "control_request", "request_id": "stop_1", "request": request})
        ))
    }

    /// A result counts more than the exit code: the program also fails after it has reported the
    /// reason.
    fn end(&mut self, ending: &Ending) -> Result<Vec<Event>, ProviderError> {
        if let Some(outcome) = self.outcome.take() {
            return outcome.map(|response| vec![Event::Finished(response)]);
        }
        if let Some(retry_after) = self.limit {
            let message = "the agent's plan is used up";
            let error = ProviderError::new(ErrorClass::RateLimited, Phase::MidStream, message);
            return Err(ProviderError {
                retry_after,
                ..error
            });
        }
        Err(failure::no_answer("claude", ending, self.now))
    }
}

fn answer(id: &str, response: &Value) -> Reaction {
    let response = json!({"subtype": "success", "request_id": id, "response": response});
    reply(&json!({"type": "control_response", "response": response}))
}

fn reply(line: &Value) -> Reaction {
    Reaction {
        stdin: format!("{line}\n"),
        ..Reaction::default()
    }
}

fn stop_of(reason: &str) -> FinishReason {
    match reason {
        "" | "end_turn" | "tool_use" => FinishReason::EndTurn,
        "stop_sequence" => FinishReason::StopSequence,
        "max_tokens" => FinishReason::MaxTokens,
        "refusal" => FinishReason::Refused,
        "model_context_window_exceeded" => FinishReason::ContextExhausted,
        other => FinishReason::Other(other.to_owned()),
    }
}

/// Maps `error` of an assistant line.
fn class_of_kind(kind: &str) -> ErrorClass {
    match kind {
        "authentication_failed" => ErrorClass::Auth,
        "billing_error" => ErrorClass::Billing,
        "rate_limit" => ErrorClass::RateLimited,
        "invalid_request" => ErrorClass::BadRequest,
        "server_error" => ErrorClass::Transient,
        _ => ErrorClass::Protocol,
    }
}
