//! The journal of a run: turns, steps, mails and the end, each group of entries in one fenced
//! transaction.
//!
//! The order of these commits makes a run recoverable and replayable: a request before it is sent,
//! a response before any of its calls starts, a call before its tool runs, a result together with
//! its effect.

use crate::clock::Clock;
use crate::domain::{
    ErrorClass, MessageId, PersonaId, RunId, RunState, StopReason, Timestamp, Withheld,
};
use crate::store::deliveries::queue::{self as deliveries, NewDelivery};
use crate::store::mail::bulk::chained;
use crate::store::mail::correspondence::{self, Reservation};
use crate::store::mail::filed;
use crate::store::mail::messages::{self, Content, MessageRow, Place};
use crate::store::notices::events;
use crate::store::runs::outputs::{self, NewOutput};
use crate::store::runs::queue::fenced;
use crate::store::runs::sessions;
use crate::store::runs::steps::{self, Executor, Step, StepKind};
use crate::store::runs::turns::{self, TurnAnswered, TurnFailed, TurnStarted};
use crate::store::{PersonaStore, Result};
use sqlx::{Row, SqliteConnection};
use std::sync::{Arc, LazyLock};

/// Run of the entries, and the message of its steps.
#[derive(Debug, Clone)]
pub struct RunKey {
    pub run: RunId,
    pub trigger_message: MessageId,
}

/// One entry of a run's journal.
#[derive(Debug, Clone)]
pub enum Entry {
    TurnStarted(TurnStarted),
    TurnAnswered(TurnAnswered),
    TurnFailed(TurnFailed),
    Step(Step),
    Mail(Box<NewOutbound>),
    /// Committed with the end of its run.
    Output(NewOutput),
    Finished(Finished),
}

/// A message that a run sends, or would have sent.
#[derive(Debug, Clone)]
pub struct NewOutbound {
    pub id: MessageId,
    /// `None`: into the run's thread; `Some`: a mail to another recipient, in a conversation of its
    /// own.
    pub place: Option<Place>,
    /// Addresses to add to the thread's participants.
    pub participants: Vec<String>,
    pub content: Content,
    /// Number of consecutive mails that personas wrote, this one included.
    pub hops: u32,
    pub outcome: MessageOutcome,
}

/// Outcome of a message that a run writes.
#[derive(Debug, Clone)]
pub enum MessageOutcome {
    /// The message is queued, unless the transaction finds that a limit is exceeded: then it is
    /// withheld.
    Send {
        delivery: Box<NewDelivery>,
        reservation: Reservation,
    },
    Withhold(Withheld),
}

#[derive(Debug, Clone)]
pub struct Finished {
    pub state: RunState,
    pub stop_reason: StopReason,
    pub error: Option<(ErrorClass, String)>,
}

pub(in crate::store) const OWN_RUN: &str = "
    SELECT 1 FROM runs WHERE id = $1 AND epoch = $2 AND state = 'running' AND persona_id = $3";
pub(in crate::store) const FINISH_RUN: &str = "
    UPDATE runs SET state = $3, stop_reason = $4, error_class = $5, error_message = $6, finished_at = $7
    WHERE id = $1 AND epoch = $2 AND state = 'running'";

/// Inserts a message with its delivery.
static SEND_MESSAGE: LazyLock<String> =
    LazyLock::new(|| chained(messages::INSERT_MESSAGE, deliveries::INSERT));

impl PersonaStore {
    /// Commits entries of a run, all or nothing.
    ///
    /// Errors: [`crate::store::StoreError::WrongState`] when the run is no longer this engine's,
    /// [`crate::store::StoreError::BudgetExhausted`] when a call that begins cannot be paid.
    pub async fn journal(&self, key: &RunKey, entries: impl Into<Arc<Vec<Entry>>>) -> Result<()> {
        let entries = entries.into();
        let (persona, key, epoch) = (self.persona.clone(), key.clone(), self.store.epoch());
        let clock = self.store.clock().clone();
        let ids: Vec<String> = entries.iter().map(|_| clock.new_id()).collect();
        let now = clock.now();
        self.store
            .write(move |conn| {
                Box::pin(async move {
                    let writer = JournalWriter {
                        persona,
                        key,
                        epoch,
                        now,
                        stamp: now.to_string(),
                        clock,
                    };
                    let mut is_ours = false;
                    for (entry, id) in entries.iter().zip(&ids) {
                        is_ours |= writer.write(conn, entry, id).await?;
                    }
                    if !is_ours {
                        writer.fence(conn).await?;
                    }
                    Ok(())
                })
            })
            .await
    }
}

