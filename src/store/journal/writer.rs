//! The journal of a run: turns, steps, mails and the end, each group of entries in one fenced
//! transaction.
//!
//! The order of these commits makes a run recoverable and replayable: a request before it is sent, a
//! response and a call before a tool runs that can have an effect by itself, a result together with
//! its effect.

use crate::clock::Clock;
use crate::domain::{ErrorClass, PersonaId, RunState, StopReason, Timestamp};
use crate::store::approvals::ask;
use crate::store::approvals::record::NewApproval;
use crate::store::budgets::engine_grants;
use crate::store::db::Connection;
use crate::store::journal::outbound;
use crate::store::journal::outbound::NewOutbound;
use crate::store::journal::outputs::{self, NewOutput};
use crate::store::journal::packed::PackedTurn;
use crate::store::journal::step::Step;
use crate::store::journal::steps;
use crate::store::journal::turns::{self, TurnAnswered, TurnFailed, TurnStarted};
use crate::store::memory::record::MemoryWrite;
use crate::store::memory::uses::count_use;
use crate::store::memory::write as memory;
use crate::store::notices::events;
use crate::store::runs::fence::{Frame, RunKey, fenced};
use crate::store::threads::summaries::{self, NewThreadSummary};
use crate::store::{PersonaStore, Result, StoreError};
use std::sync::Arc;

/// One entry of a run's journal.
#[derive(Debug, Clone)]
pub enum JournalEntry {
    TurnStarted(Box<TurnStarted>),
    TurnAnswered(TurnAnswered),
    TurnFailed(TurnFailed),
    Step(Step),
    Mail(Box<NewOutbound>),
    /// Committed with the result of its call.
    Memory(Box<MemoryWrite>),
    /// Committed with the end of its run.
    Output(NewOutput),
    /// A summary of the thread, committed with the end of its run.
    Summary(Box<NewThreadSummary>),
    /// A run that summarises the thread, if the history of this one did not fit.
    QueueSummary,
    Finished(RunFinished),
    /// A question to the owner; with `parks`, the last entry of its commit.
    Ask(Box<NewApproval>),
    /// An approved call begins: the id of its approval, and its expected effects as JSON.
    ApprovedBegun {
        approval: String,
        expected_json: String,
    },
}

#[derive(Debug, Clone)]
pub struct RunFinished {
    pub state: RunState,
    pub stop_reason: StopReason,
    pub error: Option<(ErrorClass, String)>,
}

pub const OWN_RUN: &str = "
    SELECT 1 FROM runs WHERE id = $1 AND epoch = $2 AND state = 'running' AND persona_id = $3";
const FINISH_RUN: &str = "
    UPDATE runs SET state = $3, stop_reason = $4, error_class = $5, error_message = $6, finished_at = $7
    WHERE id = $1 AND epoch = $2 AND state = 'running'";

impl PersonaStore {
    /// Commits entries of a run, all or nothing.
    ///
    /// Errors: [`crate::store::StoreError::WrongState`] when the run is no longer this engine's,
    /// [`crate::store::StoreError::BudgetExhausted`] when a call that begins cannot be paid.
    pub async fn journal(
        &self,
        key: &RunKey,
        entries: impl Into<Arc<Vec<JournalEntry>>>,
    ) -> Result<()> {
        let entries = entries.into();
        let clock = self.store.clock();
        let rows = entries.iter().map(|entry| EntryRow {
            id: clock.new_id(),
            // Before the transaction: other writers do not wait for it.
            packed: match entry {
                JournalEntry::TurnStarted(turn) => {
                    turn.packed(self.store.shared_parts(), &self.persona)
                }
                _ => PackedTurn::default(),
            },
        });
        let rows = Arc::new(rows.collect::<Vec<EntryRow>>());
        let written = self.write_entries(key, &entries, &rows, false).await;
        match written {
            Err(StoreError::BudgetExhausted(empty)) if empty.is_of_part() => {
                self.write_entries(key, &entries, &rows, true).await
            }
            written => written,
        }
    }

    /// Commits entries; with `is_granting`, what the parts of the engine's account may spend is granted anew.
    async fn write_entries(
        &self,
        key: &RunKey,
        entries: &Arc<Vec<JournalEntry>>,
        rows: &Arc<Vec<EntryRow>>,
        is_granting: bool,
    ) -> Result<()> {
        let (entries, rows) = (entries.clone(), rows.clone());
        let (persona, key, epoch) = (self.persona.clone(), key.clone(), self.store.epoch());
        let clock = self.store.clock().clone();
        let now = clock.now();
        transact!(self, |conn| {
            if is_granting {
                engine_grants::lock(conn).await?;
            }
            let writer = JournalWriter {
                persona,
                key,
                epoch,
                now,
                stamp: now.to_string(),
                clock,
                is_granting,
            };
            let mut is_ours = false;
            for (entry, row) in entries.iter().zip(rows.iter()) {
                is_ours |= writer.write(conn, entry, row).await?;
            }
            if !is_ours {
                writer.fence(conn).await?;
            }
            Ok(())
        })
        .await
    }
}

