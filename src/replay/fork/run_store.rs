//! Run store of a fork's loop: past turns are answered from the record, new ones are kept in the
//! fork's own document.
//!
//! Absent on purpose: any write to the rows of the run, of its thread or of its mails. Only the
//! budget accounts are written.

use super::view;
use super::{ForkError, Forked};
use crate::context::resolvers::Subject;
use crate::domain::{Address, ErrorClass, RunState, StopReason, ThreadId, Withheld};
use crate::replay::RunRecord;
use crate::runs::deps::RunError;
use crate::runs::run_store::{Answer, RunStore};
use crate::store::{
    ClaimedRun, ForkMoney, JournalEntry, JournalSoFar, KnownSession, MailReservation,
    MessageOutcome, NewCall, NewNotice, NewOutbound, PersonaStore, Result, RunFinished,
    RunOptionsInForce, Sent, SessionKey, Store, StoreError, StoredMessage, TriggerMessage,
    Unanswered,
};
use std::sync::{Arc, Mutex, PoisonError};

/// Run store and environment of a fork. Cheap to clone.
#[derive(Clone)]
pub(super) struct ForkEnv {
    store: Store,
    /// Options of the original run, without the fork's changes.
    run_options: Arc<RunOptionsInForce>,
    id: String,
    past: Arc<JournalSoFar>,
    now: Arc<Mutex<Present>>,
}

struct Present {
    record: RunRecord,
    reply: Option<NewOutbound>,
    mails: u32,
    replied: bool,
}

impl ForkEnv {
    pub(super) fn new(
        store: Store,
        run_options: RunOptionsInForce,
        id: String,
        past: JournalSoFar,
        record: RunRecord,
    ) -> Self {
        let present = Present {
            record,
            reply: None,
            mails: past.mails,
            replied: past.replied,
        };
        let run_options = Arc::new(run_options);
        Self {
            store,
            run_options,
            id,
            past: Arc::new(past),
            now: Arc::new(Mutex::new(present)),
        }
    }

    /// Returns the ended fork.
    pub(super) fn finished(&self) -> Forked {
        let present = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        Forked {
            record: present.record.clone(),
            reply: present.reply.clone(),
        }
    }

    /// Ends a fork that the loop gave up.
    pub(super) async fn give_up(&self, error: &RunError) -> std::result::Result<(), ForkError> {
        let (state, stop_reason) = match error.class() {
            ErrorClass::Cancelled => (RunState::Cancelled, StopReason::Cancelled),
            _ => (RunState::Failed, StopReason::Failed),
        };
        let error = Some((error.class(), error.to_string()));
        let end = vec![JournalEntry::Finished(RunFinished {
            state,
            stop_reason,
            error,
        })];
        Ok(self.keep(&end).await?)
    }

    /// Stores entries: first on disk, together with the budget accounts, then in memory.
    async fn keep(&self, entries: &[JournalEntry]) -> Result<()> {
        let at = self.store.clock().now();
        let mut record = self
            .now
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .record
            .clone();
        let mut money = Vec::new();
        for entry in entries {
            money.extend(money_of(entry, &record));
            view::write(&mut record, entry, at);
        }
        let state = match record.run.state.as_str() {
            "succeeded" => "succeeded",
            "failed" => "failed",
            "cancelled" => "cancelled",
            _ => "running",
        };
        let json = serde_json::to_string(&record);
        let json = json.map_err(|_| StoreError::Unreadable {
            what: "record of a fork",
        })?;
        self.store.write_fork(&self.id, json, state, money).await?;
        let mut present = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        present.record = record;
        for mail in entries.iter().filter_map(mail_of) {
            present.mails += 1;
            present.replied |= mail.place.is_none();
            present.reply = Some(mail.clone())
                .filter(|mail| mail.place.is_none())
                .or(present.reply.take());
        }
        Ok(())
    }

    fn rows(&self, run: &ClaimedRun) -> PersonaStore {
        self.store.persona(&run.persona)
    }
}

/// Returns a mail that would have been sent.
fn mail_of(entry: &JournalEntry) -> Option<&NewOutbound> {
    match entry {
        JournalEntry::Mail(mail) if matches!(mail.outcome, MessageOutcome::Send { .. }) => {
            Some(mail)
        }
        _ => None,
    }
}

