//! One provider call: its exact body is committed, then sent as committed; its answer or its
//! failure is left pending.
//!
//! Absent on purpose: what follows from a failure (`turn.rs`).

use super::fallback::RouteState;
use crate::domain::ErrorClass;
use crate::providers::contract::accumulate::call_id;
use crate::providers::contract::thoughts;
use crate::providers::{
    self, Block, CallContext, Event, FinishReason, Parameter, Phase, ProviderError, Response,
    ToolArgs, ToolChoice,
};
use crate::runs::agents::{session, supervisor};
use crate::runs::budget::run_spending::RunSpending;
use crate::runs::budget::{cost, reservation};
use crate::runs::checkpoint::to_json;
use crate::runs::error::RunError;
use crate::runs::provider_health::Moment;
use crate::runs::record::call_record::{CallFailure, Ended, millis};
use crate::runs::said::text_calls::{self, TextCalls};
use crate::runs::state::{LoopState, RunInput};
use crate::store::{DigestedText, JournalEntry, TurnAnswered, TurnFailed, TurnStarted};
use serde_json::{Map, Value};
use std::time::Duration;

/// Tool calls accepted from one answer, unless the run may make more: each call is two rows, and
/// both are part of every later request, executed or not.
const CALLS_PER_ANSWER_MAX: usize = 128;

/// Input of one turn.
pub struct Question {
    pub choice: ToolChoice,
    /// Note of the engine, appended after the conversation.
    pub note: Option<String>,
    /// Working time of the run by which the model must have answered.
    pub until: Duration,
}

/// Makes the call on `state.route.present`. Call ids in the answer are the engine's own. Errors of the inner
/// kind are recorded with their usage; a body that cannot be encoded leaves no row, because nothing
/// was sent.
pub async fn make(
    state: &mut LoopState<'_>,
    question: &Question,
) -> Result<Result<Response, ProviderError>, RunError> {
    session::prepare(state).await?;
    state.route.leave_out(&*state.input.deps.provider_health);
    let (turn_index, request) = (
        state.spending.counters.turns,
        state.request(question.choice, question.note.clone()),
    );
    let encoded = match state.route.present.provider.encode_request(&request) {
        Ok(encoded) => encoded,
        Err(error) => return Ok(Err(error)),
    };
    let attempt = state.outbox.next_attempt(turn_index);
    let body = DigestedText::new(encoded);
    let encoded = body.text.clone();
    let started = TurnStarted {
        turn_index,
        attempt,
        request_json: encoded.clone(),
        request_sha256: body.sha256.clone(),
        earlier: state.outbox.last_request.clone(),
        provider: state.route.present.name.clone(),
        model: request.model.clone(),
        context: state.outbox.fresh_context.take(),
        reservation: Some(reservation::reservation(
            &state.input,
            &state.route.present,
            &state.spending,
            &request,
            &encoded,
            question.choice,
        )?),
        config: (!state.outbox.is_config_kept).then(|| state.input.deps.config.snapshot.clone()),
        begun_json: Some(to_json(&state.begun())?),
    };
    reservation::begin(state, started).await?;
    state.outbox.blocked_by.clear();
    (state.outbox.is_config_kept, state.outbox.last_request) = (true, Some(body));
    let before = (
        state.spending.counters.tool_calls,
        state.spending.counters.tool_failures,
    );
    crate::crash::crash_point!("R3");
    let is_free = request.tools.is_empty() || request.tool_choice == ToolChoice::None;
    let is_last = is_free && state.input.form.is_none() && state.route.present.is_model();
    // Hundreds of runs may wait for their models at once, each with what it needs and no more.
    drop(request);
    state.input.stream.asked(turn_index, attempt, is_last);
    let answered = call(state, &encoded, turn_index, question.until).await;
    crate::crash::crash_point!("R5", answered.is_ok());
    let answered = answered.and_then(|response| {
        usable(
            &state.input,
            &state.route,
            &state.spending,
            heard(state, question.choice, response),
        )
    });
    Ok(match answered {
        Ok(response) => Ok(accept(state, turn_index, attempt, before, response)),
        Err(error) => {
            fail(state, turn_index, attempt, before, &error);
            Err(error)
        }
    })
}

