//! Assembly of a run's context, within the model's window.

use super::checkpoint::{ContextCheckpoint, json_bug, to_json};
use super::state::LoopState;
use crate::context::Context;
use crate::domain::ErrorClass;
use crate::providers::contract::retry::input_tokens_max;
use crate::runs::budget::bounds;
use crate::runs::env::{AssembledRun, ContextOrder};
use crate::runs::error::RunError;
use crate::runs::record::as_of;
use crate::store::AssembledContext;

/// Returns the context budget: what the configuration allows, or the model's window where it is
/// known to be smaller.
pub fn context_budget(state: &LoopState<'_>) -> usize {
    let allowed = state.budget().context_tokens_max;
    let answer = u64::from(state.settings().max_output_tokens.value);
    match state
        .route
        .window_tokens()
        .and_then(|window| input_tokens_max(window, answer))
    {
        Some(fitting) => allowed.min(state.context_tokens_max(fitting)),
        None => allowed,
    }
}

/// Assembles the context within that many tokens; `note` is for its report.
pub async fn assemble(
    state: &mut LoopState<'_>,
    budget_tokens: usize,
    note: Option<String>,
) -> Result<(), RunError> {
    let profile = state
        .deps
        .config
        .context
        .get(&state.run.profile)
        .ok_or_else(|| RunError::Fatal {
            class: ErrorClass::Config,
            message: format!(
                "no context profile `{}` in configs/context.json",
                state.run.profile
            ),
        })?;
    let order = ContextOrder {
        run: state.run,
        persona: state.persona,
        subject: &state.subject,
        profile,
        allowed_tokens: state.budget().context_tokens_max,
        budget_tokens,
        now: state.deps.clock.now(),
    };
    let AssembledRun {
        context,
        mut report,
        seen,
    } = state.deps.env.assemble(order).await?;
    report.note = note.or_else(|| unseen_images(state, &context));
    let sources = as_of::sources(&state.deps.config, &order, seen, &report).map_err(json_bug)?;
    state.first.system = context.system();
    state.first.messages.clear();
    let shared_json = to_json(&state.first)?;
    state.first.messages = context.messages();
    state.first.past_messages = context.past_messages();
    let words = context.words(&state.deps.tools);
    state.label = state.label.clone().having_read(words.clone());
    let kept = ContextCheckpoint {
        request: state.first.clone(),
        stubbed: state.stubbed.clone(),
        words,
    };
    state.fresh_context = Some(AssembledContext {
        request_json: to_json(&kept)?,
        report_json: to_json(&report)?,
        shared_json,
        limits_json: bounds::limits_json(&state.spending, &state.settings()),
        sources,
    });
    Ok(())
}

/// Returns a note for the report where the letter has images and the model that is asked first takes none.
fn unseen_images(state: &LoopState<'_>, context: &Context) -> Option<String> {
    let route = &state.route;
    let kinds = route.provider.capabilities(&route.model).content;
    let is_unseen = !context.input.images.is_empty() && kinds.images.is_none();
    is_unseen.then(|| format!("{route} takes no images, so they are described in words"))
}
