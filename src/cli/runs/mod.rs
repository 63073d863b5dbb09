//! `attache runs list|show|cancel|retry|answer`: the runs of the personas, and the operator's
//! actions on them.

mod cancel;
mod retry;
mod show;

use super::args::lookup::{find_letter, find_run, no_such_run};
use super::args::{PageArgs, instant, persona_of};
use super::screen::Columns;
use super::{CommandContext, Exit};
use crate::domain::{MessageId, RunId, RunState};
use crate::replay::load_run;
use crate::store::{RunFilter, RunSummary, Store};
use clap::builder::PossibleValuesParser;
use serde::Serialize;

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
    Retry(retry::RetryRuns),
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
                cancel::cancel(context, &store, &run).await?;
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
        return context.screen.json(&AnsweredLetter {
            message,
            run: &run,
            outcome: "queued",
        });
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

/// Outcome of answering a filed letter.
#[derive(Serialize)]
struct AnsweredLetter<'a> {
    message: &'a MessageId,
    run: &'a RunId,
    outcome: &'static str,
}
