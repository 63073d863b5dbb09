//! Bytes in and replies out of one connection: one buffer each, one write per batch of replies, every wait bounded.

use super::command::{self, Command};
use super::data::{End, LetterReader};
use super::link::Link;
use super::lobby::Visitors;
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

/// Why a peer is listened to no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// End of stream, or an error of the socket.
    Gone,
    /// No whole command, nothing of a letter, or our replies not read, for `session_idle_max`.
    Idle,
    /// A letter below `letter_bytes_per_second_min`, or one that had to make room for others.
    Slow,
    /// `session_duration_max` is over.
    Expired,
    /// The engine is stopping.
    Stopping,
    /// A CR or an LF by itself among the commands.
    BareNewline,
    /// A command line that does not end.
    EndlessLine,
    /// TLS on the plain-text port.
    NotSmtp,
    /// A TLS handshake that failed or took too long.
    NoTls,
}

/// What the peer is in the middle of; a letter may still be finished while the engine stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Commands,
    Letter,
}

/// The record type that begins a TLS handshake; no command begins so.
const TLS_HANDSHAKE: u8 = 0x16;
/// One idle connection costs this much, which a whole command line must fit into.
const INPUT_BYTES: usize = 8 * 1024;
/// While a long letter comes in, reads get larger.
const INPUT_BYTES_MAX: usize = 64 * 1024;
/// Room for the replies to an ordinary pipeline.
const OUTPUT_BYTES: usize = 1024;
/// Replies to a long pipeline go out in batches of this size.
const OUTPUT_BYTES_MAX: usize = 8 * 1024;
/// An over-long command line is skipped up to this length, then the peer is cut off.
const ENDLESS_LINE_BYTES: usize = 64 * 1024;
/// How long, and how much, a closing connection is still read, so that the last reply is not lost to a reset.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: usize = 1024 * 1024;
/// While hardly a place is left, a command is waited for only for so much of `session_idle_max`: ten seconds of five minutes.
const STRESSED_PART: u32 = 30;

pub struct Wire<S> {
    stream: Link<S>,
    input: Vec<u8>,
    /// Start of the unread part of `input`.
    start: usize,
    /// Bytes of the unread part that are known to hold no line end.
    scanned: usize,
    output: Vec<u8>,
    /// Successful reads so far. A read comes after our replies were sent, so it is a sign that they arrived.
    pub reads: u64,
    visitors: Arc<Visitors>,
    idle_max: Duration,
    handshake_max: Duration,
    line_bytes_max: usize,
    letter_bytes_per_second_min: u32,
    ends: Ends,
}

/// What may end a wait besides the peer.
struct Ends {
    session: Pin<Box<Sleep>>,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Runs from the stop on, for a letter in flight.
    drain: Option<Pin<Box<Sleep>>>,
    drain_max: Duration,
}

impl Ends {
    async fn any(&mut self, phase: Phase) -> Cut {
        let drain_max = self.drain_max;
        let stopped = async {
            self.stop.as_mut().await;
            if phase == Phase::Letter {
                self.drain.get_or_insert_with(|| Box::pin(sleep(drain_max))).as_mut().await;
            }
        };
        tokio::select! {
            biased;
            () = self.session.as_mut() => Cut::Expired,
            () = stopped => Cut::Stopping,
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub fn new(stream: S, limits: &Limits, visitors: Arc<Visitors>, stop: &CancellationToken) -> Self {
        Self {
            visitors,
            stream: Link::Plain(stream),
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
                // The commit and the reply need a moment of the time that the listener leaves to its sessions.
                drain_max: limits.drain_patience().mul_f32(0.8),
            },
        }
    }

    /// Queues a reply; it is sent when the peer has to say something next.
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

    /// Listens for at most `delay`; whether the peer said anything.
    pub async fn hears_within(&mut self, delay: Duration) -> Result<bool, Cut> {
        let read = tokio::select! {
            biased;
            cut = self.ends.any(Phase::Commands) => return Err(cut),
            read = timeout(delay, self.stream.read_buf(&mut self.input)) => read,
        };
        match read {
            Err(_) => Ok(false),
            Ok(Ok(0) | Err(_)) => Err(Cut::Gone),
            Ok(Ok(_)) if self.input.first() == Some(&TLS_HANDSHAKE) => Err(Cut::NotSmtp),
            Ok(Ok(_)) => Ok(true),
        }
    }

    /// Sends what is queued and lets time pass.
    pub async fn pause(&mut self, span: Duration) -> Result<(), Cut> {
        self.flush().await?;
        tokio::select! {
            biased;
            cut = self.ends.any(Phase::Commands) => Err(cut),
            () = sleep(span) => Ok(()),
        }
    }

    /// Sends what is queued, then goes on under TLS. Whatever was read before is thrown away: somebody in between
    /// could have put it there (RFC 3207 section 4.2, CVE-2011-0411).
    pub async fn secure(&mut self, acceptor: TlsAcceptor) -> Result<(), Cut> {
        self.flush().await?;
        self.input.clear();
        (self.start, self.scanned) = (0, 0);
        let Link::Plain(stream) = std::mem::replace(&mut self.stream, Link::Lost) else {
            return Err(Cut::NoTls);
        };
        // Boxed: it is large, and most sessions never make one.
        let handshake = Box::pin(timeout(self.handshake_max, acceptor.accept(stream)));
        let shaken = tokio::select! {
            biased;
            cut = self.ends.any(Phase::Commands) => return Err(cut),
            shaken = handshake => shaken,
        };
        match shaken {
            Ok(Ok(stream)) => {
                self.stream = Link::Tls(Box::new(stream));
                Ok(())
            }
            Ok(Err(error)) if tls::is_gone(&error) => Err(Cut::Gone),
            Ok(Err(error)) => {
                tracing::info!(%error, "a TLS handshake failed");
                Err(Cut::NoTls)
            }
            Err(_) => Err(Cut::NoTls),
        }
    }

    /// The next command, or the reply to a line that is none.
    pub async fn command(&mut self) -> Result<Result<Command, Reply>, Cut> {
        Ok(self.line(command::parse).await?.and_then(|parsed| parsed))
    }

    /// What `read` makes of the next line, or the reply to one that is too long.
    pub async fn line<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> Result<Result<T, Reply>, Cut> {
        // For the whole line, so that a byte now and then does not hold a place.
        let mut waits = None;
        loop {
            let unread = &self.input[self.start..];
            if unread.first() == Some(&TLS_HANDSHAKE) {
                return Err(Cut::NotSmtp); // no line end may ever come
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
                    match self.fill(Phase::Commands, deadline.min(look)).await {
                        Err(Cut::Idle) if look < deadline && !self.visitors.are_stressed() => {
                            waits = Some((deadline, self.command_deadlines().1));
                        }
                        filled => filled?,
                    }
                }
            }
        }
    }

