//! Retry decision after a failed provider call. Pure: earlier attempts, the time left and
//! randomness are arguments.
//!
//! Absent on purpose: its execution, and the cap on attempts of a whole run; both belong to the
//! run.

use crate::domain::ErrorClass;
use crate::providers::contract::error::{Phase, ProviderError};
use crate::providers::contract::request::Parameter;
use std::time::Duration;

const BACKOFF_BASE: Duration = Duration::from_secs(1);
/// First ceiling of the wait after a rate limit, which rarely clears within a second.
const BACKOFF_BASE_RATE_LIMITED: Duration = Duration::from_secs(2);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// Longest random addition to a wait that the provider named, so that a burst does not return as a
/// burst.
const SPREAD_MAX: Duration = Duration::from_secs(1);
/// Longest wait that is respected; after it the provider is asked again.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);
/// Calls to a provider whose answers break the protocol; a third one would, too.
const PROTOCOL_ATTEMPTS_MAX: u32 = 2;

/// Factor of a longer answer: reasoning models are known to think for a few times the answer's
/// length.
const LONGER_TIMES: u32 = 4;
/// Longest output of today's models in tokens, reasoning included; many refuse more.
const OUTPUT_TOKENS_MAX: u32 = 64_000;

/// Decision after a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDecision {
    /// Wait this long, then retry.
    RetryNow(Duration),
    /// Park the run for at least this long; the caller owns the cap on attempts of a run.
    Reschedule(Duration),
    /// Trim the input to this many estimated tokens, and retry.
    TrimAndRetry { target_tokens: u64 },
    /// Raise the output limit to this many tokens, and retry.
    Lengthen { max_output_tokens: u32 },
    /// Leave this parameter out, and retry.
    Downgrade(Parameter),
    /// Ask the next provider of the chain.
    Fallback,
    /// Fail: a retry would fail alike.
    Fail,
}

/// Earlier calls of this turn, and remaining options.
#[derive(Debug, Clone, Copy, Default)]
pub struct PriorAttempts<'a> {
    /// Calls to this provider that count, including the failed one: 1 after the first failure.
    pub calls: u32,
    /// `true`: the input was trimmed already, or cannot be.
    pub trimmed: bool,
    /// Parameters that the failed request left out already.
    pub without: &'a [Parameter],
    /// `true`: there is another provider to ask; after an overflow, one that may take more input.
    pub has_fallback: bool,
}

/// Limits of the decision.
#[derive(Debug, Clone, Copy)]
pub struct RetryLimits {
    /// Most calls of one turn to one provider.
    pub attempts_max: u32,
    /// Longest wait within a run; a longer one frees the worker.
    pub inline_wait_max: Duration,
    /// Working time left to the run.
    pub left: Duration,
    /// `true`: a refusal falls back to the next provider too.
    pub fallback_on_refusal: bool,
    /// Seed of the random waits, any number; equal seeds give equal waits.
    pub jitter_seed: u64,
}

/// Size of the failed request, in tokens.
#[derive(Debug, Clone, Copy, Default)]
pub struct Size {
    /// Input, estimated.
    pub used_tokens: u64,
    pub max_output_tokens: u64,
    /// Higher output limit for a retry; `None`: it was raised already, or cannot be.
    pub longer_output_tokens: Option<u32>,
    /// Window of the model, input and output together, where it is known beforehand.
    pub window_tokens: Option<u64>,
}

