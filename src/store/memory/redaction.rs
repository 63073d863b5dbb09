//! Records of runs that lose an erased text.
//!
//! A run that is over loses what holds the text. A run at work needs its record to go on, so it is noted, and its record is emptied
//! whole when it has ended: by then nobody knows the words any more, and it may have told them in later turns.

use crate::domain::{TextLabel, Timestamp, sha256_hex};
use crate::store::db::{self, Connection, ConnectionSource, Row, Scope, Sql};
use crate::store::sql::{json_list, to_json};
use crate::store::{Result, Store};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Most runs of one pass.
const PASS_MAX: i64 = 50;

pub const PAYLOADS: &str = "
    SELECT run_id, step_index, event_type, payload_json FROM thread_tool_events WHERE run_id = $1 ORDER BY step_index";
/// PostgreSQL keeps what a row held until its table is written anew, which `rewrite` does.
pub const SECURE_DELETE: Sql = Sql::pair("PRAGMA secure_delete = ON", "SELECT 1");
pub const FAST_DELETE: Sql = Sql::pair("PRAGMA secure_delete = OFF", "SELECT 1");
const REDACT_TURNS: Sql = Sql::pair(
    "
    UPDATE run_turns SET request_json = '', response_json = NULL, context_json = NULL, sources_json = NULL, named_json = NULL, packed = NULL,
      packed_with = NULL, error_message = CASE WHEN error_message IS NULL THEN NULL ELSE '' END,
      ended_json = json_remove(ended_json, '$.error'), pruned_at = coalesce(pruned_at, $2), redacted_at = $2
    WHERE run_id IN (SELECT value FROM jsonb_each($1))",
    "
    UPDATE run_turns SET request_json = '', response_json = NULL, context_json = NULL, sources_json = NULL, named_json = NULL, packed = NULL,
      packed_with = NULL, error_message = CASE WHEN error_message IS NULL THEN NULL ELSE '' END,
      ended_json = CAST(CAST(ended_json AS JSONB) - 'error' AS TEXT), pruned_at = coalesce(pruned_at, $2), redacted_at = $2
    WHERE run_id IN (SELECT value FROM jsonb_each($1))",
);
/// Answers of owners to the messages, questions and digests of an erasure of a person (`store/erasure`). Reports of digests
/// name entries, which have lost their words before.
pub const EMPTY_ANSWERS: &str = "
    UPDATE approval_answers SET report = '' WHERE report <> '' AND $2 <> '' AND (message_id IN (SELECT value FROM jsonb_each($1))
      OR approval_id IN (SELECT a.id FROM jsonb_each($1) w CROSS JOIN approvals a WHERE a.run_id = w.value)
      OR digest_id IN (SELECT e.digest_id FROM memory_digest_entries e JOIN memory m ON m.id = e.memory_id
        WHERE m.erased_at IS NOT NULL))";
/// `$1`: `[{run, step, payload}, …]`.
const REDACT_STEPS: &str = "
    UPDATE thread_tool_events SET payload_json = w.value ->> 'payload' FROM json_each($1) w
    WHERE run_id = w.value ->> 'run' AND step_index = CAST(w.value ->> 'step' AS BIGINT)";
const REDACT_FORKS: &str = "
    UPDATE forks SET record_json = '' WHERE run_id IN (SELECT value FROM jsonb_each($1)) AND state <> 'running'";
const REDACT_LATER: &str = "
    INSERT INTO pending_redactions (run_id, since) SELECT value, $2 FROM jsonb_each($1) WHERE true
    ON CONFLICT (run_id) DO NOTHING";
const PENDING_REDACTIONS: &str = "SELECT count(*) AS runs FROM pending_redactions";
const ENDED_REDACTIONS: &str = "
    SELECT p.run_id FROM pending_redactions p CROSS JOIN runs r
    WHERE r.id = p.run_id AND r.state IN ('succeeded', 'cancelled', 'failed') ORDER BY p.run_id LIMIT $1";
const REDACTED_NOW: &str =
    "DELETE FROM pending_redactions WHERE run_id IN (SELECT value FROM jsonb_each($1))";

