//! A run as data: everything that happened in it, as values that can be stored, compared, and shown.
//!
//! [`load_run`] and [`load_thread`] gather what the store has; [`timeline`] makes it readable. A record is complete
//! in itself: its JSON form reads back as the same record.

mod load;
mod slot;
pub mod diff;
pub mod parcel;
pub mod fork;
pub mod select;
pub mod timeline;
pub mod sweep;
pub mod verify;
pub mod html;

pub use load::{load_run, load_thread};
pub use slot::{Destination, SlotRecord};

use crate::domain::filed;
use crate::store::Executor;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A run and everything that happened in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    pub run: RunFacts,
    /// Of a run of a responsibility.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<SlotRecord>,
    /// The message that the run answers.
    pub trigger: MessageRecord,
    /// What its resolvers contributed; `None` before its first turn.
    pub context: Option<ContextRecord>,
    /// Every provider call, failed tries included, in order.
    pub turns: Vec<TurnRecord>,
    /// Every tool call with its result, in order.
    pub calls: Vec<CallRecord>,
    /// The messages that it wrote, withheld ones included, in order.
    pub mails: Vec<MailRecord>,
    /// Its answer in the form that was asked for, when it had one.
    #[serde(default)]
    pub output: Option<OutputRecord>,
}

impl RunRecord {
    /// When `attache gc` threw away what its turns said, if it did.
    pub fn thrown_away_at(&self) -> Option<&str> {
        self.turns.iter().find_map(|turn| turn.pruned_at.as_deref())
    }
}

/// An answer that fits its schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputRecord {
    pub value: Value,
    pub schema_sha256: String,
    /// Times that the model was asked again.
    pub repairs: u32,
    pub created_at: String,
}

/// A thread, its last messages and the last runs in it, both oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadRecord {
    pub id: String,
    pub persona: String,
    pub conversation: String,
    pub subject: String,
    pub participants: Vec<String>,
    pub messages: Vec<MessageRecord>,
    pub runs: Vec<RunRecord>,
}

/// The row of a run. Times are RFC 3339 in UTC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFacts {
    pub id: String,
    pub persona: String,
    pub thread: String,
    pub trigger: String,
    /// Context profile.
    pub profile: String,
    pub state: String,
    pub attempt: u32,
    pub next_attempt_at: Option<String>,
    pub cancel_requested_at: Option<String>,
    pub provider: Option<String>,
    pub model: Option<String>,
    pub stop_reason: Option<String>,
    pub error: Option<ErrorRecord>,
    /// Summed over its turns.
    pub usage: UsageRecord,
    /// The bounds on tokens and money that it began with, each with where it was said; `None` before its first turn.
    #[serde(default)]
    pub limits: Option<Value>,
    pub created_at: String,
    pub started_at: Option<String>,
    pub finished_at: Option<String>,
}

/// Tokens, and micro-dollars when the price is known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct UsageRecord {
    pub input_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    pub output_tokens: u64,
    pub reasoning_tokens: u64,
    pub cost_micros: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorRecord {
    /// A word of [`crate::domain::ErrorClass`].
    pub class: String,
    pub message: String,
}

/// A message of a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessageRecord {
    pub id: String,
    /// `inbound`, `outbound` or `synthetic`.
    pub direction: String,
    /// RFC Message-ID without brackets.
    pub rfc_message_id: String,
    pub in_reply_to: Option<String>,
    /// As typed by its writer.
    pub sender: String,
    /// `{"to": […], "cc": […], "reply_to": […]}`
    pub recipients: Value,
    pub subject: String,
    pub text: String,
    /// `text` without quoted history, when there is some.
    pub fresh_text: Option<String>,
    pub received_at: String,
    pub trust: String,
    /// By what the trust was given, or why it was not; inbound letters only.
    #[serde(default)]
    pub trust_basis: Option<String>,
    /// What was checked, as RFC 8601 writes it; inbound letters only.
    #[serde(default)]
    pub authentication_results: Option<String>,
    /// `run`, `sent`, `filed:RULE` or `withheld:RULE`.
    pub disposition: String,
    /// The run that wrote it.
    pub run: Option<String>,
    pub attachments: Vec<AttachmentRecord>,
}

