//! The one door: judges a letter, places it, stores it with a queued run per addressed persona, and only then says
//! yes.

use super::door::{Accepted, Copy, CopyOutcome, Door, RecipientVerdict, Refusal, SenderVerdict};
use super::judge;
use crate::clock::Clock;
use crate::config::{Config, Persona};
use crate::domain::{
    Address, Attachment, AttachmentId, ConversationId, Email, Envelope, Letter, Mailbox, MessageId,
    PersonaId, RawLetterId, RunId, ThreadId, Trigger, Trust, sha256_hex,
};
use crate::mime::{self, ParseError, ParseLimits};
use crate::store::{Content, NewAttachment, NewInbound, NewRun, Place, Store, StoredInbound};
use futures_util::future::BoxFuture;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Notify;

/// Letters below this size without HTML are parsed where they are; others on a thread of their own.
const PARSE_INLINE_BYTES_MAX: usize = 32 * 1024;
/// People of one letter that become participants; a longer list is a mailing list without the header.
const PARTICIPANTS_MAX: usize = 200;

/// The gateway's door to the store.
pub struct Intake {
    store: Store,
    config: Arc<Config>,
    clock: Arc<dyn Clock>,
    /// Hint to the harness that a run was queued.
    runs_queued: Arc<Notify>,
}

/// A letter understood, or filed as it is.
struct Understood {
    email: Email,
    /// Why no run is started; `None` when one is.
    held_by: Option<String>,
}

impl Intake {
    pub fn new(store: Store, config: Arc<Config>, runs_queued: Arc<Notify>) -> Self {
        let clock = store.clock().clone();
        Self { store, config, clock, runs_queued }
    }

    async fn take_in(&self, letter: Letter) -> Result<Accepted, Refusal> {
        let max_bytes = self.config.limits.letter_bytes_max;
        if letter.bytes.len() > max_bytes {
            return Err(Refusal::TooLarge { max_bytes });
        }
        let personas = self.addressed(&letter)?;
        let Letter { envelope, bytes } = letter;
        let bytes: Arc<[u8]> = bytes.into();
        let email = self.parse(bytes.clone()).await?;
        let understood = self.judge(&envelope, email)?;
        let dedup = Dedup::of(&understood.email, &bytes, envelope.mail_from.as_ref());
        let draft = Draft { intake: self, envelope: &envelope, bytes, understood, dedup };
        let copies: Vec<NewInbound> = personas.iter().map(|persona| draft.copy(persona)).collect();
        let messages = copies.iter().map(|copy| copy.id.clone()).collect::<Vec<_>>();
        let needs_confirmation = copies.iter().any(|copy| !copy.ack_confirmed);
        let held_by = draft.understood.held_by.clone();
        let stored = self.store.accept_letter(copies).await?;
        self.runs_queued.notify_one();
        let outcomes = stored.into_iter().zip(messages).map(|(stored, id)| match stored {
            StoredInbound::New { run: Some(run), .. } => (id, CopyOutcome::Run(run)),
            StoredInbound::New { run: None, .. } => {
                (id, CopyOutcome::Filed(held_by.clone().unwrap_or_default()))
            }
            StoredInbound::Duplicate { message } => (message, CopyOutcome::Duplicate),
        });
        let copies = outcomes.zip(&personas);
        let copies =
            copies.map(|((message, outcome), p)| Copy { persona: p.id.clone(), message, outcome }).collect();
        Ok(Accepted { copies, needs_confirmation })
    }

    /// The personas among the recipients, each once.
    fn addressed(&self, letter: &Letter) -> Result<Vec<&Persona>, Refusal> {
        let found =
            letter.envelope.rcpt_to.iter().filter_map(|address| self.config.personas.by_address(address));
        let personas: BTreeMap<&PersonaId, &Persona> = found.map(|persona| (&persona.id, persona)).collect();
        if personas.is_empty() {
            return Err(Refusal::NobodyAddressed);
        }
        Ok(personas.into_values().collect())
    }

    /// `Ok(None)`: these bytes are no email, and are kept as they are.
    async fn parse(&self, bytes: Arc<[u8]>) -> Result<Option<Email>, Refusal> {
        let limits = self.parse_limits();
        let is_simple = bytes.len() <= PARSE_INLINE_BYTES_MAX && !contains_html(&bytes);
        let parsed = if is_simple {
            mime::parse(&bytes, &limits)
        } else {
            let parsing = tokio::task::spawn_blocking(move || mime::parse(&bytes, &limits));
            // A parser that panics has met a letter that it cannot read; the letter is kept all the same.
            parsing.await.unwrap_or(Err(ParseError::NotAnEmail("the parser gave up")))
        };
        match parsed {
            Ok(email) => Ok(Some(email)),
            Err(ParseError::Hostile(why)) => Err(Refusal::Hostile(why)),
            Err(ParseError::NotAnEmail(_)) => Ok(None),
        }
    }

