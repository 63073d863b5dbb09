//! What the sessions of all listeners share: places, memory for letters, and the memory of failed logins.

use super::data::LetterMemory;
use crate::clock::Clock;
use crate::config::Limits;
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

pub struct Lobby {
    pub visitors: Arc<Visitors>,
    pub memory: Arc<LetterMemory>,
    pub logins: FailedLogins,
}

impl Lobby {
    /// `letters_in_memory_bytes_max`: what the unfinished letters of all connections may hold together.
    pub fn new(limits: &Limits, letters_in_memory_bytes_max: usize, clock: Arc<dyn Clock>) -> Arc<Self> {
        let places = limits.connections_max.min(places_by_file_descriptors());
        Arc::new(Self {
            visitors: Visitors::new(places, limits.connections_per_address_max),
            memory: LetterMemory::new(letters_in_memory_bytes_max),
            logins: FailedLogins::new(limits, clock),
        })
    }
}

/// How many connections may be open without keeping the database, the outbound side and the models from theirs.
///
/// A connection that the process has no descriptor for cannot even be refused: it waits until somebody leaves.
fn places_by_file_descriptors() -> usize {
    // Only Linux has the file; elsewhere `connections_max` is the only bound.
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    descriptors(&limits).map_or(usize::MAX, |all| all.saturating_sub(all.min(512) / 4).max(1))
}

/// The soft limit of open files.
fn descriptors(limits: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok() // "unlimited" is no number and no limit
}

/// Who is connected, to keep one peer from taking every place.
pub struct Visitors {
    places: Mutex<Places>,
    per_network_max: usize,
}

struct Places {
    free: usize,
    /// Networks with at least one connection.
    taken: HashMap<IpAddr, usize>,
}

/// A place among the connections; dropping it frees the place.
pub struct Visit {
    visitors: Arc<Visitors>,
    /// `None`: not known yet, or a Unix socket.
    pub address: Option<IpAddr>,
}

impl Visitors {
    fn new(connections_max: usize, per_network_max: usize) -> Arc<Self> {
        let places = Places { free: connections_max, taken: HashMap::new() };
        Arc::new(Self { places: Mutex::new(places), per_network_max })
    }

    /// A place for somebody whose address does not matter, or is not known yet.
    pub fn enter(self: &Arc<Self>) -> Option<Visit> {
        let mut places = self.lock();
        places.free = places.free.checked_sub(1)?;
        Some(Visit { visitors: Arc::clone(self), address: None })
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Visit {
    /// Says whose visit it is; `None` when there are too many from there, and the place is free again.
    pub fn by(mut self, address: IpAddr) -> Option<Self> {
        let mut places = self.visitors.lock();
        let from_there = places.taken.entry(network(address)).or_insert(0);
        if *from_there < self.visitors.per_network_max {
            *from_there += 1;
            drop(places);
            self.address = Some(address.to_canonical());
            return Some(self);
        }
        drop(places); // `self` takes the lock when it is dropped
        None
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
fn network(address: IpAddr) -> IpAddr {
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

    #[test]
    fn places_are_limited_per_network_and_over_all_and_come_back() {
        let visitors = Visitors::new(3, 2);
        let enter = |text: &str| visitors.enter().and_then(|visit| visit.by(text.parse().unwrap()));
        let a = enter("192.0.2.1").unwrap();
        let b = enter("::ffff:192.0.2.1").unwrap();
        assert!(enter("192.0.2.1").is_none());
        let c = enter("2001:db8::1").unwrap();
        assert!(enter("192.0.2.9").is_none(), "no place left");
        drop(b);
        let d = enter("2001:db8::ffff:1").unwrap();
        assert!(enter("2001:db8:0:0:1::").is_none(), "same /64");
        drop((a, c));
        assert!(visitors.enter().is_some(), "a socket without an address");
        drop(d);
        let places = visitors.lock();
        assert_eq!((places.free, places.taken.len()), (3, 0));
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
