//! What the sessions of all listeners share: places, memory for letters, and the memory of failed logins.

use super::memory::{LetterMemory, MemoryShares};
use crate::clock::Clock;
use crate::config::Limits;
use crate::domain::Network;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A failed login is held against its network for so long after the last one.
const REMEMBERED_FOR: Duration = Duration::from_secs(15 * 60);
/// Networks whose failed logins are remembered; the one that failed longest ago is forgotten for a new one.
const REMEMBERED_NETWORKS_MAX: usize = 4096;
/// The answer to a failed login waits twice as long each time, but only so often.
const LOGIN_DELAY_DOUBLINGS_MAX: usize = 4;

/// Networks that have brought letters and are remembered; the one that came longest ago is forgotten for a new one.
const KNOWN_NETWORKS_MAX: usize = 4096;
/// Descriptors that are kept for the database, the outbound side, the models and files: a quarter of all, in these bounds.
const DESCRIPTORS_KEPT_MIN: usize = 24;
const DESCRIPTORS_KEPT_MAX: usize = 128;

pub struct Lobby {
    pub visitors: Arc<Visitors>,
    pub memory: Arc<LetterMemory>,
    pub logins: FailedLogins,
    pub clock: Arc<dyn Clock>,
}

impl Lobby {
    /// `shares`: of the memory that the unfinished letters of all connections may hold together.
    pub fn new(limits: &Limits, shares: MemoryShares, clock: Arc<dyn Clock>) -> Arc<Self> {
        let places = limits.connections_max.min(places_by_file_descriptors());
        Arc::new(Self {
            visitors: Visitors::new(places, limits.connections_per_address_max, shares.relays.clone()),
            memory: LetterMemory::new(shares, clock.clone()),
            logins: FailedLogins::new(limits, clock.clone()),
            clock,
        })
    }
}

/// How many connections may be open without keeping the database, the outbound side and the models from theirs.
///
/// A connection that the process has no descriptor for cannot even be refused: it waits until somebody leaves.
fn places_by_file_descriptors() -> usize {
    // Only Linux has the file; elsewhere `connections_max` is the only bound.
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    descriptors(&limits).map_or(usize::MAX, |all| places_of(all, open))
}

/// Places among `all` descriptors, of which so many are `open` before the first connection comes.
fn places_of(all: usize, open: usize) -> usize {
    let kept = (all / 4).clamp(DESCRIPTORS_KEPT_MIN, DESCRIPTORS_KEPT_MAX);
    all.saturating_sub(open).saturating_sub(kept).max(1)
}

/// The soft limit of open files.
fn descriptors(limits: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok() // "unlimited" is no number and no limit
}

/// Who is connected, to keep one peer from taking every place, and many that do nothing from taking them together.
pub struct Visitors {
    places: Mutex<Places>,
    all: usize,
    per_network_max: usize,
    /// What is known to bring letters.
    relays: Vec<Network>,
}

struct Places {
    free: usize,
    /// Networks with at least one connection.
    taken: HashMap<IpAddr, usize>,
    /// Networks that have brought a letter, and when in the order of all of them.
    known: HashMap<IpAddr, u64>,
    letters: u64,
}

/// A place among the connections; dropping it frees the place.
pub struct Visit {
    visitors: Arc<Visitors>,
    /// `None`: not known yet, or a Unix socket.
    pub address: Option<IpAddr>,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// For anybody, or for anybody who has not brought a letter before.
    Everywhere,
    /// For this network, which has as many as one may have.
    There,
}

impl Visitors {
    fn new(all: usize, per_network_max: usize, relays: Vec<Network>) -> Arc<Self> {
        let places = Places { free: all, taken: HashMap::new(), known: HashMap::new(), letters: 0 };
        Arc::new(Self { places: Mutex::new(places), all, per_network_max, relays })
    }

    /// A place for somebody whose address does not matter, or is not known yet.
    pub fn enter(self: &Arc<Self>) -> Result<Visit, Full> {
        let mut places = self.lock();
        places.free = places.free.checked_sub(1).ok_or(Full::Everywhere)?;
        Ok(Visit { visitors: Arc::clone(self), address: None })
    }

    /// Whether fewer than a fifth of the places are free. Nobody is waited for as long as usual then, as by Postfix
    /// (<https://www.postfix.org/STRESS_README.html>).
    pub fn are_stressed(&self) -> bool {
        self.lock().free < self.all.div_ceil(5)
    }

