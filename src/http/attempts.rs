//! Failed attempts to log in or to use a key, by address; loopback is not exempt, since any program of the machine and any
//! page in a browser may guess there.

use crate::clock::Clock;
use crate::domain::peer_network;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Failed attempts of an address in a window, after which it waits until the window ends.
const FAILURES_MAX: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// Most addresses with failures; the one with the oldest window gives way.
const ADDRESSES_MAX: usize = 4096;

pub(super) struct FailedAttempts {
    clock: Arc<dyn Clock>,
    failures: Mutex<HashMap<IpAddr, FailureWindow>>,
}

struct FailureWindow {
    began: Duration,
    failures: u32,
}

impl FailedAttempts {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            failures: Mutex::new(HashMap::new()),
        }
    }

    /// Reports how long an address has to wait; `None`: it may try.
    pub(super) fn wait(&self, address: IpAddr) -> Option<Duration> {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let window = failures.get(&peer_network(address))?;
        let age = self.clock.monotonic().saturating_sub(window.began);
        (window.failures >= FAILURES_MAX && age < WINDOW).then(|| WINDOW.saturating_sub(age))
    }

    /// Counts a failure.
    pub(super) fn note(&self, address: IpAddr) {
        let now = self.clock.monotonic();
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let address = peer_network(address);
        if failures.len() >= ADDRESSES_MAX && !failures.contains_key(&address) {
            let oldest = failures
                .iter()
                .min_by_key(|(_, window)| window.began)
                .map(|(address, _)| *address);
            if let Some(oldest) = oldest {
                failures.remove(&oldest);
            }
        }
        let window = failures.entry(address).or_insert(FailureWindow {
            began: now,
            failures: 0,
        });
        if now.saturating_sub(window.began) >= WINDOW {
            *window = FailureWindow {
                began: now,
                failures: 0,
            };
        }
        window.failures += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::domain::Timestamp;

    #[test]
    fn ten_failures_in_a_minute_are_enough_and_others_are_not_concerned() {
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(0)));
        let attempts = FailedAttempts::new(clock.clone());
        let (one, other) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([192, 0, 2, 1]));
        for _ in 0..FAILURES_MAX {
            assert_eq!(attempts.wait(one), None);
            attempts.note(one);
        }
        assert_eq!(attempts.wait(one), Some(WINDOW));
        assert_eq!(attempts.wait(other), None);
        clock.advance(WINDOW);
        assert_eq!(attempts.wait(one), None);
        attempts.note(one);
        assert_eq!(attempts.wait(one), None, "a new window");
    }
}