    fn judge(&self, envelope: &Envelope, email: Option<Email>) -> Result<Understood, Refusal> {
        let access = &self.config.security.access;
        let sender = email.as_ref().and_then(Email::sender);
        if judge::access(access, sender.as_ref(), envelope.mail_from.as_ref()) == SenderVerdict::Denied {
            return Err(Refusal::Denied);
        }
        let Some(email) = email else {
            let subject = "(a letter that could not be read)".to_owned();
            let email = Email { subject, ..Email::default() };
            return Ok(Understood { email, held_by: Some("unreadable".to_owned()) });
        };
        let own = |address: &Address| self.config.personas.by_address(address).is_some();
        let hops_max = self.config.limits.received_headers_max;
        let held_by = judge::automatic_mail_rule(envelope, &email, own, hops_max).map(str::to_owned);
        Ok(Understood { email, held_by })
    }

    fn parse_limits(&self) -> ParseLimits {
        let limits = &self.config.limits;
        ParseLimits {
            depth_max: limits.mime_depth_max,
            parts_max: limits.mime_parts_max,
            header_bytes_max: limits.header_bytes_max,
            received_max: limits.received_headers_max,
            html_bytes_max: limits.html_bytes_max,
            html_depth_max: limits.html_depth_max,
            references_max: limits.references_max,
        }
    }
}

fn contains_html(bytes: &[u8]) -> bool {
    bytes.windows(9).any(|window| window.eq_ignore_ascii_case(b"text/html"))
}

/// By what a second arrival of the same letter is known.
struct Dedup {
    key: String,
    /// The letter names itself.
    has_own_id: bool,
}

impl Dedup {
    /// A Message-ID alone never suppresses: somebody else may have used it first. The body must be the same too.
    fn of(email: &Email, bytes: &[u8], mail_from: Option<&Address>) -> Self {
        match &email.message_id {
            Some(id) => {
                let digest = sha256_hex(&[id.as_bytes(), &[0], body_of(bytes)]);
                Self { key: format!("mid:{digest}"), has_own_id: true }
            }
            None => {
                let from = mail_from.map(Address::key).unwrap_or_default();
                Self {
                    key: format!("raw:{}", sha256_hex(&[from.as_bytes(), &[0], bytes])),
                    has_own_id: false,
                }
            }
        }
    }
}

/// What follows the header: relays add header fields and leave the body alone.
fn body_of(bytes: &[u8]) -> &[u8] {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map_or(bytes, |at| &bytes[at + 4..])
}

/// A judged letter, from which each addressed persona gets a copy.
struct Draft<'a> {
    intake: &'a Intake,
    envelope: &'a Envelope,
    bytes: Arc<[u8]>,
    understood: Understood,
    dedup: Dedup,
}

