//! Accepts connections and supervises their sessions: limits per address and over all, a bounded end.

use super::lobby::{Full, Visit};
use super::proxy::{self, Origin};
use super::reply;
use super::session::{House, converse};
use super::socket::{Bound, Caller};
use crate::gateway::door::{Door, Shortage};
use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Pause after a failed accept: with all file descriptors in use, `accept` fails at once and for ever.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `shutdown`, then lets letters in flight finish within the patience of a drain.
pub async fn serve(bound: Bound, door: Arc<dyn Door>, shutdown: CancellationToken) {
    let house = House::new(door, bound.settings.clone(), shutdown.clone());
    let patience = house.settings.limits.drain_patience();
    let mut sessions = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            Some(ended) = sessions.join_next() => report(ended),
            accepted = bound.accept() => match accepted {
                Ok(Caller::Tcp(stream, peer)) => admit(stream, peer, &house, &mut sessions),
                Ok(Caller::Unix(stream)) => match house.settings.lobby.visitors.enter() {
                    Ok(visit) => {
                        sessions.spawn(session(stream, house.clone(), visit));
                    }
                    Err(full) => turn_away(stream.into_std(), &house, full),
                },
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(bound); // new peers are refused by the kernel from here on
    let drained = async {
        while let Some(ended) = sessions.join_next().await {
            report(ended);
        }
    };
    if tokio::time::timeout(patience, drained).await.is_err() {
        tracing::warn!(sessions = sessions.len(), "SMTP sessions did not end in time and are cut");
        sessions.shutdown().await;
    }
}

fn admit(stream: TcpStream, peer: IpAddr, house: &House, sessions: &mut JoinSet<()>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY on a connection");
    }
    let settings = &house.settings;
    let place = settings.lobby.visitors.enter();
    if settings.proxies.is_empty() {
        match place.and_then(|visit| visit.by(peer)) {
            Ok(visit) => {
                sessions.spawn(session(stream, house.clone(), visit));
            }
            Err(full) => turn_away(stream.into_std(), house, full),
        }
        return;
    }
    if !settings.proxies.iter().any(|network| network.contains(peer)) {
        tracing::info!(%peer, "a connection to a listener for proxies came from somebody else");
        return;
    }
    match place {
        Ok(visit) => {
            sessions.spawn(proxied(stream, peer, house.clone(), visit));
        }
        Err(full) => turn_away(stream.into_std(), house, full),
    }
}

/// A connection that somebody stands behind: the header says who, and it is they who are counted.
async fn proxied(mut stream: TcpStream, proxy: IpAddr, house: House, visit: Visit) {
    let read = tokio::select! {
        biased;
        () = house.stop.cancelled() => return,
        read = timeout(house.settings.limits.handshake_max, proxy::read(&mut stream)) => read,
    };
    let client = match read {
        Ok(Ok(Origin::Client(client))) => client,
        Ok(Ok(Origin::Proxy)) => proxy,
        Ok(Err(error)) => return tracing::info!(%proxy, %error, "a proxy did not say whom it speaks for"),
        Err(_) => return tracing::info!(%proxy, "a proxy took too long to say whom it speaks for"),
    };
    match visit.by(client) {
        Ok(visit) => session(stream, house, visit).await,
        Err(full) => turn_away(stream.into_std(), &house, full),
    }
}

async fn session<S: AsyncRead + AsyncWrite + Unpin>(stream: S, house: House, visit: Visit) {
    converse(stream, visit.address, &house).await;
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
fn turn_away(socket: std::io::Result<impl Write>, house: &House, full: Full) {
    if full == Full::Everywhere {
        house.door.short_of(Shortage::Connections);
    }
    let mut line = Vec::new();
    // Where TLS comes first there is no way to say anything yet.
    if !house.settings.tls.as_ref().is_some_and(|tls| tls.is_implicit) {
        reply::TOO_MANY_CONNECTIONS.write_to(&mut line);
    }
    let sent = socket.and_then(|mut socket| socket.write_all(&line));
    tracing::info!(told = sent.is_ok(), "a connection over the limit was turned away");
}
