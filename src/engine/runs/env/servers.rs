//! A run and the servers that its tools reach: sessions that end with it, and tools that it is offered.

use super::RunEnv;
use crate::calendar::is_calendar_part;
use crate::context::resolvers::Subject;
use crate::domain::{RunId, Timestamp};
use crate::store::{ClaimedRun, McpToolOff, ReadersRule, StoreError};
use serde_json::Value;
use std::collections::BTreeSet;

/// What a letter, its thread and the memory of its people hold, as far as it decides which tools a run is offered.
#[derive(Debug, Default)]
pub struct ThreadFacts {
    pub has_file: bool,
    pub has_invitation: bool,
    /// `true`: the run may be shown an entry of memory.
    pub has_entry: bool,
    /// Names of the tools that runs of the thread have called.
    pub used: BTreeSet<String>,
}

/// Reports whether there is a file besides invitations, which stand in their letters as text.
fn has_file<'a>(
    mut files: impl Iterator<Item = (&'a String, &'a String)>,
    has_invitation: bool,
) -> bool {
    files.any(|(media, name)| !has_invitation || !is_calendar_part(media, name))
}

impl RunEnv {
    /// Ends what a run has kept open.
    pub async fn run_ended(&self, run: &RunId) {
        if let Ok(live) = self.live() {
            live.run_ended(run).await;
        }
    }

    /// Returns the recorded first request; `None` for a run that is no record.
    pub fn recorded_first_request(&self) -> Option<String> {
        match self.live() {
            Ok(_) => None,
            Err(record) => record.first_request(),
        }
    }

    /// Returns what a run's thread and memory hold, as far as it decides which tools the run is offered.
    pub async fn thread_facts(
        &self,
        run: &ClaimedRun,
        subject: &Subject,
        now: Timestamp,
    ) -> Result<ThreadFacts, StoreError> {
        let Ok(live) = self.live() else {
            // What was offered is recorded.
            return Ok(ThreadFacts::default());
        };
        let rows = live.rows(run);
        let metadata: Value =
            serde_json::from_str(&subject.message.metadata_json).unwrap_or_default();
        let has_invitation = metadata["calendar"].is_object();
        let own = subject.attachments.iter();
        let own = own.map(|file| (&file.content_type, &file.filename));
        let mut facts = ThreadFacts {
            has_invitation,
            has_file: has_file(own, has_invitation),
            ..ThreadFacts::default()
        };
        if let Some(circle) = subject.memory_circle() {
            facts.has_entry = !rows.memory(&circle).active(now).await?.is_empty();
        }
        if subject.has_past {
            // Whoever may not read a file of the thread gets a tool that does not find it.
            let rule = ReadersRule {
                trigger: &run.trigger_message,
                visible_to: None,
            };
            facts.has_invitation |= !rows.thread_calendars(rule).await?.is_empty();
            let files = rows.thread_attachments(rule).await?;
            let files = files
                .iter()
                .map(|(_, file)| (&file.content_type, &file.filename));
            facts.has_file |= has_file(files, facts.has_invitation);
            facts.used = rows.tools_used(&subject.message.thread).await?;
        }
        Ok(facts)
    }

    /// Returns the tools of MCP servers that are off.
    pub async fn mcp_tools_off(&self) -> Result<Vec<McpToolOff>, StoreError> {
        match self.live() {
            Ok(live) => live.store.mcp_tools_off().await,
            // What was offered is recorded.
            Err(_) => Ok(Vec::new()),
        }
    }
}
