//! How fast the road is: letters accepted over SMTP, replies with the scripted provider, context at thread lengths.
//!
//! `cargo bench` prints a table; every figure comes from this run on this machine. Beside ours stands the disk's own
//! rate of durable commits, because that is what a durable accept costs at least; ratios travel between machines,
//! figures do not.

#[path = "../tests/it/app/mod.rs"]
#[expect(dead_code, reason = "the test harness has more than a bench needs")]
mod app;

use app::{Workspace, note};
use attache::app::Engine;
use attache::clock::{Clock, SystemClock};
use attache::domain::{MessageId, PersonaId, Trigger};
use attache::harness::context::{self, Sources};
use attache::harness::resolvers::Subject;
use attache::harness::resolvers::live::Live;
use attache::harness::resolvers::reads::Folders;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

const LETTERS: usize = 4_000;
const REPLIES: usize = 2_000;
const LETTER_BYTES: usize = 2_048;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        // `cargo bench -- replies` runs one section only.
        let wanted = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
        let wants = |section: &str| wanted.as_deref().is_none_or(|name| name == section);
        let commits = disk_commits_per_second();
        println!("durable commits of this disk, one writer: {commits:.0}/s\n");
        if wants("accept") {
            println!("accepted letters of {LETTER_BYTES} bytes, each durable before its 250:");
            for connections in [1, 8, 32] {
                accept(connections, commits).await;
            }
        }
        if wants("replies") {
            println!("\nreplies with the scripted provider, letter to outbox folder:");
            replies().await;
        }
        if wants("context") {
            println!("\ncontext assembled, by messages in the thread:");
            let short = context_at(10).await;
            for length in [1_000, 100_000] {
                let long = context_at(length).await;
                println!("  {length:>7} against 10: ×{:.2}", long.as_secs_f64() / short.as_secs_f64());
            }
        }
    });
}

fn workspace() -> Workspace {
    Workspace::new(&json!({ "rules": [{ "say": "Thank you, noted." }] })).talkative()
}

async fn open(workspace: &Workspace) -> Engine {
    let config =
        attache::config::load(workspace.path(), &attache::cli::vocabulary()).expect("a configuration");
    Engine::open(config, Arc::new(SystemClock::new())).await.expect("an engine")
}

/// fdatasync after each small append: the floor under every durable accept.
fn disk_commits_per_second() -> f64 {
    use std::io::Write;
    let folder = tempfile::tempdir().expect("a folder");
    let mut file = std::fs::File::create(folder.path().join("probe")).expect("a file");
    let began = Instant::now();
    let mut commits = 0;
    while began.elapsed() < Duration::from_secs(1) {
        file.write_all(&[0; 4096]).expect("a write");
        file.sync_data().expect("a sync");
        commits += 1;
    }
    f64::from(commits) / began.elapsed().as_secs_f64()
}

async fn accept(connections: usize, commits: f64) {
    let workspace = workspace();
    let engine = open(&workspace).await;
    let mut listeners = engine.bind().await.expect("a port");
    let address = listeners[0].tcp_address().expect("an address");
    let stop = CancellationToken::new();
    // The listener alone: no worker competes, so this is the rate of acceptance and nothing else.
    let serving = attache::gateway::ingress::smtp::serve(listeners.remove(0), engine.door(), stop.clone());
    let serving = tokio::spawn(serving);
    let began = Instant::now();
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..connections {
        clients.spawn(send(address, client, LETTERS / connections));
    }
    let mut waits: Vec<Duration> = clients.join_all().await.into_iter().flatten().collect();
    let rate = waits.len() as f64 / began.elapsed().as_secs_f64();
    waits.sort();
    let percentile = |p: usize| waits[(waits.len() - 1) * p / 100].as_secs_f64() * 1e3;
    println!(
        "  {connections:>2} connections: {rate:>6.0}/s (×{:.1} the disk's commits), p50 {:.1} ms, p99 {:.1} ms",
        rate / commits,
        percentile(50),
        percentile(99)
    );
    stop.cancel();
    serving.await.expect("served");
}

