//! Owner notices: committed facts become mails to the owners, one an hour for each cause at most.
//!
//! A mail goes the way of all mail, through the outbox. It has the null envelope sender and says that it is automatic,
//! so that nothing answers it (RFC 3834 section 2, RFC 5321 section 4.5.5); its own failure is logged and told to nobody.
//! It is stored in a thread of its own for each cause: an owner who answers it talks to the persona about it. No persona
//! finds it by itself.
//!
//! Absent on purpose: facts (they are raised where they happen, see `store::notices`), and anything that sends.

pub mod letter;

use crate::config::{Config, Persona};
use crate::domain::{
    Address, ConversationId, DeliveryId, LoopToken, MessageId, NoticeId, NoticeKind, NoticeSubject, ThreadId,
    Trust, sha256_hex,
};
use crate::mime::{self, Automatic, ComposeError, Outgoing, SignError};
use crate::store::{
    Content, DeliveryKind, NewDelivery, NewNotice, NoticeMail, Place, Result, Store, StoreError, Untold,
    quoted,
};
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How often the table is looked at.
const POLL: Duration = Duration::from_secs(1);
/// How often the outbox is searched for mail that waits too long, and the letters for those that were filed.
const DELAY_SWEEP: Duration = Duration::from_secs(60);
/// Who speaks; the address beside it is a persona's.
const DISPLAY_NAME: &str = "Attaché";

/// Tells the owners what the store has for them.
pub struct Notices {
    store: Store,
    config: Arc<Config>,
    /// Nobody is told anything while this is empty.
    owners: Vec<Address>,
    /// Monotonic time of the last look for delays.
    swept: Mutex<Option<Duration>>,
}

impl Notices {
    /// Tells time by the store's clock.
    pub fn new(store: Store, config: Arc<Config>) -> Self {
        let owners = readers(&config);
        Self { store, config, owners, swept: Mutex::default() }
    }

