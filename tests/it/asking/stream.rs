//! Answers that show while they are made: by a model that speaks piece by piece, on a terminal of Python's.

use super::{ask, house};
use crate::app::{TestApp, Workspace, glance};
use crate::guest_house::attache;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{ChildStdin, Command};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Longest wait for what another process does.
const PATIENCE: Duration = Duration::from_secs(60);

/// A model that says its pieces one by one, each when it is told to.
pub struct PieceModel {
    url: String,
    pub go_on: Arc<Notify>,
}

/// What the model does after a piece.
#[derive(Clone, Copy, PartialEq)]
pub enum Next {
    Waits,
    BreaksOff,
    Ends,
}

impl PieceModel {
    /// The n-th call is answered by the n-th list of pieces.
    pub async fn start(calls: Vec<Vec<(&'static str, Next)>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/v1", listener.local_addr().expect("bound"));
        let go_on = Arc::new(Notify::new());
        let told = go_on.clone();
        tokio::spawn(async move {
            for pieces in calls {
                let (stream, _) = listener.accept().await.expect("a call");
                tokio::spawn(speak(stream, pieces, told.clone()));
            }
        });
        Self { url, go_on }
    }

    pub fn serve(&self, workspace: &Workspace) {
        let block =
            json!({ "compat:house": { "base_url": self.url, "api_key_variable": "HOUSE_KEY" } });
        workspace.set("configs/inference.json", "/providers", block);
        workspace.set("configs/inference.json", "/provider", json!("compat:house"));
        workspace.write(".secrets", "HOUSE_KEY=k\n");
        crate::providers::threads::restrict(&workspace.path().join(".secrets"));
    }
}

async fn speak(mut stream: TcpStream, pieces: Vec<(&str, Next)>, told: Arc<Notify>) {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    // The body is one JSON object, whose end is the end of the request.
    while serde_json::from_slice::<Value>(body_of(&request)).is_err() {
        let read = stream.read(&mut buffer).await.expect("a request");
        request.extend_from_slice(&buffer[..read]);
    }
    let head =
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: text/event-stream\r\n\r\n";
    stream.write_all(head.as_bytes()).await.expect("written");
    for (piece, next) in pieces {
        let finish = (next == Next::Ends).then_some("stop");
        let event = json!({ "id": "g", "model": "m",
            "choices": [{ "index": 0, "delta": { "content": piece }, "finish_reason": finish }] });
        let body = match next {
            Next::Ends => format!("data: {event}\n\ndata: [DONE]\n\n"),
            _ => format!("data: {event}\n\n"),
        };
        let chunk = format!("{:x}\r\n{body}\r\n", body.len());
        stream.write_all(chunk.as_bytes()).await.expect("written");
        match next {
            Next::Waits => told.notified().await,
            Next::BreaksOff => return,
            Next::Ends => stream.write_all(b"0\r\n\r\n").await.expect("written"),
        }
    }
}

fn body_of(request: &[u8]) -> &[u8] {
    let at = request.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    at.map_or(&[], |at| &request[at + 4..])
}

/// A command on a terminal.
struct Terminal {
    child: tokio::process::Child,
    /// Closed, it would be the end of what is typed.
    _typed: ChildStdin,
    shown: Arc<Mutex<String>>,
}

impl Terminal {
    /// `None`, and says so: there is no Python here.
    fn start(folder: &Path, args: &[&str]) -> Option<Self> {
        let mut python = Command::new("python3");
        let spawn =
            "import pty, sys, os; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
        python
            .args(["-c", spawn, env!("CARGO_BIN_EXE_attache")])
            .args(args)
            .env_remove("ATTACHE_LOG")
            .env("NO_COLOR", "1")
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true);
        let Ok(mut child) = python.spawn() else {
            eprintln!("SKIPPED: answers on a terminal need python3, and there is none");
            return None;
        };
        let mut output = child.stdout.take().expect("a pipe");
        let shown: Arc<Mutex<String>> = Arc::default();
        let seen = shown.clone();
        tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut buffer).await {
                let text = String::from_utf8_lossy(&buffer[..read]).replace('\r', "");
                seen.lock().expect("no panic").push_str(&text);
            }
        });
        let typed = child.stdin.take().expect("a pipe");
        Some(Self {
            child,
            _typed: typed,
            shown,
        })
    }

    fn shown(&self) -> String {
        self.shown.lock().expect("no panic").clone()
    }

    async fn shows(&self, text: &str) -> String {
        let look = async {
            while !self.shown().contains(text) {
                glance().await;
            }
        };
        if tokio::time::timeout(PATIENCE, look).await.is_err() {
            panic!("not shown: {text:?} in {:?}", self.shown());
        }
        self.shown()
    }

    async fn ends(&mut self) -> Option<i32> {
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        ended.expect("in time").expect("it ran").code()
    }
}

