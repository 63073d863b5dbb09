//! One provider call: its exact body is committed, then sent as committed; its answer or its failure is pending.
//!
//! Absent on purpose: what follows from a failure (`turn.rs`).

use super::circumstances::{Ended, Failure, millis};
use super::desk::RunError;
use super::ledger::Moment;
use super::providers::{
    self, Block, CallContext, LoopOwner, Phase, ProviderError, Response, Stop, ToolChoice,
};
use super::work::{Work, to_json};
use super::{purse, sessions, supervisor};
use crate::domain::{ErrorClass, sha256_hex};
use crate::store::{Entry, TurnAnswered, TurnFailed, TurnStarted};
use std::time::Duration;

/// Calls in one answer that are taken, if a run may not make more: each is two rows, and both are part of every request to
/// come, be it executed or not.
const CALLS_PER_ANSWER_MAX: usize = 128;

/// What is asked of the model in one turn.
pub struct Question {
    pub choice: ToolChoice,
    /// A word of the engine's, after everything that was said.
    pub note: Option<String>,
    /// Working time of the run at which it must be answered.
    pub until: Duration,
}

/// Makes the call where `work.route` goes. An answer has call ids of our own. Errors of the inner kind are recorded
/// with what they used; a body that cannot be made leaves no row, because nothing was sent.
pub async fn make(
    work: &mut Work<'_>,
    question: &Question,
) -> Result<Result<Response, ProviderError>, RunError> {
    sessions::prepare(work).await?;
    work.leave_out();
    let (turn_index, request) = (work.meter.turns, work.request(question.choice, question.note.clone()));
    let wire = match work.route.provider.wire_request(&request) {
        Ok(wire) => wire,
        Err(error) => return Ok(Err(error)),
    };
    let attempt = work.next_attempt(turn_index);
    let started = TurnStarted {
        turn_index,
        attempt,
        request_json: wire.clone(),
        request_sha256: sha256_hex(&[wire.as_bytes()]),
        provider: work.route.name.clone(),
        model: request.model.clone(),
        context: work.fresh_context.take(),
        advance: Some(purse::advance(work, &request, &wire, question.choice)?),
        config: (!work.is_config_kept).then(|| work.desk.config.snapshot.clone()),
        begun_json: Some(to_json(&work.begun())?),
    };
    purse::begin(work, started).await?;
    work.hindrances.clear();
    work.is_config_kept = true;
    let before = (work.meter.tool_calls, work.meter.tool_failures);
    crate::crash::crash_point!("R3");
    let answered = call(work, &wire, turn_index, question.until).await;
    crate::crash::crash_point!("R5", answered.is_ok());
    let answered = answered.and_then(|response| usable(work, response));
    Ok(match answered {
        Ok(response) => Ok(accept(work, (turn_index, attempt), before, response)),
        Err(error) => {
            fail(work, (turn_index, attempt), before, &error);
            Err(error)
        }
    })
}

/// How a call ended that began with so many calls of tools, and failed ones.
fn ended(work: &mut Work<'_>, before: (u32, u32), error: Option<&ProviderError>) -> Option<String> {
    work.look_at_clock(Moment::Answered);
    let (calls, failures) = work.desk.circumstances.unwatched();
    work.meter.tool_calls += calls;
    work.meter.tool_failures += failures;
    let ended = Ended {
        worked_ms: millis(work.elapsed()),
        calls: work.meter.tool_calls - before.0,
        failures: work.meter.tool_failures - before.1,
        error: error.map(Failure::from),
    };
    // Numbers and texts always have a JSON form.
    serde_json::to_string(&ended).ok()
}

async fn call(
    work: &mut Work<'_>,
    wire: &str,
    turn_index: u32,
    until: Duration,
) -> Result<Response, ProviderError> {
    let inference = &work.desk.config.inference;
    let context = CallContext {
        cancel: work.cancel.clone(),
        deadline: inference.call_timeout.min(work.left_until(until)),
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

/// An answer that says no more than an error would is one, with what it cost.
fn usable(work: &Work<'_>, response: Response) -> Result<Response, ProviderError> {
    let (calls, calls_max) = (response.calls().count(), work.budget().tool_calls_max as usize);
    let calls_max = calls_max.max(CALLS_PER_ANSWER_MAX);
    if calls > calls_max {
        let message = format!("the answer has {calls} calls of tools, and at most {calls_max} are taken");
        let used = Some(Box::new(response.usage));
        return Err(ProviderError {
            used,
            ..ProviderError::new(ErrorClass::Protocol, Phase::MidStream, message)
        });
    }
    let is_empty = response.text().trim().is_empty() && response.calls().next().is_none();
    let fault = match response.stop {
        Stop::ContextExhausted => Some((ErrorClass::ContextOverflow, "the answer did not fit the window")),
        // The room went into thinking. With a call there is something to go on with.
        Stop::MaxTokens if is_empty => {
            Some((ErrorClass::OutputLimit, "the answer came to its length limit before its first word"))
        }
        Stop::Refused if work.takes_refusals_elsewhere() => {
            Some((ErrorClass::ContentFilter, "the model refused to answer"))
        }
        // A fault of the provider on the first turn (cold starts do it); after tool calls it is a model with nothing
        // to add.
        Stop::EndTurn | Stop::Other(_) if is_empty && work.meter.turns == 0 => {
            Some((ErrorClass::Protocol, "the model answered with nothing at all"))
        }
        _ => None,
    };
    match fault {
        None => Ok(response),
        Some((class, message)) => {
            let used = Some(Box::new(response.usage));
            Err(ProviderError { used, ..ProviderError::new(class, Phase::MidStream, message) })
        }
    }
}

/// Gives the calls ids of our own, unique in the run, so that history is portable between providers.
fn accept(
    work: &mut Work<'_>,
    (turn_index, attempt): (u32, u32),
    before: (u32, u32),
    mut response: Response,
) -> Response {
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
    let (usage, lines) = purse::priced(work, &response);
    let ended_json = ended(work, before, None);
    work.meter.usage = work.meter.usage.plus(usage);
    work.meter.turns += 1;
    // A response that was folded from typed blocks always has a JSON form.
    let response_json = serde_json::to_string(&response).unwrap_or_default();
    work.pending.push(Entry::TurnAnswered(TurnAnswered {
        turn_index,
        attempt,
        response_json,
        usage,
        lines,
        worked: work.elapsed(),
        ended_json,
    }));
    response
}

fn fail(work: &mut Work<'_>, (turn_index, attempt): (u32, u32), before: (u32, u32), error: &ProviderError) {
    let ended_json = ended(work, before, Some(error));
    let used = error.used.as_deref().map(|used| purse::priced_failure(work, *used));
    if let Some((usage, _)) = &used {
        work.meter.usage = work.meter.usage.plus(*usage);
    }
    work.pending.push(Entry::TurnFailed(TurnFailed {
        turn_index,
        attempt,
        class: error.class,
        message: error.message.clone(),
        used,
        billing: purse::billing(error),
        worked: work.elapsed(),
        ended_json,
    }));
}
