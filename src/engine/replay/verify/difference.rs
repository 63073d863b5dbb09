//! First difference between a replayed run and its record, and the cause of it.

use super::Fault;
use super::record::{Record, RecordedCall};
use crate::config::Config;
use crate::context::prompt::shown_result;
use crate::domain::sha256_hex;
use crate::store::StepKind;
use crate::text::shortened;
use serde::Serialize;
use serde_json::Value;
use std::fmt;

/// Characters of a value that are shown.
const SHOWN_CHARS: usize = 120;
/// Characters before the first difference of two texts that are shown.
const LEAD_CHARS: usize = 30;

/// First difference of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub turn: u32,
    /// Attempt of the turn.
    pub attempt: u32,
    /// Cause: `resolver NAME …`, `step N (result of TOOL)`, `answer of turn N`, `engine …` or
    /// `record …`.
    pub cause: String,
    #[serde(flatten)]
    pub place: DifferencePlace,
}

/// First differing value of two bodies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DifferencePlace {
    /// JSON Pointer; empty: the whole body.
    pub path: String,
    /// Recorded value, shortened.
    pub recorded: String,
    pub replayed: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DifferencePlace {
            path,
            recorded,
            replayed,
        } = &self.place;
        write!(
            f,
            "turn {}, attempt {}: {}",
            self.turn, self.attempt, self.cause
        )?;
        let at = if path.is_empty() {
            String::new()
        } else {
            format!(" at `{path}`")
        };
        write!(f, "{at}: recorded {recorded}, now {replayed}")
    }
}

/// A difference as the recorded environment finds it.
pub struct Found {
    /// Index of the call.
    pub call: usize,
    pub what: What,
}

pub enum What {
    /// A body that differs from the recorded one.
    Request { replayed: String },
    /// Any other difference: its cause, the recorded value and the replayed one.
    Else {
        cause: String,
        recorded: String,
        replayed: String,
    },
}

impl Found {
    /// Adds the place and the cause.
    pub async fn explained(self, record: &Record, config: &Config) -> Result<Difference, Fault> {
        let turn = &record.calls[self.call].turn;
        let (turn_index, attempt) = (turn.turn_index, turn.attempt);
        let replayed = match self.what {
            What::Request { replayed } => replayed,
            What::Else {
                cause,
                recorded,
                replayed,
            } => {
                let place = DifferencePlace {
                    path: String::new(),
                    recorded,
                    replayed,
                };
                return Ok(Difference {
                    turn: turn_index,
                    attempt,
                    cause,
                    place,
                });
            }
        };
        let place = first_place(&turn.request_json, &replayed);
        let cause = match record.context_of(self.call) {
            Some(context) => context.cause(config).await?,
            None => None,
        };
        let cause = match cause {
            Some(found) if found.source.is_empty() => {
                format!("resolver {}: {}", found.resolver, found.what)
            }
            Some(found) => format!(
                "resolver {} ({}): {}",
                found.resolver, found.source, found.what
            ),
            None => said_otherwise(record, self.call, &replayed)
                .unwrap_or_else(|| "engine: the request is put together otherwise".to_owned()),
        };
        Ok(Difference {
            turn: turn_index,
            attempt,
            cause,
            place,
        })
    }
}

impl Difference {
    /// Builds a difference of the engine, before or after a call.
    pub fn of_engine(record: &Record, call: usize, recorded: &str, replayed: &str) -> Self {
        let turn = &record.calls[call.min(record.calls.len() - 1)].turn;
        Difference {
            turn: turn.turn_index,
            attempt: turn.attempt,
            cause: "engine: it decides otherwise".to_owned(),
            place: DifferencePlace {
                path: String::new(),
                recorded: recorded.to_owned(),
                replayed: replayed.to_owned(),
            },
        }
    }
}

/// Returns a request, or the options of the run, that do not match their stored digest.
pub fn damage(record: &Record) -> Option<Difference> {
    let request = |call: &RecordedCall| sha256_hex(&[call.turn.request_json.as_bytes()]);
    let changed = |call: &RecordedCall,
                   what: &str,
                   recorded: Option<&str>,
                   replayed: Option<&str>| Difference {
        turn: call.turn.turn_index,
        attempt: call.turn.attempt,
        cause: format!("record: {what} changed in the database"),
        place: DifferencePlace {
            path: String::new(),
            recorded: recorded.map_or_else(
                || "as usual".to_owned(),
                |digest| format!("sha256 {digest}"),
            ),
            replayed: replayed.map_or_else(
                || "as usual".to_owned(),
                |digest| format!("sha256 {digest}"),
            ),
        },
    };
    if let Some(call) = record
        .calls
        .iter()
        .find(|call| request(call) != call.turn.request_sha256)
    {
        let (then, now) = (call.turn.request_sha256.as_str(), request(call));
        return Some(changed(
            call,
            "the recorded request was",
            Some(then),
            Some(&now),
        ));
    }
    let now = record.run_options.sha256.as_deref();
    let call = record
        .calls
        .iter()
        .find(|call| call.begun.run_options.as_deref() != now)?;
    Some(changed(
        call,
        "the terms of the run were",
        call.begun.run_options.as_deref(),
        now,
    ))
}

