//! One IMAP connection: sends commands, receives parsed responses, bounded in time and in memory.
//!
//! imap-proto parses a response; the rest is implemented here, because a client that hides a `NO`
//! or a lost connection behind an empty answer cannot be used where flags are set only after a
//! commit (decision D-25).

use super::error::MailboxError;
use super::nesting;
use imap_proto::Response;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

const READ_BYTES: usize = 64 * 1024;
/// Bytes that a response may have in addition to the letter in it.
const ANSWER_MARGIN_BYTES: usize = 1024 * 1024;

/// TCP, or TLS over it.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

pub(super) struct ImapConnection<S> {
    stream: S,
    /// Received bytes that are not parsed yet.
    buffer: Vec<u8>,
    answer_bytes_max: usize,
    silence_max: Duration,
}

impl<S: Stream> ImapConnection<S> {
    pub fn new(stream: S, letter_bytes_max: usize, silence_max: Duration) -> Self {
        let answer_bytes_max = letter_bytes_max.saturating_add(ANSWER_MARGIN_BYTES);
        Self {
            stream,
            buffer: Vec::new(),
            answer_bytes_max,
            silence_max,
        }
    }

    /// The underlying stream, if no bytes are left unparsed: a response that an attacker injected
    /// before TLS must not be read as one received under TLS (RFC 9051 section 11.1).
    pub fn into_stream(self) -> Result<S, MailboxError> {
        if self.buffer.is_empty() {
            Ok(self.stream)
        } else {
            Err(MailboxError::Garbled)
        }
    }

    /// Writes a line and CR LF.
    pub async fn send(&mut self, line: &str) -> Result<(), MailboxError> {
        let bytes = format!("{line}\r\n");
        let write = async {
            self.stream.write_all(bytes.as_bytes()).await?;
            self.stream.flush().await
        };
        let written = timeout(self.silence_max, write)
            .await
            .map_err(|_| MailboxError::Silent)?;
        written.map_err(|error| MailboxError::Lost(Some(error)))
    }

    /// Passes the next response to `read`. Fails when the server sends nothing for `silence_max`.
    pub async fn receive<T>(
        &mut self,
        read: impl FnOnce(&Response<'_>) -> T,
    ) -> Result<T, MailboxError> {
        self.receive_within(self.silence_max, read).await
    }

    /// As [`Self::receive`], with another timeout. Dropping the future before it is done loses no
    /// data.
    pub async fn receive_within<T>(
        &mut self,
        silence_max: Duration,
        read: impl FnOnce(&Response<'_>) -> T,
    ) -> Result<T, MailboxError> {
        loop {
            if !nesting::is_bounded(&self.buffer) {
                return Err(MailboxError::Garbled);
            }
            match Response::parse(&self.buffer) {
                Ok((rest, response)) => {
                    let used = self.buffer.len() - rest.len();
                    let read = read(&response);
                    drop(response);
                    self.buffer.drain(..used);
                    self.buffer.shrink_to(READ_BYTES);
                    return Ok(read);
                }
                Err(error) if error.is_incomplete() => self.fill(silence_max).await?,
                Err(_) => self.skip_unknown_line()?,
            }
        }
    }

    async fn fill(&mut self, silence_max: Duration) -> Result<(), MailboxError> {
        if self.buffer.len() > self.answer_bytes_max {
            return Err(MailboxError::TooMuch);
        }
        self.buffer.reserve(READ_BYTES);
        let read = self.stream.read_buf(&mut self.buffer);
        match timeout(silence_max, read).await {
            Err(_) => Err(MailboxError::Silent),
            Ok(Err(error)) => Err(MailboxError::Lost(Some(error))),
            Ok(Ok(0)) => Err(MailboxError::Lost(None)),
            Ok(Ok(_)) => Ok(()),
        }
    }

    /// Skips an untagged line that imap-proto cannot parse, because servers send non-standard
    /// lines. A line that announces a literal cannot be skipped: its end is unknown.
    fn skip_unknown_line(&mut self) -> Result<(), MailboxError> {
        let end = self
            .buffer
            .windows(2)
            .position(|pair| pair == b"\r\n")
            .ok_or(MailboxError::Garbled)?;
        let line = &self.buffer[..end];
        if !line.starts_with(b"* ") || line.ends_with(b"}") {
            return Err(MailboxError::Garbled);
        }
        tracing::debug!(bytes = line.len(), "stepped over a line of an IMAP server");
        self.buffer.drain(..end + 2);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn wire_with(bytes: &[u8]) -> ImapConnection<tokio::io::DuplexStream> {
        let (ours, mut theirs) = tokio::io::duplex(8 << 20);
        theirs.write_all(bytes).await.expect("written");
        ImapConnection::new(ours, 1000, Duration::from_secs(5))
    }

    #[tokio::test]
    async fn unknown_untagged_lines_are_stepped_over_unknown_literals_not() {
        let mut connection =
            wire_with(b"* XSTRANGE (1 2\r\n* 3 EXISTS\r\n* XSTRANGE {3}\r\nabc\r\n").await;
        let said = connection
            .receive(|response| format!("{response:?}"))
            .await
            .expect("a response");
        assert_eq!(said, "MailboxData(Exists(3))");
        assert!(matches!(
            connection.receive(|_| ()).await,
            Err(MailboxError::Garbled)
        ));
    }

    #[tokio::test]
    async fn parentheses_without_end_end_the_connection_not_the_process() {
        let nested = "(".repeat(200_000);
        let mut connection =
            wire_with(format!("* 1 FETCH (BODYSTRUCTURE {nested}").as_bytes()).await;
        assert!(matches!(
            connection.receive(|_| ()).await,
            Err(MailboxError::Garbled)
        ));
    }

    #[tokio::test]
    async fn a_literal_of_four_gigabytes_costs_what_was_sent_of_it() {
        let mut bytes = b"* 1 FETCH (UID 1 BODY[] {4000000000}\r\n".to_vec();
        bytes.resize(ANSWER_MARGIN_BYTES + 200_000, b'x');
        let mut connection = wire_with(&bytes).await;
        assert!(matches!(
            connection.receive(|_| ()).await,
            Err(MailboxError::TooMuch)
        ));
        assert!(
            connection.buffer.capacity() < 4 * ANSWER_MARGIN_BYTES,
            "{}",
            connection.buffer.capacity()
        );
    }

    #[tokio::test]
    async fn what_was_slipped_in_before_tls_ends_the_connection() {
        let mut connection = wire_with(b"a OK begin TLS\r\n* OK injected\r\n").await;
        connection.receive(|_| ()).await.expect("a response");
        assert!(matches!(
            connection.into_stream(),
            Err(MailboxError::Garbled)
        ));
    }
}
