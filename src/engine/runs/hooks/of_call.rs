//! Hooks before and after a call of a tool, and before a mail.

use super::occasion::{self, Occasion};
use super::panel::{self, PanelDecision};
use crate::domain::HookEvent;
use crate::policy::{PolicyDecision, PolicyEffect};
use crate::runs::error::RunError;
use crate::runs::tool_calls::context::ToolCallContext;
use crate::runs::tool_calls::verdict::ToolVerdict;
use crate::tools::{MailDraft, ToolOutcome};
use serde_json::{Map, Value, json};

/// Code of a decision that a hook made.
const BY_HOOK: &str = "hook";

/// Asks the hooks before a call of a tool.
pub async fn before(
    ctx: &ToolCallContext<'_>,
    tool: &str,
    args: &Map<String, Value>,
) -> Result<PanelDecision, RunError> {
    let body = || json!(args);
    asked(ctx, HookEvent::BeforeCall, tool, "args", body).await
}

/// Asks the hooks before a mail; `tool` is `reply` for a final text.
pub async fn before_send(
    ctx: &ToolCallContext<'_>,
    tool: &str,
    draft: &MailDraft,
) -> Result<PanelDecision, RunError> {
    let body = || occasion::mail(draft);
    asked(ctx, HookEvent::BeforeSend, tool, "mail", body).await
}

/// Asks the hooks after a call that has succeeded. A mail that it drafted is not queued if one denies; what else the call has
/// done stays, and the model does not read its result.
pub async fn after(
    ctx: &ToolCallContext<'_>,
    tool: &str,
    verdict: ToolVerdict,
) -> Result<ToolVerdict, RunError> {
    let ToolVerdict::Done(outcome) = verdict else {
        return Ok(verdict);
    };
    let body = || outcome.result.clone();
    match asked(ctx, HookEvent::AfterCall, tool, "result", body).await? {
        PanelDecision::Allow | PanelDecision::Ask(_) => Ok(ToolVerdict::Done(outcome)),
        PanelDecision::Deny(refusal) => Ok(ToolVerdict::Failed {
            code: refusal.code,
            message: format!("{}; {}", refusal.message, withheld(&outcome)),
        }),
    }
}

fn withheld(outcome: &ToolOutcome) -> &'static str {
    match (&outcome.mail, &outcome.memory) {
        (Some(_), _) => "the mail is not sent",
        (None, Some(_)) => "nothing is remembered",
        (None, None) => "the call was made, and its result is withheld",
    }
}

async fn asked(
    ctx: &ToolCallContext<'_>,
    event: HookEvent,
    tool: &str,
    member: &str,
    body: impl Fn() -> Value,
) -> Result<PanelDecision, RunError> {
    if !panel::is_asked(ctx.deps, event, &ctx.run.persona, tool) {
        return Ok(PanelDecision::Allow);
    }
    let occasion = Occasion::of_call(event, ctx.run, tool, &ctx.label).with(member, body());
    panel::decide(ctx.deps, ctx.run, &occasion, ctx.cancel).await
}

/// Raises a decision that allows to one that asks.
pub fn raise(decision: &mut PolicyDecision, why: String) {
    if decision.effect == PolicyEffect::Allow {
        *decision = PolicyDecision {
            effect: PolicyEffect::Ask,
            rule: None,
            code: BY_HOOK.to_owned(),
            why,
        };
    }
}
