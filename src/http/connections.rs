//! Open connections of the pages, bounded in all and by address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Most connections of a listener. A browser opens six, and a tab that is seen has a stream of events.
const CONNECTIONS_MAX: usize = 160;
/// Most connections of one address; a proxy is bounded by all.
const CONNECTIONS_PER_ADDRESS_MAX: usize = 80;

#[derive(Default)]
pub(super) struct WebConnections {
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// Permit of a connection; dropping it frees its place.
pub(super) struct WebPermit {
    connections: Arc<WebConnections>,
    address: IpAddr,
}

impl WebConnections {
    /// Takes a place for an address; `None`: there is none.
    pub(super) fn enter(self: &Arc<Self>, address: IpAddr, is_proxy: bool) -> Option<WebPermit> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = open.values().sum();
        let own = open.get(&address).copied().unwrap_or(0);
        if all >= CONNECTIONS_MAX || (!is_proxy && own >= CONNECTIONS_PER_ADDRESS_MAX) {
            return None;
        }
        open.insert(address, own + 1);
        Some(WebPermit {
            connections: self.clone(),
            address,
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
        match open.get_mut(&self.address) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                open.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_take_every_place_and_a_proxy_can() {
        let connections = Arc::new(WebConnections::default());
        let (one, other) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2]));
        let mut permits: Vec<WebPermit> = Vec::new();
        permits.extend(std::iter::from_fn(|| connections.enter(one, false)));
        assert_eq!(permits.len(), CONNECTIONS_PER_ADDRESS_MAX);
        permits.extend(std::iter::from_fn(|| connections.enter(other, true)));
        assert_eq!(permits.len(), CONNECTIONS_MAX);
        permits.clear();
        assert!(connections.enter(one, false).is_some());
        assert_eq!(connections.open.lock().unwrap().len(), 0);
    }
}
