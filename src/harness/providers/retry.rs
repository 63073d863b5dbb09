//! What is done about a failed provider call. Pure: what was tried, how much time is left and chance are arguments.
//!
//! Absent on purpose: doing it, and the cap on attempts of a whole run; both are the run's affair.

use super::contract::{Phase, ProviderError};
use super::terms::Parameter;
use crate::domain::ErrorClass;
use std::time::Duration;

const BACKOFF_BASE: Duration = Duration::from_secs(1);
/// A rate limit rarely clears within a second.
const BACKOFF_BASE_RATE_LIMITED: Duration = Duration::from_secs(2);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// Spread added to a wait that the provider named, so that a burst does not return as a burst.
const SPREAD_MAX: Duration = Duration::from_secs(1);
/// A provider that names more than a day is asked again after a day.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);
/// A provider that answers nonsense twice will do so again.
const PROTOCOL_ATTEMPTS_MAX: u32 = 2;

/// Reasoning models are known to think for a few times what an answer has.
const LONGER_TIMES: u32 = 4;
/// What today's models may write at most, reasoning included; many refuse more.
const OUTPUT_TOKENS_MAX: u32 = 64_000;

/// What becomes of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDecision {
    /// Wait this long, then call again.
    RetryNow(Duration),
    /// Park the run for at least this long; the caller owns the cap on attempts of a run.
    Reschedule(Duration),
    /// Make the input at most this long, in tokens as we estimate them, and call again.
    TrimAndRetry { target_tokens: u64 },
    /// Give the answer this much room, in tokens, and call again.
    Lengthen { max_output_tokens: u32 },
    /// Leave this out, and call again.
    Downgrade(Parameter),
    /// Ask the next provider of the chain.
    Fallback,
    /// The same call would fail again.
    Fail,
}

/// What was tried so far in this turn, and what else there is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tried<'a> {
    /// Calls to this provider that count, the failed one included: 1 after the first failure.
    pub calls: u32,
    /// The input was made shorter already, or cannot be.
    pub trimmed: bool,
    /// Left out of the failed request already.
    pub without: &'a [Parameter],
    /// There is another provider to ask; after an overflow, one that may take more input.
    pub has_fallback: bool,
}

/// Within which bounds it is decided.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Calls of one turn to one provider.
    pub attempts_max: u32,
    /// A longer wait frees the worker.
    pub inline_wait_max: Duration,
    /// Working time that the run has left.
    pub left: Duration,
    /// A refusal is taken to the next provider too.
    pub fallback_on_refusal: bool,
    /// Any number; the same number gives the same wait.
    pub jitter_seed: u64,
}

/// How large the failed request was, in tokens.
#[derive(Debug, Clone, Copy, Default)]
pub struct Size {
    /// Input, as we estimate it.
    pub used_tokens: u64,
    pub max_output_tokens: u64,
    /// More room that an answer may be given; `None`: it was given already, or there is none.
    pub longer_output_tokens: Option<u32>,
    /// Input and output together that the model takes, where that is known beforehand.
    pub window_tokens: Option<u64>,
}

