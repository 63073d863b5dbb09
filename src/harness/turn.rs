//! One turn: the request is committed, sent as committed, and answered or failed; retries by error class.

use super::desk::RunError;
use super::providers::{
    self, Block, CallContext, LoopOwner, Phase, ProviderError, Request, Response, RetryDecision, Stop,
    ToolChoice, retry_decision,
};
use super::purse;
use super::work::Work;
use super::{sessions, supervisor};
use crate::domain::{ErrorClass, Usage, sha256_hex, stable_seed};
use crate::store::{Entry, TurnAnswered, TurnFailed, TurnStarted};
use std::time::Duration;

/// Time for the last words of a run that is out of time.
const FAREWELL_DURATION_MAX: Duration = Duration::from_secs(60);

/// Asks the model once; gives its answer with call ids of our own. The answer is pending, not yet committed: it
/// commits with what follows from it.
pub async fn ask(
    work: &mut Work<'_>,
    choice: ToolChoice,
    note: Option<String>,
) -> Result<Response, RunError> {
    let inference = &work.desk.config.inference;
    sessions::prepare(work).await?;
    let (turn_index, mut request) = (work.meter.turns, work.request(choice, note.clone()));
    let mut wire = wire_of(work, &request)?;
    let mut attempt = work.turn_attempts.get(&turn_index).copied().unwrap_or(0);
    let mut tries = 0;
    loop {
        attempt += 1;
        tries += 1;
        let context = work.fresh_context.take();
        let started = TurnStarted {
            turn_index,
            attempt,
            request_json: wire.clone(),
            request_sha256: sha256_hex(&[wire.as_bytes()]),
            provider: work.route.name.clone(),
            model: request.model.clone(),
            context,
        };
        work.commit(Some(Entry::TurnStarted(started))).await?;
        let answered = call(work, &wire, turn_index, choice).await.and_then(refuse_emptiness(turn_index));
        let error = match answered {
            Ok(response) => return Ok(accept(work, turn_index, attempt, response)),
            Err(error) => error,
        };
        let (class, message) = (error.class, error.message.clone());
        work.pending.push(Entry::TurnFailed(TurnFailed { turn_index, attempt, class, message }));
        if class == ErrorClass::Cancelled {
            work.commit(None).await?;
            return Err(RunError::Cancelled);
        }
        if sessions::starts_anew(work, &error).await? {
            sessions::prepare(work).await?;
            request = work.request(choice, note.clone());
            wire = wire_of(work, &request)?;
            tries -= 1;
            continue;
        }
        let seed = u64::from(attempt) ^ stable_seed(work.run.id.as_str());
        let waits = inference.inline_wait_max;
        match retry_decision(&error, tries, inference.call_attempts_max, waits, seed) {
            RetryDecision::RetryNow(wait) => pause(work, wait).await?,
            RetryDecision::Reschedule(wait) => {
                work.commit(None).await?;
                return Err(RunError::Provider { source: error, retry_in: Some(wait) });
            }
            RetryDecision::Fail => {
                work.commit(None).await?;
                return Err(RunError::Provider { source: error, retry_in: None });
            }
        }
    }
}

fn wire_of(work: &Work<'_>, request: &Request) -> Result<String, RunError> {
    let wire = work.route.provider.wire_request(request);
    wire.map_err(|source| RunError::Provider { source, retry_in: None })
}

async fn call(
    work: &mut Work<'_>,
    wire: &str,
    turn_index: u32,
    choice: ToolChoice,
) -> Result<Response, ProviderError> {
    let inference = &work.desk.config.inference;
    let left = work.budget().duration_max.saturating_sub(work.elapsed());
    let left = if choice == ToolChoice::None { left.max(FAREWELL_DURATION_MAX) } else { left };
    let context = CallContext {
        cancel: work.cancel.clone(),
        deadline: inference.call_timeout.min(left),
        idle: inference.idle_timeout,
        run_id: work.run.id.to_string(),
        turn_index,
        model: work.route.model.clone(),
        now: work.desk.clock.now(),
        capture: None,
    };
    match work.route.loop_owner() {
        LoopOwner::Engine => providers::complete(work.route.provider, wire, context).await,
        LoopOwner::Agent => supervisor::complete(work, wire, context).await,
    }
}

/// An answer with neither text nor calls is a fault of the provider on the first turn (cold starts do it); after
/// tool calls it is a model with nothing to add.
fn refuse_emptiness(turn_index: u32) -> impl Fn(Response) -> Result<Response, ProviderError> {
    move |response| {
        let is_empty = response.text().trim().is_empty() && response.calls().next().is_none();
        if is_empty && turn_index == 0 && matches!(response.stop, Stop::EndTurn | Stop::Other(_)) {
            let message = "the model answered with nothing at all";
            return Err(ProviderError::new(ErrorClass::Protocol, Phase::MidStream, message));
        }
        Ok(response)
    }
}

/// Gives the calls ids of our own, unique in the run, so that history is portable between providers.
fn accept(work: &mut Work<'_>, turn_index: u32, attempt: u32, mut response: Response) -> Response {
    let mut position = 0;
    for block in &mut response.blocks {
        if let Block::ToolCall { id, .. } = block {
            *id = format!("c{turn_index}_{position}");
            position += 1;
        }
        if let Block::ToolCall { provider_state: Some(state), .. }
        | Block::Thinking { provider_state: Some(state), .. } = block
        {
            state.model.clone_from(&work.route.model);
        }
    }
    let (usage, cost_source) = purse::priced(work, Usage::from(response.usage));
    work.meter.turns += 1;
    work.meter.usage = work.meter.usage.plus(usage);
    // A response that was folded from typed blocks always has a JSON form.
    let response_json = serde_json::to_string(&response).unwrap_or_default();
    work.pending.push(Entry::TurnAnswered(TurnAnswered {
        turn_index,
        attempt,
        response_json,
        usage,
        cost_source,
    }));
    response
}

async fn pause(work: &Work<'_>, wait: Duration) -> Result<(), RunError> {
    tokio::select! {
        () = tokio::time::sleep(wait) => Ok(()),
        () = work.cancel.cancelled() => Err(RunError::Cancelled),
    }
}