/// Returns the step or the answer before a call that is in the replayed request and not in the
/// recorded one.
fn said_otherwise(record: &Record, call: usize, replayed: &str) -> Option<String> {
    let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap_or(Value::Null);
    let (then, now) = (
        parse(&record.calls[call].turn.request_json),
        parse(replayed),
    );
    let is_new = |text: &str| !text.is_empty() && holds(&now, text) && !holds(&then, text);
    let results = record
        .steps
        .iter()
        .enumerate()
        .filter(|(_, step)| step.kind == StepKind::Result);
    for (place, step) in results {
        if is_new(&shown_result(&step.payload_json)) {
            return Some(format!("step {place} (result of {})", step.tool_name));
        }
    }
    for earlier in &record.calls[..call] {
        let Some(response) = &earlier.response else {
            continue;
        };
        let is_other = response.blocks.iter().any(|block| {
            let block = serde_json::to_value(block).unwrap_or_default();
            leaves(&block).iter().any(|text| is_new(text))
        });
        if is_other {
            return Some(format!("answer of turn {}", earlier.turn.turn_index));
        }
    }
    None
}

/// Reports whether a value contains this text: in a text of its own, or as JSON.
fn holds(value: &Value, text: &str) -> bool {
    let as_json = serde_json::from_str::<Value>(text)
        .ok()
        .filter(|json| json.is_object() || json.is_array());
    holds_either(value, text, as_json.as_ref())
}

fn holds_either(value: &Value, text: &str, json: Option<&Value>) -> bool {
    if json.is_some_and(|json| json == value) {
        return true;
    }
    match value {
        Value::String(found) => found.contains(text),
        Value::Array(items) => items.iter().any(|item| holds_either(item, text, json)),
        Value::Object(members) => members
            .values()
            .any(|member| holds_either(member, text, json)),
        _ => false,
    }
}

/// Returns the texts in a value.
fn leaves(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(leaves).collect(),
        Value::Object(members) => members.values().flat_map(leaves).collect(),
        _ => Vec::new(),
    }
}

/// Returns the first place at which two bodies differ.
pub fn first_place(recorded: &str, replayed: &str) -> DifferencePlace {
    let parsed = (
        serde_json::from_str::<Value>(recorded),
        serde_json::from_str::<Value>(replayed),
    );
    if let (Ok(then), Ok(now)) = &parsed
        && let Some((path, then, now)) = parting(then, now)
    {
        let (recorded, replayed) = shown_apart(then, now);
        return DifferencePlace {
            path,
            recorded,
            replayed,
        };
    }
    let (recorded, replayed) = apart(recorded, replayed);
    DifferencePlace {
        path: String::new(),
        recorded,
        replayed,
    }
}

type Parting<'v> = (String, Option<&'v Value>, Option<&'v Value>);

fn parting<'v>(then: &'v Value, now: &'v Value) -> Option<Parting<'v>> {
    let below = |key: &str, found: Parting<'v>| {
        let key = key.replace('~', "~0").replace('/', "~1");
        (format!("/{key}{}", found.0), found.1, found.2)
    };
    match (then, now) {
        (Value::Object(then), Value::Object(now)) => {
            let keys = then
                .keys()
                .chain(now.keys().filter(|key| !then.contains_key(*key)));
            keys.into_iter()
                .find_map(|key| match (then.get(key), now.get(key)) {
                    (Some(then), Some(now)) => parting(then, now).map(|found| below(key, found)),
                    (then, now) => Some(below(key, (String::new(), then, now))),
                })
        }
        (Value::Array(then), Value::Array(now)) => {
            (0..then.len().max(now.len())).find_map(|at| match (then.get(at), now.get(at)) {
                (Some(then), Some(now)) => {
                    parting(then, now).map(|found| below(&at.to_string(), found))
                }
                (then, now) => Some(below(&at.to_string(), (String::new(), then, now))),
            })
        }
        (then, now) => (then != now).then_some((String::new(), Some(then), Some(now))),
    }
}

fn shown_apart(then: Option<&Value>, now: Option<&Value>) -> (String, String) {
    let shown =
        |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
    match (then, now) {
        (Some(Value::String(then)), Some(Value::String(now))) => apart(then, now),
        (then, now) => (
            shortened(&shown(then), SHOWN_CHARS),
            shortened(&shown(now), SHOWN_CHARS),
        ),
    }
}

/// Returns two texts from shortly before their first difference.
fn apart(then: &str, now: &str) -> (String, String) {
    let same = then
        .chars()
        .zip(now.chars())
        .take_while(|(a, b)| a == b)
        .count();
    let from = same.saturating_sub(LEAD_CHARS);
    let cut = |text: &str| {
        let rest: String = text.chars().skip(from).collect();
        format!(
            "{:?}",
            shortened(
                &if from > 0 { format!("…{rest}") } else { rest },
                SHOWN_CHARS
            )
        )
    };
    (cut(then), cut(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_place_is_named_with_both_values() {
        let place = first_place(
            r#"{"a":[1,{"b/c":"same old"}],"z":1}"#,
            r#"{"a":[1,{"b/c":"same new"}],"z":2}"#,
        );
        assert_eq!(
            (place.path.as_str(), place.recorded.as_str()),
            ("/a/1/b~1c", "\"same old\"")
        );
        assert_eq!(
            first_place(r#"{"a":1}"#, r#"{"a":1,"b":null}"#).recorded,
            "nothing"
        );
        let same_json = first_place(r#"{"a":1}"#, r#"{"a": 1}"#);
        assert_eq!(
            (same_json.path.as_str(), same_json.replayed.as_str()),
            ("", r#""{\"a\": 1}""#)
        );
    }
}
