//! Upper bound of the cost of a call, and its reservation in the budget accounts.
//!
//! The bound of a call is one that its bill cannot exceed: a token has at least one byte, and an
//! answer ends at the length that the request names. The unused part of a reservation is released
//! with the answer.

use super::bounds;
use super::prices::{no_price, rates, what_to_write};
use super::run_spending::RunSpending;
use crate::config::Spending;
use crate::domain::{
    BudgetAccount, BudgetAccountId, BudgetScope, ErrorClass, OnBudget, Rates, TokenUsage,
};
use crate::providers::{Request, ToolChoice};
use crate::runs::error::RunError;
use crate::runs::model_call::fallback::Route;
use crate::runs::record::call_record::BlockedBy;
use crate::runs::state::{LoopState, RunInput};
use crate::store::{CallReservation, JournalEntry, StoreError, TurnStarted};
use std::time::Duration;

/// Tokens that a vendor may add to a request without their being in the body: a system prompt for
/// tools has up to 530 (Anthropic, "tool use pricing").
const HIDDEN_TOKENS: u64 = 1024;
/// Longest time between two checks of a budget account that other calls have reserved.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Checks before the run is parked and frees its worker.
const LOOKS_MAX: u32 = 60;
/// Returns the amounts that a call reserves in each budget account. Errors: class `Config`, when
/// the price is unknown and a bound on money is configured.
pub fn reservation(
    input: &RunInput<'_>,
    route: &Route<'_>,
    spending: &RunSpending,
    request: &Request,
    encoded: &str,
    choice: ToolChoice,
) -> Result<CallReservation, RunError> {
    let Spending {
        run_cost_micros_max,
        mut accounts,
        on_budget,
        ..
    } = bounds::spending(input.deps, input.run, input.persona);
    let counts = run_cost_micros_max.is_some()
        || accounts
            .iter()
            .any(|account| account.cost_micros_max.is_some());
    let (micros, tokens) = most(input, route, spending, request, encoded, counts)?;
    accounts.extend(run_cost_micros_max.map(|bound| BudgetAccount {
        id: BudgetAccountId {
            scope: BudgetScope::Run,
            owner: input.run.id.to_string(),
            period: String::new(),
        },
        cost_micros_max: Some(bound),
        tokens_max: None,
    }));
    // The final turn of a run is paid from what each earlier call left. One call of an agent is a
    // whole run.
    let final_turn = if choice == ToolChoice::Auto && request.agent.is_none() {
        micros
    } else {
        0
    };
    let left_elsewhere = if on_budget == OnBudget::Answer {
        final_turn
    } else {
        0
    };
    Ok(CallReservation {
        micros,
        tokens,
        accounts,
        left_in_run: final_turn,
        left_elsewhere,
    })
}

/// Returns the most micro-dollars and tokens that a call may cost.
fn most(
    input: &RunInput<'_>,
    route: &Route<'_>,
    spending: &RunSpending,
    request: &Request,
    encoded: &str,
    counts: bool,
) -> Result<(i64, i64), RunError> {
    let config = &input.deps.config;
    let rates = rates(config, &route.name, &request.model, input.deps.clock.now());
    let (input, output) = match &request.agent {
        None => (
            (encoded.len() as u64).saturating_add(HIDDEN_TOKENS),
            u64::from(request.max_output_tokens),
        ),
        // An agent reads any number of files: all tokens that the run may still use, at the dearer
        // price.
        Some(_) => (
            0,
            spending
                .budget
                .tokens_max
                .saturating_sub(spending.counters.usage.total_tokens()),
        ),
    };
    let tokens = i64::try_from(input.saturating_add(output)).unwrap_or(i64::MAX);
    let by_price = |rates: Rates| {
        let (dearest, answer) = (rates.dearest_input(), rates.output);
        let answer = if request.agent.is_some() {
            answer.max(dearest)
        } else {
            answer
        };
        let used = TokenUsage {
            input_tokens: input,
            output_tokens: output,
            ..TokenUsage::default()
        };
        Rates {
            input: dearest,
            output: answer,
            ..Rates::default()
        }
        .cost_micros(used)
    };
    let stated = request
        .agent
        .as_ref()
        .and_then(|agent| agent.cost_micros_max);
    let reserve = config.inference.budgets.reserve_micros_per_call;
    let reserve = reserve.filter(|_| route.provider.capabilities(&request.model).reports_cost);
    match stated.or_else(|| rates.map(by_price)).or(reserve) {
        Some(micros) => Ok((micros, tokens)),
        None if !counts => Ok((0, tokens)),
        None => {
            let (name, model) = (&route.name, &request.model);
            let message = format!("{}; {}", no_price(name, model), what_to_write(name, model));
            Err(RunError::Fatal {
                class: ErrorClass::Config,
                message,
            })
        }
    }
}

/// Commits the beginning of a call as soon as every budget account can pay it; waits for a while
/// when other calls hold the reservation.
///
/// Errors: [`RunError::BudgetExhausted`]; then everything that was pending is committed, and the
/// call is not begun.
pub async fn begin(state: &mut LoopState<'_>, started: TurnStarted) -> Result<(), RunError> {
    let mut looks = 0;
    let mut beginning = JournalEntry::TurnStarted(Box::new(started));
    loop {
        // Registered before the account is checked, so that no release is missed in between.
        let given_back = state.input.deps.given_back.notified();
        state.outbox.pending.push(beginning);
        let empty = match state.outbox.commit(None).await {
            Err(RunError::Store(StoreError::BudgetExhausted(empty))) => empty,
            done => return done,
        };
        let begun = state.outbox.pending.pop();
        // Commits before waiting: other calls may wait for what the call before releases.
        state.outbox.commit(None).await?;
        looks += 1;
        beginning = match begun {
            Some(again) if empty.held_by_others && looks < LOOKS_MAX => again,
            begun => {
                if let Some(JournalEntry::TurnStarted(started)) = begun {
                    state.outbox.fresh_context = started.context;
                }
                state
                    .outbox
                    .blocked_by
                    .push(BlockedBy::account(empty.account.scope));
                return Err(RunError::BudgetExhausted(empty));
            }
        };
        tokio::select! {
            () = given_back => {}
            () = state.input.deps.provider_health.wait(LOOK_AGAIN) => {}
            () = state.input.cancel.cancelled() => return Err(RunError::Cancelled),
        }
    }
}
