//! What a run still has to commit, and what the store has of it already.

use crate::domain::Withheld;
use crate::runs::deps::RunDeps;
use crate::runs::error::RunError;
use crate::runs::record::call_record::BlockedBy;
use crate::runs::said::letter::NoLetter;
use crate::store::{
    AssembledContext, ClaimedRun, DigestedText, JournalEntry, MessageOutcome, NewOutbound,
    StoreError,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Entries of the next commit, and what decides on them.
pub struct Outbox<'a> {
    deps: &'a RunDeps,
    run: &'a ClaimedRun,
    /// Entries of the next commit.
    pub pending: Vec<JournalEntry>,
    /// Context that is not yet committed; it is committed with the first turn.
    pub fresh_context: Option<AssembledContext>,
    pub mails_sent: usize,
    /// `true`: some mail of this run answered the trigger.
    pub replied: bool,
    /// Reason not to ask the model: its answer could not be sent.
    pub unasked: Option<Withheld>,
    /// Why the last text is a draft for the owner, and no mail.
    pub no_letter: Option<NoLetter>,
    /// Reasons why calls were not made since the last one that was.
    pub blocked_by: Vec<BlockedBy>,
    /// `true`: the configuration is in the database, under its digest.
    pub is_config_kept: bool,
    /// Exact body of the last request that was committed.
    pub last_request: Option<DigestedText>,
    /// Number of calls in the journal when the attempt began.
    pub found_calls: u32,
    /// Highest attempt per turn, over all attempts of the run.
    pub turn_attempts: HashMap<u32, u32>,
}

impl<'a> Outbox<'a> {
    /// Returns the outbox of an attempt that has committed nothing.
    pub fn new(deps: &'a RunDeps, run: &'a ClaimedRun, last_request: Option<DigestedText>) -> Self {
        Self {
            deps,
            run,
            pending: Vec::new(),
            fresh_context: None,
            mails_sent: 0,
            replied: false,
            unasked: None,
            no_letter: None,
            blocked_by: Vec::new(),
            is_config_kept: false,
            last_request,
            found_calls: 0,
            turn_attempts: HashMap::new(),
        }
    }

    /// Counts a mail that was queued in this run.
    pub fn count_mail(&mut self, mail: &NewOutbound) {
        self.mails_sent += 1;
        self.replied |= mail.place.is_none();
    }

    /// Returns the number of the next attempt of a turn.
    pub fn next_attempt(&mut self, turn_index: u32) -> u32 {
        let attempts = self.turn_attempts.entry(turn_index).or_insert(0);
        *attempts += 1;
        *attempts
    }

    /// Commits everything pending together with `entry`. An entry that a budget account could not
    /// pay is pending again, and so is what was to commit with a question for which there is no room.
    pub async fn commit(&mut self, entry: Option<JournalEntry>) -> Result<(), RunError> {
        let mut entries = std::mem::take(&mut self.pending);
        entries.extend(entry);
        if entries.is_empty() {
            return Ok(());
        }
        let has_mail = entries.iter().any(
            |entry| matches!(entry, JournalEntry::Mail(mail) if matches!(mail.outcome, MessageOutcome::Send { .. })),
        );
        let settles = |entry: &JournalEntry| {
            matches!(
                entry,
                JournalEntry::TurnAnswered(_) | JournalEntry::TurnFailed(_)
            )
        };
        let gives_back = entries.iter().any(settles);
        let entries = Arc::new(entries);
        if let Err(error) = self.deps.env.journal(self.run, entries.clone()).await {
            match error {
                StoreError::BudgetExhausted(_) => self.pending = Arc::unwrap_or_clone(entries),
                StoreError::ApprovalsUsedUp => {
                    self.pending = Arc::unwrap_or_clone(entries);
                    self.pending
                        .retain(|entry| !matches!(entry, JournalEntry::Ask(_)));
                }
                _ => {}
            }
            return Err(error.into());
        }
        crate::crash::crash_point!(
            "R6",
            entries
                .iter()
                .any(|entry| matches!(entry, JournalEntry::TurnAnswered(_)))
        );
        crate::crash::crash_point!(
            "R9",
            entries
                .iter()
                .any(|entry| matches!(entry, JournalEntry::Step(s) if s.kind == crate::store::StepKind::Result))
        );
        crate::crash::crash_point!("O1", has_mail);
        if has_mail {
            self.deps.mail_queued.notify_one();
        }
        if gives_back {
            self.deps.given_back.notify_waiters();
        }
        Ok(())
    }
}
