//! A thread as another agent reads it: its newest letters and runs, within bounds.

use crate::config::AgentReads;
use crate::domain::{ErrorClass, RunId, RunState, ThreadId, Timestamp, Withheld};
use crate::store::{PersonaStore, Result, RunSummary, ThreadMessage};
use crate::text::truncated;
use serde::Serialize;

/// Most letters, and most runs, of one answer.
const ITEMS_MAX: u32 = 50;
/// Their number where an agent names none.
const ITEMS: u32 = 20;
/// Most characters of the text of one letter.
const TEXT_CHARS_MAX: usize = 8_000;

/// The newest letters and runs of a thread, oldest first.
#[derive(Serialize)]
pub struct ReadableThread {
    thread: ThreadId,
    letters: Vec<ReadableLetter>,
    runs: Vec<ReadableRun>,
    /// `true`: there may be older letters or runs.
    more: bool,
}

#[derive(Serialize)]
struct ReadableLetter {
    id: String,
    /// `inbound`, `outbound`, or `synthetic` for what no mail brought.
    direction: String,
    from: String,
    at: Timestamp,
    subject: String,
    /// `None`: a rule keeps it from an agent that asked.
    text: Option<String>,
    /// `true`: the text goes on.
    truncated: bool,
    attachments: Vec<String>,
    /// Run that wrote it.
    run: Option<RunId>,
    /// What the engine did with it: `run`, `filed:RULE`, `sent`, `withheld:RULE`.
    disposition: String,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ReadableRun {
    Whole(Box<RunSummary>),
    /// What an agent that asked may know of a run.
    Asked {
        id: RunId,
        state: RunState,
        #[serde(skip_serializing_if = "Option::is_none")]
        error_class: Option<ErrorClass>,
    },
}

/// Reads a thread that the agent may read.
pub async fn readable_thread(
    rows: &PersonaStore,
    thread: &ThreadId,
    reads: AgentReads,
    limit: Option<u32>,
) -> Result<ReadableThread> {
    let limit = limit.unwrap_or(ITEMS).clamp(1, ITEMS_MAX);
    let messages = rows.thread_messages(thread, limit).await?;
    let runs = rows.thread_runs(thread, limit).await?;
    let more = messages.len().max(runs.len()) >= limit as usize;
    let messages = messages.into_iter().filter(|found| is_shown(found, reads));
    Ok(ReadableThread {
        thread: thread.clone(),
        letters: messages.map(|found| letter(found, reads)).collect(),
        runs: runs.into_iter().map(|found| run(found, reads)).collect(),
        more,
    })
}

/// Reports whether an agent may know of a message: of its own threads it knows questions and answers, no mail of the engine to owners.
fn is_shown(found: &ThreadMessage, reads: AgentReads) -> bool {
    let message = &found.message;
    match reads {
        AgentReads::All => true,
        AgentReads::Asked => message.direction == "synthetic" || message.run.is_some(),
    }
}

fn letter(found: ThreadMessage, reads: AgentReads) -> ReadableLetter {
    let message = found.message;
    let is_kept = match reads {
        AgentReads::All => false,
        // An answer to a question is stored and not mailed: to the agent it was said.
        AgentReads::Asked => message
            .disposition
            .strip_prefix("withheld:")
            .is_some_and(|rule| rule != Withheld::StoreOnly.as_str()),
    };
    let is_long = message.text_body.chars().count() > TEXT_CHARS_MAX;
    ReadableLetter {
        id: message.id.to_string(),
        direction: message.direction,
        from: message.sender,
        at: message.received_at,
        subject: message.subject,
        text: (!is_kept).then(|| truncated(&message.text_body, TEXT_CHARS_MAX)),
        truncated: is_long && !is_kept,
        attachments: found
            .attachments
            .into_iter()
            .map(|attachment| attachment.filename)
            .collect(),
        run: message.run,
        disposition: message.disposition,
    }
}

fn run(found: RunSummary, reads: AgentReads) -> ReadableRun {
    match reads {
        AgentReads::All => ReadableRun::Whole(Box::new(found)),
        AgentReads::Asked => ReadableRun::Asked {
            id: found.id,
            state: found.state,
            error_class: found.error_class,
        },
    }
}
