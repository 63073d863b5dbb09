//! Circuit breaker of a server that is unavailable or refuses our credentials, so that a call is
//! not charged with the server's failure.
//!
//! Pure state over the monotonic clock. Absent on purpose: memory across restarts (a fresh engine
//! tries at once), and who makes the probe.

use std::time::Duration;

/// Failures that a breaker tolerates before it opens, and the length of its pauses.
#[derive(Debug, Clone, Copy)]
pub struct Tolerance {
    /// Consecutive failures of the server itself after which the breaker opens.
    pub failures_max: u32,
    /// The first pause; each failed probe doubles it.
    pub pause_min: Duration,
    pub pause_max: Duration,
    /// Pause after refused credentials before the next try: a person has to act.
    pub refused_pause: Duration,
}

/// Result of asking the breaker for permission to call the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// Calls are admitted.
    Closed,
    /// The pause is over: one call probes the server.
    HalfOpen,
    /// Calls are refused for the remaining duration.
    Open(Duration),
}

#[derive(Debug)]
pub struct Breaker {
    tolerance: Tolerance,
    failures: u32,
    pauses: u32,
    /// End of the pause on the monotonic clock; `None`: no pause.
    paused_until: Option<Duration>,
}

impl Breaker {
    pub fn new(tolerance: Tolerance) -> Self {
        Self {
            tolerance,
            failures: 0,
            pauses: 0,
            paused_until: None,
        }
    }

    pub fn state(&self, now: Duration) -> BreakerState {
        match self.paused_until {
            None => BreakerState::Closed,
            Some(until) if now < until => BreakerState::Open(until.saturating_sub(now)),
            Some(_) => BreakerState::HalfOpen,
        }
    }

    /// Number of failures of the server itself since its last answer.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Records an answer of the server: closes the breaker.
    pub fn well(&mut self) {
        *self = Self::new(self.tolerance);
    }

    /// Records that the server is unavailable, whatever the call was. Returns the pause when the
    /// breaker is open, from now on or already.
    pub fn unreachable(&mut self, now: Duration) -> Option<Duration> {
        if let BreakerState::Open(left) = self.state(now) {
            // A call that failed at the same time as the call that opened the breaker.
            return Some(left);
        }
        self.failures += 1;
        if self.failures < self.tolerance.failures_max && self.paused_until.is_none() {
            return None;
        }
        let pause = self
            .tolerance
            .pause_min
            .saturating_mul(1 << self.pauses.min(16))
            .min(self.tolerance.pause_max);
        self.pauses += 1;
        self.paused_until = Some(now + pause);
        Some(pause)
    }

    /// Records that the server refused our credentials. Returns the pause.
    pub fn refused(&mut self, now: Duration) -> Duration {
        self.paused_until = Some(now + self.tolerance.refused_pause);
        self.tolerance.refused_pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn breaker() -> Breaker {
        Breaker::new(Tolerance {
            failures_max: 3,
            pause_min: MINUTE,
            pause_max: MINUTE * 30,
            refused_pause: MINUTE * 15,
        })
    }

    #[test]
    fn third_failures_in_a_row_pause_and_each_failed_probe_doubles() {
        let mut breaker = breaker();
        let mut now = Duration::ZERO;
        assert_eq!(
            (breaker.unreachable(now), breaker.unreachable(now)),
            (None, None)
        );
        for minutes in [1, 2, 4, 8, 16, 30, 30] {
            assert_eq!(breaker.unreachable(now), Some(MINUTE * minutes));
            assert_eq!(breaker.state(now), BreakerState::Open(MINUTE * minutes));
            now += MINUTE * minutes;
            assert_eq!(breaker.state(now), BreakerState::HalfOpen);
        }
        breaker.well();
        assert_eq!(breaker.state(now), BreakerState::Closed);
        assert_eq!(breaker.unreachable(now), None);
    }

    #[test]
    fn failures_beside_the_third_do_not_lengthen_the_pause() {
        let mut breaker = breaker();
        for _ in 0..2 {
            breaker.unreachable(Duration::ZERO);
        }
        assert_eq!(breaker.unreachable(Duration::ZERO), Some(MINUTE));
        assert_eq!(breaker.unreachable(MINUTE / 2), Some(MINUTE / 2));
        assert_eq!(breaker.state(MINUTE), BreakerState::HalfOpen);
    }

    #[test]
    fn success_in_between_starts_the_count_again() {
        let mut breaker = breaker();
        for _ in 0..5 {
            assert_eq!(breaker.unreachable(Duration::ZERO), None);
            assert_eq!(breaker.unreachable(Duration::ZERO), None);
            breaker.well();
        }
    }

    #[test]
    fn refused_credentials_pause_at_once_a_failed_probe_again() {
        let mut breaker = breaker();
        assert_eq!(breaker.refused(Duration::ZERO), MINUTE * 15);
        assert_eq!(breaker.state(MINUTE * 14), BreakerState::Open(MINUTE));
        assert_eq!(breaker.state(MINUTE * 15), BreakerState::HalfOpen);
        assert_eq!(breaker.unreachable(MINUTE * 15), Some(MINUTE));
    }
}
