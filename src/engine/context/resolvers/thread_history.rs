//! `thread-history`: the last exchanges of the thread with their tool traces, as the model saw
//! them.
//!
//! Work is bounded by [`MESSAGES_MAX`], whatever the length of the thread. An exchange is a
//! triggering message with its tool calls, results and answer; it is kept or dropped whole, so no
//! result ever loses its call. What stands in the summary of the thread is not shown again.

use super::reads::ReadError;
use super::{Contribution, Exchange, Piece, ResolveError, Resolver, ResolverCall, estimate_tokens};
use crate::context::prompt::{defuse, defuse_marks, shown_result};
use crate::domain::TextLabel;
use crate::domain::{MessageId, Trust};
use crate::mutants::is_off;
use crate::providers::contract::traits::{Block, IMAGE_TOKENS, Message, Role, ToolArgs};
use crate::store::{PastMessage, PastStep, Step, StepKind};
use chrono_tz::Tz;
use futures_util::future::BoxFuture;
use std::collections::HashMap;

/// Most messages that are read.
const MESSAGES_MAX: u32 = 40;
/// Characters of one past message that are kept.
const MESSAGE_CHARS_MAX: u32 = 8_000;
/// Attachments of one past message that are named.
const FILES_MAX: usize = 20;
/// Characters of one call's arguments or one result that are kept.
const PAYLOAD_CHARS_MAX: u32 = 4_000;

pub struct ThreadHistory;

/// Tool trace of a past run.
#[derive(Default)]
struct Trace {
    /// Steps, their payloads cut.
    steps: Vec<Step>,
    /// Tool names and results, whole enough to tell the trust of the texts found.
    results: Vec<(String, String)>,
}

impl Resolver for ThreadHistory {
    fn name(&self) -> &'static str {
        "thread-history"
    }

    fn resolve<'a>(
        &'a self,
        call: ResolverCall<'a>,
    ) -> BoxFuture<'a, Result<Contribution, ResolveError>> {
        Box::pin(async move {
            if !call.subject.has_past {
                return Ok(Contribution::nothing("first message of its thread"));
            }
            let (mut exchanges, is_window) = past_exchanges(call, call.summarised_upto).await?;
            let newer = exchanges.split_off(exchanges.partition_point(|past| past.is_summarised));
            if newer.is_empty() {
                // Also where messages have gone since the summary was made.
                let why = match exchanges.is_empty() {
                    true => "first message of its thread",
                    false => "all of it stands in the summary",
                };
                return Ok(Contribution::nothing(why));
            }
            let newer = newer.into_iter().map(|past| past.exchange).collect();
            let (kept, left_out) = newest_within(newer, call.budget_tokens);
            let note = match left_out {
                0 if is_window => Some(format!("the last {MESSAGES_MAX} messages of the thread")),
                0 => None,
                _ => Some(format!("{left_out} older exchanges left out")),
            };
            let source = format!("thread {}", call.subject.message.thread);
            Ok(Contribution::one(source, Piece::History(kept)).noted(note))
        })
    }
}

/// An exchange of the thread, and where it stands.
pub(super) struct PastExchange {
    /// Number of its first message.
    pub seq: i64,
    /// `true`: it stands in the summary.
    pub is_summarised: bool,
    pub exchange: Exchange,
}

/// Returns the last exchanges of the thread, those in the summary first; and whether the thread has more messages after the
/// summary than are read.
pub(super) async fn past_exchanges(
    call: ResolverCall<'_>,
    summarised_upto: Option<i64>,
) -> Result<(Vec<PastExchange>, bool), ResolveError> {
    let trigger = &call.subject.message;
    let of = |error: ReadError| error.of("thread-history", "");
    let window = (trigger.seq, MESSAGES_MAX);
    let readers = &call.subject.readers;
    let past = call
        .reads
        .past_messages(&trigger.thread, window, MESSAGE_CHARS_MAX, readers)
        .await;
    let past = past.map_err(of)?;
    if past.is_empty() {
        return Ok((Vec::new(), false));
    }
    let own = call.subject.sender_trust();
    let ids: Vec<&MessageId> = past
        .iter()
        .filter(|m| may_see_trace(own, m))
        .map(|m| &m.id)
        .collect();
    let mut traces: HashMap<MessageId, Trace> = HashMap::new();
    let steps = call
        .reads
        .past_steps(&ids, PAYLOAD_CHARS_MAX)
        .await
        .map_err(of)?;
    for PastStep {
        message,
        step,
        whole,
        ..
    } in steps
    {
        let trace = traces.entry(message).or_default();
        if step.kind == StepKind::Result {
            let payload = whole.unwrap_or_else(|| step.payload_json.clone());
            trace.results.push((step.tool_name.clone(), payload));
        }
        trace.steps.push(step);
    }
    let is_old = |seq: i64| summarised_upto.is_some_and(|upto| seq <= upto);
    let reaches_summary = past.first().is_none_or(|oldest| is_old(oldest.seq));
    let is_window = past.len() >= MESSAGES_MAX as usize && !reaches_summary;
    let mut placed = exchanges(&past, traces, call.persona.timezone);
    placed
        .iter_mut()
        .for_each(|past| past.is_summarised = is_old(past.seq));
    placed.sort_by_key(|past| !past.is_summarised);
    Ok((placed, is_window))
}

