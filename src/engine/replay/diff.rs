//! Comparison of two runs: the first difference, then all others, stage by stage. Pure.
//!
//! What must differ between two runs (ids, instants, durations) is removed first, unless everything
//! counts (`exact`). The order of the stages is the order of causes: a request can only differ
//! because something before it did.

mod normal;

use super::{CallRecord, ContextEntry, MailRecord, RunRecord, TurnRecord};
use normal::Normal;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeSet, VecDeque};

/// Characters of a difference that are shown of each side.
const EXCERPT_CHARS: usize = 160;
/// Characters before the first difference that are shown.
const LEAD_CHARS: usize = 40;

/// Comparison of two runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Comparison {
    pub same: bool,
    /// First difference, with its stage.
    pub first: Option<RunDifference>,
    /// Every stage of either run, in order.
    pub pairs: Vec<StepPair>,
}

/// One stage of both runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepPair {
    /// Name: `letter`, `options`, `context`, `turn 1 request`, `turn 1 answer`, `turn 1 call c1_0`,
    /// `turn 1 result c1_0`, `mail 1`, `output`, `end`.
    pub name: String,
    /// Differences; empty when both are equal.
    pub differences: Vec<RunDifference>,
}

/// One differing value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunDifference {
    /// Stage.
    pub pair: String,
    /// Place in the stage: a resolver, or a path of JSON such as `messages[2].content`.
    pub place: String,
    /// Text around the first difference; `None` where that run has no value there.
    pub a: Option<String>,
    pub b: Option<String>,
}

/// Compares two runs. `exact`: ids, instants and durations count too.
pub fn compare(a: &RunRecord, b: &RunRecord, exact: bool) -> Comparison {
    let (mut of_a, mut of_b) = (Normal::of(a, exact), Normal::of(b, exact));
    let mut view = DiffView { pairs: Vec::new() };
    view.values(
        "letter",
        Some(of_a.value(letter(a))),
        Some(of_b.value(letter(b))),
    );
    let options = |record: &RunRecord| record.slot.is_some().then(|| options(record));
    if a.slot.is_some() || b.slot.is_some() {
        view.values(
            "terms",
            options(a).map(|v| of_a.value(v)),
            options(b).map(|v| of_b.value(v)),
        );
    }
    view.context(a, b, &mut of_a, &mut of_b);
    let indices = |record: &RunRecord| {
        record
            .turns
            .iter()
            .map(|turn| turn.turn_index)
            .collect::<BTreeSet<_>>()
    };
    for index in indices(a).union(&indices(b)) {
        view.turn(*index, a, &mut of_a, b, &mut of_b);
    }
    let mails = matched(mails(a, &mut of_a), mails(b, &mut of_b));
    for (position, (mail_a, mail_b)) in mails.into_iter().enumerate() {
        view.values(&format!("mail {}", position + 1), mail_a, mail_b);
    }
    let output = |record: &RunRecord| record.output.as_ref().map(|output| output.value.clone());
    if a.output.is_some() || b.output.is_some() {
        let (output_a, output_b) = (output(a), output(b));
        view.values(
            "output",
            output_a.map(|v| of_a.value(v)),
            output_b.map(|v| of_b.value(v)),
        );
    }
    view.values("end", Some(of_a.value(end(a))), Some(of_b.value(end(b))));
    let first = view
        .pairs
        .iter()
        .find_map(|pair| pair.differences.first())
        .cloned();
    Comparison {
        same: first.is_none(),
        first,
        pairs: view.pairs,
    }
}

fn mails(record: &RunRecord, of: &mut Normal) -> VecDeque<Value> {
    let mail = |mail: &MailRecord| {
        let message = &mail.message;
        of.value(json!({
            "text": message.text, "subject": message.subject, "recipients": message.recipients,
            "sender": message.sender, "disposition": outcome(&message.disposition),
        }))
    };
    record.mails.iter().map(mail).collect()
}

/// Aligns two lists: equal items are paired although one list has more items before them.
fn matched(mut a: VecDeque<Value>, mut b: VecDeque<Value>) -> Vec<(Option<Value>, Option<Value>)> {
    let mut rows = Vec::new();
    while !(a.is_empty() && b.is_empty()) {
        let is_later = |first: Option<&Value>, other: &VecDeque<Value>| {
            first.is_some_and(|first| other.iter().skip(1).any(|later| later == first))
        };
        rows.push(match a.front() != b.front() {
            true if is_later(b.front(), &a) => (a.pop_front(), None),
            true if is_later(a.front(), &b) => (None, b.pop_front()),
            _ => (a.pop_front(), b.pop_front()),
        });
    }
    rows
}

