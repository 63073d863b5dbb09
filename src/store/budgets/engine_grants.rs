//! What the parts of the engine's account may spend, where the engine has a bound.
//!
//! Each part has a grant, and spends no more: the grants together never exceed the bound. A call that its part cannot pay is
//! begun again with all parts locked. It is refused if the account cannot pay it; otherwise what is left is granted anew, half
//! of it in equal shares. So a bound is reached to the last call, and near it calls wait for each other as they would for one
//! row.

use crate::domain::{Bound, BudgetAccount, BudgetAccountId, BudgetBalance, BudgetScope};
use crate::store::budgets::engine_parts::{PARTS, owners, part_of};
use crate::store::budgets::money::{BudgetExhausted, CallReservation};
use crate::store::db::Connection;
use crate::store::postgres::lock::{GRANTS, LOCK_GRANTS};
use crate::store::sql::json_list;
use crate::store::{Result, StoreError};
use serde_json::{Value, json};

/// Rows of the parts, so that all of them can be locked.
static MAKE_PARTS: &str = "
    INSERT INTO budget_accounts (scope, owner, period)
      SELECT 'engine', o.value, p.value FROM json_each($1) o, json_each($2) p WHERE true
      ORDER BY 1, 2, 3 -- accounts are locked in one order everywhere
      ON CONFLICT (scope, owner, period) DO NOTHING";
static LOCK_PARTS: &str = "
    SELECT owner, period, spent_micros, reserved_micros, spent_tokens, reserved_tokens FROM budget_accounts
    WHERE scope = 'engine' AND owner IN (SELECT value FROM json_each($1)) AND period IN (SELECT value FROM json_each($2))
    ORDER BY scope, owner, period FOR UPDATE";
static GRANT: &str = "
    UPDATE budget_accounts SET granted_micros = CAST(g.value ->> 'micros' AS BIGINT),
      granted_tokens = CAST(g.value ->> 'tokens' AS BIGINT), grant_bound_micros = $2, grant_bound_tokens = $3
    FROM json_each($1) g
    WHERE budget_accounts.scope = 'engine' AND budget_accounts.owner = g.value ->> 'owner' AND budget_accounts.period = $4";

/// Locks the grants for the transaction; the first statement of one that calls [`grant`].
pub async fn lock(conn: &mut Connection) -> Result<()> {
    conn.exec(LOCK_GRANTS, i64::from(GRANTS)).await?;
    Ok(())
}

/// Grants to all parts what the engine may spend, and to the part of this call enough for it. Where the account has no parts
/// or no bound, there is nothing to grant.
///
/// Errors: [`StoreError::BudgetExhausted`] where the whole account cannot pay the call.
pub async fn grant(conn: &mut Connection, id: &str, reservation: &CallReservation) -> Result<()> {
    let own = part_of(conn, id);
    let accounts: Vec<&BudgetAccount> = reservation
        .accounts
        .iter()
        .filter(|account| account.id.scope == BudgetScope::Engine)
        .filter(|account| account.cost_micros_max.is_some() || account.tokens_max.is_some())
        .collect();
    if own.is_empty() || accounts.is_empty() {
        return Ok(());
    }
    let periods = json_list(accounts.iter().map(|account| account.id.period.as_str()));

    conn.exec(MAKE_PARTS, (json_list(PARTS.into_iter()), &periods))
        .await?;
    let rows = conn.rows(LOCK_PARTS, (owners(), &periods)).await?;
    for account in accounts {
        let parts: Vec<(&str, BudgetBalance)> = rows
            .iter()
            .filter(|row| row.get::<&str>("period") == account.id.period)
            .map(|row| Ok((row.get("owner"), row.to()?)))
            .collect::<Result<_>>()?;
        let sum = sum_of(&parts);
        let Some(shares) = shares(account, sum, reservation) else {
            let empty = exhausted(account, sum, reservation);
            return Err(StoreError::BudgetExhausted(Box::new(empty)));
        };

        conn.exec(
            GRANT,
            (
                grants(&parts, shares, (own, reservation)).to_string(),
                account.cost_micros_max.map(|bound| bound.value),
                account.tokens_max.map(|bound| bound.value),
                &account.id.period,
            ),
        )
        .await?;
    }
    Ok(())
}

fn sum_of(parts: &[(&str, BudgetBalance)]) -> BudgetBalance {
    let mut sum = BudgetBalance::default();
    for (_, part) in parts {
        sum.spent_micros += part.spent_micros;
        sum.reserved_micros += part.reserved_micros;
        sum.spent_tokens += part.spent_tokens;
        sum.reserved_tokens += part.reserved_tokens;
    }
    sum
}

/// Returns the micro-dollars and tokens that each part may spend beside what it has spent and the call needs; `None`: the whole
/// account cannot pay the call.
fn shares(
    account: &BudgetAccount,
    sum: BudgetBalance,
    reservation: &CallReservation,
) -> Option<(i64, i64)> {
    let micros = sum.spent_micros + sum.reserved_micros + micros_needed(reservation);
    let tokens = sum.spent_tokens + sum.reserved_tokens + reservation.tokens;
    Some((
        share(account.cost_micros_max, micros)?,
        share(account.tokens_max, tokens)?,
    ))
}

/// `used`: with what the call needs.
fn share(bound: Option<Bound>, used: i64) -> Option<i64> {
    let Some(bound) = bound else {
        return Some(0);
    };
    let free = bound.value - used;
    let parts = i64::try_from(PARTS.len()).unwrap_or(i64::MAX);
    (free >= 0).then_some(free / 2 / parts)
}

fn micros_needed(reservation: &CallReservation) -> i64 {
    reservation.micros + reservation.left_elsewhere
}

/// Returns the grants of the parts as JSON; what was spent before there were parts gets none.
fn grants(
    parts: &[(&str, BudgetBalance)],
    (micros_share, tokens_share): (i64, i64),
    (own, reservation): (&str, &CallReservation),
) -> Value {
    let parts = parts.iter().filter(|(owner, _)| !owner.is_empty());
    Value::from_iter(parts.map(|(owner, part)| {
        let (micros, tokens) = match *owner == own {
            true => (micros_needed(reservation), reservation.tokens),
            false => (0, 0),
        };
        json!({
            "owner": owner,
            "micros": part.spent_micros + part.reserved_micros + micros_share + micros,
            "tokens": part.spent_tokens + part.reserved_tokens + tokens_share + tokens,
        })
    }))
}

fn exhausted(
    account: &BudgetAccount,
    sum: BudgetBalance,
    reservation: &CallReservation,
) -> BudgetExhausted {
    let cost_micros_max = account.cost_micros_max.map(|bound| bound.value);
    let tokens_max = account.tokens_max.map(|bound| bound.value);
    let micros = sum.spent_micros + micros_needed(reservation);
    let tokens = sum.spent_tokens + reservation.tokens;
    BudgetExhausted {
        account: BudgetAccountId {
            owner: String::new(),
            ..account.id.clone()
        },
        state: sum,
        cost_micros_max,
        tokens_max,
        micros: reservation.micros,
        tokens: reservation.tokens,
        held_by_others: cost_micros_max.is_none_or(|max| micros <= max)
            && tokens_max.is_none_or(|max| tokens <= max),
    }
}
