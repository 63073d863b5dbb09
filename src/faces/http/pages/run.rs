//! A run: one row for each thing that happened, with the time that it took and the money.

use super::strip::StripBar;
use crate::domain::{ApprovalState, RunId, RunState};
use crate::http::call::Call;
use crate::http::failure::PageError;
use crate::http::reply;
use crate::http::words::{StateWords, delivery_state, message_state, ms_between, run_state};
use crate::replay::{self, CallRecord, MailRecord, RunRecord, RunStage, TurnRecord};
use crate::store::{ApprovalView, Cancellation};
use crate::text::{one_line, truncated};
use axum::response::Response;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

/// Characters of a text that stand in the timeline; a turn's whole request and answer have pages of their own.
const TEXT_CHARS_MAX: usize = 4_000;

/// A question that the run asked its owner.
#[derive(Serialize)]
struct RunQuestion {
    #[serde(flatten)]
    question: ApprovalView,
    is_open: bool,
}

/// A row of the timeline.
#[derive(Serialize)]
struct RunStep {
    /// `turn`, `call`, `mail`, `hook` or `output`.
    kind: &'static str,
    name: String,
    detail: String,
    state: StateWords,
    /// Milliseconds since the run was queued.
    since_ms: Option<u64>,
    took_ms: Option<u64>,
    /// On a scale of powers, so that milliseconds are seen beside minutes.
    time_bar: Option<StripBar>,
    cost_micros: Option<i64>,
    cost_bar: Option<StripBar>,
    /// What went in and what came out, by name.
    texts: Vec<(&'static str, String)>,
    /// Number of the turn, whose exact bytes have pages of their own.
    turn: Option<usize>,
    link: Option<String>,
}

/// A run after an action, as the command line prints it.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct ChangedRun<'a> {
    run: &'a RunId,
    outcome: &'static str,
}

/// Ends a run that has not ended.
pub(in crate::http) async fn cancel(call: Call) -> Result<Response, PageError> {
    let store = &call.context.store;
    let run = &store.find_run(call.param("id")).await?;
    let outcome = match store.request_cancel(run).await? {
        Cancellation::Done => "cancelled",
        Cancellation::Requested => "requested",
    };
    call.context.wake();
    call.done(&format!("/r/{run}"), &ChangedRun { run, outcome })
}

/// Queues a run again.
pub(in crate::http) async fn retry(call: Call) -> Result<Response, PageError> {
    let store = &call.context.store;
    let run = &store.find_run(call.param("id")).await?;
    store.retry_run(run).await?;
    call.context.wake();
    let outcome = "queued";
    call.done(&format!("/r/{run}"), &ChangedRun { run, outcome })
}

pub(in crate::http) async fn show(call: Call) -> Result<Response, PageError> {
    let store = &call.context.store;
    let id: RunId = store.find_run(call.param("id")).await?;
    let record = replay::load_run(store, &id).await?;
    let run = &record.run;
    let state = RunState::parse(&run.state);
    let questions = store.questions_of_run(&id).await?;
    let questions: Vec<RunQuestion> = questions
        .into_iter()
        .map(|question| RunQuestion {
            is_open: question.state == ApprovalState::Open,
            question,
        })
        .collect();
    let page = json!({
        "id": run.id,
        "short_subject": record.trigger.subject,
        "sender": record.trigger.sender,
        "trigger_message": record.trigger.id,
        "state": run_state(
            &run.state,
            run.error.as_ref().map(|error| error.class.as_str()),
        ),
        "slot": record.slot.as_ref().map(replay::SlotRecord::named),
        "took_ms": run
            .started_at
            .as_deref()
            .and_then(|start| ms_between(start, run.finished_at.as_deref())),
        "context": record.context.as_ref(),
        "calls": record.calls.len(),
        "failed_calls": record.failed_calls(),
        "may_cancel": state.is_some_and(|state| !state.is_terminal()),
        "may_retry": state.is_some_and(RunState::may_be_retried),
        "steps": steps(&record, &questions),
        "questions": questions,
        "run": run,
    });
    call.page("run.html", &page).await
}

/// The exact request of a turn.
pub(in crate::http) async fn request(call: Call) -> Result<Response, PageError> {
    turn_text(&call, |turn| Some(turn.request_sent())).await
}

/// The answer of a turn, as it was recorded.
pub(in crate::http) async fn response(call: Call) -> Result<Response, PageError> {
    turn_text(&call, TurnRecord::response_kept).await
}

async fn turn_text(
    call: &Call,
    text: impl Fn(&TurnRecord) -> Option<String>,
) -> Result<Response, PageError> {
    let store = &call.context.store;
    let id: RunId = store.find_run(call.param("id")).await?;
    let record = replay::load_run(store, &id).await?;
    let turn = call
        .param("turn")
        .parse::<usize>()
        .ok()
        .and_then(|number| record.turns.get(number.checked_sub(1)?));
    let text = turn
        .filter(|turn| turn.pruned_at.is_none())
        .and_then(text)
        .ok_or_else(|| PageError::Missing("text of a turn".to_owned()))?;
    Ok(reply::plain(text.into_bytes()))
}

/// Returns everything that happened, in order: each turn with the calls that it asked for, then the mails.
fn steps(record: &RunRecord, questions: &[RunQuestion]) -> Vec<RunStep> {
    let mut steps = Vec::new();
    let mut turns = 0;
    for stage in record.stages() {
        steps.push(match stage {
            RunStage::Turn(turn) => {
                turns += 1;
                turn_step(record, turn, turns)
            }
            RunStage::Call(call) => call_step(record, call, questions),
            RunStage::Mail(mail) => mail_step(record, mail),
            RunStage::Output(output) => RunStep {
                texts: vec![("value", pretty(&output.value))],
                ..step(record, "output", "structured answer", &output.created_at)
            },
        });
    }
    let longest = steps.iter().filter_map(|step| step.took_ms).max();
    let dearest = steps.iter().filter_map(|step| step.cost_micros).max();
    for step in &mut steps {
        step.time_bar = step.took_ms.zip(longest).map(scaled);
        let dear = dearest.and_then(|most| u64::try_from(most).ok());
        let cost = step.cost_micros.and_then(|cost| u64::try_from(cost).ok());
        step.cost_bar = cost.zip(dear).filter(|(_, most)| *most > 0).map(scaled);
    }
    steps
}

