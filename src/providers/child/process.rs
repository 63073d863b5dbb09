//! Processes: started, read, ended. The only module in which this engine starts one.
//!
//! A program runs in a process group of its own, whose leader is a small shell that only waits for
//! our end: it reads a pipe that closes when this engine dies, by `kill -9` too, and then kills its
//! group. Because the leader is reaped last, the group's number stays ours until everything in it
//! is dead. Processes that leave the group (a tool's child with a session of its own) are found by
//! their marker (`marker.rs`), those without one by their parent (`orphans.rs`).

use crate::providers::child::marker::{self, ProcessMarker};
use crate::providers::child::orphans::{self, Starting};
use crate::providers::contract::traits::ProviderError;
use crate::providers::transport::lines::{Lines, OutputLimits, Tail};
use crate::text::truncated;
use rustix::process::{Pid, Signal, kill_process_group};
use secrecy::{ExposeSecret, SecretString};
use std::path::Path;
use std::pin::Pin;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::{Sleep, sleep, timeout};

/// Grace period between SIGTERM and SIGKILL: agents write their session's file in this time.
pub const GRACE: Duration = Duration::from_secs(5);
/// Time, after a program's end, to wait for output that its children still hold open.
const DRAIN: Duration = Duration::from_millis(500);
/// Time to write the final lines to a program that is about to be stopped.
const FINAL_TURN: Duration = Duration::from_millis(200);
/// Settings of every block with a program.
pub const SETTINGS: &[&str] = &["binary", "tier", "accept_unsandboxed", "environment"];
const PIECE_BYTES: usize = 64 * 1024;
/// Script of the group leader. It ignores signals: it must outlive the agent to keep the group's
/// number. `read` ends when our end of the pipe closes.
const KEEPER: &str = "trap '' TERM INT HUP; read -r _; kill -KILL 0";

/// A program to be started.
pub struct ProcessStart<'a> {
    pub program: &'a Path,
    pub args: &'a [String],
    /// Its whole environment.
    pub environment: &'a [(String, SecretString)],
    /// Folder that it works in.
    pub folder: &'a Path,
    /// Workspace whose engine started it, by which a later engine finds what is left of it.
    pub workspace: Option<&'a Path>,
    pub limits: OutputLimits,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Duration,
}

/// Starts the leader of a new process group.
fn spawn_keeper() -> std::io::Result<Child> {
    Command::new("/bin/sh")
        .args(["-c", KEEPER])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
}

/// Output of a program.
#[derive(Debug)]
pub enum Output {
    Line(String),
    /// Last item; no process of the program is left.
    End(Ending),
}

/// End of a program.
#[derive(Debug, Clone, Default)]
pub struct Ending {
    /// Exit code; `None`: ended by a signal, or had to be killed.
    pub code: Option<i32>,
    /// Last 8 KiB of its standard error.
    pub complaints: String,
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.code {
            Some(code) => write!(f, "exit code {code}")?,
            None => write!(f, "killed")?,
        }
        let last = self
            .complaints
            .lines()
            .rev()
            .map(str::trim)
            .find(|line| !line.is_empty());
        last.map_or(Ok(()), |line| write!(f, ": {}", truncated(line, 300)))
    }
}

/// A running program with all processes that it has started. Dropping it kills them all at once.
pub struct Process {
    child: Child,
    group: ProcessGroup,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    outgoing: Vec<u8>,
    written: usize,
    /// `true`: standard input closes when everything is written.
    closing: bool,
    lines: Lines,
    complaints: Tail,
    /// Exit code, once the program has ended.
    exit: Option<Option<i32>>,
    /// Time limit for the program's end, and after it for the rest of its output.
    end_by: Option<Pin<Box<Sleep>>>,
    /// `true`: that time limit has passed.
    overdue: bool,
    grace: Duration,
}

