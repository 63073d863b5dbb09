//! One file per tool, and the list of them.
//!
//! A tool returns what it wants done; it opens no socket and writes no row. The harness commits its result and
//! its effects in one transaction.

pub mod arguments;
mod folder;
mod list_files;
mod read_file;
mod schedule_create;
mod search_email;
mod send_email;
mod update_memory;

pub use arguments::check_args;
pub use search_email::SCOPE_OF_THREAD;
pub use send_email::{MAIL_LIMIT_REACHED, is_listed, no_more_mails};

use crate::clock::Clock;
use crate::domain::{Address, RunId, Timestamp, Trust};
use crate::store::PersonaStore;
use futures_util::future::{BoxFuture, ready};
use serde_json::{Map, Value};

/// Every tool, in the order the model sees them.
pub static TOOLS: &[&dyn Tool] = &[
    &send_email::SendEmail,
    &search_email::SearchEmail,
    &read_file::ReadFile,
    &list_files::ListFiles,
    &update_memory::UpdateMemory,
    &schedule_create::ScheduleCreate,
];

/// One ability of a persona.
///
/// Implementations are unit structs: all state arrives in [`ToolCall`], so a call can be replayed. Word errors for
/// the model: say what would work; leave the tool's name out of them, the caller adds it. Arguments have passed
/// the tool's schema before `call` runs.
pub trait Tool: Send + Sync {
    /// `^[a-z][a-z0-9_]{0,63}$`, legal for every provider.
    fn name(&self) -> &'static str;
    /// What the model reads.
    fn description(&self) -> &'static str;
    /// JSON Schema of the arguments: an object with `additionalProperties: false`.
    fn input_schema(&self) -> Value;
    /// What recovery may do when the call was started and no result was stored.
    fn class(&self) -> ToolClass;
    /// What a call does beyond its result; the harness decides by it which runs may make one.
    fn effects(&self) -> Effects;
    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<ToolOutcome, ToolError>>;
    /// Of a [`ToolClass::Verifiable`] tool: what the call finds and what it will leave behind, in values that can be
    /// compared later. It is stored with the call, before the call begins; it changes nothing.
    fn foresee<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<Value, ToolError>> {
        let _unused = call;
        Box::pin(ready(Ok(Value::Null)))
    }
    /// Of a [`ToolClass::Verifiable`] tool: what became of a call that was cut off, by what was `foreseen`.
    fn verify<'a>(
        &'a self,
        call: ToolCall<'a>,
        foreseen: &'a Value,
    ) -> BoxFuture<'a, Result<Found, ToolError>> {
        let _unused = (call, foreseen);
        Box::pin(ready(Ok(Found::Neither)))
    }
}

/// What a call of a tool does beyond its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Effects {
    /// It gives mail of other threads.
    pub reads_mail: bool,
    /// It reaches somebody outside.
    pub sends_out: bool,
    /// It leaves something that later runs go by.
    pub changes_state: bool,
}

impl Effects {
    /// It reads what is the persona's own, and that is all.
    pub const NONE: Self = Self { reads_mail: false, sends_out: false, changes_state: false };
}

/// Whose eyes files are read with: what they see can end in an answer to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// The owner, or the engine's own prompt.
    Owner,
    /// Whoever proved an address.
    Correspondent,
    /// Somebody who proved nothing.
    Unproven,
}

/// Where something that a run writes comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// An address, or the name of a duty.
    pub from: String,
    /// How far that is proven.
    pub trust: String,
    /// When the letter came, or the duty was due.
    pub at: Timestamp,
}

/// What recovery may do with an interrupted call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolClass {
    /// Reads only: run it again.
    Repeatable,
    /// Its effect commits with its result, so no result means that nothing happened: run it.
    Transactional,
    /// Its effect can be seen: look ([`Tool::verify`]), and run it only if nothing has happened.
    Verifiable,
    /// Never run it again: the model is told `outcome_unknown` and may not repeat the call in this run, and the owner is
    /// told too.
    Once,
}

/// What a look at the traces of a call that was cut off shows.
#[derive(Debug)]
pub enum Found {
    /// It has happened; this is what it would have said.
    Done(Box<ToolOutcome>),
    /// Everything is as it was before it.
    Untouched,
    /// Something else has happened since.
    Neither,
}

