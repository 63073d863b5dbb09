//! The journal of a run: turns, steps, mails and the end, each group of entries in one fenced transaction.
//!
//! What makes a run survivable and replayable is the order of these commits: a request before it is sent, a
//! response before any of its calls starts, a call before its tool runs, a result together with its effect.

use super::contents::NewSources;
use super::correspondence::{self, Reservation};
use super::deliveries::{self, NewDelivery};
use super::messages::{self, Content, MessageRow, Place};
use super::money::{self, Advance, Billing};
use super::outputs::{self, NewOutput};
use super::runs::{fenced, to_ms};
use super::steps::{self, Executor, Step, StepFrame, StepKind};
use super::{PersonaStore, Result, facts, sessions};
use crate::clock::Clock;
use crate::config::Snapshot;
use crate::domain::{
    ErrorClass, MessageId, PersonaId, RunId, RunState, StopReason, Timestamp, Usage, UsageLine, Withheld,
};
use sqlx::{Row, SqliteConnection};
use std::sync::Arc;
use std::time::Duration;

/// Which run writes, and under which message its steps stand.
#[derive(Debug, Clone)]
pub struct RunKey {
    pub run: RunId,
    pub trigger_message: MessageId,
}

/// One thing that happened in a run.
#[derive(Debug, Clone)]
pub enum Entry {
    TurnStarted(TurnStarted),
    TurnAnswered(TurnAnswered),
    TurnFailed(TurnFailed),
    Step(Step),
    Mail(Box<NewOutbound>),
    /// With the end of its run.
    Output(NewOutput),
    Finished(Finished),
}

/// A provider call is about to be made.
#[derive(Debug, Clone)]
pub struct TurnStarted {
    pub turn_index: u32,
    /// Tries of this turn, counted from 1 over the whole run.
    pub attempt: u32,
    /// The exact body.
    pub request_json: String,
    pub request_sha256: String,
    pub provider: String,
    pub model: String,
    /// First turn of a run: the assembled context and its report.
    pub context: Option<AssembledContext>,
    /// What the call may cost; `None`: it is not counted.
    pub advance: Option<Advance>,
    /// The configuration by which it is made, where no context of this turn brings it along.
    pub config: Option<Arc<Snapshot>>,
    /// How the call came to be made, as the harness writes it.
    pub begun_json: Option<String>,
}

/// What a resumed run starts from instead of assembling again.
#[derive(Debug, Clone)]
pub struct AssembledContext {
    /// The normalised first request.
    pub request_json: String,
    pub report_json: String,
    /// The bounds on tokens and money, each with its origin.
    pub limits_json: String,
    pub sources: NewSources,
}

#[derive(Debug, Clone)]
pub struct TurnAnswered {
    pub turn_index: u32,
    pub attempt: u32,
    /// The normalised response.
    pub response_json: String,
    /// All of it.
    pub usage: Usage,
    /// Model by model, each once.
    pub lines: Vec<UsageLine>,
    /// Time spent working on the run so far.
    pub worked: Duration,
    /// How the call ended, as the harness writes it.
    pub ended_json: Option<String>,
}

#[derive(Debug, Clone)]
pub struct TurnFailed {
    pub turn_index: u32,
    pub attempt: u32,
    pub class: ErrorClass,
    pub message: String,
    /// What it used before it failed, where that is known: all of it, and model by model.
    pub used: Option<(Usage, Vec<UsageLine>)>,
    /// Where that is not known.
    pub billing: Billing,
    /// Time spent working on the run so far.
    pub worked: Duration,
    /// How the call ended, as the harness writes it.
    pub ended_json: Option<String>,
}

/// A message that a run sends, or would have sent.
#[derive(Debug, Clone)]
pub struct NewOutbound {
    pub id: MessageId,
    /// `None`: into the run's thread; `Some`: a mail to somebody else, in a conversation of its own.
    pub place: Option<Place>,
    /// Added to the thread's participants.
    pub participants: Vec<String>,
    pub content: Content,
    /// Mails in a row that personas wrote, this one included.
    pub hops: u32,
    pub fate: Fate,
}

