//! Contract of a tool: its declaration, the inputs of a call, and its outcome.
//!
//! Absent on purpose: lists of tools (`registry.rs`) and what a call may reach (`env.rs`).

use super::env::{ToolCapabilities, ToolEnv};
use super::error::ToolError;
use crate::clock::Clock;
use crate::config::{OwnToolClass, OwnToolEffects, ToolSenders};
use crate::domain::{
    Address, ApprovalKind, MemoryAudience, Readers, RunId, TextLabel, Timestamp, Trust,
};
use crate::providers::ToolSchema;
use crate::store::{EventWrite, MemoryWrite};
use futures_util::future::{BoxFuture, ready};
use serde_json::{Map, Value};
use std::time::Duration;

/// One tool of a persona.
///
/// All state of a call arrives in [`ToolCall`], so a call can be replayed; a tool itself holds at
/// most the address of what it talks to. Word errors for the model: say what would work; leave the
/// tool's name out of them, the caller adds it. Arguments have passed the declared schema before
/// `call` runs.
pub trait Tool: Send + Sync {
    /// Declares the tool; it is asked once, when the tool enters a
    /// [`ToolRegistry`](crate::tools::ToolRegistry).
    fn declaration(&self) -> ToolDeclaration;
    /// Returns the time of its calls where nothing else is configured; `None`: the usual one. A tool that has its own keeps to
    /// [`ToolLimits::duration_max`] by itself, and words its error better than the caller, who ends every call that is not over by
    /// then.
    fn timeout(&self) -> Option<Duration> {
        None
    }
    /// Returns what makes the tool of use to a run, any of it; empty: it is of use to every run.
    fn needs(&self) -> &'static [ToolNeed] {
        &[]
    }
    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<ToolOutcome, ToolError>>;
    /// Returns the state before a call of a [`ToolClass::Verifiable`] tool, and its expected
    /// effects, in values that can be compared later. It is stored with the call, before the call
    /// begins; it changes nothing.
    fn expected_effects<'a>(
        &'a self,
        call: ToolCall<'a>,
    ) -> BoxFuture<'a, Result<Value, ToolError>> {
        let _unused = call;
        Box::pin(ready(Ok(Value::Null)))
    }
    /// Returns the outcome of an interrupted call of a [`ToolClass::Verifiable`] tool, by its
    /// `expected` effects.
    fn verify<'a>(
        &'a self,
        call: ToolCall<'a>,
        expected: &'a Value,
    ) -> BoxFuture<'a, Result<CallTrace, ToolError>> {
        let _unused = (call, expected);
        Box::pin(ready(Ok(CallTrace::Neither)))
    }
}

/// Declaration of a tool: everything that is known of it before a call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDeclaration {
    /// `^[a-z][a-z0-9_]{0,63}$`, legal for every provider.
    pub name: String,
    /// Text that the model reads.
    pub description: String,
    /// JSON Schema of the arguments: an object with `additionalProperties: false`. Tools of this
    /// engine make it from their fields.
    pub input_schema: ToolSchema,
    /// Permission of recovery when a call was started and no result was stored.
    pub class: ToolClass,
    /// Effects of a call beyond its result; they decide which runs may make one.
    pub effects: Effects,
    /// Source of the text that its results hold; the label of the run goes down to it.
    pub result_words: ResultWords,
    /// Capabilities that a call is given, and no other.
    pub capabilities: ToolCapabilities,
}

/// Effects of a tool call beyond its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Effects {
    /// `true`: it returns what not every reader of the thread may see, such as mail of others.
    pub reads_private: bool,
    /// `true`: it sends to an outside recipient.
    pub sends_out: bool,
    /// `true`: it leaves state that later runs use.
    pub changes_state: bool,
    /// `true`: it executes code that the model chose.
    pub runs_code: bool,
    /// `true`: the tool itself sees to it that words of low trust have no effect by it: what it leaves waits for the owner, or
    /// it refuses. Every other tool with effects is asked about in a run that has read such words.
    pub is_gated: bool,
    /// Of a tool of the owner's or of an MCP server: lowest trust with which it is called without asking.
    pub senders: Option<Trust>,
}

