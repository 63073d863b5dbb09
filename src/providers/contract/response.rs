//! Answer of a provider: its parts, the reason for its end, and its usage.
//!
//! The serde forms are what `run_turns.response_json` holds.

use crate::domain::TokenUsage;
use crate::providers::contract::message::{Block, ToolArgs};
use serde::{Deserialize, Serialize};

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Response {
    pub blocks: Vec<Block>,
    pub stop: FinishReason,
    pub usage: TokenUsage,
    pub model_served: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_request_id: Option<String>,
    /// Usage by model, where one call used several; empty when all of `usage` is `model_served`'s.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub breakdown: Vec<ModelUsage>,
    /// Usage of the agent's whole session, this call included, where the agent reports only that
    /// sum; `usage` is then what this call added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_usage: Option<TokenUsage>,
}

/// Usage of one model within a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelUsage {
    pub model: String,
    pub usage: TokenUsage,
}

impl Response {
    /// Returns all text blocks, joined.
    pub fn text(&self) -> String {
        let texts = self.blocks.iter().filter_map(|b| match b {
            Block::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("")
    }
    /// Returns the tool calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = (&str, &str, &ToolArgs)> {
        self.blocks.iter().filter_map(|b| match b {
            Block::ToolCall { id, name, args, .. } => Some((id.as_str(), name.as_str(), args)),
            _ => None,
        })
    }
}

/// Reason why the model stopped, in one catalogue of names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    EndTurn,
    ToolUse,
    MaxTokens,
    StopSequence,
    ContextExhausted,
    Refused,
    /// The vendor paused a long turn; send the conversation again unchanged.
    Paused,
    /// An agent reached a bound that we gave it.
    LimitTurns,
    LimitCost,
    /// We stopped an agent at a bound of the run.
    LimitToolCalls,
    LimitToolFailures,
    /// The model wrote a tool call that its own vendor could not parse; ask once again.
    MalformedCall,
    Other(String),
}
