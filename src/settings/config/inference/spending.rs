//! The bounds in force for one run, chosen from all configured ones.
//!
//! A run has one bound: the nearest one, from its responsibility over its thread and its persona to
//! all runs. Days and months are separate budget accounts, of the engine, of each persona and of
//! each thread, and all of them apply.

use super::budgets::{Budgets, RUN_TOKENS_MAX};
use crate::config::inference::Inference;
use crate::config::persona::Persona;
use crate::domain::OnBudget;
use crate::domain::{
    Allowance, Bound, BudgetAccount, BudgetAccountId, BudgetScope, Origin, ThreadBudget, ThreadId,
    Timestamp, day_of, month_of,
};

/// The bounds of one run, each with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spending {
    pub run_cost_micros_max: Option<Bound>,
    pub run_tokens_max: Bound,
    /// Accounts of the engine, the persona and the thread, including those without a bound.
    pub accounts: Vec<BudgetAccount>,
    pub on_budget: OnBudget,
}

impl Spending {
    /// Reports whether a bound is on money: then every call must have a price.
    pub fn counts_money(&self) -> bool {
        self.run_cost_micros_max.is_some()
            || self
                .accounts
                .iter()
                .any(|account| account.cost_micros_max.is_some())
    }
}

/// Selects the bounds in force for a run from all configured ones; pure.
pub fn spending(
    (inference, persona): (&Inference, &Persona),
    (thread, of_thread): (&ThreadId, ThreadBudget),
    schedule_micros: Option<i64>,
    now: Timestamp,
) -> Spending {
    let own = &persona.budget;
    let tokens = inference.budget.tokens_max;
    let tokens = Bound {
        value: i64::try_from(tokens).unwrap_or(i64::MAX),
        origin: match tokens == RUN_TOKENS_MAX {
            true => Origin::Default,
            false => Origin::Global,
        },
    };
    Spending {
        run_cost_micros_max: nearest(&[
            (schedule_micros, Origin::Responsibility),
            (of_thread.run.cost_micros_max, Origin::Thread),
            (own.run.cost_micros_max, Origin::Persona),
            (inference.budget.cost_micros_max, Origin::Global),
        ]),
        run_tokens_max: nearest(&[
            (of_thread.run.tokens_max, Origin::Thread),
            (own.run.tokens_max, Origin::Persona),
        ])
        .unwrap_or(tokens),
        accounts: accounts(&inference.budgets, persona, (thread, of_thread.day), now),
        on_budget: own.on_budget.unwrap_or(inference.budgets.on_budget),
    }
}

/// Accounts of the engine, the persona and the thread, with the nearest bound of each.
fn accounts(
    all: &Budgets,
    persona: &Persona,
    (thread, of_thread): (&ThreadId, Allowance),
    now: Timestamp,
) -> Vec<BudgetAccount> {
    let own = &persona.budget;
    let global = |allowance: Allowance| [(allowance, Origin::Global)];
    let own_or = |near, far| [(near, Origin::Persona), (far, Origin::Global)];
    let (day, month) = (day_of(now, &all.zone), month_of(now, &all.zone));
    let (engine, of_persona) = (BudgetScope::Engine, BudgetScope::Persona);
    let id = persona.id.as_str();
    vec![
        account(engine, "", &day, &global(all.day)),
        account(engine, "", &month, &global(all.month)),
        account(of_persona, id, &day, &own_or(own.day, all.persona_day)),
        account(
            of_persona,
            id,
            &month,
            &own_or(own.month, all.persona_month),
        ),
        account(
            BudgetScope::Thread,
            thread.as_str(),
            &day,
            &[
                (of_thread, Origin::Thread),
                (own.thread_day, Origin::Persona),
                (all.thread_day, Origin::Global),
            ],
        ),
    ]
}

/// One account with its nearest bounds; `allowances` begin with the nearest.
fn account(
    scope: BudgetScope,
    owner: &str,
    period: &str,
    allowances: &[(Allowance, Origin)],
) -> BudgetAccount {
    let bounds = |bound: fn(&Allowance) -> Option<i64>| {
        let chain = allowances
            .iter()
            .map(|(allowance, origin)| (bound(allowance), *origin));
        nearest(&chain.collect::<Vec<_>>())
    };
    BudgetAccount {
        id: BudgetAccountId {
            scope,
            owner: owner.to_owned(),
            period: period.to_owned(),
        },
        cost_micros_max: bounds(|allowance| allowance.cost_micros_max),
        tokens_max: bounds(|allowance| allowance.tokens_max),
    }
}

/// The first bound of a chain from near to far.
fn nearest(chain: &[(Option<i64>, Origin)]) -> Option<Bound> {
    chain.iter().find_map(|(value, origin)| {
        value.map(|value| Bound {
            value,
            origin: *origin,
        })
    })
}
