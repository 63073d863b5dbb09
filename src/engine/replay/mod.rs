//! A run as data: everything that happened in it, as values that can be stored, compared, and
//! shown.
//!
//! [`load_run`] and [`load_thread`] load it from the store; [`timeline`] makes it readable. A
//! record is complete in itself: its JSON form reads back as an equal record.
//!
//! - `load`: a record from the store; `thread_detail`: a thread beside its record; `slot`: the scheduled slot of a run; `select`: a part of a record;
//!   `stages`: its order for readers; `seen`: what a model was told, as text
//! - `timeline`, `html`: a record for people; `bundle`: records as a file
//! - `diff`: two runs compared
//! - `verify`: runs executed again over their records
//! - `fork`: a run continued differently; `sweep`: past runs under a changed file; `policy_preview`: recorded calls under
//!   changed rules; `rule_proposal`: rules that would answer a question

mod load;
mod stages;
mod slot;
mod thread_detail;
mod seen;
pub mod diff;
pub mod bundle;
pub mod fork;
pub mod select;
pub mod timeline;
pub mod sweep;
pub mod policy_preview;
pub mod rule_proposal;
pub mod verify;
pub mod html;

pub use load::{load_run, load_thread, message_record};
pub use seen::{block_text, body_text, request_text};
pub use slot::{Destination, SlotRecord};
pub use stages::{RunStage, ThreadStage};
pub use thread_detail::ThreadDetail;

use crate::domain::TextLabel;
use crate::domain::mail::filed;
use crate::store::{Executor, HookCall, UsageRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A run and everything that happened in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRecord {
    pub run: RunRow,
    /// Slot of a responsibility's run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<SlotRecord>,
    /// Message that the run answers.
    pub trigger: MessageRecord,
    /// Contributions of its resolvers; `None` before its first turn.
    pub context: Option<ContextRecord>,
    /// Provider calls, failed attempts included, in order.
    pub turns: Vec<TurnRecord>,
    /// Tool calls with their results, in order.
    pub calls: Vec<CallRecord>,
    /// Messages that it wrote, withheld ones included, in order.
    pub mails: Vec<MailRecord>,
    /// Structured answer, when it had one.
    #[serde(default)]
    pub output: Option<OutputRecord>,
    /// Answers of the owner's programs, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookCall>,
}

impl RunRecord {
    /// Returns the time when the texts of its turns were pruned or erased, if they were.
    pub fn pruned_at(&self) -> Option<&str> {
        self.turns.iter().find_map(|turn| turn.pruned_at.as_deref())
    }

    /// Returns the time when its owner erased what it was told, if they did.
    pub fn redacted_at(&self) -> Option<&str> {
        let mut turns = self.turns.iter();
        turns.find_map(|turn| turn.redacted_at.as_deref())
    }
}

/// An answer that fits its schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OutputRecord {
    pub value: Value,
    pub schema_sha256: String,
    /// Number of repairs.
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

/// Row of a run. Times are RFC 3339 in UTC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRow {
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
    /// Usage of all its turns.
    pub usage: UsageRecord,
    /// MailBounds on tokens and money that it began with, each with its origin; `None` before its first
    /// turn.
    #[serde(default)]
    pub limits: Option<Value>,
    pub created_at: String,
    pub started_at: Option<String>,
    pub finished_at: Option<String>,
    /// Run that answers its letter in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorRecord {
    /// Name of a [`crate::domain::ErrorClass`].
    pub class: String,
    pub message: String,
}

/// A message of a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessageRecord {
    pub id: String,
    /// `inbound`, `outbound` or `synthetic`.
    pub direction: String,
    /// RFC Message-ID without brackets.
    pub rfc_message_id: String,
    pub in_reply_to: Option<String>,
    /// Sender as written in the letter.
    pub sender: String,
    /// Recipients: `{"to": […], "cc": […], "reply_to": […]}`.
    pub recipients: Value,
    pub subject: String,
    pub text: String,
    /// `text` without quoted history, when there is some.
    pub fresh_text: Option<String>,
    pub received_at: String,
    pub trust: String,
    /// Reason why the trust was given, or was not; inbound letters only.
    #[serde(default)]
    pub trust_basis: Option<String>,
    /// Authentication results in the format of RFC 8601; inbound letters only.
    #[serde(default)]
    pub authentication_results: Option<String>,
    /// `run`, `sent`, `filed:RULE` or `withheld:RULE`.
    pub disposition: String,
    /// Id of the run that wrote it.
    pub run: Option<String>,
    pub attachments: Vec<AttachmentRecord>,
}

