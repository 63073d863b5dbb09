//! Decodes the bytes of a response to events: the framing that HTTP dialects share, around a
//! dialect's pure decoder.

use crate::domain::ErrorClass;
use crate::providers::contract::accumulate::{broken, ended_early};
use crate::providers::contract::capture::Form;
use crate::providers::contract::traits::{Event, ProviderError};
use crate::providers::transport::lines::{Lines, OutputLimits};
use crate::providers::transport::sse;
use crate::providers::transport::surrogates::SurrogateHalves;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use std::collections::VecDeque;
use std::time::Duration;

/// Pieces of a body, of any size.
pub type Pieces<'a> = BoxStream<'a, Result<Vec<u8>, ProviderError>>;

/// Decoder of one response of a dialect. No I/O, no time: bytes decide everything.
pub trait Decoder: Send {
    /// Decodes one server-sent event, or one line, which has no event name. Errors: class
    /// `Protocol` for input that cannot be read, or the error that the vendor reported.
    fn feed(&mut self, event: &str, data: &str) -> Result<Vec<Event>, ProviderError>;
    /// Decodes the body of a server that ignored `stream`: one JSON document.
    fn whole(&mut self, body: &str) -> Result<Vec<Event>, ProviderError>;
    /// Handles the end of the body. Errors: class `Transient`, unless the events so far are a
    /// complete answer.
    fn finish(&mut self) -> Result<Vec<Event>, ProviderError>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    ServerSent,
    /// One JSON document a line.
    Lines,
    Whole,
}

/// Longest read after the complete answer, so that the connection can be reused.
const DRAIN_MAX: Duration = Duration::from_millis(100);

impl Framing {
    /// Returns the framing of a body whose content type names none, by its first byte that is no
    /// space; `None` without one. Whole documents of JSON begin with a bracket, and no field of an
    /// event stream does.
    pub fn from_first_byte(body: &[u8]) -> Option<Framing> {
        let first = body.iter().find(|byte| !byte.is_ascii_whitespace())?;
        Some(if matches!(first, b'{' | b'[') {
            Framing::Whole
        } else {
            Framing::ServerSent
        })
    }
}

impl From<Framing> for Form {
    fn from(framing: Framing) -> Self {
        match framing {
            Framing::ServerSent => Form::ServerSent,
            Framing::Lines => Form::Lines,
            Framing::Whole => Form::Whole,
        }
    }
}

/// Returns the events of one response: they end with `Finished` or with the first error.
pub fn events<'a>(
    body: Pieces<'a>,
    framing: Framing,
    decoder: Box<dyn Decoder + 'a>,
) -> BoxStream<'a, Result<Event, ProviderError>> {
    let source = match framing {
        Framing::ServerSent => Source::ServerSentBody(ServerSentBody {
            body: body.fuse().boxed(),
            events: sse::EventSplitter::default(),
        }),
        Framing::Lines => {
            let limits = OutputLimits {
                total_bytes_max: usize::MAX,
                ..OutputLimits::default()
            };
            Source::Lines(LinedBody {
                body: body.fuse().boxed(),
                lines: Lines::new(limits),
            })
        }
        Framing::Whole => Source::Document(body),
    };
    let reading = ResponseReader {
        source,
        halves: SurrogateHalves::default(),
        decoder,
        ready: VecDeque::new(),
        over: false,
    };
    stream::unfold(reading, ResponseReader::next).fuse().boxed()
}

enum Source<'a> {
    ServerSentBody(ServerSentBody<'a>),
    Lines(LinedBody<'a>),
    Document(Pieces<'a>),
    Ended,
}

/// A body of server-sent events.
struct ServerSentBody<'a> {
    body: Pieces<'a>,
    events: sse::EventSplitter,
}

impl ServerSentBody<'_> {
    /// Returns the next event; `None` at the end of the body.
    async fn next(&mut self) -> Result<Option<sse::ServerSentEvent>, ProviderError> {
        loop {
            if let Some(event) = self.events.take() {
                return Ok(Some(event));
            }
            match self.body.next().await {
                Some(piece) => self.events.push(&piece?),
                None => return Ok(self.events.rest()),
            }
        }
    }
}

/// A body read line by line.
struct LinedBody<'a> {
    body: Pieces<'a>,
    lines: Lines,
}

impl LinedBody<'_> {
    /// Returns the next line that is not blank, and whether its line end came; `None` at the end of
    /// the body.
    async fn next(&mut self) -> Result<Option<(String, bool)>, ProviderError> {
        loop {
            if let Some(line) = self.lines.take()? {
                return Ok(Some((line, true)));
            }
            match self.body.next().await {
                Some(piece) => self.lines.push(&piece?)?,
                // A split UTF-8 character means a split line.
                None => {
                    return Ok(self
                        .lines
                        .rest()
                        .map_err(|_| ended_early())?
                        .map(|line| (line, false)));
                }
            }
        }
    }
}

struct ResponseReader<'a> {
    source: Source<'a>,
    halves: SurrogateHalves,
    decoder: Box<dyn Decoder + 'a>,
    ready: VecDeque<Event>,
    /// `true`: a terminal event was yielded.
    over: bool,
}

impl ResponseReader<'_> {
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

    /// Returns the events of the next frame, possibly none, or an error.
    async fn read(&mut self) -> Result<Vec<Event>, ProviderError> {
        match &mut self.source {
            Source::ServerSentBody(frames) => match frames.next().await? {
                // Keep-alive of some servers.
                Some(event) if matches!(event.data.trim(), "" | "null") => Ok(Vec::new()),
                Some(event) => self
                    .decoder
                    .feed(&event.name, &self.halves.join(&event.data)),
                None => {
                    self.source = Source::Ended;
                    self.decoder.finish()
                }
            },
            Source::Lines(lines) => match lines.next().await? {
                Some((line, is_whole)) => {
                    self.decoder
                        .feed("", &self.halves.join(&line))
                        .map_err(|error| match error.class {
                            // The connection closed inside a line.
                            ErrorClass::Protocol if !is_whole => ended_early(),
                            _ => error,
                        })
                }
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
                let text =
                    String::from_utf8(bytes).map_err(|_| broken("the answer is not UTF-8"))?;
                self.decoder.whole(&self.halves.join(&text))
            }
            // The decoder ended without a terminal event, which the contract requires.
            Source::Ended => Err(ended_early()),
        }
    }

    /// Reads and ignores what follows the answer, so that its connection returns to the pool.
    async fn drain(&mut self) {
        let rest = async {
            match &mut self.source {
                Source::ServerSentBody(frames) => {
                    while let Some(Ok(_)) = frames.body.next().await {}
                }
                Source::Lines(lines) => while let Some(Ok(_)) = lines.body.next().await {},
                Source::Document(_) | Source::Ended => {}
            }
        };
        // A server that keeps the stream open loses the connection, nothing else.
        let _timed_out = tokio::time::timeout(DRAIN_MAX, rest).await;
    }
}