    /// Notes that somebody has brought a letter: the last places are kept for such.
    pub fn remember(&self, address: Option<IpAddr>) {
        let Some(network) = address.map(network) else { return };
        let mut places = self.lock();
        places.letters += 1;
        let letter = places.letters;
        if places.known.len() >= KNOWN_NETWORKS_MAX && !places.known.contains_key(&network) {
            let oldest = places.known.iter().min_by_key(|(_, letter)| **letter).map(|(network, _)| *network);
            oldest.map(|oldest| places.known.remove(&oldest));
        }
        places.known.insert(network, letter);
    }

    /// Places that only those get who have brought letters before: a tenth.
    fn kept(&self) -> usize {
        self.all / 10
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Visit {
    /// Says whose visit it is. When there are too many from there, or only places for others are left, this one is free again.
    pub fn by(mut self, address: IpAddr) -> Result<Self, Full> {
        let visitors = self.visitors.clone();
        let is_relay = visitors.relays.iter().any(|relay| relay.contains(address));
        let mut places = visitors.lock();
        let network = network(address);
        if places.free < visitors.kept() && !is_relay && !places.known.contains_key(&network) {
            drop(places); // `self` takes the lock when it is dropped
            return Err(Full::Everywhere);
        }
        let from_there = places.taken.entry(network).or_insert(0);
        if *from_there >= visitors.per_network_max {
            drop(places);
            return Err(Full::There);
        }
        *from_there += 1;
        drop(places);
        self.address = Some(address.to_canonical());
        Ok(self)
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut places = self.visitors.lock();
        places.free += 1;
        let Some(network) = self.address.map(network) else { return };
        match places.taken.get_mut(&network) {
            Some(from_there) if *from_there > 1 => *from_there -= 1,
            _ => {
                places.taken.remove(&network);
            }
        }
    }
}

/// What counts as one peer: an IPv4 address, or an IPv6 /64, of which one customer has them all.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 => v4,
    }
}

/// Who guessed passwords lately. A bounded table: forgetting is harmless, growing is not.
pub struct FailedLogins {
    by_network: Mutex<HashMap<IpAddr, Failed>>,
    failures_max: usize,
    delay: Duration,
    clock: Arc<dyn Clock>,
}

#[derive(Clone, Copy)]
struct Failed {
    times: usize,
    /// [`Clock::monotonic`] of the last time.
    last: Duration,
}

impl FailedLogins {
    fn new(limits: &Limits, clock: Arc<dyn Clock>) -> Self {
        let (failures_max, delay) = (limits.login_failures_max, limits.login_delay);
        Self { by_network: Mutex::default(), failures_max, delay, clock }
    }

    /// Whether somebody may try a password at all.
    pub fn may_try(&self, peer: Option<IpAddr>) -> bool {
        let failed = self.lock().get(&origin(peer)).copied();
        failed.is_none_or(|failed| self.is_forgotten(failed) || failed.times < self.failures_max)
    }

    /// Notes a failure; gives how long its answer has to wait.
    pub fn note(&self, peer: Option<IpAddr>) -> Duration {
        let (origin, last) = (origin(peer), self.clock.monotonic());
        let mut table = self.lock();
        let before = table.get(&origin).copied().filter(|failed| !self.is_forgotten(*failed));
        if before.is_none() && table.len() >= REMEMBERED_NETWORKS_MAX {
            table.retain(|_, failed| !self.is_forgotten(*failed));
            let oldest = table.iter().min_by_key(|(_, failed)| failed.last).map(|(origin, _)| *origin);
            if let Some(oldest) = oldest.filter(|_| table.len() >= REMEMBERED_NETWORKS_MAX) {
                table.remove(&oldest);
            }
        }
        let times = before.map_or(1, |failed| failed.times.saturating_add(1));
        table.insert(origin, Failed { times, last });
        self.delay.saturating_mul(1 << (times - 1).min(LOGIN_DELAY_DOUBLINGS_MAX))
    }

