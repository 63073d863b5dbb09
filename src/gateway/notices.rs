//! Owner notices: committed notices become mails to the owners, at most one an hour for each cause.
//!
//! A mail goes through the outbox like all mail. It has the null envelope sender and is marked as
//! automatic, so that no responder answers it (RFC 3834 section 2, RFC 5321 section 4.5.5); its own
//! failure is only logged. It is stored in a separate thread for each cause: an owner's answer
//! reaches the persona there. A persona's search does not find it.
//!
//! Absent on purpose: the notices themselves (they are emitted where the events occur, see
//! `store::notices`), and anything that sends.

pub mod letter;

use super::approvals::station::OwnerQuestions;
use super::engine_mail::{self, ENGINE_NAME, EngineDraft, Unmailable};
use crate::config::{Config, Persona};
use crate::domain::{
    Address, ConversationId, NoticeId, NoticeKind, NoticeSubject, PersonaId, ThreadId, sha256_hex,
};
use crate::mime::Automatic;
use crate::store::{
    Content, DeliveryKind, NewNotice, NoticeMail, PendingNotices, Place, Result, Store, StoreError,
    quoted,
};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Interval between two searches of the outbox for delayed mail, of the letters for filed ones, of the memory for entries whose
/// time is over, of the runs for those that are to be redacted or wait for long, and for new correspondents.
const DELAY_SWEEP: Duration = Duration::from_secs(60);

/// Turns the store's pending notices, and questions of personas, into mails to the owners.
pub struct Notices {
    store: Store,
    config: Arc<Config>,
    /// No mail is made while this is empty.
    owners: Vec<Address>,
    /// Monotonic time of the last search for delays.
    swept: Mutex<Option<Duration>>,
    questions: OwnerQuestions,
}

impl Notices {
    /// Uses the store's clock.
    pub fn new(store: Store, config: Arc<Config>) -> Self {
        let owners = readers(&config);
        let questions = OwnerQuestions::new(store.clone(), config.clone(), owners.clone());
        Self {
            questions,
            store,
            config,
            owners,
            swept: Mutex::default(),
        }
    }

    /// Reason that prevents notices by mail; `None` when they are sent.
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

    /// Emits notices about delays and queues the mails that are due now; returns the number of
    /// mails.
    ///
    /// Errors: the store's; a later call retries notices that were not queued.
    pub async fn work_once(&self) -> Result<usize> {
        self.sweep().await?;
        if Self::silence(&self.config).is_some() {
            return Ok(0);
        }
        let mut notified = self.questions.work_once().await?;
        for pending in self
            .store
            .pending_notices(self.config.gateway.notices.interval, letter::LISTED_MAX)
            .await?
        {
            notified += usize::from(self.tell(&pending).await?);
        }
        Ok(notified)
    }

    /// Delayed mail is searched for here, not at an attempt: while the transport is unavailable
    /// there are no attempts.
    async fn sweep(&self) -> Result<()> {
        let now = self.store.clock().monotonic();
        let is_due = |last: &Option<Duration>| {
            last.is_none_or(|last| now.saturating_sub(last) >= DELAY_SWEEP)
        };
        if !is_due(&self.swept.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(());
        }
        let notices = &self.config.gateway.notices;
        self.store.emit_delays(notices.delayed_after).await?;
        match self.store.expire_memory().await? {
            0 => {}
            entries => tracing::info!(entries, "entries of memory expired"),
        }
        match self.store.redact_ended_runs().await? {
            0 => {}
            runs => tracing::info!(
                runs,
                "runs redacted that have ended since their owner erased what they held"
            ),
        }
        let inference = &self.config.inference;
        self.store
            .emit_waiting_runs(
                inference.concurrent_runs_max,
                inference.concurrent_runs_per_persona_max,
            )
            .await?;
        let personas = self.config.personas.iter();
        let personas: Vec<&PersonaId> = personas.map(|persona| &persona.id).collect();
        self.store.emit_unusual_days(&personas).await?;
        if !notices.filed_interval.is_zero() {
            self.store.emit_filed(notices.filed_interval).await?;
        }
        *self.swept.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        Ok(())
    }

