//! Bytes of letters that nobody answers, bounded by the network that they come from and by hour: whoever proves nothing may not
//! fill the disk, after which everybody is refused.
//!
//! Absent on purpose: letters of contacts and owners, and of trusted relays, which bring those of all senders.

use crate::config::Config;
use crate::domain::{Envelope, Timestamp, Trust, Via, peer_network};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Largest letters of a network within an hour that are stored without an answer.
const LARGEST_PER_HOUR: u64 = 4;
const HOUR: Duration = Duration::from_secs(3600);
/// Most networks that are counted; the one with the oldest hour gives way.
const NETWORKS_MAX: usize = 4096;

/// Bytes by network, each with the begin of its hour.
#[derive(Default)]
pub(super) struct UnansweredBytes(Mutex<HashMap<IpAddr, (Timestamp, u64)>>);

impl UnansweredBytes {
    /// Counts a letter; `false`: its network has brought as much as may be within this hour.
    pub fn takes(
        &self,
        config: &Config,
        (envelope, trust, bytes): (&Envelope, Trust, usize),
        now: Timestamp,
    ) -> bool {
        let is_outside = matches!(envelope.via, Via::Smtp | Via::Http) && trust < Trust::Contact;
        let Some(peer) = envelope.peer.filter(|_| is_outside) else {
            return true;
        };
        let relays = config.security.authentication.trusted_relays.iter();
        if relays
            .flat_map(|relay| &relay.peers)
            .any(|network| network.contains(peer))
        {
            return true;
        }
        let bytes_max = (config.limits.letter_bytes_max as u64).saturating_mul(LARGEST_PER_HOUR);
        self.count(peer_network(peer), bytes as u64, (bytes_max, now))
    }

    fn count(&self, network: IpAddr, bytes: u64, (bytes_max, now): (u64, Timestamp)) -> bool {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= NETWORKS_MAX && !counts.contains_key(&network) {
            let oldest = counts.iter().min_by_key(|(_, (began, _))| *began);
            if let Some(oldest) = oldest.map(|(network, _)| *network) {
                counts.remove(&oldest);
            }
        }
        let (began, sum) = counts.entry(network).or_insert((now, 0));
        if now.since(*began) >= HOUR {
            (*began, *sum) = (now, 0);
        }
        let is_taken = sum.saturating_add(bytes) <= bytes_max;
        if is_taken {
            *sum += bytes;
        }
        is_taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_brings_so_much_within_an_hour_and_others_as_much() {
        let counts = UnansweredBytes::default();
        let start = Timestamp::parse("2026-11-20T09:00:00.000Z").expect("an instant");
        let cases = [
            ("192.0.2.1", 0, 60, true),
            ("192.0.2.1", 1, 41, false),
            ("192.0.2.1", 2, 40, true),
            ("192.0.2.1", 3, 1, false),
            ("192.0.2.2", 3, 100, true),
            ("2001:db8::1", 4, 100, true),
            ("2001:db8::ffff", 5, 1, false),
            ("2001:db8:0:1::1", 5, 101, false),
            ("2001:db8:0:1::1", 5, 1, true),
            ("192.0.2.1", 3599, 1, false),
            ("192.0.2.1", 3600, 100, true),
            ("192.0.2.1", 7199, 1, false),
        ];
        for (address, seconds, bytes, is_taken) in cases {
            let now = start.plus(Duration::from_secs(seconds));
            let network = peer_network(address.parse().expect("an address"));
            assert_eq!(
                counts.count(network, bytes, (100, now)),
                is_taken,
                "{address} {seconds}"
            );
        }
        for number in 0..10_000_u32 {
            assert!(counts.count(IpAddr::from(number.to_be_bytes()), 100, (100, start)));
        }
        assert!(counts.0.lock().expect("free").len() <= NETWORKS_MAX);
    }
}
