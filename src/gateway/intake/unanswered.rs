//! Bytes of letters that nobody answers, bounded by the network that they come from and by hour: whoever proves nothing may not
//! fill the disk, after which everybody is refused.
//!
//! Absent on purpose: letters of contacts and owners, and of trusted relays, which bring those of all senders.

use crate::config::Config;
use crate::domain::{Envelope, Timestamp, Trust, Via, network_of};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Largest letters of a network within an hour that are stored without an answer, and of all networks.
const LARGEST_PER_HOUR: u64 = 4;
const LARGEST_OF_ALL: u64 = 64;
/// A letter of this size that is to be answered is taken from any network.
const SMALL_BYTES: usize = 64 * 1024;
const HOUR: Duration = Duration::from_secs(3600);
/// Most networks that are counted; the one with the oldest hour gives way.
const NETWORKS_MAX: usize = 4096;
/// Bytes of the hour that began with the first of them.
type HourSum = (Timestamp, u64);

/// Envelope, trust and bytes of a letter.
type Whose<'a> = (&'a Envelope, Trust, usize);

/// What each network, and all of them, brought within an hour.
#[derive(Default)]
struct HourSums {
    networks: HashMap<IpAddr, HourSum>,
    all: Option<HourSum>,
}

#[derive(Default)]
pub(super) struct UnansweredBytes(Mutex<HourSums>);

impl UnansweredBytes {
    /// Reports whether a letter may be stored: its network, and all, have brought less than may be within this hour. One that is
    /// not answered is counted.
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
        let most = |letters| (config.limits.letter_bytes_max as u64).saturating_mul(letters);
        let mut sums = self.sums();
        if is_answered {
            let brought = within(sums.networks.get(&network), now);
            return whose.2 <= SMALL_BYTES || brought < most(LARGEST_PER_HOUR);
        }
        let bounds = (most(LARGEST_PER_HOUR), most(LARGEST_OF_ALL));
        sums.take(network, whose.2 as u64, bounds, now)
    }

    /// Counts a letter that is not answered after all.
    pub fn count(&self, config: &Config, whose: Whose<'_>, now: Timestamp) {
        if let Some(network) = counted_network(config, whose) {
            self.sums().add(network, whose.2 as u64, now);
        }
    }

    fn sums(&self) -> MutexGuard<'_, HourSums> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HourSums {
    /// Adds what fits both bounds, of its network and of all; `false`: it does not.
    fn take(
        &mut self,
        network: IpAddr,
        bytes: u64,
        (of_network, of_all): (u64, u64),
        now: Timestamp,
    ) -> bool {
        let fits = |sum: Option<&HourSum>, most| within(sum, now).saturating_add(bytes) <= most;
        let is_taken =
            fits(self.networks.get(&network), of_network) && fits(self.all.as_ref(), of_all);
        if is_taken {
            self.add(network, bytes, now);
        }
        is_taken
    }

    fn add(&mut self, network: IpAddr, bytes: u64, now: Timestamp) {
        if self.networks.len() >= NETWORKS_MAX && !self.networks.contains_key(&network) {
            let oldest = self.networks.iter().min_by_key(|(_, (began, _))| *began);
            if let Some(oldest) = oldest.map(|(network, _)| *network) {
                self.networks.remove(&oldest);
            }
        }
        let of_network = self.networks.entry(network).or_insert((now, 0));
        for sum in [of_network, self.all.get_or_insert((now, 0))] {
            if now.since(sum.0) >= HOUR {
                *sum = (now, 0);
            }
            sum.1 = sum.1.saturating_add(bytes);
        }
    }
}

/// Returns the bytes of an hour that is not over.
fn within(sum: Option<&HourSum>, now: Timestamp) -> u64 {
    match sum {
        Some((began, bytes)) if now.since(*began) < HOUR => *bytes,
        _ => 0,
    }
}

/// Returns the network whose bytes a letter counts among; `None`: it is of a contact, or by a way of the house's own.
fn counted_network(config: &Config, (envelope, trust, _): Whose<'_>) -> Option<IpAddr> {
    let is_outside = matches!(envelope.via, Via::Smtp | Via::Http) && trust < Trust::Contact;
    let peer = envelope.peer.filter(|_| is_outside)?;
    let relays = config.security.authentication.trusted_relays.iter();
    let mut relays = relays.flat_map(|relay| &relay.peers);
    // One customer of a provider may have a whole /48.
    (!relays.any(|relay| relay.contains(peer))).then(|| network_of(peer, 24, 48))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_brings_so_much_within_an_hour_and_others_as_much() {
        let mut sums = HourSums::default();
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
            let network = network_of(address.parse().expect("an address"), 24, 48);
            assert_eq!(
                sums.take(network, bytes, (100, u64::MAX), now),
                is_taken,
                "{address} {seconds}"
            );
        }
        let mut sums = HourSums::default();
        for number in 1..=10_000_u32 {
            let network = IpAddr::from(number.to_be_bytes());
            assert!(sums.take(network, 1, (100, 10_000), start), "{number}");
        }
        assert!(sums.networks.len() <= NETWORKS_MAX);
        assert_eq!(within(sums.all.as_ref(), start), 10_000);
        let one_more = IpAddr::from([192, 0, 2, 0]);
        assert!(
            !sums.take(one_more, 1, (100, 10_000), start),
            "all have brought enough"
        );
        assert!(sums.take(one_more, 1, (100, 10_000), start.plus(HOUR)));
    }
}
