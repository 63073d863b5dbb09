//! A run asks its owner: the question commits with the call, and the run is parked in the same commit.

use super::record::{ApprovalOfRun, NewApproval, kind_of};
use crate::config::REPLY;
use crate::domain::{ApprovalKind, ApprovalState, RunId};
use crate::store::budgets::money;
use crate::store::db::Connection;
use crate::store::journal::outbound::MessageOutcome;
use crate::store::runs::fence::{Frame, fenced};
use crate::store::{PersonaStore, Result, StoreError};

/// Stored only while there is room among the open questions of the persona and the questions of the run; drafts have a room
/// of their own.
const INSERT_APPROVAL: &str = "
    INSERT INTO approvals (id, persona_id, run_id, call_id, kind, tool, call_json, call_sha256, fold_sha256, view_text,
      reason_json, label_json, result_json, mail_json, mail_bytes, parks, requested_at, expires_at, state, remind_at, draft_id)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, 'open', $21, $22
    WHERE (SELECT count(*) FROM approvals
        WHERE persona_id = $2 AND state = 'open' AND (draft_id IS NULL) = ($22 IS NULL)) < $19
      AND (SELECT count(*) FROM approvals WHERE run_id = $3 AND (draft_id IS NULL) = ($22 IS NULL)) < $20";
const SUPERSEDE: &str = "
    UPDATE approvals SET state = 'superseded', decided_at = $3, via = 'run'
    WHERE run_id = $1 AND call_id = $2 AND state = 'open'";
const PARK_FOR_APPROVAL: &str = "
    UPDATE runs SET state = 'waiting_approval', next_attempt_at = NULL, worked_ms = $3, crashes = 0, state_at = $4
    WHERE id = $1 AND epoch = $2 AND state = 'running'";
const APPROVALS_OF_RUN: &str = "
    SELECT id, call_id, kind, draft_id, call_json, call_sha256, fold_sha256, state, begun_json, begun_at
    FROM approvals WHERE run_id = $1 ORDER BY seq";
const BEGIN_APPROVED: &str = "
    UPDATE approvals SET begun_at = $3, begun_json = $4 WHERE id = $1 AND run_id = $2 AND state = 'approved'";

/// Stores a question and parks its run.
///
/// Errors: [`StoreError::ApprovalsUsedUp`] when too many are open; the run is no longer this engine's.
pub async fn ask(conn: &mut Connection, frame: &Frame<'_>, approval: &NewApproval) -> Result<()> {
    let run = frame.key.run.as_str();
    conn.exec(SUPERSEDE, (run, &approval.call_id, frame.now))
        .await?;
    let mail = approval.mail.as_deref();
    let mail_json = mail.map(serde_json::to_string).transpose();
    let mail_json = mail_json.map_err(|_| StoreError::Unreadable { what: "mail" })?;
    let bytes = mail.and_then(|mail| match &mail.outcome {
        MessageOutcome::Send { delivery, .. } => Some(delivery.bytes.as_slice()),
        MessageOutcome::Withhold(_) => None,
    });
    if conn
        .exec(
            INSERT_APPROVAL,
            (
                (
                    &approval.id,
                    frame.persona,
                    run,
                    &approval.call_id,
                    match approval.kind {
                        ApprovalKind::Draft if approval.tool == REPLY => {
                            ApprovalKind::Reply.as_str()
                        }
                        ApprovalKind::Draft => ApprovalKind::Call.as_str(),
                        kind => kind.as_str(),
                    },
                    &approval.tool,
                    &approval.call_json,
                    &approval.call_sha256,
                    &approval.fold_sha256,
                    &approval.view_text,
                    &approval.reason_json,
                    &approval.label_json,
                    &approval.result_json,
                    mail_json,
                    bytes,
                    approval.parks,
                ),
                (
                    frame.now,
                    approval.expires_at,
                    approval.open_max,
                    approval.questions_per_run_max,
                    approval.remind_at,
                    &approval.draft,
                ),
            ),
        )
        .await?
        == 0
    {
        return Err(StoreError::ApprovalsUsedUp);
    }
    crate::crash::crash_point!("A1");
    if !approval.parks {
        return Ok(());
    }
    fenced(
        conn.exec(
            PARK_FOR_APPROVAL,
            (run, frame.epoch, approval.worked, frame.now),
        )
        .await?,
        run,
    )?;
    money::leave(conn, run, frame.now).await
}

/// Marks an approved call as begun, before its tool runs.
pub async fn begin(
    conn: &mut Connection,
    frame: &Frame<'_>,
    approval: &str,
    expected_json: &str,
) -> Result<()> {
    match conn
        .exec(
            BEGIN_APPROVED,
            (approval, &frame.key.run, frame.now, expected_json),
        )
        .await?
    {
        0 => Err(StoreError::missing("approval", approval)),
        _ => Ok(()),
    }
}

impl PersonaStore {
    /// Returns the questions of a run, oldest first.
    pub async fn approvals_of_run(&self, run: &RunId) -> Result<Vec<ApprovalOfRun>> {
        let rows = self.rows(APPROVALS_OF_RUN, run).await?;
        let unreadable = || StoreError::Unreadable { what: "approval" };
        rows.iter()
            .map(|row| {
                Ok(ApprovalOfRun {
                    id: row.get("id"),
                    call_id: row.get("call_id"),
                    kind: kind_of(row)?,
                    call_json: row.get("call_json"),
                    call_sha256: row.get("call_sha256"),
                    fold_sha256: row.get("fold_sha256"),
                    state: ApprovalState::parse(row.get("state")).ok_or_else(unreadable)?,
                    begun_json: row.get("begun_json"),
                })
            })
            .collect()
    }
}
