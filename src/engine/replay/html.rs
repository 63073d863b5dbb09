//! A record as one page of HTML that opens offline: no script, no external reference, one style.
//!
//! Text of mails and models is hostile. It reaches the page through [`write::Html::text`] only,
//! which escapes it; the names of elements and attributes are `&'static str`, so that no letter can
//! make one. Pure.

mod write;

use super::timeline::{
    attached, kind_of, offset, outcome_of, people, repairs, tokens, took, tool_name, turn_name,
    used, word,
};
use super::{
    CallRecord, ContextRecord, MailRecord, MessageRecord, RunRecord, RunStage, SlotRecord,
    ThreadRecord, ThreadStage, TurnRecord,
};
use crate::text::plural;
use serde_json::Value;
use write::Html;

/// Renders the page of a run. `full` shows long values whole.
pub fn run(record: &RunRecord, full: bool) -> String {
    let mut page = Html::new(&format!("Run {}", record.run.id), full);
    write_run(&mut page, record, true);
    page.finish()
}

/// Renders the page of a thread: its messages in order, each followed by the runs that it
/// triggered.
pub fn thread(record: &ThreadRecord, full: bool) -> String {
    let mut page = Html::new(&format!("Thread {}", record.id), full);
    page.block("h1", "", &format!("Thread {}", record.id));
    page.fields(&[
        ("persona", &record.persona),
        ("subject", &record.subject),
        ("participants", &record.participants.join(", ")),
    ]);
    for stage in record.stages() {
        match stage {
            ThreadStage::Message(message) => {
                write_message(&mut page, &message.received_at, message, None);
            }
            ThreadStage::Run(run) => write_run(&mut page, run, false),
            ThreadStage::LooseRun(run) => write_run(&mut page, run, true),
        }
    }
    page.finish()
}

fn write_run_fields(page: &mut Html, record: &RunRecord) {
    let run = &record.run;
    page.block("h1", "", &format!("Run {}", run.id));
    let stop = run.stop_reason.as_ref().filter(|stop| **stop != run.state);
    let state = stop.map_or(run.state.clone(), |stop| format!("{} ({stop})", run.state));
    let model = [run.provider.as_deref(), run.model.as_deref()]
        .map(Option::unwrap_or_default)
        .join("/");
    let error = run
        .error
        .as_ref()
        .map(|error| format!("{}: {}", error.class, error.message));
    page.fields(&[
        ("state", &state),
        ("error", &error.unwrap_or_default()),
        ("persona", &run.persona),
        (
            "trigger",
            &format!("{}, profile {}", run.trigger, run.profile),
        ),
        (
            "slot",
            &record
                .slot
                .as_ref()
                .map(SlotRecord::named)
                .unwrap_or_default(),
        ),
        (
            "terms",
            &record
                .slot
                .as_ref()
                .map(SlotRecord::options)
                .unwrap_or_default(),
        ),
        ("model", if model == "/" { "" } else { &model }),
        ("used", &tokens(&run.usage)),
        ("attempt", &run.attempt.to_string()),
        ("thread", &run.thread),
        ("queued", &run.created_at),
        ("ended", run.finished_at.as_deref().unwrap_or_default()),
    ]);
}

fn write_run(page: &mut Html, record: &RunRecord, with_trigger: bool) {
    let since = |at: &str| offset(&record.run.created_at, at);
    write_run_fields(page, record);
    if with_trigger {
        write_message(
            page,
            &since(&record.trigger.received_at),
            &record.trigger,
            None,
        );
    }
    if let Some(context) = &record.context {
        write_context(page, context);
    }
    for stage in record.stages() {
        match stage {
            RunStage::Turn(turn) => write_turn(page, &since(&turn.started_at), turn),
            RunStage::Call(call) => write_call(page, &since(&call.called_at), call),
            RunStage::Mail(mail) => {
                let message = &mail.message;
                write_message(page, &since(&message.received_at), message, Some(mail));
            }
            RunStage::Output(output) => {
                page.section("output", &since(&output.created_at), &repairs(output), "");
                page.quote(&pretty(&output.value));
                page.end_section();
            }
        }
    }
}

