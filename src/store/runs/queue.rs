//! Runs: queued with their trigger, claimed one at a time per thread, finished in one commit.

use crate::config::LetterRule;
use crate::domain::{
    ErrorClass, MessageId, PersonaId, RunId, RunState, StopReason, ThreadBudget, ThreadId,
    Timestamp, Trigger,
};
use crate::store::budgets::money;
use crate::store::db::{Connection, QueuedWork, Row, Scope, Sql};
use crate::store::journal::step::INTERRUPTED;
use crate::store::journal::steps::close_open_calls;
use crate::store::notices::events;
use crate::store::runs::fence::fenced;
use crate::store::schedules::run_options::letter_options_json;
use crate::store::sql::{from_json, to_i64, to_ms};
use crate::store::writes::piggyback::PiggybackClaim;
use crate::store::{Result, Store, StoreError};
use futures_util::future::BoxFuture;
use std::time::Duration;

/// Most queued runs of one persona that one claim examines; without a bound a claim would cost as
/// much as the backlog is long.
const CLAIM_CANDIDATES: usize = 256;

/// A run to queue.
#[derive(Debug, Clone)]
pub struct NewRun {
    pub id: RunId,
    pub trigger: Trigger,
    /// Context profile, a key of `configs/context.json`.
    pub profile: String,
    /// Micro-dollars that its responsibility allows it.
    pub budget_micros: Option<i64>,
    /// Attempts that its responsibility allows it; `None`: the configured number.
    pub attempts_max: Option<u32>,
    /// Options that a rule for letters gives it, or the program that asks.
    pub options: Option<Box<LetterRule>>,
}

impl NewRun {
    /// Returns its options as its row has them: JSON and the schema.
    pub(in crate::store) fn options_columns(&self) -> (Option<String>, Option<&str>) {
        let options = self.options.as_deref();
        let json = options.and_then(|of| letter_options_json(&of.run_options));
        (json, options.and_then(|of| of.output_schema.as_deref()))
    }
}

/// A run that this engine has claimed.
#[derive(Debug, Clone)]
pub struct ClaimedRun {
    pub id: RunId,
    pub persona: PersonaId,
    pub thread: ThreadId,
    pub trigger: Trigger,
    pub trigger_message: MessageId,
    pub profile: String,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// `true`: an earlier attempt committed at least its first request.
    pub has_journal: bool,
    /// Working time of earlier attempts.
    pub worked: Duration,
    pub created_at: Timestamp,
    /// `true`: an operator queued it again.
    pub is_retried: bool,
    /// `true`: since then a later letter of its thread was answered.
    pub is_overtaken: bool,
    /// Number of letters that it answers: its own, and those before it that nobody has answered.
    pub letters: u32,
    /// Micro-dollars that its responsibility allows it.
    pub budget_micros: Option<i64>,
    /// Attempts that its responsibility allows it; `None`: the configured number.
    pub attempts_max: Option<u32>,
    /// Budget that an operator set for its thread.
    pub thread_budget: ThreadBudget,
}

/// Failure of an attempt.
#[derive(Debug, Clone)]
pub struct RunFailure {
    pub class: ErrorClass,
    /// Message for the operator; no mail content.
    pub message: String,
    /// Instant of the retry; `None`: the run failed.
    pub retry_at: Option<Timestamp>,
    /// Working time of all its attempts.
    pub worked: Duration,
}

const INSERT_RUN: &str = "
    INSERT INTO runs (id, persona_id, thread_id, trigger, trigger_message_id, profile, state, created_at,
      budget_micros, attempts_max, run_options_json, output_schema)
    VALUES ($1, $2, $3, $4, $5, $6, 'queued', $7, $8, $9, $10, $11)";
