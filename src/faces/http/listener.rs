//! Sockets of the pages: connections are accepted within bounds, served as HTTP/1.1 within time limits, and ended in time.

use super::checks;
use super::connections::{ConnectionMark, WebConnections, WebPeer, WebPermit};
use super::context::{WebContext, WebParts};
use super::routes::router;
use super::timed_stream::TimedStream;
use crate::config::{Current, HttpListener, ListenAddress};
use crate::gateway::ingress::listen_socket::{Caller, ListenSocket};
use crate::gateway::ingress::smtp::{Certificates, TlsError};
use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Most header fields of a request, and most bytes of its head.
const HEADERS_MAX: usize = 64;
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Time for the head of a request, and for the next one on the same connection.
const HEAD_MAX: Duration = Duration::from_secs(10);
/// Time for a TLS handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// Time without a byte taken by the peer after which a connection is cut.
const STALL_MAX: Duration = Duration::from_secs(20);
/// Time for open requests to end at a stop.
const GRACE_PERIOD: Duration = Duration::from_secs(2);
/// Pause after a failed accept: with all file descriptors in use, every `accept` fails at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time between two notes of which sessions were used.
const USES_NOTED_EVERY: Duration = Duration::from_secs(300);

/// A listener of the pages with an open socket.
pub struct BoundPages {
    socket: ListenSocket,
    in_force: Arc<Current<PagesInForce>>,
    stall_max: Duration,
}

/// What answers the requests of a listener; each request takes it once.
pub struct PagesInForce {
    /// Address as configured.
    pub address: ListenAddress,
    bound: Option<SocketAddr>,
    context: Arc<WebContext>,
    router: Router,
    certificates: Option<Arc<Certificates>>,
}

impl PagesInForce {
    /// Builds what answers requests under another configuration. Errors: the certificate cannot be used.
    pub fn renewed(&self, listener: &HttpListener, parts: &WebParts) -> Result<Self, TlsError> {
        let context = Arc::new(self.context.renewed(parts, listener, self.bound));
        Ok(Self {
            address: listener.address.clone(),
            bound: self.bound,
            router: router::router(&context),
            context,
            certificates: certificates(listener, parts, self.certificates.as_ref())?,
        })
    }
}

/// Returns the certificates of a listener, `known` where its files are the same.
fn certificates(
    listener: &HttpListener,
    parts: &WebParts,
    known: Option<&Arc<Certificates>>,
) -> Result<Option<Arc<Certificates>>, TlsError> {
    let (Some(files), true) = (&parts.config.gateway.tls, listener.is_tls) else {
        return Ok(None);
    };
    if let Some(known) = known.filter(|known| known.files() == files) {
        return Ok(Some(known.clone()));
    }
    Certificates::load(files.clone(), parts.store.clock().clone()).map(Some)
}

impl BoundPages {
    /// Binds a listener. Errors: the address is taken, the certificate cannot be used.
    pub async fn open(listener: &HttpListener, parts: &WebParts) -> anyhow::Result<Self> {
        let certificates = certificates(listener, parts, None)?;
        let socket = ListenSocket::open(&listener.address).await?;
        let bound = socket.tcp_address();
        let context = WebContext::new(parts, listener, bound, router::page_paths())?;
        let context = Arc::new(context);
        let in_force = PagesInForce {
            address: listener.address.clone(),
            bound,
            router: router::router(&context),
            context,
            certificates,
        };
        Ok(Self {
            socket,
            in_force: Arc::new(Current::new(Arc::new(in_force))),
            stall_max: STALL_MAX,
        })
    }

    fn context(&self) -> Arc<WebContext> {
        self.in_force.get().context.clone()
    }

    /// Sets another time after which a peer that takes no byte is cut off.
    pub fn cutting_after(mut self, stall_max: Duration) -> Self {
        self.stall_max = stall_max;
        self
    }

    /// Returns the address that is bound, in the configuration's syntax.
    pub fn address(&self) -> String {
        self.socket.address()
    }

    /// Returns what answers its requests, which may be replaced.
    pub fn in_force(&self) -> &Arc<Current<PagesInForce>> {
        &self.in_force
    }

    /// Returns the bound TCP address; `None` for a Unix socket.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.socket.tcp_address()
    }
}