fn write_message(page: &mut Html, time: &str, message: &MessageRecord, mail: Option<&MailRecord>) {
    let outcome = message.disposition.split_once(':');
    let outcome = outcome
        .map(|(verb, rule)| format!("{verb}: {}", outcome_of(rule)))
        .unwrap_or_default();
    page.section(kind_of(message), time, &message.subject, &outcome);
    page.fields(&[
        ("from", &message.sender),
        ("to", &people(&message.recipients, "to")),
        ("cc", &people(&message.recipients, "cc")),
        ("id", &message.rfc_message_id),
        ("trust", &message.trust),
    ]);
    for attachment in &message.attachments {
        page.fields(&[("attached", &attached(attachment))]);
    }
    page.quote(&message.text);
    if let Some(delivery) = mail.and_then(|mail| mail.delivery.as_ref()) {
        let attempts = plural(delivery.attempts as usize, "attempt");
        let said = format!(
            "{}, {} bytes, {attempts}",
            delivery.state, delivery.size_bytes
        );
        let twice = if delivery.possible_duplicate {
            "a recipient may have it twice"
        } else {
            ""
        };
        page.fields(&[("delivery", &said), ("beware", twice)]);
        let row = |recipient: &super::RecipientRecord| {
            let code = recipient
                .last_code
                .map(|code| code.to_string())
                .unwrap_or_default();
            let reply = recipient.last_reply.clone().unwrap_or_default();
            vec![
                recipient.recipient.clone(),
                recipient.state.clone(),
                format!("{code} {reply}"),
            ]
        };
        let rows: Vec<Vec<String>> = delivery.recipients.iter().map(row).collect();
        page.table(&["recipient", "state", "last reply"], &rows);
    }
    page.end_section();
}

fn write_context(page: &mut Html, context: &ContextRecord) {
    page.section(
        "context",
        "",
        &used(context),
        context.note.as_deref().unwrap_or_default(),
    );
    let rows = context.entries.iter().map(|entry| {
        let why = entry.why.clone().unwrap_or_default();
        let (bytes, tokens) = (entry.bytes.to_string(), entry.tokens.to_string());
        vec![
            entry.resolver.clone(),
            entry.source.clone(),
            bytes,
            tokens,
            entry.outcome.clone(),
            why,
        ]
    });
    let headings = ["resolver", "source", "bytes", "tokens", "outcome", "why"];
    page.table(&headings, &rows.collect::<Vec<_>>());
    page.end_section();
}

fn write_turn(page: &mut Html, time: &str, turn: &TurnRecord) {
    let took = took(&turn.started_at, turn.finished_at.as_deref());
    let stop = turn
        .response
        .as_ref()
        .map(|response| word(&response["stop"]))
        .unwrap_or_default();
    let wrong = match (turn.state.as_str(), &turn.error) {
        ("answered", _) => String::new(),
        ("failed", Some(error)) => format!("failed: {}: {}", error.class, error.message),
        ("failed", None) => "failed".to_owned(),
        _ => "no answer was recorded".to_owned(),
    };
    page.section(
        &turn_name(turn),
        time,
        &format!("{}/{} {took} {stop}", turn.provider, turn.model),
        &wrong,
    );
    page.fields(&[
        ("used", &tokens(&turn.usage)),
        ("request", &turn.request_sha256),
    ]);
    let blocks = turn
        .response
        .as_ref()
        .and_then(|response| response["blocks"].as_array());
    for block in blocks.into_iter().flatten() {
        let text = block["text"].as_str().unwrap_or_default();
        match block["type"].as_str() {
            Some("thinking") => page.folded("what it thought", text),
            Some("text") => page.quote(text),
            _ => {}
        }
    }
    page.folded("request", &pretty(&turn.request));
    if let Some(response) = &turn.response {
        page.folded("response", &pretty(response));
    }
    page.end_section();
}

fn write_call(page: &mut Html, time: &str, call: &CallRecord) {
    let took = took(&call.called_at, call.finished_at.as_deref());
    let wrong = match &call.result {
        None => "no result was recorded".to_owned(),
        Some(_) if call.succeeded() => String::new(),
        Some(result) => {
            let error = &result["error"];
            format!(
                "failed: {}: {}",
                word(&error["code"]),
                error["message"].as_str().unwrap_or_default()
            )
        }
    };
    page.section("call", time, &format!("{} {took}", tool_name(call)), &wrong);
    page.fields(&[("id", &call.id)]);
    page.quote(&pretty(call.call.get("args").unwrap_or(&call.call)));
    if let Some(result) = call.result.as_ref().filter(|_| call.succeeded()) {
        page.folded_open("result", &pretty(result.get("result").unwrap_or(result)));
    }
    page.end_section();
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}