/// What an entry's row needs beside the entry.
struct EntryRow {
    id: String,
    packed: PackedTurn,
}

struct JournalWriter {
    persona: PersonaId,
    key: RunKey,
    epoch: i64,
    now: Timestamp,
    stamp: String,
    clock: Arc<dyn Clock>,
    /// Whether a call may have what no part of the engine's account was granted.
    is_granting: bool,
}

impl JournalWriter {
    /// Writes one entry. Reports whether it checked that the run is this engine's; a transaction in
    /// which no entry did ends with [`JournalWriter::fence`].
    async fn write(
        &self,
        conn: &mut Connection,
        entry: &JournalEntry,
        row: &EntryRow,
    ) -> Result<bool> {
        match entry {
            JournalEntry::TurnStarted(turn) => {
                if let Some(reservation) = turn.reservation.as_ref().filter(|_| self.is_granting) {
                    engine_grants::grant(conn, self.key.run.as_str(), reservation).await?;
                }
                turns::start(conn, &self.frame(), turn, &row.packed).await?;
                if let Some(context) = &turn.context {
                    count_use(conn, &context.memory, &self.stamp).await?;
                }
                Ok(true)
            }
            JournalEntry::TurnAnswered(turn) => turns::answered(conn, &self.frame(), turn)
                .await
                .map(|()| false),
            JournalEntry::TurnFailed(turn) => turns::failed(conn, &self.frame(), turn)
                .await
                .map(|()| false),
            JournalEntry::Step(step) => self.step(conn, step, &row.id).await.map(|()| true),
            JournalEntry::Mail(mail) => {
                let of = (&self.key.run, &self.persona);
                outbound::insert(conn, of, mail, self.now)
                    .await
                    .map(|_withheld| false)
            }
            JournalEntry::Memory(write) => {
                let of = (&self.key.run, &self.persona);
                memory::apply(conn, of, (write, &row.id), self.now)
                    .await
                    .map(|()| false)
            }
            JournalEntry::Output(output) => {
                let of = (&self.key.run, &self.persona);
                outputs::insert(conn, of, output, self.now)
                    .await
                    .map(|()| false)
            }
            JournalEntry::Summary(summary) => {
                let (of, go_on) = ((&self.key.run, &self.persona), self.clock.new_id());
                summaries::insert(conn, of, summary, ([&row.id, &go_on], self.now))
                    .await
                    .map(|()| false)
            }
            JournalEntry::QueueSummary => {
                summaries::queue(conn, (&self.key.run, &row.id, self.now))
                    .await
                    .map(|()| false)
            }
            JournalEntry::Finished(end) => self.finished(conn, end).await.map(|()| true),
            JournalEntry::Ask(approval) => ask::ask(conn, &self.frame(), approval)
                .await
                .map(|()| approval.parks),
            JournalEntry::ApprovedBegun {
                approval,
                expected_json,
            } => ask::begin(conn, &self.frame(), approval, expected_json)
                .await
                .map(|()| false),
        }
    }

    fn frame(&self) -> Frame<'_> {
        Frame {
            key: &self.key,
            persona: self.persona.as_str(),
            epoch: self.epoch,
            now: &self.stamp,
        }
    }

    async fn fence(&self, conn: &mut Connection) -> Result<()> {
        let is_ours = conn
            .maybe_row(OWN_RUN, (&self.key.run, self.epoch, &self.persona))
            .await?
            .is_some();
        fenced(u64::from(is_ours), self.key.run.as_str())
    }

    async fn step(&self, conn: &mut Connection, step: &Step, id: &str) -> Result<()> {
        steps::insert(conn, &self.frame(), step, id).await?;
        events::step_recorded(conn, &self.key.run, step, self.clock.as_ref()).await
    }

    async fn finished(&self, conn: &mut Connection, end: &RunFinished) -> Result<()> {
        let (class, message) = match &end.error {
            Some((class, message)) => (Some(class.as_str()), Some(message.as_str())),
            None => (None, None),
        };
        fenced(
            conn.exec(
                FINISH_RUN,
                (
                    &self.key.run,
                    self.epoch,
                    &end.state,
                    &end.stop_reason,
                    class,
                    message,
                    &self.stamp,
                ),
            )
            .await?,
            self.key.run.as_str(),
        )?;
        crate::crash::crash_point!("R10");
        match end.state {
            RunState::Failed => {
                events::run_failed(conn, self.key.run.as_str(), self.clock.as_ref()).await
            }
            _ => Ok(()),
        }
    }
}