/// Decides what is done about a failure: what passes by itself is tried again, a long input is made shorter once, an answer
/// that did not come to a word is given more room once, a parameter is left out once, and then the chain goes on. The provider's own word and its own wait come before ours;
/// our waits grow exponentially with full jitter. No wait within a run passes the end of its time.
///
/// Whatever an agent did before it failed is done: then a person decides.
pub fn retry_decision(
    error: &ProviderError,
    tried: Tried<'_>,
    patience: Patience,
    size: Size,
) -> RetryDecision {
    use RetryDecision::{Downgrade, Fail, Fallback, Lengthen, Reschedule, RetryNow, TrimAndRetry};
    let class = error.class;
    if class == ErrorClass::Cancelled || error.acted {
        return Fail;
    }
    if let Some(parameter) = error.refused.filter(|parameter| !tried.without.contains(parameter)) {
        return Downgrade(parameter);
    }
    if class == ErrorClass::OutputLimit
        && let Some(max_output_tokens) = size.longer_output_tokens
    {
        return Lengthen { max_output_tokens };
    }
    if matches!(class, ErrorClass::ContextOverflow | ErrorClass::RequestTooLarge) {
        return match (tried.trimmed, tried.has_fallback) {
            (false, _) => TrimAndRetry { target_tokens: target(size, error.window_tokens) },
            (true, true) => Fallback,
            (true, false) => Fail,
        };
    }
    let passes = (error.should_retry == Some(true) || class.is_retryable()) && error.phase != Phase::Config;
    let wait = wait(error, tried.calls, patience.jitter_seed);
    let calls_max = match class {
        ErrorClass::Protocol => patience.attempts_max.min(PROTOCOL_ATTEMPTS_MAX),
        _ => patience.attempts_max,
    };
    // A veto is about this call; another provider, or a later attempt of the run, is another call.
    let may_call = tried.calls < calls_max && error.should_retry != Some(false);
    if passes && may_call && wait <= patience.inline_wait_max && wait < patience.left {
        return RetryNow(wait);
    }
    if tried.has_fallback && falls_back(class, patience.fallback_on_refusal) {
        return Fallback;
    }
    match passes && class != ErrorClass::Protocol {
        true if may_call => Reschedule(wait),
        true => Reschedule(wait.max(BACKOFF_MAX)),
        false => Fail,
    }
}

/// Whether another provider may do what this one did not. What we asked wrongly, and what somebody decided, stays.
fn falls_back(class: ErrorClass, fallback_on_refusal: bool) -> bool {
    match class {
        ErrorClass::Auth
        | ErrorClass::Billing
        | ErrorClass::Permission
        | ErrorClass::ModelNotFound
        | ErrorClass::RateLimited
        | ErrorClass::Overloaded
        | ErrorClass::Transient
        | ErrorClass::Timeout
        | ErrorClass::Protocol
        | ErrorClass::BinaryMissing
        | ErrorClass::OutputLimit
        | ErrorClass::Unsupported => true,
        ErrorClass::ContentFilter => fallback_on_refusal,
        _ => false,
    }
}

/// How long the input may be: what the window leaves beside the answer, less a tenth because we only estimate. Where
/// nobody knows the window, or our estimate was too low to see the overflow, a good part of what was sent.
fn target(size: Size, said: Option<u64>) -> u64 {
    let fits =
        said.or(size.window_tokens).and_then(|window| input_tokens_max(window, size.max_output_tokens));
    match fits {
        Some(target) if target < size.used_tokens => target,
        _ => size.used_tokens * 7 / 10,
    }
}

/// How much room an answer is given that used up `now` tokens before its first word; `None` where `left` leaves none that is
/// worth it.
pub fn longer_output_tokens(now: u32, left: u64) -> Option<u32> {
    let left = u32::try_from(left).unwrap_or(u32::MAX);
    let longer = now.saturating_mul(LONGER_TIMES).min(OUTPUT_TOKENS_MAX).min(left);
    (longer >= now.saturating_mul(2)).then_some(longer)
}

/// Tokens of input that fit a window beside the answer, less a tenth of the window; `None` where nothing would.
pub fn input_tokens_max(window_tokens: u64, max_output_tokens: u64) -> Option<u64> {
    (window_tokens - window_tokens / 10).checked_sub(max_output_tokens).filter(|left| *left > 0)
}

fn wait(error: &ProviderError, calls: u32, jitter_seed: u64) -> Duration {
    match error.retry_after {
        Some(asked) => asked.min(WAIT_MAX) + fraction(SPREAD_MAX, jitter_seed),
        None => fraction(backoff_ceiling(error.class, calls), jitter_seed),
    }
}

fn backoff_ceiling(class: ErrorClass, calls: u32) -> Duration {
    let base = if class == ErrorClass::RateLimited { BACKOFF_BASE_RATE_LIMITED } else { BACKOFF_BASE };
    base.saturating_mul(2_u32.saturating_pow(calls.saturating_sub(1))).min(BACKOFF_MAX)
}

/// The part of `whole` that the seed stands for, between nothing and all of it.
fn fraction(whole: Duration, seed: u64) -> Duration {
    whole.mul_f64(seed as f64 / u64::MAX as f64)
}
