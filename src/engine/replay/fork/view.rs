//! Record of a fork as it grows: the inherited part of its run, and every entry of its own. Pure.

use crate::domain::{Timestamp, TokenUsage};
use crate::replay::{
    CallRecord, ErrorRecord, MailRecord, MessageRecord, OutputRecord, RunRecord, RunRow, TurnRecord,
};
use crate::store::{
    JournalEntry, JournalSoFar, MessageOutcome, NewOutbound, RunFinished, Step, StepKind,
    TurnStarted,
};
use serde_json::Value;

/// Disposition of a mail that a fork would have sent.
pub(super) const DRAFT: &str = "draft";

/// Builds the initial record of a fork: the run's own up to the turn, with the fork's results.
pub(super) fn begin(
    record: &RunRecord,
    id: &str,
    at_turn: u32,
    past: &JournalSoFar,
    now: &str,
) -> RunRecord {
    let is_past = |turn: Option<u32>| turn.is_some_and(|turn| turn < at_turn);
    let turns = record
        .turns
        .iter()
        .filter(|turn| is_past(Some(turn.turn_index)))
        .cloned()
        .collect();
    let mut calls: Vec<CallRecord> = record
        .calls
        .iter()
        .filter(|call| is_past(call.turn_index))
        .cloned()
        .collect();
    for step in past
        .steps
        .iter()
        .filter(|step| step.kind == StepKind::Result)
    {
        if let Some(call) = calls.iter_mut().find(|call| call.id == step.tool_call_id) {
            call.result = Some(value(&step.payload_json));
        }
    }
    let started = record.turns.iter().find(|turn| turn.turn_index == at_turn);
    let is_before =
        |mail: &&MailRecord| started.is_some_and(|turn| mail.message.received_at < turn.started_at);
    RunRecord {
        run: RunRow {
            id: id.to_owned(),
            state: "running".into(),
            attempt: 1,
            next_attempt_at: None,
            cancel_requested_at: None,
            stop_reason: None,
            error: None,
            // Usage of the fork alone.
            usage: TokenUsage::default().into(),
            created_at: now.to_owned(),
            started_at: Some(now.to_owned()),
            finished_at: None,
            ..record.run.clone()
        },
        turns,
        calls,
        mails: record.mails.iter().filter(is_before).cloned().collect(),
        output: None,
        hooks: Vec::new(),
        ..record.clone()
    }
}

/// Writes one entry into the record.
pub(super) fn write(record: &mut RunRecord, entry: &JournalEntry, at: Timestamp) {
    let now = at.to_string();
    match entry {
        JournalEntry::TurnStarted(started) => {
            (record.run.provider, record.run.model) =
                (Some(started.provider.clone()), Some(started.model.clone()));
            record.turns.push(started_turn(started, now));
        }
        JournalEntry::TurnAnswered(answered) => {
            end_turn(
                record,
                answered.turn_index,
                answered.attempt,
                "answered",
                answered.usage,
                now,
            );
            if let Some(turn) = record.turns.last_mut() {
                turn.response = Some(value(&answered.response_json));
            }
        }
        JournalEntry::TurnFailed(failed) => {
            let used = failed
                .used
                .as_ref()
                .map_or(TokenUsage::default(), |(used, _)| *used);
            end_turn(
                record,
                failed.turn_index,
                failed.attempt,
                "failed",
                used,
                now,
            );
            if let Some(turn) = record.turns.last_mut() {
                turn.error = Some(ErrorRecord {
                    class: failed.class.to_string(),
                    message: failed.message.clone(),
                });
            }
        }
        JournalEntry::Step(step) => write_step(record, step, now),
        JournalEntry::Mail(mail) => {
            record.mails.push(MailRecord {
                message: draft(record, mail, now),
                delivery: None,
            });
        }
        JournalEntry::Output(output) => {
            record.output = Some(OutputRecord {
                value: value(&output.json),
                schema_sha256: output.schema_sha256.clone(),
                repairs: output.repairs,
                created_at: now,
            });
        }
        // A fork asks nobody, and its calls show what would be remembered.
        JournalEntry::Ask(_)
        | JournalEntry::Memory(_)
        | JournalEntry::ApprovedBegun { .. }
        | JournalEntry::Summary(_)
        | JournalEntry::QueueSummary => {}
        JournalEntry::Finished(end) => finish(record, end, now),
    }
}

