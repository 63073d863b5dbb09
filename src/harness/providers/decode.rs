//! Bytes of a response to events: the framing that HTTP dialects share, around a dialect's pure decoder.

use super::accumulate::{broken, ended_early};
use super::contract::{Event, ProviderError};
use crate::domain::ErrorClass;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use sse_stream::{Sse, SseStream};
use std::collections::VecDeque;
use std::io::Cursor;
use std::time::Duration;

/// Pieces of a body, of any size.
pub type Pieces<'a> = BoxStream<'a, Result<Vec<u8>, ProviderError>>;

/// One dialect's reading of one response. No I/O, no time: bytes decide everything.
pub trait Decoder: Send {
    /// One server-sent event, or one line, which has no event name. Errors: class `Protocol` for what cannot be read, or what the vendor reported.
    fn feed(&mut self, event: &str, data: &str) -> Result<Vec<Event>, ProviderError>;
    /// The body of a server that ignored `stream`: one JSON document.
    fn whole(&mut self, body: &str) -> Result<Vec<Event>, ProviderError>;
    /// The body ended. Errors: class `Transient`, unless what came can stand as a complete answer.
    fn finish(&mut self) -> Result<Vec<Event>, ProviderError>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    ServerSent,
    /// One JSON document a line.
    Lines,
    Whole,
}

/// The longest line that is read.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// After the answer is complete, how long to read on so that the connection can be used again.
const DRAIN_MAX: Duration = Duration::from_millis(100);

/// The events of one response: they end with `Finished` or with the first error.
pub fn events<'a>(
    body: Pieces<'a>,
    framing: Framing,
    decoder: Box<dyn Decoder + 'a>,
) -> BoxStream<'a, Result<Event, ProviderError>> {
    let source = match framing {
        Framing::ServerSent => {
            let body = body.map(|piece| piece.map(Cursor::new));
            Source::Frames(SseStream::from_bytes_stream(body).boxed())
        }
        Framing::Lines => {
            Source::Lines(Lines { body, ready: VecDeque::new(), tail: Vec::new(), ended: false })
        }
        Framing::Whole => Source::Document(body),
    };
    let reading = Reading { source, decoder, ready: VecDeque::new(), over: false };
    stream::unfold(reading, Reading::next).fuse().boxed()
}

enum Source<'a> {
    Frames(BoxStream<'a, Result<Sse, sse_stream::Error>>),
    Lines(Lines<'a>),
    Document(Pieces<'a>),
    Ended,
}

/// Lines end with `\n` and with nothing else: what Unicode also calls a line break may stand inside a JSON string.
struct Lines<'a> {
    body: Pieces<'a>,
    /// Whole lines, without their ends.
    ready: VecDeque<Vec<u8>>,
    /// The beginning of the next line.
    tail: Vec<u8>,
    ended: bool,
}

impl Lines<'_> {
    /// The next line that is not blank, and whether its end came; `None` at the end of the body.
    async fn next(&mut self) -> Result<Option<(String, bool)>, ProviderError> {
        loop {
            let (line, is_whole) = match self.ready.pop_front() {
                Some(line) => (line, true),
                None if self.ended => (std::mem::take(&mut self.tail), false),
                None => {
                    match self.body.next().await {
                        Some(piece) => self.split(&piece?)?,
                        None => self.ended = true,
                    }
                    continue;
                }
            };
            let line = String::from_utf8(line).map_err(|_| match is_whole {
                true => broken("a line is not UTF-8"),
                false => ended_early(),
            })?;
            if !line.trim().is_empty() {
                return Ok(Some((line, is_whole)));
            }
            if !is_whole {
                return Ok(None);
            }
        }
    }

    fn split(&mut self, piece: &[u8]) -> Result<(), ProviderError> {
        let mut rest = piece;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.tail.extend_from_slice(&rest[..end]);
            let mut line = std::mem::take(&mut self.tail);
            line.pop_if(|last| *last == b'\r');
            self.ready.push_back(line);
            rest = &rest[end + 1..];
        }
        self.tail.extend_from_slice(rest);
        match self.tail.len() > LINE_BYTES_MAX {
            true => Err(broken(format!("a line is longer than {LINE_BYTES_MAX} bytes"))),
            false => Ok(()),
        }
    }
}

struct Reading<'a> {
    source: Source<'a>,
    decoder: Box<dyn Decoder + 'a>,
    ready: VecDeque<Event>,
    /// A terminal event was given out.
    over: bool,
}

impl Reading<'_> {
    async fn next(mut self) -> Option<(Result<Event, ProviderError>, Self)> {
        loop {
            if self.over {
                return None;
            }
            if let Some(event) = self.ready.pop_front() {
                if matches!(event, Event::Finished(_)) {
                    self.over = true;
                    self.drain().await;
                }
                return Some((Ok(event), self));
            }
            match self.read().await {
                Ok(events) => self.ready.extend(events),
                Err(error) => {
                    self.over = true;
                    return Some((Err(error), self));
                }
            }
        }
    }

    /// The events of the next frame; more than none, or another frame will come, or an error.
    async fn read(&mut self) -> Result<Vec<Event>, ProviderError> {
        match &mut self.source {
            Source::Frames(frames) => match frames.next().await {
                Some(frame) => {
                    let Sse { event, data, .. } = frame.map_err(unreadable)?;
                    let Some(data) = data else { return Ok(Vec::new()) };
                    self.decoder.feed(event.as_deref().unwrap_or_default(), &data)
                }
                None => {
                    self.source = Source::Ended;
                    self.decoder.finish()
                }
            },
            Source::Lines(lines) => match lines.next().await? {
                Some((line, is_whole)) => self.decoder.feed("", &line).map_err(|error| match error.class {
                    // The connection closed inside a line.
                    ErrorClass::Protocol if !is_whole => ended_early(),
                    _ => error,
                }),
                None => {
                    self.source = Source::Ended;
                    self.decoder.finish()
                }
            },
            Source::Document(body) => {
                let mut bytes = Vec::new();
                while let Some(piece) = body.next().await {
                    bytes.extend_from_slice(&piece?);
                }
                self.source = Source::Ended;
                let text = String::from_utf8(bytes).map_err(|_| broken("the answer is not UTF-8"))?;
                self.decoder.whole(&text)
            }
            // A decoder that ended without a terminal event: the contract asks for one.
            Source::Ended => Err(ended_early()),
        }
    }

    /// Reads what follows the answer, so that its connection returns to the pool; whatever it is, it is ignored.
    async fn drain(&mut self) {
        let rest = async {
            match &mut self.source {
                Source::Frames(frames) => while let Some(Ok(_)) = frames.next().await {},
                Source::Lines(lines) => while let Some(Ok(_)) = lines.body.next().await {},
                Source::Document(_) | Source::Ended => {}
            }
        };
        // A server that keeps the stream open loses the connection, nothing else.
        let _timed_out = tokio::time::timeout(DRAIN_MAX, rest).await;
    }
}

/// Our own errors travel through the framing unchanged.
fn unreadable(error: sse_stream::Error) -> ProviderError {
    match error {
        sse_stream::Error::Body(source) => match source.downcast::<ProviderError>() {
            Ok(own) => *own,
            Err(other) => broken(format!("the answer could not be read: {other}")),
        },
        other => broken(format!("the answer is not a stream of server-sent events: {other}")),
    }
}
