//! Queues questions, reminders and explanations as mails to owners. Each mail commits with the mark that it was sent, so
//! that no crash asks twice or not at all.

use super::letter;
use crate::config::{Config, Persona};
use crate::domain::{
    Address, DeliveryId, LoopToken, MessageId, Trust, approval_address, sha256_hex,
};
use crate::mime::{self, Automatic, Outgoing};
use crate::store::{
    Content, DeliveryKind, NewDelivery, NoticeMail, PendingApproval, PendingExplanation, Place,
    QuestionMail, Result, Store, StoreError,
};
use serde_json::json;
use std::sync::Arc;

/// Characters of a token: 128 bits.
const TOKEN_CHARS: usize = 32;

/// Asks owners by mail.
pub struct OwnerQuestions {
    pub(super) store: Store,
    pub(super) config: Arc<Config>,
    /// Owners who can be asked.
    pub(super) owners: Vec<Address>,
}

/// A mail to one owner, before it is composed.
pub(super) struct OwnerMail<'a> {
    pub persona: &'a Persona,
    pub from: Address,
    pub to: &'a Address,
    pub subject: String,
    pub body: String,
    /// Message-ID of the mail that it answers, and that mail's References.
    pub answers: Option<(&'a str, &'a [String])>,
}

impl OwnerQuestions {
    pub fn new(store: Store, config: Arc<Config>, owners: Vec<Address>) -> Self {
        Self {
            store,
            config,
            owners,
        }
    }

    /// Queues the mails that are due now; returns their number.
    pub async fn work_once(&self) -> Result<usize> {
        let mut queued = 0;
        for pending in self.store.pending_approvals().await? {
            queued += self.ask(&pending).await?;
        }
        for pending in self.store.pending_explanations().await? {
            queued += self.explain(&pending).await?;
        }
        Ok(queued + self.work_on_digests().await?)
    }

    async fn ask(&self, pending: &PendingApproval) -> Result<usize> {
        let Some(persona) = self.config.personas.get(&pending.view.persona) else {
            return Ok(0);
        };
        let known = match pending.is_reminder {
            true => {
                let (id, sha256) = (&pending.view.id, &pending.view.sha256);
                self.store.approval_tokens(id, sha256).await?
            }
            false => Vec::new(),
        };
        let mut mails = Vec::new();
        for owner in &self.owners {
            let token = known
                .iter()
                .find_map(|(of, token)| (*of == owner.key()).then(|| token.clone()));
            // Somebody who became an owner since the question is not reminded of it.
            if pending.is_reminder && token.is_none() {
                continue;
            }
            let token = token.unwrap_or_else(|| self.new_token());
            let Some(from) = approval_address(&persona.address, &token) else {
                tracing::warn!(persona = %persona.id, "its address has no room for a token: its questions are answered by `attache approvals` alone");
                continue;
            };
            let mail = self.compose(OwnerMail {
                persona,
                from,
                to: owner,
                subject: letter::subject(&pending.view, &persona.name, pending.is_reminder),
                body: letter::body(&pending.view, &persona.name),
                answers: None,
            });
            let Some(mail) = mail else { continue };
            mails.push(QuestionMail {
                mail,
                owner: owner.key(),
                token,
            });
        }
        let (count, id) = (mails.len(), &pending.view.id);
        let question = (id.as_str(), pending.view.sha256.as_str());
        let asked = self.store.ask_owners(question, mails, pending.is_reminder);
        match asked.await {
            Ok(()) => {
                tracing::info!(approval = %id, run = %pending.view.run, mails = count, "owners are asked");
                Ok(count)
            }
            Err(StoreError::WrongState { .. }) => Ok(0),
            Err(error) => Err(error),
        }
    }

    async fn explain(&self, pending: &PendingExplanation) -> Result<usize> {
        let mail = self.explanation(pending).filter(|_| !pending.is_enough);
        let count = usize::from(mail.is_some());
        match self.store.explain_answer(&pending.message, mail).await {
            Ok(()) => Ok(count),
            Err(StoreError::WrongState { .. }) => Ok(0),
            Err(error) => Err(error),
        }
    }