/// Serves until `shutdown`, then lets open requests end for a moment.
pub async fn serve(bound: BoundPages, shutdown: CancellationToken) {
    let connections = Arc::new(WebConnections::default());
    let mut open = JoinSet::new();
    let beating = {
        // All contexts of the listener share its pulse and its notes.
        let (context, shutdown) = (bound.context(), shutdown.clone());
        async move { context.pulse.beat(&context.store, shutdown).await }
    };
    open.spawn(beating);
    let mut uses = interval(USES_NOTED_EVERY);
    uses.set_missed_tick_behavior(MissedTickBehavior::Delay);
    uses.reset();
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            Some(ended) = open.join_next() => report(ended),
            _ = uses.tick() => bound.context().note_uses().await,
            accepted = bound.socket.accept() => match accepted {
                Ok(caller) => {
                    if let Some(permit) = admit(&caller, &bound.context(), &connections) {
                        open.spawn(connection(caller, permit, &bound, shutdown.clone()));
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection to the pages could not be accepted");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    let context = bound.context();
    drop(bound);
    let drained = async { while open.join_next().await.is_some() {} };
    if timeout(GRACE_PERIOD, drained).await.is_err() {
        open.shutdown().await;
    }
    context.note_uses().await;
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a page crashed; its connection is closed, the others go on");
    }
}

/// Gives a connection its place; `None`: it is closed.
fn admit(
    caller: &Caller,
    context: &WebContext,
    connections: &Arc<WebConnections>,
) -> Option<WebPermit> {
    let peer = match caller {
        Caller::Tcp(_, address) => WebPeer::Address(*address),
        Caller::Unix(_) => WebPeer::Socket,
    };
    if !context.lets_in(peer) {
        tracing::info!(%peer, "a connection to pages behind a proxy came from somebody else");
        return None;
    }
    let permit = connections.enter(peer, context.is_proxy(peer));
    if permit.is_none() {
        tracing::info!(%peer, "a connection over the limit of the pages was closed");
    }
    permit
}

/// Returns the service of one connection, which owns all that it needs.
fn connection(
    caller: Caller,
    permit: WebPermit,
    bound: &BoundPages,
    shutdown: CancellationToken,
) -> impl Future<Output = ()> + Send + 'static {
    let in_force = bound.in_force.clone();
    let certificates = in_force.get().certificates.clone();
    let stall_max = bound.stall_max;
    async move {
        let cut = permit.cut.clone();
        let served = serve_caller(caller, &permit, in_force, certificates, stall_max, shutdown);
        tokio::select! {
            () = served => {}
            () = cut.cancelled() => tracing::info!(peer = %permit.peer, "a connection that nobody is known by gave its place to another"),
        }
        drop(permit);
    }
}

async fn serve_caller(
    caller: Caller,
    permit: &WebPermit,
    in_force: Arc<Current<PagesInForce>>,
    certificates: Option<Arc<Certificates>>,
    stall_max: Duration,
    shutdown: CancellationToken,
) {
    let (peer, mark) = (permit.peer, permit.mark());
    let stream = match caller {
        Caller::Tcp(stream, _) => stream,
        Caller::Unix(stream) => {
            let stream = TimedStream::new(stream, stall_max);
            return exchange(stream, peer, mark, in_force, shutdown).await;
        }
    };
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY on a connection");
    }
    let Some(certificates) = certificates else {
        let stream = TimedStream::new(stream, stall_max);
        return exchange(stream, peer, mark, in_force, shutdown).await;
    };
    let handshake = certificates.acceptor().accept(stream);
    match timeout(HANDSHAKE_MAX, handshake).await {
        Ok(Ok(stream)) => {
            let stream = TimedStream::new(stream, stall_max);
            exchange(stream, peer, mark, in_force, shutdown).await;
        }
        Ok(Err(error)) => tracing::debug!(%peer, %error, "no TLS with a browser"),
        Err(_) => tracing::debug!(%peer, "a TLS handshake took too long"),
    }
}

async fn exchange<S>(
    stream: TimedStream<S>,
    peer: WebPeer,
    mark: ConnectionMark,
    in_force: Arc<Current<PagesInForce>>,
    shutdown: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(mark.clone());
        answer(request, peer, in_force.get())
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(serving);
    let served = tokio::select! {
        served = serving.as_mut() => served,
        () = shutdown.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%peer, %error, "a connection to the pages ended early");
    }
}

/// Answers one request: what calls us by a wrong name never reaches the router.
async fn answer(
    mut request: Request<Incoming>,
    peer: WebPeer,
    pages: Arc<PagesInForce>,
) -> Result<Response<Body>, Infallible> {
    match checks::name(&pages.context, &request, peer) {
        Ok(called) => request.extensions_mut().insert(called),
        Err(refusal) => return Ok(*refusal),
    };
    TowerToHyperService::new(pages.router.clone())
        .call(request)
        .await
}