impl Process {
    /// Starts a program in a process group of its own.
    pub fn spawn(start: &ProcessStart<'_>) -> std::io::Result<Self> {
        let mut starting = Starting::begin();
        let keeper = spawn_keeper()?;
        let number = keeper
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .unwrap_or_default();
        let marker = ProcessMarker::new(start.workspace, number);
        starting.note(keeper.id());
        let environment = start.environment.iter();
        let mut command = Command::new(start.program);
        command
            .args(start.args)
            .env_clear()
            .envs(environment.map(|(name, value)| (name, value.expose_secret())))
            .env(marker::VARIABLE, marker.as_str())
            .current_dir(start.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(number)
            .kill_on_drop(true);
        let group = ProcessGroup {
            keeper,
            number,
            marker,
            killed: false,
        };
        let child = command.spawn();
        if let Ok(child) = &child {
            starting.note(child.id());
        }
        // Dropped before the group: the group's end takes this lock, too.
        drop(starting);
        let mut child = child?;
        Ok(Self {
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            child,
            group,
            outgoing: Vec::new(),
            written: 0,
            closing: false,
            lines: Lines::new(start.limits),
            complaints: Tail::default(),
            exit: None,
            end_by: None,
            overdue: false,
            grace: start.grace,
        })
    }

    /// Queues a text for standard input; it is written while output is read.
    pub fn send(&mut self, text: &str) {
        if self.stdin.is_some() {
            self.outgoing.extend_from_slice(text.as_bytes());
        }
    }

    /// Closes the program's standard input once everything is written.
    pub fn close_stdin(&mut self) {
        self.closing = true;
        if self.outgoing.len() == self.written {
            self.stdin = None;
        }
    }

    /// Returns the last 8 KiB of its standard error so far.
    pub fn complaints(&self) -> String {
        self.complaints.text()
    }

    /// Closes standard input: the program ends within the grace period, or is killed.
    pub fn dismiss(&mut self) {
        self.close_stdin();
        self.end_by
            .get_or_insert_with(|| Box::pin(sleep(self.grace)));
    }

    /// Returns the next line, or the end. Cancel-safe. Errors: class `Protocol`.
    pub async fn next(&mut self) -> Result<Output, ProviderError> {
        loop {
            if let Some(line) = self.lines.take()? {
                return Ok(Output::Line(line));
            }
            let is_over = self.exit.is_some() && self.stdout.is_none() && self.stderr.is_none();
            if is_over || self.overdue {
                if let Some(line) = self.lines.rest()? {
                    return Ok(Output::Line(line));
                }
                self.stop().await;
                let (code, complaints) = (self.exit.flatten(), self.complaints.text());
                return Ok(Output::End(Ending { code, complaints }));
            }
            self.pump().await?;
        }
    }

    /// Transfers some bytes, or records the end of a stream or of the program. Cancel-safe.
    async fn pump(&mut self) -> Result<(), ProviderError> {
        let Self {
            stdin,
            stdout,
            stderr,
            child,
            outgoing,
            written,
            end_by,
            ..
        } = self;
        let (mut out, mut err) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
        let has_words = stdin.is_some() && outgoing.len() > *written;
        tokio::select! {
            wrote = write_some(stdin, &outgoing[*written..]), if has_words => {
                match wrote {
                    Ok(count) => *written += count,
                    // It does not read any more; its output gives the reason.
                    Err(_) => *written = outgoing.len(),
                }
                if *written == outgoing.len() {
                    outgoing.clear();
                    *written = 0;
                    if self.closing || wrote.is_err() {
                        *stdin = None;
                    }
                }
            }
            count = read_some(stdout, &mut out), if stdout.is_some() => match count {
                0 => {
                    *stdout = None;
                    self.end_by.get_or_insert_with(|| Box::pin(sleep(self.grace)));
                }
                count => self.lines.push(&out[..count])?,
            },
            count = read_some(stderr, &mut err), if stderr.is_some() => match count {
                0 => *stderr = None,
                count => self.complaints.push(&err[..count]),
            },
            status = child.wait(), if self.exit.is_none() => {
                self.exit = Some(status.ok().and_then(|status| status.code()));
                *end_by = Some(Box::pin(sleep(DRAIN)));
            }
            () = due(end_by), if !self.overdue => self.overdue = true,
        }
        Ok(())
    }

    /// Ends the program and all processes that it started: pending input, SIGTERM, the grace
    /// period, SIGKILL. When this returns, none of them is left.
    pub async fn stop(&mut self) {
        if self.exit.is_none() && !self.group.killed {
            let pending = async {
                while self.stdin.is_some()
                    && self.outgoing.len() > self.written
                    && self.pump().await.is_ok()
                {}
            };
            let _slow = timeout(FINAL_TURN, pending).await;
            self.stdin = None;
            self.group.signal(Signal::TERM);
            let grace = self.grace;
            let end = async {
                while self.exit.is_none() {
                    // Its output is read on so that it does not block, and is discarded.
                    if self.pump().await.is_err() {
                        self.lines = Lines::default();
                    }
                }
            };
            let _stubborn = timeout(grace, end).await;
        }
        self.group.kill();
        if self.exit.is_none() {
            self.exit = Some(
                self.child
                    .wait()
                    .await
                    .ok()
                    .and_then(|status| status.code()),
            );
        }
        let _status = self.group.keeper.wait().await;
        (self.stdout, self.stderr) = (None, None);
    }
}

/// Waits for the moment; for ever if there is none.
async fn due(moment: &mut Option<Pin<Box<Sleep>>>) {
    match moment {
        Some(moment) => moment.as_mut().await,
        None => std::future::pending().await,
    }
}

async fn write_some(stdin: &mut Option<ChildStdin>, bytes: &[u8]) -> std::io::Result<usize> {
    match stdin {
        Some(stdin) => stdin.write(bytes).await,
        None => Ok(bytes.len()),
    }
}

/// Returns the number of bytes read; 0 at the end, also after an error.
async fn read_some(source: &mut Option<impl AsyncReadExt + Unpin>, piece: &mut [u8]) -> usize {
    match source {
        Some(source) => source.read(piece).await.unwrap_or(0),
        None => 0,
    }
}

/// A process group whose leader we have not reaped, so that its number cannot be reused.
struct ProcessGroup {
    keeper: Child,
    number: i32,
    marker: ProcessMarker,
    killed: bool,
}

impl ProcessGroup {
    fn signal(&self, signal: Signal) {
        if let Some(group) = Pid::from_raw(self.number).filter(|_| self.number > 1) {
            // Fails only when no process is left.
            let _gone = kill_process_group(group, signal);
        }
    }

    /// Kills every process in the group and every one that left it. Once: afterwards the leader may
    /// have been reaped.
    fn kill(&mut self) {
        if !std::mem::replace(&mut self.killed, true) {
            self.signal(Signal::KILL);
            self.marker.kill();
            orphans::end();
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // The runtime reaps what `kill_on_drop` leaves.
        self.kill();
    }
}
