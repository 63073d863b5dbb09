//! The state of a workspace at one instant, as far as its files and its database tell.

use crate::cli::CommandContext;
use crate::cli::args::in_force::{self, NotInForce};
use crate::cli::process::exit::of_open;
use crate::cli::process::other::is_stopped;
use crate::config::Config;
use crate::domain::{BudgetScope, PersonaId, Timestamp, day_of, midnight};
use crate::gateway::failing::{FailingServer, failing_servers};
use crate::gateway::intake::free_disk_bytes;
use crate::store::{
    BudgetRecord, DatabasePlace, EngineAtWork, FailedWork, NewestBackup, NodeRecord, OpenError,
    PersonaHalt, Store, StoreError, StoredResponsibility, UsageSince, WaitingWork, WebhookStatus,
    engine_at_work,
};
use crate::text::with_causes;
use chrono_tz::Tz;
use serde::Serialize;
use std::path::Path;

/// The state of a workspace at one instant.
#[derive(Serialize)]
pub struct WorkspaceStatus {
    pub at: Timestamp,
    /// `serving`, `stopped` (its process is halted by a signal) or `none`.
    pub engine: EngineState,
    /// Process that holds the workspace.
    pub pid: Option<u32>,
    /// When it took the workspace.
    pub since: Option<Timestamp>,
    /// Version of its program.
    pub version: Option<String>,
    /// Files that it has not read as they are now.
    #[serde(flatten)]
    pub not_in_force: NotInForce,
    /// Problems of the configuration because of which the next start would fail.
    pub configuration_problems: usize,
    /// Why letters are refused for want of disk space; `None`: they are not.
    pub disk_shortage: Option<DiskShortage>,
    /// `None`: there is no database yet, or it cannot be read.
    pub records: Option<RecordsStatus>,
    /// Why it cannot be read.
    pub database_error: Option<String>,
    /// What to do then.
    pub database_remedy: Option<String>,
    /// Since when the server of the database does not answer the engine of this workspace.
    pub server_away_since: Option<Timestamp>,
    /// `true`: no letter can be taken, because the server of the database does not answer.
    pub is_server_away: bool,
}

/// State of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineState {
    Serving,
    Stopped,
    None,
}

/// Room on the disk below `data`, where it is less than the gateway takes letters with.
#[derive(Serialize)]
pub struct DiskShortage {
    pub free_bytes: u64,
    /// `limits.free_disk_bytes_min`.
    pub free_bytes_min: u64,
}

/// What the database tells.
#[derive(Serialize)]
pub struct RecordsStatus {
    /// Engines that share the database, where it is on a server.
    pub nodes: Vec<NodeRecord>,
    pub waiting: WaitingWork,
    pub failed_today: FailedWork,
    pub cost_today: CostToday,
    /// Budgets of the engine and of personas that have a bound.
    pub budgets: Vec<BudgetRecord>,
    pub halts: Vec<PersonaHalt>,
    /// Mail server, mailboxes and providers that fail.
    pub away: Vec<FailingServer>,
    /// Webhooks that are off, or rest because their servers are away.
    pub webhooks_away: Vec<WebhookStatus>,
    pub next_slot: Option<NextDue>,
    pub last_backup: Option<NewestBackup>,
    /// Erasures of a person that were begun and are not finished.
    pub interrupted_erasures: usize,
}

/// Sum of what calls cost since midnight in the zone of the budgets.
#[derive(Serialize)]
pub struct CostToday {
    pub timezone: &'static str,
    pub calls: i64,
    /// Known cost in micro-dollars.
    pub cost_micros: i64,
    /// Calls whose cost is unknown.
    pub unknown_cost: i64,
}

/// The scheduled task that fires next.
#[derive(Serialize)]
pub struct NextDue {
    pub at: Timestamp,
    pub persona: PersonaId,
    pub name: String,
}