/// What becomes of a message that a run writes.
#[derive(Debug, Clone)]
pub enum Fate {
    /// Queued, unless the transaction finds that it is one mail too many: then it is withheld.
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

pub(super) const OWN_RUN: &str = "
    SELECT 1 FROM runs WHERE id = $1 AND epoch = $2 AND state = 'running' AND persona_id = $3";
pub(super) const START_TURN: &str = "
    INSERT INTO run_turns (run_id, turn_index, attempt, persona_id, request_json, request_sha256, provider, model,
      state, started_at, context_json, begun_json, sources_json)
      VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'started', $9, $10, $14, $15);
    UPDATE runs SET provider = $7, model = $8, context_report_json = coalesce($11, context_report_json),
      limits_json = coalesce($13, limits_json)
    WHERE id = $1 AND ($11 IS NOT NULL OR provider <> $7 OR model <> $8);
    SELECT thread_id, CASE WHEN $16 IS NOT NULL THEN (SELECT json_group_array(value) FROM json_each($16) AS named
      WHERE NOT EXISTS (SELECT 1 FROM contents c WHERE c.sha256 = named.value)) END AS missing
    FROM runs WHERE id = $1 AND epoch = $12 AND state = 'running' AND persona_id = $4";
/// How a call ended: its row and the sums of the run.
pub(super) const END_TURN: &str = "
    UPDATE run_turns SET state = $4, response_json = $5, error_class = $6, error_message = $7, finished_at = $8,
      input_tokens = $9, cache_read_tokens = $10, cache_write_tokens = $11, output_tokens = $12,
      reasoning_tokens = $13, cost_micros = $14, ended_json = $16
    WHERE run_id = $1 AND turn_index = $2 AND attempt = $3;
    UPDATE runs SET worked_ms = $15, input_tokens = input_tokens + $9, cache_read_tokens = cache_read_tokens + $10,
      cache_write_tokens = cache_write_tokens + $11, output_tokens = output_tokens + $12,
      reasoning_tokens = reasoning_tokens + $13,
      cost_micros = CASE WHEN $14 IS NULL THEN cost_micros ELSE coalesce(cost_micros, 0) + $14 END
    WHERE id = $1";
pub(super) const FINISH_RUN: &str = "
    UPDATE runs SET state = $3, stop_reason = $4, error_class = $5, error_message = $6, finished_at = $7
    WHERE id = $1 AND epoch = $2 AND state = 'running'";

impl PersonaStore {
    /// Commits what happened in a run, all of it or nothing.
    ///
    /// Errors: [`super::StoreError::WrongState`] when the run is no longer this engine's,
    /// [`super::StoreError::EmptyPurse`] when a call that begins cannot be paid.
    pub async fn journal(&self, key: &RunKey, entries: impl Into<Arc<Vec<Entry>>>) -> Result<()> {
        let entries = entries.into();
        let (persona, key, epoch) = (self.persona.clone(), key.clone(), self.store.epoch());
        let clock = self.store.clock().clone();
        let ids: Vec<String> = entries.iter().map(|_| clock.new_id()).collect();
        let now = clock.now();
        self.store
            .write(move |conn| {
                Box::pin(async move {
                    let scribe = Scribe { persona, key, epoch, now, stamp: now.to_string(), clock };
                    let mut is_ours = false;
                    for (entry, id) in entries.iter().zip(&ids) {
                        is_ours |= scribe.write(conn, entry, id).await?;
                    }
                    if !is_ours {
                        scribe.fence(conn).await?;
                    }
                    Ok(())
                })
            })
            .await
    }
}

impl PersonaStore {
    /// Queues a mail that a fork of this run wrote, because somebody asked for it. It goes the way of the run's own mails.
    pub async fn send_of_fork(&self, run: &RunId, mut mail: NewOutbound) -> Result<()> {
        if let Fate::Send { delivery, .. } = &mut mail.fate {
            delivery.run_id = Some(run.clone());
        }
        let trigger_message = self.store.run_summary(run).await?.trigger_message;
        let key = RunKey { run: run.clone(), trigger_message };
        let (persona, epoch, clock) = (self.persona.clone(), self.store.epoch(), self.store.clock().clone());
        let now = clock.now();
        self.store
            .write(move |conn| {
                Box::pin(async move {
                    let scribe = Scribe { persona, key, epoch, now, stamp: now.to_string(), clock };
                    scribe.mail(conn, &mail).await
                })
            })
            .await
    }
}

