//! `attache runs retry`: queues failed runs again, one or all that failed.

use super::ActionOutcome;
use crate::cli::CommandContext;
use crate::cli::args::{instant, persona_of};
use crate::domain::{ErrorClass, RunId};
use crate::store::{FailedRuns, Store};
use crate::text::plural;
use clap::ArgGroup;
use clap::builder::PossibleValuesParser;
use serde::Serialize;

/// Queue a failed, cancelled or waiting run for now, or with --failed all that failed
#[derive(clap::Args)]
#[command(group = ArgGroup::new("which").args(["id", "failed"]).required(true))]
pub struct RetryRuns {
    /// Its id, the last or first characters of it, or `last`
    id: Option<String>,
    /// All failed runs; says how many and waits for --yes
    #[arg(long, conflicts_with = "id")]
    failed: bool,
    // Not `requires = "failed"`: clap waives it when an argument that conflicts with it is given.
    /// Only those that failed with this class
    #[arg(
        long,
        conflicts_with = "id",
        value_parser = PossibleValuesParser::new(ErrorClass::ALL.iter().map(|class| class.as_str()))
    )]
    class: Option<String>,
    /// Only this persona's
    #[arg(long, value_name = "ID", conflicts_with = "id")]
    persona: Option<String>,
    /// Only those that failed since then, such as `12h`
    #[arg(long, value_name = "TIME", conflicts_with = "id")]
    since: Option<String>,
    /// Do it
    #[arg(long, conflicts_with = "id")]
    yes: bool,
}

impl RetryRuns {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<()> {
        let store = context.store_of_engine().await?;
        let Some(id) = &self.id else {
            return self.failed(context, &store).await;
        };
        let run = super::found(&store, id).await?;
        store.retry_run(&run).await?;
        if context.json() {
            return context.screen.json(&ActionOutcome {
                run: &run,
                outcome: "queued",
            });
        }
        let next = "a serving engine takes it within about a second, `attache drain` now";
        Ok(context.screen.line(format!("queued run {run}; {next}"))?)
    }

    /// Retries all failed runs at once, such as after an expired key.
    async fn failed(self, context: &CommandContext, store: &Store) -> anyhow::Result<()> {
        let which = FailedRuns {
            class: self.class.and_then(|word| ErrorClass::parse(&word)),
            persona: persona_of(context, store, self.persona).await?,
            since: self.since.as_deref().map(instant).transpose()?,
        };
        let found = store.failed_runs(&which).await?;
        let (count, is_meant) = (found.len(), self.yes);
        let ids = found.clone();
        let queued = if is_meant && count > 0 {
            store.retry_runs(found).await?
        } else {
            0
        };
        if context.json() {
            return context.screen.json(&RetriedRuns {
                found: count,
                queued,
                runs: ids,
            });
        }
        context.screen.line(match (count, is_meant) {
            (0, _) => "no run has failed so".to_owned(),
            (_, false) => format!("{count} failed runs would be queued again; say --yes to do it"),
            (_, true) => {
                format!(
                    "queued {}; a serving engine takes them at once, `attache drain` now",
                    plural(queued, "run")
                )
            }
        })?;
        Ok(())
    }
}

/// Outcome of retrying all failed runs.
#[derive(Serialize)]
struct RetriedRuns {
    found: usize,
    queued: usize,
    runs: Vec<RunId>,
}
