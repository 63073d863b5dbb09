//! How fast the road is: letters accepted over SMTP, replies with the scripted provider, context at thread lengths, and
//! beside them the disk, a reference server and a long history.
//!
//! `cargo bench` prints those and how fast recorded runs are verified; `cargo bench -- postfix`, `cargo bench -- duties`,
//! `cargo bench -- cron`, `cargo bench -- recall FOLDER [MESSAGES]`, `cargo bench -- index`, `cargo bench -- feed [MESSAGES]`, `cargo bench -- pages [MESSAGES]` and `cargo bench -- growth [MESSAGES]` take minutes and run only when they are named. Every figure comes from this run on this machine; ratios travel between machines,
//! figures do not. CPU time is that of the whole process, clients included.

#[path = "../tests/it/app/mod.rs"]
#[expect(dead_code, reason = "the test harness has more than a bench needs")]
mod app;
#[path = "road/client.rs"]
mod client;
#[path = "road/copies.rs"]
mod copies;
#[path = "road/cron.rs"]
mod cron;
#[path = "road/duties.rs"]
mod duties;
#[path = "road/feed_cost.rs"]
mod feed_cost;
#[path = "road/growth.rs"]
mod growth;
#[path = "road/counters.rs"]
mod counters;
#[path = "road/history.rs"]
mod history;
#[path = "road/index_cost.rs"]
mod index_cost;
#[path = "../tests/it/scheduler/oracle.rs"]
mod oracle;
#[path = "road/pages.rs"]
mod pages;
#[path = "road/policy.rs"]
mod policy;
#[path = "road/postfix.rs"]
mod postfix;
#[path = "road/recall.rs"]
mod recall;

use crate::app::db;
use app::{Workspace, note};
use attache::app::Engine;
use attache::clock::{Clock, SystemClock};
use attache::context::resolvers::Subject;
use attache::context::resolvers::live::Live;
use attache::context::resolvers::reads::Folders;
use attache::context::{self, Sources};
use attache::domain::{MessageId, PersonaId, Trigger};
use client::{LETTER_BYTES, Listener, open, send_all, workspace};
use counters::{cpu_time, disk_commits_per_second, percentile};
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const LETTERS: usize = 4_000;
const REPLIES: usize = 2_000;
/// Runs to verify.
const RECORDED: usize = 1_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
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
            println!("\nreplies with the scripted provider:");
            replies().await;
            backlog().await;
        }
        if wants("verify") {
            println!(
                "\nruns executed once more over their records, by `attache replay verify --all`:"
            );
            verify().await;
        }
        if wants("policy") {
            println!("\ndecisions of the policy:");
            policy::policy();
        }
        if let Some(name) = &wanted {
            named(name).await;
        }
        if wants("context") {
            contexts().await;
        }
    });
}

/// What takes minutes and runs only when it is named.
async fn named(name: &str) {
    if name == "postfix" {
        println!(
            "\nletters of {LETTER_BYTES} bytes taken for good, beside Postfix taking them into its queue:"
        );
        postfix::side_by_side().await;
    }
    if name == "growth" {
        let many = std::env::args()
            .find_map(|arg| arg.parse().ok())
            .unwrap_or(1_000_000);
        println!("\nwith 1000 messages stored -> with {many}:");
        growth::growth(many).await;
    }
    if name == "index" {
        index_cost::index_cost().await;
    }
    if name == "pages" {
        let many = std::env::args()
            .find_map(|arg| arg.parse().ok())
            .unwrap_or(1_000_000);
        pages::pages(many).await;
    }
    if name == "feed" {
        let many = std::env::args()
            .find_map(|arg| arg.parse().ok())
            .unwrap_or(100_000);
        println!("\nthe feed:");
        feed_cost::feed_cost(many).await;
    }
    if name == "recall" {
        recall::recall().await;
    }
    if name == "history" {
        let sizes: Vec<usize> = std::env::args()
            .filter_map(|arg| arg.parse().ok())
            .collect();
        let sizes = if sizes.is_empty() {
            vec![1_000, 10_000, 100_000, 1_000_000]
        } else {
            sizes
        };
        println!("\nwhole replies by the letters that are stored:");
        history::history(&sizes).await;
    }
    if name == "thread" {
        println!("\nwhole replies in one thread:");
        history::one_thread().await;
    }
    if name == "cron" {
        println!("\nslots of random expressions, against a look at every minute of ten years:");
        cron::cron();
    }
    if name == "duties" {
        println!("\nresponsibilities:");
        duties::duties().await;
    }
}

