//! Purses: what a call may cost is set aside in the transaction that commits the call, and settled in the one that
//! commits its answer. Whatever happens in between, nothing is spent twice and nothing is forgotten.
//!
//! A purse is a row of sums, so asking it costs the same after a million calls. A call that never comes back keeps what was
//! set aside for it: the provider may bill it.

use super::notices::{NewNotice, raise};
use super::runs::{fenced, to_ms};
use super::turns::{Statement, UsageRow};
use super::{Result, Store, StoreError};
use crate::domain::{
    Allowance, NoticeId, NoticeKind, NoticeSubject, PersonaId, Purse, PurseId, PurseScope, PurseState, RunId,
    ThreadBudget, ThreadId, Timestamp, UsageLine,
};
use serde_json::{Value, json};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};
use std::time::Duration;

/// What a call may cost at most, and the purses that must be able to pay it.
#[derive(Debug, Clone)]
pub struct Advance {
    /// Micro-dollars; 0 where no bound is on money and the price is not known.
    pub micros: i64,
    pub tokens: i64,
    /// The first is the engine's of the day.
    pub purses: Vec<Purse>,
    /// Micro-dollars that must be left in a run's own purse afterwards, for its last words.
    pub left_in_run: i64,
    /// The same for the other purses.
    pub left_elsewhere: i64,
}

/// Why a call could not be begun: this purse cannot pay it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the {} budget of {} cannot pay the next call", purse.span(), purse.whose())]
pub struct EmptyPurse {
    pub purse: PurseId,
    /// Without this call.
    pub state: PurseState,
    pub cost_micros_max: Option<i64>,
    pub tokens_max: Option<i64>,
    /// What the call may cost at most.
    pub micros: i64,
    pub tokens: i64,
    /// It could pay as soon as other calls give back what they do not use.
    pub held_by_others: bool,
}

/// Whether a call that failed may be billed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Billing {
    /// It never reached the provider, or was turned away by it.
    None,
    /// Nobody knows: what was set aside counts as spent.
    Unknown,
}

/// Raises first and looks then; whoever gets a row rolls back. A row says which purse is overdrawn, one that is so even
/// without the calls of others first. A purse without an owner is that of the thread in which the run stands now; its
/// thread of before may have been folded into it.
pub(super) const RESERVE: &str = "
    INSERT INTO purses (scope, owner, period, reserved_micros, reserved_tokens)
      SELECT value ->> 'scope', coalesce(value ->> 'owner', (SELECT thread_id FROM runs WHERE id = $1)),
        value ->> 'period', $6, $7 FROM json_each($4) WHERE true
      ON CONFLICT DO UPDATE SET reserved_micros = reserved_micros + excluded.reserved_micros,
        reserved_tokens = reserved_tokens + excluded.reserved_tokens;
    INSERT INTO purse_reservations (run_id, turn_index, attempt, purses_json, day, micros, tokens)
      SELECT $1, $2, $3, (SELECT json_group_array(json_set(value, '$.owner',
        coalesce(value ->> 'owner', (SELECT thread_id FROM runs WHERE id = $1)))) FROM json_each($4)), $5, $6, $7;
    SELECT p.scope, p.owner, p.period, p.spent_micros, p.reserved_micros - $6 AS reserved_micros, p.spent_tokens,
      p.reserved_tokens - $7 AS reserved_tokens, w.value ->> 'micros' AS micros_max, w.value ->> 'tokens' AS tokens_max,
      coalesce(p.spent_micros + $6 + (w.value ->> 'left') <= w.value ->> 'micros', 1)
        AND coalesce(p.spent_tokens + $7 <= w.value ->> 'tokens', 1) AS held
    FROM json_each($4) w JOIN purses p
      ON p.scope = w.value ->> 'scope' AND p.period = w.value ->> 'period'
        AND p.owner = coalesce(w.value ->> 'owner', (SELECT thread_id FROM runs WHERE id = $1))
    WHERE p.spent_micros + p.reserved_micros + (w.value ->> 'left') > w.value ->> 'micros'
      OR p.spent_tokens + p.reserved_tokens > w.value ->> 'tokens'
    ORDER BY held LIMIT 1";
