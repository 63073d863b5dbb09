//! The real binary as a child that is expected to die.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

/// `abort` ends a process by this signal.
pub const SIGABRT: i32 = 6;

pub struct Engine {
    child: Child,
    _said: BufReader<ChildStdout>,
    /// `None`: it died before it listened.
    pub port: Option<u16>,
}

fn attache(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    for variable in ["ATTACHE_WORKSPACE", "ATTACHE_LOG", "ATTACHE_CRASH"] {
        command.env_remove(variable);
    }
    command.env("ATTACHE_IMAP_PASSWORD", crate::imap::server::PASSWORD);
    command.current_dir(folder).args(args).kill_on_drop(true);
    command
}

/// Runs a command to its end; gives whether it succeeded.
pub async fn command(folder: &Path, args: &[&str]) -> bool {
    attache(folder, args)
        .output()
        .await
        .expect("the binary runs")
        .status
        .success()
}

/// Where the child's log goes; a new engine writes behind the old one.
pub fn log_of(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("engine.log")).unwrap_or_default()
}

impl Engine {
    /// Starts `serve`; with an order, to die at a crash point.
    pub async fn start(folder: &Path, order: Option<&str>) -> Self {
        let mut command = attache(folder, &["serve", "--log", "error,attache::crash=trace"]);
        if let Some(order) = order {
            command.env("ATTACHE_CRASH", order);
        }
        let log = std::fs::File::options()
            .append(true)
            .create(true)
            .open(folder.join("engine.log"));
        command
            .stderr(log.expect("a log file"))
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("the binary runs");
        let mut said = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        said.read_line(&mut line).await.expect("UTF-8");
        let port = line
            .trim()
            .rsplit_once(':')
            .and_then(|(_, port)| port.parse().ok());
        Self {
            child,
            _said: said,
            port,
        }
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is our child")
    }

    pub async fn ends_within(&mut self, span: Duration) -> bool {
        tokio::time::timeout(span, self.child.wait()).await.is_ok()
    }

    pub async fn kill(mut self) {
        self.child.kill().await.expect("SIGKILL");
    }
}
