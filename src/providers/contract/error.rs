//! Error of a provider call.

use crate::domain::{ErrorClass, TokenUsage};
use crate::providers::contract::request::Parameter;
use crate::text::truncated;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Progress of a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Config,
    BeforeSend,
    BeforeFirstByte,
    MidStream,
}

/// A failed call. `message` has no key, no prompt text and at most 500 characters.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    pub class: ErrorClass,
    pub phase: Phase,
    pub http_status: Option<u16>,
    /// The vendor's own code or type, for example `rate_limit_error`.
    pub provider_code: Option<String>,
    /// Wait that the provider asked for.
    pub retry_after: Option<Duration>,
    /// Provider's own hint whether a retry makes sense (`x-should-retry`).
    pub should_retry: Option<bool>,
    /// Parameter that the provider refuses, when the request may be accepted without it.
    pub refused: Option<Parameter>,
    /// Window of the model in tokens, where an overflow error named it.
    pub window_tokens: Option<u64>,
    /// `true`: an agent had called tools that may have changed something; the call must not simply
    /// be retried.
    pub acted: bool,
    /// Usage of the call before it failed, where it is known.
    pub used: Option<Box<TokenUsage>>,
    pub message: String,
}

impl ProviderError {
    /// Reports whether the failed call may still be billed. A timeout of a gateway says nothing about what the model behind it
    /// has done.
    pub fn may_be_billed(&self) -> bool {
        let turned_away = |status: u16| status >= 400 && ![408, 499, 504, 524].contains(&status);
        match self.phase {
            Phase::Config | Phase::BeforeSend => false,
            Phase::BeforeFirstByte => !self.http_status.is_some_and(turned_away),
            Phase::MidStream => true,
        }
    }

    pub fn new(class: ErrorClass, phase: Phase, message: impl Into<String>) -> Self {
        let message: String = message.into();
        let message = truncated(&message, 500);
        Self {
            class,
            phase,
            http_status: None,
            provider_code: None,
            retry_after: None,
            should_retry: None,
            refused: None,
            window_tokens: None,
            acted: false,
            used: None,
            message,
        }
    }
}
