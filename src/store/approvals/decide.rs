//! The one way to decide on a question. The decision, the result of the call, the mail with its delivery and the run that
//! goes on are one commit.
//!
//! Absent on purpose: who may decide. The door has checked that (`gateway::approvals`, the command line).

use super::record::{ApprovalVerdict, DecisionOutcome, NewDecision, kind_of};
use crate::domain::{ApprovalKind, ApprovalState, RunId, Timestamp, Withheld};
use crate::mutants::is_off;
use crate::store::db::{Connection, Row, Scope};
use crate::store::journal::outbound::{self, MessageOutcome, NewOutbound};
use crate::store::journal::steps::CLOSE_CALL;
use crate::store::mail::audit_log::audit;
use crate::store::sql::{from_json, persona_id};
use crate::store::threads::reply_limits::MailBounds;
use crate::store::{Result, Store, StoreError};
use serde_json::{Value, json};

const APPROVAL_TO_DECIDE: &str = "
    SELECT id, persona_id, run_id, call_id, kind, tool, call_sha256, result_json, mail_json, mail_bytes, parks, state,
      decided_at, decided_by, expires_at, draft_id
    FROM approvals WHERE id = $1";
const DECIDE: &str = "
    UPDATE approvals SET state = $2, decided_at = $3, decided_by = $4, via = $5, words = $6, evidence_json = $7
    WHERE id = $1 AND state = 'open'";
/// The attempt is not counted: nothing of the run has failed.
const GO_ON: &str = "
    UPDATE runs SET state = 'queued', attempt = max(attempt - 1, 0), state_at = $2 WHERE id = $1 AND state = 'waiting_approval'";
/// Most characters of an owner's words that are kept.
const WORDS_CHARS_MAX: usize = 20_000;

impl Store {
    /// Decides on a question, if it is still open; of several who decide at once, one does.
    ///
    /// Errors: [`StoreError::Missing`]; [`StoreError::MailsUsedUp`], and then the question stays open.
    pub async fn decide_approval(
        &self,
        id: &str,
        decision: NewDecision,
    ) -> Result<DecisionOutcome> {
        let (id, clock) = (id.to_owned(), self.clock().clone());
        let (now, step) = (clock.now(), clock.new_id());
        transact!(self, Scope::persona_of("approvals", &id), |conn| decide(
            conn,
            &id,
            &decision,
            (now, &step)
        )
        .await)
        .await
    }
}

/// Decides inside the caller's transaction; `step` is the id of the row of its result.
pub async fn decide(
    conn: &mut Connection,
    id: &str,
    decision: &NewDecision,
    (now, step): (Timestamp, &str),
) -> Result<DecisionOutcome> {
    let row = conn.maybe_row(APPROVAL_TO_DECIDE, id).await?;
    let row = row.ok_or_else(|| StoreError::missing("approval", id))?;
    let unreadable = || StoreError::Unreadable { what: "approval" };
    let state = ApprovalState::parse(row.get("state")).ok_or_else(unreadable)?;
    if state != ApprovalState::Open {
        return Ok(already(&row, state));
    }
    if !is_off("G14")
        && decision
            .sha256
            .as_ref()
            .is_some_and(|sha256| sha256 != row.get::<&str>("call_sha256"))
    {
        return Ok(DecisionOutcome::OtherBytes);
    }
    let kind = kind_of(&row)?;
    // Nobody decides behind the end, even where the clock of the sweep has not come by.
    let is_late =
        row.get::<&str>("expires_at") <= now.to_string().as_str() && !is_off("G15.expiry");
    let verdict = match is_late {
        true if decision.verdict != ApprovalVerdict::Close => ApprovalVerdict::Expire,
        _ => decision.verdict,
    };
    let Some(decided) = decided_state(kind, verdict) else {
        return Ok(DecisionOutcome::NotFitting);
    };
    let words = crate::text::truncated(&decision.words, WORDS_CHARS_MAX);

    conn.exec(
        DECIDE,
        (
            id,
            &decided,
            now,
            &decision.by,
            decision.via,
            &words,
            &decision.evidence_json,
        ),
    )
    .await?;
    crate::crash::crash_point!("A2");
    take_effect(conn, &row, kind, decided, &words, now, step).await?;
    let persona = persona_id(&row)?;
    let what = format!("{decided}:{}", decision.via);
    audit(conn, Some(&persona), ("approval", id), &what, now).await?;
    Ok(DecisionOutcome::Decided(decided))
}

fn already(row: &Row, state: ApprovalState) -> DecisionOutcome {
    let text = |column| row.get::<Option<String>>(column).unwrap_or_default();
    DecisionOutcome::Already {
        state,
        by: text("decided_by"),
        at: text("decided_at"),
    }
}

