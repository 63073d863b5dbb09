//! What `/status` reports of one persona, read from the store. Every list is bounded.

use crate::config::Config;
use crate::domain::{BudgetAccountId, BudgetScope, PersonaId, RunState, Timestamp, day_of};
use crate::store::{PersonaHalt, Result, RunFilter, Store, TransportState};
use std::time::Duration;

/// Most open runs that are counted.
pub const RUNS_COUNTED_MAX: u32 = 500;
/// Age from which the failure of a provider is old.
const PROVIDER_FAILURE_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

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
        let mut status = Self {
            halts: store.halts().await?,
            failing: failing_servers(store, config).await?,
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

async fn failing_servers(store: &Store, config: &Config) -> Result<Vec<String>> {
    let now = store.clock().now();
    let mut failing = Vec::new();
    if let Some(health) = store.transport_health().await? {
        let since = health.since;
        match health.state {
            TransportState::Well => {}
            TransportState::Unreachable => {
                failing.push(format!("the mail server is away since {since}"));
            }
            TransportState::AuthFailed => {
                failing.push(format!("the mail server refuses the login since {since}"));
            }
        }
    }
    for mailbox in &config.gateway.mailboxes {
        let Some(health) = store.mailbox_health(&mailbox.name).await? else {
            continue;
        };
        if let Some(at) = health
            .last_error_at
            .filter(|at| Some(*at) > health.last_fetch_at)
        {
            failing.push(format!("mailbox `{}` failed at {at}", mailbox.name));
        }
    }
    for provider in store.provider_calls().await? {
        let is_recent = |at: &Timestamp| now.since(*at) <= PROVIDER_FAILURE_AGE_MAX;
        let last = provider.last_failure_at.filter(is_recent);
        if let Some(at) = last.filter(|at| Some(*at) > provider.last_success_at) {
            let class = provider.last_failure_class.unwrap_or_default();
            failing.push(format!(
                "provider `{}` failed at {at} ({class}) and has not answered since",
                provider.provider
            ));
        }
    }
    Ok(failing)
}
