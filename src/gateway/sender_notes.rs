//! Notes to senders: one short mail to whoever waits for an answer of a run that failed or takes long.
//!
//! It has fixed words, which tell nothing of the reason: reasons name providers, limits and machines. It is judged like an
//! answer: letters of programs and of lists have no run and so no note, its recipient must be trusted enough to be told,
//! and it counts in the limits of mail to them and in their thread. It waits while the persona is halted.
//!
//! Absent on purpose: what owners read about the same run (`gateway::notices`).

use super::engine_mail::{self, EngineDraft};
use crate::config::{Config, Persona};
use crate::domain::{Address, ReplyMode, Trust};
use crate::mime::{self, Automatic};
use crate::store::{
    Account, DeliveryKind, MailBounds, MailReservation, NewSenderNote, NoteCandidate, Result,
    SenderNoteKind, Store,
};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Age of a failure from which nobody is told of it any more: the engine was off, or the notes were.
const FAILURE_AGE_MAX: Duration = Duration::from_secs(3600);
/// Interval between two searches for runs that take long.
const SLOW_SWEEP: Duration = Duration::from_secs(15);

/// Tells senders what became of their letters.
pub struct SenderNotes {
    store: Store,
    config: Arc<Config>,
    /// Monotonic time of the last search for runs that take long.
    swept: Mutex<Option<Duration>>,
}

impl SenderNotes {
    pub fn new(store: Store, config: Arc<Config>) -> Self {
        Self {
            store,
            config,
            swept: Mutex::default(),
        }
    }

    /// Queues the notes that are due; returns their number.
    pub async fn work_once(&self) -> Result<usize> {
        let settings = &self.config.gateway.sender_notes;
        if self.config.gateway.outbound.is_none() {
            return Ok(0);
        }
        let now = self.store.clock().now();
        let mut queued = 0;
        if settings.failed {
            let since = now.minus(FAILURE_AGE_MAX);
            queued += self.tell(SenderNoteKind::Failed, since).await?;
        }
        if !settings.slow_after.is_zero() && self.is_sweep_due() {
            let until = now.minus(settings.slow_after);
            queued += self.tell(SenderNoteKind::Slow, until).await?;
        }
        Ok(queued)
    }

    fn is_sweep_due(&self) -> bool {
        let now = self.store.clock().monotonic();
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = swept.is_none_or(|last| now.saturating_sub(last) >= SLOW_SWEEP);
        if is_due {
            *swept = Some(now);
        }
        is_due
    }

    async fn tell(&self, kind: SenderNoteKind, instant: crate::domain::Timestamp) -> Result<usize> {
        let mut queued = 0;
        for candidate in self.store.runs_without_note(kind, instant).await? {
            let note = self.note(kind, &candidate);
            let run = candidate.run.clone();
            if self.store.note_sender(kind, candidate, note).await? {
                tracing::info!(%run, kind = kind.as_str(), "the sender of a letter is told");
                queued += 1;
            }
        }
        Ok(queued)
    }

    /// Composes the note. Errors: the rule that withholds it.
    fn note(
        &self,
        kind: SenderNoteKind,
        candidate: &NoteCandidate,
    ) -> std::result::Result<NewSenderNote, &'static str> {
        let persona = self.config.personas.get(&candidate.persona);
        let persona = persona.ok_or("persona_out_of_service")?;
        let to = self.recipient(persona, candidate)?;
        let letter = &candidate.letter;
        let metadata: serde_json::Value =
            serde_json::from_str(&letter.metadata_json).unwrap_or_default();
        let has_own_id = metadata["generated_message_id"] != true;
        let hops = letter.hops.saturating_add(1);
        let draft = EngineDraft {
            from_name: persona.name.clone(),
            to: vec![to.clone()],
            subject: mime::reply_subject(&letter.subject),
            body_markdown: text(kind, persona),
            in_reply_to: has_own_id.then(|| letter.rfc_message_id.clone()),
            references: letter.references.clone(),
            automatic: Automatic::Replied,
            hops,
            kind: DeliveryKind::Mail,
        };
        let mail = engine_mail::compose((&self.config, &self.store), persona, draft);
        let mail = mail.map_err(|error| {
            tracing::error!(%error, "a note to a sender cannot be made a mail");
            "unmailable"
        })?;
        Ok(NewSenderNote {
            mail,
            hops,
            reservation: self.reservation(&letter.trust, &to),
        })
    }

    fn recipient(
        &self,
        persona: &Persona,
        candidate: &NoteCandidate,
    ) -> std::result::Result<Address, &'static str> {
        let letter = &candidate.letter;
        let metadata: serde_json::Value =
            serde_json::from_str(&letter.metadata_json).unwrap_or_default();
        let sender = metadata["sender"].as_str();
        let sender = sender.and_then(|text| Address::parse(text).ok());
        let sender = sender.ok_or("no_recipient")?;
        let trust_min = self.config.gateway.sender_notes.trust_min.trust();
        if candidate.was_filed {
            // Its rule may have been that a program wrote it.
            Err("filed")
        } else if Trust::parse_stored(&letter.trust) < trust_min {
            Err("trust")
        } else if persona.reply == ReplyMode::ToolOnly {
            Err("tool_only")
        } else if persona.reply == ReplyMode::Draft {
            // What goes to others waits for its owner.
            Err("draft")
        } else if self.config.personas.by_address(&sender).is_some() || letter.hops > 0 {
            Err("persona")
        } else {
            Ok(sender)
        }
    }

    /// What the note takes from the limits, as an answer would.
    fn reservation(&self, trust: &str, to: &Address) -> MailReservation {
        let is_owner = trust == Trust::Owner.as_str();
        let account = Account::of(trust);
        MailReservation {
            account,
            counterparties: match is_owner {
                true => Vec::new(),
                false => vec![account.key(to)],
            },
            counts_in_thread: !is_owner,
            bounds: MailBounds::new(&self.config),
            mails_of_run_max: None,
        }
    }
}

/// Returns the fixed words of a note, as Markdown.
fn text(kind: SenderNoteKind, persona: &Persona) -> String {
    let name = &persona.name;
    match kind {
        SenderNoteKind::Failed => format!(
            "This is an automatic note. Your letter to {name} has arrived, and it could not be answered: a fault on this side \
             ended the work on it. No answer will come by itself. Please write again later, or choose another way if it is \
             urgent.\n"
        ),
        SenderNoteKind::Slow => format!(
            "This is an automatic note. Your letter to {name} has arrived, and it is not answered yet: that takes longer than \
             usual, and it is not certain that it succeeds. You do not need to send it again. If it is urgent, please choose \
             another way.\n"
        ),
    }
}
