//! Drafts become mails: identity, threading headers and frozen bytes; and what may become of the final text.

use super::desk::RunError;
use super::work::Work;
use crate::config::{BounceAddress, ReplyMode};
use crate::domain::{
    Address, ConversationId, DeliveryId, ErrorClass, MessageId, ThreadId, Trigger, bounce_address,
};
use crate::mime::{self, Automatic, Outgoing, OutgoingAttachment};
use crate::store::{Content, DeliveryKind, NewDelivery, NewOutbound, Place};
use crate::tools::{self, Answered, DraftAttachment, MailDraft, MailPolicy};
use serde_json::json;

/// To whom this run may write.
pub async fn mail_policy(work: &Work<'_>) -> Result<MailPolicy, RunError> {
    let config = &work.desk.config;
    let people = work.store.thread_participants(&work.subject.message.thread).await?;
    let is_persona = |address: &Address| config.personas.by_address(address).is_some();
    let participants =
        people.iter().filter_map(|text| Address::parse(text).ok()).filter(|a| !is_persona(a)).collect();
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
    let mail = freeze(work, draft, Fate::Send)?;
    work.mails_sent += 1;
    work.replied |= mail.place.is_none();
    Ok(mail)
}

/// What becomes of a text.
enum Fate {
    Send,
    /// By this rule.
    Withhold(&'static str),
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
    let fate = if work.replied {
        Fate::Withhold("already_replied")
    } else if work.persona.reply == ReplyMode::ToolOnly {
        Fate::Withhold("tool_only")
    } else if config.gateway.outbound.is_none() {
        Fate::Withhold("outbound_not_configured")
    } else if to.is_empty() {
        Fate::Withhold("no_recipient")
    } else {
        Fate::Send
    };
    let subject = work.subject.message.subject.clone();
    let draft = MailDraft { to, subject, body: text.to_owned(), is_reply, ..MailDraft::default() };
    if let Fate::Send = fate {
        work.mails_sent += 1;
        work.replied = true;
    }
    // The answer of a scheduled run goes to the owners and belongs to the responsibility's own thread.
    let mut mail = freeze(work, draft, fate)?;
    mail.place = None;
    Ok(Some(mail))
}

fn freeze(work: &Work<'_>, draft: MailDraft, fate: Fate) -> Result<NewOutbound, RunError> {
    let clock = work.desk.clock.as_ref();
    let id = MessageId::new(clock.new_id());
    let letter = answered(work).filter(|_| draft.is_reply);
    let outgoing = Outgoing {
        message_id: mime::new_message_id(id.as_str(), work.persona.address.domain()),
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
    let recipients: Vec<String> =
        outgoing.to.iter().chain(&outgoing.cc).chain(&draft.bcc).map(Address::to_string).collect();
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
    let (delivery, disposition) = match fate {
        Fate::Withhold(rule) => (None, format!("withheld:{rule}")),
        Fate::Send => {
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
            (Some(delivery), "sent".to_owned())
        }
    };
    Ok(NewOutbound { id, place, participants, content: content(&outgoing), delivery, disposition })
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
