//! A question to the owner: what is asked for, how it reads, until when it may be answered.

use super::canonical::CanonicalCall;
use crate::domain::{ApprovalKind, ApprovalState};
use crate::policy::PolicyDecision;
use crate::runs::error::RunError;
use crate::runs::tool_calls::context::ToolCallContext;
use crate::store::{ApprovalOfRun, NewApproval, NewOutbound};
use serde_json::json;
use std::time::Duration;

/// Subject of a question.
pub struct QuestionSubject<'a> {
    pub call_id: &'a str,
    pub kind: ApprovalKind,
    pub tool: &'a str,
    pub canonical: CanonicalCall,
    /// View without the reason.
    pub view: String,
    /// Result of the call, where its effect commits with the decision.
    pub result_json: Option<String>,
    pub mail: Option<Box<NewOutbound>>,
    /// `true`: the run waits.
    pub parks: bool,
}

/// Builds a question. `worked` is the working time of the run so far.
pub fn question(
    ctx: &ToolCallContext<'_>,
    decision: &PolicyDecision,
    subject: QuestionSubject<'_>,
    worked: Duration,
) -> NewApproval {
    let settings = &ctx.deps.config.policy.approvals;
    let is_draft = subject.kind == ApprovalKind::Draft;
    let life = match is_draft {
        true => settings.drafts_expire_after,
        false => settings.expires_after,
    };
    let (open_max, per_run_max) = match is_draft {
        // As many as mails that a run may send.
        true => (
            settings.drafts_open_max,
            u32::try_from(ctx.deps.config.inference.budget.mails_max).unwrap_or(u32::MAX),
        ),
        false => (settings.open_max, settings.questions_per_run_max),
    };
    let clock = ctx.deps.clock.as_ref();
    let label = json!({
        "sender": ctx.label.sender,
        "floor": ctx.label.floor,
        "readers": ctx.label.readers,
    });
    NewApproval {
        id: clock.new_id(),
        call_id: subject.call_id.to_owned(),
        kind: subject.kind,
        tool: subject.tool.to_owned(),
        call_json: subject.canonical.json,
        call_sha256: subject.canonical.sha256,
        fold_sha256: subject.canonical.fold_sha256,
        view_text: super::view::with_reason(subject.view, ctx, decision),
        reason_json: json!(decision).to_string(),
        label_json: label.to_string(),
        result_json: subject.result_json,
        mail: subject.mail,
        parks: subject.parks,
        draft: None,
        expires_at: clock.now().plus(life),
        remind_at: clock.now().plus(life / 2),
        open_max,
        questions_per_run_max: per_run_max,
        worked,
    }
}

/// Returns the earlier question of the run about the same thing that its owner did not approve, if there is one: a model
/// that asks again is not heard.
pub fn refused_before<'a>(
    approvals: &'a [ApprovalOfRun],
    fold_sha256: &str,
) -> Option<&'a ApprovalOfRun> {
    let is_no = |approval: &&ApprovalOfRun| {
        matches!(
            approval.state,
            ApprovalState::Rejected | ApprovalState::Edited | ApprovalState::Expired
        )
    };
    approvals
        .iter()
        .filter(is_no)
        .find(|approval| approval.fold_sha256 == fold_sha256)
}

/// End of an attempt whose run waits for its owner.
pub fn parked<T>() -> Result<T, RunError> {
    Err(RunError::WaitsForApproval)
}
