//! A call whose mail is kept as a draft: the call and its draft are one commit, and the run goes on.

use super::ask::{self, FrozenDraft};
use super::kept::{done, no_room};
use crate::domain::ApprovalKind;
use crate::runs::error::RunError;
use crate::runs::state::LoopState;
use crate::runs::tool_calls::policy::Asked;
use crate::runs::tool_calls::verdict::{JudgedCall, ToolVerdict};
use crate::store::{ApprovalOfRun, StoreError};
use crate::tools::{MailPolicy, ToolOutcome};

/// Returns the result of a call whose draft an earlier attempt has stored.
pub fn known(approvals: &[ApprovalOfRun], call: &str) -> Option<ToolVerdict> {
    let is_it = |approval: &&ApprovalOfRun| {
        approval.kind == ApprovalKind::Draft && approval.call_id == call
    };
    approvals.iter().find(is_it)?;
    Some(done(ToolOutcome::default()))
}

/// Keeps the mail of a call as a draft. Call and draft are one commit; a later attempt that finds no result finds the draft.
pub async fn keep(
    state: &mut LoopState<'_>,
    asked: Asked<'_>,
    judged: JudgedCall,
    outcome: ToolOutcome,
    mail: &MailPolicy,
) -> Result<ToolVerdict, RunError> {
    let FrozenDraft { kept, frozen } =
        ask::draft_of_call(&state.ctx(), asked, &judged, &outcome, mail)?;
    let known = state.outbox.pending.len();
    state
        .outbox
        .pending
        .extend(asked.entry(Some(&judged), None));
    let [message, question] = kept.entries();
    state.outbox.pending.push(message);
    match state.outbox.commit(Some(question)).await {
        Ok(()) => {
            state.outbox.count_mail(&frozen);
            Ok(done(outcome))
        }
        Err(RunError::Store(StoreError::ApprovalsUsedUp)) => {
            state.outbox.pending.truncate(known);
            state
                .outbox
                .pending
                .extend(asked.entry(Some(&ask::denied(judged)), None));
            Ok(no_room())
        }
        Err(error) => Err(error),
    }
}
