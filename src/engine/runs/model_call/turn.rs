//! One turn: asks until there is an answer, or no option is left. `providers/retry.rs` decides on
//! failures, this module executes the decision.

use super::attempt::{self, Question};
use super::fallback::RouteState;
use super::{request_size, trim};
use crate::domain::{ErrorClass, stable_seed};
use crate::providers::contract::retry::longer_output_tokens;
use crate::providers::{
    Parameter, PriorAttempts, ProviderError, Request, Response, RetryDecision, RetryLimits, Size,
    ToolChoice, retry_decision,
};
use crate::runs::agents::session;
use crate::runs::assembly;
use crate::runs::error::RunError;
use crate::runs::record::call_record::{BlockedBy, CallFailure};
use crate::runs::record::outbox::Outbox;
use crate::runs::said::conversation::RunConversation;
use crate::runs::state::{LoopState, RunInput};
use std::time::Duration;

/// Time for the final turn of a run that is out of time.
const FINAL_TURN_DURATION_MAX: Duration = Duration::from_secs(60);

/// Smallest window that is believed.
const WINDOW_TOKENS_MIN: u64 = 256;

/// Calls to the present provider in this turn, and whether the input was trimmed for it.
#[derive(Default)]
struct Tries {
    calls: u32,
    trimmed: bool,
    /// Error for which the output limit was raised.
    lengthened: Option<ProviderError>,
}

/// Asks the model until it answers. The answer is left pending: it commits with what follows from
/// it.
pub async fn ask(
    state: &mut LoopState<'_>,
    choice: ToolChoice,
    note: Option<String>,
) -> Result<Response, RunError> {
    let mut until = state.spending.budget.duration_max;
    if choice == ToolChoice::None {
        until = until.max(state.spending.elapsed + FINAL_TURN_DURATION_MAX);
    }
    let question = Question {
        choice,
        note,
        until,
    };
    let mut tries = Tries::default();
    loop {
        let error = match call_or_rest(state, &question, &mut tries).await? {
            Ok(response) => {
                learn_tools(&state.input, &mut state.route);
                return Ok(response);
            }
            Err(error) => with_remedy(&state.input, &state.conversation, tries.of_more_room(error)),
        };
        if session::starts_anew(state, &error).await? {
            continue;
        }
        tries.calls = tries.calls.saturating_add(1);
        match decide(state, &question, &mut tries, &error).await? {
            RetryDecision::RetryNow(wait) => pause(&state.input, &mut state.outbox, wait).await?,
            RetryDecision::TrimAndRetry { .. } => {}
            RetryDecision::Lengthen { max_output_tokens } => {
                tracing::info!(run = %state.input.run.id, route = %state.route.present, max_output_tokens, "the answer gets more room");
                state.route.output_tokens_max = Some(max_output_tokens);
                tries.lengthened = Some(error);
            }
            // One damaged file says nothing about the next run's.
            RetryDecision::Downgrade(kind @ (Parameter::Images | Parameter::Pdf)) => {
                tries.calls -= 1;
                tracing::info!(run = %state.input.run.id, route = %state.route.present, ?kind, "a file was refused; described in words from now on");
                state.route.refused_here.push(kind);
            }
            RetryDecision::Downgrade(kind @ Parameter::Tools) => {
                tries.calls -= 1;
                tracing::warn!(run = %state.input.run.id, route = %state.route.present, "the model takes no tools; asked without any");
                state.route.refused_here.push(kind);
                // The prompts speak of tools that are offered.
                state.drop_tools();
                let fitting = assembly::input_tokens_max(&state.input, &state.route);
                assembly::assemble(state, fitting, None).await?;
            }
            RetryDecision::Downgrade(parameter) => {
                tries.calls -= 1;
                tracing::info!(run = %state.input.run.id, route = %state.route.present, ?parameter, "refused; left out from now on");
                state.input.deps.provider_health.refused(
                    &state.route.present.name,
                    &state.route.present.model,
                    parameter,
                );
            }
            RetryDecision::Fallback => {
                let retry_in = wait_without_fallback(state, &question, &tries, &error);
                state.fall_back(error, retry_in);
                tries = Tries::default();
            }
            RetryDecision::Reschedule(wait) => {
                return Err(give_up(&mut state.route, &mut state.outbox, error, Some(wait)).await?);
            }
            RetryDecision::Fail => {
                return Err(give_up(&mut state.route, &mut state.outbox, error, None).await?);
            }
        }
    }
}