impl Effects {
    /// Reads of the persona's own data only.
    pub const NONE: Self = Self {
        reads_private: false,
        sends_out: false,
        changes_state: false,
        runs_code: false,
        is_gated: false,
        senders: None,
    };

    pub const READS_PRIVATE: Self = Self {
        reads_private: true,
        ..Self::NONE
    };

    pub const SENDS_OUT: Self = Self {
        sends_out: true,
        ..Self::NONE
    };

    /// Changes that have no effect by words of low trust.
    pub const GATED_CHANGE: Self = Self {
        changes_state: true,
        is_gated: true,
        ..Self::NONE
    };

    /// Returns the effects of a tool that its owner declares.
    pub fn declared(effects: OwnToolEffects, senders: ToolSenders) -> Self {
        Self {
            reads_private: effects.reads_private,
            sends_out: effects.sends_out,
            changes_state: effects.changes_state,
            runs_code: effects.runs_code,
            is_gated: false,
            senders: Some(senders.into()),
        }
    }

    /// Reports whether a call has any beyond its result.
    pub fn act(self) -> bool {
        self.sends_out || self.changes_state || self.runs_code
    }
}

/// What makes a tool of use to a run. A persona with the tools `basic` is offered a tool where something of it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ToolNeed {
    /// The run is the owner's or a schedule's.
    Orders,
    /// The thread has a file.
    File,
    /// The thread has an invitation.
    Invitation,
    /// The memory of the people around the run has an entry.
    Entry,
    /// A run of the thread has searched the mail.
    Search,
}

/// Source of the text in a tool's results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResultWords {
    /// Unknown, such as a web page or the answer of a server: it may be a stranger's, and not for every reader of the
    /// thread. A tool that says nothing counts as this.
    #[default]
    Unknown,
    /// Letters; the outcome says whose.
    Letters,
    /// This engine, or files of the persona; the outcome says which of them are for the owner alone.
    Engine,
}

/// Reader of files: what it sees can end in an answer to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// The owner, or the engine's own prompt.
    Owner,
    /// A sender with an authenticated address.
    Correspondent,
    /// An unauthenticated sender.
    Unproven,
}

/// Origin of what a run writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteOrigin {
    /// Address, or name of a responsibility.
    pub from: String,
    /// Trust of the origin.
    pub trust: String,
    /// Trust of the sender that the run answers; `System` for a schedule.
    pub sender: Trust,
    /// Lowest trust of what the run has read.
    pub lowest: Trust,
    /// Time when the letter was received, or the slot was due.
    pub at: Timestamp,
    /// Addresses that may read all that the run has read.
    pub readers: Readers,
    /// People who read what the run writes, besides the owners.
    pub audience: MemoryAudience,
}

/// Permission of recovery for an interrupted call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolClass {
    /// Reads only: run it again.
    Repeatable,
    /// Its effect commits with its result, so no result means that nothing happened: run it.
    Transactional,
    /// Its effect can be checked: check it ([`Tool::verify`]), and run it only if nothing has
    /// happened.
    Verifiable,
    /// Never run it again: the model gets `outcome_unknown` and may not repeat the call in this
    /// run, and the owner is notified.
    Once,
}

impl From<OwnToolClass> for ToolClass {
    fn from(declared: OwnToolClass) -> Self {
        match declared {
            OwnToolClass::Repeatable => Self::Repeatable,
            OwnToolClass::Once => Self::Once,
        }
    }
}

/// Outcome of an interrupted call, by its traces.
#[derive(Debug)]
pub enum CallTrace {
    /// It has happened; this would have been its result.
    Done(Box<ToolOutcome>),
    /// It has not happened: the state is the one before it.
    Untouched,
    /// The state is neither: something else has happened since.
    Neither,
}

