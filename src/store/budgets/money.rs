//! Budget accounts: the maximum cost of a call is reserved in the transaction that commits the
//! call, and settled in the transaction that commits its answer. Whatever happens in between, no
//! amount is spent twice or lost.
//!
//! A budget account is a row of sums, so a query costs the same after a million calls. A call that
//! never comes back keeps its reservation: the provider may bill it.

use crate::domain::{
    Allowance, BudgetAccount, BudgetAccountId, BudgetBalance, BudgetScope, ThreadBudget, ThreadId,
    UsageLine,
};
use crate::store::budgets::engine_parts::{ENGINE_ACCOUNT, owners, part_of};
use crate::store::budgets::usage_row::UsageRow;
use crate::store::db::{ArgumentList, Connection, Row, Scope, Sql};
use crate::store::postgres::lock::ACCOUNTS_OF_CALL;
use crate::store::{Result, Store, StoreError};
use serde_json::{Value, json};
use std::sync::LazyLock;

/// Maximum cost of a call, and the budget_accounts that must be able to pay it.
#[derive(Debug, Clone)]
pub struct CallReservation {
    /// Maximum cost in micro-dollars; 0 where no bound is on money and the price is not known.
    pub micros: i64,
    pub tokens: i64,
    /// Accounts to charge; the first is the engine's of the day.
    pub accounts: Vec<BudgetAccount>,
    /// Micro-dollars that must be left in a run's own budget account afterwards, for its final
    /// turn.
    pub left_in_run: i64,
    /// Micro-dollars that must be left in each of the other budget_accounts.
    pub left_elsewhere: i64,
}

impl CallReservation {
    /// Returns its day, in the zone of the budgets.
    pub fn day(&self) -> String {
        let first = self.accounts.first();
        first.map_or_else(String::new, |first| first.id.period.clone())
    }
}

/// Error: this budget account cannot pay for the next call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the {} budget of {} cannot pay the next call", account.span(), account.whose())]
pub struct BudgetExhausted {
    pub account: BudgetAccountId,
    /// Balance without this call.
    pub state: BudgetBalance,
    pub cost_micros_max: Option<i64>,
    pub tokens_max: Option<i64>,
    /// Maximum cost of the call, in micro-dollars.
    pub micros: i64,
    pub tokens: i64,
    /// `true`: the account could pay once other calls release the unused part of their
    /// reservations.
    pub held_by_others: bool,
}

impl BudgetExhausted {
    /// Reports whether it is a part of the engine's account that cannot pay; the whole account may.
    pub(in crate::store) fn is_of_part(&self) -> bool {
        self.account.scope == BudgetScope::Engine && !self.account.owner.is_empty()
    }
}

/// Billing of a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Billing {
    /// The call never reached the provider, or was refused by it.
    None,
    /// Unknown: the reservation counts as spent.
    Unknown,
}

/// Increases first and checks then; a caller that gets a row rolls back. A row names an overdrawn
/// budget account, first an account that is overdrawn even without the reservations of other calls.
/// A budget account without an owner is that of the run's current thread; its earlier thread may
/// have been folded into it: that one's id is put in by text, since a quotation mark within a text of
/// JSON has a backslash before it. The bound of a part of the engine's account is its grant.
pub const RESERVE: &str = "
    INSERT INTO budget_accounts (scope, owner, period, reserved_micros, reserved_tokens)
      SELECT value ->> 'scope', coalesce(value ->> 'owner', (SELECT thread_id FROM runs WHERE id = $1)),
        value ->> 'period', $6, $7 FROM jsonb_each($4) WHERE true
      ORDER BY 1, 2, 3 -- accounts are locked in one order everywhere
      ON CONFLICT (scope, owner, period) DO UPDATE SET
        reserved_micros = budget_accounts.reserved_micros + excluded.reserved_micros,
        reserved_tokens = budget_accounts.reserved_tokens + excluded.reserved_tokens;
    INSERT INTO budget_reservations (run_id, turn_index, attempt, accounts_json, day, micros, tokens)
      SELECT $1, $2, $3, coalesce(replace($4, '\"owner\":null', '\"owner\":\"' || (SELECT thread_id FROM runs WHERE id = $1) || '\"'), $4),
        $5, $6, $7;
    SELECT a.scope, a.owner, a.period, a.spent_micros, a.reserved_micros - $6 AS reserved_micros, a.spent_tokens,
      a.reserved_tokens - $7 AS reserved_tokens, a.micros_max, a.tokens_max,
      coalesce(a.spent_micros + $6 + a.micros_left <= a.micros_max, 1 = 1)
        AND coalesce(a.spent_tokens + $7 <= a.tokens_max, 1 = 1) AS held
    FROM (SELECT p.scope, p.owner, p.period, p.spent_micros, p.reserved_micros, p.spent_tokens, p.reserved_tokens,
        CAST(w.value ->> 'left' AS BIGINT) AS micros_left,
        CASE WHEN p.scope <> 'engine' OR p.owner = '' OR w.value ->> 'micros' IS NULL THEN CAST(w.value ->> 'micros' AS BIGINT)
          WHEN p.grant_bound_micros = CAST(w.value ->> 'micros' AS BIGINT) THEN p.granted_micros ELSE 0 END AS micros_max,
        CASE WHEN p.scope <> 'engine' OR p.owner = '' OR w.value ->> 'tokens' IS NULL THEN CAST(w.value ->> 'tokens' AS BIGINT)
          WHEN p.grant_bound_tokens = CAST(w.value ->> 'tokens' AS BIGINT) THEN p.granted_tokens ELSE 0 END AS tokens_max
      FROM jsonb_each($4) w JOIN budget_accounts p
        ON p.scope = w.value ->> 'scope' AND p.period = w.value ->> 'period'
          AND p.owner = coalesce(w.value ->> 'owner', (SELECT thread_id FROM runs WHERE id = $1))) a
    WHERE a.spent_micros + a.reserved_micros + a.micros_left > a.micros_max OR a.spent_tokens + a.reserved_tokens > a.tokens_max
    ORDER BY held LIMIT 1";
