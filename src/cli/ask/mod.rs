//! `attache ask PERSONA TEXT`: a question at this machine, answered on the terminal as the answer is made. With an engine at work,
//! that one answers; without, this command works off what is due.

mod answer;
mod view;
mod follow;

use super::args::{in_force, text};
use super::{Command, CommandContext, Exit, Failure};
use crate::app::Engine;
use crate::clock::SystemClock;
use crate::config::{Config, Persona};
use crate::domain::{PersonaId, ThreadId};
use crate::runs::chat::outcome::AskedRun;
use crate::runs::chat::question::{AskedAt, question};
use crate::store::{OpenError, Store, working_engine};
use answer::report;
use clap::{Arg, ArgAction, ArgMatches};
use follow::{QuestionWait, Waited};
use futures_util::future::BoxFuture;
use std::io::{IsTerminal, Read};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use view::AnswerView;

pub struct Ask;

/// Longest question, in bytes.
const TEXT_BYTES_MAX: usize = 256 * 1024;
/// Time between two looks at what is due, while the question waits for another attempt.
const BETWEEN_DRAINS: Duration = Duration::from_millis(500);

impl Command for Ask {
    fn clap(&self) -> clap::Command {
        clap::Command::new("ask")
            .about("Ask a persona, and show its answer")
            .after_help(
                "The question is a run like any other, with the persona's tools, rules and budget; nothing of the answer is mailed. \
                 Without an engine at work, this command works off everything that is due, as `attache drain` does.",
            )
            .arg(Arg::new("persona").value_name("PERSONA").required(true).help("The persona"))
            .arg(
                Arg::new("text")
                    .value_name("TEXT")
                    .action(ArgAction::Append)
                    .num_args(0..)
                    .help("The question; `-` or nothing: from standard input"),
            )
            .arg(
                Arg::new("thread")
                    .long("thread")
                    .value_name("ID")
                    .help("Thread of an earlier question, to go on with"),
            )
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move { ask(context, args).await })
    }
}

async fn ask(context: &CommandContext, args: &ArgMatches) -> anyhow::Result<Exit> {
    context.require_workspace()?;
    let config = context.config()?;
    let typed = text(args, "persona");
    let known = PersonaId::parse(typed).ok();
    let Some(persona) = known.and_then(|id| config.personas.get(&id)) else {
        let names: Vec<&str> = config
            .personas
            .iter()
            .map(|persona| persona.id.as_str())
            .collect();
        return Err(Failure::new(Exit::NoInput, format!("no persona `{typed}`"))
            .hint(format!("there are: {}", names.join(", ")))
            .into());
    };
    let asked_for = text_of(args)?;
    in_force::remark(&in_force::edited(context));
    let mut engine = match working_engine(&context.workspace) {
        Some(_) => None,
        None => engine_here(&config).await?,
    };
    let store = match &engine {
        Some(engine) => engine.store.clone(),
        None => context.store_of_engine().await?,
    };
    let thread = match args.get_one::<String>("thread") {
        Some(typed) => Some(thread_of(&store, persona, typed).await?),
        None => None,
    };
    let new = question(
        (persona, AskedAt::Terminal),
        store.clock().as_ref(),
        &asked_for,
        thread,
    );
    let run = new.run.id.clone();
    store.persona(&persona.id).ask(new).await?;
    let asked = AskedRun::of(&store, &run).await?;
    let mut view = AnswerView::new(context);
    let mut waiting = QuestionWait::new(context, &store, &asked)?;
    loop {
        if let Some(engine) = &engine {
            return answered_here(context, engine, (&mut waiting, &mut view)).await;
        }
        match waiting.wait(&mut view, false).await? {
            Waited::Settled(asked) => return report(context, &asked, &mut view),
            Waited::NoEngine => engine = engine_here(&config).await?,
        }
    }
}

/// Opens an engine in this process; `None`: another one has just begun to work here.
async fn engine_here(config: &Config) -> anyhow::Result<Option<Engine>> {
    match Engine::open(config.clone(), Arc::new(SystemClock::new())).await {
        Err(error) if matches!(error.downcast_ref(), Some(OpenError::InUse { .. })) => Ok(None),
        opened => opened.map(Some),
    }
}