impl PersonaStore {
    /// Queues a mail that a fork of this run wrote, at an operator's request, like a mail of the
    /// run itself.
    pub async fn send_of_fork(&self, run: &RunId, mut mail: NewOutbound) -> Result<()> {
        if let MessageOutcome::Send { delivery, .. } = &mut mail.outcome {
            delivery.run_id = Some(run.clone());
        }
        let trigger_message = self.store.run_summary(run).await?.trigger_message;
        let key = RunKey {
            run: run.clone(),
            trigger_message,
        };
        let (persona, epoch, clock) = (
            self.persona.clone(),
            self.store.epoch(),
            self.store.clock().clone(),
        );
        let now = clock.now();
        self.store
            .write(move |conn| {
                Box::pin(async move {
                    let writer = JournalWriter {
                        persona,
                        key,
                        epoch,
                        now,
                        stamp: now.to_string(),
                        clock,
                    };
                    writer.mail(conn, &mail).await
                })
            })
            .await
    }
}

/// Common fields of the entries of one transaction.
pub(in crate::store) struct Frame<'a> {
    pub key: &'a RunKey,
    pub persona: &'a str,
    pub epoch: i64,
    pub now: &'a str,
}

struct JournalWriter {
    persona: PersonaId,
    key: RunKey,
    epoch: i64,
    now: Timestamp,
    stamp: String,
    clock: Arc<dyn Clock>,
}