/// One run at a time per thread, in order: `behind` says whether an earlier open run of the thread
/// exists. Of each persona with due runs the oldest are taken, first those of the persona with the
/// fewest running runs: the backlog of one persona delays no other. A run of a thread waits for
/// the command of an owner that is not carried out there: its history may begin with it. SQLite uses no index for a
/// bare column of the row that `RETURNING` returns. A parked run has an error
/// class; only a person's retry clears it (`run_control.rs`). PostgreSQL would look for the runs of
/// each persona in every row there is; it has `LATERAL` for it, and SQLite has not.
const CLAIM_RUNS: Sql = Sql::pair(
    "
    UPDATE runs SET state = 'running', epoch = $1, attempt = attempt + 1, next_attempt_at = NULL,
      started_at = coalesce(started_at, $2), state_at = $2, alone = $7
    WHERE seq IN (
      WITH RECURSIVE busy (id) AS (
        SELECT min(persona_id) FROM runs WHERE behind = 0 AND state IN ('queued', 'waiting_retry')
        UNION ALL
        SELECT (SELECT min(persona_id) FROM runs
          WHERE behind = 0 AND state IN ('queued', 'waiting_retry') AND persona_id > busy.id)
        FROM busy WHERE busy.id IS NOT NULL),
      ready (id, working, first) AS MATERIALIZED (
        SELECT busy.id, (SELECT count(*) FROM runs w WHERE w.persona_id = busy.id AND w.state = 'running'),
          (SELECT r.seq FROM runs r
           WHERE r.persona_id = busy.id AND r.behind = 0 AND r.state IN ('queued', 'waiting_retry')
             AND coalesce(r.next_attempt_at, '') <= $2 AND r.crashes BETWEEN $6 AND $8
           ORDER BY r.seq LIMIT 1)
        FROM busy WHERE busy.id IS NOT NULL AND busy.id NOT IN (SELECT value FROM jsonb_each($9))
          AND NOT EXISTS (SELECT 1 FROM halts h WHERE h.persona_id IN ('', busy.id))),
      next (id, working) AS MATERIALIZED (
        SELECT id, working FROM ready WHERE working < $4 AND first IS NOT NULL ORDER BY working, first LIMIT $3)
      SELECT seq FROM (
        SELECT c.seq, row_number() OVER (PARTITION BY next.id ORDER BY c.seq) + next.working AS place
        FROM next CROSS JOIN runs c
        WHERE c.seq IN (
          SELECT r.seq FROM runs r
          WHERE r.persona_id = next.id AND r.behind = 0 AND r.state IN ('queued', 'waiting_retry')
            AND coalesce(r.next_attempt_at, '') <= $2 AND r.crashes BETWEEN $6 AND $8
          ORDER BY r.seq LIMIT $5)) AS placed
      WHERE place <= $4 ORDER BY place, seq LIMIT $3)
      AND behind = 0 AND state IN ('queued', 'waiting_retry')
      AND NOT EXISTS (SELECT 1 FROM mail_commands k CROSS JOIN messages l
        WHERE k.answered_at IS NULL AND k.acted_at IS NULL AND l.id = k.message_id AND l.thread_id = runs.thread_id)
    RETURNING seq, id, persona_id, thread_id, trigger, trigger_message_id, profile, attempt, created_at, worked_ms,
      context_report_json IS NOT NULL AS has_journal,
      attempt > 1 AND error_class IS NULL AND crashes = 0 AS is_retried, letters, budget_micros, attempts_max,
      attempt > 1 AND error_class IS NULL AND crashes = 0 AND trigger = 'email' AND EXISTS (SELECT 1 FROM messages t CROSS JOIN messages l
        CROSS JOIN runs o WHERE t.id = CAST(runs.trigger_message_id AS TEXT) AND l.thread_id = t.thread_id AND l.seq > t.seq
          AND l.direction = 'inbound' AND o.trigger_message_id = l.id AND o.state = 'succeeded') AS is_overtaken,
      (SELECT '[' || json_quote(run_micros_max) || ',' || json_quote(run_tokens_max) || ','
        || json_quote(day_micros_max) || ',' || json_quote(day_tokens_max) || ']' FROM thread_budgets b
       WHERE b.thread_id = runs.thread_id) AS thread_budget",
    "
    UPDATE runs SET state = 'running', epoch = $1, attempt = attempt + 1, next_attempt_at = NULL,
      started_at = coalesce(started_at, $2), state_at = $2, alone = $7
    WHERE seq IN (
      WITH RECURSIVE busy (id) AS (
        SELECT min(persona_id) FROM runs WHERE behind = 0 AND state IN ('queued', 'waiting_retry')
        UNION ALL
        SELECT (SELECT min(persona_id) FROM runs
          WHERE behind = 0 AND state IN ('queued', 'waiting_retry') AND persona_id > busy.id)
        FROM busy WHERE busy.id IS NOT NULL),
      ready (id, working, first) AS MATERIALIZED (
        SELECT busy.id, (SELECT count(*) FROM runs w WHERE w.persona_id = busy.id AND w.state = 'running'),
          (SELECT r.seq FROM runs r
           WHERE r.persona_id = busy.id AND r.behind = 0 AND r.state IN ('queued', 'waiting_retry')
             AND coalesce(r.next_attempt_at, '') <= $2 AND r.crashes BETWEEN $6 AND $8
           ORDER BY r.seq LIMIT 1)
        FROM busy WHERE busy.id IS NOT NULL AND busy.id NOT IN (SELECT value FROM jsonb_each($9))
          AND NOT EXISTS (SELECT 1 FROM halts h WHERE h.persona_id IN ('', busy.id))),
      next (id, working) AS MATERIALIZED (
        SELECT id, working FROM ready WHERE working < $4 AND first IS NOT NULL ORDER BY working, first LIMIT $3)
      SELECT seq FROM (
        SELECT c.seq, row_number() OVER (PARTITION BY next.id ORDER BY c.seq) + next.working AS place
        FROM next CROSS JOIN LATERAL (
          SELECT r.seq FROM runs r
          WHERE r.persona_id = next.id AND r.behind = 0 AND r.state IN ('queued', 'waiting_retry')
            AND coalesce(r.next_attempt_at, '') <= $2 AND r.crashes BETWEEN $6 AND $8
          ORDER BY r.seq LIMIT $5) c) AS placed
      WHERE place <= $4 ORDER BY place, seq LIMIT $3)
      AND behind = 0 AND state IN ('queued', 'waiting_retry')
      AND NOT EXISTS (SELECT 1 FROM mail_commands k CROSS JOIN messages l
        WHERE k.answered_at IS NULL AND k.acted_at IS NULL AND l.id = k.message_id AND l.thread_id = runs.thread_id)
    RETURNING seq, id, persona_id, thread_id, trigger, trigger_message_id, profile, attempt, created_at, worked_ms,
      context_report_json IS NOT NULL AS has_journal,
      attempt > 1 AND error_class IS NULL AND crashes = 0 AS is_retried, letters, budget_micros, attempts_max,
      attempt > 1 AND error_class IS NULL AND crashes = 0 AND trigger = 'email' AND EXISTS (SELECT 1 FROM messages t CROSS JOIN messages l
        CROSS JOIN runs o WHERE t.id = CAST(runs.trigger_message_id AS TEXT) AND l.thread_id = t.thread_id AND l.seq > t.seq
          AND l.direction = 'inbound' AND o.trigger_message_id = l.id AND o.state = 'succeeded') AS is_overtaken,
      (SELECT '[' || json_quote(run_micros_max) || ',' || json_quote(run_tokens_max) || ','
        || json_quote(day_micros_max) || ',' || json_quote(day_tokens_max) || ']' FROM thread_budgets b
       WHERE b.thread_id = runs.thread_id) AS thread_budget",
);
/// Repeats the condition of the index `runs_ready`.
const IS_RUN_DUE: &str = "
    SELECT EXISTS (SELECT 1 FROM runs WHERE behind = 0 AND state IN ('queued', 'waiting_retry')
      AND coalesce(next_attempt_at, '') <= $1)";
