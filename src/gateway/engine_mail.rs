//! A mail that the engine writes itself: composed, signed and ready to be stored.
//!
//! It has the null envelope sender, unless the smarthost takes none (`"bounce_address": "plain"`), and is marked as automatic, so
//! that no responder answers it (RFC 3834 section 2, RFC 5321 section 4.5.5).

use crate::config::{Config, Persona};
use crate::domain::{Address, DeliveryId, LoopToken, MessageId, Trust};
use crate::mime::{self, Automatic, ComposeError, Outgoing, SignError};
use crate::store::{Content, DeliveryKind, EngineMail, NewDelivery, Store};
use serde_json::json;

/// Display name of the sender of a mail for owners; the address is a persona's.
pub const ENGINE_NAME: &str = "Attaché";

/// A mail before it is composed.
pub struct EngineDraft {
    pub from_name: String,
    pub to: Vec<Address>,
    pub subject: String,
    pub body_markdown: String,
    /// Message-ID of the mail that it answers.
    pub in_reply_to: Option<String>,
    /// References of that mail, oldest first.
    pub references: Vec<String>,
    pub automatic: Automatic,
    /// Number of consecutive mails that personas wrote, this one included.
    pub hops: u32,
    pub kind: DeliveryKind,
}

/// Error of composing a mail of the engine. Addresses are checked and texts are bounded, so it is a bug of ours.
#[derive(Debug, thiserror::Error)]
pub enum Unmailable {
    #[error(transparent)]
    Compose(#[from] ComposeError),
    #[error(transparent)]
    Sign(#[from] SignError),
}

/// Builds a mail of `persona` with its final bytes, as it will be stored and sent.
pub fn compose(
    (config, store): (&Config, &Store),
    persona: &Persona,
    draft: EngineDraft,
) -> Result<EngineMail, Unmailable> {
    let clock = store.clock();
    let id = MessageId::new(clock.new_id());
    let message_id = mime::new_message_id(id.as_str(), persona.address.domain());
    let key = config.loop_key.as_ref().unwrap_or(store.loop_key());
    let references = match &draft.in_reply_to {
        Some(answered) => mime::reply_references(&draft.references, Some(answered)),
        None => draft.references,
    };
    let outgoing = Outgoing {
        loop_token: Some(key.seal(&LoopToken {
            hops: draft.hops,
            message_id: message_id.clone(),
        })),
        message_id,
        date: clock.now(),
        from_name: draft.from_name,
        from: persona.address.clone(),
        to: draft.to,
        cc: Vec::new(),
        subject: draft.subject,
        in_reply_to: draft.in_reply_to,
        references,
        automatic: draft.automatic,
        body_markdown: draft.body_markdown,
        footer: mime::LetterFooter::default(),
        calendar: None,
        attachments: Vec::new(),
    };
    let bytes = mime::compose(&outgoing)?;
    let signers = &config.gateway.signers;
    let delivery = NewDelivery {
        id: DeliveryId::new(clock.new_id()),
        message_id: id.clone(),
        run_id: None,
        kind: draft.kind,
        envelope_from: config
            .gateway
            .bounce_address
            .engine_mail_sender(&persona.address),
        undo_ms: 0,
        not_before: None,
        recipients: outgoing.to.iter().map(Address::to_string).collect(),
        bytes: signers.seal(bytes, &outgoing.from, outgoing.date)?,
    };
    Ok(EngineMail {
        id,
        content: content(outgoing),
        delivery,
    })
}

/// Content of the stored message, equal to the mail that is sent.
fn content(outgoing: Outgoing) -> Content {
    let to: Vec<String> = outgoing.to.iter().map(Address::to_string).collect();
    Content {
        rfc_message_id: outgoing.message_id,
        in_reply_to: outgoing.in_reply_to,
        references: outgoing.references,
        sender: format!("{} <{}>", outgoing.from_name, outgoing.from),
        recipients_json: json!({ "to": to, "cc": [] }).to_string(),
        subject: outgoing.subject,
        text_body: outgoing.body_markdown,
        fresh_text: None,
        html_body: None,
        trust: Trust::System,
        metadata_json: "{}".to_owned(),
    }
}
