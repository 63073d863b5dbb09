//! Runs in parallel against one daily budget, on the real binary, which is killed in the middle of them again and again. The
//! model is a server that counts what it bills, whether or not its answer arrives.
//!
//! `MONEY_RUNS=1000 MONEY_KILLS=20 MONEY_PARALLEL=64` is the long form.

use crate::app::audit;
use crate::app::db;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Dollars per million tokens are micro-dollars per token.
const INPUT: i64 = 2;
const OUTPUT: i64 = 10;
const OUTPUT_TOKENS_MAX: i64 = 200;

fn from_environment(name: &str, default: usize) -> usize {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// What the model has billed: the id of every answer, in micro-dollars.
#[derive(Default)]
struct Bills {
    billed: Mutex<BTreeMap<String, i64>>,
    more: Condvar,
}

impl Bills {
    fn total(&self) -> i64 {
        self.billed.lock().expect("a lock").values().sum()
    }

    /// Waits until the model has billed so many calls more, or until nothing comes any more.
    fn wait_for_more(&self, calls: usize) -> bool {
        let billed = self.billed.lock().expect("a lock");
        let wanted = billed.len() + calls;
        let waited = self
            .more
            .wait_timeout_while(billed, Duration::from_secs(3), |billed| {
                billed.len() < wanted
            });
        !waited.expect("a lock").1.timed_out()
    }
}

/// A server of OpenAI's chat completions; every call costs something else, the ninth is turned away, the eleventh breaks off
/// after it was billed.
fn model() -> (u16, Arc<Bills>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let bills = Arc::new(Bills::default());
    let counted = bills.clone();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let counted = counted.clone();
            // A client that is killed hangs up.
            std::thread::spawn(move || answer(stream, number as i64, &counted).ok());
        }
    });
    (port, bills)
}