    fn explanation(&self, pending: &PendingExplanation) -> Option<NoticeMail> {
        let persona = self.config.personas.get(&pending.view.persona)?;
        let owner = self
            .owners
            .iter()
            .find(|owner| owner.key() == pending.owner)?;
        self.compose(OwnerMail {
            persona,
            from: persona.address.clone(),
            to: owner,
            subject: letter::explanation_subject(pending),
            body: letter::explanation(pending),
            answers: Some((&pending.rfc_message_id, &pending.references)),
        })
    }

    pub(super) fn new_token(&self) -> String {
        let clock = self.store.clock();
        let ids: [String; 4] = std::array::from_fn(|_| clock.new_id());
        let mut token = sha256_hex(&ids.each_ref().map(String::as_bytes));
        token.truncate(TOKEN_CHARS);
        token
    }

    /// Builds a mail with its final bytes. `None`: it cannot be made one, which is logged; the question stays in
    /// `attache approvals`.
    pub(super) fn compose(&self, mail: OwnerMail<'_>) -> Option<NoticeMail> {
        let clock = self.store.clock();
        let id = MessageId::new(clock.new_id());
        let message_id = mime::new_message_id(id.as_str(), mail.persona.address.domain());
        let key = self.config.loop_key.as_ref();
        let key = key.unwrap_or(self.store.loop_key());
        let outgoing = Outgoing {
            loop_token: Some(key.seal(&LoopToken {
                hops: 1,
                message_id: message_id.clone(),
            })),
            message_id,
            date: clock.now(),
            from_name: format!("{} via Attaché", mail.persona.name),
            from: mail.from,
            to: vec![mail.to.clone()],
            cc: Vec::new(),
            subject: mail.subject,
            in_reply_to: mail.answers.map(|(id, _)| id.to_owned()),
            references: mail.answers.map_or_else(Vec::new, |(id, references)| {
                mime::reply_references(references, Some(id))
            }),
            automatic: Automatic::Generated,
            body_markdown: mail.body,
            calendar: None,
            attachments: Vec::new(),
        };
        let composed = mime::compose(&outgoing).map_err(|error| error.to_string());
        let sealed = composed.and_then(|bytes| {
            let signers = &self.config.gateway.signers;
            signers
                .seal(bytes, &outgoing.from, outgoing.date)
                .map_err(|error| error.to_string())
        });
        let bytes = match sealed {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::error!(%error, "a question to an owner cannot be made a mail");
                return None;
            }
        };
        Some(NoticeMail {
            persona: mail.persona.id.clone(),
            place: self.place(mail.to),
            content: content(&outgoing),
            delivery: NewDelivery {
                id: DeliveryId::new(clock.new_id()),
                message_id: id.clone(),
                run_id: None,
                kind: DeliveryKind::Notice,
                envelope_from: String::new(),
                recipients: vec![mail.to.to_string()],
                bytes,
            },
            id,
        })
    }

    /// A thread of its own for each mail: what an owner is asked is nobody else's to read.
    fn place(&self, owner: &Address) -> Place {
        Place {
            participants: vec![owner.key()],
            ..Place::alone(self.store.clock().as_ref())
        }
    }
}

/// Content of the stored message. The address to answer to is left out: whoever reads the rows shall not answer in an
/// owner's place.
fn content(outgoing: &Outgoing) -> Content {
    let to: Vec<String> = outgoing.to.iter().map(Address::to_string).collect();
    Content {
        rfc_message_id: outgoing.message_id.clone(),
        in_reply_to: outgoing.in_reply_to.clone(),
        references: outgoing.references.clone(),
        sender: outgoing.from_name.clone(),
        recipients_json: json!({ "to": to, "cc": [] }).to_string(),
        subject: outgoing.subject.clone(),
        text_body: outgoing.body_markdown.clone(),
        trust: Trust::System,
        metadata_json: "{}".to_owned(),
        ..Content::default()
    }
}
