//! Eight processes of the real binary take the same letters at once, and work them off at once. The controls are in `races`: what
//! the same server does with naive texts.

use super::is_skipped;
use crate::app::audited::examined;
use crate::app::{audit, db};
use crate::recovery::place::{Sink, attache, workspace};
use attache::store::audit::AuditScope;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Output, Stdio};
use tempfile::TempDir;

const PROCESSES: usize = 8;
const THREADS: usize = 12;
/// Letters of each thread; each answers the one before.
const LETTERS: usize = 4;

/// Workspaces on one database, with a budget of each day.
fn workspaces(sink: u16, budget: &Value) -> Vec<TempDir> {
    let script = json!({ "rules": [{ "say": "At ten.", "usage": { "output_tokens": 50 } }] });
    let folders: Vec<TempDir> = (0..PROCESSES).map(|_| workspace(sink, &script)).collect();
    for folder in &folders {
        let path = folder.path();
        if path != folders[0].path() {
            std::fs::copy(folders[0].path().join(".secrets"), path.join(".secrets"))
                .expect("one database");
        }
        set(path, "budget", budget);
        // Each has one place, so that the others find something to do.
        let places = json!({ "runs_max": 1, "runs_per_persona_max": PROCESSES });
        set(path, "concurrency", &places);
        // A call may cost 0.001 dollars, and costs half of it.
        set(path, "max_output_tokens", &json!(100));
        let price = json!({ "provider": "scripted", "model": "*", "input": 0, "output": 10 });
        let prices = json!({ "version": "v1", "prices": [price] });
        std::fs::write(path.join("configs/prices.json"), prices.to_string()).expect("prices");
    }
    folders
}

/// Sets a key of `configs/inference.json`.
fn set(folder: &Path, key: &str, value: &Value) {
    let path = folder.join("configs/inference.json");
    let text = std::fs::read_to_string(&path).expect("a file");
    let mut whole: Value = serde_json::from_str(&text).expect("json");
    whole[key] = value.clone();
    std::fs::write(path, whole.to_string()).expect("written");
}

/// Writes the letters as files; returns their names, in the order of each thread.
fn letters(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for letter in 0..LETTERS {
        for thread in 0..THREADS {
            let before = match letter.checked_sub(1) {
                Some(before) => format!("In-Reply-To: <{thread}.{before}@guest.example>\r\n"),
                None => String::new(),
            };
            let text = format!(
                "From: bob@guest.example\r\nTo: concierge@guesthouse.example\r\nSubject: Breakfast {thread}\r\n\
                 Message-ID: <{thread}.{letter}@guest.example>\r\n{before}\r\nWhen, and where?\r\n"
            );
            let name = format!("letter-{thread}-{letter}.eml");
            std::fs::write(folder.join(&name), text).expect("a letter");
            names.push(name);
        }
    }
    names
}

/// Runs a command in each workspace, all at once.
fn all_at_once(folders: &[TempDir], args: &[String]) -> Vec<Output> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let started = folders.iter().map(|folder| {
        let mut command = attache(folder.path(), &args);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("the binary runs")
    });
    let started: Vec<_> = started.collect();
    let ended = started.into_iter();
    ended
        .map(|child| child.wait_with_output().expect("an end"))
        .collect()
}

/// Has eight processes take the letters at once, and then work them off.
fn raced(folders: &[TempDir]) {
    let names = letters(folders[0].path());
    for folder in &folders[1..] {
        letters(folder.path());
    }
    let take = [vec!["ingest".to_owned()], names].concat();
    for taken in all_at_once(folders, &take) {
        assert!(taken.status.success(), "{taken:?}");
    }
    // One that finds nothing to do ends at once; one may also say that a run waits.
    all_at_once(folders, &["drain".to_owned()]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_processes_take_each_letter_once_and_answer_it_once_in_its_order() {
    if is_skipped() {
        return;
    }
    let sink = Sink::default();
    let folders = workspaces(sink.open(), &json!({}));
    raced(&folders);
    let letters = i64::try_from(THREADS * LETTERS).expect("few");
    let mut rows = db::Connection::open(folders[0].path()).await;
    let once =
        "SELECT count(*) FROM runs WHERE state = 'succeeded' AND attempt = 1 AND crashes = 0";
    assert_eq!(db::number(&mut rows, once).await, letters);
    assert_eq!(
        db::number(&mut rows, "SELECT count(*) FROM runs").await,
        letters
    );
    let inbound = "SELECT count(*) FROM messages WHERE direction = 'inbound'";
    assert_eq!(db::number(&mut rows, inbound).await, letters);
    assert_eq!(
        db::number(&mut rows, "SELECT count(*) FROM threads").await,
        i64::try_from(THREADS).expect("few")
    );
    let overtaken = "SELECT count(*) FROM runs early JOIN runs late
        ON late.thread_id = early.thread_id AND late.seq > early.seq WHERE late.started_at < early.finished_at";
    assert_eq!(db::number(&mut rows, overtaken).await, 0);
    let nodes = db::number(&mut rows, "SELECT count(DISTINCT epoch) FROM runs").await;
    assert!(nodes > 1, "one process did everything, and nothing raced");
    let sent = sink.mails.lock().expect("a lock").len();
    assert_eq!(i64::try_from(sent).expect("few"), letters);
    audit(&mut rows).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_processes_never_spend_more_than_the_budget_of_a_day() {
    if is_skipped() {
        return;
    }
    let sink = Sink::default();
    let folders = workspaces(sink.open(), &json!({ "day_usd_max": 0.01 }));
    raced(&folders);
    let mut rows = db::Connection::open(folders[0].path()).await;
    let spent = "SELECT CAST(sum(cost_micros) AS BIGINT) FROM usage_ledger";
    let spent = db::number(&mut rows, spent).await;
    // The account ends where a call that may cost 1,000 finds less than that.
    assert!((9_000..=10_000).contains(&spent), "{spent}");
    let answered = db::number(
        &mut rows,
        "SELECT count(*) FROM runs WHERE state = 'succeeded'",
    )
    .await;
    assert_eq!(spent, 500 * answered);
    let waiting = "SELECT count(*) FROM runs WHERE state IN ('queued', 'waiting_retry')";
    let letters = i64::try_from(THREADS * LETTERS).expect("few");
    assert_eq!(db::number(&mut rows, waiting).await, letters - answered);
    // Runs wait for the next day, so that it is not at rest.
    let scope = AuditScope {
        bytes: true,
        at_rest: false,
    };
    let broken = examined(&mut rows, scope).await.broken;
    assert!(broken.is_empty(), "{broken:#?}");
}
