//! `attache replay RUN|THREAD|last`: everything that happened, as a timeline.

use super::output::{Screen, Unwritten};
use super::{Command, Context, Exit, Failure};
use crate::domain::{RunId, ThreadId};
use crate::replay::timeline::{self, Line, Tone};
use crate::replay::{load_run, load_thread};
use crate::store::{ID_PREFIX_CHARS_MIN, Store, StoreError};
use anstyle::{AnsiColor, Style};
use clap::{Arg, ArgAction, ArgMatches};
use futures_util::future::BoxFuture;

pub struct ReplayCommand;

/// The word for the run that was queued last.
const LAST: &str = "last";
/// Messages and runs of a thread's timeline, the newest.
const MESSAGES_MAX: u32 = 200;
const RUNS_MAX: u32 = 50;

impl Command for ReplayCommand {
    fn clap(&self) -> clap::Command {
        clap::Command::new("replay")
            .about("Show everything that happened in a run or a thread, in order")
            .arg(
                Arg::new("id")
                    .value_name("RUN|THREAD|last")
                    .required(true)
                    .help("An id, its first characters, or `last` for the newest run"),
            )
            .arg(
                Arg::new("full")
                    .long("full")
                    .action(ArgAction::SetTrue)
                    .help("Show long texts and values whole"),
            )
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
            show(&context.screen, &lines)?;
            Ok(Exit::Ok)
        })
    }
}

/// What there is to say of `last` in a workspace where nothing has happened.
const NO_RUN_YET: &str = "there is no run yet";

enum Named {
    Run(RunId),
    Thread(ThreadId),
}

async fn named(store: &Store, id: &str) -> anyhow::Result<Named> {
    match find_run(store, id).await {
        Ok(run) => Ok(Named::Run(run)),
        Err(of_runs) => match (&of_runs, store.find_thread(id).await) {
            (StoreError::Missing { .. }, Ok(thread)) => Ok(Named::Thread(thread)),
            (StoreError::Missing { .. }, Err(StoreError::Missing { .. })) => {
                if id == LAST {
                    return Err(not_found(of_runs, "`attache runs list`"));
                }
                let message = format!("no run and no thread `{id}`");
                Err(Failure::new(Exit::NoInput, message).hint(id_hint("`attache runs list`")).into())
            }
            (StoreError::Missing { .. }, Err(of_threads)) => Err(of_threads.into()),
            _ => Err(of_runs.into()),
        },
    }
}

fn id_hint(listing: &str) -> String {
    format!(
        "{listing} shows ids; their first {ID_PREFIX_CHARS_MIN} characters or more will do if no other begins so"
    )
}

/// The run of an id, of its beginning, or of the word `last`.
pub async fn find_run(store: &Store, id: &str) -> Result<RunId, StoreError> {
    if id != LAST {
        return store.find_run(id).await;
    }
    let newest = store.newest_run().await?;
    newest.ok_or_else(|| StoreError::Missing { kind: "run", id: id.to_owned() })
}

/// An error of finding something by its id, with a hint where to look.
pub fn not_found(error: StoreError, listing: &str) -> anyhow::Error {
    match error {
        StoreError::Missing { kind: "run", ref id } if id == LAST => {
            Failure::new(Exit::NoInput, NO_RUN_YET).hint("`attache ingest FILE` brings a first letter").into()
        }
        StoreError::Missing { .. } => {
            Failure::new(Exit::NoInput, error.to_string()).hint(id_hint(listing)).into()
        }
        other => other.into(),
    }
}

/// Prints lines; colours only on a terminal.
pub fn show(screen: &Screen, lines: &[Line]) -> Result<(), Unwritten> {
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
