//! Accepts connections and supervises their sessions: limits per address and over all, a bounded end.

use super::SmtpSettings;
use super::reply;
use super::session::{House, converse};
use crate::gateway::door::Door;
use std::collections::HashMap;
use std::io::Write;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

/// Pause after a failed accept: with all file descriptors in use, `accept` fails at once and for ever.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `shutdown`, then lets letters in flight finish within `drain_max`.
pub async fn serve(
    listener: TcpListener,
    door: Arc<dyn Door>,
    settings: SmtpSettings,
    shutdown: CancellationToken,
) {
    let limits = settings.limits.clone();
    let house = House::new(door, settings, shutdown.clone());
    let visitors = Arc::new(Visitors::new(limits.connections_max, limits.connections_per_address_max));
    let mut sessions = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            Some(ended) = sessions.join_next() => report(ended),
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => match visitors.enter(peer.ip()) {
                    Some(visit) => {
                        sessions.spawn(session(stream, house.clone(), visit));
                    }
                    None => turn_away(stream),
                },
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener); // new peers are refused by the kernel from here on
    let drained = async {
        while let Some(ended) = sessions.join_next().await {
            report(ended);
        }
    };
    if tokio::time::timeout(limits.drain_max, drained).await.is_err() {
        tracing::warn!(sessions = sessions.len(), "SMTP sessions did not end in time and are cut");
        sessions.shutdown().await;
    }
}

async fn session(stream: TcpStream, house: House, visit: Visit) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY on a connection");
    }
    converse(stream, Some(visit.address), &house).await;
    drop(visit);
}

fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "an SMTP session crashed; its connection is closed, the others go on");
    }
}

/// Says why and closes. The send buffer of a fresh socket has room for one line, so nothing waits here.
fn turn_away(stream: TcpStream) {
    let mut line = Vec::new();
    reply::TOO_MANY_CONNECTIONS.write_to(&mut line);
    let sent = stream.into_std().and_then(|mut socket| socket.write_all(&line));
    tracing::info!(told = sent.is_ok(), "a connection over the limit was turned away");
}

/// Who is connected, to keep one peer from taking every place.
struct Visitors {
    places: Mutex<Places>,
    per_network_max: usize,
}

struct Places {
    free: usize,
    /// Networks with at least one connection.
    taken: HashMap<IpAddr, usize>,
}

/// A place among the connections; dropping it frees the place.
struct Visit {
    visitors: Arc<Visitors>,
    address: IpAddr,
}

impl Visitors {
    fn new(connections_max: usize, per_network_max: usize) -> Self {
        let places = Places { free: connections_max, taken: HashMap::new() };
        Self { places: Mutex::new(places), per_network_max }
    }

    fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Visit> {
        let mut places = self.lock();
        let from_there = places.taken.get(&network(address)).copied().unwrap_or(0);
        if places.free == 0 || from_there >= self.per_network_max {
            return None;
        }
        places.free -= 1;
        places.taken.insert(network(address), from_there + 1);
        Some(Visit { visitors: Arc::clone(self), address: address.to_canonical() })
    }

    fn leave(&self, address: IpAddr) {
        let mut places = self.lock();
        places.free += 1;
        let network = network(address);
        match places.taken.get_mut(&network) {
            Some(from_there) if *from_there > 1 => *from_there -= 1,
            _ => {
                places.taken.remove(&network);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.visitors.leave(self.address);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_limited_per_network_and_over_all_and_come_back() {
        let visitors = Arc::new(Visitors::new(3, 2));
        let enter = |text: &str| visitors.enter(text.parse().unwrap());
        let a = enter("192.0.2.1").unwrap();
        let b = enter("::ffff:192.0.2.1").unwrap();
        assert!(enter("192.0.2.1").is_none());
        let c = enter("2001:db8::1").unwrap();
        assert!(enter("192.0.2.9").is_none(), "no place left");
        drop(b);
        let d = enter("2001:db8::ffff:1").unwrap();
        assert!(enter("2001:db8:0:0:1::").is_none(), "same /64");
        drop((a, c, d));
        let places = visitors.lock();
        assert_eq!((places.free, places.taken.len()), (3, 0));
    }
}
