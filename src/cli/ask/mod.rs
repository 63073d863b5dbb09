//! `attache ask PERSONA TEXT`: a question at this machine, answered on the terminal as the answer is made. With an engine at work,
//! that one answers; without, this command works off what is due.

mod answer;
mod view;
mod follow;
mod exchange;

pub use exchange::{exchange, persona_named, thread_of};
pub use view::AnswerView;

use super::args::{in_force, text};
use super::{Command, CommandContext, Exit, Failure};
use clap::{Arg, ArgAction, ArgMatches};
use futures_util::future::BoxFuture;
use std::io::{IsTerminal, Read};

pub struct Ask;

/// Longest question, in bytes.
const TEXT_BYTES_MAX: usize = 256 * 1024;

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
    let persona = persona_named(&config, text(args, "persona"))?;
    let asked_for = text_of(args)?;
    in_force::remark(&in_force::compare(context));
    let thread = match args.get_one::<String>("thread") {
        Some(typed) => {
            let store = context.store_of_engine().await?;
            Some(thread_of(&store, &persona.id, typed).await?)
        }
        None => None,
    };
    let mut view = AnswerView::new(context);
    let asked = (asked_for.as_str(), thread);
    Ok(exchange(context, (&config, persona), asked, &mut view)
        .await?
        .exit)
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
