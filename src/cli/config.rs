//! `attache config check`: reads the whole configuration and lists every problem.

use super::{Command, Context, Exit};
use clap::ArgMatches;
use futures_util::future::BoxFuture;

pub struct ConfigCommand;

impl Command for ConfigCommand {
    fn clap(&self) -> clap::Command {
        clap::Command::new("config")
            .about("Check and show the configuration")
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommand(
                clap::Command::new("check")
                    .about("List everything that is wrong; exit code 65 if anything is"),
            )
    }
    fn run<'a>(&'a self, context: &'a Context, args: &'a ArgMatches) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            match args.subcommand() {
                Some(("check", _)) => check(context),
                _ => Ok(Exit::Usage),
            }
        })
    }
}

fn check(context: &Context) -> anyhow::Result<Exit> {
    let problems = match context.config() {
        Ok(_) => Vec::new(),
        Err(errors) => errors.problems,
    };
    if context.json() {
        context.screen.json(&problems)?;
    } else if problems.is_empty() {
        context.screen.line("the configuration is good")?;
    }
    for problem in problems.iter().filter(|_| !context.json()) {
        context.screen.line(problem.to_string())?;
    }
    Ok(if problems.is_empty() { Exit::Ok } else { Exit::BadData })
}
