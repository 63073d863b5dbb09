//! Two engines that answer each other over real SMTP, by a road that takes every mark off their mail.

use super::{count, from};
use crate::app::{TestApp, Workspace};
use attache::gateway::ingress::smtp;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// What the road takes off.
const MARKS: [&str; 3] = [
    "Auto-Submitted:",
    "X-Auto-Response-Suppress:",
    "Attache-Loop:",
];

/// A relay of bytes that leaves out the lines that begin with a mark.
struct Road {
    listener: TcpListener,
    to: Arc<Mutex<Option<SocketAddr>>>,
}

impl Road {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        Self {
            listener,
            to: Arc::default(),
        }
    }
    fn port(&self) -> u16 {
        self.listener.local_addr().expect("an address").port()
    }
    async fn run(self) {
        loop {
            let (client, _) = self.listener.accept().await.expect("a connection");
            let to = self.to.lock().expect("the target").expect("a target");
            tokio::spawn(async move {
                carry(client, TcpStream::connect(to).await.expect("a server")).await;
            });
        }
    }
}

async fn carry(client: TcpStream, server: TcpStream) {
    let (from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let back = tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
    let mut lines = BufReader::new(from_client);
    let mut line = Vec::new();
    while lines
        .read_until(b'\n', &mut line)
        .await
        .is_ok_and(|read| read > 0)
    {
        let is_mark = MARKS.iter().any(|mark| line.starts_with(mark.as_bytes()));
        if !is_mark && to_server.write_all(&line).await.is_err() {
            break;
        }
        line.clear();
    }
    drop(to_server);
    let _ended = back.await;
}

/// An engine whose personas live at that domain and whose mail goes out by that road.
async fn engine(domain: &str, out: &Road) -> TestApp {
    let workspace = Workspace::new(&json!({ "rules": [{ "say": "Thank you for your letter." }] }));
    workspace.set("configs/gateway.json", "/mail_domain", json!(domain));
    let smarthost =
        json!({ "kind": "smarthost", "host": "127.0.0.1", "port": out.port(), "tls": "none" });
    workspace.set("configs/gateway.json", "/outbound", smarthost);
    workspace.start().await
}

/// Opens the engine's listener and gives where it listens.
async fn listen(app: &TestApp, stop: &CancellationToken) -> SocketAddr {
    let bound = app.engine.bind().await.expect("a port").remove(0);
    let address = bound.tcp_address().expect("an address");
    tokio::spawn(smtp::serve(bound, app.engine.intake(), stop.clone()));
    address
}

async fn written(app: &TestApp) -> i64 {
    count(
        &app.workspace,
        "SELECT count(*) FROM deliveries WHERE kind = 'mail'",
    )
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn two_engines_answering_each_other_stop_within_ten_mails() {
    let (to_south, to_north) = (Road::new().await, Road::new().await);
    let north = engine("engine.test", &to_south).await;
    let south = engine("other.test", &to_north).await;
    let stop = CancellationToken::new();
    *to_south.to.lock().expect("the target") = Some(listen(&south, &stop).await);
    *to_north.to.lock().expect("the target") = Some(listen(&north, &stop).await);
    tokio::spawn(to_south.run());
    tokio::spawn(to_north.run());

    // Somebody's letter seems to come from the other engine's persona.
    let first = from("Ada <ada@other.test>", "first@other.test", "");
    assert_eq!(super::receive(&north, &first).await, "run");
    let until_silent = async || {
        loop {
            let (north, south) = (north.drain().await, south.drain().await);
            if north.mails + south.mails == 0 {
                break;
            }
        }
    };
    until_silent().await;
    let (by_north, by_south) = (written(&north).await, written(&south).await);
    assert!(
        by_north >= 4 && by_south >= 4,
        "they did talk: {by_north}, {by_south}"
    );
    assert!(by_north + by_south <= 10, "{by_north} and {by_south} mails");
    let unmarked = "SELECT count(*) FROM messages WHERE disposition = 'filed:auto_submitted'";
    assert_eq!(
        count(&south.workspace, unmarked).await,
        0,
        "the marks were taken off"
    );
    let held = "SELECT count(*) FROM messages WHERE disposition IN ('filed:alternations', 'filed:rate_limited')";
    assert_eq!(
        count(&north.workspace, held).await + count(&south.workspace, held).await,
        1
    );

    for _hour in 0..25 {
        for app in [&north, &south] {
            app.workspace.clock.advance(Duration::from_secs(3600));
        }
        until_silent().await;
    }
    assert_eq!(
        (written(&north).await, written(&south).await),
        (by_north, by_south)
    );
    north.check().await;
    south.check().await;
    stop.cancel();
}
