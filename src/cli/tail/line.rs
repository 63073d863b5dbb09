//! An event on one line: what a person needs, in few words.

use crate::cli::CommandContext;
use crate::cli::screen::visible;
use crate::config::dollars;
use crate::domain::FeedKind;
use crate::domain::mail::filed;
use crate::store::{ConfigurationEvent, FeedLine};
use crate::text::{plural, shortened};

const SUBJECT_CHARS_MAX: usize = 40;
const DETAIL_CHARS_MAX: usize = 160;

/// Shows an event: a JSON object, columns on a terminal, tab-separated cells in a pipe.
pub fn show(context: &CommandContext, line: &FeedLine) -> anyhow::Result<()> {
    let screen = &context.screen;
    if context.json() {
        return screen.json_line(line);
    }
    let [number, at, persona, kind, subject, detail] = feed_cells(line);
    if !screen.is_terminal() {
        return Ok(screen.line([number, at, persona, kind, subject, detail].join("\t"))?);
    }
    let at = screen.moment(&at);
    let text = format!("{number:>6}  {at}  {persona:<10} {kind:<20} {subject}  {detail}");
    Ok(screen.fitted(text.trim_end())?)
}

/// Cells of an event: number, time, persona, kind, subject of the thread, details. Control characters are visible.
fn feed_cells(line: &FeedLine) -> [String; 6] {
    let event = &line.event;
    let subject = shortened(
        &visible(line.subject.as_deref().unwrap_or_default()),
        SUBJECT_CHARS_MAX,
    );
    let persona = event.persona.as_ref().map(ToString::to_string);
    let parts = details(line).into_iter().flatten();
    let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
    [
        event.seq.to_string(),
        event.at.to_string(),
        persona.unwrap_or_else(|| "-".to_owned()),
        event.kind.to_string(),
        if subject.is_empty() {
            "-".to_owned()
        } else {
            subject
        },
        shortened(&visible(&parts.join(", ")), DETAIL_CHARS_MAX),
    ]
}

/// Details of an event, the most telling first.
fn details(line: &FeedLine) -> [Option<String>; 5] {
    let event = &line.event;
    let cost = line
        .cost_micros
        .map(|micros| format!("${}", dollars(micros)));
    let error = match (&line.error_class, &line.error_message) {
        (Some(class), Some(message)) => Some(format!("{class}: {message}")),
        (class, message) => class.clone().or_else(|| message.clone()),
    };
    let run = event.run.as_ref().map(|run| format!("run {run}"));
    match event.kind {
        FeedKind::LetterFiled => {
            let rule = line.disposition.as_deref().and_then(filed::rule_of);
            let why = rule.map(|rule| format!("{rule}: {}", filed::why(rule)));
            [
                line.sender.as_ref().map(|from| format!("from {from}")),
                why,
                None,
                None,
                None,
            ]
        }
        kind if kind.subject() == "letter" => [
            line.sender.as_ref().map(|from| format!("from {from}")),
            run,
            None,
            None,
            None,
        ],
        kind if kind.subject() == "run" => {
            let trigger = line.trigger.map(|trigger| trigger.to_string());
            let next = line
                .next_attempt_at
                .map(|at| format!("next attempt at {at}"));
            [error, next, cost, trigger, run]
        }
        kind if kind.subject() == "turn" => [error, cost, line.model.clone(), None, None],
        kind if kind.subject() == "call" => {
            let called = [line.tool.clone(), line.arguments.clone()];
            let called: Vec<String> = called.into_iter().flatten().collect();
            [Some(called.join(" ")), error, None, None, None]
        }
        kind if kind.subject() == "delivery" => [Some(recipients(line)), None, None, None, None],
        kind if kind.subject() == "approval" => {
            let approval = event.approval.as_ref().map(|id| format!("question {id}"));
            [line.tool.clone(), approval, None, None, None]
        }
        kind if kind.subject() == "configuration" => [
            event.item.as_deref().map(configuration),
            None,
            None,
            None,
            None,
        ],
        kind if kind.subject() == "slot" => [line.responsibility.clone(), run, None, None, None],
        _ => [
            line.summary.clone().or_else(|| event.item.clone()),
            None,
            None,
            None,
            None,
        ],
    }
}

/// Files of a configuration that was read again, with the number of what was found in them.
fn configuration(item: &str) -> String {
    let read: ConfigurationEvent = serde_json::from_str(item).unwrap_or_default();
    let found = [(read.problems, "problem"), (read.warnings, "warning")];
    let counts = found.into_iter().filter(|(count, _)| *count > 0);
    let counts = counts.map(|(count, what)| plural(count, what));
    let more = (read.more_files > 0).then(|| format!("{} more", read.more_files));
    read.files
        .into_iter()
        .chain(more)
        .chain(counts)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Recipients of a mail, with what the server said of those that do not have it.
fn recipients(line: &FeedLine) -> String {
    let replies = line.recipients.iter().map(|one| {
        let code = one.code.map(|code| format!("{code} ")).unwrap_or_default();
        match (&one.reply, one.state.as_str()) {
            (_, "delivered") => format!("to {}", one.recipient),
            (Some(reply), state) => format!("{} {state}: {code}{reply}", one.recipient),
            (None, state) => format!("{} {state}", one.recipient),
        }
    });
    replies.collect::<Vec<_>>().join(", ")
}
