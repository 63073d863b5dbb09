//! `attache drain`: processes everything that is queued and due, then ends. For cron jobs, tests
//! and workspaces without a server.

use super::{Command, Context, Exit, progress};
use crate::app::{Drained, Engine};
use crate::clock::{Clock, SystemClock};
use crate::domain::{RunState, Timestamp};
use crate::store::{DeliveryFilter, DeliveryState, RunFilter, Store};
use clap::ArgMatches;
use futures_util::future::BoxFuture;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

pub struct Drain;

/// Maximum number of failed runs that are reported one by one.
const FAILURES_SHOWN_MAX: u32 = 20;
/// Maximum number of unsent mails that are counted.
const MAILS_COUNTED_MAX: u32 = 10_000;
/// Interval at which the progress line reads the queue.
const GLANCE: Duration = Duration::from_millis(200);

impl Command for Drain {
    fn clap(&self) -> clap::Command {
        clap::Command::new("drain").about(
            "Work off the runs and mails that are due, then end; exit code 1 if a run failed",
        )
    }
    fn run<'a>(
        &'a self,
        context: &'a Context,
        _args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move { drain(context).await })
    }
}

async fn drain(context: &Context) -> anyhow::Result<Exit> {
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
    report(context, &engine.store, drained, began).await
}

async fn report(
    context: &Context,
    store: &Store,
    drained: Drained,
    began: Timestamp,
) -> anyhow::Result<Exit> {
    let ended = store.runs_ended_since(began).await?;
    let count = |state| {
        ended
            .iter()
            .find(|(of, _)| *of == state)
            .map_or(0, |(_, count)| *count)
    };
    let (succeeded, failed) = (count(RunState::Succeeded), count(RunState::Failed));
    let cancelled = count(RunState::Cancelled);
    let waiting = (drained.runs as u64).saturating_sub(succeeded + failed + cancelled);
    let queued = DeliveryFilter {
        states: vec![DeliveryState::Queued],
        persona: None,
        limit: MAILS_COUNTED_MAX,
    };
    let queued = store.list_deliveries(&queued).await?.len();
    let exit = if failed > 0 { Exit::Failed } else { Exit::Ok };
    let worst = RunFilter {
        states: vec![RunState::Failed],
        ended_since: Some(began),
        limit: FAILURES_SHOWN_MAX,
        ..RunFilter::default()
    };
    let failures = if failed > 0 {
        store.list_runs(&worst).await?
    } else {
        Vec::new()
    };
    let why = |run: &crate::store::RunSummary| run.error_message.clone().unwrap_or_default();
    let class =
        |run: &crate::store::RunSummary| run.error_class.map(|c| c.to_string()).unwrap_or_default();
    if context.json() {
        let failures = failures.iter().map(
            |run| json!({ "run": run.id.as_str(), "error_class": class(run), "error_message": why(run) }),
        );
        context.screen.json(&json!({
            "runs": drained.runs,
            "delivery_attempts": drained.mails,
            "ended": { "succeeded": succeeded, "failed": failed, "cancelled": cancelled },
            "waiting": waiting,
            "mails_queued": queued,
            "failures": failures.collect::<Vec<_>>(),
        }))?;
        return Ok(exit);
    }
    let of_runs = format!(
        "{succeeded} succeeded, {failed} failed, {cancelled} cancelled, {waiting} waiting for a retry"
    );
    context.screen.fields(&[
        ("runs worked on", format!("{} ({of_runs})", drained.runs)),
        (
            "delivery attempts",
            format!("{} ({queued} mails are still queued)", drained.mails),
        ),
    ])?;
    for run in &failures {
        context
            .screen
            .line(format!("failed  {}  {}: {}", run.id, class(run), why(run)))?;
    }
    if waiting > 0 {
        context.screen.line(
            "`attache runs list --state waiting_retry` shows what waits, and `runs show` why",
        )?;
    }
    if let Some(run) = failures.first() {
        context
            .screen
            .line(format!("`attache replay {}` shows what happened", run.id))?;
    }
    Ok(exit)
}
