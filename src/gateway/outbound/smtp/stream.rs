//! The stream below lettre: TCP or TLS, with sanitized server replies.
//!
//! lettre reads a whole line before it checks its length, accepts only UTF-8, and looks only for
//! CRLF. A server, or an attacker in its place, could exhaust our memory or make a delivered mail
//! look lost. So replies pass through here first, above TLS: bounded in lines and bytes, each line
//! ASCII and ended by CRLF. Absent on purpose: the interpretation of replies.

use lettre::transport::smtp::client::AsyncTokioStream;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// Maximum bytes of a line; a longer one ends the connection.
const LINE_BYTES_MAX: usize = 2048;
/// Maximum bytes of a line that lettre receives; it fails on lines of 1,000 bytes.
const LINE_BYTES_KEPT: usize = 900;
/// Maximum lines of one reply; more end the connection.
const LINES_MAX: usize = 100;

enum ClientSocket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A connection's stream with two handles: lettre's and ours.
#[derive(Clone)]
pub(super) struct SharedStream(Arc<Mutex<StreamState>>);

struct StreamState {
    socket: ClientSocket,
    /// Bytes read from the socket that are not processed yet.
    raw: Vec<u8>,
    /// The stored part of an incomplete line, and its full length.
    line: Vec<u8>,
    line_bytes: usize,
    /// A complete line for lettre, and the number of bytes that lettre has read of it.
    ready: Vec<u8>,
    given: usize,
    /// Lines since the last command.
    reply: Vec<String>,
}

impl SharedStream {
    pub fn plain(tcp: TcpStream) -> Self {
        Self::over(ClientSocket::Plain(tcp), Vec::new())
    }

    /// Implicit TLS from the first byte.
    pub fn tls(stream: TlsStream<TcpStream>) -> Self {
        Self::over(ClientSocket::Tls(Box::new(stream)), Vec::new())
    }

    /// TLS after STARTTLS. lettre begins by reading a greeting, which the server has already sent
    /// and will not repeat (RFC 3207 section 4.2), so this stream supplies one.
    pub fn tls_after_greeting(stream: TlsStream<TcpStream>) -> Self {
        Self::over(ClientSocket::Tls(Box::new(stream)), b"220 TLS\r\n".to_vec())
    }

    fn over(socket: ClientSocket, ready: Vec<u8>) -> Self {
        let (raw, line, reply) = (Vec::new(), Vec::new(), Vec::new());
        Self(Arc::new(Mutex::new(StreamState {
            socket,
            raw,
            line,
            line_bytes: 0,
            ready,
            given: 0,
            reply,
        })))
    }

    fn state(&self) -> MutexGuard<'_, StreamState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lines of the last reply, as lettre read them, without line ends.
    pub fn reply(&self) -> Vec<String> {
        self.state().reply.clone()
    }

    pub fn is_tls(&self) -> bool {
        matches!(self.state().socket, ClientSocket::Tls(_))
    }

    /// Returns the socket for the TLS handshake. `None` when the server sent more than the reply
    /// that was read, which an attacker on the path may have appended (RFC 3207 section 4.2,
    /// CVE-2011-0411), or when lettre's handle still exists.
    pub fn into_plain(self) -> Option<TcpStream> {
        let state = Arc::into_inner(self.0)?
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let is_drained =
            state.raw.is_empty() && state.line.is_empty() && state.given == state.ready.len();
        match state.socket {
            ClientSocket::Plain(tcp) if is_drained => Some(tcp),
            _ => None,
        }
    }
}

impl StreamState {
    /// Moves bytes from `raw` into `line` until a line is complete and `ready`.
    fn take_line(&mut self) -> io::Result<bool> {
        let end = self.raw.iter().position(|byte| *byte == b'\n');
        let taken: Vec<u8> = self
            .raw
            .drain(..end.map_or(self.raw.len(), |end| end + 1))
            .collect();
        self.line_bytes += taken.len();
        if self.line_bytes > LINE_BYTES_MAX {
            return Err(nonsense("a reply line is too long"));
        }
        let room = LINE_BYTES_KEPT.saturating_sub(self.line.len());
        self.line.extend(
            taken
                .iter()
                .filter(|byte| !matches!(byte, b'\r' | b'\n'))
                .take(room)
                .map(fit),
        );
        if end.is_none() {
            return Ok(false);
        }
        if self.reply.len() == LINES_MAX {
            return Err(nonsense("a reply has too many lines"));
        }
        let mut line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
        if line.len() == 3 {
            // A code alone is a valid reply (RFC 5321 section 4.2).
            line.push(' ');
        }
        self.line_bytes = 0;
        self.given = 0;
        self.ready = format!("{line}\r\n").into_bytes();
        self.reply.push(line);
        Ok(true)
    }
}

/// Replaces a byte that is not printable text for every reader.
fn fit(byte: &u8) -> u8 {
    if byte.is_ascii() && *byte != 0 {
        *byte
    } else {
        b'?'
    }
}

fn nonsense(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl AsyncTokioStream for SharedStream {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        match &self.state().socket {
            ClientSocket::Plain(tcp) => tcp.peer_addr(),
            ClientSocket::Tls(tls) => tls.get_ref().0.peer_addr(),
        }
    }
}

impl AsyncRead for SharedStream {
    /// Returns at most one line, so that bytes after a reply stay here.
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let state = &mut *self.state();
        while state.given == state.ready.len() {
            if state.raw.is_empty() {
                let mut block = [0; 4096];
                let mut read = ReadBuf::new(&mut block);
                ready!(state.socket.pin().poll_read(cx, &mut read))?;
                if read.filled().is_empty() {
                    // End of stream; an incomplete line is discarded.
                    return Poll::Ready(Ok(()));
                }
                state.raw.extend_from_slice(read.filled());
            }
            state.take_line()?;
        }
        let rest = &state.ready[state.given..];
        let given = rest.len().min(buf.remaining());
        buf.put_slice(&rest[..given]);
        state.given += given;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for SharedStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let state = &mut *self.state();
        state.reply.clear();
        state.socket.pin().poll_write(cx, buf)
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.state().socket.pin().poll_flush(cx)
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.state().socket.pin().poll_shutdown(cx)
    }
}

/// Either socket as one type.
trait Duplex: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Duplex for T {}

impl ClientSocket {
    fn pin(&mut self) -> Pin<&mut (dyn Duplex + Send)> {
        match self {
            Self::Plain(tcp) => Pin::new(tcp),
            Self::Tls(tls) => Pin::new(&mut **tls),
        }
    }
}

impl fmt::Debug for SharedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedStream")
            .field("is_tls", &self.is_tls())
            .finish_non_exhaustive()
    }
}
