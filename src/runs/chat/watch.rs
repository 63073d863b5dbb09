//! What a run does, for whoever waits for it: pieces of its answer while they come, and its calls of tools from their rows.

use super::answer_stream::{StreamPiece, StreamReader};
use crate::domain::RunId;
use crate::store::{PersonaStore, StepKind, StoreError};
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
}

/// Watch on one run, from any process of its user.
pub struct RunWatch {
    rows: PersonaStore,
    run: RunId,
    stream: StreamReader,
    calls: u32,
}

impl RunWatch {
    pub fn new(rows: PersonaStore, workspace: &Path, run: &RunId) -> Self {
        Self {
            rows,
            run: run.clone(),
            stream: StreamReader::new(workspace, run),
            calls: 0,
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
        let calls = self.new_calls().await?;
        if !calls.is_empty() {
            let is_question = |progress: &RunProgress| matches!(progress, RunProgress::Piece(StreamPiece::Asked { turn, .. }) if *turn > 0);
            let at = seen.iter().rposition(is_question).unwrap_or(seen.len());
            seen.splice(at..at, calls);
        }
        Ok(seen)
    }

    async fn new_calls(&mut self) -> Result<Vec<RunProgress>, StoreError> {
        let known = self.calls;
        if self.rows.calls_so_far(&self.run).await? <= known {
            return Ok(Vec::new());
        }
        let steps = self.rows.steps_of_run(&self.run).await?;
        let calls = steps.iter().filter(|step| step.kind == StepKind::Call);
        let calls = calls.skip(known as usize).map(|step| RunProgress::Called {
            tool: step.tool_name.clone(),
            arguments: arguments(&step.payload_json),
        });
        let calls: Vec<_> = calls.collect();
        // Counted where they were read: another call may be committed between two reads.
        self.calls += u32::try_from(calls.len()).unwrap_or(u32::MAX);
        Ok(calls)
    }
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
