//! Drafts become mails: identity, threading headers and frozen bytes; and what may become of the final text.

use super::desk::RunError;
use super::quota;
use super::work::Work;
use crate::config::{BounceAddress, ReplyMode};
use crate::domain::{
    Address, ConversationId, DeliveryId, ErrorClass, MessageId, ThreadId, Trigger, Withheld, bounce_address,
};
use crate::mime::{self, Automatic, Outgoing, OutgoingAttachment};
use crate::store::{Content, DeliveryKind, Fate, NewDelivery, NewOutbound, Place};
use crate::tools::{self, Answered, DraftAttachment, MailDraft, MailPolicy};
use serde_json::json;

/// To whom this run may write.
pub async fn mail_policy(work: &Work<'_>) -> Result<MailPolicy, RunError> {
    let config = &work.desk.config;
    let people = work.store.thread_participants(&work.subject.message.thread).await?;
    // Another persona on the letter is somebody like anybody else; the limit of hops ends what they may start.
    let is_self =
        |address: &Address| config.personas.by_address(address).is_some_and(|p| p.id == work.persona.id);
    let participants =
        people.iter().filter_map(|text| Address::parse(text).ok()).filter(|a| !is_self(a)).collect();
    Ok(MailPolicy {
        outbound_configured: config.gateway.outbound.is_some(),
        persona_address: work.persona.address.clone(),
        participants,
        owners: config.gateway.owners.clone(),
        allow: config.security.send_allow.clone(),
        mails_per_run_max: work.budget().mails_max,
        mails_sent: work.mails_sent,
        answers: answered(work),
    })
}

/// The letter this run answers, as far as a reply needs it.
fn answered(work: &Work<'_>) -> Option<Answered> {
    if work.run.trigger != Trigger::Email {
        return None;
    }
    let message = &work.subject.message;
    let metadata: serde_json::Value = serde_json::from_str(&message.metadata_json).unwrap_or_default();
    let address = |key: &str| metadata[key].as_str().and_then(|text| Address::parse(text).ok());
    let has_own_id = metadata["generated_message_id"] != true;
    Some(Answered {
        sender: address("sender"),
        reply_to: address("reply_to"),
        subject: message.subject.clone(),
        rfc_message_id: has_own_id.then(|| message.rfc_message_id.clone()),
        references: message.references.clone(),
        received_at: message.received_at,
    })
}

/// Makes a draft a mail with frozen bytes, queued with its delivery. Counts it.
pub fn outbound(work: &mut Work<'_>, draft: MailDraft) -> Result<NewOutbound, RunError> {
    let mail = freeze(work, draft, None)?;
    work.mails_sent += 1;
    work.replied |= mail.place.is_none();
    Ok(mail)
}

/// To whom an answer goes: `From`, or a `Reply-To` that is the same mailbox under another tag or that the configuration
/// allows. Any other `Reply-To` would make us write to whomever the sender likes (RFC 3834 section 4).
fn writer(letter: Answered, send_allow: &[String]) -> Option<Address> {
    let sender = letter.sender?;
    let is_same_mailbox =
        |other: &Address| other.domain() == sender.domain() && other.base_local() == sender.base_local();
    let reply_to = letter.reply_to.filter(|to| is_same_mailbox(to) || tools::is_listed(send_allow, to));
    Some(reply_to.unwrap_or(sender))
}

/// Makes the final text the reply, or stores it with the rule that withheld it. `None` when there is no text.
pub fn final_reply(work: &mut Work<'_>, text: &str) -> Result<Option<NewOutbound>, RunError> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let config = &work.desk.config;
    let (to, is_reply) = match answered(work) {
        Some(letter) => (writer(letter, &config.security.send_allow).into_iter().collect(), true),
        None => (config.gateway.owners.clone(), false),
    };
    let withheld = if work.replied {
        Some(Withheld::AlreadyReplied)
    } else if work.persona.reply == ReplyMode::ToolOnly {
        Some(Withheld::ToolOnly)
    } else if config.gateway.outbound.is_none() {
        Some(Withheld::OutboundNotConfigured)
    } else if to.is_empty() {
        Some(Withheld::NoRecipient)
    } else if quota::exceeds_hops(work) {
        Some(Withheld::HopLimit)
    } else {
        None
    };
    let subject = work.subject.message.subject.clone();
    let draft = MailDraft { to, subject, body: text.to_owned(), is_reply, ..MailDraft::default() };
    if withheld.is_none() {
        work.mails_sent += 1;
        work.replied = true;
    }
    // The answer of a scheduled run goes to the owners and belongs to the responsibility's own thread.
    let mut mail = freeze(work, draft, withheld)?;
    mail.place = None;
    Ok(Some(mail))
}