struct Scribe {
    persona: PersonaId,
    key: RunKey,
    epoch: i64,
    now: Timestamp,
    stamp: String,
    clock: Arc<dyn Clock>,
}

impl Scribe {
    /// Writes one entry; whether it made sure that the run is this engine's. A transaction in which no entry did ends
    /// with [`Scribe::fence`].
    async fn write(&self, conn: &mut SqliteConnection, entry: &Entry, id: &str) -> Result<bool> {
        match entry {
            Entry::TurnStarted(turn) => self.turn_started(conn, turn).await.map(|()| true),
            Entry::TurnAnswered(turn) => self.turn_answered(conn, turn).await.map(|()| false),
            Entry::TurnFailed(turn) => self.turn_failed(conn, turn).await.map(|()| false),
            Entry::Step(step) => self.step(conn, step, id).await.map(|()| true),
            Entry::Mail(mail) => self.mail(conn, mail).await.map(|()| false),
            Entry::Output(output) => {
                let of = (&self.key.run, &self.persona);
                outputs::insert(conn, of, output, self.now).await.map(|()| false)
            }
            Entry::Finished(end) => self.finished(conn, end).await.map(|()| true),
        }
    }

    async fn fence(&self, conn: &mut SqliteConnection) -> Result<()> {
        let own =
            sqlx::query(OWN_RUN).bind(self.key.run.as_str()).bind(self.epoch).bind(self.persona.as_str());
        self.ours(own.fetch_optional(conn).await?.is_some())
    }

    fn ours(&self, is_ours: bool) -> Result<()> {
        fenced(u64::from(is_ours), self.key.run.as_str())
    }

    async fn turn_started(&self, conn: &mut SqliteConnection, turn: &TurnStarted) -> Result<()> {
        let context = turn.context.as_ref();
        let insert =
            sqlx::query(START_TURN).bind(self.key.run.as_str()).bind(turn.turn_index).bind(turn.attempt);
        let insert = insert.bind(self.persona.as_str()).bind(&turn.request_json).bind(&turn.request_sha256);
        let insert = insert.bind(&turn.provider).bind(&turn.model).bind(&self.stamp);
        let insert = insert.bind(context.map(|context| context.request_json.as_str()));
        let insert = insert.bind(context.map(|context| context.report_json.as_str())).bind(self.epoch);
        let insert = insert.bind(context.map(|context| context.limits_json.as_str()));
        let insert = insert.bind(turn.begun_json.as_deref());
        let insert = insert.bind(context.map(|context| context.sources.json.as_str()));
        let bare = turn.config.as_ref().filter(|_| context.is_none()).map(NewSources::bare);
        let sources = context.map(|context| &context.sources).or(bare.as_ref());
        let insert = insert.bind(sources.map(NewSources::digests));
        let thread = insert.fetch_optional(&mut *conn).await?;
        self.ours(thread.is_some())?;
        let missing = thread.as_ref().and_then(|row| row.get::<Option<String>, _>("missing"));
        if let Some((sources, missing)) = sources.zip(missing).filter(|(_, missing)| missing != "[]") {
            sources.insert(conn, &missing).await?;
        }
        match (&turn.advance, thread) {
            (Some(advance), Some(row)) => {
                let call = (&self.key.run, turn.turn_index, turn.attempt);
                money::reserve(conn, call, row.get("thread_id"), advance).await
            }
            _ => Ok(()),
        }
    }

    async fn turn_answered(&self, conn: &mut SqliteConnection, turn: &TurnAnswered) -> Result<()> {
        let end = self.end_turn((turn.turn_index, turn.attempt), "answered");
        let end = end.bind(&turn.response_json).bind(None::<&str>).bind(None::<&str>).bind(&self.stamp);
        charge(end, turn.usage, turn.worked).bind(&turn.ended_json).execute(&mut *conn).await?;
        money::settle(conn, (&self.key.run, turn.turn_index, turn.attempt), &turn.lines, &self.stamp).await
    }

