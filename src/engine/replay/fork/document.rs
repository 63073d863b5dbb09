//! Document of a fork: its entries as a record of its own.
//!
//! Absent on purpose: any write to the rows of the run, of its thread or of its mails. Only the
//! budget accounts are written.

use super::view;
use super::{ForkError, Forked};
use crate::domain::{ErrorClass, RunState, StopReason};
use crate::replay::RunRecord;
use crate::runs::env::ForkJournal;
use crate::runs::error::RunError;
use crate::store::{
    ForkMoney, JournalEntry, MessageOutcome, NewOutbound, Result, RunFinished, Store, StoreError,
};
use futures_util::future::BoxFuture;
use std::sync::{Mutex, PoisonError};

/// Journal of a fork, kept as its record.
pub(super) struct ForkDocument {
    store: Store,
    id: String,
    now: Mutex<Present>,
}

struct Present {
    record: RunRecord,
    reply: Option<NewOutbound>,
}

impl ForkDocument {
    pub(super) fn new(store: Store, id: String, record: RunRecord) -> Self {
        let reply = None;
        Self {
            store,
            id,
            now: Mutex::new(Present { record, reply }),
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
            present.reply = Some(mail.clone())
                .filter(|mail| mail.place.is_none())
                .or(present.reply.take());
        }
        Ok(())
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

impl ForkJournal for ForkDocument {
    fn commit<'a>(&'a self, entries: &'a [JournalEntry]) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.keep(entries))
    }
}
