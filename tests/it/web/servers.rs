//! A server that may misbehave, and a fetcher for which some of its ports are opened.

use attache::web::{AnyRedirect, FetchError, FetchLimits, Lookup, WebFetcher, WebPage};
use futures_util::future::{BoxFuture, ready};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What a server does after its first bytes.
#[derive(Clone, Copy)]
pub enum Then {
    Close,
    /// Sends these bytes until the client goes away.
    Repeat(&'static str),
    /// Sends nothing more and waits.
    Hold,
}

/// A server on loopback that answers every connection alike.
pub struct Site {
    pub port: u16,
    requests: Arc<Mutex<Vec<String>>>,
    /// Bytes that it could send.
    pub sent_bytes: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Site {
    pub async fn start(answer: &str, then: Then) -> Self {
        Self::at(([127, 0, 0, 1], 0).into(), answer, then).await
    }

    pub async fn at(address: SocketAddr, answer: &str, then: Then) -> Self {
        let listener = TcpListener::bind(address).await.expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let answer = answer.replace("{port}", &port.to_string());
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let (seen, sent_bytes) = (requests.clone(), Arc::<AtomicUsize>::default());
        let counted = sent_bytes.clone();
        let serving = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (seen, answer, counted) = (seen.clone(), answer.clone(), counted.clone());
                tokio::spawn(async move {
                    let mut request = vec![0; 8192];
                    let read = stream.read(&mut request).await.unwrap_or(0);
                    let text = String::from_utf8_lossy(&request[..read]).into_owned();
                    seen.lock().expect("no test panicked here").push(text);
                    let _gone = stream.write_all(answer.as_bytes()).await;
                    match then {
                        Then::Close => {}
                        Then::Repeat(bytes) => {
                            while stream.write_all(bytes.as_bytes()).await.is_ok() {
                                counted.fetch_add(bytes.len(), Ordering::SeqCst);
                            }
                        }
                        Then::Hold => {
                            let _gone = stream.read(&mut request).await;
                        }
                    }
                });
            }
        });
        Self {
            port,
            requests,
            sent_bytes,
            serving,
        }
    }

    /// Frees the address.
    pub async fn stop(mut self) {
        self.serving.abort();
        // It was cancelled.
        let _ended = (&mut self.serving).await;
    }

    pub async fn page(media_type: &str, body: &str) -> Self {
        Self::start(&page(media_type, body), Then::Close).await
    }

    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no test panicked here").clone()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The target that an operator writes to open it.
    pub fn target(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

pub fn page(media_type: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// A resolver that answers its n-th question with the n-th list, and all later ones with the last.
pub struct Answers {
    pub lists: Vec<Vec<&'static str>>,
    pub asked: Mutex<Vec<String>>,
}

impl Answers {
    pub fn of(lists: &[&[&'static str]]) -> Arc<Self> {
        Arc::new(Self {
            lists: lists.iter().map(|list| list.to_vec()).collect(),
            asked: Mutex::default(),
        })
    }
}

impl Lookup for Answers {
    fn lookup<'a>(&'a self, host: &'a str, _: u16) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let mut asked = self.asked.lock().expect("no test panicked here");
        let list = &self.lists[asked.len().min(self.lists.len() - 1)];
        asked.push(host.to_owned());
        let parsed = list.iter().map(|text| text.parse().expect("an address"));
        Box::pin(ready(Ok(parsed.collect())))
    }
}

/// Short times, so that a test of a server that never ends is short.
pub fn limits() -> FetchLimits {
    FetchLimits {
        duration_max: Duration::from_millis(1500),
        ..FetchLimits::default()
    }
}

/// Fetches with these targets opened, asking this resolver.
pub async fn fetch(
    url: &str,
    opened: &[&Site],
    lookup: Arc<Answers>,
) -> Result<WebPage, FetchError> {
    let opened: Vec<String> = opened.iter().map(|site| site.target()).collect();
    WebFetcher::new(&opened, lookup, limits())
        .fetch(url, &AnyRedirect)
        .await
}

/// Code of the error of a fetch.
pub fn code(fetched: Result<WebPage, FetchError>) -> &'static str {
    fetched.map_or_else(|error| error.code, |_| "fetched")
}