/// Decides what follows from a failure: a transient error is retried, a long input is trimmed once,
/// the output limit of an answer without text is raised once, a parameter is left out once, and
/// then the chain goes on. The provider's `should_retry` and `retry_after` come before our own
/// rules; our waits grow exponentially with full jitter. No wait within a run passes the end of its
/// time.
///
/// A call in which an agent has acted fails: an operator must decide.
pub fn retry_decision(
    error: &ProviderError,
    tried: PriorAttempts<'_>,
    retry_policy: RetryLimits,
    size: Size,
) -> RetryDecision {
    use RetryDecision::{Downgrade, Fail, Fallback, Lengthen, Reschedule, RetryNow, TrimAndRetry};
    let class = error.class;
    if class == ErrorClass::Cancelled || error.acted {
        return Fail;
    }
    if let Some(parameter) = error
        .refused
        .filter(|parameter| !tried.without.contains(parameter))
    {
        return Downgrade(parameter);
    }
    if class == ErrorClass::OutputLimit
        && let Some(max_output_tokens) = size.longer_output_tokens
    {
        return Lengthen { max_output_tokens };
    }
    if matches!(
        class,
        ErrorClass::ContextOverflow | ErrorClass::RequestTooLarge
    ) {
        return match (tried.trimmed, tried.has_fallback) {
            (false, _) => TrimAndRetry {
                target_tokens: target(size, error.window_tokens),
            },
            (true, true) => Fallback,
            (true, false) => Fail,
        };
    }
    let passes =
        (error.should_retry == Some(true) || class.is_retryable()) && error.phase != Phase::Config;
    let wait = wait(error, tried.calls, retry_policy.jitter_seed);
    let calls_max = match class {
        ErrorClass::Protocol => retry_policy.attempts_max.min(PROTOCOL_ATTEMPTS_MAX),
        _ => retry_policy.attempts_max,
    };
    // `should_retry: false` is about this call; another provider, or a later attempt of the run, is
    // another call.
    let may_call = tried.calls < calls_max && error.should_retry != Some(false);
    if passes && may_call && wait <= retry_policy.inline_wait_max && wait < retry_policy.left {
        return RetryNow(wait);
    }
    if tried.has_fallback && falls_back(class, retry_policy.fallback_on_refusal) {
        return Fallback;
    }
    match passes && class != ErrorClass::Protocol {
        true if may_call => Reschedule(wait),
        true => Reschedule(wait.max(BACKOFF_MAX)),
        false => Fail,
    }
}

/// Reports whether another provider may succeed. Errors of the request itself, and decisions of an
/// operator or a policy, do not fall back.
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

/// Returns the target length of the input in tokens: the window less the answer, less a tenth
/// because we only estimate. Where the window is unknown, or our estimate was too low to see the
/// overflow, 70 % of what was sent.
fn target(size: Size, said: Option<u64>) -> u64 {
    let fits = said.or(size.window_tokens).and_then(|window| {
        let answer = answer_tokens_max(window, size.max_output_tokens);
        input_tokens_max(window, answer)
    });
    match fits {
        Some(target) if target < size.used_tokens => target,
        _ => size.used_tokens * 7 / 10,
    }
}

/// Returns the output limit of a retry after an answer that used up `now` tokens without text;
/// `None` where `left` permits less than twice as many.
pub fn longer_output_tokens(now: u32, left: u64) -> Option<u32> {
    let left = u32::try_from(left).unwrap_or(u32::MAX);
    let longer = now
        .saturating_mul(LONGER_TIMES)
        .min(OUTPUT_TOKENS_MAX)
        .min(left);
    (longer >= now.saturating_mul(2)).then_some(longer)
}

/// Returns the tokens that an answer may have in a window: those of the settings, but no more than a quarter of it.
pub fn answer_tokens_max(window_tokens: u64, max_output_tokens: u64) -> u64 {
    max_output_tokens.min(window_tokens / 4)
}

/// Returns the input tokens that fit a window beside the answer, less a tenth of the window; `None`
/// where none would.
pub fn input_tokens_max(window_tokens: u64, max_output_tokens: u64) -> Option<u64> {
    (window_tokens - window_tokens / 10)
        .checked_sub(max_output_tokens)
        .filter(|left| *left > 0)
}

fn wait(error: &ProviderError, calls: u32, jitter_seed: u64) -> Duration {
    match error.retry_after {
        Some(asked) => asked.min(WAIT_MAX) + fraction(SPREAD_MAX, jitter_seed),
        None => fraction(backoff_ceiling(error.class, calls), jitter_seed),
    }
}

fn backoff_ceiling(class: ErrorClass, calls: u32) -> Duration {
    let base = if class == ErrorClass::RateLimited {
        BACKOFF_BASE_RATE_LIMITED
    } else {
        BACKOFF_BASE
    };
    base.saturating_mul(2_u32.saturating_pow(calls.saturating_sub(1)))
        .min(BACKOFF_MAX)
}

/// Returns the fraction of `whole` that the seed stands for, between nothing and all of it.
fn fraction(whole: Duration, seed: u64) -> Duration {
    whole.mul_f64(seed as f64 / u64::MAX as f64)
}
