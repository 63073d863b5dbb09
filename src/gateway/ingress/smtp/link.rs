//! The stream of one connection, plain or under TLS, as one type: STARTTLS changes it during the
//! session.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

pub enum SmtpLink<S> {
    Plain(S),
    /// Boxed, because an idle plain session should not be as large as a TLS one.
    Tls(Box<TlsStream<S>>),
    /// A handshake took the stream and failed.
    Lost,
}

impl<S> SmtpLink<S> {
    pub fn is_encrypted(&self) -> bool {
        matches!(self, SmtpLink::Tls(_))
    }
}

fn lost<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for SmtpLink<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            SmtpLink::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            SmtpLink::Tls(stream) => Pin::new(stream.as_mut()).poll_read(cx, buf),
            SmtpLink::Lost => lost(),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for SmtpLink<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            SmtpLink::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            SmtpLink::Tls(stream) => Pin::new(stream.as_mut()).poll_write(cx, bytes),
            SmtpLink::Lost => lost(),
        }
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            SmtpLink::Plain(stream) => Pin::new(stream).poll_flush(cx),
            SmtpLink::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
            SmtpLink::Lost => lost(),
        }
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            SmtpLink::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            SmtpLink::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
            SmtpLink::Lost => lost(),
        }
    }
}
