//! Open connections of the pages, bounded in all and by network. Whoever has not shown a session or a key gives way.

use crate::domain::{network_of, peer_network};
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// Most connections of a listener without streams of events. A browser opens six.
const CONNECTIONS_MAX: usize = 160;
/// Most connections of one network; a proxy is bounded by all.
const CONNECTIONS_PER_NETWORK_MAX: usize = 80;

/// Other end of a connection, or the client for which a proxy speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum WebPeer {
    Address(IpAddr),
    /// Whoever may connect to a Unix socket: they cannot be told apart, and count as one.
    Socket,
}

impl WebPeer {
    /// Returns the peer with which failed attempts are counted: one holder of an IPv6 network has many addresses.
    pub(super) fn network(self) -> Self {
        match self {
            Self::Address(address) => Self::Address(peer_network(address)),
            Self::Socket => Self::Socket,
        }
    }

    /// Returns the network whose places it takes: /64, or /24 of IPv4. Others of it are only slower while one attacks.
    fn neighbours(self) -> Self {
        match self {
            Self::Address(address) => Self::Address(network_of(address, 24, 64)),
            Self::Socket => Self::Socket,
        }
    }
}

impl fmt::Display for WebPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Socket => f.write_str("unix:"),
        }
    }
}

#[derive(Default)]
pub(super) struct WebConnections {
    open: Mutex<WebPlaces>,
}

/// Connections in the order in which they came.
#[derive(Default)]
struct WebPlaces {
    next: u64,
    all: Vec<OpenConnection>,
}

struct OpenConnection {
    id: u64,
    network: WebPeer,
    /// `true`: a session or a key came by it.
    is_known: bool,
    /// `true`: a stream of events goes over it. Streams have a bound of their own, and take no place.
    is_stream: bool,
    cut: CancellationToken,
}

/// Permit of a connection; dropping it frees its place.
pub(super) struct WebPermit {
    connections: Arc<WebConnections>,
    id: u64,
    /// Peer whose place it is.
    pub(super) peer: WebPeer,
    /// Cancelled when the place is given to another.
    pub(super) cut: CancellationToken,
}

/// Mark of a connection, for its requests.
#[derive(Clone)]
pub(super) struct ConnectionMark {
    connections: Arc<WebConnections>,
    id: u64,
}

/// A connection while a stream of events goes over it.
pub(super) struct StreamPlace(ConnectionMark);

impl Drop for StreamPlace {
    fn drop(&mut self) {
        self.0.change(|one| one.is_stream = false);
    }
}

impl ConnectionMark {
    /// Keeps the connection its place: a session or a key came by it.
    pub(super) fn is_known(&self) {
        self.change(|one| one.is_known = true);
    }

    /// Gives the place of the connection free while a stream of events goes over it.
    pub(super) fn streams(&self) -> StreamPlace {
        self.change(|one| one.is_stream = true);
        StreamPlace(self.clone())
    }

    fn change(&self, change: impl FnOnce(&mut OpenConnection)) {
        let mut open = self.connections.open();
        if let Some(own) = open.all.iter_mut().find(|one| one.id == self.id) {
            change(own);
        }
    }
}

impl WebConnections {
    fn open(&self) -> std::sync::MutexGuard<'_, WebPlaces> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a peer; `None`: there is none. Where all are taken, the network with the most connections that nobody is
    /// known by loses its oldest.
    pub(super) fn enter(self: &Arc<Self>, peer: WebPeer, is_proxy: bool) -> Option<WebPermit> {
        let (mut open, network) = (self.open(), peer.neighbours());
        let places = || open.all.iter().filter(|one| !one.is_stream);
        let own = places().filter(|one| one.network == network).count();
        if !is_proxy && own >= CONNECTIONS_PER_NETWORK_MAX {
            return None;
        }
        if places().count() >= CONNECTIONS_MAX {
            let place = open.place_of_a_stranger(network)?;
            open.all.remove(place).cut.cancel();
        }
        let (id, cut) = (open.next, CancellationToken::new());
        open.next += 1;
        open.all.push(OpenConnection {
            id,
            network,
            is_known: false,
            is_stream: false,
            cut: cut.clone(),
        });
        Some(WebPermit {
            connections: self.clone(),
            id,
            peer,
            cut,
        })
    }
}

impl WebPlaces {
    /// Returns the oldest connection of the network that has the most of those that nobody is known by; `None`: a newcomer of
    /// `network` has no better claim.
    fn place_of_a_stranger(&self, network: WebPeer) -> Option<usize> {
        let mut counts: HashMap<WebPeer, usize> = HashMap::new();
        let strangers = || self.all.iter().filter(|one| !one.is_known);
        strangers().for_each(|one| *counts.entry(one.network).or_default() += 1);
        let most = counts.values().max().copied()?;
        let own = counts.get(&network).copied().unwrap_or(0);
        let gives_way =
            |one: &OpenConnection| !one.is_known && counts.get(&one.network) == Some(&most);
        // Whoever has as many himself gives way to himself.
        match own < most {
            true => self.all.iter().position(gives_way),
            false => self
                .all
                .iter()
                .position(|one| !one.is_known && one.network == network),
        }
    }
}