/// Reports whether a run may see the tool trace of a past message's run: tools give more to a
/// sender of higher trust, such as the memory, the owner's files, all mail.
fn may_see_trace(own: Trust, past: &PastMessage) -> bool {
    past.direction != "outbound" && past.trust.min(Trust::Owner) <= own
}

/// Returns the newest exchanges that fit, oldest first, and the number of the others.
pub fn newest_within(mut exchanges: Vec<Exchange>, budget_tokens: usize) -> (Vec<Exchange>, usize) {
    let mut used = 0;
    let fitting = exchanges.iter().rev().take_while(|exchange| {
        used += exchange.tokens;
        used <= budget_tokens
    });
    let left_out = exchanges.len() - fitting.count();
    (exchanges.split_off(left_out), left_out)
}

/// Groups messages under the message that caused them; an answer written later stands with its
/// question.
fn exchanges(
    past: &[PastMessage],
    mut traces: HashMap<MessageId, Trace>,
    zone: Tz,
) -> Vec<PastExchange> {
    let mut answers: HashMap<&MessageId, Vec<&PastMessage>> = HashMap::new();
    let shown: Vec<&MessageId> = past
        .iter()
        .filter(|m| m.direction != "outbound")
        .map(|m| &m.id)
        .collect();
    let mut heads = Vec::new();
    for message in past {
        match &message.trigger {
            Some(trigger) if message.direction == "outbound" && shown.contains(&trigger) => {
                answers.entry(trigger).or_default().push(message);
            }
            _ => heads.push(message),
        }
    }
    let mut counter = 0;
    heads
        .into_iter()
        .map(|head| {
            let Trace { steps, results } = traces.remove(&head.id).unwrap_or_default();
            let answers = answers.get(&head.id).map_or(&[][..], Vec::as_slice);
            let messages = exchange_messages(head, zone, &steps, answers, &mut counter);
            let tokens = messages.iter().map(message_tokens).sum();
            let exchange = Exchange {
                messages,
                tokens,
                words: words(head),
                results,
            };
            PastExchange {
                seq: head.seq,
                is_summarised: false,
                exchange,
            }
        })
        .collect()
}

/// Returns the trust of an exchange's texts: the letter itself, and letters that were put into a
/// prompt.
pub(super) fn words(head: &PastMessage) -> TextLabel {
    let letter = match head.direction.as_str() {
        "outbound" => TextLabel::default(),
        // No run was allowed to answer it, so no run has shown yet what its sender may cause.
        _ if is_kept(head) => TextLabel {
            lowest: Some(head.trust),
            ..TextLabel::default()
        },
        _ => TextLabel::for_past_letter(head.trust),
    };
    letter.and(
        head.letters
            .as_deref()
            .map(TextLabel::for_letters_of_others)
            .unwrap_or_default(),
    )
}

fn exchange_messages(
    head: &PastMessage,
    zone: Tz,
    steps: &[Step],
    answers: &[&PastMessage],
    counter: &mut usize,
) -> Vec<Message> {
    if head.direction == "outbound" {
        if let Some(messages) = unsent_messages(head) {
            return messages;
        }
        // The persona wrote first: its own text, with nothing before it.
        return std::iter::once(Message::assistant(framed(head, zone)))
            .chain(undelivered(head))
            .collect();
    }
    let mut messages = vec![Message::user(framed(head, zone))];
    for step in steps.iter().filter(|step| step.kind == StepKind::Call) {
        let id = format!("h{counter}");
        *counter += 1;
        let args = payload_args(&step.payload_json);
        let call = Block::ToolCall {
            id: id.clone(),
            name: step.tool_name.clone(),
            args,
            provider_state: None,
        };
        messages.push(Message {
            role: Role::Assistant,
            blocks: vec![call],
        });
        let result = steps
            .iter()
            .find(|r| r.kind == StepKind::Result && r.tool_call_id == step.tool_call_id);
        let content = result
            .map_or("{\"ok\":false}", |r| r.payload_json.as_str())
            .to_owned();
        let is_error = !content.starts_with("{\"ok\":true");
        let result = Block::ToolResult {
            call_id: id,
            name: step.tool_name.clone(),
            content: defuse_marks(&shown_result(&content)),
            is_error,
        };
        messages.push(Message {
            role: Role::User,
            blocks: vec![result],
        });
    }
    // A reply by `send_email` stands in its call already, and the final text was withheld then.
    let replied_by_tool = steps.iter().any(is_reply_by_tool);
    for answer in answers {
        if let Some(unsent) = unsent_messages(answer) {
            messages.extend(unsent);
            continue;
        }
        let closing = answer.disposition.starts_with("withheld:") || !replied_by_tool;
        if closing && !answer.text.trim().is_empty() {
            messages.push(Message::assistant(defuse_marks(answer.text.trim())));
        }
        messages.extend(undelivered(answer));
    }
    messages
}

