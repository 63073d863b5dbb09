//! Memory for unfinished letters: one pool for all connections, with a share per network, from
//! which slow letters are cut.

use crate::clock::Clock;
use crate::domain::{Network, peer_network};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const MIB: usize = 1024 * 1024;
/// Maximum bytes of a small letter, which may use the part reserved for small ones and grows in
/// small steps.
const SMALL_BYTES: usize = MIB;
/// Bytes reserved for small letters, whatever the large ones use.
const KEPT_FOR_SMALL_BYTES: usize = 4 * MIB;
const SMALL_STEP_BYTES: usize = 64 * 1024;
const LARGE_STEP_BYTES: usize = MIB;
/// A letter that receives fewer bytes than this...
const PACE_BYTES: usize = 256 * 1024;
/// ...within this time may be cut when there is no room for another one.
const PACE_SPAN: Duration = Duration::from_secs(10);

/// Size of the pool and its shares.
#[derive(Debug, Clone)]
pub struct MemoryShares {
    pub bytes: usize,
    /// Maximum bytes of the unfinished letters of one network.
    pub network_bytes_max: usize,
    /// Part of `bytes` reserved for letters of at most 1 MiB.
    pub kept_for_small_bytes: usize,
    /// Networks of our relays, which forward mail of all senders: their share is the whole pool.
    pub relays: Vec<Network>,
}

impl MemoryShares {
    /// Room for four of the largest letters, one of them per network, and for small ones in
    /// addition.
    pub fn for_letters(letter_bytes_max: usize, relays: Vec<Network>) -> Self {
        let largest = letter_bytes_max
            .max(LARGE_STEP_BYTES)
            .next_multiple_of(LARGE_STEP_BYTES);
        Self {
            bytes: largest
                .saturating_mul(4)
                .saturating_add(KEPT_FOR_SMALL_BYTES),
            network_bytes_max: largest,
            kept_for_small_bytes: KEPT_FOR_SMALL_BYTES,
            relays,
        }
    }
}

/// The pool.
pub struct LetterMemory {
    shares: MemoryShares,
    clock: Arc<dyn Clock>,
    state: Mutex<PoolState>,
}

#[derive(Default)]
struct PoolState {
    taken_bytes: usize,
    by_network: HashMap<IpAddr, usize>,
    letters: BTreeMap<u64, LetterAccount>,
    next_letter: u64,
}

/// State of a letter that uses memory.
struct LetterAccount {
    /// Network whose share it uses; `None`: no share.
    network: Option<IpAddr>,
    bytes: usize,
    /// [`Clock::monotonic`] when [`PACE_BYTES`] had last arrived; `None`: it is complete and cannot
    /// be cut.
    paced_at: Option<Duration>,
    cut: CancellationToken,
}

impl LetterMemory {
    pub fn new(shares: MemoryShares, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            shares,
            clock,
            state: Mutex::default(),
        })
    }

    /// Starts a reservation for a letter of this peer, without memory yet. `None`: no share, as for
    /// LMTP and a Unix socket.
    pub fn for_letter_of(self: &Arc<Self>, peer: Option<IpAddr>) -> MemoryReservation {
        let has_share =
            |peer: &IpAddr| !self.shares.relays.iter().any(|relay| relay.contains(*peer));
        let network = peer.filter(has_share).map(peer_network);
        MemoryReservation {
            memory: self.clone(),
            network,
            letter: None,
            bytes: 0,
            unpaced_bytes: 0,
        }
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub fn taken_bytes(&self) -> usize {
        self.lock().taken_bytes
    }
}

impl PoolState {
    /// Reserves `more` for a letter of `bytes`, if necessary by cutting slow letters.
    fn take(
        &mut self,
        shares: &MemoryShares,
        (own, bytes): (Option<u64>, usize),
        network: Option<IpAddr>,
        more: usize,
        now: Duration,
    ) -> bool {
        let is_small = bytes.saturating_add(more) <= SMALL_BYTES;
        let (kept, beyond_share) = if is_small {
            (0, SMALL_BYTES)
        } else {
            (shares.kept_for_small_bytes, 0)
        };
        let share = shares.network_bytes_max.saturating_add(beyond_share);
        let of_network = |state: &Self| {
            network
                .and_then(|network| state.by_network.get(&network))
                .copied()
                .unwrap_or(0)
        };
        while network.is_some() && of_network(self).saturating_add(more) > share {
            if !self.cut_slowest(own, network, now) {
                return false;
            }
        }
        while self.taken_bytes.saturating_add(more).saturating_add(kept) > shares.bytes {
            if !self.cut_slowest(own, None, now) {
                return false;
            }
        }
        self.taken_bytes += more;
        if let Some(network) = network {
            *self.by_network.entry(network).or_insert(0) += more;
        }
        true
    }