    /// Why nobody will be told anything by mail; `None` when somebody will.
    pub fn silence(config: &Config) -> Option<&'static str> {
        if config.gateway.outbound.is_none() {
            Some("no outbound transport is configured")
        } else if readers(config).is_empty() {
            Some("no owners are configured")
        } else if speaker(config, None).is_none() {
            Some("there is no persona to write in the name of")
        } else {
            None
        }
    }

    /// Notes what waits too long and queues the mails that are due now; how many.
    ///
    /// Errors: the store's; what was not told is told by a later call.
    pub async fn work_once(&self) -> Result<usize> {
        self.sweep().await?;
        if Self::silence(&self.config).is_some() {
            return Ok(0);
        }
        let mut told = 0;
        for untold in
            self.store.untold_notices(self.config.gateway.notices.interval, letter::SPELLED_OUT).await?
        {
            told += usize::from(self.tell(&untold).await?);
        }
        Ok(told)
    }

    /// Works until `shutdown`; `mail_queued` is the hint for whoever sends.
    pub async fn run(&self, mail_queued: &Notify, shutdown: CancellationToken) {
        while !shutdown.is_cancelled() {
            match self.work_once().await {
                Ok(0) => {}
                Ok(_some) => mail_queued.notify_one(),
                Err(error) => tracing::error!(%error, "cannot tell the owner what happened; trying again"),
            }
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = tokio::time::sleep(POLL) => {}
            }
        }
    }

    /// Old mail is looked for here, not at an attempt: while the transport rests there are none.
    async fn sweep(&self) -> Result<()> {
        let now = self.store.clock().monotonic();
        let is_due =
            |last: &Option<Duration>| last.is_none_or(|last| now.saturating_sub(last) >= DELAY_SWEEP);
        if !is_due(&self.swept.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(());
        }
        let notices = &self.config.gateway.notices;
        self.store.raise_delays(notices.delayed_after).await?;
        if !notices.filed_interval.is_zero() {
            self.store.raise_filed(notices.filed_interval).await?;
        }
        *self.swept.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        Ok(())
    }

    /// Notes which personas do not work, once a day for the same reasons.
    pub async fn note_out_of_service(&self) -> Result<()> {
        let (clock, mut told) = (self.store.clock(), 0);
        for out in self.config.personas.out_of_service() {
            let problems: Vec<String> = out.problems.iter().map(ToString::to_string).collect();
            let digest = sha256_hex(&[problems.join("\n").as_bytes()]);
            let first = problems.first().map(|problem| quoted(problem)).unwrap_or_default();
            let more = match problems.len() {
                0 | 1 => String::new(),
                many => format!(" and {} more", many - 1),
            };
            let today = clock.now().to_string();
            let new = NewNotice {
                id: NoticeId::new(clock.new_id()),
                persona: None,
                kind: NoticeKind::PersonaOutOfService,
                detail: out.name.clone(),
                subject: NoticeSubject::Persona,
                subject_id: out.name.clone(),
                occurrence: format!("{}-{}", &today[..10], &digest[..16]),
                summary: format!(
                    "persona {} is out of service: {first}{more}; its letters are asked to come again later, its runs and \
                     responsibilities wait",
                    quoted(&out.name)
                ),
                hint: "put right what `attache config check` names, and start the engine again".to_owned(),
            };
            told += usize::from(self.store.raise_notice(new).await?);
        }
        if told > 0 {
            tracing::error!(personas = told, "personas are out of service; `attache config check` says why");
        }
        Ok(())
    }

    async fn tell(&self, untold: &Untold) -> Result<bool> {
        let about = untold.newest.first().and_then(|fact| fact.persona.as_ref());
        let Some(persona) = speaker(&self.config, about) else { return Ok(false) };
        let mail = match self.compose(untold, persona) {
            Ok(mail) => mail,
            // Owners and persona are checked addresses and the text is bounded, so this is a bug of ours: the facts stay
            // listed, and the other causes are told.
            Err(error) => {
                tracing::error!(cause = untold.cause, %error, "a notice cannot be made a mail");
                return Ok(false);
            }
        };
        let delivery = mail.delivery.id.clone();
        match self.store.tell_notices(untold, mail).await {
            Ok(()) => {
                tracing::warn!(%delivery, cause = untold.cause, facts = untold.count, "the owner is told");
                Ok(true)
            }
            Err(StoreError::WrongState { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The mail with its frozen bytes, as it will be stored and sent.
    fn compose(&self, untold: &Untold, persona: &Persona) -> std::result::Result<NoticeMail, Unmailable> {
        let clock = self.store.clock();
        let id = MessageId::new(clock.new_id());
        let before = untold.before.as_ref();
        let message_id = mime::new_message_id(id.as_str(), persona.address.domain());
        let key = self.config.loop_key.as_ref().unwrap_or(self.store.loop_key());
        let outgoing = Outgoing {
            loop_token: Some(key.seal(&LoopToken { hops: 1, message_id: message_id.clone() })),
            message_id,
            date: clock.now(),
            from_name: DISPLAY_NAME.to_owned(),
            from: persona.address.clone(),
            to: self.owners.clone(),
            cc: Vec::new(),
            subject: letter::subject(untold),
            in_reply_to: before.map(|mail| mail.rfc_message_id.clone()),
            references: before.map_or_else(Vec::new, |mail| {
                mime::reply_references(&mail.references, Some(&mail.rfc_message_id))
            }),
            automatic: Automatic::Generated,
            body_markdown: letter::body(untold),
            attachments: Vec::new(),
        };
        let bytes = mime::compose(&outgoing)?;
        let delivery = NewDelivery {
            id: DeliveryId::new(clock.new_id()),
            message_id: id.clone(),
            run_id: None,
            kind: DeliveryKind::Notice,
            envelope_from: String::new(),
            recipients: self.owners.iter().map(Address::to_string).collect(),
            bytes: self.config.gateway.signers.seal(bytes, &outgoing.from, outgoing.date)?,
        };
        let place = self.place(untold, &outgoing);
        Ok(NoticeMail { persona: persona.id.clone(), id, place, content: content(&outgoing), delivery })
    }

    /// The thread of the cause, as long as nobody but the owners reads it: one whom an owner has copied in meanwhile
    /// must not learn of other people's mail.
    fn place(&self, untold: &Untold, outgoing: &Outgoing) -> Place {
        let clock = self.store.clock();
        let owners: Vec<String> = self.owners.iter().map(Address::key).collect();
        let is_private = untold
            .before
            .as_ref()
            .is_some_and(|mail| mail.readers.iter().all(|reader| owners.contains(reader)));
        Place {
            mentioned: outgoing.references.clone(),
            joins_as: owners.first().filter(|_| is_private).cloned(),
            participants: owners,
            joins_only: None,
            vouched: true,
            replaces: None,
            new_conversation: ConversationId::new(clock.new_id()),
            new_thread: ThreadId::new(clock.new_id()),
        }
    }
}

/// Why a notice is not a mail.
#[derive(Debug, thiserror::Error)]
enum Unmailable {
    #[error(transparent)]
    Compose(#[from] ComposeError),
    #[error(transparent)]
    Sign(#[from] SignError),
}

/// The owners' addresses, without those that lead back into the engine.
fn readers(config: &Config) -> Vec<Address> {
    let mut readers: Vec<Address> = Vec::new();
    for owner in &config.gateway.owners {
        let is_known = readers.iter().any(|reader| reader.key() == owner.key());
        if !is_known && config.personas.by_address(owner).is_none() {
            readers.push(owner.clone());
        }
    }
    readers
}

/// In whose name a fact is told: the persona that it is about, else the one that is configured to speak for the engine,
/// else the first.
fn speaker<'c>(config: &'c Config, about: Option<&crate::domain::PersonaId>) -> Option<&'c Persona> {
    let named = about.and_then(|id| config.personas.get(id));
    let configured = || config.gateway.notices.persona.as_ref().and_then(|id| config.personas.get(id));
    named.or_else(configured).or_else(|| config.personas.iter().next())
}

/// The stored message is the mail that is sent.
fn content(outgoing: &Outgoing) -> Content {
    let to: Vec<String> = outgoing.to.iter().map(Address::to_string).collect();
    Content {
        rfc_message_id: outgoing.message_id.clone(),
        in_reply_to: outgoing.in_reply_to.clone(),
        references: outgoing.references.clone(),
        sender: format!("{} <{}>", outgoing.from_name, outgoing.from),
        recipients_json: json!({ "to": to, "cc": [] }).to_string(),
        subject: outgoing.subject.clone(),
        text_body: outgoing.body_markdown.clone(),
        fresh_text: None,
        html_body: None,
        trust: Trust::System.as_str(),
        metadata_json: "{}".to_owned(),
    }
}
