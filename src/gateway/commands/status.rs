//! What `/status` reports of one persona, read from the store. Every list is bounded.

use crate::config::Config;
use crate::domain::{BudgetAccountId, BudgetScope, PersonaId, RunState, day_of};
use crate::gateway::failing::failing_servers;
use crate::store::{PersonaHalt, Result, RunFilter, Store};

/// Most open runs that are counted.
pub const RUNS_COUNTED_MAX: u32 = 500;

/// State of a persona and of the servers that it needs.
#[derive(Debug, Default)]
pub struct PersonaStatus {
    /// Halts that stop it.
    pub halts: Vec<PersonaHalt>,
    pub queued: usize,
    pub running: usize,
    /// Runs that wait for a retry or for money.
    pub waiting: usize,
    /// Runs that wait for a decision of an owner.
    pub asking: usize,
    /// Micro-dollars since midnight, with what is reserved for calls under way.
    pub spent_micros: i64,
    pub spent_tokens: i64,
    /// Servers that fail, one sentence each.
    pub failing: Vec<String>,
}

impl PersonaStatus {
    pub async fn read(store: &Store, config: &Config, persona: &PersonaId) -> Result<Self> {
        let failing = failing_servers(store, &config.gateway.mailboxes).await?;
        let mut status = Self {
            halts: store.halts().await?,
            failing: failing.iter().map(ToString::to_string).collect(),
            ..Self::default()
        };
        status.halts.retain(|halt| halt.stops(persona));
        let open = RunFilter {
            states: vec![
                RunState::Queued,
                RunState::Running,
                RunState::WaitingRetry,
                RunState::WaitingApproval,
            ],
            persona: Some(persona.clone()),
            limit: RUNS_COUNTED_MAX,
            ..RunFilter::default()
        };
        for run in store.list_runs(&open).await? {
            match run.state {
                RunState::Running => status.running += 1,
                RunState::WaitingRetry => status.waiting += 1,
                RunState::WaitingApproval => status.asking += 1,
                // Behind an earlier run of its thread, or halted: it is queued all the same.
                _ => status.queued += 1,
            }
        }
        let now = store.clock().now();
        let account = BudgetAccountId {
            scope: BudgetScope::Persona,
            owner: persona.to_string(),
            period: day_of(now, &config.inference.budgets.zone),
        };
        let balance = store.account(&account).await?;
        status.spent_micros = balance.spent_micros.saturating_add(balance.reserved_micros);
        status.spent_tokens = balance.spent_tokens;
        Ok(status)
    }
}