/// Records that the model takes no tools, once it has answered without them: then it was not something else that it refused.
fn learn_tools(input: &RunInput<'_>, route: &mut RouteState<'_>) {
    if !route.refused_here.contains(&Parameter::Tools) {
        return;
    }
    route.refused_here.retain(|kind| *kind != Parameter::Tools);
    let (name, model) = (&route.present.name, &route.present.model);
    let provider_health = &input.deps.provider_health;
    provider_health.refused(name, model, Parameter::Tools);
}

/// Adds to a refusal of tools what an operator can do, where the engine itself can do nothing.
fn with_remedy(
    input: &RunInput<'_>,
    conversation: &RunConversation,
    error: ProviderError,
) -> ProviderError {
    let words = error.message.to_lowercase();
    let speaks_of_tools = ["tool", "function"].iter().any(|word| words.contains(word));
    let remedy = match error.refused {
        Some(Parameter::Tools) if input.answers_by_tool_only() => {
            "the model takes no tools, and by `tool_only` nothing else answers: write `\"reply\": \"final\"` and `\"tools\": []` in \
             persona.json, or choose another model"
        }
        None if error.class == ErrorClass::BadRequest
            && speaks_of_tools
            && !conversation.first.tools.is_empty() =>
        {
            "if the model takes no tools, write `\"tools\": []` in persona.json"
        }
        _ => return error,
    };
    let message = format!("{}; {remedy}", error.message);
    ProviderError { message, ..error }
}

impl Tries {
    /// Returns the error that counts: where a vendor refuses a raised output limit, the error that
    /// led to it.
    fn of_more_room(&self, error: ProviderError) -> ProviderError {
        match &self.lengthened {
            Some(cut) if error.class == ErrorClass::BadRequest && error.refused.is_none() => {
                let message = format!("{}; with more room: {}", cut.message, error.message);
                ProviderError {
                    message,
                    ..cut.clone()
                }
            }
            _ => error,
        }
    }
}

/// Makes the call, unless the provider's circuit breaker is paused: then the error is the reason,
/// and the run does not wait here for its end. The first call of a run that an operator retried is
/// made in any case: its cause may be fixed.
async fn call_or_rest(
    state: &mut LoopState<'_>,
    question: &Question,
    tries: &mut Tries,
) -> Result<Result<Response, ProviderError>, RunError> {
    let provider_health = &state.input.deps.provider_health;
    let name = state.route.present.name.clone();
    if let Err(resting) = provider_health.admit(&name, std::mem::take(&mut state.route.insists)) {
        tries.calls = u32::MAX;
        state.outbox.blocked_by.push(BlockedBy::Rest {
            provider: name,
            error: CallFailure::from(&resting),
        });
        return Ok(Err(resting));
    }
    let made = attempt::make(state, question).await;
    // A failed transaction tells nothing about the provider.
    provider_health.report(
        &name,
        made.as_ref()
            .ok()
            .map(|answered| answered.as_ref().map(|_| ())),
    );
    made
}

/// Decides on a failure, and trims the input at once where the decision says so.
async fn decide(
    state: &mut LoopState<'_>,
    question: &Question,
    tries: &mut Tries,
    error: &ProviderError,
) -> Result<RetryDecision, RunError> {
    match decision(state, question, tries, error, true) {
        RetryDecision::TrimAndRetry { target_tokens } => {
            tries.trimmed = true;
            if let Some(window) = error
                .window_tokens
                .filter(|tokens| *tokens >= WINDOW_TOKENS_MIN)
                && state
                    .route
                    .window_tokens()
                    .is_none_or(|known| window < known)
            {
                state.route.learnt_window = Some(window);
                let (name, model) = (&state.route.present.name, &state.route.present.model);
                let provider_health = &state.input.deps.provider_health;
                provider_health.has_window(name, model, window);
            }
            match trim::to_fit(state, target_tokens, &error.message).await? {
                true => Ok(RetryDecision::TrimAndRetry { target_tokens }),
                false => Ok(decision(state, question, tries, error, true)),
            }
        }
        decided => Ok(decided),
    }
}