async fn contexts() {
    println!("\ncontext assembled, by messages in the thread:");
    let short = context_at(10).await;
    for length in [1_000, 100_000] {
        let long = context_at(length).await;
        println!(
            "  {length:>7} against 10: ×{:.2}",
            long.as_secs_f64() / short.as_secs_f64()
        );
    }
}

async fn accept(connections: usize, commits: f64) {
    let workspace = workspace();
    let engine = open(&workspace).await;
    let listener = Listener::of(&engine).await;
    let (began, cpu) = (Instant::now(), cpu_time());
    let mut waits = send_all(listener.address, "accept", connections, LETTERS).await;
    let rate = waits.len() as f64 / began.elapsed().as_secs_f64();
    let cost = (cpu_time() - cpu).as_secs_f64() * 1e6 / waits.len() as f64;
    println!(
        "  {connections:>2} connections: {rate:>6.0}/s (×{:.1} the disk's commits), p50 {:.1} ms, p99 {:.1} ms, {cost:.0} µs of CPU each",
        rate / commits,
        percentile(&mut waits, 50),
        percentile(&mut waits, 99)
    );
    listener.stop().await;
}

fn busy_workspace() -> Workspace {
    let workspace = workspace();
    let runs = json!({ "runs_max": 32, "runs_per_persona_max": 32 });
    workspace.set("configs/inference.json", "/concurrency", runs);
    workspace
}

/// From the first letter over SMTP to the last answer in the outbox folder, with all stations at work.
async fn replies() {
    let workspace = busy_workspace();
    let engine = open(&workspace).await;
    let bound = engine.bind().await.expect("a port");
    let address = bound[0].tcp_address().expect("an address");
    let stop = CancellationToken::new();
    let serving = tokio::spawn(engine.serve(bound, stop.clone()));
    let (began, cpu) = (Instant::now(), cpu_time());
    send_all(address, "replies", 8, REPLIES).await;
    let taken = began.elapsed();
    while mails_in(&workspace.path().join("data/outbox")) < REPLIES {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let took = began.elapsed();
    let cost = (cpu_time() - cpu).as_secs_f64() * 1e6 / REPLIES as f64;
    let rate = REPLIES as f64 / took.as_secs_f64();
    println!(
        "  {REPLIES} letters over SMTP, all taken after {:.1} s: {rate:.0} answers/s from the first letter to the last \
         mail in the folder, {cost:.0} µs of CPU each",
        taken.as_secs_f64()
    );
    stop.cancel();
    serving.await.expect("no panic").expect("served");
}

fn mails_in(folder: &Path) -> usize {
    let names = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|file| file.expect("an entry").file_name());
    names
        .filter(|name| name.to_string_lossy().ends_with(".eml"))
        .count()
}

/// The same for letters that wait when the engine starts, one station after another.
async fn backlog() {
    let workspace = busy_workspace();
    let engine = open(&workspace).await;
    for number in 0..REPLIES {
        let eml = note(&format!("{number}@guest.example"), "", "When is breakfast?");
        engine
            .intake()
            .accept(app::letter(&eml))
            .await
            .expect("taken");
    }
    let (began, cpu) = (Instant::now(), cpu_time());
    let drained = engine.drain().await.expect("drained");
    let took = began.elapsed();
    assert_eq!((drained.runs, workspace.sent().len()), (REPLIES, REPLIES));
    let cost = (cpu_time() - cpu).as_secs_f64() * 1e6 / REPLIES as f64;
    let rate = REPLIES as f64 / took.as_secs_f64();
    println!(
        "  {REPLIES} letters that wait, worked off by `drain`: {rate:.0}/s, {cost:.0} µs of CPU each"
    );
}

