//! An operator's changes of a run: cancel it, queue it again, or start a run for a letter that was
//! filed.

use crate::clock::Clock;
use crate::domain::{ErrorClass, MessageId, PersonaId, RunId, ThreadId, Timestamp, Trigger};
use crate::store::approvals::sweep::end_open;
use crate::store::db::{Connection, Scope};
use crate::store::mail::audit_log::audit;
use crate::store::runs::queue::{self as runs, NewRun};
use crate::store::sql::persona_id;
use crate::store::{Result, Store, StoreError};

/// Result of a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancellation {
    /// The run had not begun or was waiting: it is cancelled now.
    Done,
    /// An engine works on the run and will stop at the next opportunity.
    Requested,
}

const RUN_STATE: &str = "SELECT state, persona_id FROM runs WHERE id = $1";
const CANCEL_WAITING_RUN: &str = "
    UPDATE runs SET state = 'cancelled', stop_reason = 'cancelled', error_class = 'cancelled',
      error_message = 'cancelled by the operator', cancel_requested_at = $2, finished_at = $2, next_attempt_at = NULL
    WHERE id = $1 AND state IN ('queued', 'waiting_retry', 'waiting_approval')";
const REQUEST_CANCEL: &str = "
    UPDATE runs SET cancel_requested_at = coalesce(cancel_requested_at, $2) WHERE id = $1 AND state = 'running'";
/// The attempts stay: a run that has a journal resumes from it, with all its worked time. Crashes
/// are counted anew.
const RETRY_RUN: &str = "
    UPDATE runs SET state = 'queued', stop_reason = NULL, error_class = NULL, error_message = NULL,
      cancel_requested_at = NULL, finished_at = NULL, next_attempt_at = NULL, worked_ms = 0,
      crashes = 0, state_at = $2
    WHERE id = $1 AND state IN ('failed', 'cancelled', 'waiting_retry')";
/// As [`RETRY_RUN`], for a run that may have been retried meanwhile.
const RETRY_FAILED_RUN: &str = "
    UPDATE runs SET state = 'queued', stop_reason = NULL, error_class = NULL, error_message = NULL,
      cancel_requested_at = NULL, finished_at = NULL, next_attempt_at = NULL, worked_ms = 0,
      crashes = 0, state_at = $2
    WHERE id = $1 AND state = 'failed'";
const FAILED_RUNS: &str = "
    SELECT id FROM runs WHERE state = 'failed' AND ($1 IS NULL OR error_class = $1)
      AND ($2 IS NULL OR persona_id = $2) AND ($3 IS NULL OR finished_at >= $3) ORDER BY seq LIMIT $4";

/// Filter of failed runs to retry together, because the cause of their failure is repaired.
#[derive(Debug, Clone, Default)]
pub struct FailedRuns {
    pub class: Option<ErrorClass>,
    pub persona: Option<PersonaId>,
    /// Failed at or after this instant.
    pub since: Option<Timestamp>,
}

/// Most runs of one call; further calls find more.
const FAILED_MAX: i64 = 10_000;

const FILED_MESSAGE: &str = "
    SELECT persona_id, thread_id, direction, disposition,
      (SELECT id FROM runs WHERE trigger_message_id = m.id AND trigger <> 'summary' ORDER BY seq DESC LIMIT 1) AS run
    FROM messages m WHERE id = $1";
const ANSWERED_AFTER_ALL: &str = "UPDATE messages SET disposition = 'run' WHERE id = $1";
/// The letter of a retried run is no longer held by a rule.
const RETRIED_AFTER_ALL: &str = "
    UPDATE messages SET disposition = 'run' WHERE direction = 'inbound'
      AND id = (SELECT trigger_message_id FROM runs WHERE id = $1)";

impl Store {
    /// Queues a run for a letter that a rule holds, at its owner's decision. The limits of
    /// automatic mail still apply.
    ///
    /// Errors: [`StoreError::Missing`]; [`StoreError::WrongState`] for a message that is no letter
    /// or has a run.
    pub async fn answer_message(&self, message: &MessageId) -> Result<RunId> {
        let (message, now) = (message.clone(), self.clock().now());
        let run = NewRun {
            id: RunId::new(self.clock().new_id()),
            trigger: Trigger::Email,
            profile: "thread".to_owned(),
            budget_micros: None,
            attempts_max: None,
            options: None,
        };
        transact!(self, Scope::of_message(&message), |conn| {
            let row = conn.maybe_row(FILED_MESSAGE, &message).await?;
            let missing = || StoreError::missing("message", &message);
            let row = row.ok_or_else(missing)?;
            let wrong = |state, hint| {
                Err(StoreError::WrongState {
                    kind: "message",
                    id: message.to_string(),
                    state,
                    hint,
                })
            };
            if row.get::<&str>("direction") != "inbound" {
                return wrong(row.get("direction"), "only letters can be answered");
            }
            if let Some(run) = row.get::<Option<String>>("run") {
                let hint = "`attache runs retry` queues a run that has ended once more";
                return wrong(format!("the letter of run {run}"), hint);
            }
            let persona = persona_id(&row)?;
            let thread: ThreadId = row.get("thread_id");
            runs::insert(conn, &run, &persona, &thread, &message, now).await?;
            conn.exec(ANSWERED_AFTER_ALL, &message).await?;
            audit(
                conn,
                Some(&persona),
                ("message", message.as_str()),
                "answer:operator",
                now,
            )
            .await?;
            Ok(run.id)
        })
        .await
    }

