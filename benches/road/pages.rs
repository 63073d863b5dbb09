//! How fast the pages are with many letters stored, how soon a committed step is told to whoever follows, and what fifty
//! who follow cost.

use crate::app::{self, note};
use crate::counters::{percentile, record};
use crate::history::Serving;
use attache::config::{HttpListener, ListenAddress};
use attache::http::{BoundPages, serve};
use attache::store::{NewWebSession, OverviewFilter, RunFilter, Store};
use serde_json::json;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// Requests of each page, one after the other.
const REQUESTS: usize = 200;
/// Streams that are open at once, and steps that are committed meanwhile.
const STREAMS: usize = 50;
const STEPS: usize = 100;
/// Address as configured: the system chooses the port.
const LISTENER: &str = "127.0.0.1:0";

pub async fn pages(many: usize) {
    println!("\nthe pages with {many} letters stored, over loopback, one request at a time:");
    let workspace = Serving::of(many).await.stop().await;
    let engine = crate::client::open(&workspace).await;
    let listener = HttpListener {
        position: 0,
        address: ListenAddress::Tcp(LISTENER.parse().expect("an address")),
        is_tls: false,
        origins: Vec::new(),
        proxies: Vec::new(),
        is_proxied: false,
    };
    let bound = BoundPages::open(&listener, &engine.web_parts())
        .await
        .expect("a port");
    let address = bound.tcp_address().expect("a port");
    let stop = CancellationToken::new();
    let serving = tokio::spawn(serve(bound, stop.clone()));
    let cookie = session(&engine.store, address).await;
    let mut paths = fixed_paths();
    paths.extend(paths_of_rows(&engine.store).await);
    for (name, path) in &paths {
        page(address, &cookie, (name, path), many).await;
    }
    streams(&engine, address, &cookie, many).await;
    stop.cancel();
    serving.await.expect("served");
}

fn fixed_paths() -> Vec<(&'static str, String)> {
    [
        ("inbox", "/"),
        ("inbox, failed", "/?state=failed"),
        ("search, rare words", "/search?q=original"),
        ("search, a common word", "/search?q=breakfast"),
        ("approvals", "/approvals"),
        ("outbox", "/outbox"),
        ("notices", "/notices"),
        ("usage", "/usage"),
        ("memory", "/memory"),
        ("schedule", "/schedule"),
        ("personas", "/personas"),
        ("doctor", "/doctor"),
        ("config", "/config"),
        ("API, conversations", "/api/v1/conversations"),
        ("API, runs", "/api/v1/runs"),
    ]
    .map(|(name, path)| (name, path.to_owned()))
    .into()
}

/// The newest thread, run and letter.
async fn paths_of_rows(store: &Store) -> Vec<(&'static str, String)> {
    let filter = OverviewFilter {
        limit: 1,
        ..OverviewFilter::default()
    };
    let overview = store.thread_overviews(&filter).await.expect("threads");
    let thread = overview.threads[0].id.to_string();
    let filter = RunFilter {
        limit: 1,
        ..RunFilter::default()
    };
    let run = store.list_runs(&filter).await.expect("runs").remove(0);
    vec![
        ("thread", format!("/t/{thread}")),
        ("run", format!("/r/{}", run.id)),
        ("context", format!("/r/{}/context", run.id)),
        ("exact request", format!("/r/{}/turns/1/request", run.id)),
    ]
}

async fn session(store: &Store, address: SocketAddr) -> String {
    let code = "bench";
    store
        .add_web_login(code, LISTENER, "bench")
        .await
        .expect("a code");
    let secret = store.clock().new_secret();
    let new = NewWebSession {
        code: code.to_owned(),
        listener: LISTENER.to_owned(),
        browser: "bench".to_owned(),
        secret: secret.clone(),
        form_token: store.clock().new_secret(),
    };
    store.open_web_session(new).await.expect("a session");
    format!("attache_{}={secret}", address.port())
}

async fn page(address: SocketAddr, cookie: &str, (name, path): (&str, &str), many: usize) {
    let client = attache::web::http_client()
        .no_proxy()
        .build()
        .expect("a client");
    let (mut waits, mut bytes) = (Vec::with_capacity(REQUESTS), 0);
    for _ in 0..REQUESTS {
        let began = Instant::now();
        let request = client
            .get(format!("http://{address}{path}"))
            .header("cookie", cookie);
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.status(), 200, "{path}");
        bytes = answer.bytes().await.expect("a page").len();
        waits.push(began.elapsed());
    }
    let [p50, p99] = [50, 99].map(|of_hundred| percentile(&mut waits, of_hundred));
    println!(
        "  {name:<22} p50 {p50:>7.1} ms, p99 {p99:>7.1} ms, {:>6.1} kB",
        bytes as f64 / 1e3
    );
    record(&json!({
        "bench": "pages", "letters": many, "page": name, "p50_ms": p50, "p99_ms": p99, "bytes": bytes,
    }));
}

/// Commits steps while fifty streams are open.
async fn streams(engine: &attache::app::Engine, address: SocketAddr, cookie: &str, many: usize) {
    let before = resident_kb();
    let mut readers = Vec::new();
    for _ in 0..STREAMS {
        readers.push(follow(address, cookie).await);
    }
    let (mut first, rest) = (readers.remove(0), readers);
    let mut others = tokio::task::JoinSet::new();
    for mut reader in rest {
        others.spawn(async move {
            let mut buffer = [0; 4096];
            while reader.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
        });
    }
    let mut waits = Vec::with_capacity(STEPS);
    for number in 0..STEPS {
        let letter = app::letter(&note(
            &format!("live.{number}@guest.example"),
            "",
            "Hello.\n",
        ));
        engine.intake().accept(letter).await.expect("taken");
        let committed = Instant::now();
        let newest = engine.store.feed_newest().await.expect("the feed");
        let end = format!("id: {newest}\n");
        let (mut text, mut buffer) = (String::new(), [0; 4096]);
        while !text.contains(&end) {
            let count = first.read(&mut buffer).await.expect("events");
            assert!(count > 0, "the stream ended");
            text.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        waits.push(committed.elapsed());
    }
    let grown = resident_kb().saturating_sub(before) as f64 / 1e3;
    let [p50, p99] = [50, 99].map(|of_hundred| percentile(&mut waits, of_hundred));
    println!(
        "  a committed step is told to one of {STREAMS} streams after p50 {p50:.0} ms, p99 {p99:.0} ms; they take {grown:.1} \
         MB, clients included"
    );
    record(&json!({
        "bench": "streams", "letters": many, "streams": STREAMS, "p50_ms": p50, "p99_ms": p99, "grown_mb": grown,
    }));
    others.shutdown().await;
}

async fn follow(address: SocketAddr, cookie: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let request =
        format!("GET /api/v1/events HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let (mut text, mut buffer) = (String::new(), [0; 4096]);
    while !text.contains("retry: 3000") {
        let read = tokio::time::timeout(Duration::from_secs(10), stream.read(&mut buffer)).await;
        let count = read.expect("in time").expect("a stream");
        assert!(count > 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    stream
}

/// Memory of this process that is in use (proc_pid_status(5)), in kB.
fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kb = line.and_then(|line| line.trim().split(' ').next()?.parse().ok());
    kb.unwrap_or(0)
}