/// The ledger's rows of an answered call, and the purses: `$5` is what it cost, or NULL to keep what was set aside.
pub(super) const SETTLE: &str = "
    INSERT INTO usage_ledger (run_id, turn_index, attempt, model, persona_id, provider, state, input_tokens,
      cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens, estimated, cost_micros, cost_source,
      price_version, held_micros, day, created_at)
    SELECT t.run_id, t.turn_index, t.attempt, l.value ->> 'model', t.persona_id, t.provider, 'answered',
      l.value ->> 'input', l.value ->> 'cache_read', l.value ->> 'cache_write', l.value ->> 'output',
      l.value ->> 'reasoning', l.value ->> 'estimated', l.value ->> 'cost', l.value ->> 'source', l.value ->> 'version',
      CASE WHEN l.value ->> 'cost' IS NULL THEN h.micros END, coalesce(h.day, substr($7, 1, 10)), $7
    FROM json_each($4) l, run_turns t
    LEFT JOIN purse_reservations h ON h.run_id = $1 AND h.turn_index = $2 AND h.attempt = $3
    WHERE t.run_id = $1 AND t.turn_index = $2 AND t.attempt = $3;
    UPDATE purses SET reserved_micros = reserved_micros - w.micros, reserved_tokens = reserved_tokens - w.tokens,
      spent_micros = spent_micros + coalesce($5, w.micros), spent_tokens = spent_tokens + $6
    FROM (SELECT h.micros, h.tokens, p.value ->> 'scope' AS scope, p.value ->> 'owner' AS owner,
            p.value ->> 'period' AS period FROM purse_reservations h, json_each(h.purses_json) p
          WHERE h.run_id = $1 AND h.turn_index = $2 AND h.attempt = $3) w
    WHERE purses.scope = w.scope AND purses.owner = w.owner AND purses.period = w.period;
    DELETE FROM purse_reservations WHERE run_id = $1 AND turn_index = $2 AND attempt = $3";
/// A call that failed: `$4` is 1 when it may be billed all the same.
pub(super) const LOSE: &str = "
    INSERT INTO usage_ledger (run_id, turn_index, attempt, model, persona_id, provider, state, input_tokens,
      cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens, estimated, cost_source, held_micros, day,
      created_at)
    SELECT t.run_id, t.turn_index, t.attempt, t.model, t.persona_id, t.provider, 'lost', 0, 0, 0, 0, 0, 0, 'unknown',
      h.micros, coalesce(h.day, substr($5, 1, 10)), $5
    FROM run_turns t
    LEFT JOIN purse_reservations h ON h.run_id = $1 AND h.turn_index = $2 AND h.attempt = $3
    WHERE t.run_id = $1 AND t.turn_index = $2 AND t.attempt = $3 AND $4;
    UPDATE purses SET reserved_micros = reserved_micros - w.micros, reserved_tokens = reserved_tokens - w.tokens,
      spent_micros = spent_micros + w.micros * $4, spent_tokens = spent_tokens + w.tokens * $4
    FROM (SELECT h.micros, h.tokens, p.value ->> 'scope' AS scope, p.value ->> 'owner' AS owner,
            p.value ->> 'period' AS period FROM purse_reservations h, json_each(h.purses_json) p
          WHERE h.run_id = $1 AND h.turn_index = $2 AND h.attempt = $3) w
    WHERE purses.scope = w.scope AND purses.owner = w.owner AND purses.period = w.period;
    DELETE FROM purse_reservations WHERE run_id = $1 AND turn_index = $2 AND attempt = $3";
pub(super) const OPEN_CALLS: &str = "SELECT run_id, turn_index, attempt FROM purse_reservations";
pub(super) const OPEN_CALLS_OF_RUN: &str = "
    SELECT turn_index, attempt FROM purse_reservations WHERE run_id = $1";
/// Runs that wait for a purse are looked at once by every engine that starts: its bounds may be others. The first condition is
/// the one of the index `runs_open`.
pub(super) const WAKE_WAITING: &str = "
    UPDATE runs SET next_attempt_at = NULL
    WHERE state IN ('queued', 'running', 'waiting_approval', 'waiting_retry') AND state = 'waiting_retry'
      AND error_class = 'budget'";
pub(super) const WAKE_WAITING_OF_THREAD: &str = "
    UPDATE runs SET next_attempt_at = NULL
    WHERE thread_id = $1 AND state = 'waiting_retry' AND error_class = 'budget'";