    /// Returns the failed runs that match, oldest first; at most ten thousand.
    pub async fn failed_runs(&self, which: &FailedRuns) -> Result<Vec<RunId>> {
        let ids: Vec<String> = self
            .all(
                FAILED_RUNS,
                (which.class, &which.persona, which.since, FAILED_MAX),
            )
            .await?;
        Ok(ids.into_iter().map(RunId::new).collect())
    }

    /// Queues these runs for now, all in one commit; runs that are no longer failed are left alone.
    /// Returns the number of queued runs.
    pub async fn retry_runs(&self, runs: Vec<RunId>) -> Result<usize> {
        let now = self.clock().now();
        transact!(self, Scope::Engine, |conn| {
            let mut queued = 0;
            for run in &runs {
                if conn.exec(RETRY_FAILED_RUN, (&run, now)).await? > 0 {
                    note(conn, run, "retry:operator", now).await?;
                    queued += 1;
                }
            }
            Ok(queued)
        })
        .await
    }

    /// Cancels a queued or waiting run, and asks the engine that works on a running one to stop it.
    ///
    /// Errors: [`StoreError::Missing`]; [`StoreError::WrongState`] when it has ended.
    pub async fn request_cancel(&self, run: &RunId) -> Result<Cancellation> {
        let (run, clock) = (run.clone(), self.clock().clone());
        transact!(self, Scope::of_run(&run), |conn| {
            if let Some(done) = cancel(conn, &run, "cancel:operator", clock.as_ref()).await? {
                return Ok(done);
            }
            Err(refused(conn, &run, "only runs that have not ended can be cancelled").await?)
        })
        .await
    }

    /// Queues a failed or cancelled run, or one that waits for its next attempt, for now.
    ///
    /// Errors: [`StoreError::Missing`], [`StoreError::WrongState`].
    pub async fn retry_run(&self, run: &RunId) -> Result<()> {
        let (run, now) = (run.clone(), self.clock().now());
        transact!(self, Scope::of_run(&run), |conn| {
            let change = conn.exec(RETRY_RUN, (&run, now)).await?;
            if change == 0 {
                let hint =
                    "only failed and cancelled runs, and runs waiting for a retry, can be retried";
                return Err(refused(conn, &run, hint).await?);
            }
            conn.exec(RETRIED_AFTER_ALL, &run).await?;
            note(conn, &run, "retry:operator", now).await
        })
        .await
    }
}

/// Cancels a run inside the caller's transaction; `decision` is noted in the audit log. `None`: it has ended.
pub async fn cancel(
    conn: &mut Connection,
    run: &RunId,
    decision: &str,
    clock: &dyn Clock,
) -> Result<Option<Cancellation>> {
    let now = clock.now();
    for (sql, outcome) in [
        (CANCEL_WAITING_RUN, Cancellation::Done),
        (REQUEST_CANCEL, Cancellation::Requested),
    ] {
        if conn.exec(sql, (run, now)).await? > 0 {
            end_open(conn, run.as_str(), "cancelled", clock).await?;
            note(conn, run, decision, now).await?;
            return Ok(Some(outcome));
        }
    }
    Ok(None)
}

async fn note(conn: &mut Connection, run: &RunId, decision: &str, now: Timestamp) -> Result<()> {
    let row = conn.row(RUN_STATE, run).await?;
    audit(
        conn,
        Some(&persona_id(&row)?),
        ("run", run.as_str()),
        decision,
        now,
    )
    .await
}

/// Returns the error for a change that touched no row.
async fn refused(conn: &mut Connection, run: &RunId, hint: &'static str) -> Result<StoreError> {
    let row = conn.maybe_row(RUN_STATE, run).await?;
    let id = run.to_string();
    Ok(match row {
        None => StoreError::Missing { kind: "run", id },
        Some(row) => StoreError::WrongState {
            kind: "run",
            id,
            state: row.get("state"),
            hint,
        },
    })
}
