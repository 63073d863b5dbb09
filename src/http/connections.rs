//! Open connections of the pages, bounded in all and by peer.

use crate::domain::peer_network;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Most connections of a listener. A browser opens six, and a tab that is seen has a stream of events.
const CONNECTIONS_MAX: usize = 160;
/// Most connections of one peer; a proxy is bounded by all.
const CONNECTIONS_PER_PEER_MAX: usize = 80;

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
    open: Mutex<HashMap<WebPeer, usize>>,
}

/// Permit of a connection; dropping it frees its place.
pub(super) struct WebPermit {
    connections: Arc<WebConnections>,
    /// Peer whose place it is.
    pub(super) peer: WebPeer,
}

impl WebConnections {
    /// Takes a place for a peer; `None`: there is none.
    pub(super) fn enter(self: &Arc<Self>, peer: WebPeer, is_proxy: bool) -> Option<WebPermit> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = open.values().sum();
        let own = open.get(&peer).copied().unwrap_or(0);
        if all >= CONNECTIONS_MAX || (!is_proxy && own >= CONNECTIONS_PER_PEER_MAX) {
            return None;
        }
        open.insert(peer, own + 1);
        Some(WebPermit {
            connections: self.clone(),
            peer,
        })
    }
}

impl Drop for WebPermit {
    fn drop(&mut self) {
        let mut open = self
            .connections
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match open.get_mut(&self.peer) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                open.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_peer_cannot_take_every_place_and_a_proxy_can() {
        let connections = Arc::new(WebConnections::default());
        let address = |last| WebPeer::Address(IpAddr::from([127, 0, 0, last]));
        let (one, other) = (address(1), address(2));
        let mut permits: Vec<WebPermit> = Vec::new();
        permits.extend(std::iter::from_fn(|| connections.enter(one, false)));
        assert_eq!(permits.len(), CONNECTIONS_PER_PEER_MAX);
        permits.extend(std::iter::from_fn(|| connections.enter(other, true)));
        assert_eq!(permits.len(), CONNECTIONS_MAX);
        permits.clear();
        permits.extend(std::iter::from_fn(|| {
            connections.enter(WebPeer::Socket, false)
        }));
        assert_eq!(
            permits.len(),
            CONNECTIONS_PER_PEER_MAX,
            "a socket is one peer"
        );
        permits.clear();
        assert!(connections.enter(one, false).is_some());
        assert_eq!(connections.open.lock().unwrap().len(), 0);
    }
}