/// Waiting for money is no failure: the attempt does not count.
pub(super) const PARK_FOR_MONEY: &str = "
    UPDATE runs SET state = 'waiting_retry', attempt = max(attempt - 1, 0), next_attempt_at = $3,
      error_class = 'budget', error_message = $4, worked_ms = $5
    WHERE id = $1 AND epoch = $2 AND state = 'running'";
pub(super) const SET_THREAD_BUDGET: &str = "
    INSERT INTO thread_budgets (thread_id, run_micros_max, run_tokens_max, day_micros_max, day_tokens_max)
    VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO UPDATE SET run_micros_max = $2, run_tokens_max = $3,
      day_micros_max = $4, day_tokens_max = $5";
pub(super) const CLEAR_THREAD_BUDGET: &str = "DELETE FROM thread_budgets WHERE thread_id = $1";
pub(super) const THREAD_BUDGET: &str = "
    SELECT run_micros_max, run_tokens_max, day_micros_max, day_tokens_max FROM thread_budgets WHERE thread_id = $1";
/// Of two budgets the tighter holds, and what both threads spent counts; calls in flight settle with the thread that stays.
pub(super) const FOLD_MONEY: &str = "
    INSERT INTO thread_budgets (thread_id, run_micros_max, run_tokens_max, day_micros_max, day_tokens_max)
      SELECT $2, run_micros_max, run_tokens_max, day_micros_max, day_tokens_max FROM thread_budgets
      WHERE thread_id = $1
      ON CONFLICT DO UPDATE SET
        run_micros_max = min(coalesce(run_micros_max, excluded.run_micros_max),
          coalesce(excluded.run_micros_max, run_micros_max)),
        run_tokens_max = min(coalesce(run_tokens_max, excluded.run_tokens_max),
          coalesce(excluded.run_tokens_max, run_tokens_max)),
        day_micros_max = min(coalesce(day_micros_max, excluded.day_micros_max),
          coalesce(excluded.day_micros_max, day_micros_max)),
        day_tokens_max = min(coalesce(day_tokens_max, excluded.day_tokens_max),
          coalesce(excluded.day_tokens_max, day_tokens_max));
    DELETE FROM thread_budgets WHERE thread_id = $1;
    INSERT INTO purses (scope, owner, period, spent_micros, reserved_micros, spent_tokens, reserved_tokens)
      SELECT scope, $2, period, spent_micros, reserved_micros, spent_tokens, reserved_tokens FROM purses
      WHERE scope = 'thread' AND owner = $1
      ON CONFLICT DO UPDATE SET spent_micros = spent_micros + excluded.spent_micros,
        reserved_micros = reserved_micros + excluded.reserved_micros,
        spent_tokens = spent_tokens + excluded.spent_tokens,
        reserved_tokens = reserved_tokens + excluded.reserved_tokens;
    DELETE FROM purses WHERE scope = 'thread' AND owner = $1;
    UPDATE purse_reservations SET purses_json = replace(purses_json, json_quote($1), json_quote($2))
    WHERE instr(purses_json, json_quote($1)) > 0";
pub(super) const PURSE: &str = "
    SELECT spent_micros, reserved_micros, spent_tokens, reserved_tokens FROM purses
    WHERE scope = $1 AND owner = $2 AND period = $3";

/// Binds the parameters of [`RESERVE`].
pub(super) fn with_advance<'q>(
    reserve: Statement<'q>,
    (run, turn_index, attempt): (&'q str, u32, u32),
    advance: &Advance,
) -> Statement<'q> {
    let purses = advance.purses.iter().map(|purse| {
        let owner = (purse.id.scope != PurseScope::Thread).then_some(&purse.id.owner);
        let left =
            if purse.id.scope == PurseScope::Run { advance.left_in_run } else { advance.left_elsewhere };
        json!({
            "scope": purse.id.scope.as_str(), "owner": owner, "period": purse.id.period, "left": left,
            "micros": purse.cost_micros_max.map(|bound| bound.value),
            "tokens": purse.tokens_max.map(|bound| bound.value),
        })
    });
    let day = advance.purses.first().map(|purse| purse.id.period.clone()).unwrap_or_default();
    let reserve = reserve.bind(run).bind(turn_index).bind(attempt);
    let reserve = reserve.bind(Value::from_iter(purses).to_string()).bind(day);
    reserve.bind(advance.micros).bind(advance.tokens)
}

