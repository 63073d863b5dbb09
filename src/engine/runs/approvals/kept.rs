//! Drafts: mails that wait for an owner while their run does not. A draft is a question that parks nothing: its frozen mail
//! is sent by the commit of the decision, and a message without a delivery shows it in its thread until then.

use super::question::{QuestionSubject, question};
use crate::domain::{Address, MessageId, ReplyMode, Withheld};
use crate::mime;
use crate::policy::{PolicyDecision, PolicyEffect};
use crate::runs::tool_calls::context::ToolCallContext;
use crate::runs::tool_calls::verdict::ToolVerdict;
use crate::store::{Content, JournalEntry, MessageOutcome, NewApproval, NewOutbound};
use crate::tools::{MailDraft, ToolOutcome};
use serde_json::json;
use std::time::Duration;

/// Code of a mail that is kept as a draft without a rule.
const BY_MODE: &str = "draft";

/// A draft: the message that shows it, and the question whether to send it. They commit in this order.
pub struct KeptDraft {
    pub message: NewOutbound,
    pub approval: NewApproval,
}

impl KeptDraft {
    /// Returns the entries that store it.
    pub fn entries(self) -> [JournalEntry; 2] {
        [
            JournalEntry::Mail(Box::new(self.message)),
            JournalEntry::Ask(Box::new(self.approval)),
        ]
    }
}

/// Returns what `reply: draft`, or a call that wants it, makes of a decision on a mail. A mail to nobody but owners is sent:
/// they are who would decide.
pub fn applied(
    ctx: &ToolCallContext<'_>,
    draft: &MailDraft,
    decision: PolicyDecision,
) -> PolicyDecision {
    let owners = &ctx.deps.config.gateway.owners;
    let is_owner = |address: &Address| owners.iter().any(|owner| owner.key() == address.key());
    let mut everybody = draft.to.iter().chain(&draft.cc).chain(&draft.bcc);
    let has_others = everybody.any(|address| !is_owner(address));
    let is_mode = ctx.persona.reply_under(ctx.options) == ReplyMode::Draft && has_others;
    match decision.effect {
        PolicyEffect::Allow if is_mode || draft.waits => PolicyDecision {
            effect: PolicyEffect::Draft,
            rule: None,
            code: BY_MODE.to_owned(),
            why: match draft.waits {
                true => "the persona left it for you to send".to_owned(),
                false => "what the persona writes to others waits for you".to_owned(),
            },
        },
        // Its owner decides either way, and reads why.
        PolicyEffect::Ask if is_mode || draft.waits => PolicyDecision {
            effect: PolicyEffect::Draft,
            ..decision
        },
        _ => decision,
    }
}

/// Returns the verdict on a call whose mail is a draft now.
pub fn done(outcome: ToolOutcome) -> ToolVerdict {
    let is_reply = outcome.result["reply"] == true;
    ToolVerdict::Done(ToolOutcome {
        result: json!({
            "sent": false,
            "draft": true,
            "reply": is_reply,
            "note": "kept as a draft; your owner reads it, and sends, edits or discards it, so do not write it again",
        }),
        label: outcome.label,
        ..ToolOutcome::default()
    })
}

/// Returns the verdict on a call when there is no room for a draft.
pub fn no_room() -> ToolVerdict {
    ToolVerdict::Failed {
        code: Withheld::DraftsUsedUp.as_str(),
        message: "this mail was to wait as a draft, and as many drafts wait as there may be; finish without it and say so"
            .to_owned(),
    }
}

/// Returns a draft with the message that shows it.
pub fn kept(
    ctx: &ToolCallContext<'_>,
    decision: &PolicyDecision,
    subject: QuestionSubject<'_>,
) -> KeptDraft {
    let mut approval = question(ctx, decision, subject, Duration::ZERO);
    let message = shown(ctx, &approval);
    approval.draft = Some(message.id.clone());
    KeptDraft { message, approval }
}

/// Returns the message that shows a draft in the thread of its run. It has an identity of its own: what is sent later has
/// that of the mail.
fn shown(ctx: &ToolCallContext<'_>, approval: &NewApproval) -> NewOutbound {
    let id = MessageId::new(ctx.deps.clock.new_id());
    let (content, hops, is_reply) = match approval.mail.as_deref() {
        Some(mail) => (mail.content.clone(), mail.hops, mail.place.is_none()),
        None => (Content::default(), 0, false),
    };
    NewOutbound {
        place: None,
        participants: Vec::new(),
        content: Content {
            rfc_message_id: mime::new_message_id(id.as_str(), ctx.persona.address.domain()),
            metadata_json: json!({ "is_draft_of_reply": is_reply }).to_string(),
            ..content
        },
        hops,
        outcome: MessageOutcome::Withhold(Withheld::Draft),
        event: None,
        footer: mime::LetterFooter::default(),
        unused_reply_to: None,
        id,
    }
}

/// Marks drafts among entries as withheld, because there is no room for the questions about them.
pub fn withhold(entries: &mut [JournalEntry]) {
    for entry in entries {
        if let JournalEntry::Mail(mail) = entry
            && matches!(mail.outcome, MessageOutcome::Withhold(Withheld::Draft))
        {
            mail.outcome = MessageOutcome::Withhold(Withheld::DraftsUsedUp);
        }
    }
}
