//! The journal of a run as read back, for resuming after a crash.

use crate::domain::RunId;
use crate::store::approvals::record::ApprovalOfRun;
use crate::store::db::Row;
use crate::store::journal::packed::{DigestedText, Unpacker};
use crate::store::journal::step::{Executor, Step, StepKind};
use crate::store::{PersonaStore, Result};

/// State of a run's journal, for resuming after a crash.
#[derive(Debug, Clone, Default)]
pub struct JournalSoFar {
    /// The normalised first request; `None` when no turn was started.
    pub first_request_json: Option<String>,
    /// Exact body of the last request.
    pub last_request: Option<DigestedText>,
    /// Answered turns in order: index and normalised response.
    pub answers: Vec<(u32, String)>,
    /// Provider and model of the last answer.
    pub answered_by: Option<(String, String)>,
    /// Number of provider calls that were begun.
    pub calls: u32,
    /// Highest attempt per started turn.
    pub attempts: Vec<(u32, u32)>,
    /// Steps in order.
    pub steps: Vec<Step>,
    /// Questions to the owner, oldest first.
    pub approvals: Vec<ApprovalOfRun>,
    /// Number of mails of this run so far.
    pub mails: u32,
    /// `true`: one of the mails answered the trigger.
    pub replied: bool,
}

const JOURNAL_TURNS: &str = "
    SELECT t.turn_index, t.attempt, t.state, t.response_json, t.request_json, t.request_sha256, t.context_json, t.sources_json, t.packed,
      c.bytes AS dictionary, t.provider, t.model
    FROM run_turns t LEFT JOIN contents c ON c.sha256 = t.packed_with
    WHERE t.run_id = $1 AND t.persona_id = $2 ORDER BY t.turn_index, t.attempt";
const JOURNAL_STEPS: &str = "
    SELECT event_type, executor, tool_name, tool_call_id, payload_json FROM thread_tool_events
    WHERE run_id = $1 AND persona_id = $2 ORDER BY step_index";

impl PersonaStore {
    /// Reads the journal of a run.
    pub async fn journal_so_far(&self, run: &RunId) -> Result<JournalSoFar> {
        let (mut so_far, mut unpacker) = (JournalSoFar::default(), Unpacker::default());
        for row in self.rows(JOURNAL_TURNS, (run, &self.persona)).await? {
            let (index, attempt): (u32, u32) = (row.get("turn_index"), row.get("attempt"));
            so_far.calls += 1;
            so_far.attempts.retain(|(turn, _)| *turn != index);
            so_far.attempts.push((index, attempt));
            let bodies = unpacker.read(&row)?;
            so_far.last_request = Some(DigestedText {
                sha256: row.get("request_sha256"),
                text: bodies.request,
            });
            so_far.first_request_json = bodies.context.or(so_far.first_request_json);
            if row.get::<&str>("state") == "answered" {
                so_far.answers.push((
                    index,
                    row.get::<Option<String>>("response_json")
                        .unwrap_or_default(),
                ));
                so_far.answered_by = Some((row.get("provider"), row.get("model")));
            }
        }
        if so_far.attempts.is_empty() {
            return Ok(so_far);
        }
        so_far.steps = self.steps_of_run(run).await?;
        so_far.approvals = self.approvals_of_run(run).await?;
        (so_far.mails, so_far.replied) = self.mails_so_far(run).await?;
        Ok(so_far)
    }

    /// Returns the steps of a run, in order.
    pub async fn steps_of_run(&self, run: &RunId) -> Result<Vec<Step>> {
        let rows = self.rows(JOURNAL_STEPS, (run, &self.persona)).await?;
        let step = |row: &Row| Step {
            kind: StepKind::of(row.get("event_type")),
            executor: Executor::of(row.get("executor")),
            tool_name: row.get("tool_name"),
            tool_call_id: row.get("tool_call_id"),
            payload_json: row.get("payload_json"),
        };
        Ok(rows.iter().map(step).collect())
    }
}