fn answer(mut stream: TcpStream, number: i64, bills: &Bills) -> Result<()> {
    let length = read_request(&mut stream)?;
    if number % 9 == 8 {
        let body = r#"{"error":{"message":"busy","type":"server_error"}}"#;
        let head = format!(
            "HTTP/1.1 429 X\r\nretry-after: 0\r\nconnection: close\r\ncontent-length: {}",
            body.len()
        );
        return write!(stream, "{head}\r\n\r\n{body}");
    }
    // Two to five bytes a token, as text has.
    let (input, output) = (length / (2 + number % 4), 1 + number % OUTPUT_TOKENS_MAX);
    let id = format!("chatcmpl-{number}");
    let cost = input * INPUT + output * OUTPUT;
    bills
        .billed
        .lock()
        .expect("a lock")
        .insert(id.clone(), cost);
    bills.more.notify_all();
    std::thread::sleep(Duration::from_millis(10 + number.unsigned_abs() * 7 % 90));
    if number % 11 == 10 {
        return Ok(());
    }
    let chunk = |value: Value| format!("data: {value}\n\n");
    let head =
        json!({ "id": id, "object": "chat.completion.chunk", "created": 1, "model": "stub-1" });
    let with = |key: &str, value: Value| {
        let mut whole = head.clone();
        whole[key] = value;
        whole
    };
    let said = json!([{ "index": 0, "delta": { "role": "assistant", "content": "From seven to ten." },
        "finish_reason": null }]);
    let end = json!([{ "index": 0, "delta": {}, "finish_reason": "stop" }]);
    let mut usage = with("choices", json!([]));
    usage["usage"] = json!({ "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output });
    let body = [with("choices", said), with("choices", end), usage]
        .map(chunk)
        .concat()
        + "data: [DONE]\n\n";
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close";
    write!(
        stream,
        "{head}\r\nx-request-id: {id}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The length of the body.
fn read_request(stream: &mut TcpStream) -> Result<i64> {
    let mut lines = BufReader::new(stream.try_clone()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        match line
            .trim_end()
            .to_ascii_lowercase()
            .strip_prefix("content-length: ")
        {
            Some(typed) => length = typed.parse().map_err(std::io::Error::other)?,
            None if line.trim_end().is_empty() => break,
            None => {}
        }
    }
    let mut body = vec![0; length];
    lines.read_exact(&mut body)?;
    Ok(length as i64)
}

fn attache(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command
        .env_remove("ATTACHE_WORKSPACE")
        .env_remove("ATTACHE_LOG")
        .current_dir(folder)
        .args(args);
    command
}

/// A serving engine; it is killed when it is dropped.
struct Engine(Child);

impl Engine {
    fn start(folder: &Path) -> Self {
        let mut command = attache(folder, &["serve", "--log", "off"]);
        Self(
            command
                .stdout(Stdio::null())
                .spawn()
                .expect("the binary runs"),
        )
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.0.kill().expect("SIGKILL");
        self.0.wait().expect("it is gone");
    }
}

fn workspace(port: u16, (runs, parallel): (usize, usize), day_micros: i64) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    crate::guest_house::write(dir.path());
    let write = |file: &str, value: Value| {
        std::fs::write(dir.path().join(file), value.to_string()).expect("a written file");
    };
    write(
        "configs/gateway.json",
        json!({
            "mail_domain": "guesthouse.example", "owners": ["olga@guesthouse.test"],
            "outbound": { "kind": "folder", "path": "data/outbox" },
            "limits": { "replies_per_hour_max": 1_000_000, "replies_per_day_max": 1_000_000, "domain_runs_per_day_max": 1_000_000 },
        }),
    );
    write(
        "configs/security.json",
        json!({ "access": { "allow": ["*@guest.example"] } }),
    );
    write(
        "configs/inference.json",
        json!({
            "provider": "openai", "model": "stub-1", "max_output_tokens": OUTPUT_TOKENS_MAX,
            "providers": { "openai": { "base_url": format!("http://127.0.0.1:{port}/v1") } },
            "concurrency": { "runs_max": parallel, "runs_per_persona_max": parallel },
            "budget": { "day_usd_max": day_micros as f64 / 1e6 },
        }),
    );
    let price =
        json!({ "provider": "openai", "model": "stub-*", "input": INPUT, "output": OUTPUT });
    write(
        "configs/prices.json",
        json!({ "version": "stub", "prices": [price] }),
    );
    std::fs::create_dir_all(dir.path().join("letters")).expect("a folder");
    let letters: Vec<String> = (0..runs).map(|number| letter(dir.path(), number)).collect();
    let mut ingest = attache(dir.path(), &["ingest"]);
    assert!(
        ingest
            .args(letters)
            .output()
            .expect("the binary runs")
            .status
            .success()
    );
    dir
}

fn letter(folder: &Path, number: usize) -> String {
    let file = format!("letters/{number}.eml");
    let text = format!(
        "From: bob{number}@guest.example\r\nTo: concierge@guesthouse.example\r\nSubject: Breakfast\r\n\
         Message-ID: <{number}@guest.example>\r\nDate: Fri, 20 Nov 2026 08:59:00 +0000\r\n\r\nWhen?\r\n"
    );
    std::fs::write(folder.join(&file), text).expect("a letter");
    file
}

#[tokio::test]
#[ignore = "second tier"]
async fn parallel_runs_under_kills_never_overspend_the_days_budget() {
    let (runs, kills) = (
        from_environment("MONEY_RUNS", 150),
        from_environment("MONEY_KILLS", 5),
    );
    let parallel = from_environment("MONEY_PARALLEL", 16);
    // What a call may cost is 23,000 micro-dollars, what it does cost a third of that.
    let max = from_environment("MONEY_BUDGET", runs * 10_000) as i64;
    let (port, bills) = model();
    let dir = workspace(port, (runs, parallel), max);
    for kill in 0..kills {
        let engine = Engine::start(dir.path());
        // Somewhere in the middle of the calls, elsewhere every time.
        let _nothing_comes_any_more = bills.wait_for_more(1 + kill * 7 % 23);
        drop(engine);
    }
    let drained = attache(dir.path(), &["drain"])
        .output()
        .expect("the binary runs");
    assert!(drained.status.success(), "{drained:?}");
    let mut rows = db::Connection::open(dir.path()).await;
    audit(&mut rows).await;
    let billed = bills.total();
    let account = "SELECT sum(spent_micros) FROM budget_accounts WHERE scope = 'engine' AND length(period) = 10";
    let spent = db::number(&mut rows, account).await;
    let reserved = db::number(
        &mut rows,
        "SELECT sum(reserved_micros) FROM budget_accounts",
    )
    .await;
    let succeeded = db::number(
        &mut rows,
        "SELECT count(*) FROM runs WHERE state = 'succeeded'",
    )
    .await;
    let waiting = db::number(
        &mut rows,
        "SELECT count(*) FROM runs WHERE state = 'waiting_retry' AND error_class = 'budget'",
    )
    .await;
    let lost = db::number(
        &mut rows,
        "SELECT count(*) FROM usage_ledger WHERE state = 'lost'",
    )
    .await;
    println!(
        "{runs} runs, {parallel} at once, {kills} kills: budget {max}, billed {billed} in {} calls, known as spent {spent}; \
         {succeeded} answered, {waiting} wait, {lost} calls lost (micro-dollars)",
        bills.billed.lock().expect("a lock").len()
    );
    assert!(
        billed <= spent,
        "the model has billed {billed} and we know of {spent}"
    );
    assert!(spent <= max, "{spent} of {max} are spent");
    assert_eq!(reserved, 0);
    assert!(
        succeeded > 0 && waiting > 0 && lost > 0,
        "nothing was tried: {succeeded} {waiting} {lost}"
    );
    assert_settled_calls_are_what_was_billed(&mut rows, &bills).await;
    let told = db::number(
        &mut rows,
        "SELECT count(*) FROM notices WHERE kind = 'budget_reached'",
    )
    .await;
    assert_eq!(told, 1, "the owner is told once");
}

/// Every answer that is in the ledger stands there with exactly what the model billed for it.
async fn assert_settled_calls_are_what_was_billed(rows: &mut db::Connection, bills: &Bills) {
    let sql = "SELECT t.response_json ->> 'provider_request_id', l.cost_micros FROM usage_ledger l
        JOIN run_turns t ON t.run_id = l.run_id AND t.turn_index = l.turn_index AND t.attempt = l.attempt
        WHERE l.state = 'answered'";
    let ledger: Vec<(String, i64)> = db::query_as(sql)
        .fetch_all(&mut *rows)
        .await
        .expect("a ledger");
    let billed = bills.billed.lock().expect("a lock");
    for (id, cost) in &ledger {
        assert_eq!(billed.get(id), Some(cost), "{id}");
    }
    let mut ids: Vec<&String> = ledger.iter().map(|(id, _)| id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), ledger.len(), "an answer is booked twice");
}