fn started_turn(started: &TurnStarted, now: String) -> TurnRecord {
    TurnRecord {
        turn_index: started.turn_index,
        attempt: started.attempt,
        state: "started".into(),
        provider: started.provider.clone(),
        model: started.model.clone(),
        usage: TokenUsage::default().into(),
        error: None,
        started_at: now,
        finished_at: None,
        request_sha256: started.request_sha256.clone(),
        request: value(&started.request_json),
        request_text: None,
        response: None,
        response_text: None,
        pruned_at: None,
        redacted_at: None,
    }
}

pub(super) fn finish(record: &mut RunRecord, end: &RunFinished, now: String) {
    record.run.state = end.state.to_string();
    record.run.stop_reason = Some(end.stop_reason.to_string());
    record.run.error = end.error.as_ref().map(|(class, message)| ErrorRecord {
        class: class.to_string(),
        message: message.clone(),
    });
    record.run.finished_at = Some(now);
}

/// Ends a turn. The call is the last of the record: a run makes one at a time.
fn end_turn(
    record: &mut RunRecord,
    index: u32,
    attempt: u32,
    state: &str,
    used: TokenUsage,
    now: String,
) {
    let found = record.turns.iter().position(|turn| {
        (turn.turn_index, turn.attempt, turn.state.as_str()) == (index, attempt, "started")
    });
    if let Some(place) = found {
        let mut turn = record.turns.remove(place);
        (turn.state, turn.usage, turn.finished_at) = (state.into(), used.into(), Some(now));
        record.turns.push(turn);
    }
    let sum = &mut record.run.usage;
    sum.input_tokens += used.input_tokens;
    sum.cache_read_tokens += used.cache_read_tokens;
    sum.cache_write_tokens += used.cache_write_tokens;
    sum.output_tokens += used.output_tokens;
    sum.reasoning_tokens += used.reasoning_tokens;
    if let Some(cost) = used.cost_micros {
        sum.cost_micros = Some(sum.cost_micros.unwrap_or(0).saturating_add(cost));
    }
}

fn write_step(record: &mut RunRecord, step: &Step, now: String) {
    match step.kind {
        StepKind::Call => {
            let asking = record.turns.iter().rfind(|turn| turn.state == "answered");
            record.calls.push(CallRecord {
                id: step.tool_call_id.clone(),
                tool: step.tool_name.clone(),
                executor: step.executor.as_str().to_owned(),
                turn_index: asking.map(|turn| turn.turn_index),
                call: value(&step.payload_json),
                result: None,
                called_at: now,
                finished_at: None,
            });
        }
        StepKind::Result => {
            if let Some(call) = record
                .calls
                .iter_mut()
                .rfind(|call| call.id == step.tool_call_id)
            {
                (call.result, call.finished_at) = (Some(value(&step.payload_json)), Some(now));
            }
        }
    }
}

fn draft(record: &RunRecord, mail: &NewOutbound, now: String) -> MessageRecord {
    let content = &mail.content;
    MessageRecord {
        id: mail.id.to_string(),
        direction: "outbound".into(),
        rfc_message_id: content.rfc_message_id.clone(),
        in_reply_to: content.in_reply_to.clone(),
        sender: content.sender.clone(),
        recipients: value(&content.recipients_json),
        subject: content.subject.clone(),
        text: content.text_body.clone(),
        fresh_text: content.fresh_text.clone(),
        received_at: now,
        trust: content.trust.as_str().to_owned(),
        trust_basis: None,
        authentication_results: None,
        disposition: match &mail.outcome {
            MessageOutcome::Send { .. } => DRAFT.into(),
            MessageOutcome::Withhold(rule) => format!("withheld:{rule}"),
        },
        run: Some(record.run.id.clone()),
        attachments: Vec::new(),
    }
}

fn value(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|_| Value::String(json.to_owned()))
}
