//! A record as a readable timeline: the message, the context, every turn and call, the delivery of
//! the answer.
//!
//! Pure: values in, lines out. Absent on purpose: escape sequences, which the printer adds.

mod page;
mod sides;
mod turns;
mod words;

pub use page::{Line, Span, Tone};
pub use sides::comparison;
pub(super) use words::{
    attached, kind_of, offset, outcome_of, people, repairs, tokens, took, tool_name, turn_name,
    used, word,
};

use super::{
    ContextRecord, DeliveryRecord, MailRecord, MessageRecord, RunRecord, RunRow, RunStage,
    ThreadRecord, ThreadStage,
};
use crate::text::{one_line, plural};
use page::{Page, span};
use std::collections::BTreeSet;
use turns::{write_call, write_turn};
use words::state_tone;

/// Renders the timeline of a run. `full` shows long values whole.
pub fn run(record: &RunRecord, full: bool) -> Vec<Line> {
    let mut page = Page::new(full);
    write_run(&mut page, record, true);
    page.into_lines()
}

/// Renders a selected part of a run: its head, the selection, and how much was left out.
pub fn part(record: &RunRecord, part: &RunRecord, full: bool) -> Vec<Line> {
    let mut page = Page::new(full);
    write_head(&mut page, record);
    write_work(&mut page, part);
    write_end(&mut page, record);
    let of = |shown: usize, all: usize, noun: &str| format!("{shown} of {}", plural(all, noun));
    let shown = [
        of(part.turns.len(), record.turns.len(), "provider call"),
        of(part.calls.len(), record.calls.len(), "tool call"),
        of(part.mails.len(), record.mails.len(), "mail"),
    ];
    page.line(vec![span(
        Tone::Faint,
        format!("selected: {}", shown.join(", ")),
    )]);
    page.into_lines()
}

/// Renders the contributions of the resolvers, each with its share of the budget.
pub fn context(record: &RunRecord) -> Vec<Line> {
    let mut page = Page::new(true);
    write_head(&mut page, record);
    match &record.context {
        Some(context) => write_context(&mut page, "", context, true),
        None => page.line(vec![span(
            Tone::Bad,
            "nothing was assembled: the run has not begun",
        )]),
    }
    page.into_lines()
}

/// Renders the timeline of a thread: its messages in order, each followed by the runs that it
/// triggered.
pub fn thread(record: &ThreadRecord, full: bool) -> Vec<Line> {
    let mut page = Page::new(full);
    page.line(vec![
        span(Tone::Title, format!("thread {}", record.id)),
        count_of(record),
    ]);
    page.line(vec![span(
        Tone::Plain,
        format!("persona {}, {}", record.persona, one_line(&record.subject)),
    )]);
    page.line(vec![span(
        Tone::Faint,
        page.short(&record.participants.join(", "), 400),
    )]);
    for stage in record.stages() {
        page.blank();
        match stage {
            ThreadStage::Message(message) => {
                write_message(&mut page, &message.received_at, message);
            }
            ThreadStage::Run(run) => write_run(&mut page, run, false),
            ThreadStage::LooseRun(run) => write_run(&mut page, run, true),
        }
    }
    page.into_lines()
}

/// Returns the lines without tones, each with its end.
pub fn plain(lines: &[Line]) -> String {
    lines.iter().map(|line| line.plain() + "\n").collect()
}

fn count_of(record: &ThreadRecord) -> Span {
    let (messages, runs) = (record.messages.len(), record.runs.len());
    span(
        Tone::Plain,
        format!("  {}, {}", plural(messages, "message"), plural(runs, "run")),
    )
}

fn write_run(page: &mut Page, record: &RunRecord, with_trigger: bool) {
    let since = |at: &str| offset(&record.run.created_at, at);
    write_head(page, record);
    if with_trigger {
        write_message(page, &since(&record.trigger.received_at), &record.trigger);
    }
    if let Some(context) = &record.context {
        let assembled = record
            .turns
            .first()
            .map_or(String::new(), |turn| since(&turn.started_at));
        write_context(page, &assembled, context, false);
    }
    write_work(page, record);
    write_end(page, record);
}