/// Returns the state after a verdict; `None`: the question takes no such verdict.
fn decided_state(kind: ApprovalKind, verdict: ApprovalVerdict) -> Option<ApprovalState> {
    match (kind, verdict) {
        (_, ApprovalVerdict::Expire) => Some(ApprovalState::Expired),
        (_, ApprovalVerdict::Close) => Some(ApprovalState::Cancelled),
        (_, ApprovalVerdict::Reject) => Some(ApprovalState::Rejected),
        (ApprovalKind::Question, ApprovalVerdict::Answer) => Some(ApprovalState::Answered),
        // The run of a draft has ended: nobody is there to write it anew.
        (ApprovalKind::Draft, ApprovalVerdict::Edit) => None,
        (ApprovalKind::Question, _) | (_, ApprovalVerdict::Answer) => None,
        (_, ApprovalVerdict::Approve) => Some(ApprovalState::Approved),
        (_, ApprovalVerdict::Edit) => Some(ApprovalState::Edited),
    }
}

/// Queues an approved mail, records the result of the call, and lets the run go on.
async fn take_effect(
    conn: &mut Connection,
    row: &Row,
    kind: ApprovalKind,
    decided: ApprovalState,
    words: &str,
    now: Timestamp,
    step: &str,
) -> Result<()> {
    let run: &str = row.get("run_id");
    let withheld = match decided {
        ApprovalState::Approved => queue_mail(conn, row, now).await?,
        _ => None,
    };
    if !row.get::<bool>("parks") {
        return Ok(());
    }
    if let Some(payload) = result(row, kind, decided, words, withheld) {
        conn.exec(
            CLOSE_CALL,
            (step, run, row.get::<&str>("call_id"), payload, now),
        )
        .await?;
    }
    crate::crash::crash_point!("A3");

    conn.exec(GO_ON, (run, now)).await?;
    Ok(())
}

/// Queues the frozen mail of a question, if it has one; returns the rule that withheld it after all.
async fn queue_mail(conn: &mut Connection, row: &Row, now: Timestamp) -> Result<Option<Withheld>> {
    let Some(json) = row.get::<Option<String>>("mail_json") else {
        return Ok(None);
    };
    let mut mail: NewOutbound = from_json(&json, "mail of an approval")?;
    if let MessageOutcome::Send {
        delivery,
        reservation,
    } = &mut mail.outcome
    {
        if kind_of(row)? == ApprovalKind::Draft {
            // Limits hold what a model sends; this mail is sent by a person.
            reservation.bounds = MailBounds::NONE;
            reservation.mails_of_run_max = None;
        }
        delivery.bytes = row.get::<Option<Vec<u8>>>("mail_bytes").unwrap_or_default();
    }
    let run: RunId = row.get("run_id");
    let persona = persona_id(row)?;
    outbound::insert(conn, (&run, &persona), &mail, now).await
}

/// Returns the result that the model reads; `None`: the call is approved and still to be made.
fn result(
    row: &Row,
    kind: ApprovalKind,
    decided: ApprovalState,
    words: &str,
    withheld: Option<Withheld>,
) -> Option<String> {
    let tool: &str = row.get("tool");
    let failed = |code: &str, message: String| {
        Some(
            json!({ "ok": false, "tool": tool, "error": { "code": code, "message": message } })
                .to_string(),
        )
    };
    let quoted = match words.is_empty() {
        true => String::new(),
        false => format!(" and says: {}", Value::from(words)),
    };
    match (decided, withheld) {
        (ApprovalState::Approved, Some(rule)) => failed(
            rule.as_str(),
            "your owner approved this mail, and meanwhile a limit of mails was reached, so it was not sent".to_owned(),
        ),
        (ApprovalState::Approved, None) => match (row.get("result_json"), kind) {
            (Some(result), _) => Some(result),
            (None, ApprovalKind::Reply | ApprovalKind::Plan) => {
                Some(json!({ "ok": true, "result": { "approved": true } }).to_string())
            }
            (None, ApprovalKind::Call | ApprovalKind::Question | ApprovalKind::Draft) => None,
        },
        (ApprovalState::Answered, _) => {
            Some(json!({ "ok": true, "result": { "answer": words, "by": "your owner" } }).to_string())
        }
        (ApprovalState::Edited, _) => failed(
            "approval_edit",
            format!("your owner does not approve this as it is{quoted}. Propose it anew, changed accordingly"),
        ),
        (ApprovalState::Expired, _) => failed(
            "approval_expired",
            "your owner was asked and has not answered in time; finish without it and say so".to_owned(),
        ),
        (ApprovalState::Cancelled, _) => failed(
            "approval_cancelled",
            "your owner was asked, and the question was closed when the database was restored from a backup; finish without it \
             and say so"
                .to_owned(),
        ),
        _ => failed(
            "approval_rejected",
            format!("your owner was asked and does not approve{quoted}. Finish without it, and do not try it in another way"),
        ),
    }
}