impl MessageRecord {
    /// Returns the reason why a letter has no run, with advice to its owner; `None` for a letter
    /// that has one, and for outbound mail.
    pub fn filed(&self) -> Option<(&'static str, String)> {
        // Imported history has mail of the persona itself.
        let rule = filed::rule_of(&self.disposition).filter(|_| self.direction != "outbound")?;
        let sender = filed::address_in(&self.sender);
        Some((
            filed::why(rule),
            filed::remedy(rule, &self.id, sender.as_ref()),
        ))
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AttachmentRecord {
    pub filename: String,
    pub content_type: String,
    pub size_bytes: u64,
}

/// Context of the first turn; the shape of `runs.context_report_json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContextRecord {
    pub profile: String,
    pub budget_tokens: u64,
    pub used_tokens: u64,
    /// Reason why it was shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub entries: Vec<ContextEntry>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContextEntry {
    pub resolver: String,
    pub source: String,
    pub bytes: u64,
    /// Estimated tokens.
    pub tokens: u64,
    /// `used`, `trimmed`, `dropped` or `empty`.
    pub outcome: String,
    #[serde(default)]
    pub why: Option<String>,
    /// Digest of the part that was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Lowest trust of its authors, and who may read it.
    #[serde(default, skip_serializing_if = "TextLabel::is_nothing")]
    pub label: TextLabel,
}

/// One provider call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TurnRecord {
    pub turn_index: u32,
    /// Number of the attempt of this turn, counted from 1.
    pub attempt: u32,
    /// `started`, `answered` or `failed`.
    pub state: String,
    pub provider: String,
    /// Requested model.
    pub model: String,
    pub usage: UsageRecord,
    pub error: Option<ErrorRecord>,
    pub started_at: String,
    pub finished_at: Option<String>,
    pub request_sha256: String,
    /// Body that was sent.
    pub request: Value,
    /// Exact text of the request, where `request` in compact form would differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_text: Option<String>,
    /// Normalised response, as it was committed before its first call started.
    pub response: Option<Value>,
    /// Exact text of the response, where `response` in compact form would differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_text: Option<String>,
    /// Time when request and response went; after it the turn cannot be re-executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pruned_at: Option<String>,
    /// Time when the owner erased what the turn was told (`attache memory forget`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redacted_at: Option<String>,
}

impl TurnRecord {
    /// Returns the body that was sent, byte by byte.
    pub fn request_sent(&self) -> String {
        self.request_text
            .clone()
            .unwrap_or_else(|| self.request.to_string())
    }

    /// Returns the response as it was committed, byte by byte; `None` when there was none.
    pub fn response_kept(&self) -> Option<String> {
        let response = self.response.as_ref()?;
        Some(
            self.response_text
                .clone()
                .unwrap_or_else(|| response.to_string()),
        )
    }
}

/// One tool call and its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallRecord {
    /// Id, unique in the run.
    pub id: String,
    pub tool: String,
    /// `engine`, or `agent` for a tool of a command-line agent's own.
    #[serde(default = "engine")]
    pub executor: String,
    /// Turn that requested it, or during which it was made.
    pub turn_index: Option<u32>,
    /// Arguments: `{"args": {…}}`, or `{"malformed": text, "error": why}`.
    pub call: Value,
    /// Result: `{"ok": true, "result": …}` or `{"ok": false, "error": {"code", "message"}}`; `None`
    /// when the run stopped in the middle.
    pub result: Option<Value>,
    pub called_at: String,
    pub finished_at: Option<String>,
}

fn engine() -> String {
    Executor::Engine.as_str().to_owned()
}

impl CallRecord {
    /// Reports whether its result is a success.
    pub fn succeeded(&self) -> bool {
        self.result
            .as_ref()
            .is_some_and(|result| result["ok"] == true)
    }

    /// Describes the policy's decision on it with the label that the run had then; `None`: none was recorded.
    pub fn decision(&self) -> Option<String> {
        let policy = self.call.get("policy")?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let by = match policy["rule"].as_str() {
            Some(rule) => format!(" (rule {rule})"),
            None => Some(text(&policy["code"]))
                .filter(|code| !code.is_empty())
                .map(|code| format!(" ({code})"))
                .unwrap_or_default(),
        };
        let facts = &policy["facts"];
        let private = match facts["private"] == true {
            true => ", private",
            false => "",
        };
        let floor = text(&facts["floor"]);
        Some(format!(
            "{}{by}; floor {floor}{private}",
            text(&policy["effect"])
        ))
    }
}

/// A message that the run wrote, and its delivery.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MailRecord {
    pub message: MessageRecord,
    /// Delivery; `None` when it was withheld.
    pub delivery: Option<DeliveryRecord>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeliveryRecord {
    pub id: String,
    pub state: String,
    pub attempts: u32,
    pub next_attempt_at: Option<String>,
    /// `true`: a recipient may have the mail twice.
    pub possible_duplicate: bool,
    /// Envelope sender; empty is the null reverse-path.
    pub envelope_from: String,
    pub size_bytes: u64,
    pub recipients: Vec<RecipientRecord>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecipientRecord {
    pub recipient: String,
    pub state: String,
    pub attempts: u32,
    pub next_attempt_at: Option<String>,
    pub last_code: Option<u16>,
    pub last_reply: Option<String>,
}