fn freeze(work: &Work<'_>, draft: MailDraft, withheld: Option<Withheld>) -> Result<NewOutbound, RunError> {
    let clock = work.desk.clock.as_ref();
    let id = MessageId::new(clock.new_id());
    let letter = answered(work).filter(|_| draft.is_reply);
    let everybody = || draft.to.iter().chain(&draft.cc).chain(&draft.bcc);
    let recipients: Vec<String> = everybody().map(Address::to_string).collect();
    let reservation = quota::reservation(work, everybody());
    let message_id = mime::new_message_id(id.as_str(), work.persona.address.domain());
    let outgoing = Outgoing {
        loop_token: Some(quota::loop_token(work, &message_id)),
        message_id,
        date: clock.now(),
        from_name: work.persona.name.clone(),
        from: work.persona.address.clone(),
        subject: match &letter {
            Some(letter) => mime::reply_subject(&letter.subject),
            None => draft.subject,
        },
        in_reply_to: letter.as_ref().and_then(|letter| letter.rfc_message_id.clone()),
        references: letter.as_ref().map_or_else(Vec::new, |letter| {
            mime::reply_references(&letter.references, letter.rfc_message_id.as_deref())
        }),
        automatic: if work.run.trigger == Trigger::Email { Automatic::Replied } else { Automatic::Generated },
        to: draft.to,
        cc: draft.cc,
        body_markdown: draft.body,
        attachments: draft.attachments.into_iter().map(attachment).collect(),
    };
    let mut participants: Vec<String> = outgoing.to.iter().chain(&outgoing.cc).map(Address::key).collect();
    participants.dedup();
    let place = (!draft.is_reply).then(|| Place {
        mentioned: Vec::new(),
        joins_as: None,
        vouched: true,
        replaces: None,
        participants: participants.clone(),
        new_conversation: ConversationId::new(clock.new_id()),
        new_thread: ThreadId::new(clock.new_id()),
    });
    let fate = match withheld {
        Some(rule) => Fate::Withhold(rule),
        None => {
            let unmailable = |why: String| RunError::Fatal {
                class: ErrorClass::BadRequest,
                message: format!("the answer cannot be made a mail: {why}"),
            };
            let bytes = mime::compose(&outgoing).map_err(|error| unmailable(error.to_string()))?;
            let sealed = work.desk.config.gateway.signers.seal(bytes, &outgoing.from, outgoing.date);
            let delivery = NewDelivery {
                id: DeliveryId::new(clock.new_id()),
                message_id: id.clone(),
                run_id: Some(work.run.id.clone()),
                kind: DeliveryKind::Mail,
                envelope_from: envelope_from(work).to_string(),
                recipients,
                bytes: sealed.map_err(|error| unmailable(error.to_string()))?,
            };
            Fate::Send { delivery: Box::new(delivery), reservation }
        }
    };
    Ok(NewOutbound { id, place, participants, content: content(&outgoing), hops: quota::hops(work), fate })
}

/// Where the mail systems of the world report to when this mail does not arrive.
fn envelope_from(work: &Work<'_>) -> Address {
    let address = &work.persona.address;
    match work.desk.config.gateway.bounce_address {
        BounceAddress::Tagged => bounce_address(address, &work.desk.clock.new_token()),
        BounceAddress::Plain => address.clone(),
    }
}

fn attachment(draft: DraftAttachment) -> OutgoingAttachment {
    OutgoingAttachment { filename: draft.filename, content_type: draft.content_type, bytes: draft.bytes }
}

/// The stored message is the mail that is sent.
fn content(outgoing: &Outgoing) -> Content {
    let spelled = |people: &[Address]| people.iter().map(Address::to_string).collect::<Vec<_>>();
    Content {
        rfc_message_id: outgoing.message_id.clone(),
        in_reply_to: outgoing.in_reply_to.clone(),
        references: outgoing.references.clone(),
        sender: format!("{} <{}>", outgoing.from_name, outgoing.from),
        recipients_json: json!({ "to": spelled(&outgoing.to), "cc": spelled(&outgoing.cc) }).to_string(),
        subject: outgoing.subject.clone(),
        text_body: outgoing.body_markdown.clone(),
        fresh_text: None,
        html_body: None,
        trust: crate::domain::Trust::System.as_str(),
        metadata_json: "{}".to_owned(),
    }
}