impl MessageRecord {
    /// Why a letter has no run, and what its owner can do about it; `None` for one that has, and for mail out.
    pub fn filed(&self) -> Option<(&'static str, String)> {
        let rule = filed::rule_of(&self.disposition)?;
        let sender = filed::address_in(&self.sender);
        Some((filed::why(rule), filed::remedy(rule, &self.id, sender.as_ref())))
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttachmentRecord {
    pub filename: String,
    pub content_type: String,
    pub size_bytes: u64,
}

/// What was assembled for the first turn; the shape of `runs.context_report_json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContextRecord {
    pub profile: String,
    pub budget_tokens: u64,
    pub used_tokens: u64,
    /// Why it is shorter than it would be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub entries: Vec<ContextEntry>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContextEntry {
    pub resolver: String,
    pub source: String,
    pub bytes: u64,
    /// Estimated.
    pub tokens: u64,
    /// `used`, `trimmed`, `dropped` or `empty`.
    pub outcome: String,
    #[serde(default)]
    pub why: Option<String>,
    /// Digest of what was sent of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// One provider call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnRecord {
    pub turn_index: u32,
    /// Tries of this turn, counted from 1.
    pub attempt: u32,
    /// `started`, `answered` or `failed`.
    pub state: String,
    pub provider: String,
    /// The model that was asked for.
    pub model: String,
    pub usage: UsageRecord,
    pub error: Option<ErrorRecord>,
    pub started_at: String,
    pub finished_at: Option<String>,
    pub request_sha256: String,
    /// The body that was sent.
    pub request: Value,
    /// Its exact text, where `request` written compactly would be another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_text: Option<String>,
    /// The normalised response, as it was committed before its first call started.
    pub response: Option<Value>,
    /// Its exact text, where `response` written compactly would be another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_text: Option<String>,
    /// Since when request and response are gone: `attache gc` threw them away, and nothing can be re-executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pruned_at: Option<String>,
}

impl TurnRecord {
    /// The body that was sent, byte by byte.
    pub fn request_sent(&self) -> String {
        self.request_text.clone().unwrap_or_else(|| self.request.to_string())
    }

    /// The response as it was committed, byte by byte; `None` when there was none.
    pub fn response_kept(&self) -> Option<String> {
        let response = self.response.as_ref()?;
        Some(self.response_text.clone().unwrap_or_else(|| response.to_string()))
    }
}

/// One tool call and its one result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    /// Unique in the run.
    pub id: String,
    pub tool: String,
    /// `engine`, or `agent` for a tool of a command-line agent's own.
    #[serde(default = "engine")]
    pub executor: String,
    /// The turn that asked for it, or during which it was made.
    pub turn_index: Option<u32>,
    /// `{"args": {…}}`, or `{"malformed": text, "error": why}`
    pub call: Value,
    /// `{"ok": true, "result": …}` or `{"ok": false, "error": {"code", "message"}}`; `None` when the run stopped in
    /// the middle.
    pub result: Option<Value>,
    pub called_at: String,
    pub finished_at: Option<String>,
}

fn engine() -> String {
    Executor::Engine.as_str().to_owned()
}

impl CallRecord {
    /// Whether it has a result that says so.
    pub fn succeeded(&self) -> bool {
        self.result.as_ref().is_some_and(|result| result["ok"] == true)
    }
}

/// A message that the run wrote, and its way out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MailRecord {
    pub message: MessageRecord,
    /// `None` when it was withheld.
    pub delivery: Option<DeliveryRecord>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeliveryRecord {
    pub id: String,
    pub state: String,
    pub attempts: u32,
    pub next_attempt_at: Option<String>,
    /// A recipient may have the mail twice.
    pub possible_duplicate: bool,
    /// Empty is the null reverse-path.
    pub envelope_from: String,
    pub size_bytes: u64,
    pub recipients: Vec<RecipientRecord>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecipientRecord {
    pub recipient: String,
    pub state: String,
    pub attempts: u32,
    pub next_attempt_at: Option<String>,
    pub last_code: Option<u16>,
    pub last_reply: Option<String>,
}
