//! Asks every hook of an occasion, in order, until one denies; records each answer before it has an effect.

use super::occasion::Occasion;
use super::program::{self, HookAnswer};
use crate::config::Hook;
use crate::domain::{HookDecision, HookEvent, NoticeId, NoticeKind, NoticeSubject, PersonaId};
use crate::runs::deps::RunDeps;
use crate::runs::error::RunError;
use crate::store::{ClaimedRun, HookCall, NewNotice};
use tokio_util::sync::CancellationToken;

/// Decision of all hooks of an occasion.
pub enum PanelDecision {
    Allow,
    /// The owner is asked first, for this reason.
    Ask(String),
    /// For this reason, as a sentence for the model and the owner.
    Deny(HookRefusal),
}

/// Refusal of a hook.
pub struct HookRefusal {
    /// `hook_denied`, or `hook_failed` when the hook gave no usable answer.
    pub code: &'static str,
    pub message: String,
}

/// Reports whether a hook is asked on this occasion: only then is the occasion described.
pub fn is_asked(deps: &RunDeps, event: HookEvent, persona: &PersonaId, tool: &str) -> bool {
    let hooks = &deps.config.hooks;
    deps.env.has_hooks() && hooks.iter().any(|hook| hook.concerns(event, persona, tool))
}

/// Asks the hooks of an occasion.
///
/// Errors: the run was cancelled meanwhile, or is no longer this engine's.
pub async fn decide(
    deps: &RunDeps,
    run: &ClaimedRun,
    occasion: &Occasion,
    cancel: &CancellationToken,
) -> Result<PanelDecision, RunError> {
    let concerned = |hook: &&Hook| hook.concerns(occasion.event, &run.persona, &occasion.tool);
    let mut decision = PanelDecision::Allow;
    for hook in deps.config.hooks.iter().filter(concerned) {
        let answer = tokio::select! {
            answer = asked(deps, run, hook, occasion) => answer?,
            () = cancel.cancelled() => return Err(RunError::Cancelled),
        };
        match answer.decision {
            HookDecision::Allow => {}
            HookDecision::Ask => {
                decision = PanelDecision::Ask(said(hook, "wants your word", &answer));
            }
            HookDecision::Deny => {
                return Ok(PanelDecision::Deny(HookRefusal {
                    code: "hook_denied",
                    message: said(hook, "does not allow it", &answer),
                }));
            }
            HookDecision::Failed => {
                // The reason is for the owner: it may hold paths and words of the program.
                return Ok(PanelDecision::Deny(HookRefusal {
                    code: "hook_failed",
                    message: format!(
                        "the hook `{}` gave no answer, which counts as a no",
                        hook.id
                    ),
                }));
            }
        }
    }
    Ok(decision)
}

fn said(hook: &Hook, what: &str, answer: &HookAnswer) -> String {
    let why = match answer.reason.is_empty() {
        true => String::new(),
        false => format!(": {}", answer.reason),
    };
    format!("the hook `{}` {what}{why}", hook.id)
}

/// Asks one hook and records its answer.
async fn asked(
    deps: &RunDeps,
    run: &ClaimedRun,
    hook: &Hook,
    occasion: &Occasion,
) -> Result<HookAnswer, RunError> {
    let workspace = &deps.config.workspace;
    let hook_sha256 = program::digest(hook, workspace);
    let (at, began) = (deps.clock.now(), deps.clock.monotonic());
    let answer = program::ask(hook, workspace, &occasion.body).await;
    let took = deps.clock.monotonic().saturating_sub(began);
    let call = HookCall {
        event: occasion.event,
        tool: occasion.tool.clone(),
        hook: hook.id.clone(),
        hook_sha256,
        decision: answer.decision,
        reason: answer.reason.clone(),
        took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        at,
    };
    deps.env.record_hook(run, call).await?;
    if answer.decision == HookDecision::Failed {
        tracing::warn!(run = %run.id, hook = hook.id, event = %hook.event, reason = answer.reason, "a hook failed, which counts as a no");
        deps.env
            .emit_notice(failure(deps, run, hook, &answer))
            .await?;
    }
    Ok(answer)
}

/// Builds the notice about a hook that failed; once a day for each.
fn failure(deps: &RunDeps, run: &ClaimedRun, hook: &Hook, answer: &HookAnswer) -> NewNotice {
    let today = deps.clock.now().to_string();
    NewNotice {
        id: NoticeId::new(deps.clock.new_id()),
        persona: Some(run.persona.clone()),
        kind: NoticeKind::HookFailed,
        detail: hook.id.clone(),
        subject: NoticeSubject::Hook,
        subject_id: hook.id.clone(),
        occurrence: today[..10].to_owned(),
        summary: format!(
            "the hook `{}` failed at `{}` of run {}, which counts as a no: {}",
            hook.id, hook.event, run.id, answer.reason
        ),
        hint: format!(
            "`attache hooks test {}` shows what it answers; take it out of `configs/hooks.json` to do without it",
            hook.id
        ),
    }
}
