//! The browser's answer on loopback (RFC 8252 section 7.3): a listener at a free port of 127.0.0.1, for one login.

use futures_util::stream::{FuturesUnordered, StreamExt};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

const PATH: &str = "/callback";
/// Most bytes of a request.
const REQUEST_BYTES_MAX: usize = 16 * 1024;
/// Time of a request, and of an answer. Browsers open connections that they may use later.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);
/// Most connections at a time.
const CONNECTIONS_MAX: usize = 16;

type Reading = Pin<Box<dyn Future<Output = Option<CallbackRequest>> + Send>>;

/// A listener for one login.
pub struct CallbackListener {
    listener: TcpListener,
    reading: FuturesUnordered<Reading>,
}

/// A request of a browser that waits for its answer.
pub struct CallbackRequest {
    /// Path and query.
    pub address: String,
    stream: TcpStream,
}

impl CallbackListener {
    pub async fn bind() -> io::Result<Self> {
        Ok(Self {
            listener: TcpListener::bind("127.0.0.1:0").await?,
            reading: FuturesUnordered::new(),
        })
    }

    /// Returns the address to which the authorization server sends the browser.
    pub fn redirect(&self) -> io::Result<String> {
        let port = self.listener.local_addr()?.port();
        Ok(format!("http://127.0.0.1:{port}{PATH}"))
    }

    /// Waits for the next request that could be an answer; others are answered here.
    pub async fn next(&mut self) -> io::Result<CallbackRequest> {
        loop {
            let has_room = self.reading.len() < CONNECTIONS_MAX;
            tokio::select! {
                accepted = self.listener.accept(), if has_room => {
                    let (stream, _) = accepted?;
                    self.reading.push(Box::pin(read(stream)));
                }
                Some(Some(request)) = self.reading.next() => return Ok(request),
            }
        }
    }
}

impl CallbackRequest {
    /// Answers the browser. Whether it arrives is the browser's business.
    pub async fn answer(self, is_right: bool) {
        let (status, text) = match is_right {
            true => (
                "200 OK",
                "Attache has the answer. You can close this page; the terminal tells the rest.",
            ),
            false => (
                "400 Bad Request",
                "This is not the answer that Attache waits for.",
            ),
        };
        write(self.stream, status, text).await;
    }
}

/// Reads a request; `None`: it is no answer, and was told so.
async fn read(mut stream: TcpStream) -> Option<CallbackRequest> {
    let head = timeout(REQUEST_TIME_MAX, head(&mut stream)).await.ok()??;
    let mut words = head.lines().next()?.split(' ');
    let (method, address) = (words.next()?, words.next()?);
    let path = address.split('?').next().unwrap_or_default();
    if method == "GET" && path == PATH {
        let address = address.to_owned();
        return Some(CallbackRequest { address, stream });
    }
    write(stream, "404 Not Found", "There is nothing here.").await;
    None
}

async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut piece = [0; 2048];
    while bytes.len() < REQUEST_BYTES_MAX {
        let read = stream
            .read(&mut piece)
            .await
            .ok()
            .filter(|read| *read > 0)?;
        bytes.extend_from_slice(&piece[..read]);
        if bytes.windows(4).any(|window| window == b"\r\n\r\n") {
            return String::from_utf8(bytes).ok();
        }
    }
    None
}

async fn write(mut stream: TcpStream, status: &str, text: &str) {
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         Referrer-Policy: no-referrer\r\nConnection: close\r\n\r\n{text}",
        text.len()
    );
    let written = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await
    };
    let _gone = timeout(REQUEST_TIME_MAX, written).await;
}
