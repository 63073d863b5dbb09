//! The first process in the sandbox: confines itself, starts the command, watches it, and writes what became of it to
//! standard output as JSON. With its end the kernel kills every other process of its namespace (pid_namespaces(7)).

use super::arguments::WORKSPACE;
use super::capture::OutputCapture;
use super::confine::confine;
use super::limits::CommandLimits;
use super::order::{CapturedText, CommandEnd, CommandResult, StageOrder, StopCause};
use super::process_table::{is_over, processes};
use crate::clock::{Clock, SystemClock};
use crate::mutants::is_off;
use rustix::process::{Pid, WaitOptions, waitpid};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Exit code of a stage that could not confine itself.
const UNCONFINED: u8 = 70;
/// Programs are found here and nowhere else: none in the workspace by its name alone.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
const ORDER_BYTES_MAX: u64 = 1024 * 1024;
/// Folders in which a command may write; in the last one only while there is room.
const WRITABLE: [&str; 3] = ["/tmp", "/dev/shm", WORKSPACE];
/// Time between two looks at the processes, and at the workspace.
const LOOK: Duration = Duration::from_millis(5);
const LOOK_AT_WORKSPACE: Duration = Duration::from_millis(250);
/// Time for the rest of an output whose writer has ended.
const DRAIN: Duration = Duration::from_millis(500);
/// Niceness of the command, so that the stage gets its turn beside a fork bomb.
const NICENESS: i32 = 19;

/// Does the work of the stage.
pub fn work() -> ExitCode {
    match run() {
        Ok(result) => {
            let json = serde_json::to_vec(&result).unwrap_or_default();
            let mut out = io::stdout().lock();
            match out.write_all(&json).and_then(|()| out.flush()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::FAILURE,
            }
        }
        Err(error) => {
            let _nobody_reads = writeln!(io::stderr(), "cannot confine itself: {error}");
            ExitCode::from(UNCONFINED)
        }
    }
}

/// Errors: the stage cannot be confined, or was given no order.
fn run() -> io::Result<CommandResult> {
    let mut text = String::new();
    io::stdin()
        .lock()
        .take(ORDER_BYTES_MAX)
        .read_to_string(&mut text)?;
    let order: StageOrder = serde_json::from_str(&text).map_err(io::Error::other)?;
    let writable = WRITABLE.map(Path::new);
    let (writable, removable) = match order.workspace_is_full {
        true => writable.split_at(WRITABLE.len() - 1),
        false => (&writable[..], &[][..]),
    };
    if !confine(&order.limits, writable, removable)? && order.workspace_is_full {
        let why = "the workspace is full, and this kernel has no Landlock, without which a command could fill it more";
        return Ok(not_started(why.to_owned()));
    }
    let mut child = match start(&order) {
        Ok(child) => child,
        Err(why) => return Ok(not_started(why)),
    };
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(io::Error::other("the command has no output"));
    };
    let of_stderr = order.limits.output_bytes_max / 4;
    let outputs = [
        OutputCapture::of(stdout, order.limits.output_bytes_max - of_stderr)?,
        OutputCapture::of(stderr, of_stderr)?,
    ];
    let pid = Pid::from_child(&child);
    let _ends_anyway = rustix::process::setpriority_process(Some(pid), NICENESS);
    let clock = SystemClock::new();
    let end = watched(pid, &order, &clock);
    // What was stopped goes on until this process ends, so nothing waits for its output.
    let drained = match end {
        CommandEnd::Stopped(_) => clock.monotonic(),
        _ => clock.monotonic() + DRAIN,
    };
    while !outputs.iter().all(OutputCapture::has_ended) && clock.monotonic() < drained {
        sleep(LOOK);
    }
    let [stdout, stderr] = outputs.map(|output| output.text());
    Ok(CommandResult {
        end,
        stdout,
        stderr,
    })
}

fn not_started(why: String) -> CommandResult {
    CommandResult {
        end: CommandEnd::NotStarted(why),
        stdout: CapturedText::default(),
        stderr: CapturedText::default(),
    }
}

/// Starts the command. Errors: a sentence.
fn start(order: &StageOrder) -> Result<Child, String> {
    let Some((program, args)) = order.argv.split_first() else {
        return Err("there is no program to start".to_owned());
    };
    let folder = PathBuf::from(WORKSPACE).join(&order.folder);
    if !folder.is_dir() {
        return Err(format!(
            "there is no folder `{}` in the workspace",
            order.folder
        ));
    }
    let mut command = Command::new(program);
    command
        .args(args)
        .current_dir(&folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if !is_off("G22") {
        command.env_clear();
    }
    command
        .env("PATH", PATH)
        .env("HOME", WORKSPACE)
        .env("TMPDIR", "/tmp")
        .env("LANG", "C.UTF-8");
    command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!("there is no program `{program}`"),
        kind => format!("`{program}` cannot be started: {kind}"),
    })
}

/// Waits for the end of the command, or for the first bound that it reaches.
fn watched(pid: Pid, order: &StageOrder, clock: &dyn Clock) -> CommandEnd {
    let CommandLimits {
        wall_ms_max,
        memory_bytes_max,
        processes_max,
        ..
    } = order.limits;
    let page_bytes = rustix::param::page_size() as u64;
    let began = clock.monotonic();
    let mut looked = began;
    loop {
        if let Some(end) = reaped(pid) {
            return end;
        }
        let used = processes(page_bytes, processes_max);
        let (now, workspace) = (clock.monotonic(), Path::new(WORKSPACE));
        let looks = now.saturating_sub(looked) >= LOOK_AT_WORKSPACE;
        if looks {
            looked = now;
        }
        let (bytes, files) = (order.workspace_bytes_max, order.workspace_files_max);
        let stopped = match () {
            () if now.saturating_sub(began) >= Duration::from_millis(wall_ms_max) => {
                StopCause::Time
            }
            () if used.threads > processes_max => StopCause::Processes,
            () if used.resident_bytes > memory_bytes_max => StopCause::Memory,
            // In a full one nothing can be written.
            () if looks && !order.workspace_is_full && is_over(workspace, bytes, files) => {
                StopCause::Workspace
            }
            () => {
                sleep(LOOK);
                continue;
            }
        };
        return CommandEnd::Stopped(stopped);
    }
}

/// Takes the ends of processes, which the first one of a namespace inherits; returns the end of the command.
fn reaped(pid: Pid) -> Option<CommandEnd> {
    loop {
        match waitpid(None, WaitOptions::NOHANG) {
            Ok(Some((ended, status))) if ended == pid => {
                return Some(match (status.exit_status(), status.terminating_signal()) {
                    (Some(code), _) => CommandEnd::Exited(code),
                    (None, signal) => CommandEnd::Signalled(signal.unwrap_or_default()),
                });
            }
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(error) if error == rustix::io::Errno::INTR => {}
            // No child is left, which the loop would have noticed.
            Err(_) => return Some(CommandEnd::Exited(-1)),
        }
    }
}