impl WebPermit {
    pub(super) fn mark(&self) -> ConnectionMark {
        ConnectionMark {
            connections: self.connections.clone(),
            id: self.id,
        }
    }
}

impl Drop for WebPermit {
    fn drop(&mut self) {
        self.connections.open().all.retain(|one| one.id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> WebPeer {
        WebPeer::Address(text.parse().expect("an address"))
    }

    /// Takes places until there is none, or so many are taken.
    fn fill(
        connections: &Arc<WebConnections>,
        of: WebPeer,
        is_proxy: bool,
        most: usize,
    ) -> Vec<WebPermit> {
        let permits = std::iter::from_fn(|| connections.enter(of, is_proxy));
        permits.take(most).collect()
    }

    #[test]
    fn one_network_cannot_take_every_place_and_a_proxy_can() {
        let connections = Arc::new(WebConnections::default());
        let one = fill(&connections, peer("192.0.2.1"), false, 999);
        assert_eq!(one.len(), CONNECTIONS_PER_NETWORK_MAX);
        let cases = [
            ("192.0.2.254", false),
            ("192.0.3.1", true),
            ("::ffff:192.0.2.9", false),
            ("198.51.100.1", true),
            ("2001:db8::1", true),
        ];
        for (address, is_let_in) in cases {
            assert_eq!(
                connections.enter(peer(address), false).is_some(),
                is_let_in,
                "{address}"
            );
        }
        drop(one);
        let six = fill(&connections, peer("2001:db8:0:1::1"), false, 999);
        assert_eq!(six.len(), CONNECTIONS_PER_NETWORK_MAX);
        assert!(
            connections
                .enter(peer("2001:db8:0:1:ffff::2"), false)
                .is_none(),
            "its /64"
        );
        assert!(connections.enter(peer("2001:db8:0:2::1"), false).is_some());
        drop(six);
        let proxy = fill(&connections, peer("192.0.2.1"), true, CONNECTIONS_MAX);
        assert_eq!(proxy.len(), CONNECTIONS_MAX);
        drop(proxy);
        let socket = fill(&connections, WebPeer::Socket, false, 999);
        assert_eq!(
            socket.len(),
            CONNECTIONS_PER_NETWORK_MAX,
            "a socket is one peer"
        );
        drop(socket);
        assert!(connections.open().all.is_empty());
    }

    #[test]
    fn strangers_who_have_all_places_give_way_to_others_and_known_callers_to_nobody() {
        let connections = Arc::new(WebConnections::default());
        let one = fill(&connections, peer("192.0.2.1"), false, 80);
        let other = fill(&connections, peer("198.51.100.1"), false, 80);
        let known =
            |permits: &[WebPermit]| permits.iter().for_each(|permit| permit.mark().is_known());
        let cut = |permits: &[WebPermit]| {
            permits
                .iter()
                .filter(|permit| permit.cut.is_cancelled())
                .count()
        };
        known(&one[..5]);
        // The first stranger of the network that has the most.
        let newcomer = connections
            .enter(peer("203.0.113.1"), false)
            .expect("a place");
        assert_eq!((cut(&one), cut(&other)), (0, 1));
        assert!(other[0].cut.is_cancelled() && !newcomer.cut.is_cancelled());
        // A network that floods gives way to itself.
        let third = fill(&connections, peer("203.0.113.9"), false, 79);
        assert_eq!(third.len(), 79, "each has a place");
        let all = connections.open().all.len();
        assert_eq!(all, CONNECTIONS_MAX);
        let strangers = |permits: &[WebPermit]| permits.len() - cut(permits);
        let left = [strangers(&one), strangers(&other), strangers(&third)];
        assert!(
            left.iter().all(|left| (50..60).contains(left)),
            "they share what there is: {left:?}"
        );
        assert_eq!(cut(&one[..5]), 0, "who is known keeps the place");
        // A stream of events takes no place, until it ends.
        let all_cut = || cut(&one) + cut(&other) + cut(&third);
        let before = all_cut();
        let stream = one[0].mark().streams();
        let beside = connections.enter(peer("203.0.114.1"), false);
        assert!(beside.is_some() && all_cut() == before);
        drop((stream, beside));
        // Where all are known, nobody gives way.
        known(&one);
        known(&other);
        known(&third);
        newcomer.mark().is_known();
        assert!(connections.enter(peer("203.0.114.1"), false).is_none());
        drop((one, other, third, newcomer));
        assert!(connections.open().all.is_empty());
    }
}