/// Writes turns with their calls, mails, and the output.
fn write_work(page: &mut Page, record: &RunRecord) {
    let since = |at: &str| offset(&record.run.created_at, at);
    for stage in record.stages() {
        match stage {
            RunStage::Turn(turn) => write_turn(page, record, turn),
            RunStage::Call(call) => write_call(page, &since(&call.called_at), call),
            RunStage::Mail(mail) => write_mail(page, &since(&mail.message.received_at), mail),
            RunStage::Output(output) => {
                let repairs = format!("  {}", repairs(output));
                page.pair(
                    &since(&output.created_at),
                    "output",
                    vec![span(Tone::Good, repairs)],
                );
                page.json(&output.value);
            }
        }
    }
}

fn write_head(page: &mut Page, record: &RunRecord) {
    let run = &record.run;
    let mut head = vec![
        span(Tone::Title, format!("run {}", run.id)),
        span(Tone::Plain, "  "),
    ];
    head.extend(ending(run));
    page.line(head);
    let model = match (&run.provider, &run.model) {
        (Some(provider), Some(model)) => format!(", {provider}/{model}"),
        _ => String::new(),
    };
    let (persona, trigger, profile) = (&run.persona, &run.trigger, &run.profile);
    page.line(vec![span(
        Tone::Plain,
        one_line(&format!(
            "persona {persona}, trigger {trigger}, profile {profile}{model}"
        )),
    )]);
    for shown in record
        .slot
        .iter()
        .flat_map(|slot| [format!("slot {}", slot.named()), slot.options()])
    {
        if !shown.is_empty() {
            page.line(vec![span(Tone::Plain, one_line(&shown))]);
        }
    }
    let failed = record.failed_calls();
    let failed = if failed > 0 {
        format!(" ({failed} failed)")
    } else {
        String::new()
    };
    let totals = format!(
        "{}, {}{failed}, {}, attempt {}",
        turns_of(record),
        plural(record.calls.len(), "tool call"),
        tokens(&run.usage),
        run.attempt
    );
    page.line(vec![span(Tone::Plain, totals)]);
    page.line(vec![span(
        Tone::Faint,
        format!("thread {}, queued {}", run.thread, run.created_at),
    )]);
}

/// Formats the number of turns and of failed attempts.
fn turns_of(record: &RunRecord) -> String {
    let turns = record
        .turns
        .iter()
        .map(|turn| turn.turn_index)
        .collect::<BTreeSet<_>>()
        .len();
    let failed = record
        .turns
        .iter()
        .filter(|turn| turn.state == "failed")
        .count();
    match failed {
        0 => plural(turns, "turn"),
        1 => format!("{} (1 try failed)", plural(turns, "turn")),
        _ => format!("{} ({failed} tries failed)", plural(turns, "turn")),
    }
}

/// Formats the state, and the stop reason where that tells more.
fn ending(run: &RunRow) -> Vec<Span> {
    let mut spans = vec![span(state_tone(&run.state), run.state.clone())];
    if let Some(stop) = run.stop_reason.as_ref().filter(|stop| **stop != run.state) {
        spans.push(span(Tone::Plain, format!(" ({stop})")));
    }
    spans
}

fn write_message(page: &mut Page, time: &str, message: &MessageRecord) {
    let outcome = match message.disposition.split_once(':') {
        Some((verb, rule)) => vec![span(Tone::Bad, format!("  {verb}: {}", outcome_of(rule)))],
        None => Vec::new(),
    };
    page.pair(time, kind_of(message), outcome);
    page.field("from", &message.sender);
    for label in ["to", "cc"] {
        page.field(label, &people(&message.recipients, label));
    }
    page.field("subject", &message.subject);
    page.field("id", &message.rfc_message_id);
    page.field("trust", &message.trust);
    if let Some((why, remedy)) = message.filed() {
        page.field("why", why);
        page.whole_field("remedy", &remedy);
    }
    for attachment in &message.attachments {
        page.field("attached", &attached(attachment));
    }
    page.quote(&message.text);
}

