//! Hooks before and after a run.

use super::occasion::{self, Occasion};
use super::panel::{self, PanelDecision};
use crate::context::resolvers::Subject;
use crate::domain::{ErrorClass, HookEvent, StopReason};
use crate::runs::deps::RunDeps;
use crate::runs::error::RunError;
use crate::store::ClaimedRun;
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// Asks the hooks before a run that has no journal yet: one that goes on after a crash or a wait has been permitted.
///
/// Errors: [`RunError::Fatal`] with class `HookDenied` when one does not allow it.
pub async fn before(
    deps: &RunDeps,
    run: &ClaimedRun,
    subject: &Subject,
    cancel: &CancellationToken,
) -> Result<(), RunError> {
    if !panel::is_asked(deps, HookEvent::BeforeRun, &run.persona, "") {
        return Ok(());
    }
    let occasion =
        Occasion::of_run(HookEvent::BeforeRun, run).with("letter", occasion::letter(subject));
    match panel::decide(deps, run, &occasion, cancel).await? {
        PanelDecision::Allow | PanelDecision::Ask(_) => Ok(()),
        PanelDecision::Deny(refusal) => Err(RunError::Fatal {
            class: ErrorClass::HookDenied,
            message: refusal.message,
        }),
    }
}

/// Asks the hooks after a run, whose end is committed: their answers are recorded and change nothing.
pub async fn after(
    deps: &RunDeps,
    run: &ClaimedRun,
    stop: StopReason,
    error: Option<(ErrorClass, &str)>,
) {
    if !panel::is_asked(deps, HookEvent::AfterRun, &run.persona, "") {
        return;
    }
    let mut ending = json!({ "stop_reason": stop });
    if let Some((class, message)) = error {
        ending["error"] = json!({ "class": class, "message": message });
    }
    let occasion = Occasion::of_run(HookEvent::AfterRun, run).with("ending", ending);
    // A cancelled run has ended, too.
    let cancel = CancellationToken::new();
    if let Err(error) = panel::decide(deps, run, &occasion, &cancel).await {
        tracing::warn!(run = %run.id, %error, "the hooks after a run were not all asked");
    }
}
