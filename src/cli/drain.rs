//! `attache drain`: processes everything that is queued and due, then ends. For cron jobs, tests
//! and workspaces without a server.

use super::screen::progress;
use super::{CommandContext, Exit};
use crate::app::{Drained, Engine};
use crate::clock::{Clock, SystemClock};
use crate::domain::{RunId, RunState, Timestamp};
use crate::store::{DeliveryFilter, DeliveryState, RunFilter, RunSummary, Store};
use crate::text::plural;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of failed runs that are reported one by one.
const FAILURES_SHOWN_MAX: u32 = 20;
/// Maximum number of unsent mails that are counted.
const MAILS_COUNTED_MAX: u32 = 10_000;
/// Maximum number of runs that wait for their owner and are counted.
const RUNS_COUNTED_MAX: u32 = 10_000;
/// Interval at which the progress line reads the queue.
const GLANCE: Duration = Duration::from_millis(200);

pub async fn drain(context: &CommandContext) -> anyhow::Result<Exit> {
    context.require_workspace()?;
    let clock = Arc::new(SystemClock::new());
    let began = clock.now();
    let engine = Engine::open(context.config()?, clock).await?;
    let drained = {
        let working = engine.drain();
        tokio::pin!(working);
        let bar = progress::spinner(context, "beginning");
        loop {
            tokio::select! {
                drained = &mut working => {
                    bar.finish_and_clear();
                    break drained?;
                }
                () = tokio::time::sleep(GLANCE) => {
                    let open = engine.store.count_open_runs().await?;
                    bar.set_message(format!("{open} runs to go"));
                    bar.tick();
                }
            }
        }
    };
    let reported = report(context, &engine.store, drained, began).await;
    // Its node leaves, so that whoever needs the database alone has not to wait for the end of a lease.
    engine.store.close().await;
    reported
}

/// Outcome of a drain.
#[derive(Serialize)]
struct DrainReport {
    runs: usize,
    delivery_attempts: usize,
    ended: EndedRuns,
    /// For another try.
    waiting: u64,
    /// For the owner, these or earlier ones.
    waiting_approval: usize,
    mails_queued: usize,
    failures: Vec<FailedRun>,
}

/// Ended runs by their states.
#[derive(Serialize)]
struct EndedRuns {
    succeeded: u64,
    failed: u64,
    cancelled: u64,
}

/// A failed run with its cause.
#[derive(Serialize)]
struct FailedRun {
    run: RunId,
    error_class: String,
    error_message: String,
}

impl From<RunSummary> for FailedRun {
    fn from(run: RunSummary) -> Self {
        Self {
            run: run.id,
            error_class: run
                .error_class
                .map(|class| class.to_string())
                .unwrap_or_default(),
            error_message: run.error_message.unwrap_or_default(),
        }
    }
}

async fn report(
    context: &CommandContext,
    store: &Store,
    drained: Drained,
    began: Timestamp,
) -> anyhow::Result<Exit> {
    let report = DrainReport::of(store, &drained, began).await?;
    let exit = match report.ended.failed {
        0 => Exit::Ok,
        _ => Exit::Failed,
    };
    if context.json() {
        context.screen.json(&report)?;
    } else {
        report.print(context)?;
        for halt in store.halts().await? {
            super::screen::remark(&super::halt::sentence(&halt));
        }
    }
    Ok(exit)
}

impl DrainReport {
    async fn of(store: &Store, drained: &Drained, began: Timestamp) -> anyhow::Result<Self> {
        let counts = store.runs_ended_since(began).await?;
        let count = |state| {
            let counted = counts.iter().find(|(of, _)| *of == state);
            counted.map_or(0, |(_, count)| *count)
        };
        let ended = EndedRuns {
            succeeded: count(RunState::Succeeded),
            failed: count(RunState::Failed),
            cancelled: count(RunState::Cancelled),
        };
        let queued = DeliveryFilter {
            after: None,
            states: vec![DeliveryState::Queued],
            persona: None,
            limit: MAILS_COUNTED_MAX,
        };
        let failed = RunFilter {
            states: vec![RunState::Failed],
            ended_since: Some(began),
            limit: FAILURES_SHOWN_MAX,
            ..RunFilter::default()
        };
        let asking = RunFilter {
            states: vec![RunState::WaitingApproval],
            limit: RUNS_COUNTED_MAX,
            ..RunFilter::default()
        };
        let asking = store.list_runs(&asking).await?;
        let is_new = |run: &&RunSummary| run.started_at.is_some_and(|at| at >= began);
        let asking_now = asking.iter().filter(is_new).count() as u64;
        let all = ended.succeeded + ended.failed + ended.cancelled + asking_now;
        let failures = match ended.failed {
            0 => Vec::new(),
            _ => store.list_runs(&failed).await?,
        };
        Ok(Self {
            runs: drained.runs,
            delivery_attempts: drained.mails,
            waiting: (drained.runs as u64).saturating_sub(all),
            waiting_approval: asking.len(),
            ended,
            mails_queued: store.list_deliveries(&queued).await?.len(),
            failures: failures.into_iter().map(FailedRun::from).collect(),
        })
    }

    fn print(&self, context: &CommandContext) -> anyhow::Result<()> {
        let EndedRuns {
            succeeded,
            failed,
            cancelled,
        } = self.ended;
        let (screen, waiting) = (&context.screen, self.waiting);
        let of_runs = format!(
            "{succeeded} succeeded, {failed} failed, {cancelled} cancelled, {waiting} waiting for a retry"
        );
        let (attempts, queued) = (self.delivery_attempts, self.mails_queued);
        screen.fields(&[
            ("runs worked on", format!("{} ({of_runs})", self.runs)),
            (
                "delivery attempts",
                format!("{attempts} ({queued} mails are still queued)"),
            ),
        ])?;
        for failure in &self.failures {
            let (class, why) = (&failure.error_class, &failure.error_message);
            screen.line(format!("failed  {}  {class}: {why}", failure.run))?;
        }
        if waiting > 0 {
            screen.line(
                "`attache runs list --state waiting_retry` shows what waits, and `runs show` why",
            )?;
        }
        if self.waiting_approval > 0 {
            screen.line(format!(
                "{} waiting for your approval: `attache approvals list`",
                plural(self.waiting_approval, "run")
            ))?;
        }
        if let Some(failure) = self.failures.first() {
            screen.line(format!(
                "`attache replay {}` shows what happened",
                failure.run
            ))?;
        }
        Ok(())
    }
}