/// Returns the `ended_json` of a call; `before`: tool calls and failed tool calls when it began.
fn ended(
    input: &RunInput<'_>,
    spending: &mut RunSpending,
    before: (u32, u32),
    error: Option<&ProviderError>,
) -> Option<String> {
    spending.look_at_clock(&*input.deps.provider_health, Moment::Answered);
    let (calls, failures) = input.deps.provider_health.unwatched();
    spending.counters.tool_calls += calls;
    spending.counters.tool_failures += failures;
    let ended = Ended {
        worked_ms: millis(spending.elapsed),
        calls: spending.counters.tool_calls - before.0,
        failures: spending.counters.tool_failures - before.1,
        error: error.map(CallFailure::from),
    };
    // Numbers and texts always have a JSON form.
    serde_json::to_string(&ended).ok()
}

async fn call(
    state: &mut LoopState<'_>,
    encoded: &str,
    turn_index: u32,
    until: Duration,
) -> Result<Response, ProviderError> {
    let settings = state.input.settings(&state.route.present.name);
    let call_timeout = settings.call_timeout.value;
    let context = CallContext {
        cancel: state.input.cancel.clone(),
        deadline: call_timeout
            .min(until.saturating_sub(state.spending.worked(&*state.input.deps.clock))),
        idle: settings.idle_timeout.value,
        run_id: state.input.run.id.to_string(),
        turn_index,
        model: state.route.present.model.clone(),
        cache_key: state.conversation.first.cache_key.clone(),
        now: state.input.deps.clock.now(),
        capture: None,
    };
    match state.route.present.is_model() {
        true => {
            let see = |event: &Event| state.input.stream.see(event);
            providers::complete_seen(state.route.present.provider, encoded, context, see).await
        }
        false => supervisor::complete(state, encoded, context).await,
    }
}

/// Returns an answer with its reasoning and its calls in their places, however its server handed them through.
fn heard(state: &LoopState<'_>, choice: ToolChoice, response: Response) -> Response {
    let mut response = thoughts::separated(response);
    let may_call = choice == ToolChoice::Auto
        && !state.conversation.first.tools.is_empty()
        && !state.route.without.contains(&Parameter::Tools)
        && state.route.present.is_model();
    if !may_call || response.calls().next().is_some() {
        return response;
    }
    let fits = |name: &str, args: &Map<String, Value>| {
        state
            .input
            .tool(name)
            .is_some_and(|tool| tool.check_args(args).is_ok())
    };
    match text_calls::read(&response.text(), state.input.writes_letter(), &fits) {
        TextCalls::None => {}
        TextCalls::Unreadable => response.stop = FinishReason::MalformedCall,
        TextCalls::Calls { words, calls } => {
            response
                .blocks
                .retain(|block| !matches!(block, Block::Text { .. }));
            response
                .blocks
                .extend((!words.is_empty()).then(|| Block::text(words)));
            response
                .blocks
                .extend(calls.into_iter().zip(0..).map(|((name, args), position)| {
                    Block::ToolCall {
                        id: call_id("", position, |_| false),
                        name,
                        args: ToolArgs::from_object(args),
                        provider_state: None,
                    }
                }));
            response.stop = FinishReason::ToolUse;
        }
    }
    response
}