fn decision(
    state: &LoopState<'_>,
    question: &Question,
    tries: &Tries,
    error: &ProviderError,
    with_fallback: bool,
) -> RetryDecision {
    let inference = &state.input.deps.config.inference;
    let request = state.request(question.choice, question.note.clone());
    let size = Size {
        used_tokens: request_size::tokens(&request),
        max_output_tokens: u64::from(request.max_output_tokens),
        longer_output_tokens: longer(state, &request, tries),
        window_tokens: state.route.window_tokens(),
    };
    let mut without = request.without.clone();
    // A letter that is answered by a tool alone is not answered without tools.
    without.extend(
        state
            .input
            .answers_by_tool_only()
            .then_some(Parameter::Tools),
    );
    let tried = PriorAttempts {
        calls: tries.calls,
        trimmed: tries.trimmed,
        without: &without,
        has_fallback: with_fallback && state.route.next(error).is_some(),
    };
    let turn_index = state.spending.counters.turns;
    let attempts = state.outbox.turn_attempts.get(&turn_index);
    let attempts = attempts.copied().unwrap_or(0);
    let retry_policy = RetryLimits {
        attempts_max: inference.call_attempts_max,
        inline_wait_max: inference.inline_wait_max,
        left: question.until.saturating_sub(state.spending.elapsed),
        fallback_on_refusal: inference.fallback_on_refusal,
        jitter_seed: u64::from(attempts) ^ stable_seed(state.input.run.id.as_str()),
    };
    retry_decision(error, tried, retry_policy, size)
}

/// Returns a higher output limit: once in a turn, within the window and the run's remaining tokens.
/// An agent has none.
fn longer(state: &LoopState<'_>, request: &Request, tries: &Tries) -> Option<u32> {
    let is_bounded = request.agent.is_some() || state.input.is_bounded_by_program();
    if is_bounded || tries.lengthened.is_some() {
        return None;
    }
    let used = request_size::tokens(request);
    let of_run = state
        .spending
        .budget
        .tokens_max
        .saturating_sub(state.spending.counters.usage.total_tokens());
    // Less a tenth, because we only estimate.
    let window = state
        .route
        .window_tokens()
        .map(|window| window - window / 10);
    let left = window
        .map_or(of_run, |window| window.min(of_run))
        .saturating_sub(used);
    longer_output_tokens(request.max_output_tokens, left)
}

/// Returns the wait until the run may return to this provider, if no fallback answers.
fn wait_without_fallback(
    state: &LoopState<'_>,
    question: &Question,
    tries: &Tries,
    error: &ProviderError,
) -> Option<Duration> {
    match decision(state, question, tries, error, false) {
        RetryDecision::Reschedule(wait) => Some(wait),
        _ => None,
    }
}

/// Returns the error of a run whose last provider failed: parked for the shortest wait that any of
/// them asked for, or failed.
async fn give_up(
    route: &mut RouteState<'_>,
    outbox: &mut Outbox<'_>,
    error: ProviderError,
    retry_in: Option<Duration>,
) -> Result<RunError, RunError> {
    outbox.commit(None).await?;
    if error.class == ErrorClass::Cancelled {
        return Ok(RunError::Cancelled);
    }
    Ok(route.verdict(error, retry_in))
}

/// Commits, then waits: other calls may need what the failed call releases, and a crash must not
/// lose it.
async fn pause(
    input: &RunInput<'_>,
    outbox: &mut Outbox<'_>,
    wait: Duration,
) -> Result<(), RunError> {
    outbox.commit(None).await?;
    tokio::select! {
        () = input.deps.provider_health.wait(wait) => Ok(()),
        () = input.cancel.cancelled() => Err(RunError::Cancelled),
    }
}
