//! Recorded calls of tools: with the decisions on them, for the policy's preview, and by words in them.

use crate::domain::{ApprovalState, PersonaId, RunId, Timestamp};
use crate::store::sql::{instant, json_list, persona_id};
use crate::store::{Result, Store};

/// Rows that one read returns at most.
const PAGE: i64 = 2000;

/// A recorded call.
#[derive(Debug, Clone)]
pub struct JudgedCallRow {
    /// Position, by which reading goes on.
    pub position: i64,
    pub run: RunId,
    pub persona: PersonaId,
    pub tool: String,
    pub call_id: String,
    /// `{"args": …, "policy": {effect, rule, code, why, facts}}`; calls that were refused unseen have no `policy`.
    pub payload_json: String,
    pub at: Timestamp,
    /// State of the question about it, if its owner was asked.
    pub approval: Option<ApprovalState>,
}

/// By position, which is the order in which they were recorded; ends at the limit.
const JUDGED_CALLS: &str = "
    SELECT e.rowid AS position, e.run_id, e.persona_id, e.tool_name, e.tool_call_id, e.payload_json, e.created_at,
      (SELECT state FROM approvals a WHERE a.run_id = e.run_id AND a.call_id = e.tool_call_id ORDER BY a.seq DESC LIMIT 1)
        AS approval
    FROM thread_tool_events e WHERE e.rowid < $1 AND e.event_type = 'tool_call' ORDER BY e.rowid DESC LIMIT $2";

/// Of the newest steps, those that hold every word; by position, which is the order in which they were recorded.
const RUNS_WITH_WORDS: &str = "
    SELECT e.run_id, e.tool_name, max(e.position) AS position FROM (
      SELECT rowid AS position, run_id, tool_name, lower(payload_json) AS payload FROM thread_tool_events
      ORDER BY rowid DESC LIMIT $2) e
    WHERE NOT EXISTS (SELECT 1 FROM jsonb_each($1) w WHERE instr(e.payload, w.value) = 0)
    GROUP BY e.run_id, e.tool_name ORDER BY position DESC LIMIT $3";

impl Store {
    /// Returns runs with the names of their tools whose arguments or results hold every one of these words in small letters,
    /// the newest first; among the newest `looked_at` steps.
    pub async fn runs_with_words(
        &self,
        words: &[String],
        looked_at: u32,
        limit: u32,
    ) -> Result<Vec<(RunId, String)>> {
        let rows = self
            .rows(RUNS_WITH_WORDS, (json_list(words.iter()), looked_at, limit))
            .await?;
        let found = rows.iter().map(|row| {
            let run: RunId = row.get("run_id");
            (run, row.get("tool_name"))
        });
        Ok(found.collect())
    }

    /// Returns the calls of tools before a position (`i64::MAX`: all), the newest first; a page of two thousand.
    pub async fn judged_calls(&self, before: i64) -> Result<Vec<JudgedCallRow>> {
        let rows = self.rows(JUDGED_CALLS, (before, PAGE)).await?;
        rows.iter()
            .map(|row| {
                let approval: Option<String> = row.get("approval");
                Ok(JudgedCallRow {
                    position: row.get("position"),
                    run: row.get("run_id"),
                    persona: persona_id(row)?,
                    tool: row.get("tool_name"),
                    call_id: row.get("tool_call_id"),
                    payload_json: row.get("payload_json"),
                    at: instant(row.get("created_at"))?,
                    approval: approval.and_then(|state| ApprovalState::parse(&state)),
                })
            })
            .collect()
    }
}