/// Sets aside what a call may cost, inside the transaction that begins it. Errors: [`StoreError::EmptyPurse`], and then
/// the whole transaction must go.
pub(super) async fn reserve(
    conn: &mut SqliteConnection,
    (run, turn_index, attempt): (&RunId, u32, u32),
    advance: &Advance,
) -> Result<()> {
    let reserve = with_advance(sqlx::query(RESERVE), (run.as_str(), turn_index, attempt), advance);
    is_paid(reserve.fetch_optional(conn).await?.as_ref(), advance)
}

/// Refuses a call for which [`RESERVE`] gave a row; the whole transaction must go.
///
/// Errors: [`StoreError::EmptyPurse`].
pub(super) fn is_paid(overdrawn: Option<&SqliteRow>, advance: &Advance) -> Result<()> {
    match overdrawn {
        None => Ok(()),
        Some(row) => Err(StoreError::EmptyPurse(Box::new(empty_purse(row, advance)?))),
    }
}

fn empty_purse(row: &SqliteRow, advance: &Advance) -> Result<EmptyPurse> {
    let unreadable = || StoreError::Unreadable { what: "scope of a purse" };
    Ok(EmptyPurse {
        purse: PurseId {
            scope: PurseScope::parse(row.get("scope")).ok_or_else(unreadable)?,
            owner: row.get("owner"),
            period: row.get("period"),
        },
        state: state(row),
        cost_micros_max: row.get("micros_max"),
        tokens_max: row.get("tokens_max"),
        micros: advance.micros,
        tokens: advance.tokens,
        held_by_others: row.get("held"),
    })
}

fn state(row: &SqliteRow) -> PurseState {
    PurseState {
        spent_micros: row.get("spent_micros"),
        reserved_micros: row.get("reserved_micros"),
        spent_tokens: row.get("spent_tokens"),
        reserved_tokens: row.get("reserved_tokens"),
    }
}

/// Binds the parameters of [`SETTLE`]: a row for each model, and the purses.
pub(super) fn with_lines<'q>(
    settle: Statement<'q>,
    (run, turn_index, attempt): (&'q str, u32, u32),
    lines: &[UsageLine],
    now: &'q str,
) -> Statement<'q> {
    let rows: Vec<(&UsageLine, UsageRow)> =
        lines.iter().map(|line| (line, UsageRow::from(line.usage))).collect();
    let tokens: i64 = rows.iter().map(|(_, row)| row.total()).sum();
    // One model without a price, and nobody knows what the call cost.
    let cost: Option<i64> = rows.iter().map(|(_, row)| row.cost).sum();
    let ledger = Value::from_iter(rows.iter().map(|(line, row)| row.ledger_line(line)));
    let settle = settle.bind(run).bind(turn_index).bind(attempt);
    settle.bind(ledger.to_string()).bind(cost).bind(tokens).bind(now)
}

/// Books an answered call.
pub(super) async fn settle(
    conn: &mut SqliteConnection,
    (run, turn_index, attempt): (&RunId, u32, u32),
    lines: &[UsageLine],
    now: &str,
) -> Result<()> {
    let settle = with_lines(sqlx::query(SETTLE), (run.as_str(), turn_index, attempt), lines, now);
    settle.execute(conn).await?;
    Ok(())
}

/// Books a call that failed.
pub(super) async fn lose(
    conn: &mut SqliteConnection,
    (run, turn_index, attempt): (&str, u32, u32),
    billing: Billing,
    now: &str,
) -> Result<()> {
    let lose = sqlx::query(LOSE).bind(run).bind(turn_index).bind(attempt);
    lose.bind(i64::from(billing == Billing::Unknown)).bind(now).execute(conn).await?;
    Ok(())
}

/// Books the calls that a run leaves behind: its engine could not store how they ended, or was stopped.
pub(super) async fn leave(conn: &mut SqliteConnection, run: &str, now: &str) -> Result<()> {
    for row in sqlx::query(OPEN_CALLS_OF_RUN).bind(run).fetch_all(&mut *conn).await? {
        lose(conn, (run, row.get(0), row.get(1)), Billing::Unknown, now).await?;
    }
    Ok(())
}

