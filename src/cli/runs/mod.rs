//! `attache runs list|show|cancel|retry|answer`: the runs of the personas, and the operator's
//! actions on them.

mod show;

use super::args::lookup::{find_letter, find_run, no_such_run};
use super::args::{PageArgs, instant, persona_of};
use super::process::exit::judge;
use super::screen::Columns;
use super::{CommandContext, Exit, Failure};
use crate::app::Engine;
use crate::clock::SystemClock;
use crate::domain::{ErrorClass, MessageId, RunId, RunState};
use crate::replay::load_run;
use crate::store::{
    Cancellation, FailedRuns, OpenError, RunFilter, RunSummary, Store, working_engine,
};
use crate::text::plural;
use clap::ArgGroup;
use clap::builder::PossibleValuesParser;
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;

/// List, show, cancel and retry runs, and answer what was filed
#[derive(clap::Subcommand)]
pub enum RunsCommand {
    /// List runs, the newest first
    List {
        #[command(flatten)]
        page: PageArgs,
        /// Only runs in this state; may be given several times
        #[arg(
            long,
            value_delimiter = ',',
            value_parser = PossibleValuesParser::new(RunState::ALL.iter().map(|state| state.as_str()))
        )]
        state: Vec<String>,
        /// Only runs queued since then: `30m`, `24h`, `7d`, 2026-11-20 (midnight UTC), or 2026-11-20T09:00:00Z
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
    },
    /// Show what is known of a run, in tables; `replay` tells it as a story
    Show {
        /// Its id, the last or first characters of it, or `last`
        id: String,
    },
    /// End a run that has not ended; one that an engine left behind, too
    Cancel {
        /// Its id, the last or first characters of it, or `last`
        id: String,
    },
    /// Answer a letter that a rule has filed
    Answer {
        /// The letter's id, the last or first characters of it, or `last` for the newest that is filed
        id: String,
    },
    Retry(RetryRuns),
}

impl RunsCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        match self {
            Self::List { page, state, since } => list(context, page, &state, since).await?,
            Self::Show { id } => {
                let store = context.shared_store().await?;
                let run = found(&store, &id).await?;
                show::show(context, &load_run(&store, &run).await?)?;
            }
            Self::Cancel { id } => {
                let store = context.shared_store().await?;
                let run = found(&store, &id).await?;
                cancel(context, &store, &run).await?;
            }
            Self::Answer { id } => {
                let store = context.store_of_engine().await?;
                let message = find_letter(&store, &id).await?;
                answer(context, &store, &message).await?;
            }
            Self::Retry(it) => it.run(context).await?,
        }
        Ok(Exit::Ok)
    }
}

async fn found(store: &Store, id: &str) -> anyhow::Result<RunId> {
    match find_run(store, id).await {
        Ok(run) => Ok(run),
        Err(error) => Err(no_such_run(store, error).await),
    }
}

async fn list(
    context: &CommandContext,
    page: PageArgs,
    states: &[String],
    since: Option<String>,
) -> anyhow::Result<()> {
    let since = since.as_deref().map(instant).transpose()?;
    let store = context.shared_store().await?;
    let filter = RunFilter {
        states: states
            .iter()
            .filter_map(|word| RunState::parse(word))
            .collect(),
        persona: persona_of(context, &store, page.persona).await?,
        since,
        ended_since: None,
        limit: page.limit,
        offset: page.offset,
    };
    let runs = store.list_runs(&filter).await?;
    let row = |run: &RunSummary| {
        let why = run.waits_for.map(|wait| wait.to_string());
        let why = why
            .or_else(|| run.error_class.map(|class| class.to_string()))
            .or_else(|| run.stop_reason.map(|stop| stop.to_string()))
            .unwrap_or_default();
        vec![
            run.id.to_string(),
            run.created_at.to_string(),
            run.persona.to_string(),
            run.trigger.to_string(),
            run.state.to_string(),
            why,
            run.subject.clone(),
        ]
    };
    let columns = Columns::of(&[
        "ID", "QUEUED", "PERSONA", "TRIGGER", "STATE", "WHY", "SUBJECT",
    ])
    .optional(&["TRIGGER", "PERSONA"]);
    context
        .screen
        .list(&runs, columns, "there is no such run", row)
}

async fn answer(
    context: &CommandContext,
    store: &Store,
    message: &MessageId,
) -> anyhow::Result<()> {
    let run = store.answer_message(message).await?;
    if context.json() {
        return context.screen.json(&json!({
            "message": message,
            "run": run,
            "outcome": "queued",
        }));
    }
    let next = "a serving engine takes it within about a second, `attache drain` now";
    Ok(context
        .screen
        .line(format!("queued run {run} for letter {message}; {next}"))?)
}

/// Outcome of an action on a run.
#[derive(Serialize)]
struct ActionOutcome<'a> {
    run: &'a RunId,
    outcome: &'static str,
}

async fn cancel(context: &CommandContext, store: &Store, run: &RunId) -> anyhow::Result<()> {
    // Kept to the end: no engine begins in between.
    let alone = take_over_orphan(context, store, run).await?;
    // A run that took several engines down is ended by the take-over itself.
    let ended = match alone {
        Some(_) => Some(store.run_summary(run).await?.state).filter(|state| state.is_terminal()),
        None => None,
    };
    let (word, sentence) = match ended {
        Some(state) => (
            state.as_str(),
            format!(
                "run {run} has ended by itself: it is {state}; `attache runs show {run}` says why"
            ),
        ),
        None => match store.request_cancel(run).await? {
            Cancellation::Done => ("cancelled", format!("cancelled run {run}")),
            Cancellation::Requested => (
                "requested",
                format!("asked the engine to stop run {run}; it does so within about a second"),
            ),
        },
    };
    if context.json() {
        return context.screen.json(&ActionOutcome { run, outcome: word });
    }
    Ok(context.screen.line(sentence)?)
}

/// Opens the workspace as an engine does if no engine works on a run that is at work by its row: that puts it back into the queue,
/// kills what its agents left, and closes its calls. `None`: there is no need.
///
/// Errors: an engine cannot be opened, because of its configuration for example.
async fn take_over_orphan(
    context: &CommandContext,
    store: &Store,
    run: &RunId,
) -> anyhow::Result<Option<Engine>> {
    let is_running = store.run_summary(run).await?.state == RunState::Running;
    if !is_running || working_engine(&context.workspace).is_some() {
        return Ok(None);
    }
    let config = context.config().map_err(|errors| unusable(run, errors))?;
    match Engine::open(config, Arc::new(SystemClock::new())).await {
        // One that has just begun is asked.
        Err(error) if matches!(error.downcast_ref(), Some(OpenError::InUse { .. })) => Ok(None),
        opened => Ok(Some(opened.map_err(|error| unusable(run, error))?)),
    }
}

fn unusable(run: &RunId, error: impl Into<anyhow::Error>) -> Failure {
    let error = error.into();
    let message =
        format!("run {run} was left by an engine that is gone, and none can be opened to end it");
    let (exit, hint) = judge(&error);
    let hint = hint
        .unwrap_or_else(|| "mend what `attache config check` finds, and say it again".to_owned());
    Failure::new(exit, message).hint(hint).because(error)
}

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
        let run = found(&store, id).await?;
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
            return context.screen.json(&json!({
                "found": count,
                "queued": queued,
                "runs": ids,
            }));
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