    async fn turn_failed(&self, conn: &mut SqliteConnection, turn: &TurnFailed) -> Result<()> {
        let end = self.end_turn((turn.turn_index, turn.attempt), "failed").bind(None::<&str>);
        let end = end.bind(turn.class.as_str()).bind(&turn.message).bind(&self.stamp);
        let used = turn.used.as_ref().map_or(Usage::default(), |(usage, _)| *usage);
        charge(end, used, turn.worked).bind(&turn.ended_json).execute(&mut *conn).await?;
        match &turn.used {
            Some((_, lines)) => {
                money::settle(conn, (&self.key.run, turn.turn_index, turn.attempt), lines, &self.stamp).await
            }
            None => {
                let call = (self.key.run.as_str(), turn.turn_index, turn.attempt);
                money::lose(conn, call, turn.billing, &self.stamp).await
            }
        }
    }

    fn end_turn<'q>(&'q self, (turn_index, attempt): (u32, u32), state: &'q str) -> Statement<'q> {
        let end = sqlx::query(END_TURN).bind(self.key.run.as_str()).bind(turn_index).bind(attempt);
        end.bind(state)
    }

    async fn step(&self, conn: &mut SqliteConnection, step: &Step, id: &str) -> Result<()> {
        let persona = self.persona.as_str();
        let frame = StepFrame { key: &self.key, persona, epoch: self.epoch, now: &self.stamp };
        steps::insert(conn, &frame, step, id).await?;
        facts::step_recorded(conn, &self.key.run, step, self.clock.as_ref()).await
    }