/// Turns an answer without usable content into an error that carries its cost.
fn usable(
    input: &RunInput<'_>,
    route: &RouteState<'_>,
    spending: &RunSpending,
    response: Response,
) -> Result<Response, ProviderError> {
    let (calls, calls_max) = (
        response.calls().count(),
        spending.budget.tool_calls_max as usize,
    );
    let calls_max = calls_max.max(CALLS_PER_ANSWER_MAX);
    if calls > calls_max {
        let message =
            format!("the answer has {calls} calls of tools, and at most {calls_max} are taken");
        let used = Some(Box::new(response.usage));
        return Err(ProviderError {
            used,
            ..ProviderError::new(ErrorClass::Protocol, Phase::MidStream, message)
        });
    }
    let is_empty = response.text().trim().is_empty() && response.calls().next().is_none();
    let fault = match response.stop {
        FinishReason::ContextExhausted => Some((
            ErrorClass::ContextOverflow,
            "the answer did not fit the window",
        )),
        // All output tokens went into thinking. With a tool call the run can go on.
        FinishReason::MaxTokens if is_empty && !input.is_bounded_by_program() => Some((
            ErrorClass::OutputLimit,
            "the answer came to its length limit before its first word",
        )),
        FinishReason::Refused if route.takes_refusals_elsewhere(&input.deps.config.inference) => {
            Some((ErrorClass::ContentFilter, "the model refused to answer"))
        }
        // A fault of the provider on the first turn (cold starts do it); after tool calls the model
        // has nothing to add.
        FinishReason::EndTurn | FinishReason::Other(_)
            if is_empty && spending.counters.turns == 0 =>
        {
            Some((
                ErrorClass::Protocol,
                "the model answered with nothing at all",
            ))
        }
        _ => None,
    };
    match fault {
        None => Ok(response),
        Some((class, message)) => {
            let used = Some(Box::new(response.usage));
            Err(ProviderError {
                used,
                ..ProviderError::new(class, Phase::MidStream, message)
            })
        }
    }
}

/// Replaces the call ids by ids that are unique in the run, so that history is portable between
/// providers.
fn accept(
    state: &mut LoopState<'_>,
    turn_index: u32,
    attempt: u32,
    before: (u32, u32),
    mut response: Response,
) -> Response {
    let LoopState {
        input,
        route,
        spending,
        outbox,
        ..
    } = state;
    let mut position = 0;
    for block in &mut response.blocks {
        if let Block::ToolCall { id, .. } = block {
            *id = format!("c{turn_index}_{position}");
            position += 1;
        }
        if let Block::ToolCall {
            provider_state: Some(origin),
            ..
        }
        | Block::Thinking {
            provider_state: Some(origin),
            ..
        } = block
        {
            origin.model.clone_from(&route.present.model);
        }
    }
    let (usage, lines) = cost::priced(input.deps, &route.present, &response);
    let ended_json = ended(input, spending, before, None);
    spending.counters.usage = spending.counters.usage.plus(usage);
    spending.counters.turns += 1;
    // A response that was folded from typed blocks always has a JSON form.
    let response_json = serde_json::to_string(&response).unwrap_or_default();
    outbox
        .pending
        .push(JournalEntry::TurnAnswered(TurnAnswered {
            turn_index,
            attempt,
            response_json,
            usage,
            lines,
            worked: spending.elapsed,
            ended_json,
        }));
    response
}

fn fail(
    state: &mut LoopState<'_>,
    turn_index: u32,
    attempt: u32,
    before: (u32, u32),
    error: &ProviderError,
) {
    let LoopState {
        input,
        route,
        spending,
        outbox,
        ..
    } = state;
    let ended_json = ended(input, spending, before, Some(error));
    let used = error
        .used
        .as_deref()
        .map(|used| cost::priced_failure(input.deps, &route.present, *used));
    if let Some((usage, _)) = &used {
        spending.counters.usage = spending.counters.usage.plus(*usage);
    }
    outbox.pending.push(JournalEntry::TurnFailed(TurnFailed {
        turn_index,
        attempt,
        class: error.class,
        message: error.message.clone(),
        used,
        billing: cost::billing(error),
        worked: spending.elapsed,
        ended_json,
    }));
}
