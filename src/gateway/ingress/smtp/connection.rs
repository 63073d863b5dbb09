//! One SMTP connection: reads lines and letters, writes replies; one buffer each, one write per
//! batch of replies, a timeout on every wait.

use super::command::{self, SmtpCommand};
use super::connection_limiter::OpenConnections;
use super::data::{DataEnd, LetterReader};
use super::link::SmtpLink;
use super::reply::Reply;
use super::tls;
use crate::config::Limits;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, Sleep, sleep, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Reason of a disconnect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disconnect {
    /// End of stream, or an error of the socket.
    Gone,
    /// No whole command, no bytes of a letter, or unread replies for `session_idle_max`.
    Idle,
    /// A letter below `letter_bytes_per_second_min`, or one that was cut to free memory for others.
    Slow,
    /// `session_duration_max` has passed.
    Expired,
    /// The engine is stopping.
    Stopping,
    /// A CR or an LF by itself among the commands.
    BareNewline,
    /// A command line without an end.
    EndlessLine,
    /// A TLS handshake on the plain-text port.
    NotSmtp,
    /// A TLS handshake that failed or timed out.
    NoTls,
}

/// Phase of a session; a letter may still be finished while the engine stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionPhase {
    Commands,
    Letter,
}

/// Record type that begins a TLS handshake; no command begins with it.
const TLS_HANDSHAKE: u8 = 0x16;
/// Bytes of the input buffer of an idle connection, which a whole command line must fit into.
const INPUT_BYTES: usize = 8 * 1024;
/// Bytes of the input buffer during a long letter.
const INPUT_BYTES_MAX: usize = 64 * 1024;
/// Bytes for the replies to an ordinary pipeline.
const OUTPUT_BYTES: usize = 1024;
/// Bytes after which replies to a long pipeline are sent.
const OUTPUT_BYTES_MAX: usize = 8 * 1024;
/// Bytes up to which an over-long command line is skipped before the peer is disconnected.
const ENDLESS_LINE_BYTES: usize = 64 * 1024;
/// Maximum time and bytes for which a closing connection is still read, so that a reset does not
/// discard the last reply.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: usize = 1024 * 1024;
/// Divisor of `session_idle_max` for the wait for a command while few permits are free: ten seconds
/// of five minutes.
const STRESSED_PART: u32 = 30;

pub struct SmtpConnection<S> {
    stream: SmtpLink<S>,
    input: Vec<u8>,
    /// Offset of the unread part of `input`.
    start: usize,
    /// Bytes of the unread part that are known to have no line end.
    scanned: usize,
    output: Vec<u8>,
    /// Successful reads so far. A read follows the sending of our replies, and so indicates that
    /// they arrived.
    pub reads: u64,
    open_connections: Arc<OpenConnections>,
    idle_max: Duration,
    handshake_max: Duration,
    line_bytes_max: usize,
    letter_bytes_per_second_min: u32,
    ends: Ends,
}

/// Events that may end a wait besides the peer.
struct Ends {
    session: Pin<Box<Sleep>>,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Timer of a letter in flight, started by the stop.
    drain: Option<Pin<Box<Sleep>>>,
    drain_max: Duration,
}

