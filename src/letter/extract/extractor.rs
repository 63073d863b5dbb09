//! The parent: starts a child for each document, feeds it, and bounds what it says and how long it takes.

use super::document::{DecodeError, Extracted};
use super::limits::ExtractLimits;
use super::worker::{UNLOCKED, WORKER};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Bytes of an answer for one byte of text: JSON escapes a character with six.
const ANSWER_FACTOR: usize = 6;
const ANSWER_BYTES_MORE: usize = 64 * 1024;
/// Most characters of a declared media type.
const CLAIMED_CHARS_MAX: usize = 200;

/// Reason why a document was not read. All but the last are sentences for the model.
#[derive(Debug, thiserror::Error)]
pub enum ExtractError {
    #[error("it has {bytes} bytes, and documents up to {most} bytes are read")]
    TooLarge { bytes: usize, most: usize },
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The process was ended at a limit, or crashed.
    #[error("it could not be read: {0}")]
    Ended(String),
    /// The process could not be started or locked: for the operator.
    #[error("the process that reads documents cannot work here: {0}")]
    NotStarted(String),
}

/// Reads documents, each in a locked process of its own. Nothing is started before the first one.
#[derive(Clone)]
pub struct Extractor {
    program: PathBuf,
    limits: ExtractLimits,
    children: Arc<Semaphore>,
}

impl Extractor {
    /// Builds a reader that starts this program, which must be this binary.
    pub fn new(program: PathBuf, limits: ExtractLimits) -> Self {
        Self {
            program,
            limits,
            children: Arc::new(Semaphore::new(limits.children_max)),
        }
    }

    /// Reads a document whose sender declared this media type.
    pub async fn extract(&self, bytes: &[u8], claimed: &str) -> Result<Extracted, ExtractError> {
        if bytes.len() > self.limits.file_bytes_max {
            return Err(ExtractError::TooLarge {
                bytes: bytes.len(),
                most: self.limits.file_bytes_max,
            });
        }
        let not_started = |error: std::io::Error| ExtractError::NotStarted(error.to_string());
        let turn = self.children.acquire().await;
        let _turn = turn.map_err(|_| ExtractError::NotStarted("the engine ends".to_owned()))?;
        let claimed: String = claimed
            .chars()
            .filter(|c| !c.is_control())
            .take(CLAIMED_CHARS_MAX)
            .collect();
        let mut child = Command::new(&self.program)
            .arg(WORKER)
            .arg(claimed)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(not_started)?;
        let within = Duration::from_millis(self.limits.wall_ms_max);
        match timeout(within, self.answer(&mut child, bytes)).await {
            Ok(answer) => answer,
            Err(_) => {
                let _gone = child.kill().await;
                let seconds = within.as_secs();
                Err(ExtractError::Ended(format!(
                    "it took longer than {seconds} s"
                )))
            }
        }
    }

    async fn answer(&self, child: &mut Child, bytes: &[u8]) -> Result<Extracted, ExtractError> {
        let not_started = |error: std::io::Error| ExtractError::NotStarted(error.to_string());
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(ExtractError::NotStarted(
                "it has no standard input".to_owned(),
            ));
        };
        let answer_bytes_max = self.limits.text_bytes_max * ANSWER_FACTOR + ANSWER_BYTES_MORE;
        let feed = async {
            // A child that ends early says why by its end.
            let _closed = stdin.write_all(bytes).await;
            drop(stdin);
        };
        let mut answer = Vec::new();
        let mut bounded = stdout.take(answer_bytes_max as u64);
        let ((), read) = tokio::join!(feed, bounded.read_to_end(&mut answer));
        read.map_err(not_started)?;
        let status = child.wait().await.map_err(not_started)?;
        if !status.success() {
            return Err(self.ended(status));
        }
        let read: Result<Result<Extracted, DecodeError>, _> = serde_json::from_slice(&answer);
        match read {
            Ok(read) => Ok(read?),
            Err(_) => Err(ExtractError::Ended(
                "its reader answered with more than it may".to_owned(),
            )),
        }
    }

    /// Says why the child ended by itself.
    fn ended(&self, status: ExitStatus) -> ExtractError {
        if status.code() == Some(i32::from(UNLOCKED)) {
            let why = "the system refuses to lock it (seccomp)".to_owned();
            return ExtractError::NotStarted(why);
        }
        let megabytes = self.limits.address_space_bytes_max / (1024 * 1024);
        let seconds = self.limits.cpu_seconds_max;
        ExtractError::Ended(match status.signal() {
            Some(libc::SIGABRT) => format!("it needs more memory than {megabytes} MB"),
            Some(libc::SIGXCPU | libc::SIGKILL) => {
                format!("it takes more than {seconds} s to read")
            }
            Some(libc::SIGSEGV) => "it is nested too deeply".to_owned(),
            _ => "its reader failed".to_owned(),
        })
    }
}
