//! Bytes of letters that nobody answers, bounded by the network that they come from and by hour: whoever proves nothing may not
//! fill the disk, after which everybody is refused.
//!
//! Absent on purpose: letters of contacts and owners, and of trusted relays, which bring those of all senders.

use crate::config::Config;
use crate::domain::{Envelope, Timestamp, Trust, Via, peer_network};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Largest letters of a network within an hour that are stored without an answer, and of all networks.
const LARGEST_PER_HOUR: u64 = 4;
const LARGEST_OF_ALL: u64 = 64;
/// A letter of this size that is to be answered is taken from any network.
const SMALL_BYTES: usize = 64 * 1024;
const HOUR: Duration = Duration::from_secs(3600);
/// Most networks that are counted; the one with the oldest hour gives way.
const NETWORKS_MAX: usize = 4096;
/// All networks, among the networks.
const ALL: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Bytes by network, each with the begin of its hour.
#[derive(Default)]
pub(super) struct UnansweredBytes(Mutex<HashMap<IpAddr, (Timestamp, u64)>>);

/// Envelope, trust and bytes of a letter.
type Whose<'a> = (&'a Envelope, Trust, usize);

impl UnansweredBytes {
    /// Reports whether a letter may be stored: its network, or all, have brought less than may be within this hour. One that is not
    /// answered is counted.
    pub fn has_room(
        &self,
        config: &Config,
        whose: Whose<'_>,
        is_answered: bool,
        now: Timestamp,
    ) -> bool {
        let Some(network) = counted_network(config, whose) else {
            return true;
        };
        let (bytes, largest) = (whose.2 as u64, config.limits.letter_bytes_max as u64);
        if is_answered {
            return whose.2 <= SMALL_BYTES
                || self.left(network, largest * LARGEST_PER_HOUR, now) > 0;
        }
        let fits = bytes <= self.left(network, largest * LARGEST_PER_HOUR, now)
            && bytes <= self.left(ALL, largest * LARGEST_OF_ALL, now);
        if fits {
            self.count(config, whose, now);
        }
        fits
    }

    /// Counts a letter that is not answered.
    pub fn count(&self, config: &Config, whose: Whose<'_>, now: Timestamp) {
        if let Some(network) = counted_network(config, whose) {
            self.add(network, whose.2 as u64, now);
            self.add(ALL, whose.2 as u64, now);
        }
    }

    fn left(&self, network: IpAddr, bytes_max: u64, now: Timestamp) -> u64 {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.get(&network) {
            Some((began, sum)) if now.since(*began) < HOUR => bytes_max.saturating_sub(*sum),
            _ => bytes_max,
        }
    }

    fn add(&self, network: IpAddr, bytes: u64, now: Timestamp) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= NETWORKS_MAX && !counts.contains_key(&network) {
            let others = counts.iter().filter(|(network, _)| **network != ALL);
            let oldest = others.min_by_key(|(_, (began, _))| *began);
            if let Some(oldest) = oldest.map(|(network, _)| *network) {
                counts.remove(&oldest);
            }
        }
        let (began, sum) = counts.entry(network).or_insert((now, 0));
        if now.since(*began) >= HOUR {
            (*began, *sum) = (now, 0);
        }
        *sum = sum.saturating_add(bytes);
    }
}

/// Returns the network whose bytes a letter counts among; `None`: it is of a contact, or by a way of the house's own.
fn counted_network(config: &Config, (envelope, trust, _): Whose<'_>) -> Option<IpAddr> {
    let is_outside = matches!(envelope.via, Via::Smtp | Via::Http) && trust < Trust::Contact;
    let peer = envelope.peer.filter(|_| is_outside)?;
    let relays = config.security.authentication.trusted_relays.iter();
    let mut relays = relays.flat_map(|relay| &relay.peers);
    (!relays.any(|relay| relay.contains(peer))).then(|| neighbours(peer))
}

/// Returns the /24 of IPv4, or the /48 of IPv6, of which one customer of a provider may have all.
fn neighbours(peer: IpAddr) -> IpAddr {
    match peer_network(peer) {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            IpAddr::from([a, b, c, 0])
        }
        IpAddr::V6(address) => {
            let [a, b, c, ..] = address.segments();
            IpAddr::from([a, b, c, 0, 0, 0, 0, 0])
        }
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
            ("192.0.2.200", 2, 40, true),
            ("192.0.2.1", 3, 1, false),
            ("192.0.3.2", 3, 100, true),
            ("2001:db8::1", 4, 100, true),
            ("2001:db8:0:ffff::1", 5, 1, false),
            ("2001:db8:1:1::1", 5, 101, false),
            ("2001:db8:1:1::1", 5, 1, true),
            ("192.0.2.1", 3599, 1, false),
            ("192.0.2.1", 3600, 100, true),
            ("192.0.2.1", 7199, 1, false),
        ];
        for (address, seconds, bytes, is_taken) in cases {
            let now = start.plus(Duration::from_secs(seconds));
            let network = neighbours(address.parse().expect("an address"));
            let has_room = bytes <= counts.left(network, 100, now);
            assert_eq!(has_room, is_taken, "{address} {seconds}");
            if has_room {
                counts.add(network, bytes, now);
            }
        }
        for number in 1..=10_000_u32 {
            counts.add(ALL, 1, start);
            counts.add(IpAddr::from(number.to_be_bytes()), 100, start);
        }
        assert!(counts.0.lock().expect("free").len() <= NETWORKS_MAX);
        assert_eq!(counts.left(ALL, 20_000, start), 10_000);
    }
}
