//! Every budget account with its bound and its balance, as the command line and the pages show it.

use crate::config::{Inference, Personas, Spending, dollars, spending};
use crate::domain::{
    Allowance, Bound, BudgetAccount, BudgetAccountId, BudgetBalance, BudgetScope, ThreadBudget,
    ThreadId, Timestamp, day_of,
};
use crate::store::{Result, Store};
use serde::Serialize;
use std::collections::HashSet;

/// Maximum number of threads whose budget accounts are shown although they have no budget of their
/// own.
const THREADS_MAX: usize = 20;

/// One bound of one budget account, with its balance.
#[derive(Debug, Clone, PartialEq)]
pub struct AccountLine {
    pub account: BudgetAccountId,
    /// `usd`, in micro-dollars, or `tokens`.
    pub unit: &'static str,
    pub bound: Option<Bound>,
    pub spent: i64,
    pub reserved: i64,
}

impl AccountLine {
    /// Formats an amount in its unit.
    pub fn spell(&self, amount: i64) -> String {
        if self.unit == "usd" {
            dollars(amount)
        } else {
            amount.to_string()
        }
    }

    pub fn left(&self) -> Option<i64> {
        self.bound
            .map(|bound| (bound.value - self.spent - self.reserved).max(0))
    }
}

/// A budget account with its bound.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BudgetRecord {
    pub scope: &'static str,
    pub owner: String,
    pub span: &'static str,
    pub period: String,
    pub unit: &'static str,
    pub spent: i64,
    pub reserved: i64,
    pub left: Option<i64>,
    pub max: Option<i64>,
    pub origin: Option<&'static str>,
}

impl From<&AccountLine> for BudgetRecord {
    fn from(line: &AccountLine) -> Self {
        Self {
            scope: line.account.scope.as_str(),
            owner: line.account.owner.clone(),
            span: line.account.span(),
            period: line.account.period.clone(),
            unit: if line.unit == "usd" {
                "micros"
            } else {
                "tokens"
            },
            spent: line.spent,
            reserved: line.reserved,
            left: line.left(),
            max: line.bound.map(|bound| bound.value),
            origin: line.bound.map(|bound| bound.origin.as_str()),
        }
    }
}

impl Store {
    /// Returns the accounts of every persona, and of the threads that have budgets or spent most today.
    pub async fn account_lines(
        &self,
        inference: &Inference,
        personas: &Personas,
        now: Timestamp,
    ) -> Result<Vec<AccountLine>> {
        let (mut lines, mut shown) = (Vec::new(), HashSet::new());
        let nobody = ThreadId::new("");
        for persona in personas.iter() {
            let known = spending(
                (inference, persona),
                (&nobody, ThreadBudget::default()),
                None,
                now,
            );
            let each_run = BudgetAccountId {
                scope: BudgetScope::Persona,
                owner: persona.id.to_string(),
                period: String::new(),
            };
            for account in known
                .accounts
                .iter()
                .filter(|account| account.id.scope != BudgetScope::Thread)
            {
                if shown.insert(account.id.clone()) {
                    self.add_lines(&mut lines, account).await?;
                }
            }
            lines.extend(each_run_of(&each_run, &known));
        }
        let day = day_of(now, &inference.budgets.zone);
        for (thread, persona) in self.threads_that_spend(&day, THREADS_MAX).await? {
            let Some(persona) = personas.get(&persona) else {
                continue;
            };
            let own = self.thread_budget(&thread).await?;
            let known = spending((inference, persona), (&thread, own), None, now);
            for account in known
                .accounts
                .iter()
                .filter(|account| account.id.scope == BudgetScope::Thread)
            {
                let is_bounded = account.cost_micros_max.or(account.tokens_max).is_some();
                if is_bounded && shown.insert(account.id.clone()) {
                    self.add_lines(&mut lines, account).await?;
                }
            }
            if own.run != Allowance::default() {
                let each_run = BudgetAccountId {
                    scope: BudgetScope::Thread,
                    owner: thread.to_string(),
                    period: String::new(),
                };
                lines.extend(each_run_of(&each_run, &known));
            }
        }
        Ok(lines)
    }

    async fn add_lines(&self, lines: &mut Vec<AccountLine>, account: &BudgetAccount) -> Result<()> {
        let BudgetBalance {
            spent_micros,
            reserved_micros,
            spent_tokens,
            reserved_tokens,
        } = self.account(&account.id).await?;
        let line = |unit, bound, spent, reserved| AccountLine {
            account: account.id.clone(),
            unit,
            bound,
            spent,
            reserved,
        };
        lines.push(line(
            "usd",
            account.cost_micros_max,
            spent_micros,
            reserved_micros,
        ));
        lines.push(line(
            "tokens",
            account.tokens_max,
            spent_tokens,
            reserved_tokens,
        ));
        Ok(())
    }
}

/// Bounds of each run of an account's owner; a run's own budget account is shown with the run.
fn each_run_of(whose: &BudgetAccountId, known: &Spending) -> [AccountLine; 2] {
    let line = |unit, bound| AccountLine {
        account: whose.clone(),
        unit,
        bound,
        spent: 0,
        reserved: 0,
    };
    [
        line("usd", known.run_cost_micros_max),
        line("tokens", Some(known.run_tokens_max)),
    ]
}
