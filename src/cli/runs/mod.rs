//! `attache runs list|show|cancel|retry|answer`: the runs of the personas, and the operator's
//! actions on them.

mod cancel;
mod retry;
mod show;

use super::args::lookup::{find_letter, find_run, no_such_run};
use super::args::{id_arg, instant_of, number, page_args, persona_of, text};
use super::screen::Columns;
use super::{Command, CommandContext, Exit};
use crate::domain::{MessageId, RunId, RunState};
use crate::replay::load_run;
use crate::store::{RunFilter, Store};
use clap::{Arg, ArgAction, ArgMatches, builder::PossibleValuesParser};
use futures_util::future::BoxFuture;
use serde::Serialize;

pub struct RunsCommand;

impl Command for RunsCommand {
    fn clap(&self) -> clap::Command {
        let states = RunState::ALL.iter().map(|state| state.as_str());
        let states = PossibleValuesParser::new(states);
        let state = Arg::new("state")
            .long("state")
            .value_name("STATE")
            .action(ArgAction::Append)
            .value_delimiter(',')
            .value_parser(states)
            .help("Only runs in this state; may be given several times");
        let since = Arg::new("since")
            .long("since")
            .value_name("TIME")
            .help("Only runs queued since then: `30m`, `24h`, `7d`, 2026-11-20 (midnight UTC), or 2026-11-20T09:00:00Z");
        let named = |name: &'static str, about: &'static str| {
            clap::Command::new(name)
                .about(about)
                .arg(id_arg().help("Its id, the last or first characters of it, or `last`"))
        };
        clap::Command::new("runs")
            .about("List, show, cancel and retry runs, and answer what was filed")
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommand(
                clap::Command::new("list")
                    .about("List runs, the newest first")
                    .args(page_args())
                    .arg(state)
                    .arg(since),
            )
            .subcommand(named("show", "Show what is known of a run, in tables; `replay` tells it as a story"))
            .subcommand(named("cancel", "End a run that has not ended; one that an engine left behind, too"))
            .subcommand(clap::Command::new("answer").about("Answer a letter that a rule has filed").arg(
                id_arg().help(
                    "The letter's id, the last or first characters of it, or `last` for the newest that is filed",
                ),
            ))
            .subcommand(retry::command())
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            let Some((command, args)) = args.subcommand() else {
                return Ok(Exit::Usage);
            };
            if command == "list" {
                return list(context, args).await;
            }
            let store = match command {
                "answer" | "retry" => context.store_of_engine().await?,
                _ => context.shared_store().await?,
            };
            if command == "retry" && args.get_flag("failed") {
                return retry::failed(context, &store, args).await;
            }
            let id = text(args, "id");
            if command == "answer" {
                let message = find_letter(&store, id).await?;
                answer(context, &store, &message).await?;
                return Ok(Exit::Ok);
            }
            let run = match find_run(&store, id).await {
                Ok(run) => run,
                Err(error) => return Err(no_such_run(&store, error).await),
            };
            match command {
                "show" => show::show(context, &load_run(&store, &run).await?)?,
                "cancel" => cancel::cancel(context, &store, &run).await?,
                _ => retry::one(context, &store, &run).await?,
            }
            Ok(Exit::Ok)
        })
    }
}

async fn list(context: &CommandContext, args: &ArgMatches) -> anyhow::Result<Exit> {
    let states = args.get_many::<String>("state").into_iter().flatten();
    let since = instant_of(args, "since")?;
    let store = context.shared_store().await?;
    let filter = RunFilter {
        states: states.filter_map(|word| RunState::parse(word)).collect(),
        persona: persona_of(context, &store, args).await?,
        since,
        ended_since: None,
        limit: number(args, "limit"),
        offset: number(args, "offset"),
    };
    let runs = store.list_runs(&filter).await?;
    if context.json() {
        context.screen.json(&runs)?;
        return Ok(Exit::Ok);
    }
    let rows = runs.iter().map(|run| {
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
    });
    let columns = Columns::of(&[
        "ID", "QUEUED", "PERSONA", "TRIGGER", "STATE", "WHY", "SUBJECT",
    ])
    .optional(&["TRIGGER", "PERSONA"]);
    context
        .screen
        .listing(columns, &rows.collect::<Vec<_>>(), "there is no such run")?;
    Ok(Exit::Ok)
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