fn letter(record: &RunRecord) -> Value {
    let message = &record.trigger;
    json!({
        "sender": message.sender, "recipients": message.recipients, "subject": message.subject,
        "text": message.text, "trust": message.trust,
    })
}

/// Returns the options of a run; its slot does not count.
fn options(record: &RunRecord) -> Value {
    let slot = record.slot.as_ref();
    json!({
        "profile": record.run.profile, "provider": slot.map(|slot| &slot.provider), "model": slot.map(|slot| &slot.model),
        "tools": slot.map(|slot| &slot.tools), "deliver_to": slot.map(|slot| &slot.deliver_to),
        "retries": slot.map(|slot| slot.retries),
    })
}

fn end(record: &RunRecord) -> Value {
    let run = &record.run;
    let class = run.error.as_ref().map(|error| error.class.as_str());
    json!({ "state": run.state, "stop_reason": run.stop_reason, "error": class })
}

/// Returns the comparable outcome: a fork has drafts where its run sent mails.
fn outcome(disposition: &str) -> &str {
    if disposition == "draft" {
        "sent"
    } else {
        disposition
    }
}

/// Pairs the indices of two lists.
fn pairs(a: usize, b: usize) -> impl Iterator<Item = (Option<usize>, Option<usize>)> {
    (0..a.max(b)).map(move |index| ((index < a).then_some(index), (index < b).then_some(index)))
}

struct DiffView {
    pairs: Vec<StepPair>,
}

impl DiffView {
    fn values(&mut self, pair: &str, a: Option<Value>, b: Option<Value>) {
        let mut differences = Vec::new();
        differ(pair, "", a.as_ref(), b.as_ref(), &mut differences);
        self.pairs.push(StepPair {
            name: pair.to_owned(),
            differences,
        });
    }

    /// Compares the contributions of the resolvers, by their position in the profile.
    fn context(&mut self, a: &RunRecord, b: &RunRecord, of_a: &mut Normal, of_b: &mut Normal) {
        let pair = "context";
        let entries = |record: &RunRecord| {
            record
                .context
                .as_ref()
                .map(|context| context.entries.clone())
                .unwrap_or_default()
        };
        let (in_a, in_b) = (entries(a), entries(b));
        let mut differences = Vec::new();
        for (at_a, at_b) in pairs(in_a.len(), in_b.len()) {
            let (entry_a, entry_b) = (at_a.map(|at| &in_a[at]), at_b.map(|at| &in_b[at]));
            let name = entry_a
                .or(entry_b)
                .map(|entry| entry.resolver.clone())
                .unwrap_or_default();
            let (said_a, said_b) = (
                entry_a.map(|e| of_a.text(&entry_text(e))),
                entry_b.map(|e| of_b.text(&entry_text(e))),
            );
            if said_a != said_b {
                differences.push(RunDifference {
                    pair: pair.into(),
                    place: name,
                    a: said_a,
                    b: said_b,
                });
            }
        }
        self.pairs.push(StepPair {
            name: pair.into(),
            differences,
        });
    }

    fn turn(
        &mut self,
        index: u32,
        a: &RunRecord,
        of_a: &mut Normal,
        b: &RunRecord,
        of_b: &mut Normal,
    ) {
        let (turn_a, turn_b) = (last_try(a, index), last_try(b, index));
        let request = |turn: Option<&TurnRecord>, of: &mut Normal| {
            turn.map(|turn| {
                of.value(json!({
                    "provider": turn.provider, "model": turn.model, "body": turn.request,
                }))
            })
        };
        self.values(
            &format!("turn {index} request"),
            request(turn_a, of_a),
            request(turn_b, of_b),
        );
        let answer = |turn: Option<&TurnRecord>, of: &mut Normal| {
            turn.map(|turn| {
                of.value(json!({
                    "state": turn.state, "error": turn.error.as_ref().map(|error| error.class.clone()),
                    "stop": turn.response.as_ref().map(|response| response["stop"].clone()),
                    "blocks": turn.response.as_ref().map(|response| response["blocks"].clone()),
                }))
            })
        };
        self.values(
            &format!("turn {index} answer"),
            answer(turn_a, of_a),
            answer(turn_b, of_b),
        );
        let (calls_a, calls_b) = (calls(a, index), calls(b, index));
        for (at_a, at_b) in pairs(calls_a.len(), calls_b.len()) {
            let (call_a, call_b) = (at_a.map(|at| calls_a[at]), at_b.map(|at| calls_b[at]));
            let id = call_a
                .or(call_b)
                .map(|call| call.id.clone())
                .unwrap_or_default();
            let asked = |call: Option<&CallRecord>, of: &mut Normal| {
                call.map(|call| of.value(json!({ "tool": call.tool, "call": asked_for(call) })))
            };
            self.values(
                &format!("turn {index} call {id}"),
                asked(call_a, of_a),
                asked(call_b, of_b),
            );
            let result = |call: Option<&CallRecord>, of: &mut Normal| {
                call.map(|call| of.value(call.result.clone().unwrap_or_default()))
            };
            self.values(
                &format!("turn {index} result {id}"),
                result(call_a, of_a),
                result(call_b, of_b),
            );
        }
    }
}

