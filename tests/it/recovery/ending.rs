//! SIGTERM under load, with a model and a mail server that never answer: the engine ends well and in time, every time,
//! and nothing is lost, doubled or counted.

use super::place::{Client, Running, Sink, attache, workspace};
use crate::app::audit;
use crate::app::db::{self, number};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// Houses whose engines end side by side, and how often each does: mostly they wait.
const HOUSES: usize = 4;
const ROUNDS: usize = 5;
const LETTERS_PER_ROUND: usize = 4;
/// Seconds that an end may take, with room for a disk and cores that other tests keep busy: one that waits for the servers that never
/// answer takes a minute at least.
const ENDED_MAX: u64 = 40;

/// Where the engine of the moment listens, and whether letters still come.
#[derive(Default)]
struct LetterIntake {
    port: AtomicU16,
    closed: AtomicBool,
}

/// Writes until the door is closed; tells of every yes.
fn write(intake: &LetterIntake, client: usize, yes: &Sender<String>) {
    for letter in 0.. {
        let id = format!("{client}-{letter}@guest.example");
        // Of three letters one is about something that the model never comes to an end with.
        let body = if letter % 3 == 0 {
            "an endless question"
        } else {
            "When?"
        };
        loop {
            if intake.closed.load(Ordering::SeqCst) {
                return;
            }
            let reply = Client::begin(intake.port.load(Ordering::SeqCst)).and_then(|mut open| {
                open.letter(&id, body)?;
                open.append()
            });
            if reply.is_ok_and(|reply| reply.starts_with("250")) {
                yes.send(id).expect("somebody counts");
                break;
            }
            crate::app::blink();
        }
    }
}

fn set_drain(folder: &Path, span: &str) {
    let path = folder.join("configs/gateway.json");
    let mut config: Value =
        serde_json::from_slice(&std::fs::read(&path).expect("a file")).expect("json");
    config["limits"]["drain_max"] = json!(span);
    std::fs::write(path, config.to_string()).expect("a file");
}

#[test]
#[ignore = "second tier"]
fn twenty_ends_under_load_come_in_time_whatever_the_servers_do() {
    let houses: Vec<_> = (0..HOUSES)
        .map(|house| std::thread::spawn(move || ends(house)))
        .collect();
    for house in houses {
        house
            .join()
            .unwrap_or_else(|failure| std::panic::resume_unwind(failure));
    }
}

#[tokio::main(flavor = "current_thread")]
async fn ends(house: usize) {
    let sink = Sink::default();
    let script = json!({ "rules": [{ "when": { "contains": "endless" }, "hang": true }, { "say": "At ten." }] });
    let dir = workspace(sink.open(), &script);
    sink.stalls.store(true, Ordering::SeqCst);
    let (intake, (yes, told)) = (Arc::new(LetterIntake::default()), channel());
    let clients: Vec<_> = (0..3)
        .map(|number| {
            let (intake, yes) = (intake.clone(), yes.clone());
            std::thread::spawn(move || write(&intake, number, &yes))
        })
        .collect();
    let (mut taken, mut closed, mut cut) = (Vec::new(), 0, 0);
    for round in 0..ROUNDS {
        // Once with the ten seconds of a workspace that says nothing about it. A tenth of the time is for putting runs back: of less,
        // too little for the round trips of four unoptimised engines on busy cores.
        let drain = match (house, round) {
            (0, 0) => "10s",
            _ => "6s",
        };
        set_drain(dir.path(), drain);
        let log = "error,attache::app=warn";
        let engine = Running::logging(dir.path(), log, Stdio::piped(), &[]);
        intake.port.store(engine.port, Ordering::SeqCst);
        for _ in 0..LETTERS_PER_ROUND {
            taken.push(
                told.recv_timeout(Duration::from_secs(60))
                    .expect("letters get a yes"),
            );
        }
        engine.signal(Signal::TERM);
        let (status, said, took) = engine.ended();
        assert_eq!(status.code(), Some(0), "round {round}: {said}");
        assert!(
            took < Duration::from_secs(ENDED_MAX),
            "round {round} took {took:?}: {said}"
        );
        let log = dir
            .path()
            .join("data/attache.db-wal")
            .metadata()
            .map_or(0, |log| log.len());
        closed += usize::from(log == 0);
        // The engine gives the checkpoint a share of the second and says when the disk needed more.
        assert!(
            log == 0 || said.contains("the database did not close in time"),
            "round {round} left a log of {log} bytes in silence: {said}"
        );
        let mut rows = db::Connection::open(dir.path()).await;
        let left = "SELECT count(*) FROM runs WHERE state = 'running' OR crashes > 0 OR attempt > 1
            OR (state = 'queued' AND attempt > 0)";
        let left = number(&mut rows, left).await;
        // A disk that stalls for seconds puts nothing back; then the engine says so, and the next start goes on with the runs.
        if said.contains("some work did not end in time") {
            cut += 1;
        } else {
            assert_eq!(left, 0, "round {round}: {said}");
        }
    }
    assert!(cut < ROUNDS, "no end of {ROUNDS} put its runs back");
    assert!(closed > 0, "no end of {ROUNDS} closed its database");
    intake.closed.store(true, Ordering::SeqCst);
    clients
        .into_iter()
        .for_each(|client| client.join().expect("a client ends"));
    drop(yes);
    taken.extend(told);

    sink.stalls.store(false, Ordering::SeqCst);
    each_is_answered_once(dir.path(), &taken).await;
}

/// What waits is worked off, and every letter that got its yes has one answer.
async fn each_is_answered_once(folder: &Path, taken: &[String]) {
    let script = json!({ "rules": [{ "say": "At ten." }] }).to_string();
    std::fs::write(folder.join("configs/demo-script.json"), script).expect("a file");
    let drained = attache(folder, &["drain"])
        .output()
        .expect("the binary runs");
    assert!(drained.status.success(), "{drained:?}");
    let mut rows = db::Connection::open(folder).await;
    audit(&mut rows).await;
    let answered = "SELECT m.message_id FROM runs r JOIN messages m ON m.id = r.trigger_message_id
        WHERE r.state = 'succeeded'";
    let answered: Vec<String> = db::query_scalar(answered)
        .fetch_all(&mut rows)
        .await
        .expect("runs");
    for id in taken {
        assert_eq!(
            answered.iter().filter(|done| *done == id).count(),
            1,
            "{id} was answered once"
        );
    }
    let unsent = "SELECT count(*) FROM deliveries WHERE state <> 'done'";
    assert_eq!(number(&mut rows, unsent).await, 0);
}