/// Returns the effect of an entry on the budget accounts. The record knows the provider of a call
/// that ends.
fn money_of(entry: &JournalEntry, record: &RunRecord) -> Option<ForkMoney> {
    let asked = || {
        record
            .turns
            .last()
            .map(|turn| (turn.provider.clone(), turn.model.clone()))
            .unwrap_or_default()
    };
    match entry {
        JournalEntry::TurnStarted(turn) => {
            let (turn_index, attempt, reservation) =
                (turn.turn_index, turn.attempt, turn.reservation.clone());
            Some(ForkMoney::Begin {
                turn_index,
                attempt,
                reservation,
            })
        }
        JournalEntry::TurnAnswered(turn) => {
            let (turn_index, attempt, lines) = (turn.turn_index, turn.attempt, turn.lines.clone());
            Some(ForkMoney::Finish {
                turn_index,
                attempt,
                provider: asked().0,
                lines,
            })
        }
        JournalEntry::TurnFailed(turn) => {
            let (turn_index, attempt, (provider, model)) = (turn.turn_index, turn.attempt, asked());
            Some(match &turn.used {
                Some((_, lines)) => ForkMoney::Finish {
                    turn_index,
                    attempt,
                    provider,
                    lines: lines.clone(),
                },
                None => ForkMoney::Lose {
                    turn_index,
                    attempt,
                    provider,
                    model,
                    billing: turn.billing,
                },
            })
        }
        _ => None,
    }
}

impl RunStore for ForkEnv {
    fn trigger_message<'a>(
        &'a self,
        run: &'a ClaimedRun,
        owners: &'a [Address],
    ) -> Answer<'a, TriggerMessage> {
        Box::pin(async move {
            self.rows(run)
                .trigger_message(&run.trigger_message, owners)
                .await
        })
    }

    fn options_of_run<'a>(&'a self, _run: &'a ClaimedRun) -> Answer<'a, RunOptionsInForce> {
        Box::pin(async move { Ok((*self.run_options).clone()) })
    }

    fn newest_letter<'a>(
        &'a self,
        run: &'a ClaimedRun,
        subject: &'a Subject,
    ) -> Answer<'a, Option<StoredMessage>> {
        Box::pin(async move {
            self.rows(run)
                .newest_letter(&subject.message, &subject.readers)
                .await
        })
    }

    fn journal_so_far<'a>(&'a self, _run: &'a ClaimedRun) -> Answer<'a, JournalSoFar> {
        Box::pin(async move { Ok((*self.past).clone()) })
    }

    fn journal<'a>(
        &'a self,
        _run: &'a ClaimedRun,
        entries: Arc<Vec<JournalEntry>>,
    ) -> Answer<'a, ()> {
        Box::pin(async move { self.keep(&entries).await })
    }

    fn file_unasked<'a>(&'a self, _run: &'a ClaimedRun, rule: Withheld) -> Answer<'a, ()> {
        Box::pin(async move {
            let error = Some((ErrorClass::Cancelled, format!("filed: {rule}")));
            let (state, stop_reason) = (RunState::Cancelled, StopReason::RateLimited);
            self.keep(&[JournalEntry::Finished(RunFinished {
                state,
                stop_reason,
                error,
            })])
            .await
        })
    }

    /// The operator reads the end of a fork; no notice is emitted.
    fn emit_notice(&self, _notice: NewNotice) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn readers_of<'a>(
        &'a self,
        run: &'a ClaimedRun,
        message: &'a StoredMessage,
    ) -> Answer<'a, Vec<String>> {
        Box::pin(async move { self.rows(run).readers_of(message.seq).await })
    }

    /// No sent mails: a draft reaches no recipient, and today's limits are no part of the record.
    fn sent_of_late<'a>(
        &'a self,
        _run: &'a ClaimedRun,
        _wanted: &'a MailReservation,
        _thread: &'a ThreadId,
    ) -> Answer<'a, Sent> {
        Box::pin(async { Ok(Sent::default()) })
    }

    fn mails_so_far<'a>(&'a self, _run: &'a ClaimedRun) -> Answer<'a, (u32, bool)> {
        Box::pin(async move {
            let present = self.now.lock().unwrap_or_else(PoisonError::into_inner);
            Ok((present.mails, present.replied))
        })
    }

    /// Agents are not forked (`providers` in `fork.rs`), so no agent makes a call of its own.
    fn record_call<'a>(&'a self, _run: &'a ClaimedRun, _call: NewCall) -> Answer<'a, String> {
        Box::pin(async { Err(StoreError::Closed) })
    }

    fn close_calls<'a>(&'a self, _run: &'a ClaimedRun, _why: Unanswered) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn resumable_session<'a>(
        &'a self,
        _run: &'a ClaimedRun,
        _key: &'a SessionKey,
    ) -> Answer<'a, Option<KnownSession>> {
        Box::pin(async { Ok(None) })
    }

    fn session_seen<'a>(
        &'a self,
        _run: &'a ClaimedRun,
        _key: &'a SessionKey,
        _id: &'a str,
        _answered: Option<Option<String>>,
    ) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn session_lost<'a>(
        &'a self,
        _run: &'a ClaimedRun,
        _thread: &'a ThreadId,
        _provider: &'a str,
    ) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }
}