/// Returns the bar of a value beside the largest one, by their logarithms.
fn scaled((value, most): (u64, u64)) -> StripBar {
    let digits = |n: u64| (n.saturating_add(1).ilog2() + 1) * 100;
    let width = digits(value) * 1_000 / digits(most).max(1);
    StripBar {
        from: 0,
        width: u64::from(width.clamp(8, 1_000)),
    }
}

fn step(record: &RunRecord, kind: &'static str, name: &str, at: &str) -> RunStep {
    RunStep {
        kind,
        name: name.to_owned(),
        detail: String::new(),
        state: StateWords::new("done", "good"),
        since_ms: ms_between(&record.run.created_at, Some(at)),
        took_ms: None,
        time_bar: None,
        cost_micros: None,
        cost_bar: None,
        texts: Vec::new(),
        turn: None,
        link: None,
    }
}

fn turn_step(record: &RunRecord, turn: &TurnRecord, number: usize) -> RunStep {
    let usage = &turn.usage;
    let read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
    let mut texts = Vec::new();
    let blocks = turn
        .response
        .as_ref()
        .and_then(|response| response["blocks"].as_array());
    for block in blocks.into_iter().flatten() {
        let name = match block["type"].as_str() {
            Some("text") => "answer",
            Some("thinking") => "thought",
            _ => continue,
        };
        let text = block["text"].as_str().unwrap_or_default();
        texts.push((name, truncated(text, TEXT_CHARS_MAX)));
    }
    if let Some(error) = &turn.error {
        texts.push(("error", error.message.clone()));
    }
    let attempt = match turn.attempt {
        0 | 1 => String::new(),
        attempt => format!(", attempt {attempt}"),
    };
    let name = format!("turn {}{attempt}", turn.turn_index + 1);
    RunStep {
        detail: format!(
            "{}/{}, {read} → {} tokens",
            turn.provider, turn.model, usage.output_tokens
        ),
        state: match (turn.state.as_str(), &turn.error) {
            ("answered", _) => StateWords::new("answered", "good"),
            ("failed", error) => StateWords {
                why: error
                    .as_ref()
                    .map(|error| error.class.replace('_', " "))
                    .unwrap_or_default(),
                ..StateWords::new("failed", "bad")
            },
            _ => StateWords::new("no answer yet", "busy"),
        },
        took_ms: ms_between(&turn.started_at, turn.finished_at.as_deref()),
        cost_micros: usage.cost_micros,
        texts,
        turn: turn.pruned_at.is_none().then_some(number),
        ..step(record, "turn", &name, &turn.started_at)
    }
}

fn call_step(record: &RunRecord, call: &CallRecord, questions: &[RunQuestion]) -> RunStep {
    let mut texts = vec![(
        "arguments",
        pretty(call.call.get("args").unwrap_or(&call.call)),
    )];
    let mut asked = questions.iter().filter(|one| one.question.call == call.id);
    let state = match &call.result {
        None if asked.any(|one| one.is_open) => StateWords::new("waits for you", "wait"),
        None => StateWords::new("no result yet", "busy"),
        Some(result) if call.succeeded() => {
            texts.push(("result", pretty(result.get("result").unwrap_or(result))));
            StateWords::new("ok", "good")
        }
        Some(result) => {
            let error = &result["error"];
            let message = error["message"].as_str().unwrap_or_default();
            texts.push(("error", message.to_owned()));
            StateWords {
                why: error["code"].as_str().unwrap_or_default().replace('_', " "),
                ..StateWords::new("failed", "bad")
            }
        }
    };
    RunStep {
        detail: call
            .decision()
            .map(|decision| one_line(&decision))
            .unwrap_or_default(),
        state,
        took_ms: ms_between(&call.called_at, call.finished_at.as_deref()),
        texts,
        ..step(record, "call", &call.tool, &call.called_at)
    }
}

fn mail_step(record: &RunRecord, mail: &MailRecord) -> RunStep {
    let state = match &mail.delivery {
        Some(delivery) => delivery_state(&delivery.state, delivery.possible_duplicate),
        None => message_state(&mail.message.disposition, false)
            .unwrap_or_else(|| StateWords::new("stored", "quiet")),
    };
    let recipients = mail
        .delivery
        .iter()
        .flat_map(|delivery| &delivery.recipients);
    let replies: Vec<String> = recipients
        .map(|one| {
            let code = one
                .last_code
                .map(|code| format!(" {code}"))
                .unwrap_or_default();
            let reply = one.last_reply.as_deref().unwrap_or_default();
            format!("{}: {}{code} {reply}", one.recipient, one.state)
        })
        .collect();
    let mut texts = vec![("text", truncated(&mail.message.text, TEXT_CHARS_MAX))];
    if !replies.is_empty() {
        texts.push(("recipients", replies.join("\n")));
    }
    RunStep {
        detail: mail.message.subject.clone(),
        state,
        texts,
        link: Some(format!("/m/{}", mail.message.id)),
        ..step(record, "mail", "mail", &mail.message.received_at)
    }
}

fn pretty(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        value => serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string()),
    };
    truncated(&text, TEXT_CHARS_MAX)
}
