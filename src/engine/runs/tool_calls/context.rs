//! Context of a tool call: its run, and what that run has sent so far.

use crate::config::Persona;
use crate::context::resolvers::Subject;
use crate::domain::RunOptions;
use crate::runs::deps::RunDeps;
use crate::runs::label::RunLabel;
use crate::store::{ApprovalOfRun, ClaimedRun, JournalEntry};
use crate::tools::RegisteredTool;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Context of a call: its run, and what that run has sent so far.
#[derive(Clone)]
pub struct ToolCallContext<'w> {
    pub deps: &'w RunDeps,
    pub run: &'w ClaimedRun,
    pub persona: &'w Persona,
    pub subject: &'w Subject,
    pub tools: &'w [Arc<RegisteredTool>],
    /// Permissions of the run, by what it has read.
    pub label: RunLabel,
    pub options: &'w RunOptions,
    /// Questions to the owner of earlier attempts.
    pub approvals: &'w [ApprovalOfRun],
    pub cancel: &'w CancellationToken,
    /// Calls of the run before this one.
    pub calls: u32,
    pub mails_sent: usize,
    /// `true`: some mail of this run answered the trigger.
    pub replied: bool,
    /// Entries of this run that are not yet committed.
    pub pending: &'w [JournalEntry],
}
