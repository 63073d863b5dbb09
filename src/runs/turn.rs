//! One turn: asks until there is an answer, or no option is left. `providers/retry.rs` decides on
//! failures, this module executes the decision.

use super::attempt::{self, Question};
use super::call_record::{BlockedBy, Failure};
use super::deps::RunError;
use super::work::Work;
use super::{sessions, trim};
use crate::domain::{ErrorClass, stable_seed};
use crate::providers::contract::retry::longer_output_tokens;
use crate::providers::{
    PriorAttempts, ProviderError, Request, Response, RetryDecision, RetryLimits, Size, ToolChoice,
    retry_decision,
};
use std::time::Duration;

/// Time for the final turn of a run that is out of time.
const FINAL_TURN_DURATION_MAX: Duration = Duration::from_secs(60);

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
    work: &mut Work<'_>,
    choice: ToolChoice,
    note: Option<String>,
) -> Result<Response, RunError> {
    let mut until = work.budget().duration_max;
    if choice == ToolChoice::None {
        until = until.max(work.elapsed() + FINAL_TURN_DURATION_MAX);
    }
    let question = Question {
        choice,
        note,
        until,
    };
    let mut tries = Tries::default();
    loop {
        let error = match call_or_rest(work, &question, &mut tries).await? {
            Ok(response) => return Ok(response),
            Err(error) => tries.of_more_room(error),
        };
        if sessions::starts_anew(work, &error).await? {
            continue;
        }
        tries.calls = tries.calls.saturating_add(1);
        match decide(work, &question, &mut tries, &error).await? {
            RetryDecision::RetryNow(wait) => pause(work, wait).await?,
            RetryDecision::TrimAndRetry { .. } => {}
            RetryDecision::Lengthen { max_output_tokens } => {
                tracing::info!(run = %work.run.id, route = %work.route, max_output_tokens, "the answer gets more room");
                work.lengthen(max_output_tokens);
                tries.lengthened = Some(error);
            }
            RetryDecision::Downgrade(parameter) => {
                tries.calls -= 1;
                tracing::info!(run = %work.run.id, route = %work.route, ?parameter, "refused; left out from now on");
                work.deps.provider_health.refused(&work.route, parameter);
            }
            RetryDecision::Fallback => {
                let retry_in = wait_without_fallback(work, &question, &tries, &error);
                work.fall_back(error, retry_in);
                tries = Tries::default();
            }
            RetryDecision::Reschedule(wait) => return Err(give_up(work, error, Some(wait)).await?),
            RetryDecision::Fail => return Err(give_up(work, error, None).await?),
        }
    }
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
    work: &mut Work<'_>,
    question: &Question,
    tries: &mut Tries,
) -> Result<Result<Response, ProviderError>, RunError> {
    let provider_health = &work.deps.provider_health;
    let name = work.route.name.clone();
    if let Err(resting) = provider_health.admit(&name, std::mem::take(&mut work.insists)) {
        tries.calls = u32::MAX;
        work.blocked_by.push(BlockedBy::Rest {
            provider: name,
            error: Failure::from(&resting),
        });
        return Ok(Err(resting));
    }
    let made = attempt::make(work, question).await;
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
    work: &mut Work<'_>,
    question: &Question,
    tries: &mut Tries,
    error: &ProviderError,
) -> Result<RetryDecision, RunError> {
    match decision(work, question, tries, error, true) {
        RetryDecision::TrimAndRetry { target_tokens } => {
            tries.trimmed = true;
            match trim::to_fit(work, target_tokens, &error.message).await? {
                true => Ok(RetryDecision::TrimAndRetry { target_tokens }),
                false => Ok(decision(work, question, tries, error, true)),
            }
        }
        decided => Ok(decided),
    }
}

fn decision(
    work: &Work<'_>,
    question: &Question,
    tries: &Tries,
    error: &ProviderError,
    with_fallback: bool,
) -> RetryDecision {
    let inference = &work.deps.config.inference;
    let request = work.request(question.choice, question.note.clone());
    let size = Size {
        used_tokens: trim::tokens(&request),
        max_output_tokens: u64::from(request.max_output_tokens),
        longer_output_tokens: longer(work, &request, tries),
        window_tokens: work.route.window_tokens(),
    };
    let tried = PriorAttempts {
        calls: tries.calls,
        trimmed: tries.trimmed,
        without: &request.without,
        has_fallback: with_fallback && work.chain.next(&work.route, error).is_some(),
    };
    let retry_policy = RetryLimits {
        attempts_max: inference.call_attempts_max,
        inline_wait_max: inference.inline_wait_max,
        left: question.until.saturating_sub(work.elapsed()),
        fallback_on_refusal: inference.fallback_on_refusal,
        jitter_seed: u64::from(work.attempts_of(work.counters.turns))
            ^ stable_seed(work.run.id.as_str()),
    };
    retry_decision(error, tried, retry_policy, size)
}

/// Returns a higher output limit: once in a turn, within the window and the run's remaining tokens.
/// An agent has none.
fn longer(work: &Work<'_>, request: &Request, tries: &Tries) -> Option<u32> {
    if request.agent.is_some() || tries.lengthened.is_some() {
        return None;
    }
    let used = trim::tokens(request);
    let of_run = work
        .budget()
        .tokens_max
        .saturating_sub(work.counters.usage.total_tokens());
    // Less a tenth, because we only estimate.
    let window = work
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
    work: &Work<'_>,
    question: &Question,
    tries: &Tries,
    error: &ProviderError,
) -> Option<Duration> {
    match decision(work, question, tries, error, false) {
        RetryDecision::Reschedule(wait) => Some(wait),
        _ => None,
    }
}

/// Returns the error of a run whose last provider failed: parked for the shortest wait that any of
/// them asked for, or failed.
async fn give_up(
    work: &mut Work<'_>,
    error: ProviderError,
    retry_in: Option<Duration>,
) -> Result<RunError, RunError> {
    work.commit(None).await?;
    if error.class == ErrorClass::Cancelled {
        return Ok(RunError::Cancelled);
    }
    Ok(work.chain.verdict(&work.route, error, retry_in))
}

/// Commits, then waits: other calls may need what the failed call releases, and a crash must not
/// lose it.
async fn pause(work: &mut Work<'_>, wait: Duration) -> Result<(), RunError> {
    work.commit(None).await?;
    tokio::select! {
        () = work.deps.provider_health.wait(wait) => Ok(()),
        () = work.cancel.cancelled() => Err(RunError::Cancelled),
    }
}
