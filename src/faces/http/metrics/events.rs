//! Counters of what happened since the engine's start, from the feed: each scrape reads what is new.

use super::exposition::{Exposition, MetricFamily, SampleKind};
use crate::domain::{FeedKind, RunId, Timestamp};
use crate::store::{FeedEvent, FeedFilter, Result, Store};
use std::collections::{BTreeMap, HashMap};
use tokio::sync::Mutex;

/// Most events that one statement reads.
const PAGE: u32 = 1_000;
/// Most runs under way whose begin is known.
const RUNS_MAX: usize = 10_000;
/// Upper bounds of the histogram's buckets, in seconds.
const BOUNDS: [u64; 8] = [1, 5, 15, 60, 300, 900, 3_600, 86_400];

/// Families of counters by what an event is about.
static FAMILIES: [(&str, &str, &str); 10] = [
    (
        "letter",
        "attache_letters_total",
        "Letters stored: with a run, filed by a rule, or held.",
    ),
    (
        "run",
        "attache_run_changes_total",
        "Runs that came into a state.",
    ),
    (
        "turn",
        "attache_turns_total",
        "Turns of models, answered and failed.",
    ),
    (
        "call",
        "attache_tool_calls_total",
        "Calls of tools, begun and finished.",
    ),
    (
        "delivery",
        "attache_deliveries_total",
        "Mails that came into a state.",
    ),
    (
        "approval",
        "attache_approvals_total",
        "Questions to owners, asked and decided.",
    ),
    (
        "notice",
        "attache_notices_total",
        "Notices of what went wrong.",
    ),
    (
        "slot",
        "attache_slots_total",
        "Due times of schedules, by what became of them.",
    ),
    (
        "memory",
        "attache_memory_total",
        "Entries of memory that were proposed.",
    ),
    (
        "configuration",
        "attache_configuration_reads_total",
        "Readings of edited files of the configuration: in force, or refused.",
    ),
];

/// Counters of one listener.
pub(in crate::http) struct EventCounts {
    since: Timestamp,
    counted: Mutex<Option<Counted>>,
}

/// What was counted up to an event.
#[derive(Default)]
struct Counted {
    through: i64,
    /// Number of events by kind and persona; without a persona: an empty name.
    events: BTreeMap<(&'static str, String), u64>,
    /// Instants at which runs under way were queued.
    queued: HashMap<RunId, Timestamp>,
    seconds: Histogram,
    /// Times that events were pruned before they were counted.
    gaps: u64,
}

/// Durations of runs.
#[derive(Default)]
struct Histogram {
    buckets: [u64; BOUNDS.len()],
    count: u64,
    sum: f64,
}

impl EventCounts {
    /// Begins at an instant; what is in the feed before it is not counted.
    pub(in crate::http) fn since_instant(since: Timestamp) -> Self {
        Self {
            since,
            counted: Mutex::default(),
        }
    }

    pub(super) fn since(&self) -> Timestamp {
        self.since
    }

    /// Counts what is new, and writes all counters.
    pub(super) async fn add_to(&self, to: &mut Exposition, store: &Store) -> Result<()> {
        let mut counted = self.counted.lock().await;
        let counted = match &mut *counted {
            Some(counted) => counted,
            none => none.insert(Counted {
                through: store.feed_before(self.since).await?,
                ..Counted::default()
            }),
        };
        counted.catch_up(store).await?;
        counted.write(to);
        Ok(())
    }
}

impl Counted {
    async fn catch_up(&mut self, store: &Store) -> Result<()> {
        loop {
            let page = store
                .feed_after(self.through, &FeedFilter::default(), PAGE)
                .await?;
            self.gaps += u64::from(page.has_gap);
            page.events.iter().for_each(|event| self.count(event));
            self.through = page.through;
            if !page.has_more() {
                return Ok(());
            }
        }
    }

    fn count(&mut self, event: &FeedEvent) {
        let persona = event.persona.as_ref().map(ToString::to_string);
        *self
            .events
            .entry((event.kind.as_str(), persona.unwrap_or_default()))
            .or_default() += 1;
        let Some(run) = &event.run else { return };
        match event.kind {
            FeedKind::LetterRun | FeedKind::RunQueued if self.queued.len() < RUNS_MAX => {
                self.queued.entry(run.clone()).or_insert(event.at);
            }
            FeedKind::RunSucceeded | FeedKind::RunFailed | FeedKind::RunCancelled => {
                if let Some(queued) = self.queued.remove(run) {
                    self.seconds.add(event.at.since(queued).as_secs_f64());
                }
            }
            _ => {}
        }
    }

    fn write(&self, to: &mut Exposition) {
        for (subject, name, help) in FAMILIES {
            let mut family = to.family(name, SampleKind::Counter, help);
            for ((kind, persona), count) in &self.events {
                let (about, state) = kind.split_once('.').unwrap_or_default();
                if about == subject {
                    let labels = [("persona", persona.as_str()), ("state", state)];
                    family.sample(&labels, *count as f64);
                }
            }
        }
        let help = "Time from the queue to the end of a run, its waits included.";
        self.seconds
            .write(&mut to.family("attache_run_seconds", SampleKind::Histogram, help));
        let help = "Times that events were pruned before a scrape counted them.";
        to.family("attache_feed_gaps_total", SampleKind::Counter, help)
            .sample(&[], self.gaps as f64);
    }
}

impl Histogram {
    fn add(&mut self, seconds: f64) {
        for (bucket, bound) in self.buckets.iter_mut().zip(BOUNDS) {
            *bucket += u64::from(seconds <= bound as f64);
        }
        self.count += 1;
        self.sum += seconds;
    }

    fn write(&self, family: &mut MetricFamily<'_>) {
        for (count, bound) in self.buckets.iter().zip(BOUNDS) {
            family.sample_of("_bucket", &[("le", &bound.to_string())], *count as f64);
        }
        family.sample_of("_bucket", &[("le", "+Inf")], self.count as f64);
        family.sample_of("_sum", &[], self.sum);
        family.sample_of("_count", &[], self.count as f64);
    }
}
