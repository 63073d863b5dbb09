//! A thread as the command line and the API show it: its record with each run in one row, and what stands beside it.

use super::{MessageRecord, RunRow, ThreadRecord};
use crate::store::{StoredThreadSummary, ThreadReset, ThreadSession};
use schemars::JsonSchema;
use serde::Serialize;

/// A thread with its messages and runs.
#[derive(Serialize, JsonSchema)]
pub struct ThreadDetail<'a> {
    id: &'a str,
    conversation: &'a str,
    persona: &'a str,
    subject: &'a str,
    participants: &'a [String],
    messages: &'a [MessageRecord],
    runs: Vec<&'a RunRow>,
    sessions: &'a [ThreadSession],
    /// Where the history of later runs begins, the newest first.
    resets: &'a [ThreadReset],
    /// Summaries of its older messages, the newest first.
    summaries: &'a [StoredThreadSummary],
}

impl<'a> ThreadDetail<'a> {
    /// Builds the detail of a record with its sessions, resets and summaries.
    pub fn of(
        thread: &'a ThreadRecord,
        sessions: &'a [ThreadSession],
        resets: &'a [ThreadReset],
        summaries: &'a [StoredThreadSummary],
    ) -> Self {
        Self {
            id: &thread.id,
            conversation: &thread.conversation,
            persona: &thread.persona,
            subject: &thread.subject,
            participants: &thread.participants,
            messages: &thread.messages,
            runs: thread.runs.iter().map(|run| &run.run).collect(),
            sessions,
            resets,
            summaries,
        }
    }
}
