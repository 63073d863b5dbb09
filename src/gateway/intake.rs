//! The intake: judges a letter, places it in a thread, stores it with a queued run per addressed
//! persona, and only then accepts it.
//!
//! - `room`, `shortage`: whether another letter can be taken; `unanswered`: how much of one network without an answer
//! - `admission`: access rules and the policy of the sender's domain
//! - `records`, `returns`: own mail that comes back
//! - `calendar`: an invitation in the letter; `command`: commands of owners in the first line
//! - `trace`: the `Received` field; `place`: participants and threads; `draft`: the rows
//! - `held`: letters that wait for a name server
//! - `history`: letters of an archive
//! - `outcome_log`: one log line per letter; `current`: the intake of the configuration in force

mod admission;
mod calendar;
mod command;
mod current;
mod draft;
mod held;
mod outcome_log;
mod place;
mod records;
mod returns;
pub mod history;
mod room;
mod shortage;
mod trace;
mod unanswered;

use super::identity::dns::ResolverError;
use super::identity::{SenderVerifier, Stopping};
use super::intake_contract::{
    Accepted, Copy, CopyOutcome, LetterIntake, RecipientVerdict, Refusal, SenderVerdict, Shortage,
};
use super::judge;
use crate::clock::Clock;
use crate::config::{Config, Mode, Persona};
use crate::domain::{Address, Email, Envelope, Identity, Letter, MessageId, PersonaId};
use crate::mime::{self, ParseError};
pub use crate::store::sqlite::files::free_disk_bytes;
use crate::store::{NewInbound, Store, StoredInbound};
pub use current::CurrentIntake;
use draft::{Dedup, Draft};
use futures_util::future::BoxFuture;
use outcome_log::LetterSummary;
use returns::ReturnedLetter;
use room::RunAllowance;
use shortage::Shortages;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::Notify;
use unanswered::UnansweredBytes;

/// Bytes below which letters without HTML are parsed on the current thread; others are parsed on a
/// blocking thread.
const PARSE_INLINE_BYTES_MAX: usize = 32 * 1024;

/// The gateway's interface to the store for letters.
pub struct Intake {
    store: Store,
    config: Arc<Config>,
    clock: Arc<dyn Clock>,
    verifier: SenderVerifier,
    /// Wakes the run worker after a run was queued.
    runs_queued: Arc<Notify>,
    allowance: Arc<RunAllowance>,
    shortages: Arc<Shortages>,
    unanswered: Arc<UnansweredBytes>,
    /// Folder of the database.
    data: PathBuf,
}

/// A parsed letter, or an unparseable one that is filed unchanged.
struct Understood {
    email: Email,
    /// Rule that prevents runs for all personas; `None` leaves it to the rules for each persona.
    held_by: Option<String>,
}

/// A letter with all data that its storing depends on.
struct Judged<'l> {
    envelope: &'l Envelope,
    bytes: Arc<[u8]>,
    email: Option<Email>,
    returned: ReturnedLetter,
    identity: Identity,
    /// Decisions, each as `verb:rule`.
    decisions: Vec<admission::AdmissionDecision>,
    /// A rule of admission that withholds it, where it cannot be refused any more.
    refused_by: Option<&'static str>,
}

impl Intake {
    /// Errors: the name resolver cannot be built from the settings.
    pub fn new(
        store: Store,
        config: Arc<Config>,
        runs_queued: Arc<Notify>,
    ) -> Result<Self, ResolverError> {
        let clock = store.clock().clone();
        let verifier = SenderVerifier::new(&config, clock.clone())?;
        let data = config.workspace.join("data");
        let (allowance, shortages) = (Arc::new(RunAllowance::unwatched()), Arc::default());
        Ok(Self {
            store,
            config,
            clock,
            verifier,
            runs_queued,
            allowance,
            shortages,
            unanswered: Arc::default(),
            data,
        })
    }

    /// Builds the intake of another configuration of the same engine. Errors: as [`Self::new`].
    pub fn renewed(&self, config: Arc<Config>) -> Result<Self, ResolverError> {
        Ok(Self {
            store: self.store.clone(),
            verifier: self.verifier.renewed(&config)?,
            config,
            clock: self.clock.clone(),
            runs_queued: self.runs_queued.clone(),
            allowance: self.allowance.clone(),
            shortages: self.shortages.clone(),
            unanswered: self.unanswered.clone(),
            data: self.data.clone(),
        })
    }

    /// Stops waiting for name servers: letters whose sender is being verified are deferred.
    pub fn stop(&self) {
        self.verifier.stop();
    }

