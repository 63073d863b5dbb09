//! The TCP stream below STARTTLS.

use lettre::transport::smtp::client::AsyncTokioStream;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// First byte of a TLS handshake record; no SMTP command starts with it.
const TLS_HANDSHAKE: u8 = 22;

/// A TCP stream that is read byte by byte until TLS starts.
///
/// Whatever a man in the middle appends to the clear-text reply to STARTTLS then stays in the socket, where it breaks
/// the handshake, instead of waiting in lettre's buffer to be taken for a reply that came through TLS (CVE-2011-0411,
/// RFC 3207 section 4.2).
#[derive(Debug)]
pub(super) struct ClearTextStream {
    tcp: TcpStream,
    tls_started: bool,
}

impl ClearTextStream {
    pub fn new(tcp: TcpStream) -> Self {
        Self { tcp, tls_started: false }
    }
}

impl AsyncTokioStream for ClearTextStream {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.peer_addr()
    }
}

impl AsyncRead for ClearTextStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.tls_started {
            return Pin::new(&mut self.tcp).poll_read(cx, buf);
        }
        let mut byte = [0];
        let mut one = ReadBuf::new(&mut byte);
        ready!(Pin::new(&mut self.tcp).poll_read(cx, &mut one))?;
        buf.put_slice(one.filled());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ClearTextStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.tls_started |= buf.first() == Some(&TLS_HANDSHAKE);
        Pin::new(&mut self.tcp).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}
