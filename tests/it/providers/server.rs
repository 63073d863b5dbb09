//! A loopback server that records requests and answers with exact bytes, cut or held where a test wants it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// What follows the bytes of a reply.
#[derive(Clone, Copy, PartialEq)]
pub enum Then {
    KeepAlive,
    Close,
    /// Keeps the connection open until the client closes it.
    Hold,
}

#[derive(Clone)]
pub struct Reply {
    pub bytes: Vec<u8>,
    pub then: Then,
}

impl Reply {
    pub fn new(status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        let mut head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        Self {
            bytes: format!("{head}\r\n{body}").into_bytes(),
            then: Then::KeepAlive,
        }
    }
    pub fn stream(body: &str) -> Self {
        Self::new(
            200,
            &[
                ("content-type", "text/event-stream"),
                ("request-id", "req-7"),
            ],
            body,
        )
    }
    /// A body of lines, as Ollama sends it.
    pub fn lines(body: &str) -> Self {
        Self::new(
            200,
            &[
                ("content-type", "application/x-ndjson"),
                ("request-id", "req-7"),
            ],
            body,
        )
    }
    /// The same body in chunks, without its end if `then` is not `KeepAlive`.
    pub fn chunked(body: &str, then: Then) -> Self {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: text/event-stream\r\n\r\n";
        let end = if then == Then::KeepAlive {
            "0\r\n\r\n"
        } else {
            ""
        };
        Self {
            bytes: format!("{head}{:x}\r\n{body}\r\n{end}", body.len()).into_bytes(),
            then,
        }
    }
    /// The same with the content type of that dialect, for `ollama` answers in lines.
    pub fn in_words_of(mut self, dialect: &str) -> Self {
        const EVENTS: &[u8] = b"text/event-stream";
        if let (true, Some(at)) = (
            dialect == "ollama",
            self.bytes.windows(EVENTS.len()).position(|w| w == EVENTS),
        ) {
            self.bytes
                .splice(at..at + EVENTS.len(), *b"application/x-ndjson");
        }
        self
    }
    pub fn then(self, then: Then) -> Self {
        Self { then, ..self }
    }
}

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    pub head: String,
    pub body: String,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        let line = |line: &'_ str| {
            line.split_once(':')
                .is_some_and(|(key, _)| key.eq_ignore_ascii_case(name))
        };
        self.head
            .lines()
            .find(|l| line(l))
            .and_then(|l| l.split_once(':'))
            .map(|(_, value)| value.trim())
    }
}

/// Makes the reply to a request; the number counts the requests before it.
type Answer = Arc<dyn Fn(&Seen, usize) -> Reply + Send + Sync>;

pub struct Server {
    pub url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<AtomicUsize>,
    /// A held connection was closed by the client.
    pub hung_up: Arc<Notify>,
}

impl Server {
    /// Answers the n-th request with the n-th reply, and all later ones with the last.
    pub async fn start(replies: Vec<Reply>) -> Self {
        Self::answering(move |_, before| replies[before.min(replies.len() - 1)].clone()).await
    }
    /// Answers every request as the function says.
    pub async fn answering(answer: impl Fn(&Seen, usize) -> Reply + Send + Sync + 'static) -> Self {
        let answer: Answer = Arc::new(answer);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let server = Self {
            url: format!("http://{}", listener.local_addr().expect("bound")),
            seen: Arc::default(),
            connections: Arc::default(),
            hung_up: Arc::default(),
        };
        let (seen, connections, hung_up) = (
            server.seen.clone(),
            server.connections.clone(),
            server.hung_up.clone(),
        );
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, answer.clone(), seen.clone(), hung_up.clone()));
            }
        });
        server
    }
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no test panicked here").clone()
    }
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn serve(
    mut stream: TcpStream,
    answer: Answer,
    seen: Arc<Mutex<Vec<Seen>>>,
    hung_up: Arc<Notify>,
) {
    while let Some(request) = read_request(&mut stream).await {
        let reply = {
            let mut seen = seen.lock().expect("no test panicked here");
            let reply = answer(&request, seen.len());
            seen.push(request);
            reply
        };
        if stream.write_all(&reply.bytes).await.is_err() {
            return;
        }
        match reply.then {
            Then::KeepAlive => {}
            Then::Close => return,
            Then::Hold => {
                while matches!(stream.read(&mut [0; 64]).await, Ok(n) if n > 0) {}
                hung_up.notify_one();
                return;
            }
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        if let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let seen = Seen {
                head,
                body: String::new(),
            };
            let length: usize = seen
                .header("content-length")
                .and_then(|n| n.parse().ok())
                .unwrap_or(0);
            if bytes.len() >= end + 4 + length {
                let body = String::from_utf8_lossy(&bytes[end + 4..]).into_owned();
                return Some(Seen { body, ..seen });
            }
        }
        match stream.read(&mut piece).await {
            Ok(n) if n > 0 => bytes.extend_from_slice(&piece[..n]),
            _ => return None,
        }
    }
}