    /// Drops the rest of a line that is longer than the buffer may be.
    async fn skip_line(&mut self, deadline: Instant) -> Result<Reply, Cut> {
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
            self.fill(Phase::Commands, deadline).await?;
        }
        Err(Cut::EndlessLine)
    }

    /// Reads a letter to its end.
    pub async fn letter(&mut self, reader: &mut LetterReader) -> Result<End, Cut> {
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
            if self.input.len() == self.input.capacity() && self.input.capacity() < INPUT_BYTES_MAX {
                self.input = Vec::with_capacity(INPUT_BYTES_MAX); // all of it was consumed, and more is waiting
                self.start = 0;
            }
            let idle = self.idle_deadline();
            let slow_at =
                slow.map_or(idle, |before| self.too_slow_at(before, used).map_or(idle, |at| at.min(idle)));
            slow = Some(slow_at);
            let filled = tokio::select! {
                biased;
                () = reader.cut() => return Err(Cut::Slow),
                filled = self.fill(Phase::Letter, slow_at) => filled,
            };
            filled.map_err(|cut| if cut == Cut::Idle && slow_at < idle { Cut::Slow } else { cut })?;
        }
    }

    /// When a letter will have taken too long, of which so many bytes have come since it was known to be too slow at
    /// `before`. Each byte earns it time, but never more than `session_idle_max` ahead: what came fast at first must not
    /// pay for hours in which nothing comes.
    fn too_slow_at(&self, before: Instant, bytes: usize) -> Option<Instant> {
        let rate = self.letter_bytes_per_second_min;
        let earned = (rate > 0).then(|| Duration::from_secs(bytes as u64) / rate)?;
        before.checked_add(earned)
    }

    /// Until when a command is waited for, and when to look whether that is too long for the crowd that there is.
    fn command_deadlines(&self) -> (Instant, Instant) {
        (self.idle_deadline(), sleep(self.idle_max / STRESSED_PART).deadline())
    }

    /// The end of a patience that begins now.
    fn idle_deadline(&self) -> Instant {
        sleep(self.idle_max).deadline()
    }

    /// Sends what is queued, then says goodbye in a way that lets the last reply arrive.
    pub async fn close(mut self) {
        if self.flush().await.is_err() {
            return;
        }
        // Under TLS, saying goodbye is a write that a peer may leave unread.
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
        // Running out of time is an end like the others.
        let _ended = timeout(LINGER, drain).await;
    }

    fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        self.scanned = 0;
    }

    /// Sends what is queued and waits for more bytes.
    async fn fill(&mut self, phase: Phase, deadline: Instant) -> Result<(), Cut> {
        self.flush().await?;
        self.input.drain(..self.start);
        self.start = 0;
        if phase == Phase::Commands {
            self.input.shrink_to(INPUT_BYTES); // the next wait may be a long one
            self.output.shrink_to(OUTPUT_BYTES);
        }
        tokio::select! {
            biased;
            cut = self.ends.any(phase) => Err(cut),
            read = timeout_at(deadline, self.stream.read_buf(&mut self.input)) => match read {
                Err(_) => Err(Cut::Idle),
                Ok(Ok(0) | Err(_)) => Err(Cut::Gone),
                Ok(Ok(_)) => {
                    self.reads += 1;
                    Ok(())
                }
            },
        }
    }

    /// Sends what is queued once it is much; a peer that pipelines without reading is not served from memory.
    pub async fn flush_if_large(&mut self) -> Result<(), Cut> {
        if self.output.len() >= OUTPUT_BYTES_MAX { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<(), Cut> {
        if self.output.is_empty() {
            return Ok(());
        }
        let send = async {
            self.stream.write_all(&self.output).await?;
            self.stream.flush().await
        };
        match timeout(self.idle_max, send).await {
            Err(_) => Err(Cut::Idle),
            Ok(Err(_)) => Err(Cut::Gone),
            Ok(Ok(())) => {
                self.output.clear();
                Ok(())
            }
        }
    }
}

/// Where the first line ends, in bytes before its CRLF; `None` when it is not complete.
fn line_end(bytes: &[u8], from: usize) -> Result<Option<usize>, Cut> {
    let Some(at) = bytes[from..].iter().position(|b| matches!(b, b'\r' | b'\n')).map(|at| from + at) else {
        return Ok(None);
    };
    match (bytes[at], bytes.get(at + 1)) {
        (b'\r', Some(b'\n')) => Ok(Some(at)),
        (b'\r', None) => Ok(None),
        _ => Err(Cut::BareNewline),
    }
}