/// Ledger rows of an answered call, and the budget_accounts: `$5` is its cost, or NULL to keep the
/// reservation.
const FINISH: &str = "
    INSERT INTO usage_ledger (run_id, turn_index, attempt, model, persona_id, provider, state, input_tokens,
      cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens, estimated, cost_micros, cost_source,
      price_version, held_micros, day, created_at)
    SELECT t.run_id, t.turn_index, t.attempt, l.value ->> 'model', t.persona_id, t.provider, 'answered',
      CAST(l.value ->> 'input' AS BIGINT), CAST(l.value ->> 'cache_read' AS BIGINT), CAST(l.value ->> 'cache_write' AS BIGINT), CAST(l.value ->> 'output' AS BIGINT),
      CAST(l.value ->> 'reasoning' AS BIGINT), CAST(l.value ->> 'estimated' AS BIGINT), CAST(l.value ->> 'cost' AS BIGINT), l.value ->> 'source', l.value ->> 'version',
      CASE WHEN l.value ->> 'cost' IS NULL THEN h.micros END, coalesce(h.day, substr($7, 1, 10)), $7
    FROM jsonb_each($4) l, run_turns t
    LEFT JOIN budget_reservations h ON h.run_id = $1 AND h.turn_index = $2 AND h.attempt = $3
    WHERE t.run_id = $1 AND t.turn_index = $2 AND t.attempt = $3;
    UPDATE budget_accounts SET reserved_micros = reserved_micros - w.micros, reserved_tokens = reserved_tokens - w.tokens,
      spent_micros = spent_micros + coalesce($5, w.micros), spent_tokens = spent_tokens + $6
    FROM (SELECT h.micros, h.tokens, p.value ->> 'scope' AS scope, p.value ->> 'owner' AS owner,
            p.value ->> 'period' AS period FROM budget_reservations h, json_each(h.accounts_json) p
          WHERE h.run_id = $1 AND h.turn_index = $2 AND h.attempt = $3) w
    WHERE budget_accounts.scope = w.scope AND budget_accounts.owner = w.owner AND budget_accounts.period = w.period;
    DELETE FROM budget_reservations WHERE run_id = $1 AND turn_index = $2 AND attempt = $3";