/// Writes what the resolvers contributed; `shares`: with the bytes and the share of each.
fn write_context(page: &mut Page, time: &str, context: &ContextRecord, shares: bool) {
    let used = format!("  {}", one_line(&used(context)));
    page.pair(time, "context", vec![span(Tone::Plain, used)]);
    if let Some(note) = &context.note {
        page.inside(vec![span(Tone::Bad, one_line(note))]);
    }
    // Tools stand beside the context and are no part of its tokens.
    let all: u64 = context.entries.iter().map(|entry| entry.tokens).sum();
    let rows = context.entries.iter().map(|entry| {
        let mut cells = vec![
            entry.resolver.clone(),
            entry.source.clone(),
            entry.tokens.to_string(),
            entry.outcome.clone(),
            entry.why.clone().unwrap_or_default(),
        ];
        if shares {
            cells.insert(2, entry.bytes.to_string());
            cells.insert(4, format!("{} %", entry.tokens * 100 / all.max(1)));
        }
        (outcome_tone(&entry.outcome), cells)
    });
    let rows: Vec<_> = rows.collect();
    match shares {
        true => page.table(
            &[
                "RESOLVER", "SOURCE", "BYTES", "TOKENS", "SHARE", "OUTCOME", "WHY",
            ],
            &[2, 3, 4],
            &rows,
        ),
        false => page.table(
            &["RESOLVER", "SOURCE", "TOKENS", "OUTCOME", "WHY"],
            &[2],
            &rows,
        ),
    }
}

fn outcome_tone(outcome: &str) -> Tone {
    match outcome {
        "used" => Tone::Plain,
        "empty" => Tone::Faint,
        _ => Tone::Bad,
    }
}

fn write_mail(page: &mut Page, time: &str, mail: &MailRecord) {
    write_message(page, time, &mail.message);
    let Some(delivery) = &mail.delivery else {
        return;
    };
    let DeliveryRecord {
        id,
        state,
        attempts,
        size_bytes,
        ..
    } = delivery;
    let tries = plural(*attempts as usize, "attempt");
    page.inside(vec![
        span(Tone::Faint, "delivery  "),
        span(state_tone(state), state.clone()),
        span(Tone::Faint, format!("  {id}, {size_bytes} bytes, {tries}")),
    ]);
    if delivery.possible_duplicate {
        page.inside(vec![span(Tone::Bad, "a recipient may have it twice")]);
    }
    let rows = delivery.recipients.iter().map(|recipient| {
        let reply = [
            recipient.last_code.map(|code| code.to_string()),
            recipient.last_reply.clone(),
            recipient
                .next_attempt_at
                .as_ref()
                .map(|at| format!("(next attempt {at})")),
        ];
        let reply = reply.into_iter().flatten().collect::<Vec<_>>().join(" ");
        (
            state_tone(&recipient.state),
            vec![recipient.recipient.clone(), recipient.state.clone(), reply],
        )
    });
    page.table(
        &["RECIPIENT", "STATE", "LAST REPLY"],
        &[],
        &rows.collect::<Vec<_>>(),
    );
}

fn write_end(page: &mut Page, record: &RunRecord) {
    let run = &record.run;
    let time = run
        .finished_at
        .as_deref()
        .map(|at| offset(&run.created_at, at))
        .unwrap_or_default();
    let mut rest = vec![span(Tone::Plain, "  ")];
    rest.extend(ending(run));
    page.pair(
        &time,
        if run.finished_at.is_some() {
            "end"
        } else {
            "now"
        },
        rest,
    );
    if let Some(error) = &run.error {
        page.inside(vec![span(
            Tone::Bad,
            format!("{}: {}", error.class, one_line(&error.message)),
        )]);
    }
    page.field("again", run.next_attempt_at.as_deref().unwrap_or_default());
    if run.finished_at.is_none() {
        page.field(
            "cancel",
            run.cancel_requested_at.as_deref().unwrap_or_default(),
        );
    }
}