impl Draft<'_> {
    fn copy(&self, persona: &Persona) -> NewInbound {
        let (clock, email) = (self.intake.clock.as_ref(), &self.understood.email);
        let new_run = || NewRun {
            id: RunId::new(clock.new_id()),
            trigger: Trigger::Email,
            profile: "thread".to_owned(),
        };
        NewInbound {
            persona: persona.id.clone(),
            id: MessageId::new(clock.new_id()),
            raw_id: RawLetterId::new(clock.new_id()),
            sha256: sha256_hex(&[&self.bytes]),
            envelope_json: self.envelope_json(),
            bytes: self.bytes.clone(),
            place: self.place(persona),
            content: self.content(persona),
            attachments: email.attachments.iter().map(|a| new_attachment(a, clock)).collect(),
            dedup_key: self.dedup.key.clone(),
            duplicates_since: clock.now().minus(self.intake.config.limits.duplicate_window),
            ack_confirmed: self.dedup.has_own_id,
            run: self.understood.held_by.is_none().then(new_run),
            disposition: self
                .understood
                .held_by
                .as_ref()
                .map_or("run".to_owned(), |rule| format!("filed:{rule}")),
        }
    }

    fn envelope_json(&self) -> String {
        let envelope = self.envelope;
        json!({
            "mail_from": envelope.mail_from.as_ref().map(Address::to_string),
            "rcpt_to": envelope.rcpt_to.iter().map(Address::to_string).collect::<Vec<_>>(),
            "helo": envelope.helo,
            "peer": envelope.peer.map(|peer| peer.to_string()),
            "via": envelope.via.as_str(),
        })
        .to_string()
    }

    fn place(&self, persona: &Persona) -> Place {
        let (clock, email) = (self.intake.clock.as_ref(), &self.understood.email);
        let list = email.list_id.as_ref().map(|id| format!("list:{id}"));
        let sender = email.sender();
        let people =
            sender.iter().cloned().chain(email.to.iter().chain(&email.cc).filter_map(Mailbox::address));
        // The addressed persona is on every letter; another one is somebody like anybody else.
        let is_self = |address: &Address| {
            self.intake.config.personas.by_address(address).is_some_and(|other| other.id == persona.id)
        };
        let strangers = people.filter(|address| !is_self(address));
        let participants = strangers.take(PARTICIPANTS_MAX).map(|address| address.key()).chain(list.clone());
        Place {
            mentioned: email.mentioned_ids().into_iter().map(str::to_owned).collect(),
            joins_as: list.or_else(|| sender.as_ref().map(Address::key)),
            // Nobody's identity is verified yet; that is the next issue's work.
            vouched: false,
            participants: participants.collect(),
            new_conversation: ConversationId::new(clock.new_id()),
            new_thread: ThreadId::new(clock.new_id()),
        }
    }

    fn content(&self, persona: &Persona) -> Content {
        let email = &self.understood.email;
        let spelled = |people: &[Mailbox]| people.iter().map(ToString::to_string).collect::<Vec<_>>();
        let own_id = email.message_id.clone();
        let generated = || format!("generated.{}@{}", &self.dedup.key[4..36], persona.address.domain());
        let sender = match email.from.first() {
            Some(from) => from.to_string(),
            None => self.envelope.mail_from.as_ref().map(Address::to_string).unwrap_or_default(),
        };
        Content {
            rfc_message_id: own_id.unwrap_or_else(generated),
            in_reply_to: email.in_reply_to.first().cloned(),
            references: email.references.clone(),
            sender,
            recipients_json: json!({
                "to": spelled(&email.to), "cc": spelled(&email.cc), "reply_to": spelled(&email.reply_to),
            })
            .to_string(),
            subject: email.subject.clone(),
            text_body: email.text.clone(),
            fresh_text: (email.fresh_text != email.text).then(|| email.fresh_text.clone()),
            html_body: email.html.clone(),
            // Nobody has been authenticated yet: that is the gateway's next station.
            trust: Trust::Unauthenticated.as_str(),
            metadata_json: self.metadata_json(),
        }
    }

    /// What a reply and a report need beyond the columns.
    fn metadata_json(&self) -> String {
        let email = &self.understood.email;
        let reply_to = match email.reply_to.as_slice() {
            [only] => only.address().map(|address| address.to_string()),
            _ => None,
        };
        json!({
            "sender": email.sender().map(|address| address.to_string()),
            "reply_to": reply_to,
            "sent_at": email.date.map(|date| date.to_string()),
            "generated_message_id": email.message_id.is_none(),
            "defects": email.defects,
        })
        .to_string()
    }
}

fn new_attachment(attachment: &Attachment, clock: &dyn Clock) -> NewAttachment {
    NewAttachment {
        id: AttachmentId::new(clock.new_id()),
        filename: attachment.filename.clone(),
        declared_name: attachment.declared_name.clone(),
        content_type: attachment.content_type.clone(),
        content_id: attachment.content_id.clone(),
        sha256: sha256_hex(&[&attachment.bytes]),
        bytes: attachment.bytes.clone(),
    }
}

impl Door for Intake {
    fn recipient(&self, address: &Address) -> RecipientVerdict {
        judge::recipient(&self.config.personas, address)
    }

    fn sender(&self, mail_from: Option<&Address>) -> SenderVerdict {
        judge::envelope_access(&self.config.security.access, mail_from)
    }

    fn accept(&self, letter: Letter) -> BoxFuture<'_, Result<Accepted, Refusal>> {
        Box::pin(self.take_in(letter))
    }

    fn confirm<'a>(&'a self, accepted: &'a Accepted) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let ids: Vec<MessageId> = accepted.copies.iter().map(|copy| copy.message.clone()).collect();
            if let Err(error) = self.store.confirm_ack(&ids).await {
                // The price is small: the same letter sent again on purpose would be taken for a retry.
                tracing::warn!(%error, "cannot note that a letter's yes was seen");
            }
        })
    }

    fn has_room(&self) -> bool {
        let data = self.config.workspace.join("data");
        match rustix::fs::statvfs(&data) {
            Ok(disk) => disk.f_bavail.saturating_mul(disk.f_frsize) >= self.config.limits.free_disk_bytes_min,
            // Not knowing is no reason to refuse: a full disk fails the commit, and that is answered with 451.
            Err(_) => true,
        }
    }
}
