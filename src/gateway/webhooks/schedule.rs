//! When a failed attempt is made again. Pure: time and jitter are arguments.

use crate::domain::stable_seed;
use std::time::Duration;

const MINUTE: u64 = 60;
const HOUR: u64 = 3600;

/// Delays after the first, second, … failure (Standard Webhooks 1.0.0, "Retry schedule"): three days in all.
const WAITS: [u64; 9] = [
    5,
    5 * MINUTE,
    30 * MINUTE,
    2 * HOUR,
    5 * HOUR,
    10 * HOUR,
    14 * HOUR,
    20 * HOUR,
    24 * HOUR,
];
/// Most that a receiver may ask us to wait.
const ASKED_MAX: Duration = Duration::from_secs(24 * HOUR);
/// Bound above every delay. A longer one comes from a wrong clock.
pub const WAIT_MAX: Duration = Duration::from_secs(30 * HOUR);
/// Longest rest of a webhook whose server does not say how long.
const REST_MAX: Duration = Duration::from_secs(5 * MINUTE);
/// Most share of a delay that jitter adds or subtracts.
const JITTER_SHARE: f64 = 0.2;

/// Delay after this many failures of an event; `None`: it is given up. `jitter` is in -1..1.
pub fn next_attempt_after(failures: u32, jitter: f64) -> Option<Duration> {
    let place = usize::try_from(failures.saturating_sub(1)).unwrap_or(usize::MAX);
    let wait = Duration::from_secs(*WAITS.get(place)?);
    Some(wait.mul_f64(1.0 + JITTER_SHARE * jitter.clamp(-1.0, 1.0)))
}

/// A number in -1..1 that depends on the event and the attempt alone.
pub fn jitter(id: &str, attempt: u32) -> f64 {
    let seed = stable_seed(&format!("{id} {attempt}"));
    seed as f64 / u64::MAX as f64 * 2.0 - 1.0
}

/// Rest of a webhook whose server is busy or away, after this many failures without a success.
pub fn rest_after(failures: u32) -> Duration {
    let doubled = 5u64.saturating_mul(1 << failures.min(10));
    Duration::from_secs(doubled).min(REST_MAX)
}

/// Reads `Retry-After` in seconds (RFC 9110 section 10.2.3). A date is not read: the clocks of two machines differ.
pub fn retry_after(field: &str) -> Option<Duration> {
    let seconds: u64 = field.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(ASKED_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_attempts_in_three_days_and_no_more() {
        let waits: Vec<u64> = (1..=9)
            .map(|n| next_attempt_after(n, 0.0).expect("a wait").as_secs())
            .collect();
        assert_eq!(waits, WAITS);
        assert_eq!(waits.iter().sum::<u64>() / HOUR, 75);
        assert_eq!(next_attempt_after(10, 0.0), None);
        assert_eq!(next_attempt_after(u32::MAX, 0.0), None);
    }

    #[test]
    fn jitter_moves_a_wait_by_a_fifth_at_most_and_is_stable() {
        for (jitter, ms) in [
            (-9.0, 4000),
            (-1.0, 4000),
            (0.5, 5500),
            (1.0, 6000),
            (9.0, 6000),
        ] {
            let wait = next_attempt_after(1, jitter).expect("a wait");
            assert_eq!(wait.as_millis(), ms, "{jitter}");
        }
        assert!((jitter("a", 1) - jitter("a", 1)).abs() < f64::EPSILON);
        assert!((jitter("a", 1) - jitter("b", 1)).abs() > f64::EPSILON);
        let longest = next_attempt_after(9, 1.0).expect("a wait");
        assert!(longest < WAIT_MAX);
    }

    #[test]
    fn a_rest_grows_to_five_minutes_and_a_receiver_may_ask_for_a_day() {
        let rests: Vec<u64> = [0, 1, 2, 6, 99].map(|n| rest_after(n).as_secs()).into();
        assert_eq!(rests, [5, 10, 20, 300, 300]);
        let read = |text| retry_after(text).map(|wait| wait.as_secs());
        assert_eq!(read(" 120 "), Some(120));
        assert_eq!(read("999999999"), Some(24 * HOUR));
        for text in ["", "-5", "soon", "Wed, 21 Oct 2015 07:28:00 GMT"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
