//! The object `response` of OpenAI's API.

use super::outcome::{ClientAnswer, Extension};
use crate::domain::{RunState, TokenUsage};
use serde::Serialize;

#[derive(Debug, Clone, Serialize)]
pub(super) struct ResponseObject {
    id: String,
    object: &'static str,
    created_at: i64,
    status: &'static str,
    error: Option<ResponseError>,
    incomplete_details: Option<IncompleteDetails>,
    instructions: Option<()>,
    model: String,
    output: Vec<OutputItem>,
    parallel_tool_calls: bool,
    previous_response_id: Option<String>,
    temperature: Option<f32>,
    tool_choice: &'static str,
    tools: [(); 0],
    top_p: Option<f32>,
    usage: Option<ResponseUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attache: Option<Extension>,
}

/// Reason why a response has no text.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ResponseError {
    pub code: &'static str,
    pub message: String,
}

/// Reason why a text ends before its end.
#[derive(Debug, Clone, Serialize)]
struct IncompleteDetails {
    reason: &'static str,
}

/// The one message of a response.
#[derive(Debug, Clone, Serialize)]
pub(super) struct OutputItem {
    #[serde(rename = "type")]
    kind: &'static str,
    id: String,
    status: &'static str,
    role: &'static str,
    content: Vec<TextPart>,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct TextPart {
    #[serde(rename = "type")]
    kind: &'static str,
    text: String,
    annotations: [(); 0],
    logprobs: [(); 0],
}

#[derive(Debug, Clone, Serialize)]
struct ResponseUsage {
    input_tokens: u64,
    input_tokens_details: InputDetails,
    output_tokens: u64,
    output_tokens_details: OutputDetails,
    total_tokens: u64,
}

#[derive(Debug, Clone, Serialize)]
struct InputDetails {
    cached_tokens: u64,
}

#[derive(Debug, Clone, Serialize)]
struct OutputDetails {
    reasoning_tokens: u64,
}

impl From<TokenUsage> for ResponseUsage {
    fn from(usage: TokenUsage) -> Self {
        let cached = usage.cache_read_tokens;
        let input = usage.input_tokens.saturating_add(cached);
        let input_tokens = input.saturating_add(usage.cache_write_tokens);
        Self {
            input_tokens,
            input_tokens_details: InputDetails {
                cached_tokens: cached,
            },
            output_tokens: usage.output_tokens,
            output_tokens_details: OutputDetails {
                reasoning_tokens: usage.reasoning_tokens,
            },
            total_tokens: input_tokens.saturating_add(usage.output_tokens),
        }
    }
}

impl TextPart {
    pub fn of(text: &str) -> Self {
        Self {
            kind: "output_text",
            text: text.to_owned(),
            annotations: [],
            logprobs: [],
        }
    }
}

impl ResponseObject {
    pub fn new(id: String, created_at: i64, model: &str) -> Self {
        Self {
            id,
            object: "response",
            created_at,
            status: "queued",
            error: None,
            incomplete_details: None,
            instructions: None,
            model: model.to_owned(),
            output: Vec::new(),
            parallel_tool_calls: false,
            previous_response_id: None,
            temperature: None,
            tool_choice: "auto",
            tools: [],
            top_p: None,
            usage: None,
            attache: None,
        }
    }

    pub fn after(self, previous: &str) -> Self {
        Self {
            previous_response_id: (!previous.is_empty()).then(|| previous.to_owned()),
            ..self
        }
    }

    pub fn with(self, extension: Extension) -> Self {
        Self {
            attache: Some(extension),
            ..self
        }
    }

    pub fn in_state(self, state: RunState) -> Self {
        Self {
            status: status_of(state),
            ..self
        }
    }

    pub fn answered(mut self, answer: &ClientAnswer) -> Self {
        if let Some(extension) = &mut self.attache {
            extension.state = answer.state;
        }
        let mut answered = Self {
            output: vec![self.item(&answer.text, "completed")],
            usage: Some(answer.usage.into()),
            ..self.in_state(answer.state)
        };
        if answer.is_cut {
            answered.status = "incomplete";
            let reason = "max_output_tokens";
            answered.incomplete_details = Some(IncompleteDetails { reason });
        }
        answered
    }

    pub fn failed(self, error: ResponseError) -> Self {
        Self {
            status: "failed",
            error: Some(error),
            ..self
        }
    }

    /// Returns its message, with a text and a status.
    pub fn item(&self, text: &str, status: &'static str) -> OutputItem {
        let content = match status {
            "completed" => vec![TextPart::of(text)],
            _ => Vec::new(),
        };
        OutputItem {
            kind: "message",
            id: self.item_id(),
            status,
            role: "assistant",
            content,
        }
    }

    pub fn item_id(&self) -> String {
        format!("msg_{}", self.id)
    }
}

/// Returns OpenAI's word for the state of a run. One that waits for its owner goes on.
fn status_of(state: RunState) -> &'static str {
    match state {
        RunState::Queued => "queued",
        RunState::Running | RunState::WaitingRetry | RunState::WaitingApproval => "in_progress",
        RunState::Succeeded => "completed",
        RunState::Failed => "failed",
        _ => "cancelled",
    }
}
