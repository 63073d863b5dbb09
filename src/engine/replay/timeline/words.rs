//! Words of a timeline: rules, states, sums, durations.

use super::page::Tone;
use crate::domain::{Timestamp, Withheld};
use crate::replay::{
    AttachmentRecord, CallRecord, ContextRecord, MessageRecord, OutputRecord, TurnRecord,
};
use crate::store::UsageRecord;
use crate::text::{one_line, plural};
use serde_json::Value;
use std::time::Duration;

/// Describes the rule by which a message was filed or withheld.
pub(in crate::replay) fn outcome_of(rule: &str) -> String {
    let words = match Withheld::parse(rule) {
        // Letters are filed by rules of these names, too.
        None | Some(Withheld::RateLimited | Withheld::Alternations | Withheld::HopLimit) => {
            return one_line(rule);
        }
        Some(rule) => rule.why(),
    };
    format!("{words} ({rule})")
}

/// Returns the kind of a message.
pub(in crate::replay) fn kind_of(message: &MessageRecord) -> &'static str {
    match message.direction.as_str() {
        "inbound" => "letter",
        "outbound" => "mail",
        _ => "prompt",
    }
}

pub(in crate::replay) fn attached(file: &AttachmentRecord) -> String {
    let (name, kind, size) = (&file.filename, &file.content_type, file.size_bytes);
    format!("{name} ({kind}, {size} bytes)")
}

pub(in crate::replay) fn used(context: &ContextRecord) -> String {
    let (used, all) = (context.used_tokens, context.budget_tokens);
    format!("profile {}, about {used} of {all} tokens", context.profile)
}

/// Returns the name of a turn, and which try it is after the first.
pub(in crate::replay) fn turn_name(turn: &TurnRecord) -> String {
    match turn.attempt {
        0 | 1 => format!("turn {}", turn.turn_index),
        attempt => format!("turn {}, try {attempt}", turn.turn_index),
    }
}

/// Returns the tool of a call, and whose it is where it is no tool of ours.
pub(in crate::replay) fn tool_name(call: &CallRecord) -> String {
    match call.executor.as_str() {
        "agent" => format!("{} (the agent's own)", call.tool),
        _ => call.tool.clone(),
    }
}

pub(in crate::replay) fn repairs(output: &OutputRecord) -> String {
    format!(
        "fits its schema, {}",
        plural(output.repairs as usize, "repair")
    )
}

/// Returns the time that something took; empty: it has not ended.
pub(in crate::replay) fn took(start: &str, end: Option<&str>) -> String {
    end.map(|end| span_between(start, end)).unwrap_or_default()
}

pub(in crate::replay) fn people(recipients: &Value, label: &str) -> String {
    let listed = recipients[label]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    listed
        .iter()
        .filter_map(Value::as_str)
        .collect::<Vec<_>>()
        .join(", ")
}

pub(super) fn state_tone(state: &str) -> Tone {
    match state {
        "succeeded" | "done" | "delivered" => Tone::Good,
        "failed" | "cancelled" | "held" | "deferred" => Tone::Bad,
        _ => Tone::Plain,
    }
}

pub(in crate::replay) fn tokens(usage: &UsageRecord) -> String {
    let cached = match usage.cache_read_tokens {
        0 => String::new(),
        cached => format!(" (+{cached} cached)"),
    };
    let cost = match usage.cost_micros {
        None => String::new(),
        Some(micros) => format!(
            ", ${}.{:06}",
            micros / 1_000_000,
            (micros % 1_000_000).abs()
        ),
    };
    format!(
        "{} tokens in{cached}, {} out{cost}",
        usage.input_tokens, usage.output_tokens
    )
}

/// Formats a short JSON value: a string as it is, the first key of an object.
pub(in crate::replay) fn word(value: &Value) -> String {
    match value {
        Value::String(word) => one_line(word),
        Value::Object(members) => members
            .iter()
            .next()
            .map(|(key, of)| format!("{key}: {of}"))
            .unwrap_or_default(),
        _ => String::new(),
    }
}

/// Formats `+12 ms` from the start of the run.
pub(in crate::replay) fn offset(start: &str, at: &str) -> String {
    format!("+{}", span_between(start, at))
}

pub(super) fn span_between(start: &str, end: &str) -> String {
    match (Timestamp::parse(start), Timestamp::parse(end)) {
        (Some(start), Some(end)) => formatted(end.since(start)),
        _ => String::new(),
    }
}

/// Formats a duration in its most readable unit.
fn formatted(span: Duration) -> String {
    let ms = span.as_millis();
    match ms {
        0..10_000 => format!("{ms} ms"),
        10_000..120_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        120_000..7_200_000 => format!("{} min", ms / 60_000),
        _ => format!("{} h", ms / 3_600_000),
    }
}
