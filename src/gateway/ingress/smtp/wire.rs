//! Bytes in and replies out of one connection: one buffer each, one write per batch of replies, every wait bounded.

use super::command::{self, Command};
use super::data::{End, LetterReader};
use super::reply::Reply;
use crate::config::Limits;
use std::pin::Pin;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Sleep, sleep, timeout};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Why a peer is listened to no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// End of stream, or an error of the socket.
    Gone,
    /// Silent, or not reading our replies, for `session_idle_max`.
    Idle,
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
}

/// What the peer is in the middle of; a letter may still be finished while the engine stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Commands,
    Letter,
}

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

pub struct Wire<S> {
    stream: S,
    input: Vec<u8>,
    /// Start of the unread part of `input`.
    start: usize,
    /// Bytes of the unread part that are known to hold no line end.
    scanned: usize,
    output: Vec<u8>,
    /// Successful reads so far. A read comes after our replies were sent, so it is a sign that they arrived.
    pub reads: u64,
    idle_max: Duration,
    line_bytes_max: usize,
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
    pub fn new(stream: S, limits: &Limits, stop: &CancellationToken) -> Self {
        Self {
            stream,
            input: Vec::with_capacity(INPUT_BYTES),
            start: 0,
            scanned: 0,
            output: Vec::new(),
            reads: 0,
            idle_max: limits.session_idle_max,
            line_bytes_max: limits.command_line_bytes_max.min(INPUT_BYTES - 2),
            ends: Ends {
                session: Box::pin(sleep(limits.session_duration_max)),
                stop: Box::pin(stop.clone().cancelled_owned()),
                drain: None,
                // The commit and the reply need a moment of the time that the listener leaves to its sessions.
                drain_max: limits.drain_max.mul_f32(0.8),
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

    /// The next command, or the reply to a line that is none.
    pub async fn command(&mut self) -> Result<Result<Command, Reply>, Cut> {
        loop {
            let unread = &self.input[self.start..];
            if unread.first() == Some(&0x16) {
                return Err(Cut::NotSmtp); // the record type of a TLS handshake; no line end may ever come
            }
            match line_end(unread, self.scanned)? {
                Some(end) if end <= self.line_bytes_max => {
                    let parsed = command::parse(&unread[..end]);
                    self.consume(end + 2);
                    return Ok(parsed);
                }
                Some(end) => {
                    self.consume(end + 2);
                    return Ok(Err(super::reply::LINE_TOO_LONG));
                }
                None if unread.len() > self.line_bytes_max + 1 => return self.skip_line().await.map(Err),
                None => {
                    self.scanned = unread.len().saturating_sub(1); // a CR may still wait for its LF
                    self.fill(Phase::Commands).await?;
                }
            }
        }
    }

    /// Drops the rest of a line that is longer than the buffer may be.
    async fn skip_line(&mut self) -> Result<Reply, Cut> {
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
            self.fill(Phase::Commands).await?;
        }
        Err(Cut::EndlessLine)
    }

    /// Reads a letter to its end.
    pub async fn letter(&mut self, reader: &mut LetterReader) -> Result<End, Cut> {
        loop {
            let (used, end) = reader.push(&self.input[self.start..]);
            self.consume(used);
            if let Some(end) = end {
                return Ok(end);
            }
            if self.input.len() == self.input.capacity() && self.input.capacity() < INPUT_BYTES_MAX {
                self.input = Vec::with_capacity(INPUT_BYTES_MAX); // all of it was consumed, and more is waiting
                self.start = 0;
            }
            self.fill(Phase::Letter).await?;
        }
    }

    /// Sends what is queued, then says goodbye in a way that lets the last reply arrive.
    pub async fn close(mut self) {
        if self.flush().await.is_err() || self.stream.shutdown().await.is_err() {
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
    async fn fill(&mut self, phase: Phase) -> Result<(), Cut> {
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
            read = timeout(self.idle_max, self.stream.read_buf(&mut self.input)) => match read {
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