/// A failed call: `$4` is 1 when it may be billed nevertheless.
const LOSE: &str = "
    INSERT INTO usage_ledger (run_id, turn_index, attempt, model, persona_id, provider, state, input_tokens,
      cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens, estimated, cost_source, held_micros, day,
      created_at)
    SELECT t.run_id, t.turn_index, t.attempt, t.model, t.persona_id, t.provider, 'lost', 0, 0, 0, 0, 0, 0, 'unknown',
      h.micros, coalesce(h.day, substr($5, 1, 10)), $5
    FROM run_turns t
    LEFT JOIN budget_reservations h ON h.run_id = $1 AND h.turn_index = $2 AND h.attempt = $3
    WHERE t.run_id = $1 AND t.turn_index = $2 AND t.attempt = $3 AND $4 = 1;
    UPDATE budget_accounts SET reserved_micros = reserved_micros - w.micros, reserved_tokens = reserved_tokens - w.tokens,
      spent_micros = spent_micros + w.micros * $4, spent_tokens = spent_tokens + w.tokens * $4
    FROM (SELECT h.micros, h.tokens, p.value ->> 'scope' AS scope, p.value ->> 'owner' AS owner,
            p.value ->> 'period' AS period FROM budget_reservations h, json_each(h.accounts_json) p
          WHERE h.run_id = $1 AND h.turn_index = $2 AND h.attempt = $3) w
    WHERE budget_accounts.scope = w.scope AND budget_accounts.owner = w.owner AND budget_accounts.period = w.period;
    DELETE FROM budget_reservations WHERE run_id = $1 AND turn_index = $2 AND attempt = $3";
/// With the accounts locked before, where others write at the same time.
pub static FINISH_LOCKED: LazyLock<Sql> =
    LazyLock::new(|| Sql::preceded_on_postgres(ACCOUNTS_OF_CALL, FINISH));
static LOSE_LOCKED: LazyLock<Sql> =
    LazyLock::new(|| Sql::preceded_on_postgres(ACCOUNTS_OF_CALL, LOSE));
pub const OPEN_CALLS: &str =
    "SELECT run_id, turn_index, attempt FROM budget_reservations b WHERE NOT EXISTS (SELECT 1 FROM runs r
       WHERE r.id = b.run_id AND r.state = 'running' AND r.epoch IN (SELECT epoch FROM nodes))";
const OPEN_CALLS_OF_RUN: &str = "
    SELECT turn_index, attempt FROM budget_reservations WHERE run_id = $1";
/// Every engine wakes the runs that wait for a budget account or a file at its start, and at a reload: bounds and files may
/// differ. The first condition is the one of the index `runs_open`.
pub const WAKE_WAITING: &str = "
    UPDATE runs SET next_attempt_at = NULL
    WHERE state IN ('queued', 'running', 'waiting_approval', 'waiting_retry') AND state = 'waiting_retry'
      AND error_class IN ('budget', 'config')";
const WAKE_WAITING_OF_THREAD: &str = "
    UPDATE runs SET next_attempt_at = NULL
    WHERE thread_id = $1 AND state = 'waiting_retry' AND error_class = 'budget'";
const SET_THREAD_BUDGET: &str = "
    INSERT INTO thread_budgets (thread_id, run_micros_max, run_tokens_max, day_micros_max, day_tokens_max)
    VALUES ($1, $2, $3, $4, $5) ON CONFLICT (thread_id) DO UPDATE SET run_micros_max = $2, run_tokens_max = $3,
      day_micros_max = $4, day_tokens_max = $5";
const CLEAR_THREAD_BUDGET: &str = "DELETE FROM thread_budgets WHERE thread_id = $1";
const THREAD_BUDGET: &str = "
    SELECT run_micros_max, run_tokens_max, day_micros_max, day_tokens_max FROM thread_budgets WHERE thread_id = $1";
/// Of two budgets the tighter holds, and the spending of both threads counts; calls in flight
/// settle with the thread that stays.
pub const FOLD_MONEY: &str = "
    INSERT INTO thread_budgets (thread_id, run_micros_max, run_tokens_max, day_micros_max, day_tokens_max)
      SELECT $2, run_micros_max, run_tokens_max, day_micros_max, day_tokens_max FROM thread_budgets
      WHERE thread_id = $1
      ON CONFLICT (thread_id) DO UPDATE SET
        run_micros_max = CASE WHEN thread_budgets.run_micros_max <= excluded.run_micros_max THEN thread_budgets.run_micros_max
          ELSE coalesce(excluded.run_micros_max, thread_budgets.run_micros_max) END,
        run_tokens_max = CASE WHEN thread_budgets.run_tokens_max <= excluded.run_tokens_max THEN thread_budgets.run_tokens_max
          ELSE coalesce(excluded.run_tokens_max, thread_budgets.run_tokens_max) END,
        day_micros_max = CASE WHEN thread_budgets.day_micros_max <= excluded.day_micros_max THEN thread_budgets.day_micros_max
          ELSE coalesce(excluded.day_micros_max, thread_budgets.day_micros_max) END,
        day_tokens_max = CASE WHEN thread_budgets.day_tokens_max <= excluded.day_tokens_max THEN thread_budgets.day_tokens_max
          ELSE coalesce(excluded.day_tokens_max, thread_budgets.day_tokens_max) END;
    DELETE FROM thread_budgets WHERE thread_id = $1;
    INSERT INTO budget_accounts (scope, owner, period, spent_micros, reserved_micros, spent_tokens, reserved_tokens)
      SELECT scope, $2, period, spent_micros, reserved_micros, spent_tokens, reserved_tokens FROM budget_accounts
      WHERE scope = 'thread' AND owner = $1
      ON CONFLICT (scope, owner, period) DO UPDATE SET
        spent_micros = budget_accounts.spent_micros + excluded.spent_micros,
        reserved_micros = budget_accounts.reserved_micros + excluded.reserved_micros,
        spent_tokens = budget_accounts.spent_tokens + excluded.spent_tokens,
        reserved_tokens = budget_accounts.reserved_tokens + excluded.reserved_tokens;
    DELETE FROM budget_accounts WHERE scope = 'thread' AND owner = $1;
    UPDATE budget_reservations SET accounts_json = replace(accounts_json, json_quote($1), json_quote($2))
    WHERE instr(accounts_json, json_quote($1)) > 0";
