//! What a fork's loop asks and tells: the past is answered from the record, the present is kept beside the road.
//!
//! Absent on purpose: any write to the rows of the run, of its thread or of its mails. The one thing of the road that it moves
//! is money.

use super::sheet;
use super::{ForkError, Forked};
use crate::domain::{Address, ErrorClass, RunState, StopReason, ThreadId, Withheld};
use crate::harness::desk::RunError;
use crate::harness::ledger::{Answer, Ledger};
use crate::harness::resolvers::Subject;
use crate::replay::RunRecord;
use crate::store::{
    ClaimedRun, Entry, Fate, Finished, ForkMoney, HeldTo, JournalSoFar, KnownSession, NewCall, NewNotice,
    NewOutbound, PersonaStore, Reservation, Result, Sent, SessionKey, Store, StoreError, StoredMessage,
    TriggerMessage, Unanswered,
};
use std::sync::{Arc, Mutex, PoisonError};

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct ForkLedger {
    store: Store,
    /// What the run that it was forked from is held to, without what the fork has otherwise.
    held_to: Arc<HeldTo>,
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

impl ForkLedger {
    pub(super) fn new(
        store: Store,
        held_to: HeldTo,
        id: String,
        past: JournalSoFar,
        record: RunRecord,
    ) -> Self {
        let present = Present { record, reply: None, mails: past.mails, replied: past.replied };
        let held_to = Arc::new(held_to);
        Self { store, held_to, id, past: Arc::new(past), now: Arc::new(Mutex::new(present)) }
    }

    /// The fork as it ended.
    pub(super) fn finished(&self) -> Forked {
        let present = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        Forked { record: present.record.clone(), reply: present.reply.clone() }
    }

    /// Ends a fork on which the loop gave up.
    pub(super) async fn give_up(&self, error: &RunError) -> std::result::Result<(), ForkError> {
        let (state, stop_reason) = match error.class() {
            ErrorClass::Cancelled => (RunState::Cancelled, StopReason::Cancelled),
            _ => (RunState::Failed, StopReason::Failed),
        };
        let error = Some((error.class(), error.to_string()));
        let end = vec![Entry::Finished(Finished { state, stop_reason, error })];
        Ok(self.keep(&end).await?)
    }

    /// Keeps entries: first on disk, with what they do to the purses, then in memory.
    async fn keep(&self, entries: &[Entry]) -> Result<()> {
        let at = self.store.clock().now();
        let mut record = self.now.lock().unwrap_or_else(PoisonError::into_inner).record.clone();
        let mut money = Vec::new();
        for entry in entries {
            money.extend(money_of(entry, &record));
            sheet::write(&mut record, entry, at);
        }
        let state = match record.run.state.as_str() {
            "succeeded" => "succeeded",
            "failed" => "failed",
            "cancelled" => "cancelled",
            _ => "running",
        };
        let json = serde_json::to_string(&record);
        let json = json.map_err(|_| StoreError::Unreadable { what: "record of a fork" })?;
        self.store.write_fork(&self.id, json, state, money).await?;
        let mut present = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        present.record = record;
        for mail in entries.iter().filter_map(mail_of) {
            present.mails += 1;
            present.replied |= mail.place.is_none();
            present.reply = Some(mail.clone()).filter(|mail| mail.place.is_none()).or(present.reply.take());
        }
        Ok(())
    }

    fn rows(&self, run: &ClaimedRun) -> PersonaStore {
        self.store.persona(&run.persona)
    }
}

/// A mail that would have been sent.
fn mail_of(entry: &Entry) -> Option<&NewOutbound> {
    match entry {
        Entry::Mail(mail) if matches!(mail.fate, Fate::Send { .. }) => Some(mail),
        _ => None,
    }
}

/// What an entry does to the purses. Of a call that ends the record knows who was asked.
fn money_of(entry: &Entry, record: &RunRecord) -> Option<ForkMoney> {
    let asked =
        || record.turns.last().map(|turn| (turn.provider.clone(), turn.model.clone())).unwrap_or_default();
    match entry {
        Entry::TurnStarted(turn) => {
            let (turn_index, attempt, advance) = (turn.turn_index, turn.attempt, turn.advance.clone());
            Some(ForkMoney::Begin { turn_index, attempt, advance })
        }
        Entry::TurnAnswered(turn) => {
            let (turn_index, attempt, lines) = (turn.turn_index, turn.attempt, turn.lines.clone());
            Some(ForkMoney::Settle { turn_index, attempt, provider: asked().0, lines })
        }
        Entry::TurnFailed(turn) => {
            let (turn_index, attempt, (provider, model)) = (turn.turn_index, turn.attempt, asked());
            Some(match &turn.used {
                Some((_, lines)) => ForkMoney::Settle { turn_index, attempt, provider, lines: lines.clone() },
                None => ForkMoney::Lose { turn_index, attempt, provider, model, billing: turn.billing },
            })
        }
        _ => None,
    }
}

impl Ledger for ForkLedger {
    fn trigger_message<'a>(
        &'a self,
        run: &'a ClaimedRun,
        owners: &'a [Address],
    ) -> Answer<'a, TriggerMessage> {
        Box::pin(async move { self.rows(run).trigger_message(&run.trigger_message, owners).await })
    }

    fn terms_of_run<'a>(&'a self, _run: &'a ClaimedRun) -> Answer<'a, HeldTo> {
        Box::pin(async move { Ok((*self.held_to).clone()) })
    }

    fn newest_letter<'a>(
        &'a self,
        run: &'a ClaimedRun,
        subject: &'a Subject,
    ) -> Answer<'a, Option<StoredMessage>> {
        Box::pin(async move { self.rows(run).newest_letter(&subject.message, &subject.readers).await })
    }

    fn journal_so_far<'a>(&'a self, _run: &'a ClaimedRun) -> Answer<'a, JournalSoFar> {
        Box::pin(async move { Ok((*self.past).clone()) })
    }

    fn journal<'a>(&'a self, _run: &'a ClaimedRun, entries: Arc<Vec<Entry>>) -> Answer<'a, ()> {
        Box::pin(async move { self.keep(&entries).await })
    }

    fn file_unasked<'a>(&'a self, _run: &'a ClaimedRun, rule: Withheld) -> Answer<'a, ()> {
        Box::pin(async move {
            let error = Some((ErrorClass::Cancelled, format!("filed: {rule}")));
            let (state, stop_reason) = (RunState::Cancelled, StopReason::RateLimited);
            self.keep(&[Entry::Finished(Finished { state, stop_reason, error })]).await
        })
    }

    /// Whoever forks reads how it ended; nobody else must know.
    fn raise_notice(&self, _notice: NewNotice) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn readers_of<'a>(&'a self, run: &'a ClaimedRun, message: &'a StoredMessage) -> Answer<'a, Vec<String>> {
        Box::pin(async move { self.rows(run).readers_of(message.seq).await })
    }

    /// None: a draft reaches nobody, and the bounds of today are no part of what was then.
    fn sent_of_late<'a>(
        &'a self,
        _run: &'a ClaimedRun,
        _wanted: &'a Reservation,
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

    /// Agents are not forked (`providers` in `fork.rs`), so nobody makes a call of their own.
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