/// Reports whether a rule kept the message from being sent or answered, and the run is to know no more of it.
fn is_kept(message: &PastMessage) -> bool {
    message.disposition.starts_with("kept:") && !is_off("G13.withheld")
}

/// Renders a text of the persona's that is no mail. One that was withheld is not shown: whoever it was kept from may read this
/// run's answer, and no label came with it. `None`: the message is a mail.
fn unsent_messages(message: &PastMessage) -> Option<Vec<Message>> {
    if !is_kept(message) {
        return draft_messages(message);
    }
    let rule = message.disposition.strip_prefix("kept:")?;
    Some(vec![Message::user(format!(
        "[You wrote a text here that was stored and not sent ({rule}). It is not shown.]"
    ))])
}

/// Renders a draft of the persona's: it is no mail, and the model must not take it for one. What was sent has a message of
/// its own. `None`: the message is no draft.
fn draft_messages(message: &PastMessage) -> Option<Vec<Message>> {
    let (state, shown) = message
        .disposition
        .strip_prefix("draft:")?
        .split_once(':')?;
    let note = match state {
        "approved" | "superseded" => return Some(Vec::new()),
        "sent_as_edited" => {
            return Some(vec![Message::user(
                "[You left a draft here. Your owner changed it; what was sent follows.]",
            )]);
        }
        "open" => "It waits for your owner and is not sent yet.",
        "rejected" => "Your owner discarded it; it was not sent.",
        "expired" => "Nobody sent it in time; it was not sent.",
        _ => "It was closed and not sent.",
    };
    let text = message.text.trim();
    Some(
        match shown == "shown" && state == "open" && !text.is_empty() {
            true => vec![
                Message::assistant(text),
                Message::user(format!("[The text above is a draft. {note}]")),
            ],
            false => vec![Message::user(format!("[You left a draft here. {note}]"))],
        },
    )
}

/// Renders the recipients that a mail of the persona's did not reach. Addresses only: the text of a
/// bounce is foreign.
fn undelivered(mail: &PastMessage) -> Option<Message> {
    let (first, more) = mail.lost.split_first()?;
    let more = if more.is_empty() {
        String::new()
    } else {
        format!(" and {} more", more.len())
    };
    Some(Message::user(format!(
        "[Not delivered: the mail above did not reach {first}{more}.]"
    )))
}

/// Reports whether a step is a reply by tool. A mail to other recipients, or a refused one, does
/// not withhold the final text.
fn is_reply_by_tool(step: &Step) -> bool {
    let is_result = step.kind == StepKind::Result && step.tool_name == "send_email";
    let parsed = || serde_json::from_str::<serde_json::Value>(&step.payload_json).ok();
    let is_sent = |payload: serde_json::Value| {
        payload["result"]["reply"] == true && payload["result"]["draft"] != true
    };
    is_result && parsed().is_some_and(is_sent)
}

/// Says that quoted lines are left out.
pub(super) fn left_out_note(lines: u32) -> String {
    let lines = match lines {
        1 => "1 line of quotation".to_owned(),
        lines => format!("{lines} lines of quotation"),
    };
    format!("\n[{lines} left out: this thread holds them]")
}

