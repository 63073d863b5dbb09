//! A run as spans: the run itself, its calls of models, its calls of tools (OpenTelemetry semantic conventions for generative
//! AI, "GenAI agent spans" and "GenAI spans").

use super::otlp::{SpanKind, TraceSpan};
use crate::domain::{RunState, Timestamp, span_id, trace_id};
use crate::store::{CallStrip, RunStrip, TurnStrip};

/// Returns the spans of a run that has ended. What has no end is given that of the run.
pub(super) fn run_spans(strip: &RunStrip) -> Vec<TraceSpan> {
    let run = &strip.run;
    let end = run.finished_at.unwrap_or(run.created_at);
    let mut spans = vec![root(strip, end)];
    spans.extend(strip.turns.iter().map(|turn| turn_span(strip, turn, end)));
    spans.extend(strip.calls.iter().map(|call| call_span(strip, call, end)));
    spans
}

fn root(strip: &RunStrip, end: Timestamp) -> TraceSpan {
    let run = &strip.run;
    let mut span = TraceSpan {
        trace: trace_id(&run.id),
        id: span_id(&run.id, ""),
        parent: None,
        name: format!("invoke_agent {}", run.persona),
        kind: SpanKind::Internal,
        start: run.created_at,
        end,
        attributes: Vec::new(),
        error: None,
    };
    span.word("gen_ai.operation.name", "invoke_agent");
    span.word("gen_ai.agent.name", run.persona.as_str());
    span.word("gen_ai.conversation.id", run.thread.as_str());
    span.word("attache.run.id", run.id.as_str());
    span.word("attache.run.trigger", run.trigger.as_str());
    span.word("attache.run.state", run.state.as_str());
    if let Some(reason) = run.stop_reason {
        span.word("attache.run.stop_reason", reason.as_str());
    }
    span.number("attache.run.attempts", run.attempt.into());
    if run.state == RunState::Failed {
        let class = run.error_class.map_or("unknown", |class| class.as_str());
        span.fail(class);
    }
    span
}

fn turn_span(strip: &RunStrip, turn: &TurnStrip, end: Timestamp) -> TraceSpan {
    let run = &strip.run;
    let part = format!("turn {}/{}", turn.turn_index, turn.attempt);
    let mut span = TraceSpan {
        trace: trace_id(&run.id),
        id: span_id(&run.id, &part),
        parent: Some(span_id(&run.id, "")),
        name: format!("chat {}", turn.model),
        kind: SpanKind::Client,
        start: turn.started_at,
        end: turn.finished_at.unwrap_or(end),
        attributes: Vec::new(),
        error: None,
    };
    span.word("gen_ai.operation.name", "chat");
    if let Some(provider) = &run.provider {
        span.word("gen_ai.provider.name", provider);
    }
    span.word("gen_ai.request.model", &turn.model);
    span.number("gen_ai.usage.input_tokens", turn.input_tokens);
    span.number("gen_ai.usage.output_tokens", turn.output_tokens);
    if let Some(micros) = turn
        .cost_micros
        .and_then(|micros| u64::try_from(micros).ok())
    {
        span.number("attache.cost_micro_dollars", micros);
    }
    match (&turn.error_class, turn.finished_at) {
        (Some(class), _) => span.fail(class),
        (None, None) => span.fail("interrupted"),
        (None, Some(_)) => {}
    }
    span
}

fn call_span(strip: &RunStrip, call: &CallStrip, end: Timestamp) -> TraceSpan {
    let run = &strip.run;
    let mut span = TraceSpan {
        trace: trace_id(&run.id),
        id: span_id(&run.id, &format!("call {}", call.id)),
        parent: Some(span_id(&run.id, "")),
        name: format!("execute_tool {}", call.tool),
        kind: SpanKind::Internal,
        start: call.called_at,
        end: call.finished_at.unwrap_or(end),
        attributes: Vec::new(),
        error: None,
    };
    span.word("gen_ai.operation.name", "execute_tool");
    span.word("gen_ai.tool.name", &call.tool);
    span.word("gen_ai.tool.call.id", &call.id);
    match (call.ok, &call.error) {
        (Some(true), _) => {}
        (_, Some(code)) => span.fail(code),
        (Some(false), None) => span.fail("failed"),
        (None, None) => span.fail("interrupted"),
    }
    span
}
