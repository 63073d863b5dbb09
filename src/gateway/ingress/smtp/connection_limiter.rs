//! State shared by the sessions of all listeners: connection permits, memory for letters, and
//! failed logins.

use super::memory::{LetterMemory, MemoryShares};
use crate::clock::Clock;
use crate::config::Limits;
use crate::domain::{Network, peer_network};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time for which a failed login counts against its network.
const REMEMBERED_FOR: Duration = Duration::from_secs(15 * 60);
/// Maximum networks with recorded failed logins; the one with the oldest failure is removed for a
/// new one.
const REMEMBERED_NETWORKS_MAX: usize = 4096;
/// Maximum doublings of the delay after a failed login.
const LOGIN_DELAY_DOUBLINGS_MAX: usize = 4;

/// Maximum recorded networks that have sent letters; the one with the oldest letter is removed for
/// a new one.
const KNOWN_NETWORKS_MAX: usize = 4096;
/// Bounds of the file descriptors reserved for the database, outbound mail, the models and files: a
/// quarter of all.
const DESCRIPTORS_KEPT_MIN: usize = 24;
const DESCRIPTORS_KEPT_MAX: usize = 128;

pub struct ConnectionLimiter {
    pub open_connections: Arc<OpenConnections>,
    pub memory: Arc<LetterMemory>,
    pub logins: FailedLogins,
    pub clock: Arc<dyn Clock>,
}

impl ConnectionLimiter {
    /// Builds the limiter; `shares` divides the memory for the unfinished letters of all
    /// connections.
    pub fn new(limits: &Limits, shares: MemoryShares, clock: Arc<dyn Clock>) -> Arc<Self> {
        let places = limits.connections_max.min(places_by_file_descriptors());
        Arc::new(Self {
            open_connections: OpenConnections::new(
                places,
                limits.connections_per_address_max,
                shares.relays.clone(),
            ),
            memory: LetterMemory::new(shares, clock.clone()),
            logins: FailedLogins::new(limits, clock.clone()),
            clock,
        })
    }
}

/// Number of connections that leave enough file descriptors for the database, outbound mail and the
/// models.
///
/// Without a free descriptor a connection cannot even be refused: it waits until another connection
/// closes.
fn places_by_file_descriptors() -> usize {
    // Only Linux has the file; elsewhere `connections_max` is the only bound.
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    descriptors(&limits).map_or(usize::MAX, |all| places_of(all, open))
}

/// Number of permits among `all` descriptors, of which `open` are in use before the first
/// connection.
fn places_of(all: usize, open: usize) -> usize {
    let kept = (all / 4).clamp(DESCRIPTORS_KEPT_MIN, DESCRIPTORS_KEPT_MAX);
    all.saturating_sub(open).saturating_sub(kept).max(1)
}

/// The soft limit of open files.
fn descriptors(limits: &str) -> Option<usize> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok() // "unlimited" is no number and no limit
}

/// Open connections by network, so that neither one peer nor many idle ones can take every permit.
pub struct OpenConnections {
    places: Mutex<Places>,
    all: usize,
    per_network_max: usize,
    /// Networks of relays, which are known to send letters.
    relays: Vec<Network>,
}

struct Places {
    free: usize,
    /// Number of connections by network, if any.
    taken: HashMap<IpAddr, usize>,
    /// Networks that have sent a letter, with the sequence number of the last one.
    known: HashMap<IpAddr, u64>,
    letters: u64,
}

/// Permit of a connection; dropping it frees it.
pub struct ConnectionPermit {
    open_connections: Arc<OpenConnections>,
    /// `None`: not known yet, or a Unix socket.
    pub address: Option<IpAddr>,
}

/// Reason of a refused permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// For any network, or for any network that has not sent a letter before.
    Everywhere,
    /// For this network, which has as many connections as permitted.
    There,
}

impl OpenConnections {
    fn new(all: usize, per_network_max: usize, relays: Vec<Network>) -> Arc<Self> {
        let places = Places {
            free: all,
            taken: HashMap::new(),
            known: HashMap::new(),
            letters: 0,
        };
        Arc::new(Self {
            places: Mutex::new(places),
            all,
            per_network_max,
            relays,
        })
    }

    /// Takes a permit for a peer whose address does not matter or is not known yet.
    pub fn enter(self: &Arc<Self>) -> Result<ConnectionPermit, Full> {
        let mut places = self.lock();
        places.free = places.free.checked_sub(1).ok_or(Full::Everywhere)?;
        Ok(ConnectionPermit {
            open_connections: Arc::clone(self),
            address: None,
        })
    }

    /// Reports whether fewer than a fifth of the permits are free. Idle timeouts are then shorter,
    /// as in Postfix (<https://www.postfix.org/STRESS_README.html>).
    pub fn are_stressed(&self) -> bool {
        self.lock().free < self.all.div_ceil(5)
    }

