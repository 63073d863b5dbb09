//! A mail client of a few lines: sends one letter in one SMTP session (RFC 5321) and keeps every
//! line of it.
//!
//! Absent on purpose: TLS, pipelining, more than one recipient. It stands for the guest's mail
//! server.

use anyhow::{Context, bail};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// Timeout of one reply; on loopback, a longer wait is a fault.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum bytes of a line, and maximum lines of a reply.
const LINE_BYTES_MAX: u64 = 2048;
const REPLY_LINES_MAX: usize = 50;

/// One line of the session, without its line end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spoken {
    pub by_server: bool,
    pub line: String,
}

/// A letter with its envelope.
pub struct SubmittedLetter<'a> {
    pub from: &'a str,
    pub to: &'a str,
    /// Lines end with CRLF.
    pub bytes: &'a [u8],
}

/// Sends one letter and returns the lines of the session. Errors: any reply but the expected one,
/// with that reply.
pub async fn send(server: SocketAddr, letter: &SubmittedLetter<'_>) -> anyhow::Result<Vec<Spoken>> {
    let stream = TcpStream::connect(server)
        .await
        .with_context(|| format!("cannot connect to {server}"))?;
    let (reader, writer) = stream.into_split();
    let mut session = ClientSession {
        reader: BufReader::new(reader),
        writer,
        spoken: Vec::new(),
    };
    session.reply(220).await?;
    session.command("EHLO mail.traveller.example", 250).await?;
    session
        .command(&format!("MAIL FROM:<{}>", letter.from), 250)
        .await?;
    session
        .command(&format!("RCPT TO:<{}>", letter.to), 250)
        .await?;
    session.command("DATA", 354).await?;
    session.data(letter.bytes).await?;
    session.reply(250).await?;
    session.command("QUIT", 221).await?;
    Ok(session.spoken)
}

struct ClientSession {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    spoken: Vec<Spoken>,
}

impl ClientSession {
    async fn command(&mut self, line: &str, code: u16) -> anyhow::Result<()> {
        self.spoken.push(Spoken {
            by_server: false,
            line: line.to_owned(),
        });
        self.writer
            .write_all(format!("{line}\r\n").as_bytes())
            .await?;
        self.reply(code).await
    }

    /// Sends the letter, with dots doubled where RFC 5321 section 4.5.2 requires it, and the final
    /// dot.
    async fn data(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let mut wire = Vec::with_capacity(bytes.len() + 16);
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            if line.starts_with(b".") {
                wire.push(b'.');
            }
            wire.extend_from_slice(line);
        }
        if !wire.ends_with(b"\r\n") {
            wire.extend_from_slice(b"\r\n");
        }
        wire.extend_from_slice(b".\r\n");
        self.writer.write_all(&wire).await?;
        self.spoken.push(Spoken {
            by_server: false,
            line: format!("({} bytes of letter)", bytes.len()),
        });
        Ok(())
    }

    /// Reads one reply, which may have several lines.
    async fn reply(&mut self, code: u16) -> anyhow::Result<()> {
        for _ in 0..REPLY_LINES_MAX {
            let line = tokio::time::timeout(REPLY_TIMEOUT, self.line())
                .await
                .with_context(|| format!("the server did not answer within {REPLY_TIMEOUT:?}"))??;
            self.spoken.push(Spoken {
                by_server: true,
                line: line.clone(),
            });
            if line.as_bytes().get(3) == Some(&b'-') {
                continue;
            }
            if !line.starts_with(&code.to_string()) {
                bail!("the server answered `{line}` where {code} was expected");
            }
            return Ok(());
        }
        bail!("the server's reply has more than {REPLY_LINES_MAX} lines")
    }

    async fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        let read = (&mut self.reader)
            .take(LINE_BYTES_MAX)
            .read_line(&mut line)
            .await?;
        if read == 0 {
            bail!("the server hung up");
        }
        Ok(line.trim_end().to_owned())
    }
}
