//! Whether and when a failed provider call is made again. Pure: time and chance are arguments.
//!
//! Absent on purpose: the cap on attempts of a whole run, trimming after a context overflow, and other providers to
//! fall back to; those are decisions of the run.

use super::contract::{Phase, ProviderError};
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

/// What becomes of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDecision {
    /// Wait this long, then call again.
    RetryNow(Duration),
    /// Park the run for at least this long; the caller owns the cap on attempts of a run.
    Reschedule(Duration),
    /// The same call would fail again.
    Fail,
}

/// Decides on the next attempt: only classes that pass by themselves are tried again, the provider's own word and
/// its own wait come first, and otherwise the wait grows exponentially with full jitter.
///
/// `attempt` counts the calls made so far, the failed one included: 1 after the first failure. A wait longer than
/// `inline_wait_max` frees the worker. `jitter_seed` is any number; the same number gives the same wait.
pub fn retry_decision(
    error: &ProviderError,
    attempt: u32,
    attempts_max: u32,
    inline_wait_max: Duration,
    jitter_seed: u64,
) -> RetryDecision {
    if error.acted {
        return RetryDecision::Fail;
    }
    let forced = error.should_retry == Some(true) && error.class != ErrorClass::Cancelled;
    if !(forced || error.class.is_retryable()) || error.phase == Phase::Config {
        return RetryDecision::Fail;
    }
    if error.class == ErrorClass::Protocol && attempt >= PROTOCOL_ATTEMPTS_MAX {
        return RetryDecision::Fail;
    }
    let wait = match error.retry_after {
        Some(asked) => asked.min(WAIT_MAX) + fraction(SPREAD_MAX, jitter_seed),
        None => fraction(backoff_ceiling(error.class, attempt), jitter_seed),
    };
    // A veto is about this call; a mail can wait until the run's next attempt.
    if attempt >= attempts_max || error.should_retry == Some(false) {
        return RetryDecision::Reschedule(wait.max(BACKOFF_MAX));
    }
    if wait > inline_wait_max {
        return RetryDecision::Reschedule(wait);
    }
    RetryDecision::RetryNow(wait)
}

fn backoff_ceiling(class: ErrorClass, attempt: u32) -> Duration {
    let base = if class == ErrorClass::RateLimited { BACKOFF_BASE_RATE_LIMITED } else { BACKOFF_BASE };
    base.saturating_mul(2_u32.saturating_pow(attempt.saturating_sub(1))).min(BACKOFF_MAX)
}

/// The part of `whole` that the seed stands for, between nothing and all of it.
fn fraction(whole: Duration, seed: u64) -> Duration {
    whole.mul_f64(seed as f64 / u64::MAX as f64)
}

#[cfg(test)]
mod tests {
    use super::RetryDecision::{Fail, Reschedule, RetryNow};
    use super::*;

    const HIGHEST: u64 = u64::MAX;
    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }
    fn failed(class: ErrorClass, retry_after: Option<Duration>) -> ProviderError {
        ProviderError { retry_after, ..ProviderError::new(class, Phase::BeforeFirstByte, "x") }
    }
    fn decide(error: &ProviderError, attempt: u32, jitter_seed: u64) -> RetryDecision {
        retry_decision(error, attempt, 4, secs(45), jitter_seed)
    }

    #[test]
    fn every_class_has_its_decision_after_the_first_failure() {
        for class in ErrorClass::ALL {
            let expected = match class {
                ErrorClass::RateLimited => RetryNow(secs(2)),
                ErrorClass::Overloaded | ErrorClass::Transient | ErrorClass::Timeout => RetryNow(secs(1)),
                ErrorClass::Protocol | ErrorClass::Store => RetryNow(secs(1)),
                _ => Fail,
            };
            assert_eq!(decide(&failed(*class, None), 1, HIGHEST), expected, "{class}");
        }
    }

    #[test]
    fn waits_double_up_to_the_cap_with_full_jitter() {
        let error = failed(ErrorClass::Transient, None);
        let waits = [(1, 1), (2, 2), (3, 4), (5, 16), (6, 30), (40, 30), (90, 30)];
        for (attempt, expected) in waits {
            let at = |jitter_seed| retry_decision(&error, attempt, 99, secs(45), jitter_seed);
            assert_eq!(at(HIGHEST), RetryNow(secs(expected)), "attempt {attempt}");
            assert_eq!(at(0), RetryNow(Duration::ZERO), "attempt {attempt}");
        }
    }

    #[test]
    fn the_providers_own_wait_decides_between_now_and_later() {
        let short = failed(ErrorClass::RateLimited, Some(secs(10)));
        assert_eq!(decide(&short, 1, 0), RetryNow(secs(10)));
        assert_eq!(decide(&short, 1, HIGHEST), RetryNow(secs(11)));
        let long = failed(ErrorClass::RateLimited, Some(secs(3600)));
        assert_eq!(decide(&long, 1, 0), Reschedule(secs(3600)));
        let absurd = failed(ErrorClass::RateLimited, Some(Duration::MAX));
        assert_eq!(decide(&absurd, 1, 0), Reschedule(secs(24 * 3600)));
    }

    #[test]
    fn attempts_run_out_and_nonsense_runs_out_sooner() {
        assert_eq!(decide(&failed(ErrorClass::Overloaded, None), 4, HIGHEST), Reschedule(secs(30)));
        assert_eq!(decide(&failed(ErrorClass::Protocol, None), 2, HIGHEST), Fail);
    }

    #[test]
    fn the_providers_word_beats_the_class_but_not_a_cancellation() {
        let said = |class, word| ProviderError { should_retry: Some(word), ..failed(class, None) };
        assert_eq!(decide(&said(ErrorClass::RateLimited, false), 1, 0), Reschedule(secs(30)));
        assert_eq!(decide(&said(ErrorClass::Billing, false), 1, 0), Fail);
        assert_eq!(decide(&said(ErrorClass::BadRequest, true), 1, HIGHEST), RetryNow(secs(1)));
        assert_eq!(decide(&said(ErrorClass::Cancelled, true), 1, 0), Fail);
    }

    #[test]
    fn wrong_configuration_is_never_tried_again() {
        let error = ProviderError::new(ErrorClass::Transient, Phase::Config, "x");
        assert_eq!(decide(&error, 1, 0), Fail);
    }
}
