//! Schedule of retries of a deferred mail. Pure: time and jitter are arguments.

use crate::domain::{DeliveryId, stable_seed};
use std::time::Duration;

/// Delays after the first, second, … failure; the last one repeats. RFC 5321 section 4.5.4.1
/// requires at least 30 minutes, for a queue that connects to arbitrary servers; ours connects to
/// one configured smarthost.
const WAITS: [Duration; 7] = [
    Duration::from_secs(60),
    Duration::from_secs(5 * 60),
    Duration::from_secs(15 * 60),
    Duration::from_secs(30 * 60),
    Duration::from_secs(60 * 60),
    Duration::from_secs(2 * 60 * 60),
    Duration::from_secs(4 * 60 * 60),
];
/// Bound above every delay. A longer one comes from a wrong clock.
pub const WAIT_MAX: Duration = Duration::from_secs(5 * 60 * 60);
/// Maximum share of a delay that jitter adds or subtracts, so that deferred mails are not retried
/// all at once.
const JITTER_SHARE: f64 = 0.2;

/// Delay after `attempt` failures of a mail of age `age`; `None` means give up.
///
/// `attempt` counts from 1. `jitter` is in -1..1, see [`jitter`]. A delay never exceeds
/// `give_up_after`: the last attempt happens at that age.
pub fn next_attempt_after(
    attempt: u32,
    age: Duration,
    give_up_after: Duration,
    jitter: f64,
) -> Option<Duration> {
    let left = give_up_after
        .checked_sub(age)
        .filter(|left| !left.is_zero())?;
    let place = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
    let wait = WAITS[place.min(WAITS.len() - 1)];
    Some(
        wait.mul_f64(1.0 + JITTER_SHARE * jitter.clamp(-1.0, 1.0))
            .min(left),
    )
}

/// A number in -1..1 that depends only on the mail and the attempt, so that a replay computes equal
/// delays.
pub fn jitter(id: &DeliveryId, attempt: u32) -> f64 {
    let seed = stable_seed(&format!("{id} {attempt}"));
    seed as f64 / u64::MAX as f64 * 2.0 - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const FIVE_DAYS: Duration = Duration::from_secs(5 * 24 * 3600);

    #[test]
    fn waits_grow_from_a_minute_to_four_hours() {
        let minutes = [
            (0, 1),
            (1, 1),
            (2, 5),
            (3, 15),
            (4, 30),
            (5, 60),
            (6, 120),
            (7, 240),
            (8, 240),
            (99, 240),
        ];
        for (attempt, wait) in minutes {
            let next = next_attempt_after(attempt, Duration::ZERO, FIVE_DAYS, 0.0);
            assert_eq!(next, Some(MINUTE * wait), "after attempt {attempt}");
        }
    }

    #[test]
    fn chance_moves_a_wait_by_a_fifth_at_most() {
        for (chance, seconds) in [
            (-7.0, 48),
            (-1.0, 48),
            (-0.5, 54),
            (0.0, 60),
            (0.5, 66),
            (1.0, 72),
            (7.0, 72),
        ] {
            let next = next_attempt_after(1, Duration::ZERO, FIVE_DAYS, chance);
            assert_eq!(
                next.map(|wait| wait.as_millis()),
                Some(seconds * 1000),
                "jitter {chance}"
            );
        }
    }

    #[test]
    fn the_last_try_is_at_the_deadline_and_none_comes_after() {
        let late = FIVE_DAYS - MINUTE;
        assert_eq!(next_attempt_after(30, late, FIVE_DAYS, 1.0), Some(MINUTE));
        assert_eq!(next_attempt_after(1, FIVE_DAYS, FIVE_DAYS, 0.0), None);
        assert_eq!(next_attempt_after(1, FIVE_DAYS * 2, FIVE_DAYS, 0.0), None);
    }

    #[test]
    fn jitter_is_stable_spread_out_and_within_bounds() {
        let of = |n: u32| jitter(&DeliveryId::new(format!("delivery-{n}")), 1);
        assert!((of(1) - of(1)).abs() < f64::EPSILON);
        let all: Vec<f64> = (0..1000).map(of).collect();
        assert!(all.iter().all(|j| (-1.0..=1.0).contains(j)));
        let mean = all.iter().sum::<f64>() / 1000.0;
        assert!(mean.abs() < 0.1, "mean {mean}");
        assert!(all.iter().filter(|j| **j > 0.5).count() > 150);
    }
}
