//! When a server rests: one that is down, or that refuses our credentials, is no fault of what is brought to it.
//!
//! Pure state over the monotonic clock. Absent on purpose: memory across restarts (a fresh engine tries at once), and who
//! makes the probe.

use std::time::Duration;

/// How much a server may fail before it rests, and how long.
#[derive(Debug, Clone, Copy)]
pub struct Tolerance {
    /// Consecutive failures of the server itself after which it rests.
    pub failures_max: u32,
    /// The first pause; each failed probe doubles it.
    pub pause_min: Duration,
    pub pause_max: Duration,
    /// How often refused credentials are tried again: a person has to act.
    pub refused_pause: Duration,
}

/// Whether the server may be used now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    Open,
    /// A pause is over: one try finds out.
    Probe,
    /// For this long.
    Paused(Duration),
}

#[derive(Debug)]
pub struct Breaker {
    tolerance: Tolerance,
    failures: u32,
    pauses: u32,
    /// Monotonic.
    paused_until: Option<Duration>,
}

impl Breaker {
    pub fn new(tolerance: Tolerance) -> Self {
        Self { tolerance, failures: 0, pauses: 0, paused_until: None }
    }

    pub fn gate(&self, now: Duration) -> Gate {
        match self.paused_until {
            None => Gate::Open,
            Some(until) if now < until => Gate::Paused(until.saturating_sub(now)),
            Some(_) => Gate::Probe,
        }
    }

    /// Failures of the server itself since it last answered.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// The server answered.
    pub fn well(&mut self) {
        *self = Self::new(self.tolerance);
    }

    /// The server failed, whatever was brought to it. Returns the pause when it rests from now on or did already.
    pub fn unreachable(&mut self, now: Duration) -> Option<Duration> {
        if let Gate::Paused(left) = self.gate(now) {
            // A try that failed beside the one that opened the breaker.
            return Some(left);
        }
        self.failures += 1;
        if self.failures < self.tolerance.failures_max && self.paused_until.is_none() {
            return None;
        }
        let pause =
            self.tolerance.pause_min.saturating_mul(1 << self.pauses.min(16)).min(self.tolerance.pause_max);
        self.pauses += 1;
        self.paused_until = Some(now + pause);
        Some(pause)
    }

    /// The server refused our credentials. Returns the pause.
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
    fn the_third_failure_in_a_row_pauses_and_each_failed_probe_doubles() {
        let mut breaker = breaker();
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
        let mut breaker = breaker();
        for _ in 0..2 {
            breaker.unreachable(Duration::ZERO);
        }
        assert_eq!(breaker.unreachable(Duration::ZERO), Some(MINUTE));
        assert_eq!(breaker.unreachable(MINUTE / 2), Some(MINUTE / 2));
        assert_eq!(breaker.gate(MINUTE), Gate::Probe);
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
    fn refused_credentials_pause_at_once_and_a_failed_probe_pauses_again() {
        let mut breaker = breaker();
        assert_eq!(breaker.refused(Duration::ZERO), MINUTE * 15);
        assert_eq!(breaker.gate(MINUTE * 14), Gate::Paused(MINUTE));
        assert_eq!(breaker.gate(MINUTE * 15), Gate::Probe);
        assert_eq!(breaker.unreachable(MINUTE * 15), Some(MINUTE));
    }
}
