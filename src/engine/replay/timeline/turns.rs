//! Turns of a timeline, with their answers and calls.

use super::page::{Page, Tone, span};
use super::words::{offset, span_between, tokens, took, tool_name, turn_name, word};
use crate::replay::{CallRecord, RunRecord, TurnRecord};
use crate::text::one_line;

pub(super) fn write_turn(page: &mut Page, record: &RunRecord, turn: &TurnRecord) {
    let time = offset(&record.run.created_at, &turn.started_at);
    let name = turn_name(turn);
    let took = turn
        .finished_at
        .as_deref()
        .map(|end| format!(", {}", span_between(&turn.started_at, end)));
    let took = took.unwrap_or_default();
    let asked = format!("  {}/{}", one_line(&turn.provider), one_line(&turn.model));
    match (turn.state.as_str(), &turn.error) {
        ("answered", _) => {
            let stop = turn
                .response
                .as_ref()
                .map(|response| word(&response["stop"]))
                .unwrap_or_default();
            let said = format!("{asked}: {}{took}, {stop}", tokens(&turn.usage));
            page.pair(&time, &name, vec![span(Tone::Plain, said)]);
            write_said(page, record, turn);
        }
        ("failed", error) => {
            page.pair(
                &time,
                &name,
                vec![span(Tone::Plain, format!("{asked}{took}"))],
            );
            let error = error.as_ref();
            let why = error.map_or(String::new(), |e| {
                format!("{}: {}", e.class, one_line(&e.message))
            });
            page.inside(vec![span(Tone::Bad, format!("failed  {why}"))]);
        }
        _ => {
            page.pair(&time, &name, vec![span(Tone::Plain, asked)]);
            page.inside(vec![span(
                Tone::Bad,
                "no answer was recorded: it is under way, or the engine stopped",
            )]);
        }
    }
}

/// Writes the model's text of a turn, unless it is shown below as the reply.
fn write_said(page: &mut Page, record: &RunRecord, turn: &TurnRecord) {
    let Some(response) = &turn.response else {
        return;
    };
    let blocks = response["blocks"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    for block in blocks.iter().filter(|block| block["type"] == "thinking") {
        page.inside(vec![span(Tone::Faint, "thinks")]);
        page.quote(block["text"].as_str().unwrap_or_default());
    }
    let texts = blocks.iter().filter(|block| block["type"] == "text");
    let text: String = texts.filter_map(|block| block["text"].as_str()).collect();
    if text.trim().is_empty() {
        return;
    }
    let is_mailed = record
        .mails
        .iter()
        .any(|mail| mail.message.text.trim() == text.trim());
    page.inside(vec![span(
        Tone::Faint,
        if is_mailed {
            "says the text of the mail below"
        } else {
            "says"
        },
    )]);
    if !is_mailed {
        page.quote(&text);
    }
}

pub(super) fn write_call(page: &mut Page, time: &str, call: &CallRecord) {
    let took = took(&call.called_at, call.finished_at.as_deref());
    let rest = vec![
        span(Tone::Plain, format!("  {}", one_line(&tool_name(call)))),
        span(Tone::Faint, format!("  {took}")),
    ];
    page.pair(time, "call", rest);
    match call.call.get("args") {
        Some(args) => page.json(args),
        None => {
            page.inside(vec![span(Tone::Bad, "arguments that are not JSON")]);
            page.json(&call.call);
        }
    }
    if let Some(decision) = call.decision() {
        page.inside(vec![span(Tone::Faint, one_line(&decision))]);
    }
    match &call.result {
        None => page.inside(vec![span(Tone::Bad, "no result was recorded")]),
        Some(result) if call.succeeded() => {
            page.inside(vec![span(Tone::Good, "ok")]);
            page.json(result.get("result").unwrap_or(result));
        }
        Some(result) => {
            let error = &result["error"];
            let known = format!(
                "{}: {}",
                word(&error["code"]),
                one_line(error["message"].as_str().unwrap_or(""))
            );
            page.inside(vec![span(Tone::Bad, format!("failed  {known}"))]);
            // Of a tool that says itself that it failed: its words, which the model reads.
            if let Some(said) = result.get("result") {
                page.json(said);
            }
        }
    }
}