    /// Emits notices about personas out of service, once a day for unchanged reasons.
    pub async fn note_out_of_service(&self) -> Result<()> {
        let (clock, mut notified) = (self.store.clock(), 0);
        for out in self.config.personas.out_of_service() {
            let problems: Vec<String> = out.problems.iter().map(ToString::to_string).collect();
            let digest = sha256_hex(&[problems.join("\n").as_bytes()]);
            let first = problems
                .first()
                .map(|problem| quoted(problem))
                .unwrap_or_default();
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
                hint: "put right what `attache config check` names: it is in service seconds later"
                    .to_owned(),
            };
            notified += usize::from(self.store.emit_notice(new).await?);
        }
        if notified > 0 {
            tracing::error!(
                personas = notified,
                "personas are out of service; `attache config check` says why"
            );
        }
        Ok(())
    }

    async fn tell(&self, pending: &PendingNotices) -> Result<bool> {
        let about = pending
            .newest
            .first()
            .and_then(|fact| fact.persona.as_ref());
        let Some(persona) = speaker(&self.config, about) else {
            return Ok(false);
        };
        let mail = match self.compose(pending, persona) {
            Ok(mail) => mail,
            // Owners and persona have checked addresses and the text is bounded, so this is a bug
            // of ours: the notices stay listed, and the other causes are mailed.
            Err(error) => {
                tracing::error!(cause = pending.cause, %error, "a notice cannot be made a mail");
                return Ok(false);
            }
        };
        let delivery = mail.delivery.id.clone();
        match self.store.tell_notices(pending, mail).await {
            Ok(()) => {
                tracing::warn!(%delivery, cause = pending.cause, facts = pending.count, "the owner is told");
                Ok(true)
            }
            Err(StoreError::WrongState { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Builds the mail with its final bytes, as it will be stored and sent.
    fn compose(
        &self,
        pending: &PendingNotices,
        persona: &Persona,
    ) -> std::result::Result<NoticeMail, Unmailable> {
        let before = pending.before.as_ref();
        let draft = EngineDraft {
            from_name: ENGINE_NAME.to_owned(),
            to: self.owners.clone(),
            subject: letter::subject(pending),
            body_markdown: letter::body(pending, persona.timezone, &|path| {
                self.config.gateway.page(path)
            }),
            in_reply_to: before.map(|mail| mail.rfc_message_id.clone()),
            references: before.map_or_else(Vec::new, |mail| mail.references.clone()),
            automatic: Automatic::Generated,
            hops: 1,
            kind: DeliveryKind::Notice,
        };
        let mail = engine_mail::compose((&self.config, &self.store), persona, draft)?;
        Ok(NoticeMail {
            persona: persona.id.clone(),
            id: mail.id,
            place: self.place(pending, &mail.content),
            content: mail.content,
            delivery: mail.delivery,
        })
    }

    /// The thread of the cause, as long as only owners participate: a participant whom an owner has
    /// added meanwhile must not learn of other people's mail.
    fn place(&self, pending: &PendingNotices, mail: &Content) -> Place {
        let clock = self.store.clock();
        let owners: Vec<String> = self.owners.iter().map(Address::key).collect();
        let is_private = pending
            .before
            .as_ref()
            .is_some_and(|mail| mail.readers.iter().all(|reader| owners.contains(reader)));
        Place {
            mentioned: mail.references.clone(),
            joins_as: owners.first().filter(|_| is_private).cloned(),
            participants: owners,
            joins_only: None,
            authenticated: true,
            replaces: None,
            new_conversation: ConversationId::new(clock.new_id()),
            new_thread: ThreadId::new(clock.new_id()),
        }
    }
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

/// Persona that sends a notice: the one that it is about, else the one that speaks for the engine.
fn speaker<'c>(
    config: &'c Config,
    about: Option<&crate::domain::PersonaId>,
) -> Option<&'c Persona> {
    let named = about.and_then(|id| config.personas.get(id));
    named.or_else(|| config.speaker())
}
