//! Timeouts of each step, and pauses after failures. Pure.

use crate::domain::stable_seed;
use std::time::Duration;

/// The timeouts and pauses of one mailbox. Tests shorten them.
#[derive(Debug, Clone)]
pub struct ImapTimeouts {
    /// TCP connection and TLS handshake.
    pub connect_max: Duration,
    /// Time between two reads of a response.
    pub silence_max: Duration,
    /// One command with its whole response.
    pub command_max: Duration,
    /// One IDLE. A longer one would be unsafe: a dead connection could stay unnoticed.
    pub idle_max: Duration,
    /// Pause after the first failure; doubles with each further one.
    pub pause_min: Duration,
    pub pause_max: Duration,
    /// Pause after a refused login; doubles with each further one.
    pub login_pause_min: Duration,
    pub login_pause_max: Duration,
}

impl Default for ImapTimeouts {
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

impl ImapTimeouts {
    /// The pause after `failures` consecutive failures (from 1), varied by up to a fifth: many
    /// engines that lost a server must not reconnect in the same second.
    pub fn pause(&self, mailbox: &str, failures: u32, login_refused: bool) -> Duration {
        let (min, max) = match login_refused {
            true => (self.login_pause_min, self.login_pause_max),
            false => (self.pause_min, self.pause_max),
        };
        let pause = min
            .saturating_mul(1 << failures.saturating_sub(1).min(16))
            .min(max);
        let percent = 80 + stable_seed(&format!("{mailbox} {failures}")) % 41;
        pause * u32::try_from(percent).unwrap_or(100) / 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_their_bound_and_differ_between_mailboxes() {
        let timeouts = ImapTimeouts::default();
        for (failures, wanted) in [(1, 5), (2, 10), (4, 40), (7, 320), (8, 600), (99, 600)] {
            let pause = timeouts.pause("desk", failures, false).as_secs_f64();
            assert!(
                (0.79..=1.21).contains(&(pause / f64::from(wanted))),
                "{failures}: {pause}"
            );
        }
        assert!(timeouts.pause("desk", 1, true) >= Duration::from_secs(12 * 60));
        assert!(timeouts.pause("desk", 99, true) <= Duration::from_secs(144 * 60));
        let pauses: std::collections::BTreeSet<_> = (0..20)
            .map(|n| timeouts.pause(&format!("box{n}"), 3, false))
            .collect();
        assert!(pauses.len() > 5);
    }
}