    /// Cuts the letter that has gone longest without [`PACE_BYTES`], in that network or in all. Its
    /// memory is assigned to another letter at once and freed a moment later.
    fn cut_slowest(&mut self, own: Option<u64>, network: Option<IpAddr>, now: Duration) -> bool {
        let others = self.letters.iter().filter(|(id, _)| Some(**id) != own);
        let others = others.filter(|(_, letter)| network.is_none() || letter.network == network);
        let slow = others.filter_map(|(id, letter)| Some((letter.paced_at?, *id)));
        let slowest = slow
            .min()
            .filter(|(paced_at, _)| now.saturating_sub(*paced_at) >= PACE_SPAN);
        let Some(letter) = slowest.and_then(|(_, id)| self.remove(id)) else {
            return false;
        };
        tracing::debug!(
            bytes = letter.bytes,
            "a letter that came too slowly was cut off to make room"
        );
        letter.cut.cancel();
        true
    }

    fn remove(&mut self, id: u64) -> Option<LetterAccount> {
        let letter = self.letters.remove(&id)?;
        self.taken_bytes = self.taken_bytes.saturating_sub(letter.bytes);
        if let Some(network) = letter.network
            && let Some(bytes) = self.by_network.get_mut(&network)
        {
            *bytes = bytes.saturating_sub(letter.bytes);
            if *bytes == 0 {
                self.by_network.remove(&network);
            }
        }
        Some(letter)
    }
}

/// Reservation of one letter in the pool; dropping it frees it.
pub struct MemoryReservation {
    memory: Arc<LetterMemory>,
    network: Option<IpAddr>,
    /// Id of the letter and the token that cuts it; `None` before its first byte.
    letter: Option<(u64, CancellationToken)>,
    bytes: usize,
    /// Bytes received since `paced_at` was last set.
    unpaced_bytes: usize,
}

impl MemoryReservation {
    /// Reserves in steps until there are at least `bytes`; returns the number reserved, `None` when
    /// there is no room.
    pub fn up_to(&mut self, bytes: usize) -> Option<usize> {
        if bytes <= self.bytes {
            return Some(self.bytes);
        }
        let step = if bytes <= SMALL_BYTES {
            SMALL_STEP_BYTES
        } else {
            LARGE_STEP_BYTES
        };
        let more = bytes.next_multiple_of(step) - self.bytes;
        let now = self.memory.clock.monotonic();
        let mut state = self.memory.lock();
        let own = self.letter.as_ref().map(|(id, _)| *id);
        // A letter that was cut has lost its memory.
        let is_cut = own.is_some_and(|id| !state.letters.contains_key(&id));
        if is_cut
            || !state.take(
                &self.memory.shares,
                (own, self.bytes),
                self.network,
                more,
                now,
            )
        {
            return None;
        }
        self.bytes += more;
        match own.and_then(|id| state.letters.get_mut(&id)) {
            Some(letter) => letter.bytes = self.bytes,
            None => {
                let (id, cut) = (state.next_letter, CancellationToken::new());
                state.next_letter += 1;
                let letter = LetterAccount {
                    network: self.network,
                    bytes: self.bytes,
                    paced_at: Some(now),
                    cut: cut.clone(),
                };
                state.letters.insert(id, letter);
                self.letter = Some((id, cut));
            }
        }
        Some(self.bytes)
    }

    /// Records the arrival of `bytes`.
    pub fn came(&mut self, bytes: usize) {
        self.unpaced_bytes = self.unpaced_bytes.saturating_add(bytes);
        if self.unpaced_bytes >= PACE_BYTES {
            self.unpaced_bytes = 0;
            let now = self.memory.clock.monotonic();
            self.with_letter(|letter| letter.paced_at = Some(now));
        }
    }

    /// Records that the letter is complete: it no longer depends on its peer.
    pub fn whole(&mut self) {
        self.with_letter(|letter| letter.paced_at = None);
    }

    fn with_letter(&self, change: impl FnOnce(&mut LetterAccount)) {
        let Some((id, _)) = &self.letter else { return };
        if let Some(letter) = self.memory.lock().letters.get_mut(id) {
            change(letter);
        }
    }