/// Returns the model's part of a call; the expected effects that a verifiable tool recorded, and
/// the decision on the call, are the engine's own.
fn asked_for(call: &CallRecord) -> Value {
    let mut asked = call.call.clone();
    if let Some(members) = asked.as_object_mut() {
        members.remove("begun");
        members.remove("policy");
    }
    asked
}

/// Formats a resolver's line of the report; sizes depend on ids and dates too, so only a changed
/// outcome counts there.
fn entry_text(entry: &ContextEntry) -> String {
    let ContextEntry {
        resolver,
        source,
        bytes,
        outcome,
        why,
        ..
    } = entry;
    let why = why
        .as_deref()
        .map(|why| format!(" ({why})"))
        .unwrap_or_default();
    // These two return a file as it is; the other texts contain ids and days.
    let is_as_it_is = ["persona", "active-memory"].contains(&resolver.as_str());
    let text = entry
        .sha256
        .as_deref()
        .filter(|_| is_as_it_is)
        .map(|text| format!(", text {text:.8}"));
    format!(
        "{resolver} {source}: {bytes} bytes{}, {outcome}{why}",
        text.unwrap_or_default()
    )
}

/// Returns the answered attempt of a turn, or its last one. Failed attempts before an answer are no
/// difference.
fn last_try(record: &RunRecord, index: u32) -> Option<&TurnRecord> {
    let tries = || record.turns.iter().filter(|turn| turn.turn_index == index);
    tries()
        .find(|turn| turn.state == "answered")
        .or_else(|| tries().next_back())
}

fn calls(record: &RunRecord, index: u32) -> Vec<&CallRecord> {
    record
        .calls
        .iter()
        .filter(|call| call.turn_index == Some(index))
        .collect()
}

/// Collects every leaf of JSON that differs, in order.
fn differ(
    pair: &str,
    place: &str,
    a: Option<&Value>,
    b: Option<&Value>,
    found: &mut Vec<RunDifference>,
) {
    match (a, b) {
        (Some(Value::Object(of_a)), Some(Value::Object(of_b))) => {
            let only_b = of_b.keys().filter(|key| !of_a.contains_key(*key));
            for key in of_a.keys().chain(only_b) {
                let place = if place.is_empty() {
                    key.clone()
                } else {
                    format!("{place}.{key}")
                };
                differ(pair, &place, of_a.get(key), of_b.get(key), found);
            }
        }
        (Some(Value::Array(of_a)), Some(Value::Array(of_b))) => {
            for index in 0..of_a.len().max(of_b.len()) {
                differ(
                    pair,
                    &format!("{place}[{index}]"),
                    of_a.get(index),
                    of_b.get(index),
                    found,
                );
            }
        }
        (a, b) if a == b => {}
        (a, b) => {
            let (a, b) = (a.map(formatted), b.map(formatted));
            let start = match (&a, &b) {
                (Some(a), Some(b)) => a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count(),
                _ => 0,
            };
            let (pair, place) = (pair.to_owned(), place.to_owned());
            let [a, b] = [a, b].map(|text| text.map(|text| excerpt(&text, start)));
            found.push(RunDifference { pair, place, a, b });
        }
    }
}

fn formatted(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn excerpt(text: &str, first: usize) -> String {
    let start = first.saturating_sub(LEAD_CHARS);
    let shown: String = text.chars().skip(start).take(EXCERPT_CHARS).collect();
    let (before, after) = (start > 0, text.chars().count() > start + EXCERPT_CHARS);
    format!(
        "{}{shown}{}",
        if before { "…" } else { "" },
        if after { "…" } else { "" }
    )
}