    async fn mail(&self, conn: &mut SqliteConnection, mail: &NewOutbound) -> Result<()> {
        let elsewhere = match &mail.place {
            Some(place) => {
                Some(messages::place_message(conn, &self.persona, place, &mail.content, self.now).await?)
            }
            None => None,
        };
        let (delivery, withheld) = match &mail.fate {
            Fate::Withhold(rule) => (None, Some(*rule)),
            Fate::Send { delivery, reservation } => {
                if let Some(max) = reservation.mails_of_run_max {
                    sessions::room_for_mail(conn, (&self.key.run, &self.persona), max).await?;
                }
                let place = (&self.key.run, elsewhere.as_ref());
                let over = correspondence::reserve(conn, &self.persona, place, reservation, self.now);
                match over.await? {
                    None => (Some(delivery), None),
                    over => (None, over),
                }
            }
        };
        let disposition = withheld.map_or_else(|| "sent".to_owned(), |rule| format!("withheld:{rule}"));
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
            // Who is not sent to does not become a participant.
            joining: if delivery.is_some() { &mail.participants } else { &[] },
        };
        messages::insert_message(conn, &row, self.now).await?;
        match delivery {
            Some(delivery) => deliveries::insert(conn, delivery, self.now).await,
            None => {
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
        let finish =
            sqlx::query(FINISH_RUN).bind(self.key.run.as_str()).bind(self.epoch).bind(end.state.as_str());
        let finish = finish.bind(end.stop_reason.as_str()).bind(class).bind(message).bind(&self.stamp);
        fenced(finish.execute(&mut *conn).await?.rows_affected(), self.key.run.as_str())?;
        crate::crash::crash_point!("R10");
        match end.state {
            RunState::Failed => facts::run_failed(conn, self.key.run.as_str(), self.clock.as_ref()).await,
            _ => Ok(()),
        }
    }
}

type Statement<'q> = sqlx::query::Query<'q, sqlx::Sqlite, sqlx::sqlite::SqliteArguments>;

/// What a call used, and how long the run has worked.
fn charge(end: Statement<'_>, used: Usage, worked: Duration) -> Statement<'_> {
    let used = UsageRow::from(used);
    let end = end.bind(used.input).bind(used.cache_read).bind(used.cache_write).bind(used.output);
    end.bind(used.reasoning).bind(used.cost).bind(to_ms(worked))
}

/// Usage as SQLite integers.
pub(super) struct UsageRow {
    input: i64,
    cache_read: i64,
    cache_write: i64,
    output: i64,
    reasoning: i64,
    pub cost: Option<i64>,
}

impl UsageRow {
    /// All tokens, cached ones included.
    pub fn total(&self) -> i64 {
        self.input + self.cache_read + self.cache_write + self.output
    }

    /// A row of the ledger.
    pub fn ledger_line(&self, line: &UsageLine) -> serde_json::Value {
        serde_json::json!({
            "model": line.model, "input": self.input, "cache_read": self.cache_read, "cache_write": self.cache_write,
            "output": self.output, "reasoning": self.reasoning, "estimated": u8::from(line.estimated),
            "cost": self.cost, "source": line.source.as_str(), "version": line.price_version,
        })
    }
}

impl From<Usage> for UsageRow {
    fn from(usage: Usage) -> Self {
        // A provider may report nonsense; a trillion tokens is as good as any larger number, and sums stay sums.
        let clamp = |n: u64| i64::try_from(n.min(1_000_000_000_000)).unwrap_or(0);
        Self {
            input: clamp(usage.input_tokens),
            cache_read: clamp(usage.cache_read_tokens),
            cache_write: clamp(usage.cache_write_tokens),
            output: clamp(usage.output_tokens),
            reasoning: clamp(usage.reasoning_tokens),
            // A million dollars, likewise; a bill below zero would be money that nobody gave.
            cost: usage.cost_micros.map(|cost| cost.clamp(0, 1_000_000_000_000)),
        }
    }
}

/// What the journal of a run holds, for going on after a crash.
#[derive(Debug, Clone, Default)]
pub struct JournalSoFar {
    /// The normalised first request; `None` when no turn was started.
    pub first_request_json: Option<String>,
    /// Answered turns in order: index and normalised response.
    pub answers: Vec<(u32, String)>,
    /// Provider and model of the last of them.
    pub answered_by: Option<(String, String)>,
    /// Calls of providers that were begun.
    pub calls: u32,
    /// Highest attempt per started turn.
    pub attempts: Vec<(u32, u32)>,
    /// Steps in order.
    pub steps: Vec<Step>,
    /// Mails of this run so far.
    pub mails: u32,
    /// One of them answered the trigger.
    pub replied: bool,
}

pub(super) const JOURNAL_TURNS: &str = "
    SELECT turn_index, attempt, state, response_json, context_json, provider, model FROM run_turns
    WHERE run_id = $1 AND persona_id = $2 ORDER BY turn_index, attempt";
pub(super) const JOURNAL_STEPS: &str = "
    SELECT event_type, executor, tool_name, tool_call_id, payload_json FROM thread_tool_events
    WHERE run_id = $1 AND persona_id = $2 ORDER BY step_index";

impl PersonaStore {
    /// Reads the journal of a run.
    pub async fn journal_so_far(&self, run: &RunId) -> Result<JournalSoFar> {
        let mut so_far = JournalSoFar::default();
        let turns = sqlx::query(JOURNAL_TURNS).bind(run.as_str()).bind(self.persona.as_str());
        for row in turns.fetch_all(self.store.readers()).await? {
            let (index, attempt): (u32, u32) = (row.get(0), row.get(1));
            so_far.calls += 1;
            so_far.attempts.retain(|(turn, _)| *turn != index);
            so_far.attempts.push((index, attempt));
            if let Some(context) = row.get::<Option<String>, _>(4) {
                so_far.first_request_json = Some(context);
            }
            if row.get::<&str, _>(2) == "answered" {
                so_far.answers.push((index, row.get::<Option<String>, _>(3).unwrap_or_default()));
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

    /// The steps of a run, in order.
    pub async fn steps_of_run(&self, run: &RunId) -> Result<Vec<Step>> {
        let steps = sqlx::query(JOURNAL_STEPS).bind(run.as_str()).bind(self.persona.as_str());
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
