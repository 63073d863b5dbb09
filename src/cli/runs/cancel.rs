//! `attache runs cancel`: ends a run. One on which an engine works is left to that engine; one that an engine left behind is ended
//! here.

use super::ActionOutcome;
use crate::app::Engine;
use crate::cli::process::exit::judge;
use crate::cli::{CommandContext, Failure};
use crate::clock::SystemClock;
use crate::domain::{RunId, RunState};
use crate::store::{Cancellation, OpenError, Store, working_engine};
use std::sync::Arc;

pub async fn cancel(context: &CommandContext, store: &Store, run: &RunId) -> anyhow::Result<()> {
    // Kept to the end: no engine begins in between.
    let alone = take_over_orphan(context, store, run).await?;
    // A run that took several engines down is ended by the take-over itself.
    let ended = match alone {
        Some(_) => Some(store.run_summary(run).await?.state).filter(|state| state.is_terminal()),
        None => None,
    };
    let (word, sentence) = match ended {
        Some(state) => (
            state.as_str(),
            format!(
                "run {run} has ended by itself: it is {state}; `attache runs show {run}` says why"
            ),
        ),
        None => match store.request_cancel(run).await? {
            Cancellation::Done => ("cancelled", format!("cancelled run {run}")),
            Cancellation::Requested => (
                "requested",
                format!("asked the engine to stop run {run}; it does so within about a second"),
            ),
        },
    };
    if context.json() {
        return context.screen.json(&ActionOutcome { run, outcome: word });
    }
    Ok(context.screen.line(sentence)?)
}

/// Opens the workspace as an engine does if no engine works on a run that is at work by its row: that puts it back into the queue,
/// kills what its agents left, and closes its calls. `None`: there is no need.
///
/// Errors: an engine cannot be opened, because of its configuration for example.
async fn take_over_orphan(
    context: &CommandContext,
    store: &Store,
    run: &RunId,
) -> anyhow::Result<Option<Engine>> {
    let is_running = store.run_summary(run).await?.state == RunState::Running;
    if !is_running || working_engine(&context.workspace).is_some() {
        return Ok(None);
    }
    let config = context.config().map_err(|errors| unusable(run, errors))?;
    match Engine::open(config, Arc::new(SystemClock::new())).await {
        // One that has just begun is asked.
        Err(error) if matches!(error.downcast_ref(), Some(OpenError::InUse { .. })) => Ok(None),
        opened => Ok(Some(opened.map_err(|error| unusable(run, error))?)),
    }
}

fn unusable(run: &RunId, error: impl Into<anyhow::Error>) -> Failure {
    let error = error.into();
    let message =
        format!("run {run} was left by an engine that is gone, and none can be opened to end it");
    let (exit, hint) = judge(&error);
    let hint = hint
        .unwrap_or_else(|| "mend what `attache config check` finds, and say it again".to_owned());
    Failure::new(exit, message).hint(hint).because(error)
}
