//! Where the commands of a page run: a scratch folder, a shell, and stand-ins for what costs money or is elsewhere.
//!
//! The only changes to what the page shows: ports below 10000 on listeners are free ones, the model's service and the
//! smarthost are on loopback, `cargo run -- demo` is this build's binary, and where curl is missing the letter
//! is ingested.

use super::page::{Piece, shows};
use crate::outbound::server::{Script, Server};
use crate::providers::server::{Reply, Server as Model};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_attache");
const JSON: [(&str, &str); 1] = [("content-type", "application/json")];
const MODELS: &str =
    r#"{"data": [{"type": "model", "id": "claude-sonnet-4-5"}], "has_more": false}"#;
/// Looks at work that must end; each look starts a process, which is pace enough.
const LOOKS_MAX: usize = 1000;

pub struct Place {
    /// Vanishes with this value.
    _scratch: TempDir,
    /// Where the shell stands.
    pub folder: PathBuf,
    pub model: Model,
    pub smarthost: Server,
    engine: Option<Child>,
    /// The engine's, once it serves.
    port: String,
    /// One that was free a moment ago, for the pages.
    pages: u16,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(engine) = &mut self.engine {
            // A test that failed leaves its engine running.
            let _ended = engine.kill();
            let _status = engine.wait();
        }
    }
}

impl Place {
    pub async fn new() -> Self {
        let model = Model::answering(|request, _| {
            match request.head.split('?').next().unwrap_or_default() {
                head if head.starts_with("POST /v1/messages ") => {
                    Reply::stream(include_str!("../../fixtures/providers/anthropic/text.sse"))
                }
                head if head.starts_with("GET /v1/models") => Reply::new(200, &JSON, MODELS),
                _ => Reply::new(404, &[], ""),
            }
        })
        .await;
        let offers = vec!["8BITMIME", "AUTH PLAIN LOGIN"];
        let smarthost = Server::start(Script {
            offers,
            ..Script::default()
        })
        .await;
        let scratch = TempDir::new().expect("a temporary folder");
        let folder = scratch.path().to_owned();
        Self {
            _scratch: scratch,
            folder,
            model,
            smarthost,
            engine: None,
            port: "0".to_owned(),
            pages: TcpListener::bind("127.0.0.1:0")
                .and_then(|free| free.local_addr())
                .expect("a free port")
                .port(),
        }
    }

    /// Does what a piece of a page says, and compares. Whether it was a command that ran.
    pub fn follow(&mut self, piece: &Piece) -> bool {
        match piece {
            Piece::File { path, text } => self.write(path, text),
            Piece::NotRun { .. } => {}
            Piece::Command { line, shown } => tokio::task::block_in_place(|| self.run(line, shown)),
        }
        matches!(piece, Piece::Command { .. })
    }

    /// Writes a file of the page, with the stand-ins in it.
    pub fn write(&self, path: &str, text: &str) {
        let model = &self.model.url;
        let smarthost = self.smarthost.address.port();
        let stand_ins = [
            // As a reader does.
            ("put-yours-here", "4f9c2d81e6".to_owned()),
            ("127.0.0.1:2525", "127.0.0.1:0".to_owned()),
            ("127.0.0.1:8025", format!("127.0.0.1:{}", self.pages)),
            (
                "\"host\": \"smtp.provider.example\"",
                format!("\"host\": \"127.0.0.1\", \"port\": {smarthost}, \"tls\": \"none\""),
            ),
            (
                "\"provider\": \"anthropic\"",
                format!(
                    "\"provider\": \"anthropic\", \"providers\": {{\"anthropic\": {{\"base_url\": \"{model}\"}}}}"
                ),
            ),
        ];
        let text = stand_ins
            .iter()
            .fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
        let file = self.folder.join(path);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        std::fs::write(file, text).expect("a written file");
    }

