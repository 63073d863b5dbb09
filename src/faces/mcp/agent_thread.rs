//! A thread as another agent reads it: its newest letters and runs, within bounds.

use super::agent_args::ReadThreadArgs;
use super::answer_room::AnswerRoom;
use super::mail_frame::{FRAME_NOTE, framed_record, framed_text};
use crate::config::AgentReads;
use crate::domain::{ErrorClass, RunId, RunState, ThreadId, Timestamp, Withheld};
use crate::store::{PersonaStore, Result, RunSummary, ThreadMessage};
use serde::Serialize;
use serde_json::Value;

/// Most letters, and most runs, of a thread that are read.
const ITEMS_MAX: u32 = 100;
/// Their number where an agent names none.
const ITEMS: u32 = 20;
/// Most characters of the text of one letter that stand in one item.
const TEXT_CHARS_MAX: usize = 8_000;
/// Most attachments of a letter that are named.
const FILES_MAX: usize = 20;

/// The newest letters and runs of a thread, oldest first, as many as there is room for.
#[derive(Serialize)]
pub struct ReadableThread {
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
    thread: ThreadId,
    letters: Vec<Value>,
    runs: Vec<Value>,
    /// `true`: there may be older letters or runs.
    more: bool,
    /// `cursor` of the rest; `None`: there is none.
    next: Option<String>,
}

#[derive(Serialize)]
struct ReadableLetter<'a> {
    id: &'a str,
    /// `inbound`, `outbound`, or `synthetic` for what no mail brought.
    direction: &'a str,
    from: &'a str,
    at: Timestamp,
    subject: &'a str,
    /// Number of the part of a long text, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<usize>,
    /// Number of its parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<usize>,
    /// `None`: a rule keeps it from an agent that asked.
    text: Option<String>,
    attachments: Vec<&'a str>,
    /// Run that wrote it.
    run: Option<&'a RunId>,
    /// What the engine did with it: `run`, `filed:RULE`, `sent`, `withheld:RULE`.
    disposition: &'a str,
}

/// What an agent that asked may know of a run.
#[derive(Serialize)]
struct AskedState {
    id: RunId,
    state: RunState,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_class: Option<ErrorClass>,
}

/// A letter, a part of one, or a run, with the cursor that begins at it.
struct ThreadItem {
    cursor: String,
    is_run: bool,
    value: Value,
}

/// Reads a thread that the agent may read. `None`: nothing of it has the cursor.
pub async fn readable_thread(
    rows: &PersonaStore,
    thread: &ThreadId,
    reads: AgentReads,
    args: &ReadThreadArgs,
) -> Result<Option<ReadableThread>> {
    let limit = args.limit.unwrap_or(ITEMS).clamp(1, ITEMS_MAX);
    let messages = rows.thread_messages(thread, limit).await?;
    let runs = rows.thread_runs(thread, limit).await?;
    let more = messages.len().max(runs.len()) >= limit as usize;
    let messages = messages.iter().filter(|found| is_shown(found, reads));
    let letters = messages.flat_map(|found| letter(found, reads));
    let items: Vec<ThreadItem> = letters
        .chain(runs.into_iter().map(|found| run(found, reads)))
        .collect();
    let begin = match &args.cursor {
        None => 0,
        Some(cursor) => match items.iter().position(|item| item.cursor == *cursor) {
            Some(at) => at,
            None => return Ok(None),
        },
    };
    let mut page = ReadableThread {
        note: (reads == AgentReads::All).then_some(FRAME_NOTE),
        thread: thread.clone(),
        letters: Vec::new(),
        runs: Vec::new(),
        more,
        next: None,
    };
    let mut room = AnswerRoom::default();
    for item in items.into_iter().skip(begin) {
        if !room.take(&item.value) {
            page.next = Some(item.cursor);
            break;
        }
        match item.is_run {
            true => page.runs.push(item.value),
            false => page.letters.push(item.value),
        }
    }
    Ok(Some(page))
}

/// Reports whether an agent may know of a message: of its own threads it knows questions and answers, no mail of the engine to owners.
fn is_shown(found: &ThreadMessage, reads: AgentReads) -> bool {
    let message = &found.message;
    match reads {
        AgentReads::All => true,
        AgentReads::Asked => message.direction == "synthetic" || message.run.is_some(),
    }
}

/// Returns a letter, in parts where its text is long.
fn letter(found: &ThreadMessage, reads: AgentReads) -> Vec<ThreadItem> {
    let message = &found.message;
    let is_kept = match reads {
        AgentReads::All => false,
        // An answer to a question is stored and not mailed: to the agent it was said.
        AgentReads::Asked => message
            .disposition
            .strip_prefix("withheld:")
            .is_some_and(|rule| rule != Withheld::StoreOnly.as_str()),
    };
    let texts = match is_kept {
        true => vec![None],
        false => parts(&message.text_body).into_iter().map(Some).collect(),
    };
    let count = texts.len();
    let names = found.attachments.iter().take(FILES_MAX);
    let attachments: Vec<&str> = names.map(|file| file.filename.as_str()).collect();
    let item = |(at, text): (usize, Option<String>)| {
        let letter = ReadableLetter {
            id: message.id.as_str(),
            direction: &message.direction,
            from: &message.sender,
            at: message.received_at,
            subject: &message.subject,
            part: (count > 1).then_some(at + 1),
            parts: (count > 1).then_some(count),
            text: text.map(|text| match reads {
                AgentReads::All => framed_text(&text),
                AgentReads::Asked => text,
            }),
            attachments: attachments.clone(),
            run: message.run.as_ref(),
            disposition: &message.disposition,
        };
        ThreadItem {
            cursor: format!("{}.{}", message.id, at + 1),
            is_run: false,
            value: shown(&letter, reads),
        }
    };
    texts.into_iter().enumerate().map(item).collect()
}

/// Splits a text into parts of at most so many characters; an empty one is one part.
fn parts(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((end, _)) = rest.char_indices().nth(TEXT_CHARS_MAX) {
        let (part, after) = rest.split_at(end);
        parts.push(part.to_owned());
        rest = after;
    }
    if parts.is_empty() || !rest.is_empty() {
        parts.push(rest.to_owned());
    }
    parts
}

fn run(found: RunSummary, reads: AgentReads) -> ThreadItem {
    let cursor = found.id.to_string();
    let value = match reads {
        AgentReads::All => shown(&found, reads),
        AgentReads::Asked => {
            let state = AskedState {
                id: found.id,
                state: found.state,
                error_class: found.error_class,
            };
            shown(&state, reads)
        }
    };
    ThreadItem {
        cursor,
        is_run: true,
        value,
    }
}

/// Returns a record as the agent reads it: what it asked itself, and what was answered to it, needs no frame.
fn shown(record: &impl Serialize, reads: AgentReads) -> Value {
    match reads {
        AgentReads::All => framed_record(record),
        // Records of ours always have a JSON form.
        AgentReads::Asked => serde_json::to_value(record).unwrap_or_default(),
    }
}