/// Books every call of an engine that is gone as spent, and lets runs that wait for money look again.
pub(super) async fn recover(conn: &mut SqliteConnection, now: &str) -> Result<()> {
    for row in sqlx::query(OPEN_CALLS).fetch_all(&mut *conn).await? {
        let (run, turn_index, attempt): (String, u32, u32) = (row.get(0), row.get(1), row.get(2));
        lose(conn, (&run, turn_index, attempt), Billing::Unknown, now).await?;
    }
    sqlx::query(WAKE_WAITING).execute(conn).await?;
    Ok(())
}

impl Store {
    /// Parks a claimed run until a purse can pay again, and tells the owner, in one commit.
    ///
    /// Errors: [`StoreError::WrongState`] when the run is no longer this engine's.
    pub async fn wait_for_purse(
        &self,
        run: &RunId,
        empty: &EmptyPurse,
        (until, worked): (Timestamp, Duration),
        notice: Option<NewNotice>,
    ) -> Result<()> {
        let (epoch, id, now) = (self.epoch(), run.as_str().to_owned(), self.clock().now());
        let message = empty.to_string();
        self.write(move |conn| {
            Box::pin(async move {
                let park = sqlx::query(PARK_FOR_MONEY).bind(&id).bind(epoch).bind(until.to_string());
                let parked = park.bind(message).bind(to_ms(worked)).execute(&mut *conn).await?;
                fenced(parked.rows_affected(), &id)?;
                leave(conn, &id, &now.to_string()).await?;
                if let Some(notice) = &notice {
                    raise(conn, notice, now).await?;
                }
                Ok(())
            })
        })
        .await
    }

    /// What a purse holds now.
    pub async fn purse(&self, purse: &PurseId) -> Result<PurseState> {
        let row = sqlx::query(PURSE).bind(purse.scope.as_str()).bind(&purse.owner).bind(&purse.period);
        let row = row.fetch_optional(self.readers()).await?;
        Ok(row.as_ref().map(state).unwrap_or_default())
    }

    /// What an operator allows a thread.
    pub async fn thread_budget(&self, thread: &ThreadId) -> Result<ThreadBudget> {
        let row = sqlx::query(THREAD_BUDGET).bind(thread.as_str()).fetch_optional(self.readers()).await?;
        Ok(row.map_or_else(ThreadBudget::default, |row| {
            thread_budget([row.get(0), row.get(1), row.get(2), row.get(3)])
        }))
    }

    /// Sets what a thread may cost, or takes it back; its runs that wait for money look again.
    pub async fn set_thread_budget(&self, thread: &ThreadId, budget: Option<ThreadBudget>) -> Result<()> {
        let thread = thread.clone();
        self.write(move |conn| {
            Box::pin(async move {
                let set = match budget {
                    None => sqlx::query(CLEAR_THREAD_BUDGET).bind(thread.as_str()),
                    Some(ThreadBudget { run, day }) => sqlx::query(SET_THREAD_BUDGET)
                        .bind(thread.as_str())
                        .bind(run.cost_micros_max)
                        .bind(run.tokens_max)
                        .bind(day.cost_micros_max)
                        .bind(day.tokens_max),
                };
                set.execute(&mut *conn).await?;
                sqlx::query(WAKE_WAITING_OF_THREAD).bind(thread.as_str()).execute(conn).await?;
                Ok(())
            })
        })
        .await
    }
}

/// The columns of `thread_budgets`, in their order.
pub(super) fn thread_budget(
    [run_micros, run_tokens, day_micros, day_tokens]: [Option<i64>; 4],
) -> ThreadBudget {
    ThreadBudget {
        run: Allowance { cost_micros_max: run_micros, tokens_max: run_tokens },
        day: Allowance { cost_micros_max: day_micros, tokens_max: day_tokens },
    }
}

/// The fact that a purse is empty: one for each purse and period.
pub fn budget_reached(
    id: NoticeId,
    persona: &PersonaId,
    empty: &EmptyPurse,
    (summary, hint): (String, String),
) -> NewNotice {
    let purse = &empty.purse;
    let detail = match purse.scope {
        PurseScope::Thread => format!("thread-{}-{}", purse.span(), purse.owner),
        scope => format!("{scope}-{}", purse.span()),
    };
    NewNotice {
        id,
        persona: (purse.scope != PurseScope::Engine).then(|| persona.clone()),
        kind: NoticeKind::BudgetReached,
        detail,
        subject: NoticeSubject::Budget,
        subject_id: format!("{} for the {} {}", purse.whose(), purse.span(), purse.period),
        occurrence: purse.period.clone(),
        summary,
        hint,
    }
}