const ACCOUNT: &str = "
    SELECT spent_micros, reserved_micros, spent_tokens, reserved_tokens FROM budget_accounts
    WHERE scope = $1 AND owner = $2 AND period = $3";

/// Returns the values of [`RESERVE`].
pub fn reservation_values(
    run: &str,
    turn_index: u32,
    attempt: u32,
    reservation: &CallReservation,
    part: &str,
) -> impl ArgumentList {
    (
        run,
        turn_index,
        attempt,
        accounts_json(reservation, part),
        reservation.day(),
        reservation.micros,
        reservation.tokens,
    )
}

/// Returns the accounts of a reservation with their bounds; that of the engine is a part.
pub fn accounts_json(reservation: &CallReservation, part: &str) -> String {
    let accounts = reservation.accounts.iter().map(|account| {
        let owner = match account.id.scope {
            BudgetScope::Thread => None,
            BudgetScope::Engine => Some(part),
            BudgetScope::Persona | BudgetScope::Run => Some(account.id.owner.as_str()),
        };
        let left = match account.id.scope {
            BudgetScope::Run => reservation.left_in_run,
            _ => reservation.left_elsewhere,
        };
        json!({
            "scope": account.id.scope.as_str(), "owner": owner, "period": account.id.period, "left": left,
            "micros": account.cost_micros_max.map(|bound| bound.value),
            "tokens": account.tokens_max.map(|bound| bound.value),
        })
    });
    Value::from_iter(accounts).to_string()
}

/// Reserves the maximum cost of a call, inside the transaction that begins it. Errors:
/// [`StoreError::BudgetExhausted`], and then the whole transaction must be rolled back.
pub async fn reserve(
    conn: &mut Connection,
    run: &str,
    turn_index: u32,
    attempt: u32,
    reservation: &CallReservation,
) -> Result<()> {
    let part = part_of(conn, run);
    let values = reservation_values(run, turn_index, attempt, reservation, part);
    is_paid(conn.maybe_row(RESERVE, values).await?.as_ref(), reservation)
}

/// Refuses a call for which [`RESERVE`] returned a row; the whole transaction must be rolled back.
///
/// Errors: [`StoreError::BudgetExhausted`].
pub fn is_paid(overdrawn: Option<&Row>, reservation: &CallReservation) -> Result<()> {
    match overdrawn {
        None => Ok(()),
        Some(row) => Err(StoreError::BudgetExhausted(Box::new(budget_exhausted(
            row,
            reservation,
        )?))),
    }
}

fn budget_exhausted(row: &Row, reservation: &CallReservation) -> Result<BudgetExhausted> {
    Ok(BudgetExhausted {
        account: BudgetAccountId {
            scope: row.try_get("scope")?,
            owner: row.get("owner"),
            period: row.get("period"),
        },
        state: row.to()?,
        cost_micros_max: row.get("micros_max"),
        tokens_max: row.get("tokens_max"),
        micros: reservation.micros,
        tokens: reservation.tokens,
        held_by_others: row.get("held"),
    })
}

from_row!(BudgetBalance {
    spent_micros,
    reserved_micros,
    spent_tokens,
    reserved_tokens
});

