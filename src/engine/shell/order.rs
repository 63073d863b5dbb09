//! What is to be run, and what became of it: values that both sides of the sandbox know.

use super::limits::CommandLimits;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// First argument of the process that starts commands, in the sandbox.
pub const STAGE: &str = "shell-stage";

/// A command to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOrder {
    /// Program and its arguments.
    pub argv: Vec<String>,
    /// Folder that it is started in, relative to the workspace; empty: the workspace.
    pub folder: String,
    /// Absolute path of the only folder that it may write.
    pub workspace: PathBuf,
    /// Names in the workspace that it does not see.
    pub hidden: Vec<String>,
    /// Folders that it may read besides.
    pub read_only: Vec<ReadOnlyFolder>,
    /// `true`: the workspace holds more than it may, so the command may remove files there and write none.
    pub workspace_is_full: bool,
    /// Most bytes of the workspace's files.
    pub workspace_bytes_max: u64,
    /// Most files, folders and links of the workspace.
    pub workspace_files_max: usize,
}

/// A folder that a command may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadOnlyFolder {
    pub from: PathBuf,
    /// Absolute path in the sandbox.
    pub to: String,
}

/// Order as the stage reads it from its standard input.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StageOrder {
    pub limits: CommandLimits,
    pub argv: Vec<String>,
    pub folder: String,
    pub workspace_is_full: bool,
    pub workspace_bytes_max: u64,
    pub workspace_files_max: usize,
}

/// Result of a command that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandResult {
    pub end: CommandEnd,
    pub stdout: CapturedText,
    pub stderr: CapturedText,
}

/// End of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandEnd {
    Exited(i32),
    Signalled(i32),
    Stopped(StopCause),
    /// Its program was not started; a sentence.
    NotStarted(String),
}

/// Bound at which a command was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCause {
    Time,
    Memory,
    Processes,
    Workspace,
}

/// Beginning and end of an output.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturedText {
    pub head: String,
    /// Empty unless something between was left out.
    pub tail: String,
    /// Bytes of the whole output.
    pub bytes: u64,
    /// Bytes between head and tail.
    pub left_out: u64,
}