/// Renders a past message: a letter or a task in a frame that its text cannot close, with who wrote it and when; a text of the
/// persona's as it is.
fn framed(message: &PastMessage, zone: Tz) -> String {
    let is_cut = message.text.chars().count() >= MESSAGE_CHARS_MAX as usize;
    let rest = match is_cut {
        true => "\n[… the rest is stored and not shown]",
        false => "",
    };
    let text = defuse(message.text.trim());
    if message.direction == "outbound" {
        return format!("{text}{rest}");
    }
    let frame = match message.direction == "synthetic" && message.trust >= Trust::Owner {
        true => "task",
        false => "letter",
    };
    let when = message.received_at.to_utc().with_timezone(&zone);
    let when = when.format("%a, %d %b %Y %H:%M %z").to_string();
    let trust = match message.trust {
        Trust::Unauthenticated => "unauthenticated, anybody can write that name",
        trust => trust.as_str(),
    };
    let attributes = [
        ("date", when.as_str()),
        ("from", message.sender.as_str()),
        ("sender", trust),
        ("subject", message.subject.as_str()),
    ];
    // A task comes from no letter.
    let said = attributes
        .iter()
        .filter(|(name, _)| frame == "letter" || !["from", "sender"].contains(name));
    let said = said.map(|(name, value)| format!(" {name}=\"{}\"", attribute(value)));
    let files = message.files.iter().take(FILES_MAX);
    let files = files.map(|name| format!("attachment: {}\n", attribute(name)));
    let quoted = message.left_out.map(left_out_note).unwrap_or_default();
    format!(
        "<{frame}{}>\n{}{text}\n</{frame}>{rest}{quoted}",
        said.collect::<String>(),
        files.collect::<String>()
    )
}

/// Returns a value as it stands in a tag of ours, which it cannot end.
fn attribute(value: &str) -> String {
    let plain = |c: char| match c {
        '"' => '\'',
        c if c.is_control() => ' ',
        c => c,
    };
    defuse(&value.chars().map(plain).collect::<String>())
}

/// Reads the arguments of a recorded call; a payload that was cut is rendered as text.
fn payload_args(payload: &str) -> ToolArgs {
    let parsed: Option<serde_json::Value> = serde_json::from_str(payload).ok();
    match parsed.as_ref().and_then(|value| value.get("args")) {
        Some(serde_json::Value::Object(args)) => ToolArgs::Object(args.clone()),
        _ => {
            let shown = serde_json::Value::String(payload.to_owned());
            ToolArgs::Object(serde_json::Map::from_iter([(
                "shortened".to_owned(),
                shown,
            )]))
        }
    }
}

/// Estimates the tokens of a message.
pub fn message_tokens(message: &Message) -> usize {
    message.blocks.iter().map(block_tokens).sum::<usize>() + 4
}

fn block_tokens(block: &Block) -> usize {
    match block {
        Block::Text { text } | Block::Thinking { text, .. } => estimate_tokens(text),
        Block::ToolCall { name, args, .. } => {
            let written = match args {
                ToolArgs::Object(map) => serde_json::to_string(map).unwrap_or_default(),
                ToolArgs::Malformed { raw, .. } => raw.clone(),
            };
            estimate_tokens(name) + estimate_tokens(&written)
        }
        Block::ToolResult { content, .. } => estimate_tokens(content),
        Block::Image(_) => usize::from(IMAGE_TOKENS),
        Block::Pdf(pdf) => pdf.tokens as usize,
        Block::FileReference(file) => estimate_tokens(&file.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn past(direction: &str, disposition: &str) -> PastMessage {
        PastMessage {
            seq: 1,
            id: MessageId::new("m"),
            direction: direction.to_owned(),
            sender: "mallory@evil.test".to_owned(),
            subject: "A word".to_owned(),
            text: "K_TEXT".to_owned(),
            received_at: crate::domain::Timestamp::from_millis(0),
            trigger: None,
            disposition: disposition.to_owned(),
            lost: Vec::new(),
            trust: Trust::Unknown,
            letters: None,
            left_out: None,
            files: Vec::new(),
        }
    }

    #[test]
    fn a_letter_that_no_run_was_to_answer_counts_with_its_own_trust() {
        assert_eq!(
            words(&past("inbound", "kept:stranger")).lowest,
            Some(Trust::Unknown)
        );
        // Of an older record, and a letter that a run answered.
        for disposition in ["filed:stranger", "run"] {
            assert_eq!(words(&past("inbound", disposition)).lowest, None);
        }
    }

    #[test]
    fn a_text_that_was_withheld_is_a_note_but_where_an_older_record_has_it() {
        let rendered = |disposition| {
            let message = past("outbound", disposition);
            let messages = exchange_messages(&message, Tz::UTC, &[], &[], &mut 0);
            serde_json::to_string(&messages).unwrap_or_default()
        };
        let kept = rendered("kept:not_approved");
        assert!(
            !kept.contains("K_TEXT") && kept.contains("(not_approved)"),
            "{kept}"
        );
        for disposition in ["withheld:not_approved", "sent"] {
            assert!(rendered(disposition).contains("K_TEXT"), "{disposition}");
        }
    }
}
