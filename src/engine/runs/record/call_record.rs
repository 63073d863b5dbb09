//! Inputs of a decision that are not in the rows, recorded with each provider call: the attempt,
//! the working time, the parameters that the request left out, the reasons why an earlier call was
//! not made, the whole error.
//!
//! With this record the loop can be run again and must decide alike. Absent on purpose: anything
//! that the rows hold themselves.

use crate::domain::{BudgetScope, ErrorClass, ThreadBudget};
use crate::providers::{AgentSession, Parameter, Phase, ProviderError, TokenUsage};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Version of the compiled-in rules that shape requests and decisions: how a context is assembled,
/// which tools a run is offered, what a failed call leads to. It is raised with every change after
/// which a recorded run would go another way; a replay then reports such runs as of earlier rules,
/// not as different.
///
/// 1: notes stand beside the letter, unauthenticated senders get reading tools only, an unknown
/// tool does not end a run, the budget of a step binds for every resolver (D-75, D-68). 2: the
/// trust of a thread's past limits what a run may do, and tool traces are rendered for
/// authenticated senders and the sender that they were made for (D-75). 3: agents work in a
/// workspace, of which they are told (D-77), and a run sees the lines of its persona's memory that
/// all its readers may see (D-75). 4: tools open letters, search and write files. 5: knowledge stands with the letter and
/// not in the system text, and requests mark the past of their thread (D-91); `send_email` may leave a draft, and the past
/// of a thread tells drafts from mails (D-76). 6: requests have the key of their thread, entries of memory stand beside the
/// letter, runs are offered tools for them (D-98). 7: `search_email` takes a question (D-99), and the frames of
/// summaries are escaped in letters (D-100). 8: runs of strangers are not offered `update_memory`, and no run is shown lines of its
/// persona's page that are of less trust than its sender (D-146). 9: reasoning and calls in the text of an answer are no text, a
/// last text that is no letter goes back once and is then kept for the owner (D-152), duties stand in a frame of their own and
/// letters may end without an answer (D-154). 10: tools are offered by need and say less of themselves (D-155); of a model with a
/// small window, tools, results and knowledge go before exchanges of the thread, and its answer has a quarter (D-156). Runs without
/// this field are of version 0.
pub const RULES: u32 = 10;

/// Circumstances of a call at its start; `run_turns.begun_json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Begun {
    /// Calls in the journal when the attempt began; calls with an equal number were made by one
    /// attempt.
    pub found_calls: u32,
    /// Steps in the journal when the attempt began.
    pub found_steps: u32,
    /// [`RULES`] of the engine that made the call.
    #[serde(default)]
    pub rules: u32,
    /// Digest of the configuration.
    pub config: String,
    /// Digest of the run options; `None`: the defaults apply.
    #[serde(default, alias = "held_to", skip_serializing_if = "Option::is_none")]
    pub run_options: Option<String>,
    pub claim: Claim,
    /// Working time of the run, in milliseconds, when the call was decided on.
    pub asked_ms: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<Parameter>,
    /// Window of the model in tokens, as the adapter reported it; a script has it in a file that is
    /// no part of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_tokens: Option<u64>,
    /// What had been learnt of the attempt's first model when the attempt began.
    #[serde(default, skip_serializing_if = "ModelLimits::is_nothing")]
    pub limits: ModelLimits,
    /// `true`: commands could be run, which depends on the machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub runs_commands: bool,
    /// Session of an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<AgentSession>,
    /// Reasons why calls were not made since the last one that was, in order.
    #[serde(default, alias = "hindrances", skip_serializing_if = "Vec::is_empty")]
    pub blocked_by: Vec<BlockedBy>,
}

/// What was known of the model that an attempt asked first, when its context was assembled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelLimits {
    /// `true`: it takes no tools.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_tools: bool,
    /// Window that an earlier error named, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_tokens: Option<u64>,
}

impl ModelLimits {
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// Values that a run was claimed with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    pub attempt: u32,
    /// Working time of earlier attempts, in milliseconds.
    pub worked_ms: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_retried: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_overtaken: bool,
    /// Number of letters that it answers.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub letters: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_micros: Option<i64>,
    /// MailBounds of the thread: micro-dollars and tokens of a run, then of a day.
    #[serde(default, skip_serializing_if = "nothing_said")]
    pub thread_budget: [Option<i64>; 4],
}

fn one() -> u32 {
    1
}

fn is_one(letters: &u32) -> bool {
    *letters == 1
}

fn nothing_said(budget: &[Option<i64>; 4]) -> bool {
    budget.iter().all(Option::is_none)
}

/// Returns the bounds in the order of [`Claim::thread_budget`].
pub fn amounts(budget: ThreadBudget) -> [Option<i64>; 4] {
    let ThreadBudget { run, day } = budget;
    [
        run.cost_micros_max,
        run.tokens_max,
        day.cost_micros_max,
        day.tokens_max,
    ]
}

/// Reason why a call was not made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockedBy {
    /// The circuit breaker of the provider is paused.
    Rest {
        provider: String,
        error: CallFailure,
    },
    /// A budget account of this scope could not pay it.
    #[serde(alias = "purse")]
    BudgetAccount { scope: String },
}

impl BlockedBy {
    pub fn account(scope: BudgetScope) -> Self {
        BlockedBy::BudgetAccount {
            scope: scope.as_str().to_owned(),
        }
    }
}

/// Outcome of a call; `run_turns.ended_json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// Working time of the run, in milliseconds.
    pub worked_ms: u64,
    /// Tool calls that an agent made during the call; `failures`: those of them that failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub calls: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CallFailure>,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Serde form of a [`ProviderError`], whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallFailure {
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

impl From<&ProviderError> for CallFailure {
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

impl CallFailure {
    /// Returns the error as it was; `None` for a class that this version does not know.
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

/// Converts to whole milliseconds, the unit of recorded times.
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
            used: Some(Box::new(TokenUsage {
                input_tokens: 3,
                ..TokenUsage::default()
            })),
            ..ProviderError::new(ErrorClass::RateLimited, Phase::BeforeFirstByte, "slow down")
        };
        let json = serde_json::to_string(&CallFailure::from(&error)).expect("json");
        let read: CallFailure = serde_json::from_str(&json).expect("the same form");
        assert_eq!(read.error(), Some(error));
    }
}