    fn is_forgotten(&self, failed: Failed) -> bool {
        self.clock.monotonic().saturating_sub(failed.last) >= REMEMBERED_FOR
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Failed>> {
        self.by_network.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Peers without an address count as one.
fn origin(peer: Option<IpAddr>) -> IpAddr {
    peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), network)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::domain::Timestamp;

    fn entered(visitors: &Arc<Visitors>, text: &str) -> Result<Visit, Full> {
        visitors.enter().and_then(|visit| visit.by(text.parse().unwrap()))
    }

    #[test]
    fn places_are_limited_per_network_and_over_all_and_come_back() {
        let visitors = Visitors::new(3, 2, Vec::new());
        let enter = |text: &str| entered(&visitors, text);
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
        assert_eq!(enter("2001:db8:0:0:1::").err(), Some(Full::There), "same /64");
        drop(c);
        assert!(visitors.enter().is_ok(), "a socket without an address");
        drop(d);
        let places = visitors.lock();
        assert_eq!((places.free, places.taken.len()), (3, 0));
    }

    #[test]
    fn the_last_places_are_for_who_has_brought_letters_and_for_relays() {
        let visitors = Visitors::new(20, 20, vec![Network::parse("198.51.100.0/24").unwrap()]);
        visitors.remember("192.0.2.1".parse().ok());
        let strangers: Vec<Visit> = (0..).map_while(|_| entered(&visitors, "203.0.113.1").ok()).collect();
        assert_eq!(strangers.len(), 18);
        let kept: Vec<_> =
            ["192.0.2.1", "198.51.100.7", "192.0.2.1"].map(|text| entered(&visitors, text)).into();
        assert_eq!(kept.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false]);
    }

    #[test]
    fn there_is_stress_when_fewer_than_a_fifth_of_the_places_are_free() {
        let visitors = Visitors::new(10, 10, Vec::new());
        let mut visits: Vec<Visit> = (0..8).filter_map(|_| visitors.enter().ok()).collect();
        assert!(!visitors.are_stressed());
        visits.extend(visitors.enter());
        assert!(visitors.are_stressed());
        visits.clear();
        assert!(!visitors.are_stressed());
    }

    #[test]
    fn who_is_remembered_longest_without_a_letter_is_forgotten_first() {
        let visitors = Visitors::new(1, 1, Vec::new());
        let address = |n: usize| IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(n).unwrap()));
        for n in (0..KNOWN_NETWORKS_MAX).chain([0, KNOWN_NETWORKS_MAX]) {
            visitors.remember(Some(address(n)));
        }
        let known = &visitors.lock().known;
        assert_eq!(known.len(), KNOWN_NETWORKS_MAX);
        assert!(known.contains_key(&address(0)) && !known.contains_key(&address(1)));
    }

    #[test]
    fn descriptors_that_are_open_or_will_be_needed_are_no_places() {
        let cases = [((64, 22), 18), ((1024, 30), 866), ((1_048_576, 30), 1_048_418), ((32, 22), 1)];
        for ((all, open), places) in cases {
            assert_eq!(places_of(all, open), places, "{all} descriptors, {open} of them open");
        }
    }

    #[test]
    fn failed_logins_wait_longer_each_time_then_lock_their_network_out_for_a_while() {
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(0)));
        let limits = Limits { login_failures_max: 7, ..Limits::default() };
        let logins = FailedLogins::new(&limits, clock.clone());
        let peer = |text: &str| Some(text.parse().unwrap());
        let waits: Vec<u128> = (0..7).map(|_| logins.note(peer("192.0.2.1")).as_millis()).collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 8000, 8000]);
        assert!(!logins.may_try(peer("192.0.2.1")));
        assert!(logins.may_try(peer("192.0.2.2")) && logins.may_try(None));
        clock.advance(REMEMBERED_FOR);
        assert!(logins.may_try(peer("192.0.2.1")));
        assert_eq!(logins.note(peer("192.0.2.1")), limits.login_delay);
        for n in 0..2 * REMEMBERED_NETWORKS_MAX {
            logins.note(Some(IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(n).unwrap()))));
        }
        assert_eq!(logins.lock().len(), REMEMBERED_NETWORKS_MAX);
    }

    #[test]
    fn the_limit_of_open_files_is_read_as_linux_writes_it() {
        let text =
            "Limit    Soft Limit  Hard Limit  Units\nMax open files            1024   524288   files\n";
        assert_eq!(descriptors(text), Some(1024));
        assert_eq!(descriptors("Max open files  unlimited  unlimited  files"), None);
    }
}
