//! The parent: finds bubblewrap, tries it once, starts a sandbox for each command, and bounds what it says and how long it
//! takes.

use super::arguments::arguments;
use super::limits::CommandLimits;
use super::order::{CommandEnd, CommandOrder, CommandResult, StageOrder};
use crate::mutants::is_off;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::timeout;

/// Program that makes the namespaces.
const BUBBLEWRAP: &str = "bwrap";
/// Folders in which it is looked for: not `PATH`, which somebody else may have set.
const FOLDERS: [&str; 3] = ["/usr/bin", "/usr/local/bin", "/bin"];
/// Workspace of the trial.
const TRIAL_FOLDER: &str = "/usr";
/// Time beyond the command's own, for the sandbox around it.
const WALL_MORE: Duration = Duration::from_secs(10);
/// Bytes of an answer for one byte of output: JSON escapes a character with six.
const ANSWER_FACTOR: usize = 6;
const ANSWER_BYTES_MORE: usize = 64 * 1024;
const COMPLAINT_BYTES_MAX: u64 = 2048;

/// Reason why a command was not run.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// No sandbox can be made here: for the operator.
    #[error("no command can be run here: {0}")]
    NoSandbox(String),
    /// The sandbox ended without an answer.
    #[error("the sandbox failed: {0}")]
    Failed(String),
}

/// Runs commands, each in a sandbox of its own. Nothing is started before the first use.
#[derive(Clone)]
pub struct CommandSandbox {
    program: PathBuf,
    /// `None`: bubblewrap is not installed.
    bubblewrap: Option<PathBuf>,
    limits: CommandLimits,
    commands: Arc<Semaphore>,
    /// Outcome of the trial.
    tried: Arc<OnceCell<Result<(), String>>>,
}

impl CommandSandbox {
    /// Builds a sandbox whose stage is this program, which must be this binary.
    pub fn new(program: PathBuf, limits: CommandLimits) -> Self {
        let found = FOLDERS.map(|folder| Path::new(folder).join(BUBBLEWRAP));
        Self::with_bubblewrap(
            program,
            found.into_iter().find(|path| path.is_file()),
            limits,
        )
    }

    /// Returns a sandbox with the same places whose commands take at most this time.
    #[must_use]
    pub fn within(&self, wall: Duration) -> Self {
        let wall_ms_max = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
        let limits = CommandLimits {
            wall_ms_max,
            ..self.limits
        };
        Self {
            limits,
            ..self.clone()
        }
    }

    /// As [`Self::new`], with another bubblewrap; `None`: there is none.
    pub fn with_bubblewrap(
        program: PathBuf,
        bubblewrap: Option<PathBuf>,
        limits: CommandLimits,
    ) -> Self {
        Self {
            program,
            bubblewrap,
            limits,
            commands: Arc::new(Semaphore::new(limits.commands_max)),
            tried: Arc::default(),
        }
    }

    /// Tries once whether commands can be run here. Errors: why not, and what to do.
    pub async fn trial(&self) -> Result<(), String> {
        let trial = self.tried.get_or_init(|| async {
            let Some(bubblewrap) = &self.bubblewrap else {
                return Err("bubblewrap (`bwrap`) is not installed".to_owned());
            };
            let order = CommandOrder {
                argv: vec!["true".to_owned()],
                folder: String::new(),
                // `true` writes nothing.
                workspace: PathBuf::from(TRIAL_FOLDER),
                hidden: Vec::new(),
                read_only: Vec::new(),
                workspace_is_full: false,
                workspace_bytes_max: u64::MAX,
                workspace_files_max: usize::MAX,
            };
            match self.sandboxed(bubblewrap, &order).await {
                Ok(CommandResult {
                    end: CommandEnd::Exited(0),
                    ..
                }) => Ok(()),
                Ok(result) => Err(format!("a trial ended otherwise: {:?}", result.end)),
                Err(error) => Err(error.to_string()),
            }
        });
        trial.await.clone()
    }

    /// Reports whether a trial has succeeded before.
    pub fn is_usable(&self) -> bool {
        self.tried.get().is_some_and(Result::is_ok)
    }

    /// Runs a command to its end, for its time at most. When the future is dropped, everything in the sandbox is killed.
    pub async fn run(&self, order: &CommandOrder) -> Result<CommandResult, SandboxError> {
        self.trial().await.map_err(SandboxError::NoSandbox)?;
        let Some(bubblewrap) = &self.bubblewrap else {
            return Err(SandboxError::NoSandbox("it is gone".to_owned()));
        };
        let turn = self.commands.acquire().await;
        let _turn = turn.map_err(|_| SandboxError::Failed("the engine ends".to_owned()))?;
        self.sandboxed(bubblewrap, order).await
    }

    async fn sandboxed(
        &self,
        bubblewrap: &Path,
        order: &CommandOrder,
    ) -> Result<CommandResult, SandboxError> {
        let mut command = Command::new(bubblewrap);
        command
            .args(arguments(order, &self.program, &self.limits))
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        if !is_off("G22") {
            command.env_clear();
        }
        let failed = |error: std::io::Error| SandboxError::Failed(error.to_string());
        let mut child = command.spawn().map_err(failed)?;
        let within = Duration::from_millis(self.limits.wall_ms_max) + WALL_MORE;
        match timeout(within, self.answer(&mut child, order)).await {
            Ok(answer) => answer,
            Err(_) => {
                let _gone = child.kill().await;
                Err(SandboxError::Failed("it did not end in time".to_owned()))
            }
        }
    }

    async fn answer(
        &self,
        child: &mut Child,
        order: &CommandOrder,
    ) -> Result<CommandResult, SandboxError> {
        let failed = |error: std::io::Error| SandboxError::Failed(error.to_string());
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(SandboxError::Failed("it has no pipes".to_owned()));
        };
        let staged = StageOrder {
            limits: self.limits,
            argv: order.argv.clone(),
            folder: order.folder.clone(),
            workspace_is_full: order.workspace_is_full,
            workspace_bytes_max: order.workspace_bytes_max,
            workspace_files_max: order.workspace_files_max,
        };
        let json = serde_json::to_vec(&staged).unwrap_or_default();
        let feed = async {
            // A stage that ends early says why by its end.
            let _closed = stdin.write_all(&json).await;
            drop(stdin);
        };
        let answer_bytes_max = self.limits.output_bytes_max * ANSWER_FACTOR + ANSWER_BYTES_MORE;
        let (mut answer, mut complaint) = (Vec::new(), Vec::new());
        let mut stdout = stdout.take(answer_bytes_max as u64);
        let mut stderr = stderr.take(COMPLAINT_BYTES_MAX);
        let ((), read, _complained) = tokio::join!(
            feed,
            stdout.read_to_end(&mut answer),
            stderr.read_to_end(&mut complaint)
        );
        read.map_err(failed)?;
        let status = child.wait().await.map_err(failed)?;
        match serde_json::from_slice(&answer) {
            Ok(result) if status.success() => Ok(result),
            _ => {
                let said = String::from_utf8_lossy(&complaint);
                let said = crate::text::one_line(said.trim());
                Err(SandboxError::Failed(match said.is_empty() {
                    true => format!("it ended with {status}"),
                    false => said,
                }))
            }
        }
    }
}