    /// Runs one command of the page and compares what it prints with what is shown.
    pub fn run(&mut self, line: &str, shown: &[String]) {
        let typed = line.replace(":2525", &format!(":{}", self.port));
        let typed = typed.replace(":8025", &format!(":{}", self.pages));
        let typed = typed.replace(
            "--provider anthropic",
            &format!("--provider anthropic --base-url {}", self.model.url),
        );
        let smarthost = format!(
            "--smtp-host 127.0.0.1 --smtp-port {} --smtp-tls none",
            self.smarthost.address.port()
        );
        let typed = typed.replace("--smtp-host smtp.provider.example", &smarthost);
        if let Some(folder) = line.strip_prefix("cd ") {
            self.folder.push(folder);
            return assert!(self.folder.is_dir(), "`{line}`: no such folder");
        }
        match line {
            // This test is one of them.
            "cargo test --locked" => return,
            "attache serve &" => return self.serve(shown),
            "kill %1" => return self.stop(),
            _ => {}
        }
        self.settle();
        let typed = match typed.as_str() {
            "cargo run -- demo" => "attache demo".to_owned(),
            cargo if cargo.starts_with("cargo ") => {
                panic!("`{cargo}`: no test knows what to do with it")
            }
            curl if curl.starts_with("curl ") && curl.contains("http:") && !installed("curl") => {
                eprintln!("SKIPPED: curl is not installed; nothing is asked by HTTP");
                return;
            }
            curl if curl.starts_with("curl ") && !installed("curl") => {
                eprintln!("SKIPPED: curl is not installed; its letter is ingested");
                let (_, file) = curl.rsplit_once(' ').expect("a file");
                format!("attache ingest {file} > ingested.txt")
            }
            other => other.to_owned(),
        };
        let Output {
            status,
            stdout,
            stderr,
        } = self.shell(&typed).output().expect("a shell");
        let (stdout, stderr) = (
            String::from_utf8_lossy(&stdout),
            String::from_utf8_lossy(&stderr),
        );
        assert!(
            status.success(),
            "`{line}` ends with {status}\n{stdout}{stderr}"
        );
        // Remarks stand on the page word by word; nothing stands for them.
        for remark in stderr.lines() {
            assert!(
                shown.iter().any(|line| line == remark),
                "`{line}` complains: {remark}"
            );
        }
        let is_remark = |line: &String| stderr.lines().any(|remark| remark == line);
        let shown: Vec<String> = shown
            .iter()
            .filter(|line| !is_remark(line))
            .cloned()
            .collect();
        shows(&shown, &stdout).unwrap_or_else(|complaint| panic!("`{line}`: {complaint}"));
    }

    fn shell(&self, line: &str) -> Command {
        let mut shell = Command::new("sh");
        for name in [
            "ATTACHE_WORKSPACE",
            "ATTACHE_LOG",
            "ANTHROPIC_API_KEY",
            "ATTACHE_SMTP_PASSWORD",
        ] {
            shell.env_remove(name);
        }
        let binaries = Path::new(BINARY).parent().expect("a folder");
        let path = std::env::var("PATH").unwrap_or_default();
        shell.env("PATH", format!("{}:{path}", binaries.display()));
        shell.current_dir(&self.folder).args(["-c", line]);
        shell
    }

    fn serve(&mut self, shown: &[String]) {
        let mut command = self.shell("exec attache serve --log warn");
        let mut child = command.stdout(Stdio::piped()).spawn().expect("a shell");
        let mut said = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe"))
            .read_line(&mut said)
            .expect("a line");
        self.engine = Some(child);
        let (_, port) = said
            .trim_end()
            .rsplit_once(':')
            .expect("the engine says where it listens");
        self.port = port.to_owned();
        let printed = said.replace(&format!(":{port}"), ":2525");
        shows(shown, &printed).unwrap_or_else(|complaint| panic!("`attache serve`: {complaint}"));
    }

    fn stop(&mut self) {
        self.settle();
        let mut engine = self.engine.take().expect("an engine serves");
        let pid = engine.id().to_string();
        assert!(
            Command::new("kill")
                .arg(pid)
                .status()
                .expect("kill runs")
                .success()
        );
        assert!(
            engine.wait().expect("it ends").success(),
            "SIGTERM ends the engine with 0"
        );
    }

    /// A reader waits a moment; a test looks until nothing is left to do.
    fn settle(&self) {
        if self.engine.is_none() {
            return;
        }
        let open = "attache runs list --state queued --state running; attache outbox list";
        let quiet = |_| {
            self.shell(open)
                .output()
                .expect("a shell")
                .stdout
                .is_empty()
        };
        assert!(
            (0..LOOKS_MAX).any(quiet),
            "the engine does not come to rest"
        );
    }
}

/// Whether a program can be started.
pub fn installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}
