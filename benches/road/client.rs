//! A client that sends letters, and a listener alone: no worker competes, so that the rate is the rate of acceptance.

use crate::app::{Workspace, note};
use attache::app::Engine;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub const LETTER_BYTES: usize = 2_048;

pub fn workspace() -> Workspace {
    Workspace::new(&json!({ "rules": [{ "say": "Thank you, noted." }] })).talkative()
}

pub async fn open(workspace: &Workspace) -> Engine {
    let config = attache::config::load(workspace.path(), &attache::cli::name_catalog())
        .expect("a configuration");
    Engine::open(config, Arc::new(attache::clock::SystemClock::new()))
        .await
        .expect("an engine")
}

/// A listener that serves until it is told to stop.
pub struct Listener {
    pub address: SocketAddr,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl Listener {
    pub async fn of(engine: &Engine) -> Self {
        let listener = engine.bind().await.expect("a port").remove(0);
        let address = listener.tcp_address().expect("an address");
        let stop = CancellationToken::new();
        let serving =
            attache::gateway::ingress::smtp::serve(listener, engine.intake(), stop.clone());
        Self {
            address,
            stop,
            serving: tokio::spawn(serving),
        }
    }

    pub async fn stop(self) {
        self.stop.cancel();
        self.serving.await.expect("served");
    }
}

/// Sends letters over some connections at once; gives the time from MAIL to 250 of each. `name` keeps the Message-IDs of
/// different calls apart.
pub async fn send_all(
    address: SocketAddr,
    name: &str,
    connections: usize,
    letters: usize,
) -> Vec<Duration> {
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..connections {
        clients.spawn(send(
            address,
            format!("{name}.{client}"),
            letters / connections,
        ));
    }
    clients.join_all().await.into_iter().flatten().collect()
}

async fn send(address: SocketAddr, name: String, letters: usize) -> Vec<Duration> {
    let mut client = Client::connect(address).await;
    let mut waits = Vec::with_capacity(letters);
    let body = "A line of a letter that is neither short nor long.\n".repeat(LETTER_BYTES / 51);
    for number in 0..letters {
        let letter = note(&format!("{name}.{number}@guest.example"), "", &body);
        waits.push(client.send(&letter).await);
    }
    waits
}

/// A connection that letters from `bob@guest.example` to `ada@engine.test` go through one after another.
pub struct Client(BufReader<TcpStream>);

impl Client {
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("connected");
        stream.set_nodelay(true).expect("no delay");
        let mut client = Self(BufReader::new(stream));
        reply(&mut client.0, "220").await;
        client.write("EHLO bench.example\r\n").await;
        reply(&mut client.0, "250").await;
        client
    }

    /// Sends a letter; gives the time from MAIL to 250.
    pub async fn send(&mut self, letter: &str) -> Duration {
        let letter = letter.replace('\n', "\r\n");
        let began = Instant::now();
        self.write("MAIL FROM:<bob@guest.example>\r\nRCPT TO:<ada@engine.test>\r\nDATA\r\n")
            .await;
        for code in ["250", "250", "354"] {
            reply(&mut self.0, code).await;
        }
        self.write(&format!("{letter}.\r\n")).await;
        reply(&mut self.0, "250").await;
        began.elapsed()
    }

    async fn write(&mut self, text: &str) {
        self.0
            .get_mut()
            .write_all(text.as_bytes())
            .await
            .expect("sent");
    }
}

async fn reply(stream: &mut BufReader<TcpStream>, code: &str) {
    let mut line = String::new();
    loop {
        line.clear();
        stream.read_line(&mut line).await.expect("a reply");
        assert!(line.starts_with(code), "{line:?} instead of {code}");
        if line.as_bytes().get(3) != Some(&b'-') {
            return;
        }
    }
}
