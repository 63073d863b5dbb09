//! `attache replay show RUN|THREAD|last`: everything that happened, as a timeline.

use super::{Named, named};
use crate::cli::output::{Screen, Unwritten};
use crate::cli::{Command, Context, Exit};
use crate::replay::timeline::{self, Line, Tone};
use crate::replay::{load_run, load_thread};
use anstyle::{AnsiColor, Style};
use clap::{Arg, ArgAction, ArgMatches};
use futures_util::future::BoxFuture;

pub struct Show;

/// Messages and runs of a thread's timeline, the newest.
const MESSAGES_MAX: u32 = 200;
const RUNS_MAX: u32 = 50;

/// Its arguments, which `attache replay` takes without a subcommand too.
pub fn args() -> [Arg; 2] {
    [
        Arg::new("id")
            .value_name("RUN|THREAD|last")
            .required(true)
            .help("An id, its first characters, or `last` for the newest run"),
        Arg::new("full").long("full").action(ArgAction::SetTrue).help("Show long texts and values whole"),
    ]
}

impl Command for Show {
    fn clap(&self) -> clap::Command {
        clap::Command::new("show")
            .about("Show everything that happened in a run or a thread, in order")
            .args(args())
    }
    fn run<'a>(&'a self, context: &'a Context, args: &'a ArgMatches) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            let id = args.get_one::<String>("id").map(String::as_str).unwrap_or_default();
            let store = context.store_beside().await?;
            let lines = match named(&store, id).await? {
                Named::Run(run) => {
                    let record = load_run(&store, &run).await?;
                    if context.json() {
                        context.screen.json(&record)?;
                        return Ok(Exit::Ok);
                    }
                    timeline::run(&record, args.get_flag("full"))
                }
                Named::Thread(thread) => {
                    let record = load_thread(&store, &thread, MESSAGES_MAX, RUNS_MAX).await?;
                    if context.json() {
                        context.screen.json(&record)?;
                        return Ok(Exit::Ok);
                    }
                    timeline::thread(&record, args.get_flag("full"))
                }
            };
            print(&context.screen, &lines)?;
            Ok(Exit::Ok)
        })
    }
}

/// Prints lines; colours only on a terminal.
pub fn print(screen: &Screen, lines: &[Line]) -> Result<(), Unwritten> {
    for line in lines {
        let pieces = line.spans.iter().map(|span| (style(span.tone), span.text.as_str()));
        screen.styled(&pieces.collect::<Vec<_>>())?;
    }
    Ok(())
}

fn style(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::new(),
        Tone::Title => Style::new().bold(),
        Tone::Good => AnsiColor::Green.on_default(),
        Tone::Bad => AnsiColor::Red.on_default(),
        Tone::Faint => Style::new().dimmed(),
    }
}