/// Sends letters one after the other over one connection; gives the time from MAIL to 250 of each.
async fn send(address: SocketAddr, client: usize, letters: usize) -> Vec<Duration> {
    let stream = TcpStream::connect(address).await.expect("connected");
    stream.set_nodelay(true).expect("no delay");
    let mut stream = BufReader::new(stream);
    reply(&mut stream, "220").await;
    stream.get_mut().write_all(b"EHLO bench.example\r\n").await.expect("sent");
    reply(&mut stream, "250").await;
    let mut waits = Vec::with_capacity(letters);
    for number in 0..letters {
        let body = "A line of a letter that is neither short nor long.\n".repeat(LETTER_BYTES / 51);
        let letter = note(&format!("{client}.{number}@guest.example"), "", &body).replace('\n', "\r\n");
        let began = Instant::now();
        let envelope = "MAIL FROM:<bob@guest.example>\r\nRCPT TO:<ada@engine.test>\r\nDATA\r\n";
        stream.get_mut().write_all(envelope.as_bytes()).await.expect("sent");
        for code in ["250", "250", "354"] {
            reply(&mut stream, code).await;
        }
        stream.get_mut().write_all(format!("{letter}.\r\n").as_bytes()).await.expect("sent");
        reply(&mut stream, "250").await;
        waits.push(began.elapsed());
    }
    waits
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

async fn replies() {
    let workspace = workspace();
    workspace.set(
        "configs/inference.json",
        "/concurrency",
        json!({ "runs_max": 32, "runs_per_persona_max": 32 }),
    );
    let engine = open(&workspace).await;
    for number in 0..REPLIES {
        let eml = note(&format!("{number}@guest.example"), "", "When is breakfast?");
        engine.door().accept(app::letter(&eml)).await.expect("taken");
    }
    let began = Instant::now();
    let drained = engine.drain().await.expect("drained");
    let took = began.elapsed();
    assert_eq!((drained.runs, workspace.sent().len()), (REPLIES, REPLIES));
    println!("  {REPLIES} letters, 32 runs at once: {:.0}/s", REPLIES as f64 / took.as_secs_f64());
}

/// Median time of the pipeline for a letter at the end of a thread of that many messages.
async fn context_at(length: usize) -> Duration {
    let workspace = workspace();
    let engine = open(&workspace).await;
    let first = note("0@guest.example", "", "The first letter.");
    let accepted = engine.door().accept(app::letter(&first)).await.expect("taken");
    fill(&workspace, &accepted.copies[0].message, length).await;
    let last = note("last@guest.example", "References: <0@guest.example>\n", "And now?");
    let accepted = engine.door().accept(app::letter(&last)).await.expect("taken");
    let persona_id = PersonaId::parse("ada").expect("an id");
    let store = engine.store.persona(&persona_id);
    let message = store.message(&accepted.copies[0].message).await.expect("a message");
    let subject = Subject { trigger: Trigger::Email, message, attachments: Vec::new(), has_past: true };
    let root = cap_std::fs_utf8::Dir::open_ambient_dir(
        workspace.path().to_str().expect("a path"),
        cap_std::ambient_authority(),
    )
    .expect("the workspace");
    let folder = root.open_dir("personas/ada").expect("a folder");
    let reads = Live::new(Folders { workspace: &root, persona: &folder }, &store);
    let sources = Sources {
        persona: engine.config.personas.get(&persona_id).expect("a persona"),
        reads: &reads,
        subject: &subject,
        now: SystemClock::new().now(),
    };
    let profile = ("thread", &engine.config.context["thread"]);
    let mut times = Vec::new();
    for _ in 0..200 {
        let began = Instant::now();
        let (context, _) = context::assemble(sources, profile, 32_000, 32_000).await.expect("a context");
        times.push(began.elapsed());
        assert!(!context.history.is_empty());
    }
    times.sort();
    println!("  {length:>7} messages: median {:.2} ms", times[100].as_secs_f64() * 1e3);
    times[100]
}

/// Copies the first message until the thread has that many.
async fn fill(workspace: &Workspace, first: &MessageId, length: usize) {
    let mut rows = workspace.rows().await;
    let sql = "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < $2)
        INSERT INTO messages (id, thread_id, persona_id, direction, message_id, sender, subject, text_body, received_at, trust)
        SELECT 'copy-' || i, thread_id, persona_id, direction, 'copy-' || i, sender, subject, text_body || ' ' || i,
          received_at, trust FROM messages, n WHERE id = $1";
    sqlx::query(sql).bind(first.as_str()).bind(length as i64).execute(&mut rows).await.expect("filled");
}