    /// Records that a network has sent a letter: the last permits are reserved for such networks.
    pub fn remember(&self, address: Option<IpAddr>) {
        let Some(network) = address.map(peer_network) else {
            return;
        };
        let mut places = self.lock();
        places.letters += 1;
        let letter = places.letters;
        if places.known.len() >= KNOWN_NETWORKS_MAX && !places.known.contains_key(&network) {
            let oldest = places
                .known
                .iter()
                .min_by_key(|(_, letter)| **letter)
                .map(|(network, _)| *network);
            oldest.map(|oldest| places.known.remove(&oldest));
        }
        places.known.insert(network, letter);
    }

    /// Number of permits reserved for networks that have sent letters before: a tenth.
    fn kept(&self) -> usize {
        self.all / 10
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionPermit {
    /// Assigns the permit to an address. If its network has too many connections, or only reserved
    /// permits are left, the permit is freed.
    pub fn by(mut self, address: IpAddr) -> Result<Self, Full> {
        let open_connections = self.open_connections.clone();
        let is_relay = open_connections
            .relays
            .iter()
            .any(|relay| relay.contains(address));
        let mut places = open_connections.lock();
        let network = peer_network(address);
        if places.free < open_connections.kept()
            && !is_relay
            && !places.known.contains_key(&network)
        {
            drop(places); // `self` takes the lock when it is dropped
            return Err(Full::Everywhere);
        }
        let from_there = places.taken.entry(network).or_insert(0);
        if *from_there >= open_connections.per_network_max {
            drop(places);
            return Err(Full::There);
        }
        *from_there += 1;
        drop(places);
        self.address = Some(address.to_canonical());
        Ok(self)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut places = self.open_connections.lock();
        places.free += 1;
        let Some(network) = self.address.map(peer_network) else {
            return;
        };
        match places.taken.get_mut(&network) {
            Some(from_there) if *from_there > 1 => *from_there -= 1,
            _ => {
                places.taken.remove(&network);
            }
        }
    }
}

/// Recent failed logins by network. The table is bounded: forgetting is harmless, unbounded growth
/// is not.
pub struct FailedLogins {
    by_network: Mutex<HashMap<IpAddr, NetworkFailures>>,
    failures_max: usize,
    delay: Duration,
    clock: Arc<dyn Clock>,
}

#[derive(Clone, Copy)]
struct NetworkFailures {
    times: usize,
    /// [`Clock::monotonic`] of the last failure.
    last: Duration,
}

impl FailedLogins {
    fn new(limits: &Limits, clock: Arc<dyn Clock>) -> Self {
        let (failures_max, delay) = (limits.login_failures_max, limits.login_delay);
        Self {
            by_network: Mutex::default(),
            failures_max,
            delay,
            clock,
        }
    }

    /// Reports whether a peer may try a password.
    pub fn may_try(&self, peer: Option<IpAddr>) -> bool {
        let failed = self.lock().get(&origin(peer)).copied();
        failed.is_none_or(|failed| self.is_forgotten(failed) || failed.times < self.failures_max)
    }

    /// Records a failure; returns the delay of its reply.
    pub fn note(&self, peer: Option<IpAddr>) -> Duration {
        let (origin, last) = (origin(peer), self.clock.monotonic());
        let mut table = self.lock();
        let before = table
            .get(&origin)
            .copied()
            .filter(|failed| !self.is_forgotten(*failed));
        if before.is_none() && table.len() >= REMEMBERED_NETWORKS_MAX {
            table.retain(|_, failed| !self.is_forgotten(*failed));
            let oldest = table
                .iter()
                .min_by_key(|(_, failed)| failed.last)
                .map(|(origin, _)| *origin);
            if let Some(oldest) = oldest.filter(|_| table.len() >= REMEMBERED_NETWORKS_MAX) {
                table.remove(&oldest);
            }
        }
        let times = before.map_or(1, |failed| failed.times.saturating_add(1));
        table.insert(origin, NetworkFailures { times, last });
        self.delay
            .saturating_mul(1 << (times - 1).min(LOGIN_DELAY_DOUBLINGS_MAX))
    }

    fn is_forgotten(&self, failed: NetworkFailures) -> bool {
        self.clock.monotonic().saturating_sub(failed.last) >= REMEMBERED_FOR
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, NetworkFailures>> {
        self.by_network
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Network of a peer; peers without an address count as one network.
fn origin(peer: Option<IpAddr>) -> IpAddr {
    peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), peer_network)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::domain::Timestamp;

    fn entered(
        open_connections: &Arc<OpenConnections>,
        text: &str,
    ) -> Result<ConnectionPermit, Full> {
        open_connections
            .enter()
            .and_then(|permit| permit.by(text.parse().unwrap()))
    }

    #[test]
    fn places_are_limited_per_network_and_over_all_and_come_back() {
        let open_connections = OpenConnections::new(3, 2, Vec::new());
        let enter = |text: &str| entered(&open_connections, text);
        let a = enter("192.0.2.1").ok();
        let b = enter("::ffff:192.0.2.1").ok();
        assert!(a.is_some() && b.is_some());
        assert_eq!(enter("192.0.2.1").err(), Some(Full::There));
        let c = enter("2001:db8::1").ok();
        assert_eq!(enter("192.0.2.9").err(), Some(Full::Everywhere));
        drop(b);
        let d = enter("2001:db8::ffff:1").ok();
        assert!(c.is_some() && d.is_some());
        drop(a);
        assert_eq!(
            enter("2001:db8:0:0:1::").err(),
            Some(Full::There),
            "same /64"
        );
        drop(c);
        assert!(
            open_connections.enter().is_ok(),
            "a socket without an address"
        );
        drop(d);
        let places = open_connections.lock();
        assert_eq!((places.free, places.taken.len()), (3, 0));
    }

    #[test]
    fn the_last_places_are_for_who_brought_letters_and_for_relays() {
        let open_connections =
            OpenConnections::new(20, 20, vec![Network::parse("198.51.100.0/24").unwrap()]);
        open_connections.remember("192.0.2.1".parse().ok());
        let strangers: Vec<ConnectionPermit> = (0..)
            .map_while(|_| entered(&open_connections, "203.0.113.1").ok())
            .collect();
        assert_eq!(strangers.len(), 18);
        let kept: Vec<_> = ["192.0.2.1", "198.51.100.7", "192.0.2.1"]
            .map(|text| entered(&open_connections, text))
            .into();
        assert_eq!(
            kept.iter().map(Result::is_ok).collect::<Vec<_>>(),
            [true, true, false]
        );
    }

    #[test]
    fn there_is_stress_when_fewer_than_a_fifth_of_places_are_free() {
        let open_connections = OpenConnections::new(10, 10, Vec::new());
        let mut permits: Vec<ConnectionPermit> = (0..8)
            .filter_map(|_| open_connections.enter().ok())
            .collect();
        assert!(!open_connections.are_stressed());
        permits.extend(open_connections.enter());
        assert!(open_connections.are_stressed());
        permits.clear();
        assert!(!open_connections.are_stressed());
    }

    #[test]
    fn the_longest_remembered_without_a_letter_is_forgotten_first() {
        let open_connections = OpenConnections::new(1, 1, Vec::new());
        let address = |n: usize| IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(n).unwrap()));
        for n in (0..KNOWN_NETWORKS_MAX).chain([0, KNOWN_NETWORKS_MAX]) {
            open_connections.remember(Some(address(n)));
        }
        let known = &open_connections.lock().known;
        assert_eq!(known.len(), KNOWN_NETWORKS_MAX);
        assert!(known.contains_key(&address(0)) && !known.contains_key(&address(1)));
    }

    #[test]
    fn descriptors_that_are_open_or_will_be_needed_are_no_places() {
        let cases = [
            ((64, 22), 18),
            ((1024, 30), 866),
            ((1_048_576, 30), 1_048_418),
            ((32, 22), 1),
        ];
        for ((all, open), places) in cases {
            assert_eq!(
                places_of(all, open),
                places,
                "{all} descriptors, {open} of them open"
            );
        }
    }

    #[test]
    fn failed_logins_wait_ever_longer_then_lock_their_network_out() {
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(0)));
        let limits = Limits {
            login_failures_max: 7,
            ..Limits::default()
        };
        let logins = FailedLogins::new(&limits, clock.clone());
        let peer = |text: &str| Some(text.parse().unwrap());
        let waits: Vec<u128> = (0..7)
            .map(|_| logins.note(peer("192.0.2.1")).as_millis())
            .collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 8000, 8000]);
        assert!(!logins.may_try(peer("192.0.2.1")));
        assert!(logins.may_try(peer("192.0.2.2")) && logins.may_try(None));
        clock.advance(REMEMBERED_FOR);
        assert!(logins.may_try(peer("192.0.2.1")));
        assert_eq!(logins.note(peer("192.0.2.1")), limits.login_delay);
        for n in 0..2 * REMEMBERED_NETWORKS_MAX {
            logins.note(Some(IpAddr::V4(Ipv4Addr::from_bits(
                u32::try_from(n).unwrap(),
            ))));
        }
        assert_eq!(logins.lock().len(), REMEMBERED_NETWORKS_MAX);
    }

    #[test]
    fn the_limit_of_open_files_is_read_as_linux_writes_it() {
        let text = "Limit    Soft Limit  Hard Limit  Units\nMax open files            1024   524288   files\n";
        assert_eq!(descriptors(text), Some(1024));
        assert_eq!(
            descriptors("Max open files  unlimited  unlimited  files"),
            None
        );
    }
}
