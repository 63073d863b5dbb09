//! Messages and steps of a thread, as statements return them in JSON.

use crate::domain::{MessageId, RunId, Timestamp, Trust};
use crate::store::journal::step::{Executor, Step, StepKind};
use crate::store::{Result, StoreError};
use serde::Deserialize;

/// A message of the thread's past, with its trigger.
#[derive(Debug, Clone)]
pub struct PastMessage {
    pub seq: i64,
    pub id: MessageId,
    pub direction: String,
    pub sender: String,
    pub subject: String,
    /// Text without quoted history; cut at the requested length.
    pub text: String,
    pub received_at: Timestamp,
    /// For an outbound message: the message whose run wrote it.
    pub trigger: Option<MessageId>,
    pub disposition: String,
    /// For an outbound message: recipients whose delivery failed for good.
    pub lost: Vec<String>,
    pub trust: Trust,
    /// For a prompt with letters in it: the lowest trust of their senders.
    pub letters: Option<String>,
    /// Number of quoted lines that `text` leaves out.
    pub left_out: Option<u32>,
    /// Names of its attachments.
    pub files: Vec<String>,
}

/// A step of the thread's past, with its message and run.
#[derive(Debug, Clone)]
pub struct PastStep {
    pub message: MessageId,
    pub run: RunId,
    pub step: Step,
    /// For results of mail searches: the whole result, where `step` has only its beginning.
    pub whole: Option<String>,
}

#[derive(Deserialize)]
pub struct PastMessageJson {
    seq: i64,
    id: String,
    direction: String,
    sender: String,
    subject: String,
    text: String,
    received_at: String,
    trigger: Option<String>,
    disposition: String,
    lost: Option<Vec<String>>,
    trust: String,
    letters: Option<String>,
    #[serde(default)]
    left_out: Option<u32>,
    #[serde(default)]
    files: Option<Vec<String>>,
}

#[derive(Deserialize)]
pub struct PastStepJson {
    message: String,
    run: String,
    kind: String,
    executor: String,
    tool_name: String,
    tool_call_id: String,
    payload_json: String,
    whole: Option<String>,
}

pub fn past_message(found: PastMessageJson) -> Result<PastMessage> {
    Ok(PastMessage {
        seq: found.seq,
        id: MessageId::new(found.id),
        direction: found.direction,
        sender: found.sender,
        subject: found.subject,
        text: found.text,
        received_at: Timestamp::parse(&found.received_at)
            .ok_or(StoreError::Unreadable { what: "time" })?,
        trigger: found.trigger.map(MessageId::new),
        disposition: found.disposition,
        lost: found.lost.unwrap_or_default(),
        trust: Trust::parse_stored(&found.trust),
        letters: found.letters,
        left_out: found.left_out.filter(|lines| *lines > 0),
        files: found.files.unwrap_or_default(),
    })
}

pub fn past_step(found: PastStepJson) -> PastStep {
    let step = Step {
        kind: StepKind::of(&found.kind),
        executor: Executor::of(&found.executor),
        tool_name: found.tool_name,
        tool_call_id: found.tool_call_id,
        payload_json: found.payload_json,
    };
    PastStep {
        message: MessageId::new(found.message),
        run: RunId::new(found.run),
        step,
        whole: found.whole,
    }
}