/// Works off what is due until the question is settled. The answer shows as soon as it is there, and what is left is worked off
/// behind it.
async fn answered_here(
    context: &CommandContext,
    engine: &Engine,
    (waiting, view): (&mut QuestionWait<'_>, &mut AnswerView<'_>),
) -> anyhow::Result<Exit> {
    let is_settled = CancellationToken::new();
    let working = work_until(engine, &is_settled);
    tokio::pin!(working);
    let waited = tokio::select! {
        waited = waiting.wait(view, true) => Some(waited?),
        worked = &mut working => {
            worked?;
            None
        }
    };
    if let Some(Waited::Settled(asked)) = waited {
        let exit = report(context, &asked, view)?;
        is_settled.cancel();
        tokio::select! {
            worked = working => worked.map(|()| exit),
            () = waiting.interrupted() => Ok(exit),
        }
    } else {
        waiting.look(view).await?;
        let asked = waiting.asked().await?;
        report(context, &asked, view)
    }
}

/// Works off what is due, again and again until `is_settled`: a run that is parked comes due later.
async fn work_until(engine: &Engine, is_settled: &CancellationToken) -> anyhow::Result<()> {
    loop {
        engine.drain().await?;
        tokio::select! {
            () = is_settled.cancelled() => return Ok(()),
            () = tokio::time::sleep(BETWEEN_DRAINS) => {}
        }
    }
}

/// Reads the question.
fn text_of(args: &ArgMatches) -> anyhow::Result<String> {
    let typed: Vec<&String> = args.get_many("text").into_iter().flatten().collect();
    let text = match typed.as_slice() {
        [] => from_stdin()?,
        [one] if *one == "-" => from_stdin()?,
        words => words
            .iter()
            .map(|word| word.as_str())
            .collect::<Vec<_>>()
            .join(" "),
    };
    if text.trim().is_empty() {
        return Err(Failure::new(Exit::BadData, "the question is empty")
            .hint("write it behind the persona, or send it to standard input")
            .into());
    }
    if text.len() > TEXT_BYTES_MAX {
        let message = format!(
            "the question has {} bytes, and at most {TEXT_BYTES_MAX} are read",
            text.len()
        );
        return Err(Failure::new(Exit::BadData, message).into());
    }
    Ok(text)
}

fn from_stdin() -> anyhow::Result<String> {
    if std::io::stdin().is_terminal() {
        return Err(Failure::new(Exit::Usage, "there is no question")
            .hint("write it behind the persona, or send it to standard input")
            .into());
    }
    let mut text = String::new();
    let most = u64::try_from(TEXT_BYTES_MAX).unwrap_or(u64::MAX) + 1;
    std::io::stdin()
        .lock()
        .take(most)
        .read_to_string(&mut text)
        .map_err(|error| {
            Failure::new(
                Exit::BadData,
                format!("standard input cannot be read: {error}"),
            )
            .hint("a question is text in UTF-8")
        })?;
    Ok(text)
}

/// Finds a thread of earlier questions. Errors: it is another, whose people or agents would be shown what is asked here.
async fn thread_of(store: &Store, persona: &Persona, typed: &str) -> anyhow::Result<ThreadId> {
    let thread = ThreadId::new(typed);
    let rows = store.persona(&persona.id);
    if !rows.has_thread(&thread).await? {
        return Err(Failure::new(
            Exit::NoInput,
            format!("{} has no thread `{typed}`", persona.id),
        )
        .hint("`attache ask … --json` shows the thread of a question")
        .into());
    }
    match rows
        .is_asked_at(&thread, AskedAt::Terminal.as_str())
        .await?
    {
        true => Ok(thread),
        false => Err(Failure::new(
            Exit::BadData,
            format!("`{typed}` is no thread of `attache ask`"),
        )
        .hint("go on with one that `attache ask` began")
        .into()),
    }
}
