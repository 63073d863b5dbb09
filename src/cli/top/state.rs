//! The state of an engine at one instant.

use crate::domain::{ApprovalState, RunState, Timestamp, day_of};
use crate::store::{
    DeliveryFilter, DeliveryState, ListPage, RunFilter, RunSummary, Store, StoreError,
    TransportState, UsageSince, working_engine,
};
use chrono_tz::Tz;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use std::path::Path;

/// Most rows that are counted.
pub const COUNTED_MAX: usize = 200;
/// Most runs at work that are named.
const AT_WORK_MAX: usize = 10;

/// States of mails that an owner may have to look at, with their words.
const MAILS: [(&str, &[DeliveryState]); 3] = [
    ("waiting", &DeliveryState::UNDERWAY),
    ("held", &[DeliveryState::Held]),
    ("failed", &[DeliveryState::Failed]),
];

/// The state of an engine at one instant. Counts go up to [`COUNTED_MAX`].
#[derive(Serialize)]
pub struct TopState {
    pub at: Timestamp,
    /// Process of the engine; `None`: none is at work.
    pub engine: Option<String>,
    /// Personas that are halted.
    pub halted: Vec<String>,
    /// Number of runs of each state that is no end, in the order of [`RunState::ALL`].
    #[serde(serialize_with = "by_state")]
    pub runs: Vec<usize>,
    #[serde(serialize_with = "by_word")]
    pub mails: Vec<(&'static str, usize)>,
    /// Whether mail leaves, in words.
    pub transport: String,
    pub questions: usize,
    pub today: TodaySum,
    pub waiting_for_money: i64,
    /// Runs at work, the newest first.
    pub at_work: Vec<RunSummary>,
}

/// Sum of what calls cost since midnight in the zone of the budgets.
#[derive(Serialize)]
pub struct TodaySum {
    /// Name of the zone in which the day began.
    pub timezone: &'static str,
    pub calls: i64,
    /// Known cost in micro-dollars.
    pub cost_micros: i64,
}

impl TopState {
    /// Reads the state of a workspace.
    pub async fn of(store: &Store, workspace: &Path, zone: Tz) -> Result<Self, StoreError> {
        let now = store.clock().now();
        let midnight = UsageSince::Day(day_of(now, &zone));
        let mut runs = Vec::new();
        let mut at_work = Vec::new();
        for state in RunState::ALL {
            let found = match state.is_terminal() {
                true => Vec::new(),
                false => runs_in(store, *state).await?,
            };
            runs.push(found.len());
            if *state == RunState::Running {
                at_work = found;
            }
        }
        at_work.truncate(AT_WORK_MAX);
        let mut mails = Vec::new();
        for (word, states) in MAILS {
            let filter = DeliveryFilter {
                after: None,
                states: states.to_vec(),
                persona: None,
                limit: COUNTED_MAX as u32,
            };
            mails.push((word, store.list_deliveries(&filter).await?.len()));
        }
        let health = store.transport_health().await?;
        let stopped = health.filter(|health| health.state != TransportState::Well);
        let open = Some(ApprovalState::Open);
        let today = store.usage_total(&midnight).await?;
        let halted = store.halts().await?.into_iter().map(|halt| {
            let persona = halt.persona.map(|persona| persona.to_string());
            persona.unwrap_or_else(|| "every persona".to_owned())
        });
        Ok(Self {
            at: now,
            engine: working_engine(workspace),
            halted: halted.collect(),
            runs,
            mails,
            transport: match stopped {
                Some(health) => format!("no mail leaves: {}", health.reason),
                None => "mail leaves".to_owned(),
            },
            questions: store
                .approvals(open, None, ListPage::first(COUNTED_MAX as u32))
                .await?
                .len(),
            today: TodaySum {
                timezone: zone.name(),
                calls: today.calls,
                cost_micros: today.cost_micros.unwrap_or_default(),
            },
            waiting_for_money: store.runs_waiting_for_money().await?,
            at_work,
        })
    }
}

async fn runs_in(store: &Store, state: RunState) -> Result<Vec<RunSummary>, StoreError> {
    let filter = RunFilter {
        states: vec![state],
        persona: None,
        since: None,
        ended_since: None,
        limit: COUNTED_MAX as u32,
        offset: 0,
    };
    store.list_runs(&filter).await
}

fn by_state<S: Serializer>(counts: &[usize], to: S) -> Result<S::Ok, S::Error> {
    let open = RunState::ALL.iter().zip(counts);
    let open = open.filter(|(state, _)| !state.is_terminal());
    let mut map = to.serialize_map(None)?;
    for (state, count) in open {
        map.serialize_entry(state.as_str(), count)?;
    }
    map.end()
}

fn by_word<S: Serializer>(counts: &[(&'static str, usize)], to: S) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(Some(counts.len()))?;
    for (word, count) in counts {
        map.serialize_entry(word, count)?;
    }
    map.end()
}