/// Returns the values of [`FINISH`]: a row for each model, and the budget_accounts.
pub fn line_values(
    run: &str,
    turn_index: u32,
    attempt: u32,
    lines: &[UsageLine],
    now: &str,
) -> impl ArgumentList {
    let rows: Vec<(&UsageLine, UsageRow)> = lines
        .iter()
        .map(|line| (line, UsageRow::from(line.usage)))
        .collect();
    let tokens: i64 = rows.iter().map(|(_, row)| row.total()).sum();
    // One model without a price makes the cost of the call unknown.
    let cost: Option<i64> = rows.iter().map(|(_, row)| row.cost).sum();
    let ledger = Value::from_iter(rows.iter().map(|(line, row)| row.ledger_line(line)));
    (run, turn_index, attempt, ledger, cost, tokens, now)
}

/// Books an answered call.
pub async fn finish(
    conn: &mut Connection,
    run: &str,
    turn_index: u32,
    attempt: u32,
    lines: &[UsageLine],
    now: &str,
) -> Result<()> {
    let values = line_values(run, turn_index, attempt, lines, now);
    conn.exec(&FINISH_LOCKED, values).await?;
    Ok(())
}

/// Books a failed call.
pub async fn lose(
    conn: &mut Connection,
    run: &str,
    turn_index: u32,
    attempt: u32,
    billing: Billing,
    now: &str,
) -> Result<()> {
    let is_unknown = i64::from(billing == Billing::Unknown);
    conn.exec(&LOSE_LOCKED, (run, turn_index, attempt, is_unknown, now))
        .await?;
    Ok(())
}

/// Books the open calls of a run: its engine could not store their end, or was stopped.
pub async fn leave(conn: &mut Connection, run: &str, now: &str) -> Result<()> {
    for (turn_index, attempt) in conn.all(OPEN_CALLS_OF_RUN, run).await? {
        lose(conn, run, turn_index, attempt, Billing::Unknown, now).await?;
    }
    Ok(())
}

/// Books every call of an engine that is gone as spent, and wakes runs that wait for a budget or a file.
pub async fn recover(conn: &mut Connection, now: &str) -> Result<()> {
    let open: Vec<(String, u32, u32)> = conn.all(OPEN_CALLS, ()).await?;
    for (run, turn_index, attempt) in open {
        lose(conn, &run, turn_index, attempt, Billing::Unknown, now).await?;
    }
    conn.exec(WAKE_WAITING, ()).await?;
    Ok(())
}

impl Store {
    /// Returns the current balance of a budget account.
    pub async fn account(&self, account: &BudgetAccountId) -> Result<BudgetBalance> {
        if account.scope == BudgetScope::Engine {
            return self.one(ENGINE_ACCOUNT, (owners(), &account.period)).await;
        }
        let values = (&account.scope, &account.owner, &account.period);
        Ok(self.maybe(ACCOUNT, values).await?.unwrap_or_default())
    }

    /// Returns an operator's bounds for a thread.
    pub async fn thread_budget(&self, thread: &ThreadId) -> Result<ThreadBudget> {
        let row = self.maybe_row(THREAD_BUDGET, thread).await?;
        Ok(row.map_or_else(ThreadBudget::default, |row| {
            thread_budget([
                row.get("run_micros_max"),
                row.get("run_tokens_max"),
                row.get("day_micros_max"),
                row.get("day_tokens_max"),
            ])
        }))
    }

    /// Sets the bounds of a thread, or removes them; wakes its runs that wait for a budget.
    pub async fn set_thread_budget(
        &self,
        thread: &ThreadId,
        budget: Option<ThreadBudget>,
    ) -> Result<()> {
        let thread = thread.clone();
        transact!(
            self,
            Scope::persona_of("threads", thread.as_str()),
            |conn| {
                match budget {
                    None => conn.exec(CLEAR_THREAD_BUDGET, &thread).await?,
                    Some(ThreadBudget { run, day }) => {
                        let run = (run.cost_micros_max, run.tokens_max);
                        let day = (day.cost_micros_max, day.tokens_max);
                        conn.exec(SET_THREAD_BUDGET, (&thread, run, day)).await?
                    }
                };
                conn.exec(WAKE_WAITING_OF_THREAD, thread).await?;
                Ok(())
            }
        )
        .await
    }
}

/// The columns of `thread_budgets`, in their order.
pub fn thread_budget(
    [run_micros, run_tokens, day_micros, day_tokens]: [Option<i64>; 4],
) -> ThreadBudget {
    ThreadBudget {
        run: Allowance {
            cost_micros_max: run_micros,
            tokens_max: run_tokens,
        },
        day: Allowance {
            cost_micros_max: day_micros,
            tokens_max: day_tokens,
        },
    }
}
