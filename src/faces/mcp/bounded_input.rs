//! Input of a server with an end: no line of it is longer than a bound, because the protocol's library keeps a line in memory.

use std::io::{Error, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};

/// Longest message of an agent, in bytes.
const LINE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Input that fails at a line that is too long.
pub struct BoundedInput<R> {
    input: R,
    /// Bytes since the last line end.
    bytes: usize,
}

impl<R> BoundedInput<R> {
    pub fn new(input: R) -> Self {
        Self { input, bytes: 0 }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for BoundedInput<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.input).poll_read(context, buffer))?;
        let read = &buffer.filled()[before..];
        self.bytes = match read.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => read.len() - end - 1,
            None => self.bytes.saturating_add(read.len()),
        };
        Poll::Ready(match self.bytes > LINE_BYTES_MAX {
            false => Ok(()),
            true => {
                tracing::warn!("an agent sent a message of more than 8 MB; its connection ends");
                Err(Error::new(
                    ErrorKind::InvalidData,
                    "the message is too long",
                ))
            }
        })
    }
}
