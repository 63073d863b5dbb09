//! A reader of the stream of events, over a socket that it can stop reading.

use super::site::{Login, Site};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

/// Bytes at the end of the text in which a new event is looked for; more than are read at a time.
const TAIL: usize = 8 * 1024;
/// The smallest buffer that the system gives: what it holds for a reader that does not read is not told.
const RECEIVE_BUFFER: u32 = 2048;

pub struct Reader<S = TcpStream> {
    socket: S,
    pub text: String,
}

impl Reader {
    /// Opens a stream as the browser of a login does, and waits for its first words.
    pub async fn open(site: &Site, login: &Login, query: &str, last: Option<i64>) -> Self {
        let mut reader = Self::cold(site, login, query, last).await;
        reader.is_told().await;
        reader
    }

    /// Asks for a stream, and reads nothing of it.
    pub async fn cold(site: &Site, login: &Login, query: &str, last: Option<i64>) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        let small = socket.set_recv_buffer_size(RECEIVE_BUFFER);
        small.expect("a small buffer");
        let socket = socket.connect(site.address).await.expect("a connection");
        let last = last
            .map(|last| format!("Last-Event-ID: {last}\r\n"))
            .unwrap_or_default();
        let head = format!(
            "Host: {}\r\nCookie: {}\r\nSec-Fetch-Site: same-origin\r\n{last}",
            site.address, login.cookie
        );
        Self::over(socket, query, &head).await
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Reader<S> {
    /// Asks for a stream over a socket, with these header fields.
    pub async fn over(mut socket: S, query: &str, fields: &str) -> Self {
        let request = format!("GET /api/v1/events{query} HTTP/1.1\r\n{fields}\r\n");
        socket.write_all(request.as_bytes()).await.expect("sent");
        let text = String::new();
        Self { socket, text }
    }

    /// Waits for the first words of a stream.
    pub async fn is_told(&mut self) {
        self.until(|text| text.contains("retry: 3000")).await;
        assert!(self.text.starts_with("HTTP/1.1 200"), "{}", self.text);
    }

    /// Waits for the status of the answer.
    pub async fn status(&mut self) -> u16 {
        self.until(|text| text.contains("\r\n")).await;
        let status = self.text.get(9..12).and_then(|code| code.parse().ok());
        status.expect("a status")
    }

    /// Reads until the text is as wanted; `false`: the stream has ended before.
    pub async fn until(&mut self, is_enough: impl Fn(&str) -> bool) -> bool {
        let mut buffer = [0; 4096];
        while !is_enough(&self.text) {
            let read = timeout(Duration::from_secs(30), self.socket.read(&mut buffer));
            let count = read.await.expect("a word in time").unwrap_or(0);
            if count == 0 {
                return false;
            }
            self.text
                .push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        true
    }

    /// Reads until an event is there whole; `false`: the stream has ended before.
    pub async fn until_event(&mut self, seq: i64) -> bool {
        let start = format!("id: {seq}\n");
        let is_whole = |text: &str| {
            let tail = &text[text.len().saturating_sub(TAIL)..];
            let told = tail.split_once(&start);
            told.is_some_and(|(_, event)| event.contains("\n\n"))
        };
        self.until(is_whole).await
    }

    /// Numbers of the events that were read whole: an event counts when its blank line was read, as browsers do.
    pub fn ids(&self) -> Vec<i64> {
        ids(&self.text)
    }
}

/// Numbers of the events that a text has whole.
pub fn ids(text: &str) -> Vec<i64> {
    let whole = text.rsplit_once("\n\n").map_or("", |(whole, _)| whole);
    let ids = whole.lines().filter_map(|line| line.strip_prefix("id: "));
    ids.filter_map(|id| id.trim().parse().ok()).collect()
}

/// Numbers of everything that happened.
pub async fn all_events(site: &Site) -> Vec<i64> {
    let store = &site.scene.world.app.engine.store;
    let (mut after, mut all) = (0, Vec::new());
    loop {
        let page = store.feed_after(after, &Default::default(), 1000).await;
        let page = page.expect("the feed");
        all.extend(page.events.iter().map(|event| event.seq));
        if !page.has_more() {
            return all;
        }
        after = page.through;
    }
}