impl CallTrace {
    /// Returns the outcome by the digest of what there is now, and of what there was before the call and is to be after it.
    pub fn of_digest(now: &Value, expected: &Value, result: impl FnOnce() -> Value) -> Self {
        if *now == expected["before"] && expected.is_object() {
            Self::Untouched
        } else if *now == expected["after"] {
            Self::Done(Box::new(result().into()))
        } else {
            Self::Neither
        }
    }
}

/// Inputs of a call.
pub struct ToolCall<'a> {
    /// Run in which it is made.
    pub run: &'a RunId,
    pub args: &'a Map<String, Value>,
    /// Capabilities that the tool declared.
    pub env: ToolEnv<'a>,
    pub limits: &'a ToolLimits,
    pub clock: &'a dyn Clock,
    /// Origin of the run.
    pub origin: &'a WriteOrigin,
    pub reader: Reader,
}

/// Sizes a tool must keep to, in bytes.
#[derive(Debug, Clone)]
pub struct ToolLimits {
    /// Longest result; a longer one is cut, with a note.
    pub result_bytes_max: usize,
    /// Largest file that may be read or attached.
    pub file_bytes_max: usize,
    /// Largest `active.md`.
    pub memory_bytes_max: usize,
    /// Attachments of one mail together.
    pub attachments_bytes_max: usize,
    /// Time of the call.
    pub duration_max: Duration,
}

/// Result of a successful call.
#[derive(Debug, Default)]
pub struct ToolOutcome {
    /// Value of `result` that the model reads.
    pub result: Value,
    /// A mail to queue in the transaction that records the result.
    pub mail: Option<Box<MailDraft>>,
    /// A change of memory, committed with the result.
    pub memory: Option<Box<MemoryWrite>>,
    /// A question that the owner answers before the call has a result.
    pub question: Option<OwnerQuestion>,
    /// Trust and readers of what the result holds, as far as they limit what the run may do next.
    pub label: TextLabel,
}

impl From<Value> for ToolOutcome {
    fn from(result: Value) -> Self {
        Self {
            result,
            ..Self::default()
        }
    }
}

impl ToolOutcome {
    pub fn labelled(result: Value, label: TextLabel) -> Self {
        Self {
            label,
            ..result.into()
        }
    }

    pub fn mailing(result: Value, draft: MailDraft) -> Self {
        Self {
            mail: Some(Box::new(draft)),
            ..result.into()
        }
    }

    pub fn writing(result: Value, memory: MemoryWrite) -> Self {
        Self {
            memory: Some(Box::new(memory)),
            ..result.into()
        }
    }
}

/// What the owner is asked by a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerQuestion {
    pub kind: ApprovalKind,
    /// Text that the owner reads.
    pub text: String,
}

/// A mail as a tool or the final answer drafts it; the run loop adds identity, threading headers and
/// frozen bytes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MailDraft {
    pub to: Vec<Address>,
    pub cc: Vec<Address>,
    pub bcc: Vec<Address>,
    pub subject: String,
    /// Body in Markdown.
    pub body: String,
    pub attachments: Vec<DraftAttachment>,
    pub calendar: Option<DraftCalendar>,
    /// `true`: it answers the triggering letter: threading headers and a `Re:` subject are added.
    pub is_reply: bool,
    /// Instant before which it does not leave; `None`: at once.
    pub at: Option<Timestamp>,
    /// `true`: it is to wait as a draft for its owner, whatever the policy allows.
    pub waits: bool,
}

/// Calendar part of a mail, and what the mail does to the event.
#[derive(Debug, Clone, PartialEq)]
pub struct DraftCalendar {
    /// `REQUEST`, `CANCEL` or `REPLY`.
    pub method: &'static str,
    /// iCalendar; lines end in CRLF.
    pub text: String,
    pub event: EventWrite,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DraftAttachment {
    pub filename: String,
    pub content_type: String,
    pub bytes: Vec<u8>,
}
