//! Failed attempts to log in or to use a key, by peer; loopback is not exempt, since any program of the machine and any
//! page in a browser may guess there.

use super::connections::WebPeer;
use crate::clock::Clock;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Failed attempts of a peer in a window, after which it waits until the window ends.
const FAILURES_MAX: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// Most peers with failures; the one with the oldest window gives way.
const PEERS_MAX: usize = 4096;

pub(super) struct FailedAttempts {
    clock: Arc<dyn Clock>,
    failures: Mutex<HashMap<WebPeer, FailureWindow>>,
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

    /// Reports how long a peer has to wait; `None`: it may try.
    pub(super) fn wait(&self, peer: WebPeer) -> Option<Duration> {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let window = failures.get(&peer.network())?;
        let age = self.clock.monotonic().saturating_sub(window.began);
        (window.failures >= FAILURES_MAX && age < WINDOW).then(|| WINDOW.saturating_sub(age))
    }

    /// Counts a failure.
    pub(super) fn note(&self, peer: WebPeer) {
        let now = self.clock.monotonic();
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let peer = peer.network();
        if failures.len() >= PEERS_MAX && !failures.contains_key(&peer) {
            let oldest = failures
                .iter()
                .min_by_key(|(_, window)| window.began)
                .map(|(peer, _)| *peer);
            if let Some(oldest) = oldest {
                failures.remove(&oldest);
            }
        }
        let window = failures.entry(peer).or_insert(FailureWindow {
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
    use std::net::IpAddr;

    #[test]
    fn ten_failures_in_a_minute_are_enough_and_others_are_not_concerned() {
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(0)));
        let attempts = FailedAttempts::new(clock.clone());
        let address = |octets: [u8; 4]| WebPeer::Address(IpAddr::from(octets));
        let (one, other) = (address([127, 0, 0, 1]), address([192, 0, 2, 1]));
        for _ in 0..FAILURES_MAX {
            assert_eq!(attempts.wait(one), None);
            attempts.note(one);
        }
        assert_eq!(attempts.wait(one), Some(WINDOW));
        assert_eq!(attempts.wait(other), None);
        assert_eq!(attempts.wait(WebPeer::Socket), None);
        clock.advance(WINDOW);
        assert_eq!(attempts.wait(one), None);
        attempts.note(one);
        assert_eq!(attempts.wait(one), None, "a new window");
    }
}
