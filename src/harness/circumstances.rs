//! What decided beside the rows, as it is written down with each call of a provider: the attempt, the working time, what
//! the request left out, why an earlier call was not made, the whole error.
//!
//! With this the loop can be run once more over its record and must decide the same. Absent on purpose: anything that
//! the rows say themselves.

use super::providers::{Parameter, Phase, ProviderError, Session, TokenUsage};
use crate::domain::{ErrorClass, PurseScope, ThreadBudget};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The edition of what is compiled in and has a say in requests and decisions: how a context is put together, which tools
/// a run is offered, what a failed call leads to. It goes up with a change after which a recorded run would go another
/// way; such runs are then said to be of earlier rules, and not to differ.
///
/// 1: notes stand beside the letter, unproven senders get reading tools only, an unknown tool does not end a run, the budget
/// of a step binds for every resolver (D-53, D-54). 2: what a thread's past holds counts for what a run may do, and tool
/// traces are shown to who is proven as well as the one that they were made for (D-65). Runs that say nothing are of 0.
pub const RULES: u32 = 2;

/// How a call came to be made; `run_turns.begun_json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Begun {
    /// Calls in the journal when the work on the run began; calls that found the same were made in one go.
    pub found_calls: u32,
    /// Steps in the journal when the work on the run began.
    pub found_steps: u32,
    /// [`RULES`] of then.
    #[serde(default)]
    pub rules: u32,
    /// Digest of the configuration.
    pub config: String,
    /// Digest of the terms that the run is held to; `None`: they are as usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_to: Option<String>,
    pub claim: Claim,
    /// Working time of the run by which was decided to make the call.
    pub asked_ms: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<Parameter>,
    /// Tokens that the adapter said the model takes; a script says so in a file that is no part of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_tokens: Option<u64>,
    /// Of an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Session>,
    /// What kept calls from being made since the last one that was, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hindrances: Vec<Hindrance>,
}

/// What a run was claimed with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    pub attempt: u32,
    /// Working time of earlier attempts.
    pub worked_ms: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_retried: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_micros: Option<i64>,
    /// Micro-dollars and tokens of a run, then of a day, of the thread.
    #[serde(default, skip_serializing_if = "nothing_said")]
    pub thread_budget: [Option<i64>; 4],
}

fn nothing_said(budget: &[Option<i64>; 4]) -> bool {
    budget.iter().all(Option::is_none)
}

/// As a claim keeps it.
pub fn amounts(budget: ThreadBudget) -> [Option<i64>; 4] {
    let ThreadBudget { run, day } = budget;
    [run.cost_micros_max, run.tokens_max, day.cost_micros_max, day.tokens_max]
}

/// Why a call was not made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hindrance {
    /// The provider rests.
    Rest { provider: String, error: Failure },
    /// A purse of this scope could not pay it.
    Purse { scope: String },
}

impl Hindrance {
    pub fn purse(scope: PurseScope) -> Self {
        Hindrance::Purse { scope: scope.as_str().to_owned() }
    }
}

/// How a call ended; `run_turns.ended_json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// Working time of the run.
    pub worked_ms: u64,
    /// Calls of tools that an agent made meanwhile, and how many of them failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub calls: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Serde form of a [`ProviderError`], whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    pub class: String,
    pub phase: Phase,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_code: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub should_retry: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Parameter>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub acted: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<TokenUsage>,
    pub message: String,
}

impl From<&ProviderError> for Failure {
    fn from(error: &ProviderError) -> Self {
        Self {
            class: error.class.as_str().to_owned(),
            phase: error.phase,
            http_status: error.http_status,
            provider_code: error.provider_code.clone(),
            retry_after: error.retry_after,
            should_retry: error.should_retry,
            refused: error.refused,
            window_tokens: error.window_tokens,
            acted: error.acted,
            used: error.used.as_deref().copied(),
            message: error.message.clone(),
        }
    }
}

impl Failure {
    /// The error as it was; `None` for a class that this version does not know.
    pub fn error(&self) -> Option<ProviderError> {
        Some(ProviderError {
            class: ErrorClass::parse(&self.class)?,
            phase: self.phase,
            http_status: self.http_status,
            provider_code: self.provider_code.clone(),
            retry_after: self.retry_after,
            should_retry: self.should_retry,
            refused: self.refused,
            window_tokens: self.window_tokens,
            acted: self.acted,
            used: self.used.map(Box::new),
            message: self.message.clone(),
        })
    }
}

/// Whole milliseconds, as times are written down.
pub fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_comes_back_whole() {
        let error = ProviderError {
            http_status: Some(429),
            provider_code: Some("slow_down".to_owned()),
            retry_after: Some(Duration::from_nanos(1_500_000_001)),
            should_retry: Some(true),
            refused: Some(Parameter::Temperature),
            window_tokens: Some(8192),
            acted: true,
            used: Some(Box::new(TokenUsage { input_tokens: 3, ..TokenUsage::default() })),
            ..ProviderError::new(ErrorClass::RateLimited, Phase::BeforeFirstByte, "slow down")
        };
        let json = serde_json::to_string(&Failure::from(&error)).expect("json");
        let read: Failure = serde_json::from_str(&json).expect("the same form");
        assert_eq!(read.error(), Some(error));
    }
}
