//! An agent's side of the tool server: JSON-RPC lines over the pipes of the real program.

use crate::app::{TestApp, proven_note as note};
use attache::clock::{Clock, SystemClock};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, Lines,
};
use tokio::process::{Child, Command};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_attache");

pub struct Client {
    /// `None` for a server without a process of its own.
    child: Option<Child>,
    stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    lines: Lines<BufReader<Box<dyn AsyncRead + Send + Unpin>>>,
    next: u64,
}

impl Client {
    /// Starts the program with an empty environment, as an agent might.
    pub fn start(program: &str, args: &[String]) -> Self {
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .current_dir("/")
            .kill_on_drop(true);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let (stdin, stdout) = (
            child.stdin.take().expect("a pipe"),
            child.stdout.take().expect("a pipe"),
        );
        Self {
            child: Some(child),
            ..Self::over(stdout, stdin)
        }
    }

    /// Speaks with a server that is there already.
    pub fn over(
        reading: impl AsyncRead + Send + Unpin + 'static,
        writing: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        let reading: Box<dyn AsyncRead + Send + Unpin> = Box::new(reading);
        Self {
            child: None,
            stdin: Some(Box::new(writing)),
            lines: BufReader::new(reading).lines(),
            next: 0,
        }
    }

    pub fn for_run(workspace: &Path, run: &str) -> Self {
        let workspace = workspace.display().to_string();
        let args = ["mcp", "serve", "--run", run, "--workspace", &workspace];
        Self::start(PROGRAM, &args.map(str::to_owned))
    }

    /// Started and introduced.
    pub async fn ready(workspace: &Path, run: &str) -> Self {
        let mut client = Self::for_run(workspace, run);
        client.introduce().await;
        client
    }

    pub async fn introduce(&mut self) -> Value {
        let client = json!({ "name": "test", "version": "1" });
        let hello =
            json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        let said = self.request("initialize", hello).await;
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
            .await;
        said
    }

    async fn send(&mut self, line: &Value) {
        let stdin = self.stdin.as_mut().expect("open");
        stdin
            .write_all(format!("{line}\n").as_bytes())
            .await
            .expect("written");
        stdin.flush().await.expect("written");
    }

    /// The whole answer, its error included. Anything on stdout that is no JSON fails the test.
    pub async fn request(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .await;
        let reading = async {
            loop {
                let line = self
                    .lines
                    .next_line()
                    .await
                    .expect("readable")
                    .expect("an answer, not an end");
                let said: Value = serde_json::from_str(&line).expect("only the protocol on stdout");
                if said["id"] == id {
                    return said;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(30), reading)
            .await
            .expect("an answer in time")
    }

    /// Calls a tool: whether it failed, and what it gave.
    pub async fn call(&mut self, name: &str, args: Value) -> (bool, Value) {
        let said = self
            .request("tools/call", json!({ "name": name, "arguments": args }))
            .await;
        let result = &said["result"];
        let text = result["content"][0]["text"]
            .as_str()
            .unwrap_or_else(|| panic!("no text in {said}"));
        (
            result["isError"] == true,
            serde_json::from_str(text).expect("JSON"),
        )
    }

    /// Closes the pipe and waits; gives the exit code and what stands on stderr.
    pub async fn end(mut self) -> (Option<i32>, String) {
        drop(self.stdin.take());
        let mut complaints = String::new();
        let mut child = self.child.take().expect("a process");
        let mut stderr = child.stderr.take().expect("a pipe");
        let ending = async {
            stderr
                .read_to_string(&mut complaints)
                .await
                .expect("readable");
            child.wait().await.expect("an end").code()
        };
        let code = tokio::time::timeout(Duration::from_secs(30), ending)
            .await
            .expect("an end in time");
        (code, complaints)
    }
}

/// A letter whose run the engine has claimed and works on.
pub async fn claimed(app: &TestApp) -> String {
    let run = app
        .run_of(&note("q1@guest.example", "", "When is breakfast?"))
        .await;
    assert_eq!(
        app.engine
            .store
            .claim_runs(1, 1)
            .await
            .expect("a claim")
            .len(),
        1
    );
    run
}

/// The program that we started lives by the machine's clock: what it queued is due when the house's clock is not behind.
pub fn catch_up(app: &TestApp) {
    let clock = &app.workspace.clock;
    let now = SystemClock::new().now();
    clock.set(if now > clock.now() { now } else { clock.now() });
}

pub fn reply(body: &str) -> Value {
    json!({ "to": ["bob@guest.example"], "subject": "x", "body": body })
}
