//! End of a run that a budget account cannot pay: a partial answer now, or a parked run and a notice.

use super::bounds::spending;
use crate::config::dollars;
use crate::domain::{
    BudgetAccountId, BudgetScope, ErrorClass, NoticeId, OnBudget, Timestamp, end_of,
};
use crate::runs::deps::{RunDeps, WorkerDeps};
use crate::runs::error::RunError;
use crate::runs::state::RunInput;
use crate::store::{BudgetExhausted, ClaimedRun, NewNotice, RunFailure, budget_reached};
use std::time::Duration;

/// Time that a run is parked while other calls hold the reservation.
const HELD_WAIT: Duration = Duration::from_secs(60);

/// Answer to who asked at the machine when not even the final turn can be paid.
const NOTHING_LEFT: &str =
    "[This question could not be answered to the end: what may be spent on it is used up.]";

/// Returns the answer when not even the final turn can be paid. A letter of this sentence alone is none.
pub fn nothing_left(input: &RunInput<'_>) -> String {
    match input.writes_letter() {
        true => String::new(),
        false => NOTHING_LEFT.to_owned(),
    }
}

/// Reports whether a run that cannot be paid ends now with a partial answer instead of waiting;
/// emits a notice to the owner.
pub async fn ends(input: &RunInput<'_>, empty: &BudgetExhausted) -> Result<bool, RunError> {
    if empty.account.scope == BudgetScope::Run {
        return Ok(true);
    }
    let waits = spending(input.deps, input.run, input.persona).on_budget == OnBudget::Wait;
    if !waits && !empty.held_by_others {
        input
            .deps
            .env
            .emit_notice(notice(input.deps, input.run, empty))
            .await?;
    }
    Ok(!waits)
}

/// Parks a run until its budget account can pay again; returns its failure when the transaction
/// failed.
pub async fn park(
    deps: &WorkerDeps,
    run: &ClaimedRun,
    empty: &BudgetExhausted,
    worked: Duration,
) -> Option<RunFailure> {
    let now = deps.clock.now();
    let (until, notice) = match empty.held_by_others {
        true => (now.plus(HELD_WAIT), None),
        false => (
            refilled(deps, &empty.account),
            Some(notice(deps, run, empty)),
        ),
    };
    tracing::warn!(run = %run.id, persona = %run.persona, %until, error = %empty, "run waits for money");
    let wait = RunFailure {
        class: ErrorClass::Budget,
        message: empty.to_string(),
        retry_at: Some(until),
        worked,
    };
    let parked = deps.store.park_unspent(&run.id, wait.clone(), notice).await;
    let error = parked.err()?;
    tracing::error!(run = %run.id, %error, "a run that waits for money is not stored yet; trying again");
    Some(wait)
}

fn refilled(deps: &RunDeps, account: &BudgetAccountId) -> Timestamp {
    end_of(
        &account.period,
        deps.clock.now(),
        &deps.config.inference.budgets.zone,
    )
}

/// Builds one notice per budget account and period.
fn notice(deps: &RunDeps, run: &ClaimedRun, empty: &BudgetExhausted) -> NewNotice {
    let (zone, account) = (deps.config.inference.budgets.zone.name(), &empty.account);
    let of_money = empty
        .cost_micros_max
        .is_some_and(|max| empty.state.spent_micros + empty.micros > max);
    let (spent, call, max) = match (of_money, empty.cost_micros_max, empty.tokens_max) {
        (true, Some(max), _) | (_, Some(max), None) => (
            dollars(empty.state.spent_micros),
            dollars(empty.micros),
            format!("{} dollars", dollars(max)),
        ),
        (_, _, max) => {
            let max = format!("{} tokens", max.unwrap_or_default());
            (
                empty.state.spent_tokens.to_string(),
                empty.tokens.to_string(),
                max,
            )
        }
    };
    let summary = format!(
        "the {} budget of {} for {} ({zone}) is {max}: {spent} are spent, and the next call of run {} may cost up to {call}",
        account.span(),
        account.whose(),
        account.period,
        run.id
    );
    let place = match account.scope {
        BudgetScope::Thread => format!("with `attache threads budget {}`", account.owner),
        BudgetScope::Persona => {
            format!(
                "in `personas/{}/persona.json` or in `configs/inference.json`",
                run.persona
            )
        }
        _ => "in `configs/inference.json`".to_owned(),
    };
    let hint = format!(
        "nothing has to be done: runs that wait go on at {}; to let them go now, raise the budget {place}; \
         `attache usage --budgets` shows every budget and where it was set",
        refilled(deps, account)
    );
    budget_reached(
        NoticeId::new(deps.clock.new_id()),
        &run.persona,
        empty,
        summary,
        hint,
    )
}
