//! Makes mails of drafts: identity, threading headers and frozen bytes.

use super::destination::{self, ReplyDestination};
use super::{original, send_limits};
use crate::config::BounceAddress;
use crate::domain::{
    Address, ConversationId, DeliverTo, DeliveryId, ErrorClass, MessageId, ThreadId, Trigger,
    Trust, Withheld, bounce_address,
};
use crate::mime::{
    self, Automatic, ComposeError, LetterFooter, Outgoing, OutgoingAttachment, OutgoingCalendar,
};
use crate::runs::error::RunError;
use crate::runs::record::call_record::millis;
use crate::runs::tool_calls::context::ToolCallContext;
use crate::store::{
    Content, DeliveryKind, MailReservation, MessageOutcome, NewDelivery, NewOutbound, Place,
};
use crate::tools::{Answered, DraftAttachment, MailDraft, MailPolicy};
use serde_json::json;

/// Returns the recipients that this run may write to.
pub async fn mail_policy(ctx: &ToolCallContext<'_>) -> Result<MailPolicy, RunError> {
    let config = &ctx.deps.config;
    Ok(MailPolicy {
        outbound_configured: config.gateway.outbound.is_some(),
        persona_address: ctx.persona.address.clone(),
        participants: destination::people_of(ctx).await?,
        owners: config.gateway.owners.clone(),
        allow: config.security.send_allow.clone(),
        mails_per_run_max: ctx.deps.config.inference.budget.mails_max,
        mails_sent: ctx.mails_sent,
        answers: destination::answered(ctx),
        closed: None,
    })
}

/// Makes a draft a mail with frozen bytes, queued with its delivery. The caller counts it.
pub fn outbound(ctx: &ToolCallContext<'_>, draft: MailDraft) -> Result<NewOutbound, RunError> {
    let letter = destination::answered(ctx).filter(|_| draft.is_reply);
    let everybody = draft.to.iter().chain(&draft.cc).chain(&draft.bcc);
    let reservation = send_limits::reservation(ctx, everybody);
    let hops = send_limits::hops(ctx);
    let mut mail = freeze(ctx, draft, reservation, letter, hops, None)?;
    if let MessageOutcome::Send { reservation, .. } = &mut mail.outcome {
        let max = ctx.deps.config.inference.budget.mails_max;
        reservation.mails_of_run_max = Some(u32::try_from(max).unwrap_or(u32::MAX));
    }
    Ok(mail)
}

/// Makes the final text a mail to its destination, or stores it with the rule that withheld it.
/// `None` when there is no text. The caller
/// counts it.
pub async fn final_reply(
    ctx: &ToolCallContext<'_>,
    deliver_to: &DeliverTo,
    text: &str,
) -> Result<Option<NewOutbound>, RunError> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let ReplyDestination {
        to,
        cc,
        unused_reply_to,
        letter,
        hops,
        withheld,
    } = destination::destination(ctx, deliver_to).await?;
    let subject = ctx.subject.message.subject.clone();
    let is_reply = letter.is_some();
    let draft = MailDraft {
        to,
        cc,
        subject,
        body: text.to_owned(),
        is_reply,
        ..MailDraft::default()
    };
    let is_elsewhere = destination::is_elsewhere(ctx, deliver_to);
    // Copies count for nobody: somebody who is copied in often must not use up the answers to others.
    let reservation = send_limits::reservation(ctx, draft.to.iter());
    let mail = freeze(ctx, draft, reservation, letter, hops, withheld)?;
    // The answer of a scheduled run belongs to the run's own thread; what a letter makes others read does not belong to its
    // sender's.
    Ok(Some(match is_elsewhere {
        true => mail,
        false => NewOutbound {
            place: None,
            unused_reply_to,
            ..mail
        },
    }))
}

/// Freezes a mail. `letter` is the one that it answers, `hops` is the number of consecutive mails
/// written by personas, including this one.
fn freeze(
    ctx: &ToolCallContext<'_>,
    draft: MailDraft,
    reservation: MailReservation,
    letter: Option<Answered>,
    hops: u32,
    withheld: Option<Withheld>,
) -> Result<NewOutbound, RunError> {
    let clock = ctx.deps.clock.as_ref();
    let id = MessageId::new(clock.new_id());
    let everybody = draft.to.iter().chain(&draft.cc).chain(&draft.bcc);
    let recipients: Vec<String> = everybody.map(Address::to_string).collect();
    let (is_reply, not_before) = (draft.is_reply, draft.at);
    let event = draft
        .calendar
        .as_ref()
        .map(|calendar| calendar.event.clone());
    let outgoing = outgoing(ctx, draft, letter, &id, hops);
    let mut participants: Vec<String> = outgoing
        .to
        .iter()
        .chain(&outgoing.cc)
        .map(Address::key)
        .collect();
    participants.dedup();
    let place = (!is_reply).then(|| Place {
        mentioned: Vec::new(),
        joins_as: None,
        joins_only: None,
        authenticated: true,
        replaces: None,
        participants: participants.clone(),
        new_conversation: ConversationId::new(clock.new_id()),
        new_thread: ThreadId::new(clock.new_id()),
    });
    let outcome = match withheld {
        Some(rule) => MessageOutcome::Withhold(rule),
        None => {
            let delivery = NewDelivery {
                id: DeliveryId::new(clock.new_id()),
                message_id: id.clone(),
                run_id: Some(ctx.run.id.clone()),
                kind: DeliveryKind::Mail,
                envelope_from: envelope_from(ctx).to_string(),
                recipients,
                undo_ms: millis(ctx.persona.mail.undo),
                not_before,
                bytes: sealed(ctx, &outgoing)?,
            };
            MessageOutcome::Send {
                delivery: Box::new(delivery),
                reservation,
            }
        }
    };
    Ok(NewOutbound {
        id,
        place,
        participants,
        content: content(&outgoing),
        hops,
        outcome,
        event,
        footer: outgoing.footer,
        unused_reply_to: None,
    })
}