    /// Resolves when the letter was cut to free memory for another one.
    pub async fn cut(&self) {
        match &self.letter {
            Some((_, cut)) => cut.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// Frees the whole reservation.
    pub fn release(&mut self) {
        self.bytes = 0;
        if let Some((id, _)) = self.letter.take() {
            self.memory.lock().remove(id);
        }
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::domain::Timestamp;

    /// Four letters of 2 MiB, and 1 MiB for small ones.
    fn pool(relays: &[&str]) -> (Arc<LetterMemory>, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(0)));
        let relays = relays
            .iter()
            .map(|relay| Network::parse(relay).unwrap())
            .collect();
        let shares = MemoryShares {
            bytes: 9 * MIB,
            network_bytes_max: 2 * MIB,
            kept_for_small_bytes: MIB,
            relays,
        };
        (LetterMemory::new(shares, clock.clone()), clock)
    }

    fn letter(memory: &Arc<LetterMemory>, peer: &str) -> MemoryReservation {
        memory.for_letter_of(peer.parse().ok())
    }

    /// Letters of four networks that use everything but the part reserved for small ones.
    fn hold_all(memory: &Arc<LetterMemory>) -> Vec<MemoryReservation> {
        let peers = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"];
        let mut held: Vec<MemoryReservation> =
            peers.iter().map(|peer| letter(memory, peer)).collect();
        assert!(
            held.iter_mut()
                .all(|letter| letter.up_to(2 * MIB) == Some(2 * MIB))
        );
        held
    }

    #[test]
    fn a_network_gets_its_share_a_relay_or_a_socket_has_none() {
        let (memory, _) = pool(&["198.51.100.0/24"]);
        let (mut large, mut small) = (letter(&memory, "192.0.2.1"), letter(&memory, "192.0.2.1"));
        assert_eq!(
            (large.up_to(2 * MIB), large.up_to(2 * MIB + 1)),
            (Some(2 * MIB), None)
        );
        assert_eq!(
            (small.up_to(1), small.up_to(MIB + 1)),
            (Some(SMALL_STEP_BYTES), None)
        );
        drop((large, small));
        let mut others = [letter(&memory, "198.51.100.7"), letter(&memory, "")];
        assert!(
            others
                .iter_mut()
                .all(|letter| letter.up_to(5 * MIB / 2).is_some())
        );
        drop(others);
        let state = memory.lock();
        assert_eq!(
            (
                state.taken_bytes,
                state.by_network.len(),
                state.letters.len()
            ),
            (0, 0, 0)
        );
    }

    #[test]
    fn what_is_kept_for_small_letters_is_not_given_to_large_ones() {
        let (memory, _) = pool(&[]);
        let held = hold_all(&memory);
        let (mut large, mut small) = (letter(&memory, "192.0.2.5"), letter(&memory, "192.0.2.6"));
        assert_eq!(
            small.up_to(3 * SMALL_STEP_BYTES - 1),
            Some(3 * SMALL_STEP_BYTES)
        );
        assert_eq!(
            (large.up_to(MIB / 2), large.up_to(MIB + 1)),
            (Some(MIB / 2), None)
        );
        drop(held);
        assert_eq!(large.up_to(MIB + 1), Some(2 * MIB));
    }

    #[test]
    fn without_room_only_the_letter_that_came_on_longest_ago_is_cut() {
        let (memory, clock) = pool(&[]);
        let mut held = hold_all(&memory);
        let mut large = letter(&memory, "192.0.2.5");
        assert_eq!(large.up_to(2 * MIB), None, "all of them have just begun");
        clock.advance(PACE_SPAN / 2);
        held[0].came(PACE_BYTES);
        held[1].came(PACE_BYTES - 1);
        held[2].whole();
        clock.advance(PACE_SPAN / 2);
        assert_eq!(large.up_to(2 * MIB), Some(2 * MIB));
        let is_cut = |letter: &MemoryReservation| {
            letter
                .letter
                .as_ref()
                .is_some_and(|(_, cut)| cut.is_cancelled())
        };
        assert_eq!(
            held.iter().map(is_cut).collect::<Vec<_>>(),
            [false, true, false, false]
        );
        assert_eq!(
            held[1].up_to(2 * MIB + 1),
            None,
            "what was cut gets nothing more"
        );
        let mut second = letter(&memory, "192.0.2.6");
        assert_eq!(second.up_to(2 * MIB), Some(2 * MIB));
        assert!(is_cut(&held[3]));
        assert_eq!(
            letter(&memory, "192.0.2.7").up_to(2 * MIB),
            None,
            "one comes on, one is whole, two have just begun"
        );
        drop((held, large, second));
        assert_eq!(memory.taken_bytes(), 0);
    }

    #[test]
    fn a_network_at_its_share_loses_a_slow_letter_for_a_new_one() {
        let (memory, clock) = pool(&[]);
        let held = hold_all(&memory);
        clock.advance(PACE_SPAN);
        let mut own = letter(&memory, "192.0.2.3");
        assert_eq!(own.up_to(2 * MIB), Some(2 * MIB));
        let is_cut = |letter: &MemoryReservation| {
            letter
                .letter
                .as_ref()
                .is_some_and(|(_, cut)| cut.is_cancelled())
        };
        assert_eq!(
            held.iter().map(is_cut).collect::<Vec<_>>(),
            [false, false, true, false]
        );
    }

    #[test]
    fn the_largest_letter_fits_into_a_share_whatever_its_size() {
        for letter_bytes_max in [1024, 25 * MIB, 25 * MIB + 1] {
            let shares = MemoryShares::for_letters(letter_bytes_max, Vec::new());
            let clock = Arc::new(ManualClock::at(Timestamp::from_millis(0)));
            let memory = LetterMemory::new(shares, clock);
            let mut letters: Vec<_> = (1..=4)
                .map(|n| letter(&memory, &format!("192.0.2.{n}")))
                .collect();
            assert!(
                letters
                    .iter_mut()
                    .all(|letter| letter.up_to(letter_bytes_max).is_some())
            );
        }
    }
}
