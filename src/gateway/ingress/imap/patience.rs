//! How long each step may take, and how long to wait after a failure. Pure.

use crate::domain::stable_seed;
use std::time::Duration;

/// The time-outs and pauses of one mailbox. Tests shorten them.
#[derive(Debug, Clone)]
pub struct Patience {
    /// TCP and TLS.
    pub connect_max: Duration,
    /// Between two reads of an answer.
    pub silence_max: Duration,
    /// One command with its whole answer.
    pub command_max: Duration,
    /// One IDLE. Servers must not be trusted with longer: the connection may be dead without anybody noticing.
    pub idle_max: Duration,
    /// After the first failure; doubles with each further one.
    pub pause_min: Duration,
    pub pause_max: Duration,
    /// After a refused login; doubles with each further one.
    pub login_pause_min: Duration,
    pub login_pause_max: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        Self {
            connect_max: Duration::from_secs(30),
            silence_max: minutes(1),
            command_max: minutes(15),
            idle_max: minutes(5),
            pause_min: Duration::from_secs(5),
            pause_max: minutes(10),
            login_pause_min: minutes(15),
            login_pause_max: minutes(120),
        }
    }
}

impl Patience {
    /// The pause after so many failures in a row (from 1), within a fifth more or less: many engines that lost the same
    /// server must not come back in the same second.
    pub fn pause(&self, mailbox: &str, failures: u32, login_refused: bool) -> Duration {
        let (min, max) = match login_refused {
            true => (self.login_pause_min, self.login_pause_max),
            false => (self.pause_min, self.pause_max),
        };
        let pause = min.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(max);
        let percent = 80 + stable_seed(&format!("{mailbox} {failures}")) % 41;
        pause * u32::try_from(percent).unwrap_or(100) / 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_their_bound_and_differ_between_mailboxes() {
        let patience = Patience::default();
        for (failures, wanted) in [(1, 5), (2, 10), (4, 40), (7, 320), (8, 600), (99, 600)] {
            let pause = patience.pause("desk", failures, false).as_secs_f64();
            assert!((0.79..=1.21).contains(&(pause / f64::from(wanted))), "{failures}: {pause}");
        }
        assert!(patience.pause("desk", 1, true) >= Duration::from_secs(12 * 60));
        assert!(patience.pause("desk", 99, true) <= Duration::from_secs(144 * 60));
        let pauses: std::collections::BTreeSet<_> =
            (0..20).map(|n| patience.pause(&format!("box{n}"), 3, false)).collect();
        assert!(pauses.len() > 5);
    }
}
