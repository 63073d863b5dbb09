//! A call that waits for the owner: the call, the question and the parked run are one commit.

use super::canonical::{CallIdentity, CanonicalCall, definition};
use super::kept::{self, KeptDraft};
use super::question::{QuestionSubject, parked, question, refused_before};
use super::view;
use crate::domain::{ApprovalKind, ApprovalState};
use crate::policy::PolicyEffect;
use crate::providers::ToolArgs;
use crate::runs::error::RunError;
use crate::runs::reply::mail;
use crate::runs::state::LoopState;
use crate::runs::tool_calls::context::ToolCallContext;
use crate::runs::tool_calls::policy::Asked;
use crate::runs::tool_calls::verdict::{JudgedCall, ToolVerdict, finish};
use crate::store::{ApprovalOfRun, JournalEntry, NewApproval, NewOutbound, StoreError};
use crate::tools::{MailDraft, MailPolicy, ToolOutcome};
use serde_json::Value;
use std::time::Duration;

/// Error code of a call that was to be asked about when too many questions were open.
const USED_UP: &str = "approvals_used_up";
/// Error code of a call that the owner has refused before.
const REFUSED_BEFORE: &str = "approval_rejected";

/// Asks the owner about a call and parks the run. Returns a verdict when there is no question to ask; the call is recorded as refused then.
pub async fn park(
    state: &mut LoopState<'_>,
    asked: Asked<'_>,
    judged: JudgedCall,
    outcome: Option<ToolOutcome>,
    mail: &MailPolicy,
) -> Result<ToolVerdict, RunError> {
    let worked = state.spending.worked(&*state.input.deps.clock);
    let approval = of_call(&state.ctx(), asked, &judged, outcome, mail, true, worked)?;
    if refused_before(&state.conversation.approvals, &approval.fold_sha256).is_some() {
        state
            .outbox
            .pending
            .extend(asked.entry(Some(&denied(judged)), None));
        return Ok(refused());
    }
    let known = state.outbox.pending.len();
    state
        .outbox
        .pending
        .extend(asked.entry(Some(&judged), None));
    match state
        .outbox
        .commit(Some(JournalEntry::Ask(Box::new(approval))))
        .await
    {
        Ok(()) => parked(),
        Err(RunError::Store(StoreError::ApprovalsUsedUp)) => {
            state.outbox.pending.truncate(known);
            state
                .outbox
                .pending
                .extend(asked.entry(Some(&denied(judged)), None));
            Ok(used_up())
        }
        Err(error) => Err(error),
    }
}

/// Returns the decision as recorded for a call that nobody is asked about after all.
pub fn denied(mut judged: JudgedCall) -> JudgedCall {
    judged.decision.effect = PolicyEffect::Deny;
    judged
}

/// Builds the question about a call; `parks`: its run waits, and has worked for this long.
pub fn of_call(
    ctx: &ToolCallContext<'_>,
    asked: Asked<'_>,
    judged: &JudgedCall,
    outcome: Option<ToolOutcome>,
    mail: &MailPolicy,
    parks: bool,
    worked: Duration,
) -> Result<NewApproval, RunError> {
    let (draft, asks, result_json) = match outcome {
        None => (None, None, None),
        Some(mut outcome) => match outcome.question.take() {
            // Its result is the owner's word.
            Some(asks) => (None, Some(asks), None),
            None => {
                let draft = outcome.mail.take().map(|draft| *draft);
                let (payload, ..) = finish(ToolVerdict::Done(outcome), asked.name);
                (draft, None, Some(payload))
            }
        },
    };
    let frozen = match &draft {
        Some(draft) => Some(mail::outbound(ctx, draft.clone())?),
        None => None,
    };
    let pair = draft.as_ref().zip(frozen.as_ref());
    let view = match (pair, &asks) {
        (Some((draft, frozen)), _) => {
            view::of_mail(draft, &frozen.content.subject, &frozen.footer, mail)
        }
        (None, Some(asks)) => view::of_question(&asks.text),
        (None, None) => view::of_call(asked.name, &args_of(asked)),
    };
    let subject = QuestionSubject {
        call_id: asked.id,
        kind: asks.map_or(ApprovalKind::Call, |asks| asks.kind),
        tool: asked.name,
        canonical: canonical(ctx, asked, pair),
        view,
        result_json,
        mail: frozen.map(Box::new),
        parks,
    };
    Ok(question(ctx, &judged.decision, subject, worked))
}

/// A draft of a call, and the mail that it becomes.
pub struct FrozenDraft {
    pub kept: KeptDraft,
    pub frozen: NewOutbound,
}

/// Makes the mail of a call a draft. Errors: the mail cannot be composed.
pub fn draft_of_call(
    ctx: &ToolCallContext<'_>,
    asked: Asked<'_>,
    judged: &JudgedCall,
    outcome: &ToolOutcome,
    mail: &MailPolicy,
) -> Result<FrozenDraft, RunError> {
    let draft = outcome.mail.as_deref().cloned().unwrap_or_default();
    let frozen = mail::outbound(ctx, draft.clone())?;
    let subject = QuestionSubject {
        call_id: asked.id,
        kind: ApprovalKind::Draft,
        tool: asked.name,
        canonical: canonical(ctx, asked, Some((&draft, &frozen))),
        view: view::of_draft(&draft, &frozen.content.subject, &frozen.footer, mail),
        result_json: None,
        mail: Some(Box::new(frozen.clone())),
        parks: false,
    };
    Ok(FrozenDraft {
        kept: kept::kept(ctx, &judged.decision, subject),
        frozen,
    })
}

fn canonical(
    ctx: &ToolCallContext<'_>,
    asked: Asked<'_>,
    mail: Option<(&MailDraft, &NewOutbound)>,
) -> CanonicalCall {
    let tool = ctx.tools.iter().find(|tool| tool.name() == asked.name);
    let identity = CallIdentity {
        persona: ctx.persona.id.as_str(),
        run: ctx.run.id.as_str(),
        call: asked.id,
        tool: asked.name,
        definition: tool.map(|tool| definition(tool)).unwrap_or_default(),
        args: args_of(asked),
        mail,
    };
    identity.canonical()
}

fn args_of(asked: Asked<'_>) -> Value {
    match asked.args {
        ToolArgs::Object(args) => Value::Object(args.clone()),
        ToolArgs::Malformed { .. } => Value::Null,
    }
}

/// Returns the approval of a call that is still to be made; one of another definition or other arguments is none.
pub fn approved<'a>(
    ctx: &ToolCallContext<'_>,
    approvals: &'a [ApprovalOfRun],
    asked: Asked<'_>,
) -> Option<&'a ApprovalOfRun> {
    let of_it = |approval: &&ApprovalOfRun| {
        approval.call_id == asked.id
            && approval.state == ApprovalState::Approved
            && approval.kind != ApprovalKind::Draft
    };
    let approval = approvals.iter().find(of_it)?;
    let now = canonical(ctx, asked, None);
    (now.sha256 == approval.call_sha256).then_some(approval)
}

fn refused() -> ToolVerdict {
    let message = "your owner has been asked exactly this in this run and does not approve; finish without it";
    ToolVerdict::Failed {
        code: REFUSED_BEFORE,
        message: message.to_owned(),
    }
}

/// Returns the verdict on a call when there is no room for a question.
pub fn used_up() -> ToolVerdict {
    let message = "this needs your owner's approval, and as many questions are open, or were asked in this run, as there \
        may be; finish without it and say so";
    ToolVerdict::Failed {
        code: USED_UP,
        message: message.to_owned(),
    }
}