    /// Stores a letter and logs its outcome.
    async fn take_in(&self, letter: Letter) -> Result<Accepted, Refusal> {
        let summary = LetterSummary::new(&letter.envelope, letter.bytes.len());
        let mut sender = None;
        let taken = self.store_letter(letter, &mut sender).await;
        match &taken {
            Ok(accepted) => summary.accepted(accepted),
            Err(refusal) => {
                if matches!(refusal, Refusal::NotStored(error) if error.is_for_want_of_room()) {
                    self.shortages.note(Shortage::Disk);
                }
                summary.refused(refusal, sender.as_ref());
            }
        }
        taken
    }

    /// Judges and stores a letter; `from` is set to its sender as soon as it is known.
    async fn store_letter(
        &self,
        letter: Letter,
        from: &mut Option<Address>,
    ) -> Result<Accepted, Refusal> {
        let max_bytes = self.config.limits.letter_bytes_max;
        if letter.bytes.len() > max_bytes {
            return Err(Refusal::TooLarge { max_bytes });
        }
        let personas = self.addressed(&letter)?;
        let Letter { envelope, bytes } = letter;
        let bytes: Arc<[u8]> = bytes.into();
        let email = self.parse(bytes.clone()).await?;
        let returned = self.returned(&envelope, email.as_ref(), &bytes).await?;
        let security = returned.admits(&self.config.security);
        let sender = email.as_ref().and_then(Email::sender);
        from.clone_from(&sender);
        let mut decisions = admission::by_name(&security, sender.as_ref(), &envelope)?;
        let identity = self
            .verifier
            .identify(&envelope, email.as_ref(), &bytes)
            .await?;
        if identity.is_temporary {
            self.shortages.note(Shortage::NameServers);
        }
        decisions.extend(admission::by_identity(
            &security,
            sender.as_ref(),
            &envelope,
            &identity,
        )?);
        if identity.is_temporary {
            return self.hold(&envelope, &bytes, &personas, sender).await;
        }
        let whose = (&envelope, identity.trust, bytes.len());
        let judged = Judged {
            envelope: &envelope,
            bytes,
            email,
            returned,
            identity,
            decisions,
            refused_by: None,
        };
        let copies = self.copies(judged, &personas, None).await?;
        let is_answered = copies.iter().any(|copy| copy.run.is_some());
        if !self
            .unanswered
            .has_room(&self.config, whose, is_answered, self.clock.now())
        {
            self.shortages.note(Shortage::Unanswered);
            return Err(Refusal::TooMuch);
        }
        let messages = copies
            .iter()
            .map(|copy| copy.id.clone())
            .collect::<Vec<_>>();
        let needs_confirmation = copies.iter().any(|copy| !copy.ack_confirmed);
        crate::crash::crash_point!("I2");
        let stored = self.store.accept_letter(copies).await?;
        crate::crash::crash_point!("I4");
        self.runs_queued.notify_one();
        let copies = stored.into_iter().zip(messages).zip(&personas);
        let copies: Vec<Copy> = copies
            .map(|((stored, id), persona)| stored_copy(stored, id, persona))
            .collect();
        // A limit may have filed what was to be answered.
        if is_answered
            && copies
                .iter()
                .all(|copy| matches!(copy.outcome, CopyOutcome::Filed(_)))
        {
            self.unanswered.count(&self.config, whose, self.clock.now());
        }
        Ok(Accepted {
            sender,
            copies,
            needs_confirmation,
        })
    }

    /// Builds the rows of a letter for each of these personas; `id` is the message's if it already
    /// has one.
    async fn copies(
        &self,
        judged: Judged<'_>,
        personas: &[&Persona],
        id: Option<&MessageId>,
    ) -> Result<Vec<NewInbound>, Refusal> {
        let Judged {
            envelope,
            bytes,
            email,
            returned,
            identity,
            decisions,
            refused_by,
        } = judged;
        let records = records::find(&self.store, &self.config, email.as_ref()).await?;
        let mut understood = understand(email, &returned);
        understood.held_by = understood.held_by.or(refused_by.map(str::to_owned));
        let dedup = Dedup::from_email(
            &understood.email,
            &bytes,
            envelope.mail_from.as_ref(),
            &identity,
        );
        let id = id.cloned();
        let draft = Draft {
            intake: self,
            envelope,
            id,
            bytes,
            understood,
            returned,
            identity,
            records,
            decisions,
            dedup,
        };
        let copies: Vec<NewInbound> = personas.iter().map(|persona| draft.copy(persona)).collect();
        self.allowance
            .take(copies.iter().filter(|copy| copy.run.is_some()).count());
        Ok(copies)
    }

