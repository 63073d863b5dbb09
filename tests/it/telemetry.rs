//! What programs that watch over the engine are sent: spans, a ping, a log of sizes. Nothing of a letter is in any of them.

use crate::app::{TestApp, Workspace, note};
use crate::feed::asks;
use crate::webhooks::receiver::{Answer, Received, Receiver};
use attache::domain::traceparent;
use attache::store::FeedFilter;
use attache::telemetry::TelemetryWorker;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(20);
const TAKEN: Answer = Answer::Status(200, "");
/// A letter whose every word would be found again.
const LETTER: &str = "From: Zacharias <zacharias@guest.example>\nTo: ada@engine.test\nSubject: Marzipan\n\
    Message-ID: <kumquat@guest.example>\n\nThe password is rhubarb. Look into the house file.\n";
const WORDS: [&str; 7] = [
    "zacharias",
    "guest.example",
    "marzipan",
    "kumquat",
    "rhubarb",
    "seven to ten",
    "engine.test",
];

fn workspace(telemetry: &Value, secrets: &str) -> Workspace {
    let workspace = Workspace::new(&json!({ "rules": [
        { "when": { "contains": "go wrong" }, "error": { "class": "permission", "message": "rhubarb" } },
        { "when": { "turn": 0 }, "call": [{ "tool": "read_file", "args": { "path": "knowledge/house.md" } }] },
        { "say": "From seven to ten." },
    ] }));
    workspace.set("configs/gateway.json", "/telemetry", telemetry.clone());
    workspace.write(".secrets", secrets);
    let path = workspace.path().join(".secrets");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("its mode");
    workspace
}

/// A worker at work, which ends when it is dropped.
struct Watching(CancellationToken);

impl Watching {
    fn start(app: &TestApp) -> Self {
        let stop = CancellationToken::new();
        let engine = &app.engine;
        let worker = TelemetryWorker::new(&engine.store, &engine.config, engine.intake());
        let short = Duration::from_millis(5);
        tokio::spawn(worker.polling(short, short).run(stop.clone()));
        Self(stop)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

async fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let waiting = async {
        loop {
            if let Some(found) = found() {
                return found;
            }
            crate::app::glance().await;
        }
    };
    let found = tokio::time::timeout(PATIENCE, waiting).await;
    found.unwrap_or_else(|_| panic!("{what} in time"))
}

/// Spans of a request, by name.
fn spans(request: &Received) -> BTreeMap<String, Value> {
    let body = request.json();
    let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array();
    let named = spans.expect("spans").iter().map(|span| {
        let name = span["name"].as_str().expect("a name");
        (name.to_owned(), span.clone())
    });
    named.collect()
}

fn attribute<'a>(span: &'a Value, key: &str) -> &'a Value {
    let attributes = span["attributes"].as_array().expect("attributes");
    let found = attributes.iter().find(|one| one["key"] == key);
    &found.unwrap_or_else(|| panic!("no {key} in {span}"))["value"]
}

fn assert_silent(text: &str) {
    let text = text.to_lowercase();
    for word in WORDS {
        assert!(!text.contains(word), "{word} is in {text}");
    }
}

#[tokio::test]
async fn a_run_is_a_trace_of_its_turns_and_calls_without_a_word_of_them() {
    let collector = Receiver::start(&[TAKEN]).await;
    let traces = json!({ "traces": { "url": collector.url(), "authorization_variable": "OTLP" } });
    let app = workspace(&traces, "OTLP=Bearer of-the-collector\n")
        .start()
        .await;
    let _watching = Watching::start(&app);
    let run = app.run_of(LETTER).await;
    app.drain().await;
    let request = until("a trace", || collector.received().first().cloned()).await;
    assert_eq!(request.header("authorization"), "Bearer of-the-collector");
    assert_silent(&request.body);
    let spans = spans(&request);
    let root = &spans["invoke_agent ada"];
    let [trace, parent] = [&root["traceId"], &root["spanId"]];
    assert_eq!(*trace, run.replace('-', "").as_str());
    let told = traceparent(&attache::domain::RunId::new(run.as_str()));
    assert_eq!(
        told,
        format!(
            "00-{}-{}-01",
            trace.as_str().expect("an id"),
            parent.as_str().expect("an id")
        )
    );
    assert!(root.get("parentSpanId").is_none());
    for name in ["chat test", "execute_tool read_file"] {
        let span = spans
            .get(name)
            .unwrap_or_else(|| panic!("no {name} in {spans:?}"));
        assert_eq!(
            (&span["traceId"], &span["parentSpanId"]),
            (trace, parent),
            "{name}"
        );
        assert_eq!(span["status"]["code"], 1, "{span}");
        assert!(
            span["startTimeUnixNano"]
                .as_str()
                .expect("a text")
                .ends_with("000000")
        );
    }
    let chat = &spans["chat test"];
    assert_eq!(
        attribute(chat, "gen_ai.operation.name")["stringValue"],
        "chat"
    );
    let tokens = attribute(chat, "gen_ai.usage.output_tokens")["intValue"].as_str();
    assert!(tokens.expect("a text").parse::<u64>().expect("a number") > 0);
}

