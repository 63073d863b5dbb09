//! A server of our own and a client that reads all the time: in memory, byte at a time, or over a socket.

use crate::recording_intake::RecordingDoor;
use attache::clock::{Clock, ManualClock};
use attache::config::{Limits, ListenAddress};
use attache::domain::{Address, Letter, Timestamp};
use attache::gateway::ingress::smtp::{
    BoundSocket, ConnectionLimiter, MemoryShares, ServerContext, SmtpSettings, serve, serve_session,
};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, duplex};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Nothing here takes long; a wait that reaches this is a hang.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub fn settings(limits: Limits) -> SmtpSettings {
    let shares = MemoryShares::for_letters(limits.letter_bytes_max, Vec::new());
    let connection_limiter = ConnectionLimiter::new(&limits, shares, clock());
    SmtpSettings::plain("mx.engine.test", "engine.test", limits, connection_limiter)
}

pub fn clock() -> Arc<dyn Clock> {
    Arc::new(ManualClock::at(Timestamp::from_millis(0)))
}

/// A socket that the system chose the port of.
pub async fn bind(settings: SmtpSettings) -> (BoundSocket, SocketAddr) {
    let any_port = ListenAddress::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
    let bound = BoundSocket::open(&any_port, settings).await.unwrap();
    let address = bound.tcp_address().unwrap();
    (bound, address)
}

pub fn house(intake: &Arc<RecordingDoor>, limits: Limits) -> ServerContext {
    ServerContext::new(intake.clone(), settings(limits), CancellationToken::new())
}

pub fn glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, tail)) => text.strip_prefix(head).is_some_and(|rest| {
            (0..=rest.len()).any(|at| rest.is_char_boundary(at) && glob(tail, &rest[at..]))
        }),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Segments,
    ByteAtATime,
    Socket,
}

pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A server and a client's end of a connection to it.
pub async fn connect(way: Way, house: ServerContext) -> (Box<dyn Stream>, JoinHandle<()>) {
    match way {
        Way::Segments | Way::ByteAtATime => {
            let buffer = if way == Way::Segments { 64 * 1024 } else { 1 };
            let (client, server) = duplex(buffer);
            let server = tokio::spawn(async move { serve_session(server, None, &house).await });
            (Box::new(client), server)
        }
        Way::Socket => {
            let (bound, address) = bind((*house.settings).clone()).await;
            let server = tokio::spawn(serve(bound, house.intake.clone(), house.stop.clone()));
            (Box::new(TcpStream::connect(address).await.unwrap()), server)
        }
    }
}

/// The client's end: what it reads is collected all the time, so that neither side can block the other.
pub struct Client {
    writer: Option<WriteHalf<Box<dyn Stream>>>,
    lines: mpsc::UnboundedReceiver<String>,
}

impl Client {
    pub fn new(stream: Box<dyn Stream>) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        let (sender, lines) = mpsc::unbounded_channel();
        tokio::spawn(Self::collect(reader, sender));
        Self {
            writer: Some(writer),
            lines,
        }
    }

    async fn collect(mut reader: ReadHalf<Box<dyn Stream>>, lines: mpsc::UnboundedSender<String>) {
        let mut text = Vec::new();
        while let Ok(1..) = reader.read_buf(&mut text).await {
            while let Some(end) = text.windows(2).position(|pair| pair == b"\r\n") {
                let line: Vec<u8> = text.drain(..end + 2).collect();
                let _gone = lines.send(String::from_utf8(line[..end].to_vec()).unwrap());
            }
        }
        assert!(
            text.is_empty(),
            "the server stopped in the middle of a line: {text:?}"
        );
    }

    /// A server that has hung up is noticed when its lines are compared.
    pub async fn send(&mut self, bytes: &[u8]) {
        if let Some(writer) = &mut self.writer {
            let _closed = timeout(PATIENCE, writer.write_all(bytes))
                .await
                .expect("the server reads");
            let _closed = writer.flush().await;
        }
    }

    pub async fn line(&mut self) -> Option<String> {
        timeout(PATIENCE, self.lines.recv())
            .await
            .expect("the server answers or closes")
    }

    pub async fn hang_up(&mut self) {
        if let Some(mut writer) = self.writer.take() {
            let _closed = writer.shutdown().await;
        }
    }

    /// Sends one line and expects a reply that matches.
    pub async fn say(&mut self, line: &str, pattern: &str) {
        self.send(format!("{line}\r\n").as_bytes()).await;
        self.expect(pattern).await;
    }

    pub async fn expect(&mut self, pattern: &str) {
        let line = self.line().await;
        assert!(
            line.as_deref().is_some_and(|line| glob(pattern, line)),
            "expected `{pattern}`, got {line:?}"
        );
    }

    /// Greeting and EHLO.
    pub async fn greet(&mut self) {
        self.expect("220 *").await;
        self.send(b"EHLO client.example\r\n").await;
        while !self
            .line()
            .await
            .expect("an answer to EHLO")
            .starts_with("250 ")
        {}
    }
}

/// Sends everything, closes, returns all that the server said.
pub async fn speak(house: &ServerContext, input: &[u8], piece: usize) -> String {
    let (client, server) = duplex(64 * 1024);
    let (mut reader, mut writer) = tokio::io::split(client);
    let talk = async {
        for piece in input.chunks(piece) {
            if writer.write_all(piece).await.is_err() {
                break;
            }
            // Lets the server read the piece before the next one is there.
            tokio::task::yield_now().await;
        }
        let _closed = writer.shutdown().await;
    };
    let mut output = String::new();
    let all = async {
        tokio::join!(
            talk,
            serve_session(server, None, house),
            reader.read_to_string(&mut output)
        )
    };
    timeout(PATIENCE, all)
        .await
        .expect("the session ends")
        .2
        .unwrap();
    output
}

pub struct Server {
    pub address: SocketAddr,
    pub intake: Arc<RecordingDoor>,
    pub stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Server {
    pub async fn start(limits: Limits) -> Self {
        Self::with(settings(limits)).await
    }

    pub async fn with(settings: SmtpSettings) -> Self {
        let intake = Arc::new(RecordingDoor::new());
        let stop = CancellationToken::new();
        let (bound, address) = bind(settings).await;
        let task = tokio::spawn(serve(bound, intake.clone(), stop.clone()));
        Self {
            address,
            intake,
            stop,
            task,
        }
    }

    pub async fn connect(&self) -> Client {
        Client::new(Box::new(TcpStream::connect(self.address).await.unwrap()))
    }

    pub async fn stop(self) {
        self.stop.cancel();
        timeout(PATIENCE, self.task)
            .await
            .expect("the listener ends")
            .unwrap();
    }
}

pub fn describe(letter: &Letter) -> String {
    let envelope = &letter.envelope;
    let mut text = format!(
        "{} <{}>",
        envelope.helo,
        envelope
            .mail_from
            .as_ref()
            .map_or(String::new(), Address::to_string)
    );
    for recipient in &envelope.rcpt_to {
        write!(text, " {recipient}").unwrap();
    }
    text
}