impl Ends {
    async fn any(&mut self, phase: ConnectionPhase) -> Disconnect {
        let drain_max = self.drain_max;
        let stopped = async {
            self.stop.as_mut().await;
            if phase == ConnectionPhase::Letter {
                self.drain
                    .get_or_insert_with(|| Box::pin(sleep(drain_max)))
                    .as_mut()
                    .await;
            }
        };
        tokio::select! {
            biased;
            () = self.session.as_mut() => Disconnect::Expired,
            () = stopped => Disconnect::Stopping,
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> SmtpConnection<S> {
    pub fn new(
        stream: S,
        limits: &Limits,
        open_connections: Arc<OpenConnections>,
        stop: &CancellationToken,
    ) -> Self {
        Self {
            open_connections,
            stream: SmtpLink::Plain(stream),
            input: Vec::with_capacity(INPUT_BYTES),
            start: 0,
            scanned: 0,
            output: Vec::new(),
            reads: 0,
            idle_max: limits.session_idle_max,
            handshake_max: limits.handshake_max,
            letter_bytes_per_second_min: u32::try_from(limits.letter_bytes_per_second_min)
                .unwrap_or(u32::MAX),
            line_bytes_max: limits.command_line_bytes_max.min(INPUT_BYTES - 2),
            ends: Ends {
                session: Box::pin(sleep(limits.session_duration_max)),
                stop: Box::pin(stop.clone().cancelled_owned()),
                drain: None,
                // Leaves time for the commit and the reply within the listener's grace period for
                // its sessions.
                drain_max: limits.drain_grace_period().mul_f32(0.8),
            },
        }
    }

    /// Queues a reply; it is sent before the next read from the peer.
    pub fn reply(&mut self, reply: Reply) {
        reply.write_to(&mut self.output);
    }

    /// Queues what `write` appends.
    pub fn reply_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.output);
    }

    pub fn is_encrypted(&self) -> bool {
        self.stream.is_encrypted()
    }

    /// Reads for at most `delay`; returns `true` if the peer sent anything.
    pub async fn hears_within(&mut self, delay: Duration) -> Result<bool, Disconnect> {
        let read = tokio::select! {
            biased;
            cut = self.ends.any(ConnectionPhase::Commands) => return Err(cut),
            read = timeout(delay, self.stream.read_buf(&mut self.input)) => read,
        };
        match read {
            Err(_) => Ok(false),
            Ok(Ok(0) | Err(_)) => Err(Disconnect::Gone),
            Ok(Ok(_)) if self.input.first() == Some(&TLS_HANDSHAKE) => Err(Disconnect::NotSmtp),
            Ok(Ok(_)) => Ok(true),
        }
    }

    /// Sends queued replies and waits.
    pub async fn pause(&mut self, span: Duration) -> Result<(), Disconnect> {
        self.flush().await?;
        tokio::select! {
            biased;
            cut = self.ends.any(ConnectionPhase::Commands) => Err(cut),
            () = sleep(span) => Ok(()),
        }
    }

    /// Sends queued replies, then continues under TLS. Bytes received before are discarded: an
    /// attacker on the path could have injected them (RFC 3207 section 4.2, CVE-2011-0411).
    pub async fn secure(&mut self, acceptor: TlsAcceptor) -> Result<(), Disconnect> {
        self.flush().await?;
        self.input.clear();
        (self.start, self.scanned) = (0, 0);
        let SmtpLink::Plain(stream) = std::mem::replace(&mut self.stream, SmtpLink::Lost) else {
            return Err(Disconnect::NoTls);
        };
        // Boxed: it is large, and most sessions never use TLS.
        let handshake = Box::pin(timeout(self.handshake_max, acceptor.accept(stream)));
        let shaken = tokio::select! {
            biased;
            cut = self.ends.any(ConnectionPhase::Commands) => return Err(cut),
            shaken = handshake => shaken,
        };
        match shaken {
            Ok(Ok(stream)) => {
                self.stream = SmtpLink::Tls(Box::new(stream));
                Ok(())
            }
            Ok(Err(error)) if tls::is_gone(&error) => Err(Disconnect::Gone),
            Ok(Err(error)) => {
                tracing::info!(%error, "a TLS handshake failed");
                Err(Disconnect::NoTls)
            }
            Err(_) => Err(Disconnect::NoTls),
        }
    }

    /// Reads the next command; the inner error is the reply to a line that is none.
    pub async fn command(&mut self) -> Result<Result<SmtpCommand, Reply>, Disconnect> {
        Ok(self.line(command::parse).await?.and_then(|parsed| parsed))
    }

    /// Reads the next line with `read`; the inner error is the reply to a line that is too long.
    pub async fn line<T>(
        &mut self,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Result<T, Reply>, Disconnect> {
        // For the whole line, so that a peer that sends single bytes does not keep its connection.
        let mut waits = None;
        loop {
            let unread = &self.input[self.start..];
            if unread.first() == Some(&TLS_HANDSHAKE) {
                return Err(Disconnect::NotSmtp); // a line end may never come
            }
            match line_end(unread, self.scanned)? {
                Some(end) if end <= self.line_bytes_max => {
                    let result = read(&unread[..end]);
                    self.consume(end + 2);
                    return Ok(Ok(result));
                }
                Some(end) => {
                    self.consume(end + 2);
                    return Ok(Err(super::reply::LINE_TOO_LONG));
                }
                None => {
                    let (deadline, look) = *waits.get_or_insert_with(|| self.command_deadlines());
                    if unread.len() > self.line_bytes_max + 1 {
                        return self.skip_line(deadline).await.map(Err);
                    }
                    self.scanned = unread.len().saturating_sub(1); // a CR may still wait for its LF
                    match self
                        .fill(ConnectionPhase::Commands, deadline.min(look))
                        .await
                    {
                        Err(Disconnect::Idle)
                            if look < deadline && !self.open_connections.are_stressed() =>
                        {
                            waits = Some((deadline, self.command_deadlines().1));
                        }
                        filled => filled?,
                    }
                }
            }
        }
    }

    /// Discards the rest of a line that exceeds the buffer.
    async fn skip_line(&mut self, deadline: Instant) -> Result<Reply, Disconnect> {
        let mut skipped = 0;
        while skipped <= ENDLESS_LINE_BYTES {
            let unread = &self.input[self.start..];
            if let Some(end) = line_end(unread, 0)? {
                self.consume(end + 2);
                return Ok(super::reply::LINE_TOO_LONG);
            }
            let dropped = unread.len() - usize::from(unread.last() == Some(&b'\r'));
            skipped += dropped;
            self.consume(dropped);
            self.fill(ConnectionPhase::Commands, deadline).await?;
        }
        Err(Disconnect::EndlessLine)
    }

    /// Reads a letter to its end.
    pub async fn letter(&mut self, reader: &mut LetterReader) -> Result<DataEnd, Disconnect> {
        let mut slow = None;
        let mut received = 0_usize;
        loop {
            let (used, end) = reader.push(&self.input[self.start..]);
            self.consume(used);
            received = received.saturating_add(used);
            if let Some(end) = end {
                return Ok(end);
            }
            crate::crash::crash_point!("I1", received > 0);
            if self.input.len() == self.input.capacity() && self.input.capacity() < INPUT_BYTES_MAX
            {
                // All of it was consumed, and more is waiting.
                self.input = Vec::with_capacity(INPUT_BYTES_MAX);
                self.start = 0;
            }
            let idle = self.idle_deadline();
            let slow_at = slow.map_or(idle, |before| {
                self.too_slow_at(before, used)
                    .map_or(idle, |at| at.min(idle))
            });
            slow = Some(slow_at);
            let filled = tokio::select! {
                biased;
                () = reader.cut() => return Err(Disconnect::Slow),
                filled = self.fill(ConnectionPhase::Letter, slow_at) => filled,
            };
            filled.map_err(|cut| {
                if cut == Disconnect::Idle && slow_at < idle {
                    Disconnect::Slow
                } else {
                    cut
                }
            })?;
        }
    }

    /// Instant at which a letter becomes too slow, after `bytes` arrived since that instant was
    /// computed as `before`. Each byte extends it, but never more than `session_idle_max` ahead, so
    /// that a fast beginning does not permit hours without data.
    fn too_slow_at(&self, before: Instant, bytes: usize) -> Option<Instant> {
        let rate = self.letter_bytes_per_second_min;
        let earned = (rate > 0).then(|| Duration::from_secs(bytes as u64) / rate)?;
        before.checked_add(earned)
    }

    /// Deadline of a command, and the instant at which to check whether that is too long for the
    /// number of connections.
    fn command_deadlines(&self) -> (Instant, Instant) {
        (
            self.idle_deadline(),
            sleep(self.idle_max / STRESSED_PART).deadline(),
        )
    }

    /// The end of an idle timeout that begins now.
    fn idle_deadline(&self) -> Instant {
        sleep(self.idle_max).deadline()
    }

    /// Sends queued replies, then closes the connection so that the last reply arrives.
    pub async fn close(mut self) {
        if self.flush().await.is_err() {
            return;
        }
        // Under TLS, closing is a write that a peer may leave unread.
        if !matches!(timeout(LINGER, self.stream.shutdown()).await, Ok(Ok(()))) {
            return;
        }
        let mut left = LINGER_BYTES_MAX;
        let drain = async {
            while left > 0 {
                self.input.clear();
                match self.stream.read_buf(&mut self.input).await {
                    Ok(0) | Err(_) => return,
                    Ok(n) => left = left.saturating_sub(n),
                }
            }
        };
        // A timeout ends the connection too.
        let _ended = timeout(LINGER, drain).await;
    }

    fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        self.scanned = 0;
    }

    /// Sends queued replies and reads more bytes.
    async fn fill(&mut self, phase: ConnectionPhase, deadline: Instant) -> Result<(), Disconnect> {
        self.flush().await?;
        self.input.drain(..self.start);
        self.start = 0;
        if phase == ConnectionPhase::Commands {
            self.input.shrink_to(INPUT_BYTES); // the next wait may be a long one
            self.output.shrink_to(OUTPUT_BYTES);
        }
        tokio::select! {
            biased;
            cut = self.ends.any(phase) => Err(cut),
            read = timeout_at(deadline, self.stream.read_buf(&mut self.input)) => match read {
                Err(_) => Err(Disconnect::Idle),
                Ok(Ok(0) | Err(_)) => Err(Disconnect::Gone),
                Ok(Ok(_)) => {
                    self.reads += 1;
                    Ok(())
                }
            },
        }
    }

    /// Sends queued replies above a threshold, so that a peer that pipelines without reading does
    /// not use memory.
    pub async fn flush_if_large(&mut self) -> Result<(), Disconnect> {
        if self.output.len() >= OUTPUT_BYTES_MAX {
            self.flush().await
        } else {
            Ok(())
        }
    }

    async fn flush(&mut self) -> Result<(), Disconnect> {
        if self.output.is_empty() {
            return Ok(());
        }
        let send = async {
            self.stream.write_all(&self.output).await?;
            self.stream.flush().await
        };
        match timeout(self.idle_max, send).await {
            Err(_) => Err(Disconnect::Idle),
            Ok(Err(_)) => Err(Disconnect::Gone),
            Ok(Ok(())) => {
                self.output.clear();
                Ok(())
            }
        }
    }
}

/// Offset of the first CRLF; `None` when the line is not complete.
fn line_end(bytes: &[u8], from: usize) -> Result<Option<usize>, Disconnect> {
    let Some(at) = bytes[from..]
        .iter()
        .position(|b| matches!(b, b'\r' | b'\n'))
        .map(|at| from + at)
    else {
        return Ok(None);
    };
    match (bytes[at], bytes.get(at + 1)) {
        (b'\r', Some(b'\n')) => Ok(Some(at)),
        (b'\r', None) => Ok(None),
        _ => Err(Disconnect::BareNewline),
    }
}