/// Recomputes `behind`, on which [`CLAIM_RUNS`] depends, at every start.
pub const LINE_UP: &str = "
    UPDATE runs SET behind = CASE WHEN trigger <> 'summary' AND EXISTS (SELECT 1 FROM runs o
      WHERE o.thread_id = runs.thread_id AND o.seq < runs.seq AND o.trigger <> 'summary' AND o.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')) THEN 1 ELSE 0 END
    WHERE state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')";
/// The first condition is the one of the index `runs_open`, which SQLite uses only when it is
/// repeated.
const OPEN_RUNS: &str = "
    SELECT count(*) FROM runs WHERE state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')
      AND (state IN ('queued', 'running') OR (state = 'waiting_retry' AND next_attempt_at <= $1))";
/// Scans no more of the index of open runs than asked for.
const OPEN_RUNS_UP_TO: &str = "
    SELECT count(*) FROM (SELECT 1 FROM runs
      WHERE state IN ('queued', 'running', 'waiting_approval', 'waiting_retry') LIMIT $1) AS open";
const PARK_RUN: &str = "
    UPDATE runs SET state = 'waiting_retry', next_attempt_at = $3, error_class = $4, error_message = $5, worked_ms = $6,
      crashes = 0, state_at = $7
    WHERE id = $1 AND epoch = $2 AND state = 'running'";
const FAIL_RUN: &str = "
    UPDATE runs SET state = $3, stop_reason = $4, error_class = $5, error_message = $6, finished_at = $7,
      worked_ms = $8
    WHERE id = $1 AND epoch = $2 AND state = 'running'";
const REQUEUE_RUN: &str = "
    UPDATE runs SET state = 'queued', attempt = attempt - 1, worked_ms = $3, crashes = min(crashes, 1), crashed_at = -1,
      state_at = $4
    WHERE id = $1 AND epoch = $2 AND state = 'running'";
const RUNNING_RUN: &str = "
    SELECT id, persona_id, thread_id, trigger, trigger_message_id, profile, attempt, created_at, state, worked_ms,
      context_report_json IS NOT NULL AS has_journal, epoch = $2 AND state = 'running' AS is_worked_on, 0 AS is_retried,
      0 AS is_overtaken, letters,
      budget_micros, attempts_max,
      (SELECT '[' || json_quote(run_micros_max) || ',' || json_quote(run_tokens_max) || ','
        || json_quote(day_micros_max) || ',' || json_quote(day_tokens_max) || ']' FROM thread_budgets b
       WHERE b.thread_id = runs.thread_id) AS thread_budget
    FROM runs WHERE id = $1";
const CANCEL_REQUESTED: &str = "
    SELECT id FROM runs WHERE state = 'running' AND cancel_requested_at IS NOT NULL";

/// Queues a run inside the caller's transaction.
pub async fn insert(
    conn: &mut Connection,
    run: &NewRun,
    persona: &PersonaId,
    thread: &ThreadId,
    message: &MessageId,
    now: Timestamp,
) -> Result<()> {
    let (options, schema) = run.options_columns();
    conn.exec(
        INSERT_RUN,
        (
            &run.id,
            persona,
            thread,
            &run.trigger,
            message,
            &run.profile,
            now,
            run.budget_micros,
            run.attempts_max,
            options,
            schema,
        ),
    )
    .await?;
    conn.note_queued(QueuedWork::Run);
    Ok(())
}

impl Store {
    /// Counts the runs that have not ended, up to `most`.
    pub async fn open_runs_up_to(&self, most: usize) -> Result<usize> {
        let count: i64 = self.one(OPEN_RUNS_UP_TO, most).await?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// Claims up to `limit` runs that are due and free, oldest first, at most `per_persona_max`
    /// running per persona.
    pub async fn claim_runs(
        &self,
        limit: usize,
        per_persona_max: usize,
    ) -> Result<Vec<ClaimedRun>> {
        self.claim_runs_except(limit, per_persona_max, &[]).await
    }

    /// Claims runs like [`Store::claim_runs`], without those of some personas: they stay as they
    /// are.
    pub async fn claim_runs_except(
        &self,
        limit: usize,
        per_persona_max: usize,
        personas: &[&str],
    ) -> Result<Vec<ClaimedRun>> {
        let claim = self.run_claim(limit, per_persona_max, personas);
        // It counts what runs, of every persona.
        self.write(Scope::Claims, claim).await
    }

    /// Has runs claimed by the next transaction that queues one. `None` where each claim is a transaction of its own.
    pub fn claim_queued_runs(
        &self,
        limit: usize,
        per_persona_max: usize,
        personas: &[&str],
    ) -> Option<PiggybackClaim<ClaimedRun>> {
        let claim = self.run_claim(limit, per_persona_max, personas);
        self.piggyback(QueuedWork::Run, claim)
    }

    /// Reports whether a run is due that waits for no other of its thread.
    pub async fn is_run_due(&self) -> Result<bool> {
        let now = self.clock().now().to_string();
        self.one(IS_RUN_DUE, now).await
    }

    /// Claims runs on a connection inside a transaction.
    fn run_claim(
        &self,
        limit: usize,
        per_persona_max: usize,
        personas: &[&str],
    ) -> impl for<'c> FnOnce(&'c mut Connection) -> BoxFuture<'c, Result<Vec<ClaimedRun>>> + Send + 'static
    {
        let except = serde_json::json!(personas).to_string();
        let (epoch, clock) = (self.epoch(), self.clock().clone());
        let poison_runs = self.poison_runs().clone();
        move |conn: &mut Connection| {
            Box::pin(async move {
                let (now, monotonic) = (clock.now().to_string(), clock.monotonic());
                let turn = poison_runs.turn(conn, epoch, monotonic).await?;
                let Some(allowed) = turn.allows(limit) else {
                    return Ok(Vec::new());
                };
                let mut rows = conn
                    .rows(
                        CLAIM_RUNS,
                        (
                            epoch,
                            now,
                            allowed.runs_max,
                            per_persona_max,
                            to_i64(per_persona_max.min(CLAIM_CANDIDATES)),
                            allowed.crashes_min,
                            allowed.alone,
                            allowed.crashes_max,
                            except,
                        ),
                    )
                    .await?;
                if rows.is_empty() && allowed.crashes_min > 0 {
                    poison_runs.nobody_came(monotonic);
                }
                rows.sort_by_key(|row| row.get::<i64>("seq"));
                rows.iter().map(Row::to).collect()
            })
        }
    }

    /// Counts the runs that are running or due.
    pub async fn count_open_runs(&self) -> Result<u64> {
        let now = self.clock().now().to_string();
        let count: i64 = self.one(OPEN_RUNS, now).await?;
        Ok(count.unsigned_abs())
    }

    /// Ends a claimed run without an answer: parked when a retry time is given, failed or cancelled
    /// otherwise.
    pub async fn fail_run(&self, run: &RunId, failure: RunFailure) -> Result<()> {
        let (epoch, clock, id) = (self.epoch(), self.clock().clone(), run.as_str().to_owned());
        let now = clock.now().to_string();
        transact!(self, Scope::of_run(run), |conn| {
            let (class, worked) = (failure.class.as_str(), to_ms(failure.worked));
            let changed = match failure.retry_at {
                Some(at) => {
                    conn.exec(
                        PARK_RUN,
                        (&id, epoch, at, class, &failure.message, worked, &now),
                    )
                    .await?
                }
                None => {
                    let (state, stop) = match failure.class {
                        ErrorClass::Cancelled => (RunState::Cancelled, StopReason::Cancelled),
                        _ => (RunState::Failed, StopReason::Failed),
                    };

                    conn.exec(
                        FAIL_RUN,
                        (
                            &id,
                            epoch,
                            &state,
                            &stop,
                            class,
                            &failure.message,
                            &now,
                            worked,
                        ),
                    )
                    .await?
                }
            };
            fenced(changed, &id)?;
            money::leave(conn, &id, &now).await?;
            close_open_calls(conn, &id, INTERRUPTED, clock.as_ref()).await?;
            events::run_failed(conn, &id, clock.as_ref()).await
        })
        .await
    }

    /// Requeues a claimed run unchanged, for a shutdown; `worked` is the working time of all its
    /// attempts.
    pub async fn requeue_run(&self, run: &RunId, worked: Duration) -> Result<()> {
        let (epoch, clock, id) = (self.epoch(), self.clock().clone(), run.as_str().to_owned());
        transact!(self, Scope::of_run(run), |conn| {
            let now = clock.now().to_string();
            let changed = conn.exec(REQUEUE_RUN, (&id, epoch, worked, &now)).await?;
            fenced(changed, &id)?;
            money::leave(conn, &id, &now).await?;
            close_open_calls(conn, &id, INTERRUPTED, clock.as_ref())
                .await
                .map(|_closed| ())
        })
        .await
    }

    /// Returns a run that the current engine works on, for a store that was opened while that
    /// engine runs.
    ///
    /// Errors: [`StoreError::Missing`]; [`StoreError::WrongState`] when no engine works on it, or
    /// one that is gone.
    pub async fn running_run(&self, id: &RunId) -> Result<ClaimedRun> {
        let row = self.maybe_row(RUNNING_RUN, (id, self.epoch())).await?;
        let id = id.to_string();
        match row {
            None => Err(StoreError::Missing { kind: "run", id }),
            Some(row) if row.get("is_worked_on") => row.to(),
            Some(row) => Err(StoreError::WrongState {
                kind: "run",
                id,
                state: row.get("state"),
                hint: "tools are offered only while the engine works on it",
            }),
        }
    }

    /// Returns the running runs whose cancellation was requested, by this or another process.
    pub async fn cancel_requests(&self) -> Result<Vec<RunId>> {
        let ids: Vec<String> = self.all(CANCEL_REQUESTED, ()).await?;
        Ok(ids.into_iter().map(RunId::new).collect())
    }
}

from_row!(|row| ClaimedRun {
    is_retried,
    is_overtaken,
    letters,
    budget_micros,
    attempts_max,
    thread_budget: {
        let allowed: Option<&str> = row.get("thread_budget");
        let allowed = allowed.map(|json| from_json(json, "budget of a thread"));
        allowed
            .transpose()?
            .map_or_else(ThreadBudget::default, money::thread_budget)
    },
    id,
    persona: "persona_id",
    thread: "thread_id",
    trigger,
    trigger_message: "trigger_message_id",
    profile,
    attempt,
    has_journal,
    worked: "worked_ms",
    created_at
});