    /// The distinct personas among the recipients.
    fn addressed(&self, letter: &Letter) -> Result<Vec<&Persona>, Refusal> {
        let is_out = |address: &Address| self.recipient(address) == RecipientVerdict::OutOfService;
        if letter.envelope.rcpt_to.iter().any(is_out) {
            return Err(Refusal::OutOfService);
        }
        let found = letter
            .envelope
            .rcpt_to
            .iter()
            .filter_map(|address| self.config.personas.by_address(address));
        let personas: BTreeMap<&PersonaId, &Persona> =
            found.map(|persona| (&persona.id, persona)).collect();
        if personas.is_empty() {
            return Err(Refusal::NobodyAddressed);
        }
        Ok(personas.into_values().collect())
    }

    /// Parses a letter. `Ok(None)`: the bytes are no email and are stored unchanged.
    async fn parse(&self, bytes: Arc<[u8]>) -> Result<Option<Email>, Refusal> {
        let limits = self.config.limits.parse_limits();
        let is_simple = bytes.len() <= PARSE_INLINE_BYTES_MAX && !contains_html(&bytes);
        let parsed = if is_simple {
            mime::parse(&bytes, &limits)
        } else {
            let parsing = tokio::task::spawn_blocking(move || mime::parse(&bytes, &limits));
            // A parser that panics cannot parse the letter; the letter is stored all the same.
            parsing
                .await
                .unwrap_or(Err(ParseError::NotAnEmail("the parser gave up")))
        };
        match parsed {
            Ok(email) => Ok(Some(email)),
            Err(ParseError::Hostile(why)) => Err(Refusal::Hostile(why)),
            Err(ParseError::NotAnEmail(_)) => Ok(None),
        }
    }
}

/// Files bytes that are no email under the rule `unreadable`, and returned mail under its own rule:
/// neither is answered.
fn understand(email: Option<Email>, returned: &ReturnedLetter) -> Understood {
    let (email, unreadable) = match email {
        Some(email) => (email, None),
        None => {
            let subject = "(a letter that could not be read)".to_owned();
            (
                Email {
                    subject,
                    ..Email::default()
                },
                Some("unreadable"),
            )
        }
    };
    Understood {
        email,
        held_by: returned.rule().or(unreadable).map(str::to_owned),
    }
}

impl From<Stopping> for Refusal {
    fn from(_: Stopping) -> Self {
        Refusal::Unverifiable
    }
}

fn contains_html(bytes: &[u8]) -> bool {
    bytes
        .windows(9)
        .any(|window| window.eq_ignore_ascii_case(b"text/html"))
}

impl LetterIntake for Intake {
    fn recipient(&self, address: &Address) -> RecipientVerdict {
        judge::recipient(&self.config.personas, address)
    }

    fn sender(&self, mail_from: Option<&Address>) -> SenderVerdict {
        let access = &self.config.security.access;
        match access.mode {
            Mode::Enforce => judge::envelope_access(access, mail_from),
            // In `monitor` mode the decision is recorded when the letter is stored.
            Mode::Monitor => SenderVerdict::Welcome,
        }
    }

    fn accept(&self, letter: Letter) -> BoxFuture<'_, Result<Accepted, Refusal>> {
        Box::pin(self.take_in(letter))
    }

    fn confirm<'a>(&'a self, accepted: &'a Accepted) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let ids: Vec<MessageId> = accepted
                .copies
                .iter()
                .map(|copy| copy.message.clone())
                .collect();
            if let Err(error) = self.store.confirm_ack(&ids).await {
                // The effect is small: the same letter sent again on purpose would count as a
                // retry.
                tracing::warn!(%error, "cannot note that a letter's yes was seen");
            }
        })
    }

    fn has_room(&self) -> bool {
        let shortage = if !self.allowance.is_left() {
            Some(Shortage::OpenRuns)
        } else if !self.has_space() {
            Some(Shortage::Disk)
        } else {
            None
        };
        shortage
            .inspect(|shortage| self.short_of(*shortage))
            .is_none()
    }

    fn short_of(&self, what: Shortage) {
        self.shortages.note(what);
    }
}

/// Outcome for one persona; `id` is the message's, unless it was stored before.
fn stored_copy(stored: StoredInbound, id: MessageId, persona: &Persona) -> Copy {
    let (message, outcome) = match stored {
        StoredInbound::New { run: Some(run), .. } => (id, CopyOutcome::Run(run)),
        StoredInbound::New {
            run: None,
            disposition,
            ..
        } => {
            let rule = disposition.strip_prefix("filed:").unwrap_or_default();
            (id, CopyOutcome::Filed(rule.to_owned()))
        }
        StoredInbound::Duplicate { message } => (message, CopyOutcome::Duplicate),
    };
    Copy {
        persona: persona.id.clone(),
        message,
        outcome,
    }
}