/// A workspace whose model speaks piece by piece, with an engine at work in this process or none.
async fn speaking(
    calls: Vec<Vec<(&'static str, Next)>>,
    has_engine: bool,
) -> (Workspace, PieceModel, Option<CancellationToken>) {
    let workspace = Workspace::new(&json!({ "turns": [] }));
    let model = PieceModel::start(calls).await;
    model.serve(&workspace);
    if !has_engine {
        return (workspace, model, None);
    }
    let TestApp { workspace, engine } = workspace.start().await;
    let stop = CancellationToken::new();
    tokio::spawn(engine.serve(Vec::new(), stop.clone()));
    (workspace, model, Some(stop))
}

fn streams(workspace: &Workspace) -> usize {
    let files = std::fs::read_dir(workspace.path().join("data/streams"));
    files.map_or(0, Iterator::count)
}

async fn shows_pieces(has_engine: bool) {
    let pieces = vec![
        ("Forty ", Next::Waits),
        ("seats\u{1b}[31m.", Next::Waits),
        ("\n\nAda", Next::Ends),
    ];
    let (workspace, model, stop) = speaking(vec![pieces], has_engine).await;
    let Some(mut terminal) = Terminal::start(workspace.path(), &["ask", "ada", "How many?"]) else {
        return;
    };
    let first = terminal.shows("Forty").await;
    assert!(!first.contains("seats"), "{first:?}");
    assert_eq!(streams(&workspace), 1);
    model.go_on.notify_one();
    let second = terminal.shows("seats").await;
    assert!(!second.contains("Ada"), "{second:?}");
    model.go_on.notify_one();
    assert_eq!(terminal.ends().await, Some(0));
    let whole = terminal.shows("Ada").await;
    assert_eq!(whole.trim(), "Forty seats.\n\nAda", "{whole:?}");
    assert_eq!(streams(&workspace), 0, "nothing of it is left");
    stop.inspect(CancellationToken::cancel);
}

#[tokio::test]
async fn an_answer_shows_on_the_terminal_while_it_is_made() {
    shows_pieces(false).await;
}

#[tokio::test]
async fn the_answer_of_a_working_engine_shows_while_it_is_made() {
    shows_pieces(true).await;
}

#[tokio::test]
async fn an_answer_that_broke_off_is_told_apart_from_the_one_that_counts() {
    let calls = vec![
        vec![("Fourteen", Next::BreaksOff)],
        vec![("Forty seats.", Next::Ends)],
    ];
    let (workspace, ..) = speaking(calls, false).await;
    let Some(mut terminal) = Terminal::start(workspace.path(), &["ask", "ada", "How many?"]) else {
        return;
    };
    assert_eq!(terminal.ends().await, Some(0));
    let whole = terminal.shows("Forty seats.").await;
    assert_eq!(
        whole.trim(),
        "Fourteen\nthe model broke off and is asked again\nForty seats."
    );
}

#[tokio::test]
#[ignore = "second tier"]
async fn an_answer_that_differs_from_what_showed_is_shown_whole() {
    let script = json!({ "rules": [
        { "when": { "turn": 0 }, "say": "Forty ", "stop": "max_tokens" },
        // Time enough for the terminal to find the stream, which it reads to its end then.
        { "say": "seats.", "delay_ms": 500 },
    ] });
    let folder = house(&script);
    let Some(mut terminal) = Terminal::start(folder.path(), &["ask", "concierge", "How many?"])
    else {
        return;
    };
    assert_eq!(terminal.ends().await, Some(0));
    let whole = terminal.shows("Forty seats.").await;
    assert!(
        whole.contains(
            "what is above is not the answer that was kept, which is this:\nForty seats."
        ),
        "{whole:?}"
    );
    let piped = ask(&folder, &["ask", "concierge", "How many?"], "");
    assert_eq!(piped.1, "Forty seats.\n", "{}", piped.2);
}

#[test]
fn calls_of_tools_show_beside_the_answer_and_not_in_it() {
    let folder = house(&json!({ "rules": [
        { "when": { "turn": 0 }, "say": "I look.", "call": [{ "tool": "read_file", "args": { "path": "knowledge/house.md" } }] },
        { "say": "Until eight." },
    ] }));
    let asked = ask(&folder, &["ask", "concierge", "Until when?"], "");
    assert_eq!((asked.0, asked.1.as_str()), (0, "Until eight.\n"));
    assert!(
        asked
            .2
            .contains(r#"· read_file {"path":"knowledge/house.md"}"#),
        "{}",
        asked.2
    );
    let as_json = ask(&folder, &["--json", "ask", "concierge", "Until when?"], "");
    assert_eq!(as_json.2, "");
}

/// Interrupts the command while its model says nothing.
async fn interrupted(folder: &Path, persona: &str) -> (Option<i32>, String) {
    let mut command = attache(folder, &["ask", persona, "Are you there?"]);
    let mut child: Child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let streams = folder.join("data/streams");
    let works = async {
        while std::fs::read_dir(&streams).map_or(0, Iterator::count) == 0 {
            assert!(
                child.try_wait().expect("a child").is_none(),
                "it ended early"
            );
            glance().await;
        }
    };
    tokio::time::timeout(PATIENCE, works).await.expect("a run");
    let pid = child.id().to_string();
    let sent = std::process::Command::new("kill")
        .args(["-INT", &pid])
        .status();
    assert!(sent.expect("kill").success());
    let ended = tokio::task::spawn_blocking(|| child.wait_with_output());
    let ended = tokio::time::timeout(PATIENCE, ended)
        .await
        .expect("in time");
    let Output { status, stderr, .. } = ended.expect("no panic").expect("it ends");
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

#[tokio::test]
#[ignore = "second tier"]
async fn ctrl_c_cancels_the_run() {
    let script = json!({ "rules": [{ "hang": true }] });
    let expected = "no answer: cancelled";
    let alone = house(&script);
    let (code, said) = interrupted(alone.path(), "concierge").await;
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("cancelling") && said.contains(expected),
        "{said}"
    );
    let runs = crate::guest_house::run(alone.path(), &["--json", "runs", "list"]);
    let runs: Value = serde_json::from_str(&runs.stdout).expect("JSON");
    assert_eq!(runs[0]["state"], "cancelled");

    let TestApp { workspace, engine } = Workspace::new(&script).start().await;
    let stop = CancellationToken::new();
    let serving = tokio::spawn(engine.serve(Vec::new(), stop.clone()));
    let (code, said) = interrupted(workspace.path(), "ada").await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(expected), "{said}");
    stop.cancel();
    serving.await.expect("no panic").expect("a clean stop");
}
