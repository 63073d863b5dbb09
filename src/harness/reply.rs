//! Drafts become mails: identity, threading headers and frozen bytes; and what may become of the final text.

use super::desk::RunError;
use super::gate::Gate;
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
pub async fn mail_policy(gate: &Gate<'_>) -> Result<MailPolicy, RunError> {
    let config = &gate.desk.config;
    let people = gate.desk.ledger.thread_participants(gate.run, &gate.subject.message.thread).await?;
    // Another persona on the letter is somebody like anybody else; the limit of hops ends what they may start.
    let is_self =
        |address: &Address| config.personas.by_address(address).is_some_and(|p| p.id == gate.persona.id);
    let participants =
        people.iter().filter_map(|text| Address::parse(text).ok()).filter(|a| !is_self(a)).collect();
    Ok(MailPolicy {
        outbound_configured: config.gateway.outbound.is_some(),
        persona_address: gate.persona.address.clone(),
        participants,
        owners: config.gateway.owners.clone(),
        allow: config.security.send_allow.clone(),
        mails_per_run_max: gate.desk.config.inference.budget.mails_max,
        mails_sent: gate.mails_sent,
        answers: answered(gate),
    })
}

/// The letter this run answers, as far as a reply needs it.
fn answered(gate: &Gate<'_>) -> Option<Answered> {
    if gate.run.trigger != Trigger::Email {
        return None;
    }
    let message = &gate.subject.message;
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

/// Makes a draft a mail with frozen bytes, queued with its delivery. The caller counts it.
pub fn outbound(gate: &Gate<'_>, draft: MailDraft) -> Result<NewOutbound, RunError> {
    let mut mail = freeze(gate, draft, None)?;
    if let Fate::Send { reservation, .. } = &mut mail.fate {
        let max = gate.desk.config.inference.budget.mails_max;
        reservation.mails_of_run_max = Some(u32::try_from(max).unwrap_or(u32::MAX));
    }
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
    let gate = work.gate();
    let config = &gate.desk.config;
    let (to, is_reply) = match answered(&gate) {
        Some(letter) => (writer(letter, &config.security.send_allow).into_iter().collect(), true),
        None => (config.gateway.owners.clone(), false),
    };
    let withheld = if gate.replied {
        Some(Withheld::AlreadyReplied)
    } else if gate.persona.reply == ReplyMode::ToolOnly {
        Some(Withheld::ToolOnly)
    } else if config.gateway.outbound.is_none() {
        Some(Withheld::OutboundNotConfigured)
    } else if to.is_empty() {
        Some(Withheld::NoRecipient)
    } else if quota::exceeds_hops(&gate) {
        Some(Withheld::HopLimit)
    } else {
        None
    };
    let subject = gate.subject.message.subject.clone();
    let draft = MailDraft { to, subject, body: text.to_owned(), is_reply, ..MailDraft::default() };
    // The answer of a scheduled run goes to the owners and belongs to the responsibility's own thread.
    let mail = NewOutbound { place: None, ..freeze(&gate, draft, withheld)? };
    if withheld.is_none() {
        work.count_mail(&mail);
    }
    Ok(Some(mail))
}

fn freeze(gate: &Gate<'_>, draft: MailDraft, withheld: Option<Withheld>) -> Result<NewOutbound, RunError> {
    let clock = gate.desk.clock.as_ref();
    let id = MessageId::new(clock.new_id());
    let letter = answered(gate).filter(|_| draft.is_reply);
    let everybody = || draft.to.iter().chain(&draft.cc).chain(&draft.bcc);
    let recipients: Vec<String> = everybody().map(Address::to_string).collect();
    let reservation = quota::reservation(gate, everybody());
    let message_id = mime::new_message_id(id.as_str(), gate.persona.address.domain());
    let outgoing = Outgoing {
        loop_token: Some(quota::loop_token(gate, &message_id)),
        message_id,
        date: clock.now(),
        from_name: gate.persona.name.clone(),
        from: gate.persona.address.clone(),
        subject: match &letter {
            Some(letter) => mime::reply_subject(&letter.subject),
            None => draft.subject,
        },
        in_reply_to: letter.as_ref().and_then(|letter| letter.rfc_message_id.clone()),
        references: letter.as_ref().map_or_else(Vec::new, |letter| {
            mime::reply_references(&letter.references, letter.rfc_message_id.as_deref())
        }),
        automatic: if gate.run.trigger == Trigger::Email { Automatic::Replied } else { Automatic::Generated },
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
            let sealed = gate.desk.config.gateway.signers.seal(bytes, &outgoing.from, outgoing.date);
            let delivery = NewDelivery {
                id: DeliveryId::new(clock.new_id()),
                message_id: id.clone(),
                run_id: Some(gate.run.id.clone()),
                kind: DeliveryKind::Mail,
                envelope_from: envelope_from(gate).to_string(),
                recipients,
                bytes: sealed.map_err(|error| unmailable(error.to_string()))?,
            };
            Fate::Send { delivery: Box::new(delivery), reservation }
        }
    };
    Ok(NewOutbound { id, place, participants, content: content(&outgoing), hops: quota::hops(gate), fate })
}

/// Where the mail systems of the world report to when this mail does not arrive.
fn envelope_from(gate: &Gate<'_>) -> Address {
    let address = &gate.persona.address;
    match gate.desk.config.gateway.bounce_address {
        BounceAddress::Tagged => bounce_address(address, &gate.desk.clock.new_token()),
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
