//! Queues questions, reminders and explanations as mails to owners. Each mail commits with the mark that it was sent, so
//! that no crash asks twice or not at all.

use super::letter;
use crate::config::{Config, Persona};
use crate::domain::{
    Address, DeliveryId, LoopToken, MessageId, PersonaId, Trust, approval_address, sha256_hex,
};
use crate::mime::{self, Automatic, Outgoing};
use crate::store::{
    Content, DeliveryKind, NewDelivery, NoticeMail, PendingApproval, PendingExplanation, Place,
    QuestionMail, Result, Store, StoreError,
};
use chrono_tz::Tz;
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
struct OwnerMail<'a> {
    persona: &'a Persona,
    from: Address,
    to: &'a Address,
    subject: String,
    body: String,
    /// Message-ID of the mail that it answers, and that mail's References.
    answers: Option<(&'a str, &'a [String])>,
}

/// An answer of an owner that did not do all that it says.
pub(super) struct ExplainedAnswer<'a> {
    pub persona: &'a PersonaId,
    /// Key of the owner's address.
    pub owner: &'a str,
    pub message: &'a MessageId,
    pub subject: &'a str,
    pub rfc_message_id: &'a str,
    pub references: &'a [String],
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
        let letter = self.store.letter_of_run(&pending.view.run).await?;
        let around = letter::Surroundings {
            persona: &persona.name,
            zone: persona.timezone,
            letter: letter.as_ref(),
            page: self
                .config
                .gateway
                .page(&format!("/approvals#q{}", pending.view.id)),
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
            let text = (
                letter::subject(&pending.view, &persona.name, pending.is_reminder),
                letter::body(&pending.view, &around),
            );
            let instead = "its questions are answered by `attache approvals` alone";
            mails.extend(self.question_mail(persona, (owner, token), text, instead));
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

    /// Builds a mail that an owner answers to the address of its token; `instead` is logged where the persona's address has no
    /// room for one. `None`: there is no such mail, and a log line says why.
    pub(super) fn question_mail(
        &self,
        persona: &Persona,
        (owner, token): (&Address, String),
        (subject, body): (String, String),
        instead: &str,
    ) -> Option<QuestionMail> {
        let Some(from) = approval_address(&persona.address, &token) else {
            tracing::warn!(persona = %persona.id, "its address has no room for a token: {instead}");
            return None;
        };
        let mail = self.compose(OwnerMail {
            persona,
            from,
            to: owner,
            subject,
            body,
            answers: None,
        })?;
        Some(QuestionMail {
            mail,
            owner: owner.key(),
            token,
        })
    }

    async fn explain(&self, pending: &PendingExplanation) -> Result<usize> {
        let answer = ExplainedAnswer {
            persona: &pending.view.persona,
            owner: &pending.owner,
            message: &pending.message,
            subject: &pending.subject,
            rfc_message_id: &pending.rfc_message_id,
            references: &pending.references,
        };
        let zone = self.zone_of(&pending.view.persona);
        let body = (!pending.is_enough).then(|| letter::explanation(pending, zone));
        self.send_explanation(answer, body).await
    }

    /// Mails an owner what became of an answer, and marks that as told; without a `body` it is only marked. Returns the number
    /// of mails.
    pub(super) async fn send_explanation(
        &self,
        answer: ExplainedAnswer<'_>,
        body: Option<String>,
    ) -> Result<usize> {
        let mail = body.and_then(|body| self.explanation_mail(&answer, body));
        let count = usize::from(mail.is_some());
        match self.store.explain_answer(answer.message, mail).await {
            Ok(()) => Ok(count),
            Err(StoreError::WrongState { .. }) => Ok(0),
            Err(error) => Err(error),
        }
    }

    fn explanation_mail(&self, answer: &ExplainedAnswer<'_>, body: String) -> Option<NoticeMail> {
        let persona = self.config.personas.get(answer.persona)?;
        let mut owners = self.owners.iter();
        let owner = owners.find(|owner| owner.key() == answer.owner)?;
        self.compose(OwnerMail {
            persona,
            from: persona.address.clone(),
            to: owner,
            subject: letter::explanation_subject(answer.subject),
            body,
            answers: Some((answer.rfc_message_id, answer.references)),
        })
    }

    /// Returns the zone in which mails of a persona say times.
    pub(super) fn zone_of(&self, persona: &PersonaId) -> Tz {
        let persona = self.config.personas.get(persona);
        persona.map_or(Tz::UTC, |persona| persona.timezone)
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
    fn compose(&self, mail: OwnerMail<'_>) -> Option<NoticeMail> {
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
            footer: mime::LetterFooter::default(),
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
                envelope_from: self
                    .config
                    .gateway
                    .bounce_address
                    .engine_mail_sender(&mail.persona.address),
                undo_ms: 0,
                not_before: None,
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
