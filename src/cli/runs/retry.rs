//! `attache runs retry`: queues failed runs again, one or all that failed.

use super::ActionOutcome;
use crate::cli::args::{id_arg, instant_of, persona_of};
use crate::cli::{CommandContext, Exit};
use crate::domain::{ErrorClass, RunId};
use crate::store::{FailedRuns, Store};
use crate::text::plural;
use clap::{Arg, ArgAction, ArgMatches, builder::PossibleValuesParser};
use serde::Serialize;

pub fn command() -> clap::Command {
    let classes = PossibleValuesParser::new(ErrorClass::ALL.iter().map(|class| class.as_str()));
    // Not `requires("failed")`: clap waives it when an argument that conflicts with it is given.
    let of_failed = |name: &'static str, value: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name(value)
            .conflicts_with("id")
    };
    let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    clap::Command::new("retry")
        .about("Queue a failed, cancelled or waiting run for now, or with --failed all that failed")
        .arg(
            id_arg()
                .required(false)
                .help("Its id, the last or first characters of it, or `last`"),
        )
        .arg(
            flag("failed")
                .conflicts_with("id")
                .help("All failed runs; says how many and waits for --yes"),
        )
        .arg(
            of_failed("class", "CLASS")
                .value_parser(classes)
                .help("Only those that failed with this class"),
        )
        .arg(of_failed("persona", "ID").help("Only this persona's"))
        .arg(of_failed("since", "TIME").help("Only those that failed since then, such as `12h`"))
        .arg(flag("yes").conflicts_with("id").help("Do it"))
        .group(
            clap::ArgGroup::new("which")
                .args(["id", "failed"])
                .required(true),
        )
}

/// Retries all failed runs at once, such as after an expired key.
pub async fn failed(
    context: &CommandContext,
    store: &Store,
    args: &ArgMatches,
) -> anyhow::Result<Exit> {
    let which = FailedRuns {
        class: args
            .get_one::<String>("class")
            .and_then(|word| ErrorClass::parse(word)),
        persona: persona_of(context, store, args).await?,
        since: instant_of(args, "since")?,
    };
    let found = store.failed_runs(&which).await?;
    let (count, is_meant) = (found.len(), args.get_flag("yes"));
    let ids = found.clone();
    let queued = if is_meant && count > 0 {
        store.retry_runs(found).await?
    } else {
        0
    };
    if context.json() {
        context.screen.json(&RetriedRuns {
            found: count,
            queued,
            runs: ids,
        })?;
        return Ok(Exit::Ok);
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
    Ok(Exit::Ok)
}

pub async fn one(context: &CommandContext, store: &Store, run: &RunId) -> anyhow::Result<()> {
    store.retry_run(run).await?;
    if context.json() {
        let outcome = "queued";
        return context.screen.json(&ActionOutcome { run, outcome });
    }
    let next = "a serving engine takes it within about a second, `attache drain` now";
    Ok(context.screen.line(format!("queued run {run}; {next}"))?)
}

/// Outcome of retrying all failed runs.
#[derive(Serialize)]
struct RetriedRuns {
    found: usize,
    queued: usize,
    runs: Vec<RunId>,
}
