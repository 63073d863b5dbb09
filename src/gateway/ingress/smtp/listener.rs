//! Accepts connections and supervises their sessions: limits per address and in total, a bounded
//! shutdown.

use super::connection_limiter::{ConnectionPermit, Full};
use super::proxy::{self, ProxiedClient};
use super::reply;
use super::session::{ServerContext, serve_session};
use super::socket::BoundSocket;
use crate::gateway::ingress::listen_socket::Caller;
use crate::gateway::intake_contract::{LetterIntake, Shortage};
use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Pause after a failed accept: with all file descriptors in use, every `accept` fails at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `shutdown`, then lets letters in flight finish within the grace period of a drain.
pub async fn serve(bound: BoundSocket, intake: Arc<dyn LetterIntake>, shutdown: CancellationToken) {
    let server = || ServerContext {
        intake: intake.clone(),
        settings: bound.settings().get(),
        stop: shutdown.clone(),
    };
    let mut sessions = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            Some(ended) = sessions.join_next() => report(ended),
            accepted = bound.accept() => match accepted {
                Ok(Caller::Tcp(stream, peer)) => admit(stream, peer, &server(), &mut sessions),
                Ok(Caller::Unix(stream)) => admit_local(stream, server(), &mut sessions),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    let grace_period = bound.settings().get().limits.drain_grace_period();
    drop(bound); // new peers are refused by the kernel from here on
    let drained = async {
        while let Some(ended) = sessions.join_next().await {
            report(ended);
        }
    };
    if tokio::time::timeout(grace_period, drained).await.is_err() {
        tracing::warn!(
            sessions = sessions.len(),
            "SMTP sessions did not end in time and are cut"
        );
        sessions.shutdown().await;
    }
}

fn admit_local(stream: UnixStream, server: ServerContext, sessions: &mut JoinSet<()>) {
    match server.settings.connection_limiter.open_connections.enter() {
        Ok(permit) => {
            sessions.spawn(session(stream, server, permit));
        }
        Err(full) => turn_away(stream.into_std(), &server, full),
    }
}

fn admit(stream: TcpStream, peer: IpAddr, server: &ServerContext, sessions: &mut JoinSet<()>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY on a connection");
    }
    let settings = &server.settings;
    let place = settings.connection_limiter.open_connections.enter();
    if settings.proxies.is_empty() {
        match place.and_then(|permit| permit.by(peer)) {
            Ok(permit) => {
                sessions.spawn(session(stream, server.clone(), permit));
            }
            Err(full) => turn_away(stream.into_std(), server, full),
        }
        return;
    }
    if !settings
        .proxies
        .iter()
        .any(|network| network.contains(peer))
    {
        tracing::info!(%peer, "a connection to a listener for proxies came from somebody else");
        return;
    }
    match place {
        Ok(permit) => {
            sessions.spawn(proxied(stream, peer, server.clone(), permit));
        }
        Err(full) => turn_away(stream.into_std(), server, full),
    }
}

/// Serves a connection from a proxy: its header names the client, and the limits apply to that
/// client.
async fn proxied(
    mut stream: TcpStream,
    proxy: IpAddr,
    server: ServerContext,
    permit: ConnectionPermit,
) {
    let read = tokio::select! {
        biased;
        () = server.stop.cancelled() => return,
        read = timeout(server.settings.limits.handshake_max, proxy::read(&mut stream)) => read,
    };
    let client = match read {
        Ok(Ok(ProxiedClient::Client(client))) => client,
        Ok(Ok(ProxiedClient::Proxy)) => proxy,
        Ok(Err(error)) => {
            return tracing::info!(%proxy, %error, "a proxy did not say whom it speaks for");
        }
        Err(_) => return tracing::info!(%proxy, "a proxy took too long to say whom it speaks for"),
    };
    match permit.by(client) {
        Ok(permit) => session(stream, server, permit).await,
        Err(full) => turn_away(stream.into_std(), &server, full),
    }
}

async fn session<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    server: ServerContext,
    permit: ConnectionPermit,
) {
    serve_session(stream, permit.address, &server).await;
    drop(permit);
}

fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "an SMTP session crashed; its connection is closed, the others go on");
    }
}

/// Sends the reason and closes. The send buffer of a new socket has room for one line, so this
/// never blocks.
fn turn_away(socket: std::io::Result<impl Write>, server: &ServerContext, full: Full) {
    if full == Full::Everywhere {
        server.intake.short_of(Shortage::Connections);
    }
    let mut line = Vec::new();
    // With implicit TLS no plain-text reply is possible.
    if !server
        .settings
        .tls
        .as_ref()
        .is_some_and(|tls| tls.is_implicit)
    {
        reply::TOO_MANY_CONNECTIONS.write_to(&mut line);
    }
    let sent = socket.and_then(|mut socket| socket.write_all(&line));
    tracing::info!(
        replied = sent.is_ok(),
        "a connection over the limit was turned away"
    );
}