/// Everything a call may use.
pub struct ToolCall<'a> {
    /// The run in which it is made.
    pub run: &'a RunId,
    pub args: &'a Map<String, Value>,
    /// The persona's rows.
    pub store: &'a PersonaStore,
    /// The persona's folder, as a capability: nothing outside it can be named.
    pub folder: &'a cap_std::fs_utf8::Dir,
    pub mail: &'a MailPolicy,
    pub limits: &'a ToolLimits,
    pub clock: &'a dyn Clock,
    /// What the run goes back to.
    pub origin: &'a Origin,
    pub reader: Reader,
}

/// To whom this run may write, and in whose name.
#[derive(Debug, Clone)]
pub struct MailPolicy {
    /// Some transport is configured; without one, sending is a terminal failure.
    pub outbound_configured: bool,
    /// The persona's own address.
    pub persona_address: Address,
    /// People of this thread.
    pub participants: Vec<Address>,
    pub owners: Vec<Address>,
    /// Configured further recipients: exact addresses or `*@domain`.
    pub allow: Vec<String>,
    /// Mails one run may send.
    pub mails_per_run_max: usize,
    /// Mails that this run has sent so far.
    pub mails_sent: usize,
    /// The letter this run answers; `None` for schedules.
    pub answers: Option<Answered>,
    /// Why the configured further recipients are closed to this run; `None`: they are not.
    pub closed: Option<&'static str>,
}

/// The letter a run answers, as far as a reply needs it.
#[derive(Debug, Clone)]
pub struct Answered {
    pub sender: Option<Address>,
    pub sender_trust: Trust,
    /// The address that `Reply-To` names, when there is exactly one.
    pub reply_to: Option<Address>,
    pub subject: String,
    /// RFC Message-ID; `None` when the letter had none of its own.
    pub rfc_message_id: Option<String>,
    /// Its References, oldest first.
    pub references: Vec<String>,
    pub received_at: Timestamp,
}

/// Sizes a tool must keep to.
#[derive(Debug, Clone)]
pub struct ToolLimits {
    /// A result longer than this is cut, and says so.
    pub result_bytes_max: usize,
    /// Largest file that may be read or attached.
    pub file_bytes_max: usize,
    /// Largest `active.md`.
    pub memory_bytes_max: usize,
    /// Attachments of one mail together.
    pub attachments_bytes_max: usize,
}

/// What a successful call gives back.
#[derive(Debug, Default)]
pub struct ToolOutcome {
    /// What the model reads, as the value of `result`.
    pub result: Value,
    /// A mail to queue in the transaction that records the result.
    pub mail: Option<MailDraft>,
}

/// A mail as a tool or the final answer wants it; the harness adds identity, threading headers and frozen bytes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MailDraft {
    pub to: Vec<Address>,
    pub cc: Vec<Address>,
    pub bcc: Vec<Address>,
    pub subject: String,
    /// Markdown.
    pub body: String,
    pub attachments: Vec<DraftAttachment>,
    /// It answers the triggering letter: threading headers and a `Re:` subject are added.
    pub is_reply: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DraftAttachment {
    pub filename: String,
    pub content_type: String,
    pub bytes: Vec<u8>,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The model may mend it. `code` is a stable word such as `recipient_not_allowed`.
    #[error("{message}")]
    Mendable { code: &'static str, message: String },
    /// This engine does not offer the action: the run ends.
    #[error("this engine does not offer {0}")]
    UnsupportedAction(&'static str),
    /// A mail was to be sent and no outbound transport is configured: the run ends.
    #[error("no outbound transport is configured")]
    OutboundNotConfigured,
    /// The database failed; the run is tried again.
    #[error("the store failed")]
    Store(#[from] crate::store::StoreError),
}

impl ToolError {
    pub fn mendable(code: &'static str, message: impl Into<String>) -> Self {
        ToolError::Mendable { code, message: message.into() }
    }
}

/// The tool of that name.
pub fn find(name: &str) -> Option<&'static dyn Tool> {
    TOOLS.iter().copied().find(|tool| tool.name() == name)
}
