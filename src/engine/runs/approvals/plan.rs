//! Plan first, then act: before an owner has approved a plan, a run sends and changes nothing; what the plan names it then
//! does without being asked about.

use crate::config::Persona;
use crate::domain::{ApprovalKind, ApprovalState, PlanMode, RunOptions};
use crate::policy::{PolicyDecision, PolicyEffect};
use crate::store::ApprovalOfRun;
use crate::tools::{Effects, MailDraft, ProposePlan, RegisteredTool};
use serde_json::Value;

/// Code of a call that its owner approved with a plan.
const BY_PLAN: &str = "plan";
/// Code of a call that an approved plan does not name.
const NOT_IN_PLAN: &str = "not_in_plan";

/// Reports whether a run has to propose a plan before it acts.
pub fn is_first(persona: &Persona, options: &RunOptions) -> bool {
    options.plan.unwrap_or(persona.plan) == PlanMode::Ask
}

/// Returns what a plan makes of a decision on a call of a run that has to propose one. Errors: there is no approved plan yet,
/// and the call is refused with this text.
pub fn applied(
    approvals: &[ApprovalOfRun],
    tool: &RegisteredTool,
    draft: Option<&MailDraft>,
    decision: PolicyDecision,
) -> Result<PolicyDecision, &'static str> {
    if !acts(tool.effects()) || !decision.effect.may_happen() {
        return Ok(decision);
    }
    let Some(plan) = approved(approvals) else {
        return Err(
            "your owner wants to see what you are going to do first: propose all of it with `propose_plan`",
        );
    };
    let (effect, code, why) = match covers(&plan, tool.name(), draft) {
        true if decision.effect == PolicyEffect::Ask => (
            PolicyEffect::Allow,
            BY_PLAN,
            "the owner approved a plan with it",
        ),
        false if decision.effect == PolicyEffect::Allow => (
            PolicyEffect::Ask,
            NOT_IN_PLAN,
            "the approved plan does not name it",
        ),
        _ => return Ok(decision),
    };
    Ok(PolicyDecision {
        effect,
        rule: None,
        code: code.to_owned(),
        why: why.to_owned(),
    })
}

/// Reports whether a tool does anything that a plan is for.
fn acts(effects: Effects) -> bool {
    effects.sends_out || effects.changes_state || effects.runs_code
}

/// Returns the plan that was approved last.
fn approved(approvals: &[ApprovalOfRun]) -> Option<ProposePlan> {
    let is_plan = |approval: &&ApprovalOfRun| {
        approval.kind == ApprovalKind::Plan && approval.state == ApprovalState::Approved
    };
    let newest = approvals.iter().rev().find(is_plan)?;
    let call: Value = serde_json::from_str(&newest.call_json).ok()?;
    serde_json::from_value(call.get("args")?.clone()).ok()
}

/// Reports whether a plan names a call: its tool and, of a mail, every recipient.
fn covers(plan: &ProposePlan, tool: &str, draft: Option<&MailDraft>) -> bool {
    let mut steps = plan.steps.iter().filter(|step| step.tool == tool);
    let Some(draft) = draft else {
        return steps.next().is_some();
    };
    steps.any(|step| {
        let mut everybody = draft.to.iter().chain(&draft.cc).chain(&draft.bcc);
        everybody.all(|address| {
            let is_named = |named: &String| {
                crate::domain::Address::parse(named).is_ok_and(|named| named.key() == address.key())
            };
            step.recipients.iter().any(is_named)
        })
    })
}
