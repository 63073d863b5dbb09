//! What a run does, for whoever waits for it: pieces of its answer while they come, and its calls of tools from their rows.

use super::answer_stream::{StreamPiece, StreamReader};
use crate::domain::RunId;
use crate::store::{PersonaStore, Step, StepKind, StoreError};
use crate::text::{one_line, shortened};
use serde_json::Value;
use std::path::Path;

/// Most characters of the arguments of a call that are shown.
const ARGUMENTS_CHARS_MAX: usize = 100;

/// What a run did since the last look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunProgress {
    /// See [`StreamPiece`].
    Piece(StreamPiece),
    Called {
        tool: String,
        /// Its arguments, shortened, on one line.
        arguments: String,
    },
    /// A call has a result.
    Returned {
        tool: String,
        /// Its error, shortened, on one line.
        error: Option<String>,
    },
}

/// Watch on one run, from any process of its user. Its rows are read when the feed tells of a call.
pub struct RunWatch {
    rows: PersonaStore,
    run: RunId,
    stream: StreamReader,
    /// Number of the newest event that was looked at; `None`: none yet.
    since: Option<i64>,
    /// Number of steps that were returned.
    steps: usize,
}

impl RunWatch {
    pub fn new(rows: PersonaStore, workspace: &Path, run: &RunId) -> Self {
        Self {
            rows,
            run: run.clone(),
            stream: StreamReader::new(workspace, run),
            since: None,
            steps: 0,
        }
    }

    /// Returns what the run did since the last look. Calls stand before the question that follows them.
    pub async fn look(&mut self) -> Result<Vec<RunProgress>, StoreError> {
        let mut seen: Vec<RunProgress> = self
            .stream
            .look()
            .into_iter()
            .map(RunProgress::Piece)
            .collect();
        let steps = self.new_steps().await?;
        if !steps.is_empty() {
            let is_question = |progress: &RunProgress| matches!(progress, RunProgress::Piece(StreamPiece::Asked { turn, .. }) if *turn > 0);
            let at = seen.iter().rposition(is_question).unwrap_or(seen.len());
            seen.splice(at..at, steps);
        }
        Ok(seen)
    }

    async fn new_steps(&mut self) -> Result<Vec<RunProgress>, StoreError> {
        if !self.has_new_calls().await? {
            return Ok(Vec::new());
        }
        let steps = self.rows.steps_of_run(&self.run).await?;
        let new: Vec<_> = steps.iter().skip(self.steps).map(progress).collect();
        // Counted where they were read: another step may be committed after its event was looked for.
        self.steps += new.len();
        Ok(new)
    }

    /// Reports whether the feed tells of a call since the last look.
    async fn has_new_calls(&mut self) -> Result<bool, StoreError> {
        let Some(mut since) = self.since else {
            // Before the steps are read, so that the next look finds what is committed after them.
            self.since = Some(self.rows.feed_newest().await?);
            return Ok(true);
        };
        let mut has_called = false;
        loop {
            let page = self.rows.feed_of_run(&self.run, since).await?;
            has_called |= page.has_gap
                || page
                    .events
                    .iter()
                    .any(|event| event.kind.subject() == "call");
            since = page.through;
            self.since = Some(since);
            if !page.has_more() {
                return Ok(has_called);
            }
        }
    }
}

fn progress(step: &Step) -> RunProgress {
    let tool = step.tool_name.clone();
    match step.kind {
        StepKind::Call => RunProgress::Called {
            tool,
            arguments: arguments(&step.payload_json),
        },
        StepKind::Result => RunProgress::Returned {
            tool,
            error: error(&step.payload_json),
        },
    }
}

/// Returns the error of a call in few words; `None`: it succeeded.
fn error(payload_json: &str) -> Option<String> {
    let payload: Value = serde_json::from_str(payload_json).unwrap_or_default();
    if payload.get("ok").and_then(Value::as_bool) != Some(false) {
        return None;
    }
    let word = |name: &str| payload.pointer(name).and_then(Value::as_str);
    let words = [word("/error/code"), word("/error/message")];
    let words: Vec<&str> = words.into_iter().flatten().collect();
    Some(shortened(&one_line(&words.join(": ")), ARGUMENTS_CHARS_MAX))
}

/// Returns the arguments of a call as they are shown.
fn arguments(payload_json: &str) -> String {
    let payload: Value = serde_json::from_str(payload_json).unwrap_or_default();
    match payload.get("args").unwrap_or(&payload) {
        Value::Null => String::new(),
        Value::Object(none) if none.is_empty() => String::new(),
        some => shortened(&one_line(&some.to_string()), ARGUMENTS_CHARS_MAX),
    }
}
