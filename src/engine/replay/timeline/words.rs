//! Words of a timeline: rules, states, sums, durations.

use super::page::Tone;
use crate::domain::{Timestamp, Withheld};
use crate::store::UsageRecord;
use crate::text::one_line;
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

pub(in crate::replay) fn span_between(start: &str, end: &str) -> String {
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
