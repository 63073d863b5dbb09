//! `attache policy`: which rule decides, and what the rules would have decided.

mod explain;
mod preview;

use super::{Command, CommandContext, Exit};
use clap::ArgMatches;
use futures_util::future::BoxFuture;

pub struct PolicyCommand;

impl Command for PolicyCommand {
    fn clap(&self) -> clap::Command {
        clap::Command::new("policy")
            .about("Explain which calls of tools are allowed, asked about or refused, and why")
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommand(explain::command())
            .subcommand(preview::test_command())
            .subcommand(preview::command())
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            match args.subcommand() {
                Some(("explain", args)) => explain::run(context, args),
                Some(("test", args)) => preview::test(context, args).await,
                Some((_, args)) => preview::run(context, args).await,
                None => Ok(Exit::Usage),
            }
        })
    }
}