impl WorkspaceStatus {
    /// Reads the state. `store` is `None` where there is no database yet.
    pub async fn of(
        context: &CommandContext,
        place: &DatabasePlace,
        store: Option<Result<Store, OpenError>>,
        now: Timestamp,
    ) -> anyhow::Result<Self> {
        // A configuration that cannot be read is no reason to show nothing.
        let (config, configuration_problems) = match context.config() {
            Ok(config) => (Some(config), 0),
            Err(errors) => (None, errors.problems.len()),
        };
        let disk_shortage = config
            .as_ref()
            .and_then(|config| disk_shortage(&context.workspace, config));
        let (engine, of) = engine(engine_at_work(&context.workspace));
        let (records, unopened) = match store {
            Some(Ok(store)) => match RecordsStatus::of(&store, config.as_ref(), now).await {
                Ok(records) => (Some(records), None),
                // It fell silent meanwhile.
                Err(error) => (None, Some(place.away(error.downcast::<StoreError>()?)?)),
            },
            Some(Err(error)) => (None, Some(error)),
            None => (None, None),
        };
        let is_server_away = matches!(unopened, Some(OpenError::NoServer { .. }));
        let away_since = place.away_since(&context.workspace);
        Ok(Self {
            at: now,
            engine,
            pid: of.as_ref().and_then(|of| of.pid.parse().ok()),
            since: of.as_ref().and_then(|of| of.since),
            version: of.and_then(|of| of.version),
            not_in_force: in_force::compare(context),
            configuration_problems,
            disk_shortage,
            records,
            database_error: unopened.as_ref().map(|error| match is_server_away {
                true => with_causes(error),
                false => error.to_string(),
            }),
            database_remedy: unopened.as_ref().and_then(|error| of_open(error).1),
            server_away_since: away_since.filter(|_| is_server_away),
            is_server_away,
        })
    }
}

/// Looks at the disk as the gateway does before it takes a letter.
fn disk_shortage(workspace: &Path, config: &Config) -> Option<DiskShortage> {
    let data = workspace.join("data");
    let folder = if data.is_dir() { &data } else { workspace };
    let free_bytes = free_disk_bytes(folder).ok()?;
    let free_bytes_min = config.limits.free_disk_bytes_min;
    (free_bytes < free_bytes_min).then_some(DiskShortage {
        free_bytes,
        free_bytes_min,
    })
}

fn engine(found: Option<EngineAtWork>) -> (EngineState, Option<EngineAtWork>) {
    let state = match &found {
        None => EngineState::None,
        Some(of) if is_stopped(&of.pid) => EngineState::Stopped,
        Some(_) => EngineState::Serving,
    };
    (state, found)
}

impl RecordsStatus {
    /// Reports whether an engine works on the database, in this workspace or another.
    pub fn has_working_node(&self) -> bool {
        self.nodes.iter().any(NodeRecord::is_alive)
    }

    async fn of(store: &Store, config: Option<&Config>, now: Timestamp) -> anyhow::Result<Self> {
        let zone = config.map_or(Tz::UTC, |config| config.inference.budgets.zone);
        let usage = store
            .usage_total(&UsageSince::Day(day_of(now, &zone)))
            .await?;
        let mailboxes = config.map_or(&[][..], |config| &config.gateway.mailboxes);
        let webhooks = store.webhooks().await?.into_iter();
        let nodes = store.nodes().await?.into_iter();
        Ok(Self {
            nodes: nodes.filter(|node| node.lease_ms.is_some()).collect(),
            waiting: store.waiting_work().await?,
            failed_today: store.failed_work(midnight(now, &zone)).await?,
            cost_today: CostToday {
                timezone: zone.name(),
                calls: usage.calls,
                cost_micros: usage.cost_micros.unwrap_or_default(),
                unknown_cost: usage.unknown_cost,
            },
            budgets: budgets(store, config, now).await?,
            halts: store.halts().await?,
            away: failing_servers(store, mailboxes).await?,
            webhooks_away: webhooks.filter(|hook| !hook.may_be_asked(now)).collect(),
            next_slot: next_slot(store.responsibilities().await?),
            last_backup: store.newest_backup().await?,
            interrupted_erasures: store.open_erasures().await?.len(),
        })
    }
}

/// Returns the bounded accounts of the engine and of personas.
async fn budgets(
    store: &Store,
    config: Option<&Config>,
    now: Timestamp,
) -> anyhow::Result<Vec<BudgetRecord>> {
    let Some(config) = config else {
        return Ok(Vec::new());
    };
    let lines = store
        .account_lines(&config.inference, &config.personas, now)
        .await?;
    let bounded = lines.iter().filter(|line| {
        let scope = line.account.scope;
        let is_shared = matches!(scope, BudgetScope::Engine | BudgetScope::Persona);
        is_shared && line.bound.is_some() && line.account.span() != "run"
    });
    Ok(bounded.map(BudgetRecord::from).collect())
}

fn next_slot(rows: Vec<StoredResponsibility>) -> Option<NextDue> {
    let fires = |row: &StoredResponsibility| {
        let is_on = row.enabled && row.paused.is_none() && row.removed_at.is_none();
        is_on && row.error.is_none() && !row.next.is_done
    };
    let due = rows.into_iter().filter(fires).filter_map(|row| {
        Some(NextDue {
            at: row.next.fire_at.or(row.next.at)?,
            persona: row.persona,
            name: row.name,
        })
    });
    due.min_by_key(|next| next.at)
}