/// Records runs that call a tool and answer, and lets the program verify them.
async fn verify() {
    let workspace = Workspace::new(&json!({ "turns": [
        { "call": [{ "tool": "read_file", "args": { "path": "knowledge/house.md" } }] },
        { "say": "From seven to ten." },
    ] }))
    .talkative();
    let engine = open(&workspace).await;
    for number in 0..RECORDED {
        let eml = note(&format!("{number}@guest.example"), "", "When is breakfast?");
        engine
            .intake()
            .accept(app::letter(&eml))
            .await
            .expect("taken");
    }
    engine.drain().await.expect("drained");
    engine.store.clone().close().await;
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_attache"));
    command
        .args(["replay", "verify", "--all", "--json", "--workspace"])
        .arg(workspace.path());
    let said = command
        .env_remove("ATTACHE_LOG")
        .output()
        .expect("the binary runs");
    let said: serde_json::Value = serde_json::from_slice(&said.stdout).expect("JSON");
    let (identical, seconds) = (
        said["identical"].as_u64(),
        said["seconds"].as_f64().expect("a number"),
    );
    assert_eq!(identical, Some(RECORDED as u64), "{said}");
    println!(
        "  {RECORDED} runs of two requests and a tool, all identical: {:.0} runs/s",
        RECORDED as f64 / seconds
    );
}

/// Median time of the pipeline for a letter at the end of a thread of that many messages.
async fn context_at(length: usize) -> Duration {
    let workspace = workspace();
    let engine = open(&workspace).await;
    let first = note("0@guest.example", "", "The first letter.");
    let accepted = engine
        .intake()
        .accept(app::letter(&first))
        .await
        .expect("taken");
    fill(&workspace, &accepted.copies[0].message, length).await;
    let last = note(
        "last@guest.example",
        "References: <0@guest.example>\n",
        "And now?",
    );
    let accepted = engine
        .intake()
        .accept(app::letter(&last))
        .await
        .expect("taken");
    let mut times = context_times(&workspace, &engine, &accepted.copies[0].message, 200).await;
    let median = percentile(&mut times, 50);
    println!("  {length:>7} messages: median {median:.2} ms");
    times[100]
}

/// How long the pipeline takes for a message, so many times.
async fn context_times(
    workspace: &Workspace,
    engine: &Engine,
    message: &MessageId,
    rounds: usize,
) -> Vec<Duration> {
    let persona_id = PersonaId::parse("ada").expect("an id");
    let store = engine.store.persona(&persona_id);
    let about = store
        .trigger_message(message, &engine.config.gateway.owners)
        .await
        .expect("a message");
    let subject = Subject::of(Trigger::Email, about);
    let root = cap_std::fs_utf8::Dir::open_ambient_dir(
        workspace.path().to_str().expect("a path"),
        cap_std::ambient_authority(),
    )
    .expect("the workspace");
    let folder = root.open_dir("personas/ada").expect("a folder");
    let reads = Live::new(
        Folders {
            workspace: &root,
            persona: &folder,
        },
        &store,
        SystemClock::new().now(),
    );
    let sources = Sources {
        persona: engine.config.personas.get(&persona_id).expect("a persona"),
        reads: &reads,
        subject: &subject,
        now: SystemClock::new().now(),
    };
    let profile = ("thread", &engine.config.context["thread"]);
    let mut times = Vec::new();
    for _ in 0..rounds {
        let began = Instant::now();
        let (context, _) = context::assemble(sources, profile, 32_000, 32_000)
            .await
            .expect("a context");
        times.push(began.elapsed());
        assert!(!context.history.is_empty());
    }
    times
}

/// Copies the first message until the thread has that many.
async fn fill(workspace: &Workspace, first: &MessageId, length: usize) {
    let mut rows = workspace.rows().await;
    let sql = "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < $2)
        INSERT INTO messages (id, thread_id, persona_id, direction, message_id, sender, subject, text_body, received_at, trust)
        SELECT 'copy-' || i, thread_id, persona_id, direction, 'copy-' || i, sender, subject, text_body || ' ' || i,
          received_at, trust FROM messages, n WHERE id = $1";
    db::query(sql)
        .bind(first.as_str())
        .bind(length as i64)
        .execute(&mut rows)
        .await
        .expect("filled");
}
