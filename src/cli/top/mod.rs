//! `attache top`: the engine, its queues, its runs and the money, on one screen that keeps up, and once in a pipe.
//!
//! It reads what the other commands read and writes nothing. Absent on purpose: a library for screens; it draws lines.

mod state;

use super::screen::remark;
use super::tail::line;
use super::{Command, CommandContext, Exit};
use crate::cli::args::number;
use crate::config::dollars;
use crate::domain::RunState;
use crate::store::FeedFilter;
use crate::text::{one_line, shortened};
use anyhow::Context as _;
use chrono_tz::Tz;
use clap::{Arg, ArgMatches, value_parser};
use futures_util::future::BoxFuture;
use state::TopState;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

pub struct TopCommand;

/// Newest events that are shown below.
const EVENTS: u32 = 8;
const SUBJECT_CHARS_MAX: usize = 50;

impl Command for TopCommand {
    fn clap(&self) -> clap::Command {
        clap::Command::new("top")
            .about("Watch the engine: what is at work, what waits, what it costs today")
            .after_help("On a terminal it keeps up until Ctrl-C; in a pipe and with --json it shows the state once.")
            .arg(
                Arg::new("every")
                    .long("every")
                    .value_name("SECONDS")
                    .value_parser(value_parser!(u32).range(1..=3600))
                    .default_value("2")
                    .help("Look again after so many seconds"),
            )
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(top(
            context,
            Duration::from_secs(number(args, "every").into()),
        ))
    }
}

async fn top(context: &CommandContext, pause: Duration) -> anyhow::Result<Exit> {
    let store = super::tail::store_to_read(context).await?;
    let workspace = context.require_workspace()?;
    // A configuration that cannot be read is no reason to show nothing.
    let zone = context
        .config()
        .map_or(Tz::UTC, |config| config.inference.budgets.zone);
    if context.json() {
        context
            .screen
            .json(&TopState::of(&store, workspace, zone).await?)?;
        return Ok(Exit::Ok);
    }
    let mut interrupts = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    loop {
        let state = TopState::of(&store, workspace, zone).await?;
        context.screen.clear()?;
        show(context, &state)?;
        let all = FeedFilter::default();
        let since = store.feed_before_newest(&all, EVENTS).await?;
        let events = store.feed_after(since, &all, EVENTS).await?;
        for event in store.feed_lines(&events.events).await? {
            line::show(context, &event)?;
        }
        if !context.terminal() {
            return Ok(Exit::Ok);
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = interrupts.recv() => {
                remark("`attache tail --follow` tells of each event as it happens");
                return Ok(Exit::Ok);
            }
        }
    }
}

fn show(context: &CommandContext, state: &TopState) -> anyhow::Result<()> {
    let screen = &context.screen;
    let engine = match &state.engine {
        Some(pid) => format!("at work, process {pid}"),
        None => "none is at work: `attache serve` starts one".to_owned(),
    };
    let halted = match state.halted.as_slice() {
        [] => String::new(),
        some => format!("; halted: {}", some.join(", ")),
    };
    let runs = RunState::ALL
        .iter()
        .zip(&state.runs)
        .filter(|(state, _)| !state.is_terminal())
        .map(|(state, count)| format!("{} {}", counted(*count), state.as_str().replace('_', " ")));
    let mails = state
        .mails
        .iter()
        .map(|(word, count)| format!("{} {word}", counted(*count)));
    screen.fields(&[
        ("engine", format!("{engine}{halted}")),
        ("runs", runs.collect::<Vec<_>>().join(", ")),
        (
            "mail",
            format!(
                "{}; {}",
                mails.collect::<Vec<_>>().join(", "),
                state.transport
            ),
        ),
        (
            "for you",
            format!("{} open questions", counted(state.questions)),
        ),
        (
            "money",
            format!(
                "${} in {} calls since midnight in {}; {} runs wait for money",
                dollars(state.today.cost_micros),
                state.today.calls,
                state.today.timezone,
                state.waiting_for_money
            ),
        ),
    ])?;
    for run in &state.at_work {
        let subject = shortened(&one_line(&run.subject), SUBJECT_CHARS_MAX);
        let model = run.model.as_deref().unwrap_or("-");
        screen.fitted(&format!(
            "  {}  {}  {}  {subject}  {model}",
            run.state, run.id, run.persona
        ))?;
    }
    Ok(screen.line("")?)
}

/// Formats a count that is looked up to a bound.
fn counted(count: usize) -> String {
    match count {
        state::COUNTED_MAX.. => format!("{}+", state::COUNTED_MAX),
        count => count.to_string(),
    }
}
