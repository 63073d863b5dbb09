//! A run in short, as it stands beside a letter: context, turns, calls, mails, with bars in time.

use crate::domain::Timestamp;
use crate::http::words::{StateWords, delivery_state, run_state};
use crate::store::{CallStrip, RunStrip, TurnStrip};
use serde::Serialize;

/// Units of the time axis of a strip.
const AXIS: u64 = 1_000;
/// Narrowest bar, so that three milliseconds are seen.
const BAR_MIN: u64 = 8;

/// A run in short.
#[derive(Debug, Clone, Serialize)]
pub(in crate::http) struct StripView {
    pub id: String,
    pub trigger: String,
    pub state: StateWords,
    pub model: Option<String>,
    pub cost_micros: Option<i64>,
    pub started_at: Option<Timestamp>,
    /// From its first step to its end, or to its last step.
    pub took_ms: Option<u64>,
    pub context_tokens: Option<u64>,
    pub context_budget_tokens: Option<u64>,
    /// Share of the budget that its context took, of a hundred.
    pub context_share: u64,
    pub steps: Vec<StripStep>,
    pub error: Option<String>,
}

/// A step of a strip.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::http) struct StripStep {
    /// `turn`, `call` or `mail`.
    pub kind: &'static str,
    pub name: String,
    pub detail: String,
    pub state: StateWords,
    pub took_ms: Option<u64>,
    /// Place on the time axis; `None`: it has no duration.
    pub bar: Option<StripBar>,
}

/// Bar on an axis of a thousand units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(in crate::http) struct StripBar {
    pub from: u64,
    pub width: u64,
}

/// Returns a run as it stands beside a letter.
pub(in crate::http) fn strip_view(strip: &RunStrip) -> StripView {
    let run = &strip.run;
    let starts = strip.turns.iter().map(|turn| turn.started_at);
    let start = starts.chain(run.started_at).min();
    let ends = strip.turns.iter().filter_map(|turn| turn.finished_at);
    let call_ends = strip.calls.iter().filter_map(|call| call.finished_at);
    let end = ends.chain(call_ends).chain(run.finished_at).max();
    let axis = Axis::new(start, end);
    let mut steps: Vec<(Timestamp, StripStep)> = Vec::new();
    steps.extend(
        strip
            .turns
            .iter()
            .map(|turn| (turn.started_at, turn_step(turn, &axis))),
    );
    steps.extend(
        strip
            .calls
            .iter()
            .map(|call| (call.called_at, call_step(call, &axis))),
    );
    // A turn comes before the calls that it asked for, whatever the clock says.
    steps.sort_by_key(|(at, step)| (*at, step.kind != "turn"));
    let mut steps: Vec<StripStep> = steps.into_iter().map(|(_, step)| step).collect();
    steps.extend(strip.mails.iter().map(|mail| StripStep {
        kind: "mail",
        name: "mail".to_owned(),
        detail: format!("{} of {} have it", mail.delivered, mail.recipients),
        state: delivery_state(mail.state.as_str(), mail.possible_duplicate),
        took_ms: None,
        bar: None,
    }));
    let (used, budget) = (strip.context_tokens, strip.context_budget_tokens);
    StripView {
        id: run.id.to_string(),
        trigger: run.trigger.to_string(),
        state: run_state(
            run.state.as_str(),
            run.error_class.as_ref().map(|class| class.as_str()),
        ),
        model: run.model.clone(),
        cost_micros: run.usage.cost_micros,
        started_at: run.started_at,
        took_ms: start.and_then(|start| took(start, end)),
        context_tokens: used,
        context_budget_tokens: budget,
        context_share: used.zip(budget).map_or(0, |(used, budget)| {
            (used * 100 / budget.max(1)).clamp(1, 100)
        }),
        steps,
        error: run.error_message.clone(),
    }
}

fn turn_step(turn: &TurnStrip, axis: &Axis) -> StripStep {
    let state = match turn.state.as_str() {
        "answered" => StateWords::new("answered", "good"),
        "failed" => StateWords {
            why: turn
                .error_class
                .clone()
                .unwrap_or_default()
                .replace('_', " "),
            ..StateWords::new("failed", "bad")
        },
        _ => StateWords::new("asked", "busy"),
    };
    let attempt = match turn.attempt {
        0 | 1 => String::new(),
        attempt => format!(", attempt {attempt}"),
    };
    StripStep {
        kind: "turn",
        name: format!("turn {}{attempt}", turn.turn_index + 1),
        detail: format!("{} → {} tokens", turn.input_tokens, turn.output_tokens),
        state,
        took_ms: took(turn.started_at, turn.finished_at),
        bar: axis.bar(turn.started_at, turn.finished_at),
    }
}

fn call_step(call: &CallStrip, axis: &Axis) -> StripStep {
    let state = match (call.ok, &call.error) {
        (Some(true), _) => StateWords::new("ok", "good"),
        (Some(false), error) => StateWords {
            why: error.clone().unwrap_or_default().replace('_', " "),
            ..StateWords::new("failed", "bad")
        },
        (None, _) => StateWords::new("no result yet", "busy"),
    };
    StripStep {
        kind: "call",
        name: call.tool.clone(),
        detail: String::new(),
        state,
        took_ms: took(call.called_at, call.finished_at),
        bar: axis.bar(call.called_at, call.finished_at),
    }
}

fn took(start: Timestamp, end: Option<Timestamp>) -> Option<u64> {
    u64::try_from(end?.since(start).as_millis()).ok()
}

/// Time from the first step of a run to its last.
struct Axis {
    start: Option<Timestamp>,
    ms: u64,
}

impl Axis {
    fn new(start: Option<Timestamp>, end: Option<Timestamp>) -> Self {
        let ms = start.and_then(|start| took(start, end)).unwrap_or(0);
        Self { start, ms }
    }

    fn bar(&self, start: Timestamp, end: Option<Timestamp>) -> Option<StripBar> {
        let from = took(self.start?, Some(start))?;
        let width = took(start, end)?;
        let scaled = |ms: u64| ms * AXIS / self.ms.max(1);
        let from = scaled(from).min(AXIS - BAR_MIN);
        Some(StripBar {
            from,
            width: scaled(width).clamp(BAR_MIN, AXIS - from),
        })
    }
}