/// Returns the mail with its identity and threading headers.
fn outgoing(
    ctx: &ToolCallContext<'_>,
    draft: MailDraft,
    letter: Option<Answered>,
    id: &MessageId,
    hops: u32,
) -> Outgoing {
    let message_id = mime::new_message_id(id.as_str(), ctx.persona.address.domain());
    let original = original::quoted(ctx, &draft).filter(|_| letter.is_some());
    Outgoing {
        loop_token: Some(send_limits::loop_token(ctx, &message_id, hops)),
        message_id,
        date: draft.at.unwrap_or_else(|| ctx.deps.clock.now()),
        from_name: ctx.persona.name.clone(),
        from: ctx.persona.address.clone(),
        subject: match &letter {
            Some(letter) => mime::reply_subject(&letter.subject),
            None => draft.subject,
        },
        in_reply_to: letter
            .as_ref()
            .and_then(|letter| letter.rfc_message_id.clone()),
        references: letter.as_ref().map_or_else(Vec::new, |letter| {
            mime::reply_references(&letter.references, letter.rfc_message_id.as_deref())
        }),
        automatic: if ctx.run.trigger == Trigger::Email {
            Automatic::Replied
        } else {
            Automatic::Generated
        },
        to: draft.to,
        cc: draft.cc,
        body_markdown: draft.body,
        footer: LetterFooter {
            signature: ctx.persona.mail.signature.clone(),
            original,
        },
        calendar: draft.calendar.map(|calendar| OutgoingCalendar {
            method: calendar.method,
            text: calendar.text,
        }),
        attachments: draft.attachments.into_iter().map(attachment).collect(),
    }
}

/// Composes and signs the mail.
fn sealed(ctx: &ToolCallContext<'_>, outgoing: &Outgoing) -> Result<Vec<u8>, RunError> {
    let bytes = mime::compose(outgoing).map_err(|error| match error {
        ComposeError::TextTooLarge { .. } => unmailable(ErrorClass::AnswerTooLarge, &error),
        _ => unmailable(ErrorClass::BadRequest, &error),
    })?;
    let signers = &ctx.deps.config.gateway.signers;
    let sealed = signers.seal(bytes, &outgoing.from, outgoing.date);
    sealed.map_err(|error| unmailable(ErrorClass::BadRequest, &error))
}

fn unmailable(class: ErrorClass, why: &dyn std::fmt::Display) -> RunError {
    RunError::Fatal {
        class,
        message: format!("the answer cannot be made a mail: {why}"),
    }
}

/// Returns the envelope sender, to which mail systems report failed deliveries.
fn envelope_from(ctx: &ToolCallContext<'_>) -> Address {
    let address = &ctx.persona.address;
    match ctx.deps.config.gateway.bounce_address {
        BounceAddress::Tagged => bounce_address(address, &ctx.deps.clock.new_token()),
        BounceAddress::Plain => address.clone(),
    }
}

fn attachment(draft: DraftAttachment) -> OutgoingAttachment {
    OutgoingAttachment {
        filename: draft.filename,
        content_type: draft.content_type,
        bytes: draft.bytes,
    }
}

/// Returns the content of the stored message: the mail that is sent.
fn content(outgoing: &Outgoing) -> Content {
    let formatted = |people: &[Address]| people.iter().map(Address::to_string).collect::<Vec<_>>();
    Content {
        rfc_message_id: outgoing.message_id.clone(),
        in_reply_to: outgoing.in_reply_to.clone(),
        references: outgoing.references.clone(),
        sender: format!("{} <{}>", outgoing.from_name, outgoing.from),
        recipients_json: json!({ "to": formatted(&outgoing.to), "cc": formatted(&outgoing.cc) })
            .to_string(),
        subject: outgoing.subject.clone(),
        text_body: outgoing.body_markdown.clone(),
        fresh_text: None,
        html_body: None,
        trust: Trust::System,
        metadata_json: "{}".to_owned(),
    }
}