/// Records that are to be changed, found by reading.
#[derive(Default)]
pub struct Redaction {
    /// Runs that are over and lose their requests and answers.
    pub runs: BTreeSet<String>,
    /// As [`REDACT_STEPS`] reads them.
    pub steps: Vec<Value>,
    /// Runs that lose their records when they have ended.
    pub at_work: BTreeSet<String>,
}

impl Redaction {
    pub(in crate::store) async fn apply(
        &self,
        conn: &mut Connection,
        now: Timestamp,
    ) -> Result<()> {
        let stamp = now.to_string();
        let runs = json_list(self.runs.iter());
        conn.exec(REDACT_TURNS, (&runs, &stamp)).await?;
        conn.exec(REDACT_FORKS, &runs).await?;
        let steps = to_json(&self.steps)?;
        conn.exec(REDACT_STEPS, steps).await?;
        let later = json_list(self.at_work.iter());
        conn.exec(REDACT_LATER, (later, &stamp)).await?;
        Ok(())
    }
}

impl Store {
    /// Empties the records of runs that were at work with an erased text and have ended; returns their number. What one pass
    /// leaves over is for the next.
    pub async fn redact_ended_runs(&self) -> Result<usize> {
        if ended(self.readers()).await?.is_empty() {
            return Ok(0);
        }
        let now = self.clock().now();
        transact!(self, Scope::Engine, |conn| {
            // Asked again: another process may have done it, or an owner may have a run tried again.
            let runs = ended(&mut *conn).await?;
            conn.exec(SECURE_DELETE, ()).await?;
            let done = empty(conn, &runs, now).await;
            conn.exec(FAST_DELETE, ()).await?;
            done.map(|()| runs.len())
        })
        .await
    }

    /// Returns the number of runs whose records are to be emptied when they have ended.
    pub async fn pending_redactions(&self) -> Result<usize> {
        let count: i64 = self.one(PENDING_REDACTIONS, ()).await?;
        Ok(usize::try_from(count).unwrap_or_default())
    }
}

async fn ended(conn: impl Into<ConnectionSource<'_>>) -> Result<BTreeSet<String>> {
    let ended = db::query(ENDED_REDACTIONS).bind(PASS_MAX);
    Ok(ended.all(conn).await?.into_iter().collect())
}

async fn empty(conn: &mut Connection, runs: &BTreeSet<String>, now: Timestamp) -> Result<()> {
    let mut steps = Vec::new();
    for run in runs {
        let payloads = conn.rows(PAYLOADS, run).await?;
        steps.extend(payloads.iter().map(emptied));
    }
    let redaction = Redaction {
        runs: runs.clone(),
        steps,
        ..Redaction::default()
    };
    redaction.apply(conn, now).await?;
    conn.exec(REDACTED_NOW, json_list(runs.iter())).await?;
    Ok(())
}

/// Returns a step with its payload without any text. Its outcome and its label stay: later runs go by them.
pub fn emptied(row: &Row) -> Value {
    let payload: String = row.get("payload_json");
    let mark = mark(&payload);
    let left = match serde_json::from_str(&payload) {
        Ok(Value::Object(mut members)) => {
            for (name, value) in &mut members {
                match (name.as_str(), &*value) {
                    ("label", _) | (_, Value::Null | Value::Bool(_) | Value::Number(_)) => {}
                    ("error", _) => {
                        *value = json!({ "code": value["code"], "message": "redacted" });
                    }
                    _ => *value = mark.clone(),
                }
            }
            Value::Object(members)
        }
        _ => without_members(row.get("event_type"), mark),
    };
    step(row, &left)
}

/// Returns what stands in the place of a text.
pub(super) fn mark(payload: &str) -> Value {
    json!({ "redacted": sha256_hex(&[payload.as_bytes()]) })
}

/// Returns the payload of a step of which nothing but its kind is known.
pub(super) fn without_members(event_type: &str, mark: Value) -> Value {
    match event_type {
        "tool_call" => json!({ "args": mark }),
        _ => json!({ "ok": true, "result": mark, "label": TextLabel::UNKNOWN }),
    }
}

/// Returns a step with its new payload, as [`REDACT_STEPS`] reads it.
pub(super) fn step(row: &Row, payload: &Value) -> Value {
    json!({ "run": row.get::<String>("run_id"), "step": row.get::<i64>("step_index"), "payload": payload.to_string() })
}