impl JournalWriter {
    /// Writes one entry. Reports whether it checked that the run is this engine's; a transaction in
    /// which no entry did ends with [`JournalWriter::fence`].
    async fn write(&self, conn: &mut SqliteConnection, entry: &Entry, id: &str) -> Result<bool> {
        match entry {
            Entry::TurnStarted(turn) => {
                turns::start(conn, &self.frame(), turn).await.map(|()| true)
            }
            Entry::TurnAnswered(turn) => turns::answered(conn, &self.frame(), turn)
                .await
                .map(|()| false),
            Entry::TurnFailed(turn) => turns::failed(conn, &self.frame(), turn)
                .await
                .map(|()| false),
            Entry::Step(step) => self.step(conn, step, id).await.map(|()| true),
            Entry::Mail(mail) => self.mail(conn, mail).await.map(|()| false),
            Entry::Output(output) => {
                let of = (&self.key.run, &self.persona);
                outputs::insert(conn, of, output, self.now)
                    .await
                    .map(|()| false)
            }
            Entry::Finished(end) => self.finished(conn, end).await.map(|()| true),
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

    async fn fence(&self, conn: &mut SqliteConnection) -> Result<()> {
        let own = sqlx::query(OWN_RUN)
            .bind(self.key.run.as_str())
            .bind(self.epoch)
            .bind(self.persona.as_str());
        let is_ours = own.fetch_optional(conn).await?.is_some();
        fenced(u64::from(is_ours), self.key.run.as_str())
    }

    async fn step(&self, conn: &mut SqliteConnection, step: &Step, id: &str) -> Result<()> {
        steps::insert(conn, &self.frame(), step, id).await?;
        events::step_recorded(conn, &self.key.run, step, self.clock.as_ref()).await
    }

    async fn mail(&self, conn: &mut SqliteConnection, mail: &NewOutbound) -> Result<()> {
        let elsewhere = match &mail.place {
            Some(place) => Some(
                messages::place_message(conn, &self.persona, place, &mail.content, self.now)
                    .await?,
            ),
            None => None,
        };
        let (delivery, withheld) = match &mail.outcome {
            MessageOutcome::Withhold(rule) => (None, Some(*rule)),
            MessageOutcome::Send {
                delivery,
                reservation,
            } => {
                if let Some(max) = reservation.mails_of_run_max {
                    sessions::room_for_mail(conn, (&self.key.run, &self.persona), max).await?;
                }
                let place = (&self.key.run, elsewhere.as_ref());
                let over =
                    correspondence::reserve(conn, &self.persona, place, reservation, self.now);
                match over.await? {
                    None => (Some(delivery), None),
                    Some(rule) => {
                        // The recipient over the limit is not known here; the first one stands for
                        // all.
                        let who = reservation
                            .counterparties
                            .first()
                            .map_or("somebody", String::as_str);
                        filed::limit_reached(conn, &self.persona, (who, rule), &mail.id, self.now)
                            .await?;
                        (None, Some(rule))
                    }
                }
            }
        };
        let disposition =
            withheld.map_or_else(|| "sent".to_owned(), |rule| format!("withheld:{rule}"));
        let row = MessageRow {
            id: &mail.id,
            thread: elsewhere.as_ref(),
            persona: &self.persona,
            direction: "outbound",
            content: &mail.content,
            raw: None,
            run: Some(&self.key.run),
            dedup_key: None,
            ack_confirmed: true,
            disposition: &disposition,
            hops: mail.hops,
            // An address that the mail is not sent to does not become a participant.
            joining: if delivery.is_some() {
                &mail.participants
            } else {
                &[]
            },
        };
        match delivery {
            Some(delivery) => {
                let send =
                    messages::with_message(sqlx::query(SEND_MESSAGE.as_str()), &row, self.now);
                let send = deliveries::with_delivery(send, delivery, self.now);
                deliveries::is_queued(&send.fetch_one(conn).await?, delivery)
            }
            None => {
                messages::insert_message(conn, &row, self.now).await?;
                let subject = ("message", mail.id.as_str());
                messages::audit(conn, Some(&self.persona), subject, &disposition, self.now).await
            }
        }
    }

    async fn finished(&self, conn: &mut SqliteConnection, end: &Finished) -> Result<()> {
        let (class, message) = match &end.error {
            Some((class, message)) => (Some(class.as_str()), Some(message.as_str())),
            None => (None, None),
        };
        let finish = sqlx::query(FINISH_RUN)
            .bind(self.key.run.as_str())
            .bind(self.epoch)
            .bind(end.state.as_str());
        let finish = finish
            .bind(end.stop_reason.as_str())
            .bind(class)
            .bind(message)
            .bind(&self.stamp);
        fenced(
            finish.execute(&mut *conn).await?.rows_affected(),
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

/// State of a run's journal, for resuming after a crash.
#[derive(Debug, Clone, Default)]
pub struct JournalSoFar {
    /// The normalised first request; `None` when no turn was started.
    pub first_request_json: Option<String>,
    /// Answered turns in order: index and normalised response.
    pub answers: Vec<(u32, String)>,
    /// Provider and model of the last answer.
    pub answered_by: Option<(String, String)>,
    /// Number of provider calls that were begun.
    pub calls: u32,
    /// Highest attempt per started turn.
    pub attempts: Vec<(u32, u32)>,
    /// Steps in order.
    pub steps: Vec<Step>,
    /// Number of mails of this run so far.
    pub mails: u32,
    /// `true`: one of the mails answered the trigger.
    pub replied: bool,
}

pub(in crate::store) const JOURNAL_TURNS: &str = "
    SELECT turn_index, attempt, state, response_json, context_json, provider, model FROM run_turns
    WHERE run_id = $1 AND persona_id = $2 ORDER BY turn_index, attempt";
pub(in crate::store) const JOURNAL_STEPS: &str = "
    SELECT event_type, executor, tool_name, tool_call_id, payload_json FROM thread_tool_events
    WHERE run_id = $1 AND persona_id = $2 ORDER BY step_index";

impl PersonaStore {
    /// Reads the journal of a run.
    pub async fn journal_so_far(&self, run: &RunId) -> Result<JournalSoFar> {
        let mut so_far = JournalSoFar::default();
        let turns = sqlx::query(JOURNAL_TURNS)
            .bind(run.as_str())
            .bind(self.persona.as_str());
        for row in turns.fetch_all(self.store.readers()).await? {
            let (index, attempt): (u32, u32) = (row.get(0), row.get(1));
            so_far.calls += 1;
            so_far.attempts.retain(|(turn, _)| *turn != index);
            so_far.attempts.push((index, attempt));
            if let Some(context) = row.get::<Option<String>, _>(4) {
                so_far.first_request_json = Some(context);
            }
            if row.get::<&str, _>(2) == "answered" {
                so_far
                    .answers
                    .push((index, row.get::<Option<String>, _>(3).unwrap_or_default()));
                so_far.answered_by = Some((row.get(5), row.get(6)));
            }
        }
        if so_far.attempts.is_empty() {
            return Ok(so_far);
        }
        so_far.steps = self.steps_of_run(run).await?;
        (so_far.mails, so_far.replied) = self.mails_so_far(run).await?;
        Ok(so_far)
    }

    /// Returns the steps of a run, in order.
    pub async fn steps_of_run(&self, run: &RunId) -> Result<Vec<Step>> {
        let steps = sqlx::query(JOURNAL_STEPS)
            .bind(run.as_str())
            .bind(self.persona.as_str());
        let rows = steps.fetch_all(self.store.readers()).await?;
        let step = |row: &sqlx::sqlite::SqliteRow| Step {
            kind: StepKind::of(row.get(0)),
            executor: Executor::of(row.get(1)),
            tool_name: row.get(2),
            tool_call_id: row.get(3),
            payload_json: row.get(4),
        };
        Ok(rows.iter().map(step).collect())
    }
}
