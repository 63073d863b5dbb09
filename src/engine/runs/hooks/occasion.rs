//! What a hook is given to read: one JSON object, whose members depend on the event.

use crate::context::resolvers::Subject;
use crate::domain::{Address, HookEvent, sha256_hex};
use crate::runs::label::RunLabel;
use crate::store::ClaimedRun;
use crate::tools::MailDraft;
use serde_json::{Value, json};

/// An occasion for hooks.
pub struct Occasion {
    pub event: HookEvent,
    /// Tool of a call; empty for an occasion of the run.
    pub tool: String,
    pub body: Value,
}

impl Occasion {
    /// Builds an occasion of a run, without more than the run itself.
    pub fn of_run(event: HookEvent, run: &ClaimedRun) -> Self {
        Self {
            event,
            tool: String::new(),
            body: json!({
                "event": event,
                "persona": run.persona.as_str(),
                "run": run.id.as_str(),
                "thread": run.thread.as_str(),
                "trigger": run.trigger,
                "attempt": run.attempt,
            }),
        }
    }

    /// Builds an occasion of a call in a run, with the label of the run at this moment.
    pub fn of_call(event: HookEvent, run: &ClaimedRun, tool: &str, label: &RunLabel) -> Self {
        let mut occasion = Self::of_run(event, run);
        tool.clone_into(&mut occasion.tool);
        occasion.body["tool"] = json!(tool);
        occasion.body["label"] = json!({
            "sender": label.sender,
            "floor": label.floor,
            "readers": label.readers,
        });
        occasion
    }

    #[must_use]
    pub fn with(mut self, member: &str, value: Value) -> Self {
        self.body[member] = value;
        self
    }
}

/// Returns the message that a run answers.
pub fn letter(subject: &Subject) -> Value {
    let message = &subject.message;
    json!({
        "from": message.sender,
        "subject": message.subject,
        "message_id": message.rfc_message_id,
        "trust": message.trust,
        "text": message.text_body,
        "attachments": subject.attachments,
    })
}

/// Returns a mail that is about to be queued. Of attachments it has the digests, not the bytes.
pub fn mail(draft: &MailDraft) -> Value {
    let names = |addresses: &[Address]| -> Vec<String> {
        addresses.iter().map(ToString::to_string).collect()
    };
    let attachments = draft.attachments.iter().map(|attachment| {
        json!({
            "name": attachment.filename,
            "type": attachment.content_type,
            "bytes": attachment.bytes.len(),
            "sha256": sha256_hex(&[&attachment.bytes]),
        })
    });
    json!({
        "to": names(&draft.to),
        "cc": names(&draft.cc),
        "bcc": names(&draft.bcc),
        "subject": draft.subject,
        "text": draft.body,
        "is_reply": draft.is_reply,
        "attachments": attachments.collect::<Vec<_>>(),
    })
}