#[tokio::test]
async fn a_run_that_fails_is_marked_by_its_class_and_a_collector_that_is_away_is_asked_again() {
    let collector = Receiver::start(&[Answer::Status(503, ""), Answer::Close, TAKEN]).await;
    let traces = json!({ "traces": { "url": collector.url() } });
    let app = workspace(&traces, "").start().await;
    let _watching = Watching::start(&app);
    app.run_of(&note("w@guest.example", "", "This will go wrong."))
        .await;
    app.drain().await;
    let all = until("three attempts", || {
        Some(collector.received()).filter(|all| all.len() >= 3)
    })
    .await;
    assert_eq!((&all[0].body, &all[1].body), (&all[2].body, &all[2].body));
    let spans = spans(&all[2]);
    let root = &spans["invoke_agent ada"];
    assert_eq!(
        root["status"],
        json!({ "code": 2, "message": "permission" })
    );
    assert_silent(&all[2].body);
}

fn lines(log: &PathBuf) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a JSON line"));
    lines.collect()
}

async fn newest(app: &TestApp) -> i64 {
    app.engine.store.feed_newest().await.expect("a feed")
}

#[tokio::test]
async fn the_log_of_sizes_has_each_event_once_over_a_restart_and_a_cut_line() {
    let app = workspace(&json!({ "audit_log": true }), "").start().await;
    let log = app.workspace.path().join("data/audit.log");
    let is_whole = |newest: i64| {
        let found = lines(&log);
        (found.last().map(|line| line["seq"].as_i64()) == Some(Some(newest))).then_some(found)
    };
    let watching = Watching::start(&app);
    app.run_of(LETTER).await;
    app.drain().await;
    let through = newest(&app).await;
    until("the first letter", || is_whole(through)).await;
    drop(watching);
    app.run_of(&note("two@guest.example", "", "And dinner?"))
        .await;
    app.drain().await;
    // As a crash in the middle of a line leaves it.
    let mut cut = std::fs::read(&log).expect("a log");
    cut.extend_from_slice(br#"{"seq":99999,"kind":"let"#);
    std::fs::write(&log, cut).expect("a log");
    let _watching = Watching::start(&app);
    let through = newest(&app).await;
    let found = until("the second letter", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let is_good = text
            .lines()
            .all(|line| serde_json::from_str::<Value>(line).is_ok());
        is_good.then(|| is_whole(through)).flatten()
    })
    .await;
    let page = app
        .engine
        .store
        .feed_after(0, &FeedFilter::default(), 1000)
        .await;
    let events = page.expect("a page").events;
    let numbers: Vec<i64> = found
        .iter()
        .map(|line| line["seq"].as_i64().expect("a number"))
        .collect();
    assert_eq!(
        numbers,
        events.iter().map(|event| event.seq).collect::<Vec<_>>()
    );
    let of = |kind: &str| {
        found
            .iter()
            .find(|line| line["kind"] == kind)
            .expect("a line")
    };
    assert_eq!(
        of("letter.run")["letter_bytes"],
        LETTER.replace('\n', "\r\n").len()
    );
    assert!(of("turn.answered")["output_tokens"].as_u64() > Some(0));
    assert_eq!(of("call.begun")["tool"], "read_file");
    assert_eq!(of("delivery.done")["recipients"], 1);
    assert_silent(&std::fs::read_to_string(&log).expect("a log"));
    let mode = log.metadata().expect("a log").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_log_of_sizes_that_another_program_renamed_is_gone_on_with() {
    let app = workspace(&json!({ "audit_log": true }), "").start().await;
    let log = app.workspace.path().join("data/audit.log");
    let last = || Some(lines(&log).last()?["seq"].as_i64().expect("a number"));
    let watching = Watching::start(&app);
    app.run_of(LETTER).await;
    app.drain().await;
    let through = newest(&app).await;
    until("the first letter", || {
        (last() == Some(through)).then_some(())
    })
    .await;
    // As logrotate does it with `dateext`, beside one that it has packed.
    std::fs::rename(&log, log.with_file_name("audit.log-20261120")).expect("renamed");
    let packed = log.with_file_name("audit.log-20261119.gz");
    std::fs::write(&packed, b"\x1f\x8b\x08\n no line").expect("written");
    drop(watching);
    let _watching = Watching::start(&app);
    app.run_of(&note("two@guest.example", "", "And dinner?"))
        .await;
    app.drain().await;
    let then = newest(&app).await;
    until("the second letter", || (last() == Some(then)).then_some(())).await;
    let numbers: Vec<i64> = lines(&log)
        .iter()
        .map(|line| line["seq"].as_i64().expect("a number"))
        .collect();
    assert_eq!(numbers, (through + 1..=then).collect::<Vec<_>>());
    assert_eq!(
        std::fs::read(&packed).expect("a file"),
        b"\x1f\x8b\x08\n no line"
    );
}

#[tokio::test]
async fn pings_tell_that_letters_are_taken_and_stop_when_they_are_not() {
    for (free_bytes, is_told) in [(0_u64, true), (1 << 60, false)] {
        let watcher = Receiver::start(&[TAKEN]).await;
        let collector = watcher.url().replace("/hook", "/traces");
        let telemetry =
            json!({ "ping": { "url_variable": "PING" }, "traces": { "url": collector } });
        let workspace = workspace(&telemetry, &format!("PING={}\n", watcher.url()));
        workspace.set(
            "configs/gateway.json",
            "/limits",
            json!({ "free_disk_bytes_min": free_bytes }),
        );
        let app = workspace.start().await;
        let _watching = Watching::start(&app);
        // A question needs no room for letters, and its trace comes after the first ping.
        asks(&app, &app.engine.store, "When is breakfast?").await;
        app.drain().await;
        let of = |path: &str| {
            let all = watcher.received();
            let count = all.iter().filter(|one| one.head.contains(path)).count();
            (count > 0).then_some(count)
        };
        until("a trace", || of("/traces")).await;
        assert_eq!(of("/hook").is_some(), is_told, "{free_bytes}");
    }
}
