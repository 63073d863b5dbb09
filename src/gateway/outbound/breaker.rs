//! When the whole transport rests: a smarthost that is down, or that refuses our password, is no fault of the mail.
//!
//! Pure state over the monotonic clock. Absent on purpose: memory across restarts; a fresh engine tries at once.

use std::time::Duration;

/// Consecutive failures of the transport itself after which it rests.
const FAILURES_MAX: u32 = 3;
const PAUSE_MIN: Duration = Duration::from_secs(60);
const PAUSE_MAX: Duration = Duration::from_secs(30 * 60);
/// How often refused credentials are tried again: a person has to act, and servers lock accounts that knock too often.
const CREDENTIALS_PAUSE: Duration = Duration::from_secs(15 * 60);

/// Whether mail may be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    Open,
    /// A pause is over: one mail finds out.
    Probe,
    /// For this long.
    Paused(Duration),
}

#[derive(Debug, Default)]
pub struct Breaker {
    failures: u32,
    pauses: u32,
    /// Monotonic.
    paused_until: Option<Duration>,
}

impl Breaker {
    pub fn gate(&self, now: Duration) -> Gate {
        match self.paused_until {
            None => Gate::Open,
            Some(until) if now < until => Gate::Paused(until.saturating_sub(now)),
            Some(_) => Gate::Probe,
        }
    }

    /// Failures of the transport itself since it last answered.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// The transport answered.
    pub fn well(&mut self) {
        *self = Self::default();
    }

    /// The transport failed before the mail could matter. Returns the pause when it rests from now on or did already.
    pub fn unreachable(&mut self, now: Duration) -> Option<Duration> {
        if let Gate::Paused(left) = self.gate(now) {
            // A connection that failed beside the one that opened the breaker.
            return Some(left);
        }
        self.failures += 1;
        if self.failures < FAILURES_MAX && self.paused_until.is_none() {
            return None;
        }
        let pause = PAUSE_MIN.saturating_mul(1 << self.pauses.min(16)).min(PAUSE_MAX);
        self.pauses += 1;
        self.paused_until = Some(now + pause);
        Some(pause)
    }

    /// The server refused our credentials. Returns the pause.
    pub fn refused(&mut self, now: Duration) -> Duration {
        self.paused_until = Some(now + CREDENTIALS_PAUSE);
        CREDENTIALS_PAUSE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn the_third_failure_in_a_row_pauses_and_each_failed_probe_doubles() {
        let mut breaker = Breaker::default();
        let mut now = Duration::ZERO;
        assert_eq!((breaker.unreachable(now), breaker.unreachable(now)), (None, None));
        for minutes in [1, 2, 4, 8, 16, 30, 30] {
            assert_eq!(breaker.unreachable(now), Some(MINUTE * minutes));
            assert_eq!(breaker.gate(now), Gate::Paused(MINUTE * minutes));
            now += MINUTE * minutes;
            assert_eq!(breaker.gate(now), Gate::Probe);
        }
        breaker.well();
        assert_eq!(breaker.gate(now), Gate::Open);
        assert_eq!(breaker.unreachable(now), None);
    }

    #[test]
    fn failures_beside_the_third_do_not_lengthen_the_pause() {
        let mut breaker = Breaker::default();
        for _ in 0..2 {
            breaker.unreachable(Duration::ZERO);
        }
        assert_eq!(breaker.unreachable(Duration::ZERO), Some(MINUTE));
        assert_eq!(breaker.unreachable(MINUTE / 2), Some(MINUTE / 2));
        assert_eq!(breaker.gate(MINUTE), Gate::Probe);
    }

    #[test]
    fn success_in_between_starts_the_count_again() {
        let mut breaker = Breaker::default();
        for _ in 0..5 {
            assert_eq!(breaker.unreachable(Duration::ZERO), None);
            assert_eq!(breaker.unreachable(Duration::ZERO), None);
            breaker.well();
        }
    }

    #[test]
    fn refused_credentials_pause_at_once_and_a_failed_probe_pauses_again() {
        let mut breaker = Breaker::default();
        assert_eq!(breaker.refused(Duration::ZERO), MINUTE * 15);
        assert_eq!(breaker.gate(MINUTE * 14), Gate::Paused(MINUTE));
        assert_eq!(breaker.gate(MINUTE * 15), Gate::Probe);
        assert_eq!(breaker.unreachable(MINUTE * 15), Some(MINUTE));
    }
}
